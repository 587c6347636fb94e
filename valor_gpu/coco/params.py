"""The parameters of a COCO evaluation, under the names that pycocotools gives them. No torch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from valor_gpu.checks import check_choice
from valor_gpu.coco.protocols import PROTOCOLS
from valor_gpu.errors import InputError

CONVENTIONS = ("strict", "corrected")
IOU_TYPES = ("segm", "bbox", "boundary", "rotated", "keypoints", "keypoints_crowd")

_FLAT = ("imgIds", "catIds", "maxDets")


class Params:
    """What :class:`valor_gpu.coco.COCOeval` evaluates, as in ``pycocotools.cocoeval.Params``.

    Attributes:
        imgIds: image ids; evaluation sorts them and drops repeats.
        catIds: category ids to evaluate.
        iouThrs: float64 ``[T]``, default .5, .55, ..., .95.
        recThrs: float64 ``[R]``, default 0, .01, ..., 1.
        maxDets: M limits of detections in an (image, category) cell, default 1, 10, 100.
        areaRng: A pairs [low, high] of square pixels, both ends included.
        areaRngLbl: the A names of the ranges, by which ``summarize`` finds them.
        useCats: 0 takes all categories of ``catIds`` as one.
        iouType: ``segm``, ``bbox``, ``boundary``, ``rotated``, ``keypoints`` or ``keypoints_crowd`` (CrowdPose).
        kpt_oks_sigmas: float64 ``[K]``, of keypoints alone: the tolerance of each.
        use_area: of ``keypoints_crowd`` alone: areas are those annotated, else 0.53 x those of the boxes.
        boundary_dilation_ratio: how wide the boundary of a mask is, as a part of the diagonal of its image.
        useSegm: deprecated there: 1 or 0 overrides ``iouType`` by ``segm`` or ``bbox``.

    Example:
        >>> p = Params("bbox")
        >>> p.maxDets, p.areaRngLbl, float(p.iouThrs[-1])
        ([1, 10, 100], ['all', 'small', 'medium', 'large'], 0.95)
    """

    imgIds: Any
    catIds: Any
    iouThrs: Any
    recThrs: Any
    maxDets: Any
    areaRng: Any
    areaRngLbl: Any
    useCats: Any
    kpt_oks_sigmas: Any
    use_area: bool
    boundary_dilation_ratio: float = 0.02

    def __init__(self, iouType: str = "segm") -> None:
        check_choice("iouType", iouType, IOU_TYPES)
        if iouType == "keypoints":
            self.setKpParams()
        elif iouType == "keypoints_crowd":
            self._start_from(iouType)
        else:
            self.setDetParams()
        self.iouType = iouType
        self.useSegm: Any = None

    def setDetParams(self) -> None:
        """Defaults for boxes, rotated boxes and masks."""
        self._start_from("bbox")

    def setKpParams(self) -> None:
        """Defaults for keypoints."""
        self._start_from("keypoints")

    def _start_from(self, protocol: str) -> None:
        row = PROTOCOLS[protocol]
        self.imgIds, self.catIds = [], []
        self.iouThrs, self.recThrs = row.threshold_grid(), row.recall_grid()
        self.maxDets = list(row.limits)
        self.areaRng, self.areaRngLbl = row.area_ranges(), row.area_names()
        self.useCats = 1
        if row.sigmas:
            self.kpt_oks_sigmas = np.array(row.sigmas)
        if protocol == "keypoints_crowd":
            self.use_area = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Params:
        """A copy that shares only numbers; one by one, deepcopy would take 80 ms for the ids of 80,000 images."""
        same = type(self).__new__(type(self))
        memo[id(self)] = same
        for name, value in vars(self).items():
            flat = name in _FLAT and type(value) is list
            setattr(same, name, list(value) if flat else copy.deepcopy(value, memo))
        return same


def check_grids(params: Any) -> None:
    """Raises :class:`InputError` unless all thresholds of IoU and recall lie between 0 and 1; strict takes any."""
    for name in ("iouThrs", "recThrs"):
        values = np.asarray(getattr(params, name), np.float64).reshape(-1)
        if not ((values >= 0) & (values <= 1)).all():
            raise InputError(f"params.{name} must lie between 0 and 1 but got {values.tolist()}")


def half_open(ranges: Sequence[Sequence[float]]) -> list[list[float]]:
    """Area ranges such that an area which ends one and begins another lies in the second only.

    Example:
        >>> low, point, high = half_open([[0, 1024], [1024, 1024], [1024, 1e10]])
        >>> low[1] < 1024, point, high
        (True, [1024, 1024], [1024, 10000000000.0])
    """
    lows = {low for low, _ in ranges}
    return [[low, float(np.nextafter(high, -np.inf)) if high in lows and high > low else high] for low, high in ranges]
