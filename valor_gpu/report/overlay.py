"""Pictures of images with what was detected, what was detected wrongly and what was missed. Needs the extra ``plot``.

Colours are Okabe and Ito's for colour-blind readers, and outlines differ by dashes as well. Imports matplotlib only to
draw.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from valor_gpu.checks import check_choice
from valor_gpu.drawing import Texts
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco_ids import row_ids
from valor_gpu.report.files import part_of_name, write_file
from valor_gpu.report.labels import free_place
from valor_gpu.report.photos import Pixels, of_few_colors, photo_problem, read_photo
from valor_gpu.report.text import plural
from valor_gpu.result import require_matplotlib

if TYPE_CHECKING:
    from valor_gpu.coco import COCO, COCOeval, LVISEval
    from valor_gpu.coco.outcomes import Outcomes


class _Style(NamedTuple):
    words: str
    color: str
    dashes: Any


_STYLES = {
    "FN": _Style("missed ground truth (FN)", "#0072B2", (0, (1.2, 1.2))),
    "TP": _Style("correct detection (TP)", "#009E73", "solid"),
    "FP": _Style("wrong detection (FP)", "#D55E00", (0, (5, 2))),
}
OUTCOMES = tuple(_STYLES)
"""What an object can be, in the order in which objects are drawn."""

_KINDS = {
    "segm": "mask",
    "boundary": "mask",
    "keypoints": "keypoints",
    "keypoints_crowd": "keypoints",
    "rotated": "corners",
}
_DPI, _LONG_SIDE, _NARROWEST = 100, 10.0, 5.6  # inches
_MARGIN_TOP, _MARGIN_BOTTOM, _FONT_SIZE = 0.5, 0.4, 7.5
_MOST_LABELS = 150  # placing more takes seconds, and nobody reads them
MAX_PIXELS = 10**8
"""Most pixels of an image to draw: each takes 24 bytes and more."""


@dataclass(frozen=True, eq=False)
class Shape:
    """An object to draw.

    Attributes:
        outcome: ``TP``, ``FP`` or ``FN``.
        name: of its class.
        box: x, y, width and height in pixels.
        score: of a detection, None for a ground truth.
        mask: bool ``[H, W]``; None: the box is drawn.
        keypoints: float ``[K, 3]``, x, y and visibility, drawn besides the box.
        skeleton: pairs of keypoints, from 0, that a line joins.
        corners: float ``[4, 2]`` of a rotated box, drawn in place of the box.
    """

    outcome: str
    name: str
    box: tuple[float, float, float, float]
    score: float | None = None
    mask: Pixels | None = None
    keypoints: Pixels | None = None
    skeleton: Sequence[tuple[int, int]] = ()
    corners: Pixels | None = None

    @property
    def label(self) -> str:
        """Its name, and the score of a detection."""
        return self.name if self.score is None else f"{self.name} {self.score:.2f}"


def _check_size(name: str, size: Any) -> None:
    if not all(isinstance(side, int) and side > 0 for side in size):
        raise InputError(f"{name} must have height and width, at least 1, but has {list(size)}")
    if size[0] * size[1] > MAX_PIXELS:
        raise InputError(f"{name} must have at most {MAX_PIXELS} pixels to be drawn but is {size[0]} x {size[1]}")


def draw_worst_images(
    evaluation: COCOeval | LVISEval,
    folder: Path,
    count: int = 10,
    photos: Path | None = None,
    iou_threshold: float = 0.5,
    lowest_score: float = 0.0,
    on_missing: Callable[[Path], None] | None = None,
    on_unusable: Callable[[str], None] | None = None,
) -> list[Path]:
    """Draws the images with most errors into PNG files of ``folder``; returns them, the worst first.

    Args:
        evaluation: after ``evaluate()``; what it compares is drawn: boxes, upright or rotated, masks, or keypoints with
            boxes.
        folder: made where it is not there; files in it that have other names stay.
        count: how many images at most; those without an error are not drawn.
        photos: folder of the images, by their ``file_name`` or the end of their ``coco_url``; None: a plain canvas.
        iou_threshold: from which on a detection matches; of keypoints, the object keypoint similarity (OKS).
        lowest_score: detections below it are left out.
        on_missing: called with the path of a photo that is not there, whose image is then drawn on a plain canvas;
            None: that is an error.
        on_unusable: likewise, with the reason, of a photo that is damaged or has another size.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: nothing was evaluated, or an image to draw has no size, more than ``MAX_PIXELS``, no file, or one of
            another size.
    """
    from valor_gpu.coco.outcomes import outcomes

    require_matplotlib("pictures of images")
    found = outcomes(evaluation, iou_threshold, lowest_score)
    folder.mkdir(parents=True, exist_ok=True)
    truth, kind = _compared(evaluation)
    what, drawn = _KINDS.get(kind, "box"), []
    for rank, worst in enumerate(found.worst_images(count), 1):
        image: Any = truth.loadImgs(worst.image_id)[0]
        # LVIS v1 has addresses in place of names of files.
        name = str(image.get("file_name") or str(image.get("coco_url") or "").rpartition("/")[2])
        size = image.get("height"), image.get("width")
        _check_size(f"image {worst.image_id}", size)
        photo = None if photos is None else photos / name
        if photo is not None and not photo.is_file():
            if on_missing is None:
                raise InputError(f"image {worst.image_id} must be the file {photo}, which does not exist")
            on_missing(photo)
            photo = None
        if on_unusable is not None and (problem := photo_problem(photo, size)):
            on_unusable(problem)
            photo = None
        above = "" if lowest_score <= 0 else f", scores from {lowest_score:g}"
        measure = "OKS" if what == "keypoints" else "boundary IoU" if kind == "boundary" else "IoU"
        errors = f"{plural(worst.fp + worst.fn, 'error')} at {measure} {iou_threshold:g}"
        headline = f"{name or 'image'} (id {worst.image_id}): {errors}"
        shapes = shapes_of_image(found, worst.position, truth, what)
        drawn.append(folder / f"{rank:03}_{part_of_name(worst.image_id)}.png")
        draw_overlay(drawn[-1], size, shapes, headline + above, photo)
    return drawn


def _compared(evaluation: COCOeval | LVISEval) -> tuple[COCO, str]:
    """The ground truths as objects, and the type of comparison."""
    from valor_gpu.coco import LVISEval

    if isinstance(evaluation, LVISEval):
        return evaluation.lvis_gt._index, evaluation.params.iou_type
    return evaluation.cocoGt, evaluation.params.iouType


def shapes_of_image(outcomes: Outcomes, position: int, ground_truth: COCO, what: str = "box") -> list[Shape]:
    """Returns the objects of an image that count.

    Args:
        outcomes: of an evaluation.
        position: of the image, see :class:`valor_gpu.coco.outcomes.ImageErrors`.
        ground_truth: gives the names of categories, and their skeletons.
        what: ``box``, ``mask``, ``keypoints`` or ``corners``: what to draw.
    """
    categories = {category["id"]: category for category in ground_truth.loadCats(ground_truth.getCatIds())}
    found = []
    sides = (outcomes.layout.detections, outcomes.layout.ground_truths)
    codes = (outcomes.detections, outcomes.ground_truths)
    for side, code, rows, wanted in zip(sides, codes, outcomes.rows_of(position), ({0: "TP", 1: "FP"}, {2: "FN"})):
        chosen = [int(row) for row in rows if int(code[row]) in wanted]
        parts = _parts(side.columns, [side.row(row) for row in chosen], what)
        for row, part in zip(chosen, parts):
            at = side.row(row)
            x, y, w, h = map(float, _around(part["corners"]) if what == "corners" else side.columns.bbox[at])
            score = None if 2 in wanted else float(side.columns.score[at])
            number = row_ids(side.columns, "category_id", [at])[0]
            category = categories.get(number, {})
            if what == "keypoints":
                part["skeleton"] = _skeleton(category, len(part["keypoints"]))
            name = str(category.get("name", number))
            found.append(Shape(wanted[int(code[row])], name, (x, y, w, h), score, **part))
    return found


def _parts(annotations: Any, rows: list[int], what: str) -> list[dict[str, Any]]:
    """What the shapes of rows have besides boxes."""
    if what == "mask":
        return [{"mask": mask} for mask in _masks(annotations, rows)]
    if what == "keypoints":
        from valor_gpu.inputs._coco_values import read_keypoints

        points = read_keypoints(annotations.values, np.array(rows, np.int64), annotations.where)
        return [{"keypoints": row} for row in points]
    if what == "corners":
        from valor_gpu.inputs.coco_rotated import corners_of, read_rotated

        return [{"corners": row} for row in corners_of(read_rotated(annotations, np.array(rows, np.int64)))]
    return [{} for _ in rows]


def _around(corners: Pixels) -> Pixels:
    """x, y, width and height of the upright box around corners."""
    return np.concatenate([corners.min(0), np.ptp(corners, 0)])


def _skeleton(category: dict[str, Any], count: int) -> list[tuple[int, int]]:
    """The lines between ``count`` keypoints; COCO numbers these from 1."""
    pairs = category.get("skeleton") or []
    return [(a - 1, b - 1) for a, b in pairs if min(a, b) >= 1 and max(a, b) <= count]


def _masks(annotations: Any, rows: list[int]) -> list[Pixels]:
    from valor_gpu.inputs.coco_masks import read_masks
    from valor_gpu.ops.runs.cpu import to_masks

    runs = read_masks(annotations, np.array(rows, np.int64))
    return [to_masks(runs.take([i]))[0].astype(bool) for i in range(len(rows))]


def draw_overlay(
    path: Path, size: tuple[int, int], shapes: Sequence[Shape], headline: str, photo: Path | Pixels | None = None
) -> None:
    """Draws the objects of an image into a picture file, without a display and without touching pyplot.

    Args:
        path: of the file; its suffix is the format.
        size: height and width of the image, pixels.
        shapes: the objects; masks have this size.
        headline: which image it is.
        photo: the image itself, a file or ``[H, W]``, ``[H, W, 3]`` or ``[H, W, 4]``, to draw on; else a plain canvas.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: a size, an outcome, a mask or a photo that does not fit.
    """
    require_matplotlib("pictures of images")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height, width = size
    if min(size) < 1:
        raise InputError(f"size must be at least 1 x 1 but got {height} x {width}")
    for shape in shapes:
        check_choice("outcome", shape.outcome, OUTCOMES)
        if shape.mask is not None and shape.mask.shape != (height, width):
            raise InputError(f"mask must have shape [{height}, {width}] but got {list(shape.mask.shape)}")
    canvas = read_photo(photo, size)
    scale = _LONG_SIDE / max(size)
    wide, high = max(width * scale, _NARROWEST), max(height * scale, 0.5)
    figure = Figure(figsize=(wide, high + _MARGIN_TOP + _MARGIN_BOTTOM), dpi=_DPI)
    FigureCanvasAgg(figure)
    total = figure.get_figheight()
    axes = figure.add_axes((0.0, _MARGIN_BOTTOM / total, 1.0, high / total))
    axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[], aspect="equal")
    axes.set_facecolor("0.97")
    ordered = sorted(shapes, key=_order)
    _draw_fills(axes, ordered, canvas, size)
    for shape in ordered:
        _draw_outline(axes, shape)
    left = _draw_labels(figure, axes, ordered)
    _draw_frame(figure, ordered, headline, left)
    content = io.BytesIO()
    figure.savefig(content, dpi=_DPI, format=path.suffix[1:].lower(), facecolor="white")
    small = photo is None and path.suffix.lower() == ".png"
    write_file(path, of_few_colors(content) if small else content.getvalue())


def _order(shape: Shape) -> tuple[float, int]:
    """Large ones first, so that small ones stay visible."""
    return -shape.box[2] * shape.box[3], OUTCOMES.index(shape.outcome)


def _rgb(color: str) -> Pixels:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0


def _draw_fills(axes: Any, shapes: Sequence[Shape], canvas: Pixels | None, size: tuple[int, int]) -> None:
    """The photo, and masks tinted in their colours over it; where masks overlap the colours mix."""
    if canvas is None and not any(shape.mask is not None for shape in shapes):
        return
    image = np.full((*size, 3), 0.97) if canvas is None else canvas.copy()
    for shape in shapes:
        if shape.mask is not None:
            tint = 0.35 if shape.mask.mean() < 0.1 else 0.2  # large ones lie under many others
            image[shape.mask] += (_rgb(_STYLES[shape.outcome].color) - image[shape.mask]) * tint
    axes.imshow(np.clip(image, 0, 1), extent=(0, size[1], size[0], 0), interpolation="nearest")


def _draw_outline(axes: Any, shape: Shape) -> None:
    from matplotlib.patches import Polygon, Rectangle

    style = _STYLES[shape.outcome]
    if shape.mask is None or not shape.mask.any():
        x, y, w, h = shape.box
        thin = 1.0 if shape.keypoints is None else 0.5
        for color, dashes, line in (("white", "solid", 2.8 * thin), (style.color, style.dashes, 1.6 * thin)):
            drawn: dict[str, Any] = {
                "fill": False,
                "edgecolor": color,
                "linestyle": dashes,
                "linewidth": line,
                "zorder": 3,
            }
            box = Rectangle((x, y), w, h, **drawn) if shape.corners is None else Polygon(shape.corners, **drawn)
            axes.add_patch(box)
        _draw_keypoints(axes, shape, style)
        return
    rows, columns = (np.flatnonzero(shape.mask.any(axis)) for axis in (1, 0))
    top, left = int(rows[0]), int(columns[0])
    part = np.pad(shape.mask[top : rows[-1] + 1, left : columns[-1] + 1].astype(float), 1)
    down, across = (np.arange(n) + start - 0.5 for n, start in zip(part.shape, (top, left)))
    axes.contour(across, down, part, [0.5], colors=style.color, linestyles=[style.dashes], linewidths=1.4, zorder=3)


def _draw_keypoints(axes: Any, shape: Shape, style: _Style) -> None:
    """Dots, and the lines between them; keypoints of visibility 0 are left out unless all of them are such."""
    if shape.keypoints is None:
        return
    seen = shape.keypoints[:, 2] > 0
    seen = seen if seen.any() else ~seen
    points = shape.keypoints[:, :2]
    for a, b in shape.skeleton:
        if seen[a] and seen[b]:
            axes.plot(*points[[a, b]].T, color=style.color, linestyle=style.dashes, linewidth=1.6, zorder=4)
    axes.scatter(*points[seen].T, s=14, color=style.color, edgecolors="white", linewidths=0.6, zorder=4.5)


def _draw_labels(figure: Any, axes: Any, shapes: Sequence[Shape]) -> int:
    """Writes the names where they hide one another least; returns how many found no place."""
    from matplotlib.transforms import Bbox

    chosen = sorted(shapes, key=lambda shape: -1.0 if shape.score is None else -shape.score)[:_MOST_LABELS]
    texts = Texts.of([shape.label for shape in chosen], limit=28)
    renderer = figure.canvas.get_renderer()
    frame = axes.get_window_extent(renderer)
    taken: list[Any] = []
    left_out = len(shapes) - len(chosen)
    for shape, words in zip(chosen, texts.texts):
        style = _STYLES[shape.outcome]
        label = axes.text(
            0, 0, words, fontsize=_FONT_SIZE, color="white", va="bottom", ha="left", zorder=5, **texts.font,
            bbox={"facecolor": style.color, "edgecolor": "white", "linewidth": 0.5, "pad": 1.2},
        )  # fmt: skip
        extent = label.get_window_extent(renderer)
        pad = 1.2 * _DPI / 72 + 1
        wide, high = extent.width + 2 * pad, extent.height + 2 * pad
        corners = axes.transData.transform(_anchors(shape))
        place = free_place(corners, wide, high, frame, taken)
        if place is None:
            label.remove()
            left_out += 1
            continue
        taken.append(Bbox.from_bounds(place[0], place[1], wide, high))
        label.set_position(axes.transData.inverted().transform((place[0] + pad, place[1] + pad)))
    return left_out


def _anchors(shape: Shape) -> Pixels:
    """Two corners of the box, the middle of the top of what is drawn, and points inside a mask, ``[3 + P, 2]``."""
    x, y, w, h = shape.box
    if shape.mask is None or not shape.mask.any():
        return np.array([[x, y], [x + w, y + h], [x + w / 2, y]])
    rows = np.flatnonzero(shape.mask.any(1))
    chosen = [int(rows[0]), *(int(rows[len(rows) * part // 8]) for part in (2, 4, 6, 1, 3, 5, 7))]
    middles = [[float(np.median(np.flatnonzero(shape.mask[row]))) + 0.5, row] for row in chosen]
    return np.array([[x, y], [x + w, y + h], *middles])


def _draw_frame(figure: Any, shapes: Sequence[Shape], headline: str, left_out: int) -> None:
    """Headline above, legend with counts below."""
    from matplotlib.lines import Line2D

    shown = Texts.of([headline], limit=110, numbered=False)
    high = figure.get_figheight()
    figure.text(0.01, 1 - 0.27 / high, shown.texts[0], fontsize="large", va="center", **shown.font)
    handles = []
    for outcome in ("TP", "FP", "FN"):
        style, count = _STYLES[outcome], sum(shape.outcome == outcome for shape in shapes)
        words = f"{style.words}: {count}"
        handles.append(Line2D([], [], color=style.color, linestyle=style.dashes, linewidth=2, label=words))
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.0, 0.0), ncols=3, frameon=False, fontsize="small",
        handlelength=2.6, columnspacing=1.4,
    )  # fmt: skip
    if left_out:
        figure.text(
            0.99, 0.2 / high, f"{plural(left_out, 'label')} without room", fontsize="small", ha="right", va="center",
            color="0.35",
        )  # fmt: skip
