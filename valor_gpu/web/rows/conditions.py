"""What an address asks of the rows of a run: words, conditions, a status, an order."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short, short_name
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.web.typed import typed_number

TESTS = {
    "at_least": "at least",
    "at_most": "at most",
    "equals": "is exactly",
    "between": "from .. to",
    "passed": "passes its threshold",
    "not_passed": "fails its threshold",
    "failed": "failed, no score",
    "unscored": "not scored yet",
    "labelled": "labelled by a person",
    "unlabelled": "not labelled by a person",
}
"""What a score may be asked to be."""
NEEDS_VALUE = frozenset(("at_least", "at_most", "equals", "between"))
PEOPLE = frozenset(("labelled", "unlabelled"))
"""Tests that need no metric: without one they are about any word of a person on the row."""
MOST = 20
"""Conditions of one address."""
LONGEST = 200
"""Characters of the value of a condition: a longer one holds no numbers, and would take time by their square."""
_BETWEEN = re.compile(r"\s*(\S+?)\s*(?:\.\.|\bto\b)\s*(\S+)\s*")
_TIME = re.compile(r"[0-9]{1,11}\.[0-9]{3}")
_OPPOSITE = {">=": "<", "<=": ">", "<": ">="}

Facts = Mapping[str, Mapping[str, Any]]
Bounds = list[tuple[str, float]]


@dataclass(frozen=True)
class Condition:
    """A test of one score of a row.

    Attributes:
        metric: evaluator; empty for people's words on any, or on the row.
        test: of :data:`TESTS`.
        low: least value of ``at_least``, ``equals`` and ``between``.
        high: largest value of ``at_most``, ``equals`` and ``between``.
        status: of failed scores; empty for any.
    """

    metric: str
    test: str
    low: float | None = None
    high: float | None = None
    status: str = ""

    @classmethod
    def read(cls, text: str, metrics: Mapping[str, object]) -> Condition:
        """Reads ``METRIC:TEST:VALUE``.

        Raises:
            InputError: the text says something else, or names an evaluator that the run does not have.
        """
        metric, _, rest = text.rpartition(":")
        metric, _, test = metric.rpartition(":")
        if text.count(":") < 2 or test not in TESTS:
            raise InputError(
                f"if must be METRIC:TEST:VALUE with a test of {', '.join(TESTS)} but is {short(text)!r}: take it out"
            )
        return cls.made(metric, test, rest, metrics)

    @classmethod
    def made(cls, metric: str, test: str, value: str, metrics: Mapping[str, object]) -> Condition:
        """Makes a condition of the fields of a form."""
        if metric not in metrics and not (test in PEOPLE and not metric):
            near = near_names(metric, metrics) or f"; it has {', '.join(map(short, list(metrics)[:20]))}"
            raise InputError(f"a condition must name an evaluator of the run but names {short(metric)!r}{near}")
        if test == "between":
            found = _BETWEEN.fullmatch(value) if len(value) <= LONGEST else None
            if found is None:
                raise InputError(f"the value of a condition must be LOW..HIGH, such as 2..4, but is {short(value)!r}")
            low, high = _number(found[1]), _number(found[2])
            if low > high:
                raise InputError(f"the value of a condition must be LOW..HIGH with LOW first but is {short(value)!r}")
            return cls(metric, test, low, high)
        if test in NEEDS_VALUE:
            number = _number(value)
            return cls(metric, test, None if test == "at_most" else number, None if test == "at_least" else number)
        return cls(metric, test, status=value if test == "failed" else "")

    @property
    def value(self) -> str:
        """What stands behind the test in an address."""
        if self.test == "between":
            return f"{_plain(self.low)}..{_plain(self.high)}"
        if self.test in NEEDS_VALUE:
            return _plain(self.high if self.low is None else self.low)
        return self.status

    @property
    def text(self) -> str:
        """The condition as an address has it."""
        return f"{self.metric}:{self.test}:{self.value}"

    @property
    def words(self) -> str:
        """The condition for readers."""
        name = short_name(self.metric) or "row"
        if self.test == "between":
            if (bar := self._bar()) is not None:
                return f"{name} rounded to {bar}"
            return f"{name} from {_plain(self.low)} to {_plain(self.high)}"
        if self.test == "failed":
            return f"{name} failed" + (f": {short(self.status).replace('_', ' ')}" if self.status else "")
        return f"{name} {TESTS[self.test]} {self.value}".strip()

    def _bar(self) -> int | None:
        """The whole score in whose middle a bar stands, as charts of short scales have them; None for other ends."""
        assert self.low is not None and self.high is not None  # made() gives both
        middle = self.low + 0.5
        return int(middle) if self.high - self.low == 1 and middle.is_integer() else None

    def bounds(self, facts: Facts, limits: Mapping[str, Threshold]) -> Bounds:
        """Comparisons that the score must hold.

        Args:
            facts: summary of every evaluator, which says where a scale ends.
            limits: thresholds of evaluators.

        Raises:
            InputError: a threshold is asked for, and there is none.
        """
        if self.test in ("passed", "not_passed"):
            limit = limits.get(self.metric)
            if limit is None:
                raise InputError(
                    f"{short(self.metric)} has no threshold, so no row passes or fails: take the condition out, or"
                    " start a run with thresholds"
                )
            return [(limit.direction if self.test == "passed" else _OPPOSITE[limit.direction], limit.limit)]
        found: Bounds = [] if self.low is None else [(">=", self.low)]
        if self.high is not None:
            closed = self.test != "between" or self.low == self.high or self.high == _end(facts.get(self.metric, {}))
            found.append(("<=" if closed else "<", self.high))
        return found


def _end(facts: Mapping[str, Any]) -> Any:
    """Where charts of an evaluator end: its scale, else its largest score."""
    return facts.get("most") if facts.get("high") is None else facts["high"]


def _plain(value: float | None) -> str:
    """A number as Python reads it back, without an idle ``.0``."""
    return repr(value).removesuffix(".0")


def _number(text: str) -> float:
    found = typed_number(text)
    if math.isnan(found):
        raise InputError(f"the value of a condition must be a number but is {short(text)!r}")
    return found + 0.0  # -0.0 is 0


@dataclass(frozen=True)
class Wanted:
    """What the address asks for.

    Attributes:
        text: words that rows must hold.
        conditions: all of them hold.
        order: evaluator by whose score rows come; empty for their numbers.
        descending: the highest score first; otherwise the lowest.
        status: only rows of this status.
        at: position of the first row of the page, from 0.
        as_of: time of the list that the page is a part of, of a run that goes on; empty for now.
    """

    text: str = ""
    conditions: tuple[Condition, ...] = ()
    order: str = ""
    descending: bool = False
    status: str = ""
    at: int = 0
    as_of: str = ""

    @classmethod
    def read(cls, query: QueryParams, metrics: Mapping[str, object]) -> Wanted:
        """Reads a query; an order by what is no evaluator counts as not given.

        Raises:
            InputError: a condition is wrong, or there are too many.
        """
        texts = [text for text in query.getlist("if") if text]
        if len(texts) > MOST:
            raise InputError(f"an address may have {MOST} conditions but has {len(texts)}: take some out")
        sort = query.get("sort", "")
        order = sort if sort in metrics else sort[1:] if sort[:1] == "-" and sort[1:] in metrics else ""
        return cls(
            query.get("q", "").strip(),
            tuple(dict.fromkeys(Condition.read(text, metrics) for text in texts)),
            order,
            bool(order) and order != sort,
            query.get("status", ""),
            whole(query.get("at", "")) or 0,
            as_of if _TIME.fullmatch(as_of := query.get("as_of", "")) else "",
        )

    @property
    def is_everything(self) -> bool:
        """Whether no row is left out."""
        return not (self.text or self.conditions or self.status)


def whole(text: str) -> int | None:
    """A number of a row or of a place as an address has it; None for other texts."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def chart_link(metric: str, low: float, high: float) -> str:
    """The part of an address that shows the rows of a bar: from ``low``, below ``high`` unless the scale ends there.

    Example:
        >>> chart_link("f1_score", 0.25, 0.5)
        'if=f1_score%3Abetween%3A0.25..0.5'
    """
    return urlencode({"if": Condition(metric, "between", low, high).text})
