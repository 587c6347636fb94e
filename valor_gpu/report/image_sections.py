"""Section of the images with most errors, drawn where the result knows their boxes. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from valor_gpu.analysis.detection import DetectionAnalysis
from valor_gpu.analysis.image_table import missed_of
from valor_gpu.analysis.rows import Ints, Matching, Rows
from valor_gpu.errors import InputError
from valor_gpu.pages.markup import Column, joined, name_of, section, table, tag, warning
from valor_gpu.pages.texts import Html, visible
from valor_gpu.report.scenes import MOST_SHAPES, Drawn, key, photo_address, scene

_LARGEST = 100_000  # px: a side that is longer is no picture


class _Counts(NamedTuple):
    """How many objects of an image are right, wrong and missed."""

    position: int
    right: int
    wrong: int
    missed: int


def image_section(
    analysis: DetectionAnalysis,
    iou: float,
    score: float,
    most: int,
    photos: Path | None,
    on_problem: Callable[[str], None],
) -> Html:
    """The images with most errors.

    Args:
        analysis: of a detection result.
        iou: from which on a detection matches.
        score: detections below it are left out; others match as they did.
        most: images that are shown at most.
        photos: folder of the images, by their ``file_name``; None: a plain canvas.
        on_problem: called with a sentence for each photo that cannot be used.
    """
    rows, matching = analysis.rows, analysis.matching(iou)
    worst = list(_worst(rows, matching, score, most))
    note = f"most wrong and missed objects first, at IoU {iou:g}{_above(score)}"
    if not worst:
        return section("images", "Images", tag("p", "No image has an error.", class_="empty panel"), note=note)
    if rows.boxes is None or matching.partners is None:
        said = "The images are not drawn, for the result keeps no boxes: that of COCOeval or LVISEval does."
        columns = [Column("image"), *(Column(words, True) for words in ("errors", "correct", "wrong", "missed"))]
        lines = [(rows.image_ids[each.position], *_counted(each)) for each in worst]
        return section("images", "Images", warning(said), table(columns, lines, "Images with most errors"), note=note)
    problems: list[str] = []
    figures = []
    for each in worst:
        drawn = list(_drawn(rows, _rows_of(rows, matching, score, each.position)))
        figures.append(_figure(rows, each, drawn, photos, problems.append))
    for problem in problems:
        on_problem(problem)
    notes = [warning(_said(problems))] if problems else []
    legend = tag("p", key(), class_="small dim")
    return section("images", "Images", *notes, legend, tag("div", *figures, class_="figs scenes"), note=note)


def _above(score: float) -> str:
    return f" and scores from {score:.3g}" if math.isfinite(score) and score > 0 else ""


def _said(problems: Sequence[str]) -> str:
    photos = "1 photo is" if len(problems) == 1 else f"{len(problems)} photos are"
    return f"{photos} not shown: {problems[0]}{'; and others' if len(problems) > 1 else ''}."


def _counted(found: _Counts) -> tuple[str, ...]:
    return tuple(f"{size:,}" for size in (found.wrong + found.missed, *found[1:]))


def _worst(rows: Rows, matching: Matching, score: float, most: int) -> Iterator[_Counts]:
    """The images with most errors; of equal ones the first."""
    above, images = rows.scores >= score, rows.lengths.shape[1]
    right, wrong = (
        np.bincount(rows.images[chosen & above], minlength=images)
        for chosen in (matching.hits, matching.false_positives)
    )
    unseen = missed_of(matching, matching.hits & above)
    if unseen is None:
        missed = np.bincount(rows.gt_images[rows.gt_counts], minlength=images) - right
    else:
        missed = np.bincount(rows.gt_images[unseen], minlength=images)
    for position in np.argsort(-(wrong + missed), kind="stable")[:most].tolist():
        if wrong[position] + missed[position]:
            yield _Counts(position, int(right[position]), int(wrong[position]), int(missed[position]))


def _rows_of(rows: Rows, matching: Matching, score: float, position: int) -> dict[str, Ints]:
    """The rows of the objects of an image by what became of them."""
    assert matching.partners is not None
    ends = rows.lengths[:, : position + 1].sum(1)
    (first, first_gt), (last, last_gt) = (ends - rows.lengths[:, position]).tolist(), ends.tolist()
    own, own_gt = np.arange(first, last), np.arange(first_gt, last_gt)
    above = rows.scores[own] >= score
    right, wrong = own[matching.hits[own] & above], own[matching.false_positives[own] & above]
    missed = rows.gt_counts[own_gt] & ~np.isin(own_gt, matching.partners[right])
    return {"TP": right, "FP": wrong, "FN": own_gt[missed]}


def _figure(
    rows: Rows, found: _Counts, drawn: list[Drawn], photos: Path | None, on_problem: Callable[[str], None]
) -> Html:
    fields = {} if rows.image_fields is None else rows.image_fields(found.position)
    name = str(fields.get("file_name") or str(fields.get("coco_url") or "").rpartition("/")[2])
    size, address = _size(fields), ""
    if photos is not None:
        try:
            if size is None:
                raise InputError(f"image {rows.image_ids[found.position]} has no width and height")
            address = photo_address(photos, name, size)
        except InputError as error:
            on_problem(str(error))
    errors, right, wrong, missed = _counted(found)
    said = f"{right} correct, {wrong} wrong, {missed} missed"
    picture = scene(size or _around(drawn), drawn, address, f"image {name or rows.image_ids[found.position]}: {said}")
    more = len(drawn) - MOST_SHAPES
    left = [tag("span", f"{more:,} objects are not drawn")] if more > 0 else []
    number = rows.image_ids[found.position]
    title = joined(
        [name_of(name), tag("span", f" id {number}", class_="faint small")] if name else [name_of(f"image {number}")]
    )
    foot = tag("p", tag("span", f"{errors} errors"), tag("span", said), *left, class_="foot")
    return tag("figure", tag("h3", title, class_="name"), picture, foot)


def _size(fields: Mapping[str, Any]) -> tuple[int, int] | None:
    """Width and height in pixels, where they are known and can be drawn."""
    sides = fields.get("width"), fields.get("height")
    known = all(isinstance(side, int) and 1 <= side <= _LARGEST for side in sides)
    return (int(sides[0]), int(sides[1])) if known else None  # type: ignore[arg-type]


def _around(drawn: Sequence[Drawn]) -> tuple[float, float]:
    """Size of a canvas that holds the objects."""
    points = [point for each in drawn for line in each.lines for point in line] or [(1.0, 1.0)]
    return max(1.0, max(x for x, _ in points)), max(1.0, max(y for _, y in points))


def _drawn(rows: Rows, found: Mapping[str, Ints]) -> Iterator[Drawn]:
    assert rows.boxes is not None
    for outcome, chosen in found.items():
        truth = outcome == "FN"
        labels = rows.gt_labels if truth else rows.labels
        for row, shape in zip(chosen.tolist(), rows.boxes("ground_truths" if truth else "detections", chosen)):
            score = None if truth else float(rows.scores[row])
            yield Drawn(outcome, visible(str(rows.classes[labels[row]])), score, *lines_of(shape))


def lines_of(shape: Mapping[str, Any]) -> tuple[list[list[tuple[float, float]]], list[tuple[float, float]]]:
    """The closed lines around an annotation object, and its keypoints: of its mask, or else its box.

    Args:
        shape: with ``bbox`` (four numbers, or a rotated box of five or eight), ``segmentation``, ``keypoints``.
    """
    points = shape.get("keypoints") or []
    dots = [(float(x), float(y)) for x, y, seen in zip(points[::3], points[1::3], points[2::3]) if seen]
    polygons = shape.get("segmentation")
    if isinstance(polygons, list) and polygons and not dots:
        return [_pairs(polygon) for polygon in polygons], dots
    if isinstance(polygons, Mapping) and not dots:
        from valor_gpu.report.outlines import decoded, mask_lines

        return mask_lines(decoded(polygons)), dots
    box = [float(side) for side in shape.get("bbox") or ()]
    if len(box) == 4:
        x, y, w, h = box
        return [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)]], dots
    if len(box) == 5:
        from valor_gpu.inputs.coco_rotated import corners_of

        return [[(float(x), float(y)) for x, y in corners_of(np.array([box]))[0]]], dots
    return [_pairs(box)] if len(box) == 8 else [], dots


def _pairs(values: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(values[::2], values[1::2])]
