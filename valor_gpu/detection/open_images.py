"""Average precision of Open Images: class hierarchy, group-of boxes, labels that nobody verified."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.detection.record_checks import RecordChoices
from valor_gpu.detection.records import DetectionRecords, doubtful_boxes
from valor_gpu.errors import InputError
from valor_gpu.inputs.hierarchy import ClassHierarchy
from valor_gpu.inputs.open_images import GIVEN, Expansion, describe_error, open_images_batch
from valor_gpu.metric import Metric
from valor_gpu.ops.accumulate.cpu import setting_bits
from valor_gpu.ops.accumulate.op import accumulate
from valor_gpu.ops.accumulate.types import AccumulateChoices, Accumulated, RecordShape
from valor_gpu.ops.assign.image_order import choose_images
from valor_gpu.ops.assign.match_batch import CHECK_SCORES, GROUP_OF, HASHED, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.error_codes import NO_ERROR, raise_or_defer
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.reduce.all_points import all_points_average_precision, mean_of_classes
from valor_gpu.reduce.coco_summary import absent_reasons
from valor_gpu.result import Result, Signature
from valor_gpu.state import check_elements, check_rows, joined
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.analysis.detection import DetectionAnalysis
    from valor_gpu.options import MetricOptions

_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class OpenImagesRecords(DetectionRecords):
    """Matched batches, and what they were made of.

    Attributes:
        given: int64 ``[I, 4]``, see :class:`valor_gpu.inputs.open_images.OpenImagesBatch`.
    """

    given: Tensor = joined()

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the tables are such as matching by ``rule`` leaves."""
        super().check(rule)
        check_rows("given", self.given, len(self.images), "images")
        ground_truths, groups = self.given[:, 0], self.given[:, 1]
        good = (self.given >= 0).all(1) & (groups <= ground_truths) & (ground_truths <= self.images[:, 5])
        check_elements("given", self.given, good, "count boxes of its image")


