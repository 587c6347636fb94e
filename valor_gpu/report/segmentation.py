"""The report of ``valor-gpu segment``: tables in text, and the rows of its table of images."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from valor_gpu.exports.texts import spreadsheet_cell
from valor_gpu.inputs.pixel_hints import USUAL_VOID
from valor_gpu.report.text import bounded, plural, table
from valor_gpu.result import Result

if TYPE_CHECKING:
    from valor_gpu.segmentation.label_map_folders import ImageCounts, Totals

_TITLES = {
    "miou": "mIOU",
    "pixel_accuracy": "pixel accuracy",
    "mean_accuracy": "mean accuracy",
    "frequency_weighted_iou": "frequency-weighted IoU",
    "mean_precision": "mean precision",
    "mean_f1": "mean F1",
}
_CLASS_COLUMNS = {"IoU": "iou", "precision": "precision", "recall": "recall", "F1": "f1"}
_CLASS_COUNTS = {"true pixels": "true_pixels", "predicted": "predicted_pixels", "images": "images"}


def summary(result: Result) -> str:
    """The numbers of all pixels beside the means over images.

    Args:
        result: of :class:`valor_gpu.segmentation.label_map_folders.Totals`; what does not exist is shown as ``-``.
    """
    rows = [[title, bounded(result, name), bounded(result, f"image_{name}")] for name, title in _TITLES.items()]
    return table(["", "all pixels", "mean of images"], rows)


def class_table(result: Result) -> str:
    """One line per class: ratios of all pixels, mean IoU of the images that have it, and the counts behind them."""
    values = result.values
    rows = [
        [
            name,
            *(bounded(result, f"{key}_per_class", name) for key in _CLASS_COLUMNS.values()),
            bounded(result, "image_iou_per_class", name),
            *(f"{values[f'{key}_per_class'][name]:,}" for key in _CLASS_COUNTS.values()),
        ]
        for name in values["iou_per_class"]
    ]
    return table(["class", *_CLASS_COLUMNS, "image IoU", *_CLASS_COUNTS], rows)


def count_line(result: Result) -> str:
    """What the numbers were counted on, and what was left out."""
    counts = result.counts
    text = f"{plural(counts['images'], 'image')}, {plural(counts['pixels'], 'pixel')}"
    text += f" ({counts['ignored']:,} of them ignored)" if counts["ignored"] else ""
    text += f", {counts['classes']:,} class{'' if counts['classes'] == 1 else 'es'}"
    if counts["absent_classes"]:
        text += f" ({counts['absent_classes']:,} of them neither true nor predicted, with no part in means)"
    missing = counts["ground_truths_without_prediction"], counts["predictions_without_ground_truth"]
    for count, of, other in zip(missing, ("ground truth", "prediction"), ("prediction", "ground truth")):
        text += f", {plural(count, of)} without {other}" if count else ""
    text += f", {plural(counts['failed_images'], 'image')} failed" if counts["failed_images"] else ""
    return text


class ImageTable:
    """Writes a line of CSV for each image as it comes.

    Args:
        stream: where to.
        classes: names of the classes.
    """

    def __init__(self, stream: TextIO, classes: Sequence[str]) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        per_class = [f"{what}/{name}" for what in ("iou", "true_pixels", "predicted_pixels") for name in classes]
        head = ["image", "ground_truth", "prediction", "height", "width", "pixels", "ignored"]
        self._writer.writerow([*head, *_TITLES, *per_class, "error"])
        self._classes = len(classes)

    def add(self, image: ImageCounts, numbers: Mapping[str, float]) -> None:
        """Writes the line of an image; cells of what does not exist are empty.

        Args:
            image: its counts.
            numbers: what :meth:`valor_gpu.segmentation.label_map_folders.Totals.add` gave for it.
        """
        pair = image.pair
        head = [pair.name, pair.ground_truth, pair.prediction]
        if image.counts is None or image.shape is None:
            empty = [""] * (4 + len(_TITLES) + 3 * self._classes)
            self._writer.writerow(map(spreadsheet_cell, [*head, *empty, image.error]))
            return
        from valor_gpu.reduce.regions import region_value

        sizes = [*image.shape, image.pixels, image.ignored]
        ious = region_value("iou", image.counts, None).tolist()
        cells = [_cell(value) for value in (*(numbers[name] for name in _TITLES), *ious)]
        pixels = [*image.counts[2].tolist(), *image.counts[1].tolist()]
        self._writer.writerow([*map(spreadsheet_cell, head), *sizes, *cells, *pixels, ""])


def _cell(value: float) -> Any:
    return "" if math.isnan(value) else value


class FolderInputs:
    """What ``--json`` says of the two folders.

    Args:
        folders: path by what it has, ground truths first.
        totals: after the last image.
    """

    def __init__(self, folders: Mapping[str, str], totals: Totals) -> None:
        self._folders, self._totals = folders, totals

    def describe(self) -> dict[str, dict[str, Any]]:
        """``path``, ``files`` that counted, their ``bytes``, and ``sha256`` of their own SHA-256 and names."""
        return {
            what: {"path": path, "files": self._totals.images, "bytes": size, "sha256": digest}
            for (what, path), (size, digest) in zip(self._folders.items(), self._totals.digests())
        }


def failures(images: Sequence[ImageCounts], limit: int) -> Iterator[str]:
    """Why images failed, ``limit`` of them, and how many more there are."""
    yield from (image.error for image in images[:limit])
    if len(images) > limit:
        yield f"{plural(len(images) - limit, 'more image')} failed: --per-image and --json list all"


def hint_at_labels(totals: Totals) -> str:
    """Says what to do about labels that are no class, where they are why images failed.

    Args:
        totals: after the last image.
    """
    classes, ignored = totals.task.num_classes, totals.task.ignore_index
    true, found = (_first_value(totals.failed, side) for side in ("ground_truth", "prediction"))
    if not true and not found:
        return ""
    labels = [set().union(*(image.labels[side] for image in totals.failed)) for side in (0, 1)]
    for side, counts in enumerate((totals.counts[2], totals.counts[1])):
        labels[side] |= {label for label in range(classes) if counts[label]}
    labels[0] -= {ignored}
    value, held = (int(true), labels[0]) if true else (int(found), labels[1])
    wrong = [{label for label in of_side if not 0 <= label < classes} for of_side in labels]
    sides = " and ".join(name for name, bad in zip(("ground truths", "predictions"), wrong) if bad)
    hint = _numbering_hint(sides, held, value, classes)
    if hint or ignored is not None:
        return hint
    if true and value in wrong[1]:
        return f": {value} is in {sides}; files must hold class indices, 0, 1, 2 ..."
    return _ignore_hint(value, held, classes) if true else ""


def _numbering_hint(sides: str, held: set[int], value: int, classes: int) -> str:
    """The hint where labels are those of a mask of 0 and 255, or begin with 1; empty for others."""
    kinds = sorted(held - set(USUAL_VOID))
    if kinds and (kinds[0], kinds[-1]) == (1, classes):
        return f": {sides} hold labels from 1 to {classes} but classes are numbered from 0: subtract 1"
    if held <= {0, value} and value > 1 and classes <= 2:
        return f": {value} is the only label beside 0 in {sides}; where it is the foreground, files must hold 0 and 1"
    if classes == 1 and held == {0, 1}:
        return f": {sides} hold two classes, 0 and 1: --num-classes 2"
    return ""


def _ignore_hint(value: int, held: set[int], classes: int) -> str:
    """What to do about a value of ground truths that is no class."""
    beyond = sorted(label for label in held if not 0 <= label < classes)
    if len(beyond) > 1 and len(held) <= classes:  # grey values of classes, or numbers with gaps
        return (
            f": {len(beyond):,} of {len(held):,} labels of ground truths are no class, from {beyond[0]} to"
            f" {beyond[-1]}; files must hold the numbers of classes, 0 to {classes - 1}"
        )
    wrong = [label for label in beyond if label not in USUAL_VOID]
    ignore = f"--ignore {value} leaves out pixels whose ground truth is {value}"
    if not wrong:
        return f": {ignore}"
    larger = f"; where {wrong[-1]} is a class, --num-classes {wrong[-1] + 1} counts it" if wrong[-1] > 0 else ""
    if len(wrong) > 1:
        return f": {len(wrong):,} labels of ground truths are no class, from {wrong[0]} to {wrong[-1]}{larger}"
    return f": {ignore}, where it stands for no class{larger}"


def _first_value(images: Sequence[ImageCounts], side: str) -> str:
    """The first value of the files of a side that is no class, or empty."""
    for image in images:
        path = re.escape(getattr(image.pair, side))
        said = re.fullmatch(path + r"\[.*\] must be a class .* but is (-?\d+)", image.error)
        if said:
            return said[1]
    return ""
