"""CrowdPose: its geometry, and precision by how crowded images are. No torch.

Source: Li et al., "CrowdPose: Efficient Crowded Scenes Pose Estimation and A New Benchmark", CVPR 2019, and
xtcocotools, whose ``keypoints_crowd`` this follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.dataset import COCO
from valor_gpu.coco.engine import Engine
from valor_gpu.coco.geometry import Object
from valor_gpu.coco.keypoints import KeypointGeometry
from valor_gpu.coco.layout import Layout, chosen_rows
from valor_gpu.coco.load_results import SourceFile
from valor_gpu.coco.protocols import CROWD_BOUNDS
from valor_gpu.coco.selection import select
from valor_gpu.coco.taken_part import Part
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import Annotations, read_ground_truth
from valor_gpu.ops.assign.match_batch import ID_ZERO, MatchBatch

AREA_OF_BOX = 0.53
"""The area of a person over the area of its box, where areas are not annotated."""


class CrowdGeometry(KeypointGeometry):
    """Keypoints by the rules of CrowdPose.

    Detections without a keypoint of a confidence above 0 are left out. Unless ``params.use_area``, the area of a ground
    truth is 0.53 x that of its box. Ids may be 0.
    """

    ids_matter = False

    def laid_out(self, layout: Layout) -> Layout:
        """See :class:`Geometry`."""
        ground_truths, detections = layout.ground_truths, layout.detections
        rows = ground_truths.columns
        self.unread = ("iscrowd",)
        if not self.params.use_area:
            self.unread = ("iscrowd", "area")
            rows = replace(rows, area=self.gt_areas(rows))
        if len(detections):
            seen = np.asarray((self.points(layout, detections)[:, :, 2] > 0).any(1))
            detections = chosen_rows(detections, seen)
        return Layout(replace(ground_truths, columns=rows), detections, layout.images)

    def gt_areas(self, rows: Annotations) -> NDArray[np.float64]:
        """See :class:`KeypointGeometry`."""
        return rows.area if self.params.use_area else rows.bbox[:, 2] * rows.bbox[:, 3] * AREA_OF_BOX

    def ious(self, detections: Sequence[Object], ground_truths: Sequence[Object], cocos: tuple[Any, Any]) -> Any:
        """Single cells do not know which detections are left out.

        Raises:
            InputError: always.
        """
        raise InputError("params.iouType must be 'keypoints' for steps of single cells but got 'keypoints_crowd'")

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """See :class:`Geometry`."""
        flags = [column & np.uint8(~ID_ZERO & 0xFF) for column in common.gt_flags]
        return super().batch(layout, replace(common, gt_flags=flags, flags=[]), lowest, engine)


def group_means(evaluator: Any, strict: bool, part: Part | None = None) -> dict[str, float]:
    """Mean precision over the easy, medium and hard images, by the crowd index of each.

    Args:
        evaluator: a :class:`valor_gpu.coco.COCOeval` that has accumulated.
        strict: as xtcocotools: what does not count is -1 in the mean, which has 4 digits; else it is left out.
        part: what was taken, whose images alone are wanted; None: all that were evaluated, as in xtcocotools.
    """
    evaluated = evaluator._paramsEval
    given = evaluator.eval["params"] if part is None else part.accumulated
    whole = select(given, evaluated, strict) if part is None else part.selection
    taken = range(len(evaluated.imgIds)) if part is None or whole.images is None else whole.images
    groups = crowd_groups(evaluator.cocoGt, [evaluated.imgIds[place] for place in taken])
    means = {}
    for name, inside in groups.items():
        chosen = replace(whole, images=[taken[place] for place in np.flatnonzero(inside).tolist()])
        precision = evaluator._source(given, evaluator.eval["counts"], chosen).samples()[0]
        precision = (precision if part is None else part.precision(precision))[:, :, :, 0, :]
        counting = precision if strict else precision[precision > -1]
        mean = float(np.mean(counting)) if counting.size else -1.0
        means[name] = round(mean, 4) if strict else mean
    return means


def crowd_groups(coco: Any, image_ids: Any) -> dict[str, NDArray[np.bool_]]:
    """Returns which images are easy, medium and hard, bool ``[I]`` each.

    Args:
        coco: the ground truths.
        image_ids: of the images, in order.
    """
    indices = _crowd_indices(coco, image_ids)
    low, high = CROWD_BOUNDS
    return {"easy": indices < low, "medium": (indices >= low) & (indices < high), "hard": indices >= high}


def _crowd_indices(coco: Any, image_ids: Any) -> NDArray[np.float64]:
    """float64 ``[I]`` crowd index of each image."""
    found = {image["id"]: image for image in image_objects(coco)}
    values = [found.get(number, {}).get("crowdIndex") for number in image_ids]
    for number, value in zip(image_ids, values):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise InputError(f"crowdIndex of image id {number} must be a number but got {value!r:.60}")
    return np.array(values, np.float64)


def image_objects(coco: Any) -> list[dict[str, Any]]:
    """Returns the image objects, without making annotation objects of a file."""
    source = getattr(coco, "_source", None)
    if isinstance(coco, COCO) and coco._dataset is None and isinstance(source, SourceFile) and source.stamp:
        return read_ground_truth(source.path, images=True).images or []
    return list(coco.dataset.get("images", ()))
