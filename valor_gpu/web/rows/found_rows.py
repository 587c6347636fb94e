"""Which rows a page of a run shows: the numbers of all rows that match, in their order, of which a page is a part."""

from __future__ import annotations

import math
import operator
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.evaluation.results.row_values import Mask, RowValues, read_row_values, within
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.store import Run, selection
from valor_gpu.store.columns import Columns
from valor_gpu.store.records import OK
from valor_gpu.web.rows.conditions import PEOPLE, Condition, Facts, Wanted, chart_link
from valor_gpu.web.studio import Studio

__all__ = ["PAGE", "Selection", "Wanted", "chart_link", "counts_of", "kept", "select"]

PAGE = 25
FRESH = 3.0
"""Seconds for which what was found in a run that goes on is shown again."""
KEPT_BYTES = 64 << 20
"""Of all that is kept between requests: 160 selections of 100,000 rows, which take 400 kB each."""
PINNED = 600.0
"""Seconds for which a list of a run that goes on can be walked through as it was, from the last page read."""
PINNED_BYTES = 32 << 20
"""Of all such lists: 80 of 100,000 rows."""
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
        as_of: when they were selected of a run that goes on, seconds since 1970 as an address has them; else empty.
    """

    numbers: NDArray[np.signedinteger[Any]]
    how: str = ""
    n_failed: int = 0
    n_unscored: int = 0
    as_of: str = ""

    @property
    def taken(self) -> str:
        """The time of day at which they were selected; empty of a run that has ended."""
        return datetime.fromtimestamp(float(self.as_of)).strftime("%H:%M:%S") if self.as_of else ""

    def kept_where(self, holds: Mask) -> Selection:
        """The rows for which a condition holds."""
        end = len(self.numbers) - self.n_unscored
        n_failed, n_unscored = int(holds[end - self.n_failed : end].sum()), int(holds[end:].sum())
        return replace(self, numbers=self.numbers[holds], n_failed=n_failed, n_unscored=n_unscored)

    def newer(self, now: Selection) -> int:
        """Returns the number of rows of another selection that this one lacks."""
        return int((~within(_wide(now), np.sort(_wide(self)))).sum())

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


def _wide(selection: Selection) -> Ints:
    return selection.numbers.astype(np.int64, copy=False)


class _Memory:
    """Keeps the latest selections by their questions; the one unread for longest goes when memory is short."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Any, tuple[float, Any, int]] = {}
        self._most = most
        self._last = 0.0

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
            while left > self._most() and len(self._kept) > 1:
                left -= self._kept.pop(next(iter(self._kept)))[2]

    def stamp(self) -> str:
        """Seconds since 1970 as no other call gives them."""
        with self._lock:
            self._last = max(time.time(), self._last + 0.001)
            return f"{self._last:.3f}"


def _memory(studio: Studio) -> _Memory:
    found: _Memory = studio.memory.setdefault("selections", _Memory(lambda: KEPT_BYTES))
    return found


def _pinned(studio: Studio) -> _Memory:
    """Lists of runs that go on, which later pages of the same list are a part of."""
    found: _Memory = studio.memory.setdefault("pinned", _Memory(lambda: PINNED_BYTES))
    return found


def kept(studio: Studio, run: Run, question: Any, find: Callable[[], Any], size: Callable[[Any], int]) -> Any:
    """What ``find`` returns, kept between requests: until a finished run changes, else for some seconds.

    Args:
        studio: whose memory is used.
        run: that the question is about.
        question: what is looked for, hashable; equal questions have equal answers.
        find: finds it.
        size: bytes of what was found.
    """
    memory = _memory(studio)
    ended = studio.store.finished_at(run)
    key = run.id, ended, question
    found = memory.get(key, FRESH if ended is None else math.inf)
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

    Of a run that goes on the rows are those of the time that the address names, as long as these are kept.

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
    pin = run.id, replace(wanted, at=0, as_of=""), tuple(bounds.items())
    if wanted.as_of:
        then: Selection | None = _pinned(studio).get((*pin, wanted.as_of), PINNED)
        if then is not None:
            _pinned(studio).put((*pin, wanted.as_of), then, then.numbers.nbytes + 500)  # read again, so kept again
            return then
    plain = replace(wanted, conditions=tuple(others), at=0, as_of="")
    question = plain, tuple(bounds.items())
    found: Selection = kept(
        studio, run, question, lambda: _found(studio, run, plain, bounds), lambda each: each.numbers.nbytes
    )
    for condition in people:
        labelled = within(_wide(found), _ints(selection.rows_labelled(run, condition.metric)))
        found = found.kept_where(labelled if condition.test == "labelled" else ~labelled)
    if people and found.as_of:
        found = replace(found, as_of=_pinned(studio).stamp())
    if found.as_of:
        _pinned(studio).put((*pin, found.as_of), found, found.numbers.nbytes + 500)
    return found


