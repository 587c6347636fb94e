"""COCO mean average precision and recall (Lin et al. 2014; pycocotools ``COCOeval``) of boxes and other shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.detection.choices import AREA_RANGES, check_levels, check_limits
from valor_gpu.detection.coco_files import CocoFiles
from valor_gpu.detection.error_records import (
    FoundPairs,
    find_pairs,
    joint_columns,
    lowest_iou,
    no_pairs,
    stored_by_class,
    with_columns,
)
from valor_gpu.detection.extended import (
    JointRecords,
    batch_records,
    no_joint_records,
    no_records,
)
from valor_gpu.detection.geometry import (
    Boxes,
    GeometryChoices,
    KeypointRows,
    Shapes,
    choose_geometries,
    match_all,
    plain_code,
    read_all,
)
from valor_gpu.detection.mean_ap_choices import MeanApChoices, describe_error, mean_ap_deviations
from valor_gpu.detection.mean_ap_dict import torchmetrics_dict
from valor_gpu.detection.record_checks import RecordChoices
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.metric import Metric
from valor_gpu.ops.accumulate.types import Accumulated, RecordShape
from valor_gpu.ops.assign.match_batch import AGNOSTIC, CHECK_SCORES, HASHED, USER_INPUT, MatchBatch, Matched, MatchRule
from valor_gpu.plans import Planner, Step
from valor_gpu.result import Result
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

_FLAGS = HASHED | CHECK_SCORES | USER_INPUT
_TABLES = ("detections", "ground_truths", "images")


class MeanAveragePrecision(CocoFiles, Metric[DetectionRecords]):
    """Computes mean average precision and recall: torchmetrics' interface, pycocotools' numbers.

    ``update`` matches the batch where its tensors are and keeps 23 bytes per detection, 5 per ground truth and 64 per
    image, for each ``iou_type``; what ``keep_inputs`` keeps serves :meth:`tm_to_coco` alone. Detections are ranked by
    (score, image key, index in the image), the key being ``target[i]["image_id"]`` or, without one, a hash of the
    image's own rows: no batch size, batch order or world size changes a bit, and with ids the numbers are bit-identical
    to pycocotools. IoU thresholds and recall grid are numpy's float64 ``linspace``, where torchmetrics has float32
    values that move AP by about 3e-4 on sets of the size of COCO, and by 0.01 or more on small ones. An image with more
    detections than the largest limit gives a warning unless the attribute ``warn_on_many_detections`` is False.

    Args:
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``; rotated boxes: ``cxcywha``, centre, width, height and angle, or
            ``xyxyxyxy``, the corners of a convex quadrilateral in either direction.
        iou_type: ``bbox``; ``rotated`` for the IoU of :func:`valor_gpu.ops.rotated_box_iou`, with box formats of its
            own; ``segm`` for masks, ``boundary`` for the smaller one of that and the IoU of their boundaries
            (Boundary IoU, Cheng et al. 2021); ``polygon`` for the IoU of :func:`valor_gpu.ops.polygon_iou`, from exact
            areas without pixels; ``keypoints`` for :func:`valor_gpu.ops.keypoint_similarity`, with
            COCO's choices for persons: no small area. Several of ``bbox``, ``segm`` and ``boundary`` together give
            numbers with such prefixes as ``segm_``, all with areas of masks where ``target`` has no ``area``, as in
            torchmetrics.
        iou_thresholds: IoU at which a detection matches, in [0, 1]; default 0.50, 0.55, ..., 0.95.
        rec_thresholds: recall values at which precision is read, in [0, 1]; default 0.00, 0.01, ..., 1.00.
        max_detection_thresholds: limits on detections per image and class, 1 to 254 different ones; default 1, 10, 100,
            for keypoints 20.
        class_metrics: also give ``map_per_class`` and ``mar_*_per_class``.
        extended_summary: also give ``precision``, ``recall``, ``scores`` and ``ious``; this keeps boxes, or of masks,
            polygons and keypoints the similarities: 8 bytes for each pair of an image, and for masks work on the CPU.
        average: ``macro`` averages over classes, ``micro`` pools them.
        backend: ``pycocotools`` or ``faster_coco_eval``, accepted as in torchmetrics; it changes nothing.
        sigmas: of K keypoints, numbers above 0; default COCO's 17.
        tie_order: how equal scores rank: ``image``, by the image key as above, or ``arrival``, by the order of images
            as in torchmetrics.
        keep_inputs: keep boxes (16 bytes) and masks (250, as runs) for :meth:`tm_to_coco`, outside of the state: True,
            False, with which dense masks on the CPU take half the time, or None for all but masks on CUDA.
        angle_unit: ``degrees`` or ``radians``, of ``cxcywha``. A torchvision tv_tensor in format ``CXCYWHR`` is read in
            degrees and counterclockwise whatever these two arguments say.
        angle_direction: ``counterclockwise`` as for Detectron2's ``RotatedBoxes``, or ``clockwise`` as for MMRotate's
            ``le90``, which is in radians; both as seen in the image, where y grows downwards.
        errors: also keep the pairs of a detection and a ground truth of any class whose IoU reaches 0.1 (True) or this
            number, above 0 and at most the lowest of ``iou_thresholds``: :meth:`~valor_gpu.result.Result.errors` and
            its like of a result are told from them. They take 12 bytes a pair and 4 a detection, about 13 bytes a
            detection on COCO, for each ``iou_type``; not defined for keypoints. With ``average="micro"`` errors are
            those of one class, ``all``.

    Raises:
        InputError: an argument is out of range; the message names it.

    Example:
        >>> preds = [{"boxes": torch.tensor([[258.0, 41.0, 606.0, 285.0]]),
        ...           "scores": torch.tensor([0.536]), "labels": torch.tensor([0])}]
        >>> target = [{"boxes": torch.tensor([[214.0, 41.0, 562.0, 285.0]]), "labels": torch.tensor([0])}]
        >>> metric = MeanAveragePrecision()
        >>> metric.update(preds, target)
        >>> round(float(metric.compute()["map"]), 4)
        0.6
        >>> # rotated boxes: centre, width, height, angle in degrees
        >>> preds[0]["boxes"] = torch.tensor([[100.0, 100.0, 80.0, 20.0, 35.0]])
        >>> target[0]["boxes"] = torch.tensor([[100.0, 100.0, 80.0, 20.0, 30.0]])
        >>> metric = MeanAveragePrecision(box_format="cxcywha", iou_type="rotated")
        >>> metric.update(preds, target)  # the IoU is 0.8360
        >>> round(float(metric.compute()["map"]), 4)
        0.7
    """

    is_differentiable = False
    higher_is_better = True
    _takes_lists = True
    _learns_classes = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str | Sequence[str] = "bbox",
        iou_thresholds: Sequence[float] | None = None,
        rec_thresholds: Sequence[float] | None = None,
        max_detection_thresholds: Sequence[int] | None = None,
        class_metrics: bool = False,
        extended_summary: bool = False,
        average: str = "macro",
        backend: str = "pycocotools",
        *,
        sigmas: Sequence[float] | None = None,
        tie_order: str = "image",
        keep_inputs: bool | None = None,
        angle_unit: str = "degrees",
        angle_direction: str = "counterclockwise",
        errors: bool | float = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("iou_type", iou_type, (str, list, tuple))
        self.iou_type = (iou_type,) if isinstance(iou_type, str) else tuple(iou_type)
        chosen = GeometryChoices(self.iou_type, box_format, angle_unit, angle_direction, sigmas)
        self._geometries = choose_geometries(chosen)
        check_choice("average", average, ("macro", "micro"))
        check_choice("backend", backend, ("pycocotools", "faster_coco_eval"))
        check_choice("tie_order", tie_order, ("image", "arrival"))
        check_type("keep_inputs", keep_inputs, (bool, type(None)))
        check_type("class_metrics", class_metrics, bool)
        check_type("extended_summary", extended_summary, bool)
        self.box_format, self.average, self.tie_order = box_format, average, tie_order
        self.class_metrics, self.extended_summary, self.keep_inputs = class_metrics, extended_summary, keep_inputs
        self.angle_unit, self.angle_direction, self.errors = angle_unit, angle_direction, errors
        self.iou_thresholds = check_levels("iou_thresholds", iou_thresholds, np.linspace(0.5, 0.95, 10))
        self.rec_thresholds = check_levels("rec_thresholds", rec_thresholds, np.linspace(0.0, 1.0, 101))
        self._lowest = lowest_iou(errors, self.iou_thresholds, self.iou_type)
        self._is_keypoints = self.iou_type == ("keypoints",)
        self.max_detection_thresholds = check_limits(
            max_detection_thresholds, [20] if self._is_keypoints else [1, 10, 100]
        )
        self._area_ranges = {n: r for n, r in AREA_RANGES.items() if n != "small" or not self._is_keypoints}
        self._rule = self._make_rule(AGNOSTIC if average == "micro" else 0)
        self._class_rule = self._make_rule(0)
        parts = len(self.iou_type)
        self._state_rule = RecordChoices(self._rule, extended_summary, self._rematches, parts, self._lowest)
        plain = not (extended_summary or self._rematches or self._lowest)
        self._plain_code = plain_code(self._geometries) if plain else None
        super().__init__(self._no_records(), self._config(), **kwargs)

    def _no_records(self) -> DetectionRecords:
        if self._boxes is None:
            none: DetectionRecords = no_joint_records(self._rule, len(self.iou_type))
        else:
            none = no_records(self._rule, self._boxes if self.extended_summary else None, self._rematches)
        return none if self._lowest is None else no_pairs(none, len(self.iou_type))

    @property
    def _boxes(self) -> Boxes | None:
        """The one geometry, if it is one of boxes, which an extended summary keeps."""
        first = next(iter(self._geometries.values()))
        return cast(Boxes, first) if len(self._geometries) == 1 and first.width else None

    @property
    def _rematches(self) -> bool:
        """Returns whether classes must be matched on their own, beside the pooled matching."""
        return self.average == "micro" and self.class_metrics

    def _make_rule(self, agnostic: int) -> MatchRule:
        areas = list(self._area_ranges.values())
        options = agnostic | (_FLAGS & ~USER_INPUT if self._is_keypoints else _FLAGS)  # keypoints check flags and areas
        return MatchRule.make(self.iou_thresholds, areas, self.max_detection_thresholds, options)

    def _config(self) -> dict[str, Any]:
        """Returns the choices that ``update`` depends on."""
        angles = {"angle_unit": self.angle_unit, "angle_direction": self.angle_direction}
        kinds = self.iou_type[0] if len(self.iou_type) == 1 else list(self.iou_type)
        sigmas = [list(g.sigmas) for g in self._geometries.values() if isinstance(g, KeypointRows)]
        return {
            **({"iou_type": kinds} if kinds != "bbox" else {}),
            **(angles if kinds == "rotated" else {}),
            **({"sigmas": sigmas[0]} if sigmas else {}),
            "box_format": self.box_format,
            "iou_thresholds": self.iou_thresholds,
            "max_detection_thresholds": self.max_detection_thresholds,
            "average": self.average,
            "class_metrics": self._rematches,
            "extended_summary": self.extended_summary,
            **({} if self._lowest is None else {"errors": self._lowest}),
        }

    def _planner(self) -> Planner | None:
        return None if self._plain_code is None else self._step

    def _step(self, base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
        if kwargs or len(args) != 2 or self._plain_code is None:
            return None
        if (error := base["error"]).is_cuda:
            found = self._device_tables(*args, self._plain_code, error)
            return None if found is None else Step({"error": found.error}, tuple(zip(_TABLES, found[:3])))
        tables = self._plain_tables(*args, self._plain_code)
        return None if tables is None else Step({}, tuple(zip(_TABLES, tables)))

    _step.on_cuda = True  # type: ignore[attr-defined]

    def update(
        self,
        preds: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
        target: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
    ) -> None:
        """Matches a batch of images and keeps its records.

        Args:
            preds: one dict per image: ``boxes [D, 4]`` (rotated: ``[D, 5]`` or ``[D, 8]``; integers become float64),
                or ``masks`` (see below), or ``keypoints [D, K, 3]`` (x, y and a number that is not used), ``scores
                [D]`` (any floating dtype), ``labels [D]`` (integer); or, of boxes, one dict of tensors padded to
                ``[B, N, ...]`` with ``counts [B]``. The size of keypoints is the area of their ``boxes [D, 4]`` where
                there are any, as for pycocotools' results with ``bbox``, else that of their extent.
            target: one dict per image: likewise, ``labels [G]``, optionally ``iscrowd [G]`` (0 or 1), ``area
                [G]`` (square pixels) and ``image_id`` (int or one-element tensor); or one padded dict. Keypoints are x,
                y and visibility, above 0 where visible: they need ``area``, and may have ``boxes`` ``[G, 4]``.

        ``masks`` of an image are a bool or uint8 tensor ``[N, H, W]`` on the device of the labels; or a list of N,
        each COCO's run lengths ``{"size": [H, W], "counts": ...}`` (str, bytes or a list) or polygons
        ``[[x0, y0, x1, y1, ...], ...]``, which need the size of the image as key ``size`` of the same dict, ``[H, W]``;
        or :class:`valor_gpu.inputs.Masks`, which takes label maps, logits and packed words too and can fill polygons
        by pixel centres with holes. Forms may differ from image to image and from ``preds`` to ``target``. A batch
        with dense masks alone stays where it is; any run lengths or polygons make run lengths of all, on the host.

        ``polygons`` of an image (``iou_type="polygon"``) are N items, a list or a :class:`valor_gpu.ops.PolygonSet`, on
        the host: an item is a list of polygons, a polygon a list of rings, a ring numbers ``[n, 2]``, x and y.

        Raises:
            InputError: naming the image, key and row. On CUDA, bad values (NaN scores, boxes that are not finite) are
                raised by ``compute`` instead, since ``update`` does not synchronise with the device. With ``errors``
                the host waits for the device once, to count the pairs, and no CUDA graph can capture ``update``.
        """
        code = self._plain_code if self.error.is_cpu else None
        if code is not None and (tables := self._plain_tables(preds, target, code)) is not None:
            for name, table in zip(_TABLES, tables):
                getattr(self, name).append(table)
            return
        batch, shapes = read_all(self._geometries, preds, target)
        if batch.lengths.shape[1] == 0:
            return
        keep = self._note_batch(batch, shapes)
        on_gpu = self.error.is_cuda and batch.labels[0].device == self.error.device
        error = self.error.clone() if on_gpu else None  # on the CPU errors raise at once
        records = self._match(batch, shapes, error)
        if error is not None and self._plain_code is not None:  # tables of a kernel, on the device of the metric
            for name, table in records.tensors().items():
                getattr(self, name).append(table)
        else:
            self._add(records)
        keep(cast(Any, self.images)[-1])
        if error is not None:
            self.__dict__["error"] = error  # torch.nn.Module would look through its parameters first

    def _match(self, batch: MatchBatch, shapes: list[Any], error: Tensor | None) -> DetectionRecords:
        """The records of a batch; on a GPU ``error`` is lowered to the first error."""
        pairs = FoundPairs({}, {})
        if self._lowest is not None:
            batch = batch.without_gaps(torch.from_numpy)
            pairs = find_pairs(self._geometries, batch, shapes, self._lowest, error)
        by_class = stored_by_class(pairs.stored)
        stored = pairs.stored if self.average == "micro" else by_class
        matched = match_all(self._geometries, batch, shapes, self._rule, error, stored)
        rematched: list[Matched] = []
        if self._rematches:
            rematched = match_all(self._geometries, batch, shapes, self._class_rule, error, by_class)
        if self._boxes is None:
            wanted = zip(self._geometries.values(), shapes) if self.extended_summary else ()
            ious = [cast(Shapes, kind).ious(batch, shape) for kind, shape in wanted]
            records: DetectionRecords = JointRecords.of_parts(matched, ious, rematched)
        else:
            kept = self._boxes if self.extended_summary else None
            records = batch_records(matched[0], batch, kept, rematched[0] if rematched else None)
        return with_columns(records, joint_columns([*pairs.links.values()])) if pairs.links else records

    @gives_own_memory
    def compute(self) -> dict[str, Tensor]:
        """Returns torchmetrics' dict: float32 ``map``, ``map_50``, ..., ``mar_100``, ...; -1 where nothing counts."""
        values: dict[str, Tensor] = {}
        choices, error = self._choices(), self.error if self.error.is_cuda else None
        wanted = self.class_metrics, self.extended_summary, self._boxes
        for prefix, records in self._parts(self.state()):
            found = torchmetrics_dict(choices, records, error, *wanted)
            values.update({name if name == "classes" else prefix + name: value for name, value in found.items()})
        return values

    def _parts(self, state: DetectionRecords) -> list[tuple[str, DetectionRecords]]:
        """The records of each geometry, and the prefix of its numbers."""
        if not isinstance(state, JointRecords):
            return [("", state)]
        names = [f"{name}_" for name in self.iou_type] if len(self.iou_type) > 1 else [""]
        return [(prefix, state.part(index, len(names))) for index, prefix in enumerate(names)]

    def result(self, tie_interval: bool = False, intervals: int | Bootstrap | None = None) -> Result:
        """Returns all numbers in float64 with signature, counts and curves; NaN, with a reason, where nothing counts.

        The counts ``detections_of_negative_size``, ``detections_in_fractions`` and their like of ground truths are 0
        unless boxes are mostly mistakes: corners given as sizes or the reverse (is ``box_format`` right?), or
        fractions of the image on one side and pixels on the other. Several ``iou_type`` have numbers of each with its
        prefix, and counts and thresholds once.

        Args:
            tie_interval: also give the lowest and highest ``map`` over all orders of tied scores, matching fixed.
            intervals: also give the interval of each number: replicates of the bootstrap of images, or a
                :class:`valor_gpu.stats.Bootstrap`. A class that no image of a replicate holds is left out of the means
                of that replicate; ``lost_classes`` of an interval says how many replicates that were.

        Example:
            >>> box, label, metric = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([0]), MeanAveragePrecision()
            >>> for i in range(40):  # in every other image the object is found
            ...     found = {"boxes": box[: i % 2], "scores": torch.tensor([0.9])[: i % 2], "labels": label[: i % 2]}
            ...     metric.update([found], [{"boxes": box, "labels": label, "image_id": i}])
            >>> interval = metric.result(intervals=100).intervals["map"]
            >>> interval.low < 0.5 < interval.high
            True
        """
        from valor_gpu.detection.mean_ap_result import mean_ap_result

        with self.synced_state() as state:
            error = self.error if self.error.is_cuda else None
            result = mean_ap_result(self._choices(), self._parts(state), tie_interval, error)
        return result if intervals is None else result.with_intervals(intervals)

    @classmethod
    def _deviations(cls, signature: Mapping[str, Any]) -> list[str]:
        return mean_ap_deviations(signature)

    def _describe_error(self, code: int) -> str:
        return describe_error(code)

    def _check_error(self) -> None:
        """An error of CUDA tensors is read in one copy with the numbers, by :meth:`_accumulate`."""
        if not self.error.is_cuda:
            super()._check_error()

    # ---------------------------------------------------------------------------------------------------- reductions

    def _accumulate(self, records: DetectionRecords, agnostic: bool, full: bool = False) -> Accumulated:
        choices, error = self._choices(), self.error if self.error.is_cuda else None
        return choices.accumulate(records, choices.of(agnostic, full), error)

    def _choices(self) -> MeanApChoices:
        """Returns the choices that numbers depend on, as they are now."""
        config = {name: value for name, value in self._config().items() if name not in ("extended_summary", "errors")}
        return MeanApChoices(
            self.iou_type, self.iou_thresholds, self.rec_thresholds, self.max_detection_thresholds,
            tuple(self._area_ranges), RecordShape.of(self._class_rule), self.average == "micro", self._rematches,
            self.tie_order == "image", config, self._lowest,
        )  # fmt: skip
