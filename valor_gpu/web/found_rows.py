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
"""Rows that one page reads at most while it tests those that words or an order give."""
_BATCH = 200

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
        metric: evaluator whose score is tested; empty for none.
        test: of :data:`TESTS`.
        bound: of the test.
        order: evaluator by whose score rows come; empty for their numbers. A text comes by numbers in any case.
        descending: the highest score first; otherwise the lowest.
        status: only rows of this status.
        after: where the page begins: what the page before gave as ``following``.
    """

    text: str = ""
    metric: str = ""
    test: str = ""
    bound: float | None = None
    order: str = ""
    descending: bool = False
    status: str = ""
    after: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str], metrics: Mapping[str, object]) -> Wanted:
        """What a query says; parts that mean nothing count as not given, but a wrong bound is an error."""
        sort = query.get("sort", "")
        metric = query.get("m", "") if query.get("m", "") in metrics else ""
        test = query.get("op", "") if metric and query.get("op", "") in TESTS else ""
        bound = _bound(query.get("x", "")) if test in ("at_most", "at_least") else None
        if bound is None and test in ("at_most", "at_least"):
            test = ""
        order = sort.removeprefix("-") if sort.removeprefix("-") in metrics else "" if bound is None else metric
        return cls(
            query.get("q", "").strip(),
            metric,
            test,
            bound,
            order,
            sort.startswith("-"),
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
    """Finds the rows of a page: all that was asked for holds of each.

    Candidates come in one order, by words, by a score or by number, and are tested for the rest.
    """
    numbers: list[int] = []
    behind, read, size = wanted.after, 0, limit + 1
    while True:
        candidates, how = _candidates(run, wanted, behind, size)
        statuses = run.row_statuses([number for number, _ in candidates]) if wanted.status else {}
        for number, key in candidates:
            if _passes(run, wanted, number, statuses):
                if len(numbers) == limit:
                    return FoundNumbers(numbers, behind, how)
                numbers.append(number)
            behind = key
        read += len(candidates)
        if len(candidates) < size:
            return FoundNumbers(numbers, None, how)
        if read >= SCANNED:
            return FoundNumbers(numbers, behind, how, read)
        size = _BATCH


def _candidates(run: Run, wanted: Wanted, after: str, size: int) -> tuple[list[tuple[int, str]], str]:
    """Numbers of rows, each with the key behind which the next one comes, and how a text was looked for."""
    if wanted.text:
        found = run.search(wanted.text, _number(after), size)
        return _by_number([row.number for row in found.rows]), found.how
    if wanted.order:
        between = wanted.between if wanted.order == wanted.metric else None
        scores = run.score_page(wanted.order, _score_key(wanted, after), size, wanted.descending, 0, between)
        return [(each.row, f"{'' if each.value is None else repr(each.value)}:{each.row}") for each in scores], ""
    if wanted.test == "failed":
        return _by_number(failed_numbers(run, wanted.metric, _number(after), size)), ""
    return _by_number([row.number for row in run.rows(_number(after), size, wanted.status or None)]), ""


def _by_number(numbers: list[int]) -> list[tuple[int, str]]:
    return [(number, str(number)) for number in numbers]


def _number(after: str) -> int:
    return int(after) if after.isdecimal() and len(after) < 16 else 0


def _score_key(wanted: Wanted, after: str) -> StoredScore | None:
    value, _, row = after.rpartition(":")
    if not row.isdecimal() or len(row) > 15 or int(row) < 1:
        return None
    if not value:
        return StoredScore(int(row), wanted.order, 0, None, "failed")
    try:
        found = float(value)
    except ValueError:
        return None
    return StoredScore(int(row), wanted.order, 0, found) if math.isfinite(found) else None


def _passes(run: Run, wanted: Wanted, number: int, statuses: Mapping[int, str]) -> bool:
    """Whether a row has the status and the score; bounds are about the first repeat, as the order is."""
    if wanted.status and statuses.get(number) != wanted.status:
        return False
    if not wanted.test:
        return True
    if wanted.test == "failed":
        return any(score.value is None for score in run.scores(wanted.metric, first=number, last=number))
    low, high = wanted.between or (None, None)
    values = [score.value for score in run.scores(wanted.metric, first=number, last=number, repeat=0)]
    return any(v is not None and (low is None or v >= low) and (high is None or v <= high) for v in values)
