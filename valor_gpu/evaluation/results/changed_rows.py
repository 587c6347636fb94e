"""Rows of several runs beside one baseline: which changed, by which metric most, and in which order. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from valor_gpu.checks import check_choice
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.results.joined_rows import Side
from valor_gpu.evaluation.results.metric_comparison import Pair
from valor_gpu.evaluation.results.row_values import Floats, Ints, Mask
from valor_gpu.store.selection import rows_with_text

KINDS = ("different", "worse", "better", "all")
"""Which rows are chosen: those of another number, those that got worse or better by some metric, or all."""
SORTS = ("change", "number")


@dataclass(frozen=True)
class Change:
    """The change by which a row is chosen.

    Attributes:
        comparison: place of the run among the comparisons.
        metric: name of the evaluator.
        run: number of the run.
        baseline: number of the baseline.
        reading: ``better`` or ``worse``; ``higher`` or ``lower`` where neither is better.
        size: as a fraction of the scale; it orders the rows.
    """

    comparison: int
    metric: str
    run: float
    baseline: float
    reading: str
    size: float

    @property
    def difference(self) -> float:
        """Run less baseline."""
        return self.run - self.baseline


class ChangedRows:
    """The rows that a baseline shares with any of several runs, in the order of the baseline.

    Attributes:
        questions: number of each data row in the baseline.
        places: ``[runs, rows]`` place of each row among the rows that the comparison joined; -1 where it lacks the row.

    Args:
        found: comparisons with one baseline.
    """

    def __init__(self, found: Sequence[Comparison]) -> None:
        self._found = list(found)
        shared = [each._sides[1].questions for each in self._found]
        self.questions: Ints = np.unique(np.concatenate(shared))
        self.places: Ints = np.full((len(shared), len(self.questions)), -1, np.int64)
        for line, questions in zip(self.places, shared):
            line[np.searchsorted(self.questions, questions)] = np.arange(len(questions))

    def choose(
        self,
        metric: str | None = None,
        kind: str = "different",
        sort: str = "change",
        comparisons: Sequence[int] | None = None,
        text: str = "",
    ) -> tuple[Ints, str]:
        """Returns the places of the chosen rows in :attr:`questions`, in order, and how a text was looked for.

        Args:
            metric: whose changes count; None for the largest change of any, as a fraction of its scale.
            kind: of :data:`KINDS`.
            sort: ``change``, the largest first, or ``number``.
            comparisons: places of the runs that count; None for all.
            text: that a chosen row holds in the baseline or in one of these runs; empty for any.

        Raises:
            InputError: no such kind or sort, or better or worse by a metric that has no better direction.
        """
        check_choice("kind", kind, KINDS)
        check_choice("sort", sort, SORTS)
        counted = range(len(self._found)) if comparisons is None else comparisons
        size, kept = self._sizes(metric, kind, counted)
        how = ""
        if text:
            holds, how = self._holding(text, counted)
            kept &= holds
        order: Ints = np.arange(len(kept)) if sort == "number" else np.argsort(-size, kind="stable")
        chosen: Ints = order[kept[order]]
        return chosen, how

    def largest(self, row: int, comparison: int, metric: str | None = None, kind: str = "different") -> Change | None:
        """Returns the largest change of a row in a run, by which :meth:`choose` chooses; None where nothing changed.

        Args:
            row: place in :attr:`questions`.
            comparison: place of the run.
            metric: as of :meth:`choose`.
            kind: likewise.
        """
        place = int(self.places[comparison, row])
        if place < 0:
            return None
        best, found = 0.0, None
        for pair in self._pairs(comparison, metric, kind):
            size = float(pair.change(_order(kind), np.array([place]))[0])
            if size > best:  # not of NaN
                best, found = size, _change(comparison, pair, place, size)
        return found

    def _pairs(self, comparison: int, metric: str | None, kind: str) -> list[Pair]:
        pairs = self._found[comparison]._pairs
        if metric is not None:
            return [pairs[metric]] if metric in pairs else []
        any_order = _order(kind) == "change"
        return [each for each in pairs.values() if any_order or each.info["higher_is_better"] is not None]

    def _sizes(self, metric: str | None, kind: str, comparisons: Sequence[int]) -> tuple[Floats, Mask]:
        """The largest change of each row, and whether it is chosen."""
        size: Floats = np.full(len(self.questions), -np.inf)
        kept: Mask = np.zeros(len(size), bool)
        for comparison in comparisons:
            inside = np.flatnonzero(self.places[comparison] >= 0)
            places = self.places[comparison, inside]
            for pair in self._pairs(comparison, metric, kind):
                size[inside] = np.fmax(size[inside], pair.change(_order(kind), places))
                if kind == "different":
                    kept[inside] |= pair.different[places]
            if kind == "all":
                kept[inside] = True
        return size, size > 0 if kind in ("better", "worse") else kept

    def _holding(self, text: str, comparisons: Sequence[int]) -> tuple[Mask, str]:
        """Which rows hold a text in the baseline or in a run, and how it was looked for."""
        side = self._found[0]._sides[1]
        numbers, how = _found_questions(side, text)
        holds: Mask = np.isin(self.questions, numbers)
        for comparison in comparisons:
            side = self._found[comparison]._sides[0]
            numbers, its = _found_questions(side, text)
            how = "substring" if "substring" in (how, its) else its
            inside = self.places[comparison] >= 0
            holds[inside] |= np.isin(side.questions, numbers)[self.places[comparison, inside]]
        return holds, how


def _order(kind: str) -> str:
    return kind if kind in ("better", "worse") else "change"


def _change(comparison: int, pair: Pair, place: int, size: float) -> Change:
    run, baseline = float(pair.run[place]), float(pair.baseline[place])
    is_higher, up = run > baseline, pair.info["higher_is_better"]
    reading = ("higher" if is_higher else "lower") if up is None else ("better" if is_higher == up else "worse")
    return Change(comparison, pair.info["name"], run, baseline, reading, size)


def _found_questions(side: Side, text: str) -> tuple[Ints, str]:
    """Numbers of the data rows of a run that hold a text, and how it was looked for."""
    numbers, how = rows_with_text(side.run, text)
    return np.unique((np.array(numbers, np.int64) - 1) // side.epochs + 1), how
