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
        from valor_gpu.ops._keypoints_cpu import Keypoints

        ground_truths = layout.ground_truths
        points = [self.points(layout, side) for side in (layout.detections, ground_truths)]
        boxes, areas = ground_truths.take("bbox"), ground_truths.take("area")
        _check(ground_truths, "bbox", "finite", ~np.isfinite(boxes).all(1))
        _check(ground_truths, "area", "a number that is not negative", ~(areas >= 0))
        given = Keypoints(points[0], points[1], boxes, areas, self.sigmas())
        found = engine.keypoint_pairs(common, given, lowest)
        return replace(found, areas=common.areas or found.areas)

    def sigmas(self) -> list[float]:
        """The tolerances, K numbers; raises :class:`InputError` unless they are above 0."""
        from valor_gpu.ops._keypoints_cpu import check_sigmas

        name, given = "params.kpt_oks_sigmas", self.params.kpt_oks_sigmas
        try:
            values = np.asarray(given, np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise InputError(f"{name} must be numbers but got {given!r:.80}") from None
        return list(check_sigmas(values.tolist(), name))

    def points(self, layout: Layout, side: Side) -> NDArray[np.float64]:
        """float64 ``[N, K, 3]`` keypoints of the rows of a side of ``layout``.

        Raises:
            InputError: naming the sigmas where all rows of both sides have another number of keypoints, else a row.
        """
        count = len(self.sigmas())
        try:
            return read_keypoints(side.columns.values, _rows(side), side.columns.where, count)
        except InputError:
            points = _common_count((layout.ground_truths, layout.detections))
            if points in (None, count):
                raise
        raise InputError(
            f"params.kpt_oks_sigmas must be one number for each of the {points} keypoints of"
            f" {side.columns.place(side.row(0))} but got {count}"
        )

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


def _rows(side: Side) -> NDArray[np.int64]:
    return np.arange(len(side), dtype=np.int64) if side.rows is None else side.rows


def _common_count(sides: Sequence[Side]) -> int | None:
    """How many keypoints every row has; None where they differ or are none."""
    found: set[int] = set()
    for side in sides:
        if side.columns.values is not None and len(side):
            _, offsets, good = side.columns.values.numbers("keypoints", _rows(side))
            found |= {*np.diff(offsets).tolist(), *([0] if good < len(side) else [])}
    length = found.pop() if len(found) == 1 else 0
    return length // 3 if length and length % 3 == 0 else None


def _check(side: Side, name: str, need: str, bad: NDArray[np.bool_], values: Any = None) -> None:
    """Raises for the first bad row of a side."""
    if bad.any():
        first = int(bad.argmax())
        row = side.row(first)
        got = side.take(name)[first] if values is None else values[first]
        place = f"{side.columns.place(row)}.{name} (id {side.columns.id[row]})"
        raise InputError(f"{place} must be {need} but got {got.tolist()}")
