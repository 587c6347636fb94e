"""Keypoints as the geometry of an evaluation: object keypoint similarity. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.engine import Engine
from valor_gpu.coco.geometry import Geometry, Object
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_values import read_keypoints
from valor_gpu.inputs.coco import columns_from_dataset
from valor_gpu.ops.match_batch import MatchBatch


class KeypointGeometry(Geometry):
    """Object keypoint similarity with the tolerances ``params.kpt_oks_sigmas``.

    A ground truth whose ``num_keypoints`` is 0 is ignored. One without visible keypoints is compared by its box.
    """

    needs = ("keypoints",)
    gt_needs = ("keypoints", "bbox")
    step = "computeOks"
    order = "C"
    pools = False

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """See :class:`Geometry`."""
        from valor_gpu.ops._keypoints_cpu import Keypoints, check_sigmas

        sigmas, ground_truths = self.sigmas(), layout.ground_truths
        points = [side_points(side, len(sigmas)) for side in (layout.detections, ground_truths)]
        boxes, areas = ground_truths.take("bbox"), ground_truths.take("area")
        _check(ground_truths, "bbox", "finite", ~np.isfinite(boxes).all(1))
        _check(ground_truths, "area", "a number that is not negative", ~(areas >= 0))
        given = Keypoints(points[0], points[1], boxes, areas, check_sigmas(sigmas))
        found = engine.keypoint_pairs(common, given, lowest)
        return replace(found, areas=common.areas or found.areas)

    def sigmas(self) -> list[float]:
        """The tolerances, K numbers."""
        sigmas: list[float] = np.asarray(self.params.kpt_oks_sigmas, np.float64).reshape(-1).tolist()
        return sigmas

    def ious(self, detections: Sequence[Object], ground_truths: Sequence[Object], cocos: tuple[Any, Any]) -> Any:
        """See :class:`Geometry`."""
        from valor_gpu.ops._keypoints_cpu import keypoint_similarity

        sigmas = self.sigmas()
        sides = [columns_from_dataset({"annotations": list(side)}).annotations for side in (detections, ground_truths)]
        points = [read_keypoints(side.values, np.arange(len(side)), side.where, len(sigmas)) for side in sides]
        return keypoint_similarity(points[0], points[1], sides[1].bbox, self.gt_areas(sides[1]), sigmas)

    def gt_areas(self, rows: Any) -> NDArray[np.float64]:
        """float64 ``[G]`` by which the similarity is scaled.

        Args:
            rows: :class:`valor_gpu.inputs.coco.Annotations` of ground truths.
        """
        areas: NDArray[np.float64] = rows.area
        return areas

    def ignored(self, ground_truths: Side) -> NDArray[np.bool_]:
        """See :class:`Geometry`."""
        values = ground_truths.columns.values
        rows = len(ground_truths.columns)
        counts = np.full(rows, np.nan) if values is None else values.column("num_keypoints")
        counts = counts if ground_truths.rows is None else counts[ground_truths.rows]
        _check(ground_truths, "num_keypoints", "a number", np.isnan(counts), counts)
        ignored: NDArray[np.bool_] = counts == 0
        return ignored

    def ignores(self, ground_truth: Mapping[str, Any]) -> bool:
        """See :class:`Geometry`."""
        return bool(ground_truth["num_keypoints"] == 0)


def side_points(side: Side, count: int) -> NDArray[np.float64]:
    """float64 ``[N, K, 3]`` keypoints of the rows of a side."""
    rows = np.arange(len(side), dtype=np.int64) if side.rows is None else side.rows
    return read_keypoints(side.columns.values, rows, side.columns.where, count)


def _check(side: Side, name: str, need: str, bad: NDArray[np.bool_], values: Any = None) -> None:
    """Raises for the first bad row of a side."""
    if bad.any():
        first = int(bad.argmax())
        row = side.row(first)
        got = side.take(name)[first] if values is None else values[first]
        place = f"{side.columns.place(row)}.{name} (id {side.columns.id[row]})"
        raise InputError(f"{place} must be {need} but got {got.tolist()}")
