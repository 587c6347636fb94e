"""Pictures of label maps: ground truth, prediction, and where they differ. Needs the extra ``plot``.

Classes are told apart by colours of Okabe and Ito for colour-blind readers and by their names in the picture, wrong
pixels by stripes. Imports matplotlib only to draw.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.drawing import Texts
from valor_gpu.drawing import width as text_width
from valor_gpu.report.files import write_file
from valor_gpu.report.photos import of_few_colors, read_photo
from valor_gpu.result import require_matplotlib

Pixels = NDArray[Any]

_HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_BACKGROUND = ("background", "_background_", "__background__", "bg", "unlabeled", "void", "other")
_GREY, _IGNORED = (0.9, 0.9, 0.9), (0.55, 0.55, 0.55)
_DPI, _LONG_SIDE, _WIDEST = 100, 6.4, 13.0  # inches
_GAP, _TOP, _TITLE, _LEGEND_ROW, _FOOT = 0.12, 0.42, 0.28, 0.21, 0.3
_STRIPE = 5  # pixels of the picture
_PALE, _TINT = 0.78, 0.6  # how far what is right goes towards white; how much of a photo a class hides
_MOST_IN_LEGEND, _SMALLEST_LABEL = 18, 0.012  # classes; share of the picture
_MOST_CONFUSIONS = 3


class LabelMaps(NamedTuple):
    """An image to draw.

    Attributes:
        truth: ``[H, W]``, class indices; others, such as what is ignored, are drawn grey.
        found: ``[H, W]``, likewise.
        counted: bool ``[H, W]``, which pixels count.
        name: of the image.
        headline: its numbers.
        ious: of each class, NaN of those that it does not have.
        photo: the image itself, a file; None: a plain canvas.
    """

    truth: Pixels
    found: Pixels
    counted: Pixels
    name: str
    headline: str
    ious: Sequence[float]
    photo: Path | None = None


def class_colors(names: Sequence[str], pixels: Sequence[int]) -> dict[int, Pixels]:
    """Colours of classes, floats from 0 to 1: the clearest for those with most pixels, grey for the background.

    Args:
        names: of the classes.
        pixels: how many each has in the pictures that are to share the colours.

    Example:
        >>> colors = class_colors(["background", "cat", "dog"], [90, 5, 7])
        >>> [[round(float(part), 2) for part in colors[c]] for c in (0, 2)]
        [[0.9, 0.9, 0.9], [0.0, 0.45, 0.7]]
    """
    hues = [np.array([int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5)]) for hue in _HUES]
    shades = [*hues, *(0.55 * hue for hue in hues), *(hue + (1 - hue) * 0.55 for hue in hues)]
    order = sorted(range(len(names)), key=lambda c: -pixels[c])
    plain = {0} if names and names[0].lower() in _BACKGROUND else set()
    cycle = itertools.cycle(shades)
    return {c: np.array(_GREY) if c in plain else next(cycle) for c in order}


def draw_label_maps(path: Path, maps: LabelMaps, names: Sequence[str], colors: Mapping[int, Pixels]) -> None:
    """Draws one image into a picture file, without a display and without touching pyplot.

    Args:
        path: of the file; its suffix is the format.
        maps: the image.
        names: of the classes.
        colors: of :func:`class_colors`.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: the photo has another size.
    """
    require_matplotlib("pictures of label maps")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    photo = read_photo(maps.photo, maps.truth.shape)  # type: ignore[arg-type]
    present = _classes_of(maps, len(names))
    wide, high, across = _panel_size(maps.truth.shape)
    columns, rows = (3, 1) if across else (1, 3)
    width = columns * (wide + _GAP) + _GAP
    longest = min(max(len(names[c]) for c in present), 20) if present else 0
    legend_columns = max(1, int(width / (1.25 + 0.085 * longest)))
    legend_rows = math.ceil((min(len(present), _MOST_IN_LEGEND) + 1) / legend_columns)
    bottom = _FOOT + _LEGEND_ROW * legend_rows + 0.08
    figure = Figure(figsize=(width, _TOP + rows * (high + _TITLE) + bottom), dpi=_DPI)
    FigureCanvasAgg(figure)
    shown = _Shown(maps, photo, colors, (round(high * _DPI), round(wide * _DPI)))
    errors = _ERRORS if wide > _WIDE_PANEL else _ERRORS_SHORT
    panels = (("ground truth", shown.truth), ("prediction", shown.found), (errors, None))
    for position, (title, labels) in enumerate(panels):
        column, row = (position, 0) if across else (0, position)
        left, top = _GAP + column * (wide + _GAP), _TOP + row * (high + _TITLE) + _TITLE
        total = figure.get_figheight()
        axes = figure.add_axes((left / width, 1 - (top + high) / total, wide / width, high / total))
        axes.imshow(shown.errors() if labels is None else shown.classes(labels), interpolation="nearest", aspect="auto")
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color="0.6", linewidth=0.6)
        axes.set_title(title, fontsize="small", loc="left", pad=3)
        if labels is not None:
            _write_names(axes, labels, names, present)
    _write_around(figure, maps, names, colors, present, legend_columns)
    content = io.BytesIO()
    figure.savefig(content, dpi=_DPI, format=path.suffix[1:].lower(), facecolor="white")
    small = maps.photo is None and path.suffix.lower() == ".png"
    write_file(path, of_few_colors(content) if small else content.getvalue())


_ERRORS, _ERRORS_SHORT = "errors: stripes of the true and the predicted class", "errors: stripes of both"
_WIDE_PANEL = 3.6  # inches that the longer of them needs


def _classes_of(maps: LabelMaps, count: int) -> list[int]:
    """Classes of an image, those with most pixels first."""
    pixels = np.zeros(count, np.int64)
    for labels in (maps.truth[maps.counted], maps.found[maps.counted]):
        pixels += np.bincount(labels.ravel().astype(np.int64), minlength=count)
    return [int(c) for c in np.argsort(-pixels, kind="stable") if pixels[c]]


def _panel_size(size: tuple[int, ...]) -> tuple[float, float, bool]:
    """Width and height of one panel in inches, and whether three stand side by side."""
    height, width = size
    across = width < 1.7 * height
    wide = min(_LONG_SIDE, _LONG_SIDE * width / height) if not across else min((_WIDEST - 4 * _GAP) / 3, 5.0)
    if not across:
        wide = 8.0
    high = min(max(wide * height / width, 0.6), 7.5)
    return max(min(wide, high * width / height), 2.2), high, across


class _Shown:
    """An image at the size of a panel.

    Args:
        maps: the image.
        photo: of it, ``[H, W, 3]`` from 0 to 1, or None.
        colors: of classes.
        size: height and width of a panel in pixels.
    """

    def __init__(self, maps: LabelMaps, photo: Pixels | None, colors: Mapping[int, Pixels], size: tuple[int, int]):
        rows, columns = (
            np.minimum((np.arange(shown) + 0.5) * of / shown, of - 1).astype(np.int64)
            for shown, of in zip(size, maps.truth.shape)
        )
        cut = np.ix_(rows, columns)
        self._counted = maps.counted[cut]
        self._table = np.full((max(colors) + 2, 3), _IGNORED)
        self._table[list(colors)] = list(colors.values())
        self.truth, self.found = (
            np.where(self._is_class(labels[cut]), labels[cut], len(self._table) - 1).astype(np.int64)
            for labels in (maps.truth, maps.found)
        )
        self._photo = None if photo is None else photo[cut].mean(-1, keepdims=True).repeat(3, -1)

    def _is_class(self, labels: Pixels) -> Pixels:
        known: Pixels = (labels >= 0) & (labels < len(self._table) - 1)
        return known

    def classes(self, labels: Pixels) -> Pixels:
        """Colours ``[h, w, 3]`` of labels, over the photo; what does not count is hatched in the ground truth."""
        image = self._table[labels]
        if self._photo is not None:
            image = self._photo + (image - self._photo) * _TINT
        return self._hatched(image) if labels is self.truth else image

    def errors(self) -> Pixels:
        """What is right, pale; what is wrong, striped."""
        image = self._table[self.truth]
        if self._photo is not None:
            image = self._photo + (image - self._photo) * 0.3
        image = image + (1 - image) * _PALE
        wrong = self._counted & (self.truth != self.found)
        image[wrong] = np.where(self._stripes(_STRIPE)[..., None], self._table[self.truth], self._table[self.found])[
            wrong
        ]
        return self._hatched(image)

    def _stripes(self, wide: int) -> Pixels:
        height, width = self.truth.shape
        striped: Pixels = (np.arange(height)[:, None] + np.arange(width)) // wide % 2 == 0
        return striped

    def _hatched(self, image: Pixels) -> Pixels:
        falling = self._stripes(3)[:, ::-1]
        image[~self._counted] = np.where(falling[..., None], _IGNORED, 0.75)[~self._counted]
        return image


def _write_names(axes: Any, labels: Pixels, names: Sequence[str], present: Sequence[int]) -> None:
    """The name of each class that has room, where its largest part is thickest."""
    from matplotlib.patheffects import withStroke

    step = max(1, math.ceil(max(labels.shape) / 128))
    small = labels[::step, ::step]
    chosen = [c for c in present if (small == c).mean() >= _SMALLEST_LABEL]
    texts = Texts.of([names[c] for c in chosen], limit=18, numbers=chosen)
    taken: list[Any] = []
    for c, text in zip(chosen, texts.texts):
        row, column = _thickest(small == c)
        drawn = axes.text(
            column * step, row * step, text, fontsize=8, ha="center", va="center", color="black", clip_on=True,
            path_effects=[withStroke(linewidth=2.2, foreground="white")], **texts.font,
        )  # fmt: skip
        _keep_inside(axes, drawn, taken)


def _keep_inside(axes: Any, text: Any, taken: list[Any]) -> None:
    """Moves a name into the panel; takes it away where it hides another, whose class has more pixels."""
    renderer = axes.figure.canvas.get_renderer()
    frame, box = axes.get_window_extent(renderer), text.get_window_extent(renderer)
    moves = [
        max(low - start, 0) + min(high - end, 0)
        for low, high, start, end in zip(frame.min, frame.max, box.min, box.max)
    ]
    box = box.translated(*moves)
    if box.width > frame.width or any(box.overlaps(other) for other in taken):
        text.remove()
        return
    taken.append(box)
    text.set_position(axes.transData.inverted().transform((box.min + box.max) / 2))


def _thickest(mask: Pixels) -> tuple[int, int]:
    """A pixel of the mask that is far from its edge: what is left when it shrinks from all sides."""
    last = mask = np.pad(mask, 1)
    while mask.any():
        last = mask
        mask = mask & np.roll(mask, 1, 0) & np.roll(mask, -1, 0) & np.roll(mask, 1, 1) & np.roll(mask, -1, 1)
    rows, columns = np.nonzero(last)
    middle = len(rows) // 2
    return int(rows[middle]) - 1, int(columns[middle]) - 1


def _write_around(
    figure: Any, maps: LabelMaps, names: Sequence[str], colors: Mapping[int, Pixels], present: Sequence[int],
    columns: int,
) -> None:  # fmt: skip
    """Headline above; legend and the largest confusions below."""
    from matplotlib.patches import Patch

    wide, high = figure.get_size_inches()
    _write_headline(figure, maps)
    listed = present[:_MOST_IN_LEGEND]
    words = [names[c] for c in listed]
    texts = Texts.of(words, limit=20, numbers=listed)
    labels = [f"{text}  IoU {maps.ious[c]:.2f}" for c, text in zip(listed, texts.texts)]
    if len(present) > len(listed):
        labels[-1] += f"  (+{len(present) - len(listed)} more)"
    handles = [Patch(facecolor=tuple(colors[c]), edgecolor="0.4", linewidth=0.5) for c in listed]
    if not maps.counted.all():
        handles.append(Patch(facecolor=_IGNORED, edgecolor="0.8", hatch="\\\\\\\\", linewidth=0.5))
        labels.append("ignored")
    legend = figure.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(0.0, _FOOT / high), ncols=columns, frameon=False,
        fontsize="small", handlelength=1.4, columnspacing=1.4, borderpad=0.2, labelspacing=0.35,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set(**texts.font)
    limit = int(wide * 14)
    foot = Texts.of([_confusions(maps, names, limit)], limit=limit, numbered=False)
    figure.text(0.1 / wide, 0.16 / high, foot.texts[0], fontsize="small", va="center", color="0.3", **foot.font)


def _write_headline(figure: Any, maps: LabelMaps) -> None:
    """The name, shortened where it must be, and all numbers."""
    wide, high = figure.get_size_inches()
    fits = text_width(maps.name) + len(maps.headline) + 2 <= wide * 10  # characters of 12 points
    room = max(int(wide * 12) - len(maps.headline) - 2, 8)
    name = Texts.of([maps.name], limit=room, numbered=False)
    text = f"{name.texts[0]}: {maps.headline}"
    size = "large" if fits else "medium"
    figure.text(0.1 / wide, 1 - 0.22 / high, text, fontsize=size, va="center", **name.font)


def _confusions(maps: LabelMaps, names: Sequence[str], limit: int) -> str:
    """The largest errors, in per cent of the pixels that count: at least one, and no more than ``limit`` columns."""
    wrong = maps.counted & (maps.truth != maps.found)
    pairs = maps.truth[wrong].astype(np.int64) * len(names) + maps.found[wrong].astype(np.int64)
    kinds, counts = np.unique(pairs, return_counts=True)
    total = max(int(maps.counted.sum()), 1)
    largest = np.argsort(-counts, kind="stable")[:_MOST_CONFUSIONS]
    parts = [
        f"{names[kinds[k] // len(names)]} taken for {names[kinds[k] % len(names)]} {counts[k] / total:.1%}"
        for k in largest.tolist()
        if counts[k] >= 0.0005 * total
    ]
    while len(parts) > 1 and text_width(", ".join(parts)) + len("largest errors: ") > limit:
        parts.pop()
    return f"largest errors: {', '.join(parts) or 'each below 0.05%'}"
