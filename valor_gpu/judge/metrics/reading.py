"""Values of the judge's replies, and the JSON schemas that ask for them. A reply that breaks a rule is a ParseError."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from valor_gpu.judge.choices import read_choice
from valor_gpu.judge.json_text import with_keys
from valor_gpu.judge.parse import (
    NotApplicable,
    ParseError,
    Score,
    check_no_thoughts,
    masses_of,
    object_schema,
    parse_object,
    parse_score,
    read_score,
)
from valor_gpu.judge.protocol import Reply, Schema

YES_NO = ("yes", "no")
YES_NO_IDK = ("yes", "no", "idk")
SCORE_KEYS: Mapping[str, Sequence[str]] = {"score": ("reason",)}
"""Keys of a rating, each with those of its reason."""
SEVERITY_KEYS: Mapping[str, Sequence[str]] = {**SCORE_KEYS, "label": ("reasoning", "reason")}
"""The same of a severity, which may be an annotation."""
_STATUS = {"type": "string", "enum": ["completed", "skipped"]}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_FIRST_WHOLE = re.compile(r"-?\d+")


class Verdict(NamedTuple):
    """A verdict, and what the judge wrote for it, often empty."""

    value: str
    reason: str = ""


class Sorted(NamedTuple):
    """Numbers of statements: borne out, not borne out, missing."""

    tp: int
    fp: int
    fn: int


def texts_schema(*keys: str) -> Schema:
    """Schema of an object of lists of texts.

    Example:
        >>> sorted(texts_schema("TP", "FP")["properties"])
        ['FP', 'TP']
    """
    return object_schema(dict.fromkeys(keys, _TEXTS))


def verdicts_schema(allowed: Sequence[str]) -> Schema:
    """Schema of a list of verdicts, each with its analysis before it."""
    verdict = object_schema({"analysis": {"type": "string"}, "verdict": {"type": "string", "enum": list(allowed)}})
    return object_schema({"verdicts": {"type": "array", "items": verdict}})


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


def read_object(text: str, replies: str, *keys: str) -> dict[str, Any]:
    """The JSON object of a reply.

    Args:
        text: the reply.
        replies: ``tolerant``, by the grammar of :func:`valor_gpu.judge.parse_object`; ``core`` and ``lite``, as the
            releases of Valor read: from the first brace to the last, whatever is thought, quoted or said twice;
            ``core`` adds a brace that is missing at the end.
        keys: what a tolerant reply's object has one of.
    """
    if replies == "tolerant":
        return parse_object(text, *keys)
    first, last = text.find("{"), text.rfind("}")
    if first < 0 or (last < first and replies == "lite"):
        raise ParseError(f"the reply must hold a JSON object but is {text[:80]!r}")
    whole = text[first : last + 1] if last > first else text[first:] + "}"
    try:
        found = json.loads(re.sub(r",\s*(?=[]}])", "", whole) if replies == "core" else whole)
    except ValueError as error:
        raise ParseError(f"the reply is no JSON: {error}") from None
    return dict(found)


def read_texts(text: str, key: str, replies: str) -> list[str]:
    """A list of texts of a reply.

    Example:
        >>> read_texts('{"claims": ["The mill is old."]}', "claims", "tolerant")
        ['The mill is old.']
    """
    return _texts(read_object(text, replies, key), key)


def _texts(found: Mapping[str, Any], key: str) -> list[str]:
    value = found.get(key)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ParseError(f"{key} must be a list of texts but is {str(value)[:80]}")
    return value


def read_verdicts(text: str, count: int, allowed: Sequence[str], replies: str) -> list[str]:
    """The verdicts of a reply, as many as there were questions.

    Example:
        >>> read_verdicts('{"verdicts": [{"verdict": "Yes"}]}', 1, YES_NO, "tolerant")
        ['yes']
    """
    found = read_object(text, replies, "verdicts").get("verdicts")
    if not isinstance(found, list) or len(found) != count:
        got = len(found) if isinstance(found, list) else type(found).__name__
        raise ParseError(f"verdicts must be a list of {count} but is {got}")
    return [_verdict(one, allowed, replies) for one in found]


def _verdict(one: Any, allowed: Sequence[str], replies: str) -> str:
    if not isinstance(one, dict) or (replies == "lite" and set(one) != {"verdict", "analysis"}):
        raise ParseError(f"a verdict must be an object of analysis and verdict but is {str(one)[:80]}")
    verdict = (with_keys(one, ["verdict"]) if replies == "tolerant" else one).get("verdict")
    if replies == "tolerant" and isinstance(verdict, str):
        verdict = verdict.strip(" \n.!*'\"").lower()
    if verdict not in allowed:
        raise ParseError(f"verdict must be {', '.join(allowed)} but is {str(verdict)[:80]!r}")
    return str(verdict)


def read_sorted(text: str, answer: int, correct: int, replies: str) -> Sorted:
    """How the statements of an answer and of a correct one were sorted.

    Args:
        text: the reply.
        answer: number of statements of the answer: each is in TP or FP.
        correct: number of correct statements: FN has no more.
        replies: see :func:`read_object`.
    """
    found = read_object(text, replies, "TP", "FP", "FN")
    tp, fp, fn = (len(_texts(found, key)) for key in ("TP", "FP", "FN"))
    if tp + fp != answer:
        raise ParseError(f"TP and FP must hold the {answer} statements of the answer but hold {tp + fp}")
    if fn > correct:
        raise ParseError(f"FN must hold at most the {correct} correct statements but holds {fn}")
    return Sorted(tp, fp, fn)


def read_rating(
    text: str,
    low: float,
    high: float,
    keys: Mapping[str, Sequence[str]] = SCORE_KEYS,
    round_fractions: bool = False,
    replies: str = "tolerant",
) -> Score:
    """Reads a rating, by the rules of :func:`valor_gpu.judge.parse_score`.

    A JSON object is read alike by all; of other texts ``core`` takes the first character, ``lite`` the first whole
    number.

    Args:
        text: the reply.
        low: the least rating.
        high: the greatest.
        keys: of an object, each with the keys of its reason.
        round_fractions: whether 4.5 is 5 (halves upwards); otherwise it is no rating.
        replies: see :func:`read_object`.

    Raises:
        ParseError: no rating, several that differ, or one out of range.
        NotApplicable: the judge says that there is nothing to rate.

    Example:
        >>> read_rating('{"reason": "Two slips.", "score": 4}', 1, 5)
        Score(value=4.0, reason='Two slips.')
        >>> read_rating("Score: 3.5/5", 1, 5, round_fractions=True).value
        4.0
        >>> read_rating("{'label': 5, 'reasoning': 'a threat'}", 0, 7, SEVERITY_KEYS)
        Score(value=5.0, reason='a threat')
        >>> read_rating("10", 1, 5, replies="core").value, read_rating("4.7", 1, 5, replies="lite").value
        (1.0, 4.0)
    """
    if replies == "core" and "{" not in text:
        text = text.strip()[:1]
    elif replies == "lite" and "{" not in text:
        text = "".join(_FIRST_WHOLE.findall(text)[:1])
    found = read_score(text, low, high, keys, whole=not round_fractions)
    return Score(float(math.floor(found.value + 0.5)), found.reason)


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
