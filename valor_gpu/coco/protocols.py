"""The protocols of evaluation, one row each: the grids, ranges and limits they start from, and what they report.

Definitions: pycocotools 2.0.11 (https://cocodataset.org/#detection-eval, #keypoints-eval), lvis-api 0.5.3
(https://www.lvisdataset.org), CrowdPose (https://arxiv.org/abs/1812.00324) as xtcocotools 1.14 computes it, Boundary
IoU (https://arxiv.org/abs/2103.16562). No torch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.keypoints.coco_sigmas import COCO_SIGMAS


class Line(NamedTuple):
    """A line of a summary: a mean over what counts in precision or recall.

    Attributes:
        precision: precision at the recall samples, else recall.
        iou: one similarity threshold, or None for all.
        area: the name of an area range.
        limit: the max-detection limit itself, where the protocol fixes it; else None.
        nth: position in the limits of the parameters, where ``limit`` is None; 2 is the largest.
        group: a part of the images or of the categories, by name; empty for all.
        name: by which results hold the number; empty where they are an array.
    """

    precision: bool
    iou: float | None = None
    area: str = "all"
    limit: int | None = None
    nth: int = 2
    group: str = ""
    name: str = ""


class Protocol(NamedTuple):
    """What a kind of evaluation starts from and reports.

    Attributes:
        limits: max-detection limits.
        areas: (name, low, high) of each area range: square pixels, both ends included.
        lines: the summary, in order.
        sigmas: of each keypoint, its tolerance relative to the scale of an object; empty without keypoints.
        text: format of a line; a line of a group has ``group_text`` if that is not empty.
        thresholds: first, last and number of the similarity thresholds.
        recalls: first, last and number of the recall samples.
    """

    limits: tuple[int, ...]
    areas: tuple[tuple[str, float, float], ...]
    lines: tuple[Line, ...]
    sigmas: tuple[float, ...] = ()
    text: str = " {kind:<18} {short} @[ IoU={iou:<9} | area={area:>6s} | maxDets={limit:>3d} ] = {value:0.3f}"
    group_text: str = ""
    thresholds: tuple[float, float, int] = (0.5, 0.95, 10)
    recalls: tuple[float, float, int] = (0.0, 1.0, 101)

    def threshold_grid(self) -> NDArray[np.float64]:
        """float64 ``[T]``."""
        return np.linspace(*self.thresholds)

    def recall_grid(self) -> NDArray[np.float64]:
        """float64 ``[R]``."""
        return np.linspace(*self.recalls)

    def area_ranges(self) -> list[list[float]]:
        """A pairs [low, high]."""
        return [[low, high] for _, low, high in self.areas]

    def area_names(self) -> list[str]:
        """The names of the area ranges."""
        return [name for name, _, _ in self.areas]


_EVERY = ("all", 0, 1e5**2)
_SMALL, _MEDIUM, _LARGE = ("small", 0, 32**2), ("medium", 32**2, 96**2), ("large", 96**2, 1e5**2)

_BOX_LINES = (
    Line(True, limit=100),
    Line(True, 0.5),
    Line(True, 0.75),
    Line(True, area="small"),
    Line(True, area="medium"),
    Line(True, area="large"),
    Line(False, nth=0),
    Line(False, nth=1),
    Line(False),
    Line(False, area="small"),
    Line(False, area="medium"),
    Line(False, area="large"),
)
_DETECTION = Protocol((1, 10, 100), (_EVERY, _SMALL, _MEDIUM, _LARGE), _BOX_LINES)

_KEYPOINT_LINES = tuple(
    Line(precision, iou, area, 20)
    for precision in (True, False)
    for iou, area in ((None, "all"), (0.5, "all"), (0.75, "all"), (None, "medium"), (None, "large"))
)

_CROWD_LINES = (
    *(Line(precision, iou, limit=20) for precision in (True, False) for iou in (None, 0.5, 0.75)),
    *(Line(True, limit=20, group=group) for group in ("easy", "medium", "hard")),
)
# Shoulders, elbows, wrists, hips, knees, ankles, head, neck.
_CROWD_SIGMAS = tuple(
    s / 10.0 for s in (0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89, 0.89, 0.79, 0.79)
)

_LVIS_LINES = (
    Line(True, name="AP"),
    Line(True, 0.5, name="AP50"),
    Line(True, 0.75, name="AP75"),
    *(Line(True, area=area, name=f"AP{area[0]}") for area in ("small", "medium", "large")),
    *(Line(True, group=group, name=f"AP{group}") for group in "rcf"),
    Line(False, name="AR@{limit}"),
    *(Line(False, area=area, name=f"AR{area[0]}@{{limit}}") for area in ("small", "medium", "large")),
)

PROTOCOLS: dict[str, Protocol] = {
    "bbox": _DETECTION,
    "segm": _DETECTION,
    "boundary": _DETECTION,
    "rotated": _DETECTION,
    "keypoints": Protocol((20,), (_EVERY, _MEDIUM, _LARGE), _KEYPOINT_LINES, COCO_SIGMAS),
    "keypoints_crowd": Protocol(
        (20,),
        (_EVERY, _MEDIUM, _LARGE),
        _CROWD_LINES,
        _CROWD_SIGMAS,
        text=" {kind:<18} {short} @[ IoU={iou:<9} | area={area:>6s} | maxDets={limit:>3d} ] = {value: 0.3f}",
        group_text=" {kind:<18} {short} @[ IoU={iou:<9} | type={group:>6s} | maxDets={limit:>3d} ] = {value:0.3f}",
    ),
    "lvis": Protocol(
        (300,),
        (_EVERY, _SMALL, _MEDIUM, _LARGE),
        _LVIS_LINES,
        text=" {kind:<18} {short} @[ IoU={iou:<9} | area={area:>6s} | maxDets={limit:>3d} catIds={group:>3s}]"
        " = {value:0.3f}",
    ),
}
"""By ``iouType`` of COCO; ``lvis`` of either iou_type."""

FREQUENCIES = ("r", "c", "f")
"""LVIS: rare, common and frequent categories, by the number of training images that have them."""

CROWD_BOUNDS = (0.2, 0.8)
"""CrowdPose: an image is easy below the first crowd index, hard from the second on."""
