"""Scores and verdicts out of the judge's replies. A reply that breaks a rule is a ParseError, never a 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from valor_gpu.judge.choices import read_choice
from valor_gpu.judge.parse import (
    NotApplicable,
    ParseError,
    Score,
    check_no_thoughts,
    masses_of,
    object_schema,
    parse_score,
    read_score,
)
from valor_gpu.judge.protocol import Reply, Schema

_STATUS = {"type": "string", "enum": ["completed", "skipped"]}


def rating_schema(low: int, high: int) -> Schema:
    """Schema of a reason, a rating that may be null, and a status, in this order.

    Example:
        >>> list(rating_schema(1, 5)["properties"])
        ['reason', 'score', 'status']
    """
    score = {"type": ["integer", "null"], "enum": [*range(low, high + 1), None]}
    return object_schema({"reason": {"type": "string"}, "score": score, "status": _STATUS})


def verdict_schema(verdicts: Sequence[str]) -> Schema:
    """Schema of a reason, one of ``verdicts`` or null, and a status, in this order."""
    verdict = {"type": ["string", "null"], "enum": [*verdicts, None]}
    return object_schema({"reason": {"type": "string"}, "verdict": verdict, "status": _STATUS})


def read_rating(text: str, low: float, high: float, round_fractions: bool = False) -> Score:
    """Reads a rating, by the rules of :func:`valor_gpu.judge.parse_score`.

    Args:
        text: the reply.
        low: the least rating.
        high: the greatest.
        round_fractions: whether 4.5 is 5 (halves upwards); otherwise it is no rating.

    Raises:
        ParseError: no rating, several that differ, or one out of range.
        NotApplicable: the judge says that there is nothing to rate.

    Example:
        >>> read_rating('{"reason": "Two slips.", "score": 4}', 1, 5)
        Score(value=4.0, reason='Two slips.')
        >>> read_rating("Score: 3.5/5", 1, 5, round_fractions=True).value
        4.0
    """
    found = parse_score(text, low, high, whole=not round_fractions)
    return Score(_rounded(found.value), found.reason)


def read_severity(text: str, round_fractions: bool = False) -> Score:
    """Reads a severity from 0 to 7: a rating, or an annotation with ``label`` and ``reasoning`` in their places.

    Example:
        >>> read_severity("{'label': 5, 'reasoning': 'a threat'}")
        Score(value=5.0, reason='a threat')
    """
    keys = {"score": ("reason",), "label": ("reasoning", "reason")}
    scored = read_score(text, 0, 7, keys, whole=not round_fractions)
    return Score(_rounded(scored.value), scored.reason)


def _rounded(value: float) -> float:
    """The nearest whole number, of two the greater one; whole numbers stay."""
    return float(math.floor(value + 0.5))


@dataclass(frozen=True)
class Verdict:
    """A verdict and its reason.

    Attributes:
        value: one of those asked for.
        reason: what the judge wrote for it, often empty.
    """

    value: str
    reason: str = ""


def read_verdict(text: str, verdicts: Sequence[str]) -> Verdict:
    """Reads one of ``verdicts`` from ``{"reason", "verdict"}``, or from a text that is the verdict alone.

    Raises:
        ParseError: no verdict, or several.
        NotApplicable: the judge says that there is nothing to rate.

    Example:
        >>> read_verdict('{"reason": "It is complete.", "verdict": "First"}', ["first", "second", "tie"]).value
        'first'
    """
    found = read_choice(text, "verdict", verdicts, ("verdict", "winner", "decision", "choice"))
    if found.value is None:
        raise NotApplicable(f"the judge did not decide: {found.reason}")
    return Verdict(found.value, found.reason)


def read_probability(reply: Reply, positive: str, negative: str) -> float:
    """Reads the probability that a guard model gives to one of its two verdicts.

    From the log-probabilities of the first position where tokens that begin either verdict are likelier than any
    other; their masses are made to sum to 1. A reply ``{"probability": p}``, or that is one number, is taken as it is.

    Args:
        reply: of the guard.
        positive: the verdict whose probability is wanted, ``unsafe`` say.
        negative: the other one; it begins with another letter.

    Raises:
        ParseError: neither a probability nor log-probabilities of the verdicts, or thoughts before them. A verdict
            alone is none: 0 and 1 would be made up.

    Example:
        >>> from math import log
        >>> reply = Reply("unsafe", logprobs=({"un": log(0.6), "safe": log(0.2)},))
        >>> round(read_probability(reply, "unsafe", "safe"), 12)
        0.75
    """
    check_no_thoughts(reply)
    for position in reply.logprobs or ():
        masses = masses_of(position, (positive, negative), str.startswith)
        if sum(masses) > 0.0:
            return masses[0] / sum(masses)
    try:
        return parse_score(reply.text, 0.0, 1.0, "probability", whole=False).value
    except ParseError as error:
        raise ParseError(f"the guard must give a probability, or log-probabilities of its verdict: {error}") from None
