"""Which rows a page of a run shows: the numbers of all rows that match, in their order, of which a page is a part."""

from __future__ import annotations

import operator
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.evaluation.results.row_values import RowValues, read_row_values, within
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.store import Run, selection
from valor_gpu.store.columns import Columns
from valor_gpu.store.records import OK
from valor_gpu.web.conditions import PEOPLE, Condition, Facts, Wanted, chart_link
from valor_gpu.web.studio import Studio

__all__ = ["PAGE", "Selection", "Wanted", "chart_link", "counts_of", "kept", "select"]

PAGE = 25
FRESH = 3.0
"""Seconds for which what was found in a run that goes on is shown again."""
KEPT_BYTES = 64 << 20
"""Of all that is kept between requests."""
_HOLDS: dict[str, Callable[[Any, float], Any]] = {
    ">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Selection:
    """The rows that match.

    Attributes:
        numbers: of the rows, in their order.
        how: how a text was looked for, ``words`` or ``substring``; empty without one.
        n_failed: rows at the end of an order whose score failed.
        n_unscored: rows behind them without any score.
    """

    numbers: Ints
    how: str = ""
    n_failed: int = 0
    n_unscored: int = 0

    def start(self, at: int) -> int:
        """Position of the first row of a page: the last page where ``at`` lies behind all rows."""
        last = (len(self.numbers) - 1) // PAGE * PAGE
        return max(min(at, last) if at >= len(self.numbers) else at, 0)

    def page(self, at: int) -> list[int]:
        """Numbers of the rows of a page."""
        found: list[int] = self.numbers[at : at + PAGE].tolist()
        return found

    def place(self, number: int) -> int | None:
        """Position of a row, None where it does not match."""
        if number >> 63:
            return None
        found = np.flatnonzero(self.numbers == number)
        return int(found[0]) if len(found) else None


class _Memory:
    """What was found last, by its question; the oldest goes when there is too much of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Any, tuple[float, Any, int]] = {}

    def get(self, key: Any, seconds: float) -> Any:
        with self._lock:
            made, found, size = self._kept.pop(key, (0.0, None, 0))
            if found is None or time.monotonic() - made > seconds:
                return None
            self._kept[key] = made, found, size
            return found

    def put(self, key: Any, found: Any, size: int) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = time.monotonic(), found, size
            left = sum(each[2] for each in self._kept.values())
            while left > KEPT_BYTES and len(self._kept) > 1:
                left -= self._kept.pop(next(iter(self._kept)))[2]


def kept(studio: Studio, run: Run, question: Any, find: Callable[[], Any], size: Callable[[Any], int]) -> Any:
    """What ``find`` returns, kept between requests: until a finished run changes, else for some seconds.

    Args:
        studio: whose memory is used.
        run: that the question is about.
        question: what is looked for, hashable; equal questions have equal answers.
        find: finds it.
        size: bytes of what was found.
    """
    memory: _Memory = studio.memory.setdefault("selections", _Memory())
    ended = studio.store.finished_at(run)
    key = run.id, ended, question
    found = memory.get(key, FRESH if ended is None else float("inf"))
    if found is None:
        found = find()
        memory.put(key, found, size(found) + 500)
    return found


def counts_of(studio: Studio, run: Run) -> dict[str, int]:
    """How many rows there are of each status."""
    found: dict[str, int] = kept(studio, run, "counts", run.counts, len)
    return found


def select(studio: Studio, run: Run, wanted: Wanted, facts: Facts, limits: Mapping[str, Threshold]) -> Selection:
    """The rows that match, kept between requests but for what people say, which changes at any time.

    Args:
        studio: whose memory is used.
        run: of a store.
        wanted: what is asked for.
        facts: summary of every evaluator.
        limits: thresholds of evaluators.

    Raises:
        InputError: a condition asks for a threshold that is not there.
    """
    people = [each for each in wanted.conditions if each.test in PEOPLE]
    others = [each for each in wanted.conditions if each.test not in PEOPLE]
    bounds = {each: tuple(each.bounds(facts, limits)) for each in others}
    plain = replace(wanted, conditions=tuple(others), at=0)
    question = plain, tuple(bounds.items())
    found: Selection = kept(studio, run, question, lambda: _found(run, plain, bounds), lambda each: each.numbers.nbytes)
    for condition in people:
        labelled = within(found.numbers, _ints(selection.rows_labelled(run, condition.metric)))
        found = replace(found, numbers=found.numbers[labelled if condition.test == "labelled" else ~labelled])
    return _counted(run, wanted.order, found) if people and wanted.order else found


Bounds = Mapping[Condition, Sequence[tuple[str, float]]]


def _found(run: Run, wanted: Wanted, bounds: Bounds) -> Selection:
    """The rows that match, in their order; conditions are not about people."""
    numbers, how = _ints(selection.row_numbers(run)), ""
    if wanted.text:
        rows, how = selection.rows_with_text(run, wanted.text)
        numbers = _among(numbers, rows)
    if wanted.status:
        rows = selection.rows_unanswered(run, "" if wanted.status == OK else wanted.status)
        numbers = numbers[within(numbers, _sorted(rows)) != (wanted.status == OK)]
    repeated = {name: _repeated(run, name) for name in {wanted.order, *(each.metric for each in bounds)} if name}
    for condition, tests in bounds.items():
        numbers = _tested(run, numbers, condition, tests, repeated[condition.metric])
    if not wanted.order:
        return Selection(numbers, how)
    return _ordered(run, Selection(numbers, how), wanted, repeated[wanted.order])


def _repeated(run: Run, name: str) -> RowValues | None:
    """Means over the repeats of each row; None where rows have one score each, which the store finds by itself."""
    return read_row_values(Columns(run), name) if selection.is_repeated(run, name) else None


def _tested(
    run: Run, numbers: Ints, condition: Condition, tests: Sequence[tuple[str, float]], means: RowValues | None
) -> Ints:
    name = condition.metric
    if condition.test == "failed":
        return _among(numbers, selection.rows_failed(run, name, condition.status))
    if condition.test == "unscored":
        scored = _sorted(selection.rows_between(run, name, [])), _sorted(selection.rows_failed(run, name))
        return numbers[~within(numbers, scored[0]) & ~within(numbers, scored[1])]
    if means is None:
        return _among(numbers, selection.rows_between(run, name, tests))
    holds = np.ones(len(means.rows), bool)
    for sign, bound in tests:
        holds &= _HOLDS[sign](means.values, bound)
    return numbers[within(numbers, means.rows[holds])]


def _ordered(run: Run, found: Selection, wanted: Wanted, means: RowValues | None) -> Selection:
    """By value, then rows whose score failed, then those without any; these by number whatever the order."""
    if means is None:
        by_value = _ints(selection.rows_by_value(run, wanted.order, wanted.descending))
    else:
        by_value = means.rows[np.lexsort((means.rows, means.values))][:: -1 if wanted.descending else 1]
    matching = found.numbers  # by number so far
    first = by_value[within(by_value, matching)]
    rest = matching[~within(matching, np.sort(by_value))]
    failed = within(rest, _sorted(selection.rows_failed(run, wanted.order)))
    numbers = np.concatenate([first, rest[failed], rest[~failed]])
    return Selection(numbers, found.how, int(failed.sum()), len(rest) - int(failed.sum()))


def _counted(run: Run, order: str, found: Selection) -> Selection:
    """An ordered selection of which rows were taken out, with the counts of those that are left."""
    scored = within(found.numbers, _sorted(selection.rows_between(run, order, [])))
    failed = within(found.numbers, _sorted(selection.rows_failed(run, order))) & ~scored
    return replace(found, n_failed=int(failed.sum()), n_unscored=int((~scored & ~failed).sum()))


def _among(numbers: Ints, rows: array[int]) -> Ints:
    return numbers[within(numbers, _sorted(rows))]


def _sorted(rows: array[int]) -> Ints:
    return np.sort(_ints(rows))


def _ints(rows: array[int] | range) -> Ints:
    if isinstance(rows, range):
        return np.arange(rows.start, rows.stop, dtype=np.int64)
    return np.frombuffer(rows, np.int64) if len(rows) else np.empty(0, np.int64)
