"""Base class of Valor's detection metrics: pairs of detections and ground truths that overlap, found in ``update``."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from valor_gpu._frozen import replaced
from valor_gpu.checks import check_choice
from valor_gpu.detection.geometry import OVERLAP_TYPES, GeometryChoices, Overlapping, choose_geometries
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.metric import Metric
from valor_gpu.ops.assign.match_batch import AGNOSTIC, GROUP_OF, MAX_ROWS, MatchRule

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

# Every pair of any labels whose IoU is above 0; subnormal numbers count as 0 where a thread flushes them.
_RULE = MatchRule.make([sys.float_info.min], [(-math.inf, math.inf)], [MAX_ROWS], AGNOSTIC, GROUP_OF)


_PLAIN = (list, Tensor, int, type(None))


class _Shared(NamedTuple):
    """A state, and the tensors it was put together from, as long as there are such."""

    images: tuple[weakref.ref[Tensor], ...]
    storage: torch.device
    state: OverlapRecords

    def is_of(self, images: Sequence[Tensor]) -> bool:
        """Whether a metric with these tensors has this state."""
        return len(images) == len(self.images) and all(
            reference() is image for reference, image in zip(self.images, images)
        )


_last: dict[str, _Shared] = {}  # the state that was asked for last: metrics of a collection ask one after another


class OverlapMetric(Metric[OverlapRecords]):
    """Base class of Valor's detection metrics: its ``update`` finds the pairs that overlap, and keeps no more.

    The state is the same whatever the thresholds of a metric: 20 bytes per detection, 8 per ground truth, 32 per image
    and 12 per pair that overlaps, of the same label or not. So metrics of one geometry share one state in a
    ``MetricCollection``, which updates once, and merge with one another. Ranking and counting is work of ``compute``.

    Args:
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``; of rotated boxes ``cxcywha`` or ``xyxyxyxy``.
        iou_type: ``bbox``, ``rotated``, ``segm`` or ``polygon``, as in :class:`MeanAveragePrecision`.
        angle_unit: ``degrees`` or ``radians``, of ``cxcywha``.
        angle_direction: ``counterclockwise`` or ``clockwise``, of ``cxcywha``.

    Raises:
        InputError: an argument is out of range; the message names it.
    """

    is_differentiable = False
    _takes_lists = True
    _learns_classes = True
    update_family = "overlaps"
    images: Any  # of the state

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_type: str = "bbox",
        *,
        angle_unit: str = "degrees",
        angle_direction: str = "counterclockwise",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("iou_type", iou_type, OVERLAP_TYPES)
        chosen = GeometryChoices((iou_type,), box_format, angle_unit, angle_direction, None)
        self.box_format, self.iou_type = box_format, iou_type
        self.angle_unit, self.angle_direction = angle_unit, angle_direction
        self._geometry: Overlapping = choose_geometries(chosen)[iou_type]  # type: ignore[assignment]
        super().__init__(OverlapRecords.none(), self._config(), **kwargs)

    def _config(self) -> dict[str, Any]:
        """What ``update`` depends on."""
        angles = {"angle_unit": self.angle_unit, "angle_direction": self.angle_direction}
        boxes = {} if self.iou_type in ("segm", "polygon") else {"box_format": self.box_format}
        return {"iou_type": self.iou_type, **boxes, **(angles if self.box_format == "cxcywha" else {})}

    def __setattr__(self, name: str, value: Any) -> None:
        # MetricCollection sets every state of every metric after each batch, and torch looks whether each is a module.
        if type(value) in _PLAIN and name in self.__dict__:
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def state(self) -> OverlapRecords:
        """The state accumulated so far; metrics that share its tensors, as in a collection, get one object."""
        parts = self.images if isinstance(self.images, list) else [self.images]
        known, storage = _last.get("state"), self._storage()
        if known is not None and known.storage == storage and known.is_of(parts):
            return known.state
        state = super().state()
        if parts:
            # The tensors of the metric must not live on here: with the last of them goes what was derived.
            state = replace(state, images=state.images.clone())
            images = (*map(weakref.ref, parts[:-1]), weakref.ref(parts[-1], _forget))
            _last["state"] = _Shared(images, storage, state)
        return state

    def update(
        self,
        preds: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
        target: Sequence[Mapping[str, Any]] | Mapping[str, Tensor],
    ) -> None:
        """Finds the pairs of a batch of images that overlap, and keeps them with labels and scores.

        On a GPU the host waits for the device once, to keep the pairs that overlap and no room for others.

        Args:
            preds: one dict per image: ``boxes [D, 4]`` (rotated: ``[D, 5]`` or ``[D, 8]``) or ``masks`` or
                ``polygons``, ``scores [D]`` (any floating dtype, finite), ``labels [D]`` (integer); or, of boxes, one
                dict of tensors padded to ``[B, N, ...]`` with ``counts [B]``.
            target: one dict per image: likewise, ``labels [G]``, optionally ``image_id`` (int or one-element tensor;
                of images with one id one counts) and ``iscrowd [G]`` (0: there are no crowds); or one padded dict.

        ``masks`` and ``polygons`` are as in :meth:`valor_gpu.detection.MeanAveragePrecision.update`.

        Raises:
            InputError: naming the image, key and row.
        """
        batch, shapes = self._geometry.read(preds, target)
        if batch.lengths.shape[1] == 0:
            return
        batch = batch.without_gaps(torch.from_numpy)
        stored, found = self._geometry.pairs(replaced(batch, gt_flags=[]), shapes, _RULE)
        self._add(OverlapRecords.of(replaced(stored, gt_flags=batch.gt_flags), found))


def _forget(image: weakref.ref[Tensor]) -> None:
    known = _last.get("state")
    if known is not None and known.images[-1] is image:
        _last.pop("state", None)