class OpenImagesAveragePrecision(Metric[OpenImagesRecords]):
    """Computes average precision by the rules of Open Images: its class hierarchy, groups and verified labels.

    Detections of an (image, class) are taken by descending score. Each looks at the one ground truth that is no group
    and has the largest IoU (the earlier of equal ones): at or above the threshold it is a true positive, unless another
    detection holds that ground truth. What is no true positive is compared with the groups of the class, by
    intersection over the area of the detection. With ``group_weight`` 1 the first detection in a group is a true
    positive, further ones are ignored, and a group without detections is a miss; with 0 all are ignored and groups do
    not count. All else are false positives. A ground truth also counts for every ancestor of its class.

    AP of a class is the area under the interpolated precision-recall curve at every recall step (PASCAL VOC 2010), not
    at 101 samples; ``map`` is its mean over classes with ground truth and over IoU thresholds. Definition: Open Images
    Challenge, evaluation of object detection (https://storage.googleapis.com/openimages/web/evaluation.html), and
    ``OpenImagesChallengeEvaluator`` of the TensorFlow object detection API, which this differs from where two scores
    of a class are equal: here they rank by image id (or, without ids, by content) and index, so that neither batch
    size nor world size changes a bit.

    ``update`` keeps 15 bytes per detection (17 with 9 to 16 thresholds), 5 per ground truth, both after expansion, and
    96 per image, never boxes.

    Args:
        hierarchy: the JSON of Open Images as ``json.load`` gives it (``LabelName``, ``Subcategory``; a ``Part`` is no
            kind of its whole, and the root is no class unless ``class_labels`` has it), or a dict from class to its
            parent or list of parents. None: no class has a parent.
        class_labels: name to integer label of every class; the hierarchy then uses names, results show them, and other
            labels are an error. None: the hierarchy uses integer labels.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``, of predictions and targets.
        iou_thresholds: IoU (of groups: intersection over detection area) at which a detection matches, in [0, 1].
        group_weight: 1, as in the challenges from 2018 on, or 0, as in the metric of Open Images V2.
        expand_detections: a detection also counts for every ancestor of its class. Without it, as in the challenge,
            models predict ancestors themselves.

    Raises:
        InputError: an argument is out of range, or the hierarchy has a cycle; the message names it.

    Example:
        >>> preds = [{"boxes": torch.tensor([[10.0, 10, 50, 50], [0, 0, 9, 9]]),
        ...           "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 1])}]
        >>> target = [{"boxes": torch.tensor([[0.0, 0, 100, 100]]), "labels": torch.tensor([1]),
        ...            "is_group_of": torch.tensor([1])}]
        >>> metric = OpenImagesAveragePrecision({"car": "vehicle"}, {"vehicle": 0, "car": 1}, expand_detections=True)
        >>> metric.update(preds, target)
        >>> result = metric.result()  # the first detection in the group is a true positive, the second is ignored
        >>> dict(result.values["map_per_class"]), result.counts["ignored_detections"]
        ({'vehicle': 1.0, 'car': 1.0}, 2)
    """

    is_differentiable = False
    higher_is_better = True
    _takes_lists = True
    _learns_classes = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def __init__(
        self,
        hierarchy: Mapping[Any, Any] | None = None,
        class_labels: Mapping[str, int] | None = None,
        *,
        box_format: str = "xyxy",
        iou_thresholds: Sequence[float] = (0.5,),
        group_weight: int = 1,
        expand_detections: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("box_format", box_format, BOX_FORMATS)
        check_choice("group_weight", group_weight, (0, 1))
        check_type("expand_detections", expand_detections, bool)
        self.box_format, self.group_weight, self.expand_detections = box_format, int(group_weight), expand_detections
        self.iou_thresholds = _thresholds(iou_thresholds)
        self.hierarchy = ClassHierarchy.of(hierarchy, class_labels)
        self._expansion = Expansion(self.hierarchy, expand_detections, self.group_weight)
        areas = [(-np.inf, np.inf)]
        self._rule = MatchRule.make(self.iou_thresholds, areas, [_NO_LIMIT], HASHED | CHECK_SCORES, GROUP_OF)
        self._state_rule = RecordChoices(self._rule)
        none = DetectionRecords.none(self._rule).tensors()
        empty = OpenImagesRecords(**none, given=torch.empty((0, len(GIVEN)), dtype=torch.int64))
        super().__init__(empty, self._config(), **kwargs)

    _usual: ClassVar[Mapping[str, Any]] = {"iou_thresholds": [0.5], "group_weight": 1, "expand_detections": False}

    def _config(self) -> dict[str, Any]:
        """What ``update`` depends on."""
        return {
            "box_format": self.box_format,
            "iou_thresholds": self.iou_thresholds,
            "group_weight": self.group_weight,
            "expand_detections": self.expand_detections,
            "hierarchy": self.hierarchy.digest,
        }

    def update(
        self,
        preds: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
        target: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
    ) -> None:
        """Matches a batch of images and keeps its records.

        Args:
            preds: one dict per image: ``boxes [D, 4]``, ``scores [D]`` (any floating dtype), ``labels [D]`` (integer);
                or one dict of tensors padded to ``[B, N, ...]`` with ``counts [B]``.
            target: one dict per image: ``boxes [G, 4]``, ``labels [G]``, optionally ``is_group_of [G]`` (0 or 1; none
                is a group by default), ``image_id`` (int or one-element tensor), ``positive_labels [P]`` and
                ``negative_labels [N]``: labels that somebody looked for, and found or did not find in the image. If an
                image has one of the last two, its detections of other classes are left out: of classes that are
                neither among the ground truths, nor positive or an ancestor of one that is, nor negative or a
                descendant of one that is. Or one padded dict, without the last two.

        Raises:
            InputError: naming the image, key and row. On CUDA, bad values are raised by ``compute`` instead, since
                ``update`` does not synchronise with the device.
        """
        expanded = open_images_batch(preds, target, self.box_format, self._expansion)
        if len(expanded.given) == 0:
            return
        error = raise_or_defer(expanded.error, describe_error)
        matched = assign(expanded.batch, self._rule)
        if error is not None:  # the user's rows come first: those of matching are counted after expansion
            error = torch.where(error == NO_ERROR, matched.error, error)
        self._add(OpenImagesRecords(**DetectionRecords.of(matched).tensors(), given=expanded.given), error)

    def compute(self) -> dict[str, Tensor]:
        """Returns float32 ``map``, ``map_per_class [K]`` (NaN without ground truth), and int32 ``classes [K]``."""
        values = self._reduce(self.state())
        per_class = torch.as_tensor(values.per_class(), dtype=torch.float32)
        value = torch.tensor(mean_of_classes(values.precision), dtype=torch.float32)
        return {"map": value, "map_per_class": per_class, "classes": torch.as_tensor(values.labels).int()}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns ``map``, by IoU threshold and by class, in float64 with signature and counts.

        NaN, with a reason, is the value of a class that has detections but no ground truth. Counts are those of images
        that count: ``ground_truths``, ``groups`` and ``detections`` as given, what expansion added to them,
        ``unverified_detections`` left out, and ``ignored_detections`` at the first IoU threshold. Counts of boxes that
        are mostly mistakes (see :meth:`MeanAveragePrecision.result`) are of boxes after expansion.

        Args:
            intervals: also give the interval of each number: replicates of the bootstrap of images, or a
                :class:`valor_gpu.stats.Bootstrap`.
        """
        with self.synced_state() as state:
            result = self._result(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _describe_error(self, code: int) -> str:
        return f"{describe_error(code)} (the image is counted within its batch)"

    # ---------------------------------------------------------------------------------------------------- reductions

    def _reduce(self, state: OpenImagesRecords) -> _Reduced:
        # Images as accumulation chooses them, so that the other columns of the state follow.
        kept = choose_images(state.images.cpu().numpy(), True)
        found, precision, ignored = self._accumulate(state, kept)
        totals = found.totals
        given = dict(zip(GIVEN, state.given.cpu().numpy()[kept].sum(0).tolist()))
        unverified = given.pop("unverified_detections")
        counts = {
            "images": totals.images, "repeated_images": totals.repeated, **given,
            "expanded_ground_truths": totals.ground_truths - given["ground_truths"],
            "expanded_detections": totals.detections + unverified - given["detections"],
            "unverified_detections": unverified, "ignored_detections": ignored, **doubtful_boxes(totals),
        }  # fmt: skip
        return _Reduced(found.labels.cpu().numpy(), precision, counts)

    def _accumulate(
        self, records: DetectionRecords, images: NDArray[np.int64]
    ) -> tuple[Accumulated, NDArray[np.float64], int]:
        """What accumulation finds in some images, AP ``[T, K]``, and detections ignored at the first threshold."""
        choices = AccumulateChoices(RecordShape.of(self._rule), np.empty(0), images=images)
        found = accumulate(records.detections, records.ground_truths, records.images, choices)
        rows, offsets = records.detections[found.ordered.order], found.ordered.offsets
        settings = len(self.iou_thresholds)
        positives = found.positives[:, 0].cpu().numpy()
        precision = np.empty((settings, len(positives)))
        ignored = 0
        for setting in range(settings):
            matched, skipped = (_bits(rows, setting, field, settings) for field in (0, 1))
            classes, ranks = _true_positives(matched & ~skipped, ~skipped, offsets)
            precision[setting] = all_points_average_precision(classes, ranks, positives)
            ignored += int(skipped.sum()) if setting == 0 else 0
        return found, precision, ignored

    def _result(self, state: OpenImagesRecords) -> Result:
        reduced = self._reduce(state)
        values = self._values(reduced)
        signature = Signature({"metric": "OpenImagesAveragePrecision", **self._config()})

        def resampled() -> Resampled:
            from valor_gpu.detection.repeated_records import RepeatedRecords

            return RepeatedRecords(state, self._repeated_values, self.hierarchy.name)

        def analysis() -> DetectionAnalysis:
            from valor_gpu.detection.open_images_analysis import OpenImagesAnalysis

            tables = [table.cpu().numpy() for table in (state.detections, state.ground_truths, state.images)]
            with warnings.catch_warnings():  # of copies with other detections the result has warned
                warnings.simplefilter("ignore")
                kept = choose_images(tables[2], True)
            choices = self.iou_thresholds, dict(signature), partial(self._result_of_images, state)
            return OpenImagesAnalysis(tables, kept, self.hierarchy.name, *choices)

        return Result(values, signature, reduced.counts, absent_reasons(values), state=resampled, analysis=analysis)

    def _result_of_images(self, state: OpenImagesRecords, images: NDArray[np.int64]) -> Result:
        """The result of rows of images."""
        from valor_gpu.detection.repeated_records import repeat_records

        rows = torch.from_numpy(images).to(state.images.device)
        records = repeat_records(state, rows).tensors()
        return self._result(OpenImagesRecords(**records, given=state.given[rows.to(state.given.device)]))

    def _values(self, reduced: _Reduced) -> dict[str, Any]:
        names = [self.hierarchy.name(label) for label in reduced.labels.tolist()]
        return {
            "map": mean_of_classes(reduced.precision),
            "map_per_iou_threshold": {
                f"{iou:g}": mean_of_classes(row) for iou, row in zip(self.iou_thresholds, reduced.precision)
            },
            "map_per_class": dict(zip(names, reduced.per_class().tolist())),
        }

    def _repeated_values(self, records: DetectionRecords) -> dict[str, Any]:
        """The numbers of records all of whose images count, in order."""
        found, precision, _ = self._accumulate(records, np.arange(len(records.images)))
        return self._values(_Reduced(found.labels.cpu().numpy(), precision, {}))


@dataclass(frozen=True)
class _Reduced:
    """What the numbers are made of.

    Attributes:
        labels: int64 ``[K]`` ascending.
        precision: float64 ``[T, K]``, AP at every IoU threshold, NaN without ground truth.
        counts: how many there were.
    """

    labels: NDArray[np.int64]
    precision: NDArray[np.float64]
    counts: dict[str, int]

    def per_class(self) -> NDArray[np.float64]:
        """float64 ``[K]``, the mean over IoU thresholds."""
        means: NDArray[np.float64] = self.precision.mean(axis=0)
        return means


def _bits(rows: Tensor, setting: int, field: int, settings: int) -> Tensor:
    """Bool ``[N]``; see :func:`valor_gpu.ops.accumulate.cpu.setting_bits`."""
    bits: Any = setting_bits(cast(Any, rows), setting, field, settings)
    return cast(Tensor, bits)


def _true_positives(true: Tensor, counting: Tensor, offsets: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Class indices and ranks of true positives among detections that count, for :func:`all_points_average_precision`.

    Args:
        true: bool ``[N]``, true positives, by class and then by score.
        counting: bool ``[N]``, not ignored.
        offsets: int64 ``[K + 1]``, where classes begin.
    """
    rows = true.nonzero()[:, 0]
    classes = torch.searchsorted(offsets, rows, right=True) - 1
    before = torch.cat((counting.new_zeros(1, dtype=torch.int64), counting.cumsum(0)))
    ranks = before[rows + 1] - before[offsets[classes]]
    return classes.cpu().numpy(), ranks.cpu().numpy()


def _thresholds(values: Sequence[float]) -> list[float]:
    check_type("iou_thresholds", values, (list, tuple, np.ndarray))
    for value in values:
        check_number("a number in iou_thresholds", value, 0, 1)
    if len(values) == 0:
        raise InputError("iou_thresholds must hold at least one number but is empty")
    return [float(value) for value in values]
