"""Keypoints as the geometry of an evaluation: object keypoint similarity. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.doubtful_values import WAY_OUT
from valor_gpu.coco.engine import Engine
from valor_gpu.coco.geometry import Geometry, Object
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import present_fields
from valor_gpu.inputs._coco_values import read_keypoints
from valor_gpu.inputs.coco import columns_from_dataset
from valor_gpu.ops.assign.match_batch import MatchBatch


class KeypointGeometry(Geometry):
    """Object keypoint similarity with the tolerances ``params.kpt_oks_sigmas``.

    A ground truth whose ``num_keypoints`` is 0 is ignored, and may have no keypoints. One without visible keypoints is
    compared by its box.
    """

    needs = ("keypoints",)
    gt_needs = ("keypoints", "bbox")
    step = "computeOks"
    order = "C"
    pools = False

    def batch(self, layout: Layout, common: MatchBatch, lowest: float, engine: Engine) -> MatchBatch:
        """See :class:`Geometry`."""
        from valor_gpu.ops.keypoints.cpu import Keypoints

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
        from valor_gpu.ops.keypoints.cpu import check_sigmas

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
        unlabelled = self._unlabelled(side) if side is layout.ground_truths else None
        return self._read(side, _rows(side), unlabelled, (layout.ground_truths, layout.detections))

    def _read(
        self, side: Side, rows: NDArray[np.int64], unlabelled: NDArray[np.bool_] | None, sides: Sequence[Side]
    ) -> NDArray[np.float64]:
        """float64 ``[n, K, 3]`` keypoints of ``rows`` of a side; ``sides`` tell whether the sigmas fit."""
        count = len(self.sigmas())
        try:
            return read_keypoints(side.columns.values, rows, side.columns.where, count, unlabelled)
        except InputError:
            points = _common_count(sides)
            if points in (None, count):
                raise
        raise InputError(
            f"params.kpt_oks_sigmas must be one number for each of the {points} keypoints of"
            f" {side.columns.place(int(rows[0]))} but got {count}"
        )

    def ious(self, detections: Sequence[Object], ground_truths: Sequence[Object], cocos: tuple[Any, Any]) -> Any:
        """See :class:`Geometry`."""
        from valor_gpu.ops.keypoints.cpu import keypoint_similarity

        sigmas = self.sigmas()
        sides = [columns_from_dataset({"annotations": list(side)}).annotations for side in (detections, ground_truths)]
        bare = np.array([self.ignores(gt) for gt in ground_truths])
        points = [
            read_keypoints(side.values, np.arange(len(side)), side.where, len(sigmas), unlabelled)
            for side, unlabelled in zip(sides, (None, bare))
        ]
        return keypoint_similarity(points[0], points[1], sides[1].bbox, self.gt_areas(sides[1]), sigmas)

    def gt_areas(self, rows: Any) -> NDArray[np.float64]:
        """float64 ``[G]`` by which the similarity is scaled.

        Args:
            rows: :class:`valor_gpu.inputs.coco.Annotations` of ground truths.
        """
        areas: NDArray[np.float64] = rows.area
        return areas

    def excused(self, ground_truths: Side, name: str) -> NDArray[np.bool_] | None:
        """See :class:`Geometry`: none may lack its area, by which similarities to crowds are scaled too."""
        return self._unlabelled(ground_truths) if name == "keypoints" else None

    def _unlabelled(self, ground_truths: Side) -> NDArray[np.bool_]:
        """Bool ``[G]``: ground truths whose ``num_keypoints`` is 0 or, where it may be counted, missing."""
        counts = keypoint_counts(ground_truths)
        found: NDArray[np.bool_] = (counts == 0) | (np.isnan(counts) & (not self.strict))
        return found

    def ignored(self, ground_truths: Side) -> NDArray[np.bool_]:
        """See :class:`Geometry`."""
        counts = keypoint_counts(ground_truths)
        missing = np.isnan(counts)
        ignored: NDArray[np.bool_] = counts == 0
        if not missing.any():
            return ignored
        if self.strict:
            row = ground_truths.row(int(missing.argmax()))
            raise _uncounted(ground_truths.columns.place(row), present_fields(int(ground_truths.columns.present[row])))
        rows = _rows(ground_truths)[missing]
        points = self._read(ground_truths, rows, np.ones(len(rows), np.bool_), (ground_truths,))
        ignored[missing] = ~(points[:, :, 2] > 0).any(1)
        return ignored

    def counted(self, ground_truths: Side) -> dict[str, int]:
        """See :class:`Geometry`."""
        return {"ground_truths_without_num_keypoints": int(np.isnan(keypoint_counts(ground_truths)).sum())}

    def ignores(self, ground_truth: Mapping[str, Any]) -> bool:
        """See :class:`Geometry`."""
        count = ground_truth.get("num_keypoints")
        if count is not None:
            return bool(count == 0)
        if self.strict:
            raise _uncounted(f"ground truth id {ground_truth.get('id')}", list(ground_truth))
        return not any(visible > 0 for visible in (ground_truth.get("keypoints") or ())[2::3])


def keypoint_counts(ground_truths: Side) -> NDArray[np.float64]:
    """float64 ``[G]``, ``num_keypoints`` of each: NaN where it is missing or no number."""
    values = ground_truths.columns.values
    rows = len(ground_truths.columns)
    counts = np.full(rows, np.nan) if values is None else values.column("num_keypoints")
    return counts if ground_truths.rows is None else counts[ground_truths.rows]


def _uncounted(place: str, keys: Sequence[str]) -> InputError:
    """The error for a ground truth that does not say how many keypoints it has."""
    return InputError(f"{place} must have num_keypoints, a number, but has only {', '.join(keys) or 'other keys'}"
                      f" (null and texts count as missing): {WAY_OUT} counts the visible keypoints")  # fmt: skip


def _rows(side: Side) -> NDArray[np.int64]:
    return np.arange(len(side), dtype=np.int64) if side.rows is None else side.rows


def _common_count(sides: Sequence[Side]) -> int | None:
    """How many keypoints every row has that has any; None where they differ or are none."""
    found: set[int] = set()
    for side in sides:
        if side.columns.values is not None and len(side):
            _, offsets, good = side.columns.values.numbers("keypoints", _rows(side))
            found |= {*np.diff(offsets[: good + 1]).tolist(), *([-1] if good < len(side) else [])}
    found.discard(0)
    length = found.pop() if len(found) == 1 else 0
    return length // 3 if length > 0 and length % 3 == 0 else None


def _check(side: Side, name: str, need: str, bad: NDArray[np.bool_]) -> None:
    """Raises for the first bad row of a side."""
    if bad.any():
        first = int(bad.argmax())
        row = side.row(first)
        got = side.take(name)[first]
        place = f"{side.columns.place(row)}.{name} (id {side.columns.id[row]})"
        raise InputError(f"{place} must be {need} but got {got.tolist()}")
