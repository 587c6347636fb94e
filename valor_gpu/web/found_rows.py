"""Which rows a page of a run shows: searched, filtered by a score, or in an order, each continued behind a key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from valor_gpu.errors import InputError
from valor_gpu.store import Run, StoredScore
from valor_gpu.store.groups import failed_numbers

PAGE = 25
SCANNED = 2000
"""Rows that one page reads at most while it searches and filters at once."""

TESTS = {
    "": "anything",
    "at_most": "at most",
    "at_least": "at least",
    "failed": "failed",
}
"""What a score may be asked to be."""


@dataclass(frozen=True)
class Wanted:
    """What the address asks for.

    Attributes:
        text: words that rows must hold.
        metric: evaluator whose score is tested or sorted by; empty for none.
        test: of :data:`TESTS`.
        bound: of the test.
        descending: the highest score first; otherwise the lowest.
        by_score: whether rows come in the order of the metric's score.
        status: only rows of this status.
        after: where the page begins: what the page before gave as ``following``.
    """

    text: str = ""
    metric: str = ""
    test: str = ""
    bound: float | None = None
    descending: bool = False
    by_score: bool = False
    status: str = ""
    after: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str], metrics: Mapping[str, object]) -> Wanted:
        """What a query says; parts that mean nothing count as not given, but a wrong bound is an error."""
        sort = query.get("sort", "")
        by_score = sort.removeprefix("-") in metrics
        metric = query.get("m", "") if query.get("m", "") in metrics else ""
        test = query.get("op", "") if metric and query.get("op", "") in TESTS else ""
        bound = _bound(query.get("x", "")) if test in ("at_most", "at_least") else None
        if bound is None and test in ("at_most", "at_least"):
            test = ""
        if test != "failed" and by_score:
            metric = sort.removeprefix("-") if not test else metric
        return cls(
            query.get("q", "").strip(),
            metric,
            test,
            bound,
            sort.startswith("-"),
            by_score or test in ("at_most", "at_least"),
            query.get("status", ""),
            query.get("after", ""),
        )

    @property
    def between(self) -> tuple[float | None, float | None] | None:
        """Bounds of the test."""
        return {"at_most": (None, self.bound), "at_least": (self.bound, None)}.get(self.test)


def _bound(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"the bound of a score must be a number but is {text!r}")
    return found


@dataclass(frozen=True)
class FoundNumbers:
    """A page of rows.

    Attributes:
        numbers: of the rows, in order.
        following: where the next page begins; None at the end.
        how: how a text was looked for, ``words`` or ``substring``; empty without one.
        scanned: rows that were read in search of others, where the page was ended because of their number.
    """

    numbers: list[int]
    following: str | None = None
    how: str = ""
    scanned: int = 0


def find_rows(run: Run, wanted: Wanted, limit: int = PAGE) -> FoundNumbers:
    """Finds the rows of a page.

    A text decides the order: rows by their numbers; a test of a score then picks among them.
    """
    if wanted.text:
        return _searched(run, wanted, limit)
    if wanted.test == "failed":
        return _numbered(failed_numbers(run, wanted.metric, _number(wanted.after), limit + 1), limit)
    if wanted.by_score:
        return _by_score(run, wanted, limit)
    rows = run.rows(_number(wanted.after), limit + 1, wanted.status or None)
    return _numbered([row.number for row in rows], limit)


def _number(after: str) -> int:
    return int(after) if after.isdecimal() and len(after) < 16 else 0


def _numbered(numbers: list[int], limit: int) -> FoundNumbers:
    more = len(numbers) > limit
    return FoundNumbers(numbers[:limit], str(numbers[limit - 1]) if more else None)


def _by_score(run: Run, wanted: Wanted, limit: int) -> FoundNumbers:
    after = _score_key(wanted)
    found = run.score_page(wanted.metric, after, limit + 1, wanted.descending, 0, wanted.between)
    numbers = [score.row for score in found[:limit]]
    if len(found) <= limit:
        return FoundNumbers(numbers)
    last = found[limit - 1]
    return FoundNumbers(numbers, f"{'' if last.value is None else repr(last.value)}:{last.row}")


def _score_key(wanted: Wanted) -> StoredScore | None:
    value, _, row = wanted.after.rpartition(":")
    if not row.isdecimal() or len(row) > 15 or int(row) < 1:
        return None
    if not value:
        return StoredScore(int(row), wanted.metric, 0, None, "failed")
    try:
        return StoredScore(int(row), wanted.metric, 0, float(value))
    except ValueError:
        return None


def _searched(run: Run, wanted: Wanted, limit: int) -> FoundNumbers:
    after, numbers, scanned, how = _number(wanted.after), [], 0, ""
    while True:
        found = run.search(wanted.text, after, limit + 1)
        how = found.how
        for row in found.rows[:limit]:
            after = row.number
            if _passes(run, wanted, row.number):
                numbers.append(row.number)
            if len(numbers) == limit:
                break
        scanned += len(found.rows)
        ended = len(found.rows) <= limit and (not found.rows or after == found.rows[-1].number)
        if ended:
            return FoundNumbers(numbers, None, how)
        if len(numbers) == limit:
            return FoundNumbers(numbers, str(after), how)
        if scanned >= SCANNED:
            return FoundNumbers(numbers, str(after), how, scanned)


def _passes(run: Run, wanted: Wanted, number: int) -> bool:
    if not wanted.test:
        return True
    scores = list(run.scores(wanted.metric, first=number, last=number))
    if wanted.test == "failed":
        return any(score.value is None for score in scores)
    low, high = wanted.between or (None, None)
    values = [score.value for score in scores if score.value is not None]
    return any((low is None or value >= low) and (high is None or value <= high) for value in values)
