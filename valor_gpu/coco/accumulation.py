"""From records to the arrays of ``COCOeval.eval``. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.engine import Engine, engine_on
from valor_gpu.coco.match_layout import EvaluationRecords
from valor_gpu.coco.selection import Cell, Positions, Selection
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.types import Ordered, RecordShape

Array = NDArray[np.float64]


@frozen
class Source:
    """Ordered records, and where their curves go.

    Attributes:
        engine: what ordered them and makes curves of them.
        detections: uint8 detection rows, where the engine keeps them.
        ordered: their order by class and score.
        positives: int64 ``[K', A']`` ground truths that count.
        shape: of the rows.
        cells: [K, A] of the result, for rows whose classes are (category, area range) pairs; else None.
        take: for the axes K, A and M of the curves, the positions to take in order; None for all.
        recalls: float64 ``[R]``.
        counts: [T, R, K, A, M] of the arrays; what the curves do not fill is -1.
        strict: recall samples after the first that is not reached have precision 0, also in an unsorted grid.
        chosen: the records that the rows are of, what of them, which of their limits, and the recall samples; None for
            rows of cells.
    """

    engine: Engine
    detections: Any
    ordered: Ordered
    positives: NDArray[np.int64]
    shape: RecordShape
    cells: tuple[int, int] | None
    take: tuple[Positions | None, Positions | None, Positions | None]
    recalls: Array
    counts: list[int]
    strict: bool
    chosen: tuple[EvaluationRecords, Selection, Positions, Array] | None = None

    @property
    def ends_with_last_limit(self) -> bool:
        """Whether the last limit of the result is the last limit of the records."""
        return self.take[2] is None and self.shape.limits == self.counts[-1]

    def samples(self) -> tuple[Array, Array]:
        """Precision and scores, each ``[T, R, K, A, M]``."""
        precision, _, scores = self._curves(full=True)
        return precision, scores

    def recall(self) -> tuple[Array, Array]:
        """(recall ``[T, K, A, M]``, precision ``[T, R, K, A, 1]`` at the last limit of the records)."""
        precision, recall, _ = self._curves(full=False)
        return recall, precision

    def _curves(self, full: bool) -> tuple[Array, Array, Array]:
        order = None if self.strict else np.argsort(self.recalls, kind="stable")
        grid = self.recalls if order is None else self.recalls[order]
        curves = self.engine.precision_recall(self.detections, self.ordered, self.positives, grid, self.shape, full)
        precision, recall, scores = curves
        if order is not None:
            back = np.argsort(order)
            precision, scores = precision[:, back], scores[:, back] if full else scores
        limits = self.counts[-1] if full else 1
        recall_counts = (self.counts[0], *self.counts[2:])
        return (
            self._placed(precision, (*self.counts[:-1], limits), full),
            self._placed(recall, recall_counts, True),
            self._placed(scores, tuple(self.counts), True) if full else scores,
        )

    def _placed(self, values: Array, wanted: tuple[int, ...], all_limits: bool) -> Array:
        """Curves with the axes of the result, whose sizes are ``wanted``."""
        if self.cells is not None:
            values = values.reshape(*values.shape[:-3], *self.cells, values.shape[-1])
        for axis, positions in zip((-3, -2, -1), self.take if all_limits else self.take[:2]):
            if positions is not None:
                values = values.take(np.array(positions, np.int64), axis=axis)
        if values.shape == wanted:
            return np.ascontiguousarray(values)
        out = np.full(wanted, -1.0)
        out[tuple(slice(size) for size in values.shape)] = values
        return out


def source_of_records(
    records: EvaluationRecords, selection: Selection, limits: Positions, recalls: Any, counts: list[int], strict: bool
) -> Source:
    """Order and count the selected rows.

    Args:
        records: of an evaluation that ``selection`` lies inside of.
        selection: categories, area ranges and images.
        limits: positions among the limits of the records.
        recalls: recall samples ``[R]``.
        counts: [T, R, K, A, M], sizes of the arrays.
        strict: pycocotools' rule for recall samples that are not reached, see :class:`Source`.
    """
    engine, shape, lengths = records.engine, records.shape, records.lengths
    names = sorted(set(selection.categories))
    labels = np.array(names, np.int64)
    starts = lengths.cumsum(1) - lengths
    positions, ground_truths = records.image_positions, records.ground_truths
    if selection.images is not None:
        positions = positions[np.array(selection.images, np.int64)]
        wanted = np.zeros(lengths.shape[1], np.bool_)
        wanted[positions] = True
        ground_truths = engine.choose(ground_truths, np.repeat(wanted, lengths[1]))
    images = starts[0, positions], lengths[0, positions]
    ordered = engine.order_records(records.detections, *images, labels, shape.limits)
    positives = engine.count_ground_truths(ground_truths, labels, shape.areas)
    take = (
        _unless_all([names.index(k) for k in selection.categories], len(names)),
        _unless_all(selection.areas, shape.areas),
        _unless_all(limits, shape.limits),
    )
    grid = _grid(recalls)
    return Source(
        engine, records.detections, ordered, positives, shape, None, take, grid, counts, strict,
        (records, selection, limits, grid),
    )  # fmt: skip


def _unless_all(positions: Positions, size: int) -> Positions | None:
    return None if positions == list(range(size)) else positions


def _grid(recalls: Any) -> Array:
    return np.array(recalls, np.float64).reshape(-1)


def source_of_cells(
    cells: Sequence[Sequence[Sequence[Cell]]], limits: Sequence[int], recalls: Any, counts: list[int], strict: bool
) -> Source:
    """Records of the per-image results that a user or a subclass made.

    Args:
        cells: for each category and area range what ``COCOeval.evaluateImg`` gave for its images, in order.
        limits: max-detection limits in the order of the result.
        recalls: recall samples ``[R]``.
        counts: [T, R, K, A, M], sizes of the arrays.
        strict: pycocotools' rule for recall samples that are not reached, see :class:`Source`.
    """
    groups = [group for row in cells for group in row]
    thresholds = next((len(e["dtMatches"]) for group in groups for e in group), counts[0])
    if thresholds > counts[0]:
        raise InputError(f"params.iouThrs must hold the {thresholds} thresholds of evalImgs but holds {counts[0]}")
    ascending = sorted(limits) or [0]
    rows = [np.empty((0, 13 + 2 * ((thresholds + 7) // 8)), np.uint8)]
    rows += [_rows_of_group(group, label, ascending) for label, group in enumerate(groups) if group]
    engine, detections = engine_on(), np.concatenate(rows)
    positives = [sum(int(np.count_nonzero(np.asarray(e["gtIgnore"]) == 0)) for e in group) for group in groups]
    images = np.zeros(1, np.int64), np.array([len(detections)])
    ordered = engine.order_records(detections, *images, np.arange(len(groups)), len(ascending))
    take = None if list(limits) == ascending else [ascending.index(limit) for limit in limits]
    return Source(
        engine, detections, ordered, np.array(positives, np.int64).reshape(-1, 1),
        RecordShape(thresholds, 1, len(ascending)), (len(cells), len(cells[0]) if cells else 0), (None, None, take),
        _grid(recalls), counts, strict,
    )  # fmt: skip


def _rows_of_group(group: Sequence[Mapping[str, Any]], label: int, limits: Sequence[int]) -> NDArray[np.uint8]:
    """uint8 detection rows of the images of one category and area range."""
    top = limits[-1]
    kept = [e["dtScores"][:top] for e in group]
    lengths = np.array([len(scores) for scores in kept], np.int64)
    total = int(lengths.sum())
    scores = np.fromiter(chain.from_iterable(kept), np.float64, total)
    ranks = np.arange(total) - np.repeat(lengths.cumsum() - lengths, lengths)
    head = np.empty((total, 13), np.uint8)
    head[:, :8] = scores.view(np.uint8).reshape(-1, 8)
    head[:, 8:12] = np.array([label], np.int32).view(np.uint8)
    head[:, 12] = np.searchsorted(limits, ranks, side="right")
    return np.concatenate((head, _bits(group, "dtMatches", top), _bits(group, "dtIgnore", top)), axis=1)


def _bits(group: Sequence[Mapping[str, Any]], name: str, top: int) -> NDArray[np.uint8]:
    """uint8 ``[N, ceil(T / 8)]``: one bit per threshold."""
    values = np.concatenate([np.asarray(e[name])[:, :top] for e in group], axis=1)
    return np.packbits(values.T != 0, axis=1, bitorder="little")