Bounds = Mapping[Condition, Sequence[tuple[str, float]]]


def _found(studio: Studio, run: Run, wanted: Wanted, bounds: Bounds) -> Selection:
    """The rows that match, in their order; conditions are not about people."""
    goes_on = studio.store.finished_at(run) is None
    found = _matching(studio, run, wanted, bounds)
    numbers = found.numbers
    if len(numbers) and numbers.max() <= np.iinfo(np.int32).max:  # half the memory
        numbers = numbers.astype(np.int32)
    return replace(found, numbers=numbers, as_of=_pinned(studio).stamp() if goes_on else "")


def _matching(studio: Studio, run: Run, wanted: Wanted, bounds: Bounds) -> Selection:
    numbers, how = _ints(selection.row_numbers(run)), ""
    if wanted.text:
        rows, how = _with_text(studio, run, wanted.text)
        numbers = _among(numbers, rows)
    if wanted.status:
        rows = selection.rows_unanswered(run, "" if wanted.status == OK else wanted.status)
        numbers = numbers[within(numbers, _sorted(rows)) != (wanted.status == OK)]
    repeated = {name: _repeated(run, name) for name in {wanted.order, *(each.metric for each in bounds)} if name}
    together: dict[str, list[tuple[str, float]]] = {}  # one reading of an evaluator for all of its bounds
    for condition, tests in bounds.items():
        if condition.test in ("failed", "unscored"):
            numbers = _without_value(run, numbers, condition)
        else:
            together.setdefault(condition.metric, []).extend(tests)
    for name, all_tests in together.items():
        numbers = _tested(run, numbers, name, all_tests, repeated[name])
    if not wanted.order:
        return Selection(numbers, how)
    return _ordered(run, numbers, how, wanted, repeated[wanted.order])


def _with_text(studio: Studio, run: Run, text: str) -> tuple[array[int], str]:
    """Numbers of the rows that hold a text, in no order, and how it was looked for.

    Of a run without an index only rows are read that came since the text was looked for last.
    """
    memory, key = _memory(studio), (run.id, "scan", text)
    scan = selection.scan_text(run, text, memory.get(key, math.inf))
    if scan is None:
        return selection.rows_with_text(run, text)
    memory.put(key, scan, 8 * len(scan.numbers) + 500)
    return scan.numbers, "substring"


def _repeated(run: Run, name: str) -> RowValues | None:
    """Means over the repeats of each row; None where rows have one score each, which the store finds by itself."""
    return read_row_values(Columns(run), name) if selection.is_repeated(run, name) else None


def _without_value(run: Run, numbers: Ints, condition: Condition) -> Ints:
    name = condition.metric
    if condition.test == "failed":
        return _among(numbers, selection.rows_failed(run, name, condition.status))
    scored = _sorted(selection.rows_between(run, name, [])), _sorted(selection.rows_failed(run, name))
    return numbers[~within(numbers, scored[0]) & ~within(numbers, scored[1])]


def _tested(run: Run, numbers: Ints, name: str, tests: Sequence[tuple[str, float]], means: RowValues | None) -> Ints:
    if means is None:
        return _among(numbers, selection.rows_between(run, name, tests))
    holds = np.ones(len(means.rows), bool)
    for sign, bound in tests:
        holds &= _HOLDS[sign](means.values, bound)
    return numbers[within(numbers, means.rows[holds])]


def _ordered(run: Run, matching: Ints, how: str, wanted: Wanted, means: RowValues | None) -> Selection:
    """By value, then rows whose score failed, then those without any; these by number whatever the order."""
    if means is None:
        by_value = _ints(selection.rows_by_value(run, wanted.order, wanted.descending))
    else:
        by_value = means.rows[np.lexsort((means.rows, means.values))][:: -1 if wanted.descending else 1]
    first = by_value[within(by_value, matching)]
    rest = matching[~within(matching, np.sort(by_value))]
    failed = within(rest, _sorted(selection.rows_failed(run, wanted.order)))
    numbers = np.concatenate([first, rest[failed], rest[~failed]])
    return Selection(numbers, how, int(failed.sum()), len(rest) - int(failed.sum()))


def _among(numbers: Ints, rows: array[int]) -> Ints:
    return numbers[within(numbers, _sorted(rows))]


def _sorted(rows: array[int]) -> Ints:
    return np.sort(_ints(rows))


def _ints(rows: array[int] | range) -> Ints:
    if isinstance(rows, range):
        return np.arange(rows.start, rows.stop, dtype=np.int64)
    return np.frombuffer(rows, np.int64) if len(rows) else np.empty(0, np.int64)
