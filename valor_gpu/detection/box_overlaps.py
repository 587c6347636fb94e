"""Mean IoU, GIoU, DIoU and CIoU of pairs of boxes, as losses of detectors have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.analysis.no_images import NoImages
from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.boxes import detection_batch
from valor_gpu.inputs.values import as_values
from valor_gpu.metric import Metric
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.boxes.op import box_iou, to_xywh
from valor_gpu.ops.boxes.similarity import similarity_of_pairs
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, pack_box, raise_or_defer
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ragged import Ragged
from valor_gpu.result import Result, Signature
from valor_gpu.state import MAX_SUM, ROUNDING, State, check_elements, check_rows, check_sums, joined, summed
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import refusing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

_LEAST = 2.0  # no similarity lies further from 0
_NO_PAIR = "no pair of a detection and a ground truth counts"
_NO_IMAGES = (
    "intervals need the sums of each image but metrics of box overlaps keep those of all images together: take"
    " MeanAveragePrecision, or compute the number of each image by a metric of its own"
)


@dataclass(frozen=True)
class PairSums(State):
    """Sums over the pairs that count.

    Attributes:
        sums: float64 ``[2]``: their similarities, and how many there are.
        seen: int64 ``[4]``: images, ground truths, detections, and boxes of negative width or height.
        labels: int64 ``[N]``, of every ground truth and detection where classes are wanted.
        parts: float64 ``[N, 2]``: the sums of each ground truth; zeros for a detection.
    """

    sums: Tensor = summed()
    seen: Tensor = summed()
    labels: Tensor = joined()
    parts: Tensor = joined()

    def check(self, rule: Any) -> None:
        """Raises :class:`InputError` unless the sums are possible for so many pairs."""
        check_sums("seen", self.seen)
        check_rows("parts", self.parts, len(self.labels), "labels")
        for name, sums in (("sums", self.sums[None]), ("parts", self.parts)):
            total, count = sums.unbind(1)
            good = (count >= 0) & (count <= MAX_SUM) & (total.abs() <= _LEAST * count * (1 + ROUNDING))
            check_elements(name, sums, good, "be a sum of similarities and their count")


class _Pairs(NamedTuple):
    """Which rows form pairs, image by image: int64 ``[P]`` ground truth and detection, and per ground truth counts."""

    ground_truth: NDArray[np.int64]
    detection: NDArray[np.int64]
    per_ground_truth: NDArray[np.int64]


def _pairs(lengths: NDArray[np.int64]) -> _Pairs:
    """All pairs of every image, of int64 ``[2, I]`` detections and ground truths of each."""
    detections, ground_truths = lengths
    per = np.repeat(detections, ground_truths)
    rows = np.repeat(np.arange(len(per)), per)
    first = np.repeat(np.repeat(detections.cumsum() - detections, ground_truths), per)
    return _Pairs(rows, first + np.arange(len(rows)) - np.repeat(per.cumsum() - per, per), per)


class IntersectionOverUnion(Metric[PairSums]):
    """Computes the mean IoU of the pairs of detections and ground truths of an image that have one label.

    No detection is matched to one ground truth: the mean is over all pairs. As in torchmetrics, whose numbers these
    are, an image without detections counts one 0 for each ground truth, and one without ground truths one 0 for each
    detection (without ``respect_labels`` as many zeros as the square of that number). Two boxes without area have an
    IoU of 0, where one such pair turns the number of all images into 0 or NaN in torchmetrics. Scores are not used.

    Source: Jaccard, Bulletin de la Société Vaudoise des Sciences Naturelles 37 (1901); torchmetrics,
    ``IntersectionOverUnion``.

    Args:
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``.
        iou_threshold: pairs that are less similar do not count; None takes all.
        class_metrics: also give the number of every label; this keeps 24 bytes for each box.
        respect_labels: only pairs of one label count.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> preds = [{"boxes": torch.tensor([[0.0, 0.0, 2.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> target = [{"boxes": torch.tensor([[1.0, 0.0, 3.0, 2.0]]), "labels": torch.tensor([4])}]
        >>> metric = IntersectionOverUnion()
        >>> metric.update(preds, target)
        >>> metric.compute()
        {'iou': tensor(0.3333)}
    """

    is_differentiable = False
    higher_is_better = True
    _takes_lists = True
    _learns_classes = True
    plot_lower_bound: float | None = 0.0
    plot_upper_bound = 1.0
    similarity: ClassVar[str] = "iou"

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_threshold: float | None = None,
        class_metrics: bool = False,
        respect_labels: bool = True,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("box_format", box_format, BOX_FORMATS)
        number = isinstance(iou_threshold, (int, float)) and not isinstance(iou_threshold, bool)
        if iou_threshold is not None and not (number and math.isfinite(iou_threshold)):
            raise InputError(f"iou_threshold must be a finite number or None but got {iou_threshold!r}")
        check_type("class_metrics", class_metrics, bool)
        check_type("respect_labels", respect_labels, bool)
        self.box_format, self.iou_threshold = box_format, None if iou_threshold is None else float(iou_threshold)
        self.class_metrics, self.respect_labels = class_metrics, respect_labels
        empty = PairSums(
            torch.zeros(2, dtype=torch.float64),
            torch.zeros(4, dtype=torch.int64),
            torch.zeros(0, dtype=torch.int64),
            torch.zeros((0, 2), dtype=torch.float64),
        )
        config = {"similarity": self.similarity, "box_format": box_format, "iou_threshold": self.iou_threshold,
                  "class_metrics": class_metrics, "respect_labels": respect_labels}  # fmt: skip
        super().__init__(empty, config, **kwargs)

    def update(self, preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]]) -> None:
        """Adds a batch of images.

        Args:
            preds: one dict per image: ``boxes [D, 4]`` (floating, or integers), ``labels [D]`` (integer).
            target: one dict per image: ``boxes [G, 4]``, ``labels [G]``.

        Raises:
            InputError: naming the image, key and row. On CUDA, boxes that are not finite are raised by ``compute``
                instead, since ``update`` does not synchronise with the device.
        """
        for name, side in (("preds", preds), ("target", target)):
            if isinstance(side, Mapping):
                raise InputError(f"{name} must be a sequence of dicts, one per image, but got a dict")
        batch = detection_batch(_scored(preds), target, self.box_format)
        if batch.lengths.shape[1] == 0:
            return
        lengths = batch.lengths.numpy()
        boxes, gt_boxes = _corners(batch.boxes, batch.box_format), _corners(batch.gt_boxes, batch.gt_box_format)
        deferred = raise_or_defer(_first_error(lengths, boxes, gt_boxes), describe_box)
        parts = self._parts_of(batch, lengths, boxes, gt_boxes)
        total, count = parts.sum(0)
        sums = torch.stack((total, count + float(_zeros(lengths, self.respect_labels).sum())))
        negative = (gt_boxes[:, 2:] < gt_boxes[:, :2]).any(1).sum() + (boxes[:, 2:] < boxes[:, :2]).any(1).sum()
        sizes = (lengths.shape[1], *lengths[::-1].sum(1).tolist())
        seen = torch.stack([torch.full_like(negative, size) for size in sizes] + [negative])
        rows = (negative.new_empty(0), parts.new_empty((0, 2)))
        if self.class_metrics:
            rows = self._rows(batch, lengths, parts)
        self._add(PairSums(sums, seen, *rows), deferred)

    def _parts_of(self, batch: MatchBatch, lengths: NDArray[np.int64], boxes: Tensor, gt_boxes: Tensor) -> Tensor:
        """float64 ``[G, 2]``: of each ground truth, the sum over its pairs that count, and how many do."""
        pairs, device = _pairs(lengths), gt_boxes.device
        index = torch.from_numpy(np.stack((pairs.ground_truth, pairs.detection)))
        rows, columns = to_device(index, device).unbind(0)
        sides = [Ragged(_xywh(side), batch.lengths[place]) for side, place in ((gt_boxes, 1), (boxes, 0))]
        values = similarity_of_pairs(
            self.similarity, gt_boxes[rows], boxes[columns], box_iou(*sides, box_format="xywh").values
        )
        counts = torch.ones_like(values, dtype=torch.bool)
        if self.respect_labels:
            counts = torch.cat(list(batch.gt_labels)).long()[rows] == torch.cat(list(batch.labels)).long()[columns]
        if self.iou_threshold is not None:
            counts = counts & (values >= self.iou_threshold)
        terms = torch.stack((torch.where(counts, values, 0.0), counts.double()), 1)
        if not len(pairs.per_ground_truth):
            return terms.new_zeros((0, 2))
        per = to_device(torch.from_numpy(pairs.per_ground_truth), device)
        return torch.segment_reduce(terms, "sum", lengths=per, axis=0, initial=0, unsafe=True)

    def _rows(self, batch: MatchBatch, lengths: NDArray[np.int64], parts: Tensor) -> tuple[Tensor, Tensor]:
        """Labels and sums of every ground truth, and labels of every detection."""
        alone = np.where(lengths[0] == 0, 1 if self.respect_labels else lengths[1], 0)
        extra = to_device(torch.from_numpy(np.repeat(alone, lengths[1]).astype(np.float64)), parts.device)
        found = torch.cat(list(batch.labels)).long()
        labels = torch.cat((torch.cat(list(batch.gt_labels)).long(), found))
        own = torch.stack((parts[:, 0], parts[:, 1] + extra), 1)
        return labels, torch.cat((own, own.new_zeros((len(found), 2))))

    def compute(self) -> dict[str, Tensor]:
        """Returns float32 ``{"iou": ...}``, with ``class_metrics`` also ``iou/cl_{label}``; 0 where no pair counts."""
        state, name = self.state(), self.similarity
        classes = {f"{name}/cl_{label}": sums.to(self.device) for label, sums in self._by_class(state).items()}
        return {key: _mean(sums, 0.0).float() for key, sums in {name: state.sums, **classes}.items()}

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the number in float64, with ``class_metrics`` by label, and counts; NaN where no pair counts.

        Args:
            intervals: raises :class:`InputError`, since sums say nothing of images.
        """
        with self.synced_state() as state:
            value = float(_mean(state.sums, math.nan))
            classes = {str(label): float(_mean(sums, math.nan)) for label, sums in self._by_class(state).items()}
            values = {self.similarity: value, **({"per_class": classes} if self.class_metrics else {})}
            flat = {self.similarity: value, **{f"per_class/{label}": number for label, number in classes.items()}}
            missing = {name: _NO_PAIR for name, number in flat.items() if math.isnan(number)}
            names = ("images", "ground_truths", "detections", "boxes_of_negative_size")
            counts = {**dict(zip(names, state.seen.tolist())), "pairs": int(state.sums[1])}
            signature = Signature({"metric": type(self).__name__, **self._identity.config})
            none = NoImages(type(self).__name__, "update one metric for each slice")
            result = Result(values, signature, counts, missing, state=refusing(_NO_IMAGES), analysis=none)
        return result if intervals is None else result.with_intervals(intervals)

    def _by_class(self, state: PairSums) -> dict[int, Tensor]:
        """Sums float64 ``[2]`` by label, ascending, on the CPU, where they are added up in order."""
        labels, places = state.labels.cpu().unique(return_inverse=True)
        sums = torch.zeros((len(labels), 2), dtype=torch.float64).index_add_(0, places, state.parts.cpu())
        return dict(zip(labels.tolist(), sums))

    def _describe_error(self, code: int) -> str:
        return f"{describe_box(code)} (the image is counted within its batch)"


def _mean(sums: Tensor, empty: float) -> Tensor:
    return torch.where(sums[1] > 0, sums[0] / sums[1], empty)


def _scored(preds: Any) -> Any:
    """Detections with scores in place of theirs, since none are used."""
    if not isinstance(preds, Sequence) or isinstance(preds, (str, bytes)):
        return preds
    return [_with_scores(index, item) if isinstance(item, Mapping) else item for index, item in enumerate(preds)]


def _with_scores(index: int, item: Mapping[str, Any]) -> dict[str, Any]:
    if "labels" not in item:
        raise InputError(f"preds[{index}] must have key 'labels' but has {list(item)}")
    labels = as_values(f"preds[{index}]['labels']", item["labels"])
    return {**item, "labels": labels, "scores": torch.zeros_like(labels, dtype=torch.float32)}


def _corners(boxes: Sequence[Tensor], code: int) -> Tensor:
    """float64 ``[N, 4]`` x1, y1, x2, y2 of the boxes of all images."""
    whole = torch.cat([part.reshape(-1, 4) for part in boxes])
    if BOX_FORMATS[code] == "xyxy":
        return whole.double()
    xywh = to_xywh(whole, code)
    return torch.cat((xywh[:, :2], xywh[:, :2] + xywh[:, 2:]), 1)


def _xywh(corners: Tensor) -> Tensor:
    return torch.cat((corners[:, :2], corners[:, 2:] - corners[:, :2]), 1)


def _first_error(lengths: NDArray[np.int64], boxes: Tensor, gt_boxes: Tensor) -> Tensor:
    """int64 ``[]``, error code of the first box that is not finite."""
    codes = [torch.full((1,), NO_ERROR, device=boxes.device)]
    for side, counts, kind in ((boxes, lengths[0], 1), (gt_boxes, lengths[1], 4)):
        images = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        rows = np.arange(len(images), dtype=np.int64) - np.repeat(counts.cumsum() - counts, counts)
        places = pack_box(images, rows, kind)
        table = to_device(torch.from_numpy(places), side.device)
        codes.append(torch.where(side.isfinite().all(1), NO_ERROR, table))
    return torch.cat(codes).min()


def _zeros(lengths: NDArray[np.int64], respect_labels: bool) -> NDArray[np.int64]:
    """int64 ``[I]``: how many zeros an image counts that has boxes on one side alone."""
    alone = np.where(lengths.min(0) == 0, lengths.max(0), 0)
    found: NDArray[np.int64] = alone if respect_labels else alone**2
    return found
