"""What a result of MeanAveragePrecision answers about its errors, from the records and pairs of its state."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.analysis.detection import DetectionAnalysis
from valor_gpu.analysis.images import Ints
from valor_gpu.analysis.rows import CROWD, IGNORED, Matching, Pairs, Rows
from valor_gpu.checks import check_number
from valor_gpu.detection.choices import AREA_RANGES
from valor_gpu.detection.error_records import PairColumns, part_of_images
from valor_gpu.detection.mean_ap_choices import MeanApChoices
from valor_gpu.detection.mean_ap_numbers import grouped_result_numbers, number_parts, resampled_images
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.image_order import choose_images
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, PADDING_BUCKET
from valor_gpu.result_data import ResultData

if TYPE_CHECKING:
    from valor_gpu.analysis.match_table import MatchTable
    from valor_gpu.analysis.tide_result import DetectionErrors

Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]

_ID, _HAS_ID, _DETECTIONS, _GROUND_TRUTHS = map(IMAGE_COLUMNS.index, ("ID", "HAS_ID", "DETECTIONS", "GROUND_TRUTHS"))
_BUCKET, _MATCHED = 12, 13
"""Bytes of a row of detections: docs/design/001-detection-records.md."""


class MeanApAnalysis(DetectionAnalysis):
    """Answers from the state of a metric as it was when the result was made.

    Images are in the order that breaks ties; of copies of an image the one that counts is there. Classes are labels as
    text, as in ``map_per_class``; pooled ones are one class, ``all``. Detections and ground truths have no ids: they
    are known by their place in the image.

    Args:
        choices: of the metric, with one ``iou_type``.
        records: of that geometry.
    """

    metric = "MeanAveragePrecision"

    def __init__(self, choices: MeanApChoices, records: DetectionRecords) -> None:
        self.reductions, self.records = choices, records
        self.choices = {**choices.signature(), "iou_type": choices.iou_type[0]}
        self.recall_thresholds = np.asarray(choices.rec_thresholds, np.float64)
        self.iou_thresholds = choices.iou_thresholds
        self._table: Ints = records.images.cpu().numpy()
        with warnings.catch_warnings():  # of copies with other detections the result has warned
            warnings.simplefilter("ignore")
            self.kept: Ints = choose_images(self._table, choices.by_image)
        self.images = len(self.kept)
        named = bool((self._table[:, _HAS_ID] == 1).all())
        self.image_ids = self._table[self.kept, _ID].tolist() if named else None

    def make_rows(self) -> Rows:
        """See :class:`DetectionAnalysis`."""
        (found, lengths), (true, gt_lengths) = self._found, self._true
        classes, labels, gt_labels = self._classes(_labels(found[:, 8:12]), _labels(true[:, :4]))
        _, areas, limits = self.reductions.shape
        matched, ignored = self._bits
        crowd = IGNORED if self.reductions.iou_type == ("keypoints",) else CROWD
        out_of_range = np.where(_bit(true, areas + 1), np.uint8(crowd), np.uint8(IGNORED))
        return Rows(
            self.kept.tolist() if self.image_ids is None else self.image_ids, classes, np.stack((lengths, gt_lengths)),
            found[:, :8].copy().view(np.float64)[:, 0], labels, found[:, _BUCKET] < limits,
            # An ignored detection that matches nothing is out of the range of areas, at every threshold.
            np.logical_or.reduce(ignored & ~matched, axis=1), gt_labels,
            np.where(_bit(true, 0), np.uint8(0), out_of_range),
            file_order=lambda: self.kept,
        )  # fmt: skip

    def make_pairs(self) -> Pairs:
        """See :class:`DetectionAnalysis`."""
        if not isinstance(self.records, PairColumns):
            raise InputError(_needed("this question"))
        assert self.reductions.lowest is not None
        given = self.records.pair_counts[:, 0], self.records.pair_ground_truths, self.records.pair_ious
        counts, places, ious = (column.cpu().numpy() for column in given)
        counts = counts.astype(np.int64)
        rows = self._rows_of(_DETECTIONS)
        if rows is not None:
            starts, counts = (counts.cumsum() - counts)[rows], counts[rows]
            used = _spread(starts, counts)
            places, ious = places[used], ious[used]
        counts = counts[self._real_detections]  # rows of padding have no pairs
        gt_lengths = self.rows.lengths[1]
        first = np.repeat((gt_lengths.cumsum() - gt_lengths)[self.rows.images], counts)
        return Pairs(self.reductions.lowest, counts, places + first, ious)

    def matching(self, iou: float = 0.5) -> Matching:
        """Returns the outcomes at one IoU threshold, made once for each; of ``iou_thresholds`` also without pairs.

        Raises:
            InputError: ``iou`` is not above 0 and at most 1, or neither one of ``iou_thresholds`` nor known from pairs.
        """
        check_number("iou", iou, 0, 1)
        if isinstance(self.records, PairColumns):
            return super().matching(iou)
        known, level = list(self.iou_thresholds), self.threshold_of(iou)
        if level not in known:
            levels = ", ".join(f"{each:g}" for each in known)
            raise InputError(
                f"iou must be one of iou_thresholds, {levels}, but got {iou}: make the metric with this one among"
                " iou_thresholds, or with errors=True"
            )
        made = self._matchings.get(level)
        if made is None:
            matched, ignored = (bits[:, known.index(level)] & self.rows.kept for bits in self._bits)
            false = self.rows.kept & ~matched & ~ignored
            made = self._matchings[level] = Matching(self.rows, level, matched & ~ignored, false)
        return made

    def errors(
        self, iou: float | Sequence[float] = 0.5, background: float | Sequence[float] = 0.1, protocol: str = "coco"
    ) -> DetectionErrors:
        """See :meth:`valor_gpu.result.Result.errors`."""
        self._need_pairs("errors()")
        return super().errors(iou, background, protocol)

    def olrp(self, iou: float = 0.5) -> ResultData:
        """See :meth:`valor_gpu.result.Result.olrp`."""
        self._need_pairs("olrp()")
        return super().olrp(iou)

    def match_table(self, **choices: Any) -> MatchTable:
        """See :meth:`valor_gpu.result.Result.matches`."""
        self._need_pairs("matches()")
        return super().match_table(**choices)

    def part(self, images: Ints) -> MeanApAnalysis:
        """Returns the analysis of some images, with the same bits as that of a fresh run on them.

        Args:
            images: ascending positions of images.
        """
        rows = torch.from_numpy(self.kept[np.asarray(images, np.int64)])
        return MeanApAnalysis(self.reductions, part_of_images(self.records, rows.to(self.records.images.device)))

    def result_of(self, images: Ints) -> ResultData:
        """See :class:`valor_gpu.analysis.base.Analysis`."""
        records = self.part(images).records
        state = partial(resampled_images, self.reductions, [("", records)])
        return ResultData(*number_parts(self.reductions, records), state=state)

    def numbers_of(self, groups: Sequence[Ints]) -> Sequence[Mapping[str, float]]:
        """See :class:`valor_gpu.analysis.base.Analysis`."""
        return grouped_result_numbers(self.reductions, self.records, self.kept, groups)

    def object_numbers(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[Mapping[str, float]]:
        """See :class:`DetectionAnalysis`: records know the area ranges of the metric alone."""
        if attribute != "size":
            raise InputError(f"{attribute} needs boxes, which records of {self.metric} do not hold: use COCOeval")
        known = {AREA_RANGES[name]: index for index, name in enumerate(self.reductions.areas)}
        for low, high in bins:
            if (low, high) not in known:
                ranges = ", ".join(f"({known_low:g}, {known_high:g})" for known_low, known_high in known)
                raise InputError(
                    f"bins of size must be area ranges of {self.metric}, {ranges}, but one is ({low:g}, {high:g}):"
                    " COCOeval takes others"
                )
        everything = [np.arange(self.images)]
        return [
            grouped_result_numbers(self.reductions, self.records, self.kept, everything, known[pair])[0]
            for pair in bins
        ]

    def counting_objects(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[int]:
        """See :class:`valor_gpu.analysis.base.Analysis`; a ground truth has a bit for each range."""
        known = [AREA_RANGES[name] for name in self.reductions.areas]
        return [int(_bit(self._true[0], known.index(pair)).sum()) for pair in bins]

    def _need_pairs(self, name: str) -> None:
        if self.reductions.iou_type == ("keypoints",):
            more = "TIDE is about IoU" if name == "errors()" else "it keeps no pairs of them: ask a COCOeval"
            raise InputError(f"{name} is not defined for keypoints of {self.metric}, as {more}")
        if not isinstance(self.records, PairColumns):
            raise InputError(_needed(name))

    def _rows_of(self, column: int) -> Ints | None:
        """Rows of the images that count in a table, image after image; None: all of them as they are."""
        if np.array_equal(self.kept, np.arange(len(self._table))):
            return None
        lengths = self._table[:, column]
        return _spread((lengths.cumsum() - lengths)[self.kept], lengths[self.kept])

    @cached_property
    def _detections(self) -> Bytes:
        """Rows of detections of the images that count, with padding."""
        return _taken(self.records.detections, self._rows_of(_DETECTIONS))

    @cached_property
    def _real_detections(self) -> Bools:
        return np.asarray(self._detections[:, _BUCKET] != PADDING_BUCKET)

    @cached_property
    def _found(self) -> tuple[Bytes, Ints]:
        """Rows of detections that are no padding, and how many each image has."""
        return _real(self._detections, self._real_detections, self._table[self.kept, _DETECTIONS])

    @cached_property
    def _true(self) -> tuple[Bytes, Ints]:
        """Likewise of ground truths."""
        rows = _taken(self.records.ground_truths, self._rows_of(_GROUND_TRUTHS))
        return _real(rows, _bit(rows, self.reductions.shape.areas), self._table[self.kept, _GROUND_TRUTHS])

    @cached_property
    def _bits(self) -> tuple[Bools, Bools]:
        """Bool ``[D, T]``: matched, and ignored, in the range of all areas."""
        rows, size = self._found[0], (self.reductions.shape.settings + 7) // 8
        return tuple(  # type: ignore[return-value]
            np.unpackbits(
                rows[:, start : start + size], axis=1, count=self.reductions.shape.thresholds, bitorder="little"
            ).astype(np.bool_)
            for start in (_MATCHED, _MATCHED + size)
        )

    def _classes(self, labels: Ints, gt_labels: Ints) -> tuple[list[str], Ints, Ints]:
        """Names of classes, and the position of each label among them."""
        if self.reductions.pooled:
            return ["all"], np.zeros(len(labels), np.int64), np.zeros(len(gt_labels), np.int64)
        names = np.union1d(labels, gt_labels)
        positions = (np.searchsorted(names, side) for side in (labels, gt_labels))
        return [str(label) for label in names.tolist()], *positions  # type: ignore[return-value]


def _needed(question: str) -> str:
    return f"{question} needs the pairs of detections and ground truths of any class: make the metric with errors=True"


def _taken(table: torch.Tensor, rows: Ints | None) -> Bytes:
    """Rows of a table, on the host; None for all."""
    taken: Bytes = table.cpu().numpy()
    return taken if rows is None else taken[rows]


def _spread(starts: Ints, sizes: Ints) -> Ints:
    """From each start on, as many indices as its size says."""
    found: Ints = np.repeat(starts - (sizes.cumsum() - sizes), sizes)
    found += np.arange(len(found))
    return found


def _labels(columns: Bytes) -> Any:
    return columns.copy().view(np.int32)[:, 0]


def _bit(rows: Bytes, bit: int) -> Bools:
    """Bool ``[G]`` of rows of ground truths."""
    return (rows[:, 4 + bit // 8] >> bit % 8 & 1).astype(np.bool_)


def _real(rows: Bytes, real: Bools, lengths: Ints) -> tuple[Bytes, Ints]:
    """Leaves out rows of padding."""
    if bool(real.all()):
        return rows, lengths
    images = np.repeat(np.arange(len(lengths)), lengths)
    return rows[real], np.bincount(images[real], minlength=len(lengths))
