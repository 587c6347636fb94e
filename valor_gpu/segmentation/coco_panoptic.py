"""Panoptic quality of COCO panoptic files, by the protocol of panopticapi. Imports no torch.

Protocol: <https://github.com/cocodataset/panopticapi/blob/master/panopticapi/evaluation.py>. Where it differs from
:class:`valor_gpu.segmentation.PanopticQuality`: void of a prediction is not left out of unions, no ground truth is
ignored for it, and crowds match nothing and excuse predictions of their category that lie mostly on them.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu._headline import headline
from valor_gpu.digests import DataHashes
from valor_gpu.errors import InputError
from valor_gpu.exports.texts import value_text
from valor_gpu.inputs.panoptic_files import Annotation, PanopticFile, Picture, read_ids
from valor_gpu.ops.panoptic.cpu import CROWD, EXCUSES, FALSE_NEGATIVES, ROWS, TRUE, count_image
from valor_gpu.ops.panoptic.numpy_definition import Segments
from valor_gpu.provenance import host_provenance, provenance_of
from valor_gpu.reduce.panoptic import (
    category_scores,
    mean_scores,
    panoptic_reasons,
    panoptic_values,
    segment_counts,
)
from valor_gpu.result import Result, Signature
from valor_gpu.segmentation.image_analysis import NO_SEGMENTS, image_result
from valor_gpu.segmentation.panoptic_lrp import answers_lrp
from valor_gpu.segmentation.resampled_panoptic import resampled_panoptic
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from valor_gpu.store.saved import SavedRun


class Image(NamedTuple):
    """What an image has.

    Attributes:
        table: int64 ``[8, C]``.
        crowds: how many true segments are crowds.
        other_areas: true segments whose ``area`` in the JSON is not how many pixels they have.
        without_pixels: true segments that no pixel has.
        pictures: of prediction and ground truth, without their pixels.
    """

    table: NDArray[np.int64]
    crowds: int
    other_areas: int
    without_pixels: int
    pictures: tuple[Picture, Picture]


@frozen
class PanopticEvaluation:
    """A finished evaluation.

    Attributes:
        ground_truth: the segments that are true.
        images: one for each of its annotations, in their order.
        unknown_images: predictions of images that the ground truth does not have; they are left out.
    """

    ground_truth: PanopticFile
    images: tuple[Image, ...]
    unknown_images: int

    def __repr__(self) -> str:
        return headline("PanopticEvaluation", "", self.result().values, {"images": len(self.images)}, value_text)

    def tables(self) -> NDArray[np.int64]:
        """int64 ``[B, 8, C]``."""
        classes = len(self.ground_truth.categories)
        return np.array([image.table for image in self.images], np.int64).reshape(-1, ROWS, classes)

    def names(self) -> dict[str, int]:
        """Category ids by their names; a name that several have is followed by the id."""
        categories = self.ground_truth.categories
        often = Counter(category.name for category in categories)
        return {c.name if often[c.name] == 1 else f"{c.name} ({c.id})": c.id for c in categories}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Numbers of all categories, of things and of stuff, of every category, and counts.

        Args:
            intervals: replicates of a bootstrap over images, or its choices.
        """
        tables, names = self.tables(), list(self.names())
        table = tables.sum(0)
        things = np.array([category.is_thing for category in self.ground_truth.categories], np.bool_)
        values = panoptic_values(table, things, names)
        counts = segment_counts(table)
        del counts["ignored_ground_truths"]  # only crowds are, which are counted apart
        more = {
            "crowds": sum(image.crowds for image in self.images),
            "images_of_predictions_left_out": self.unknown_images,
            "segments_of_other_areas": sum(image.other_areas for image in self.images),
            "segments_without_pixels": sum(image.without_pixels for image in self.images),
            "ground_truths_without_iscrowd": self.ground_truth.without_iscrowd,
        }
        choices = {"metric": "PanopticQuality", "protocol": "panopticapi", "iou_threshold": 0.5, "average": "macro"}
        counts = {"images": len(self.images), **counts, **more}
        resampled = partial(resampled_panoptic, tables, list(self.ground_truth.annotations), things, names)
        reasons, signature = panoptic_reasons(values), Signature(choices)
        result = image_result(
            values, signature, counts, reasons, resampled, NO_SEGMENTS,
            [annotation.file_name for annotation in self.ground_truth.annotations.values()], self._photos(),
            provenance=partial(provenance_of, host_provenance, self._hashes, "int64"),
        )  # fmt: skip
        result = answers_lrp(result, lambda: (tables, list(self.ground_truth.annotations)), things, names)
        return result if intervals is None else result.with_intervals(intervals)

    def _hashes(self) -> DataHashes:
        """Hashes of the images in any order.

        An image counts with its id and the bytes of its PNG; of the ground truth also with its segments, of predictions
        with the counts that they came to, which stand for the categories of their segments.
        """
        sides: tuple[list[str], list[str]] = ([], [])
        for annotation, image in zip(self.ground_truth.annotations.values(), self.images):
            columns = (annotation.ids, annotation.categories, annotation.crowd.astype(np.int64))
            content = np.stack(columns)[:, annotation.ids.argsort()].tolist(), image.table.tolist()
            for lines, part, picture in zip(sides, content, image.pictures[::-1]):
                lines.append(repr((annotation.image_id, picture.digest.hex(), part)))
        classes = [(category.id, category.is_thing) for category in self.ground_truth.categories]
        texts = ("\n".join([repr(sorted(classes)), *sorted(lines)]) for lines in sides)
        truths, predictions = (hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() for text in texts)
        return DataHashes("images", truths, predictions)

    def _photos(self) -> list[str] | None:
        """File names of the images in the JSON, None unless each has one."""
        found = [self.ground_truth.photos.get(image_id) for image_id in self.ground_truth.annotations]
        return [name for name in found if name is not None] if None not in found else None

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Of every image its id, file, PQ, SQ and RQ over the categories that it has, and its counts."""
        tables = self.tables()
        means = mean_scores(category_scores(tables))
        for index, annotation in enumerate(self.ground_truth.annotations.values()):
            scores = [float(part[index]) for part in means]
            yield (annotation.image_id, annotation.file_name, *scores, *tables[index, :5].sum(-1).tolist())

    def to_run(self, result: Result | None = None) -> SavedRun:
        """The evaluation as a store keeps it; the F1 of an image is its recognition quality.

        Args:
            result: of :meth:`result`, with its intervals; None: without.
        """
        from valor_gpu.store.saved import SavedImage

        names, images = ("image_f1", "image_pq", "image_sq"), []
        for number, file, pq, sq, rq, *counts in self.rows():
            scores = {name: None if math.isnan(value) else value for name, value in zip(names, (rq, pq, sq))}
            outputs = dict(zip(("found", "wrong", "missed"), counts))
            images.append(SavedImage(str(number), {"image": file, "image_id": number}, outputs, scores))
        return (result or self.result()).to_run().with_images(images, {"IoU threshold": 0.5})

    def folders(self, paths: tuple[str, str]) -> dict[str, dict[str, Any]]:
        """Of both sides the folder, how many files were read, their bytes and a hash of all hashes."""
        found = {}
        for side, name in ((1, "ground_truths"), (0, "predictions")):
            pictures = [image.pictures[side] for image in self.images]
            digest = hashlib.sha256(b"".join(picture.digest for picture in pictures)).hexdigest()
            size = sum(picture.file_size for picture in pictures)
            found[name] = {"path": paths[1 - side], "files": len(pictures), "bytes": size, "sha256": digest}
        return found


class SavablePanoptic:
    """What a store keeps of an evaluation.

    Args:
        evaluation: of :func:`evaluate_files`.
        result: of :meth:`PanopticEvaluation.result`.
    """

    def __init__(self, evaluation: PanopticEvaluation, result: Result) -> None:
        self._evaluation, self._result = evaluation, result

    def to_run(self) -> SavedRun:
        """The run."""
        return self._evaluation.to_run(self._result)


def evaluate_files(
    ground_truth: PanopticFile,
    predictions: PanopticFile,
    folders: tuple[str, str],
    threads: int,
    report: Callable[[int], None],
) -> PanopticEvaluation:
    """Counts the segments of every image.

    Args:
        ground_truth: the segments that are true.
        predictions: with an annotation for each of its images; others are left out.
        folders: of the PNG of ground truths and of predictions.
        threads: images that are read at the same time.
        report: called with the number of images that are done.

    Raises:
        InputError: an image has no prediction, as in panopticapi; or a file is missing or damaged, has another size
            than its partner, an id without a segment, a predicted segment without pixels, or an unknown category. The
            first in the order of the ground truth is told, and how many other images have errors.
    """
    missing = [image_id for image_id in ground_truth.annotations if image_id not in predictions.annotations]
    if missing:
        raise InputError(
            f"{predictions.path} must have a prediction for every image of {ground_truth.path} but has none for image"
            f" {missing[0]!r}" + (f" and {len(missing) - 1:,} more" if len(missing) > 1 else "")
        )
    counter = _Counter(ground_truth, predictions, folders)
    found: list[Image] = []
    errors: list[InputError] = []
    with ThreadPoolExecutor(threads) as pool:
        try:
            for number, done in enumerate(pool.map(counter.count, ground_truth.annotations), 1):
                if isinstance(done, InputError):
                    errors.append(done)
                else:
                    found.append(done)
                report(number)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if errors:
        more = f" ({len(errors) - 1:,} more of {number:,} images have errors)" if len(errors) > 1 else ""
        raise InputError(f"{errors[0]}{more}")
    unknown = sum(image_id not in ground_truth.annotations for image_id in predictions.annotations)
    return PanopticEvaluation(ground_truth, tuple(found), unknown)


class _Counter:
    """Counts one image after another."""

    def __init__(self, ground_truth: PanopticFile, predictions: PanopticFile, folders: tuple[str, str]) -> None:
        self._ground_truth, self._predictions, self._folders = ground_truth, predictions, folders
        self._rows = {category.id: row for row, category in enumerate(ground_truth.categories)}

    def count(self, image_id: int | str) -> Image | InputError:
        """The counts of an image, or what is wrong with it."""
        try:
            return self._count(self._ground_truth.annotations[image_id], self._predictions.annotations[image_id])
        except InputError as error:
            return error

    def _count(self, true: Annotation, predicted: Annotation) -> Image:
        sides = (predicted, true)
        paths = [os.path.join(folder, side.file_name) for folder, side in zip(self._folders[::-1], sides)]
        segments = self._segments(predicted), self._segments(true)
        pictures = [read_ids(path, side.place) for path, side in zip(paths, sides)]
        self._check_sizes(true, paths, pictures)
        counted = count_image(pictures[0].ids, pictures[1].ids, segments[0], segments[1], len(self._rows))
        if counted.error is not None:
            of_truth, row, column = counted.error
            red, green, blue = pictures[of_truth].ids[row, column].tolist()
            raise InputError(
                f"{paths[of_truth]} must have ids of segments but has {red + 256 * green + 65536 * blue} at row {row},"
                f" column {column}, which {sides[of_truth].place} does not list"
            )
        if (counted.areas == 0).any():
            absent = predicted.ids[counted.areas == 0]
            raise InputError(f"{paths[0]} must have pixels of segment {absent[0]}, which {predicted.place} lists")
        return self._image(true, segments[1], counted.table, counted.target_areas, pictures)

    def _image(
        self,
        true: Annotation,
        segments: Segments,
        table: NDArray[np.int64],
        areas: NDArray[np.int64],
        pictures: Sequence[Picture],
    ) -> Image:
        nowhere = (areas == 0) & ~true.crowd
        for row in (FALSE_NEGATIVES, TRUE):  # panopticapi goes by the list: what is nowhere is missed
            np.add.at(table[row], segments.rows[nowhere], 1)
        other = (true.areas >= 0) & (true.areas != areas)
        seen = [picture._replace(ids=picture.ids[:0]) for picture in pictures]
        return Image(table, int(true.crowd.sum()), int(other.sum()), int(nowhere.sum()), (seen[0], seen[1]))

    def _segments(self, side: Annotation) -> Segments:
        rows = [self._rows.get(category, -1) for category in side.categories.tolist()]
        if -1 in rows:
            index = rows.index(-1)
            raise InputError(
                f"{side.place}.segments_info[{index}].category_id must be a category of {self._ground_truth.path}"
                f" but is {side.categories[index]}"
            )
        flags = np.where(side.crowd, CROWD, 0)
        # Of several crowds of a category panopticapi keeps the last.
        last = {row: index for index, row in enumerate(rows) if side.crowd[index]}
        flags[list(last.values())] |= EXCUSES
        return Segments(side.ids, np.array(rows, np.int64), flags)

    def _check_sizes(self, true: Annotation, paths: Sequence[str], pictures: Sequence[Picture]) -> None:
        sizes = [(picture.ids.shape[1], picture.ids.shape[0]) for picture in pictures]
        stated = self._ground_truth.sizes.get(true.image_id, sizes[1])
        if stated != sizes[1]:
            raise InputError(f"{paths[1]} must be {_size(stated)}, as {self._ground_truth.path} says, but is"
                             f" {_size(sizes[1])}")  # fmt: skip
        if sizes[0] != sizes[1]:
            raise InputError(f"{paths[0]} must be {_size(sizes[1])} like {paths[1]} but is {_size(sizes[0])}")


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]} pixels"
