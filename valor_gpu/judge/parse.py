"""Values out of a judge's reply: tolerant about the wrapping, strict about the value. No torch.

The first that applies: a JSON object, also in a code fence or amid prose; ``<S2>4</S2>``; what follows the last
``# Result``; ``Score: 4``, ``Rating: 4/5``, ``4 out of 5``; a text that is one number. All that says two things fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError, ValorError
from valor_gpu.judge.json_text import THOUGHTS, ParseError, parse_object, shown, without_thoughts
from valor_gpu.judge.protocol import Message, Messages, Reply, Schema

__all__ = [
    "Expected",
    "NotApplicable",
    "ParseError",
    "Score",
    "expected_score",
    "object_schema",
    "parse_object",
    "parse_score",
    "repair_messages",
    "score_schema",
]

# Every quantifier below is bounded: a reply is hostile text, and no part of it may be read again and again.
_TAG = re.compile(r"<(/?)(S1|S2)>", re.IGNORECASE)
_NUMBER = r"[-+]?\d{1,15}(?:\.\d{1,15})?"
# Not a part of a longer number, of a range, of several numbers, of a correction, or a percentage.
_MORE = r"to|or|and|-|\u2013|->|\u2192|,|\?\s{0,8}no\b\W{0,8}"
_END = rf"(?![\d.,/*_]{{0,8}}\d|[eE][-+]?\d|[\s*_]{{0,8}}(?:{_MORE})[\s*_]{{0,8}}\d|\s{{0,8}}%)"
_RATED = rf"({_NUMBER})(?:[\s*_(]{{0,8}}(?:/|out of)[\s*_]{{0,8}}(\d{{1,9}}))?"
_LABEL = re.compile(
    rf"\b(?:score|rating|S2)\b[\s*_\"'`]{{0,16}}(?:(?::|=|\bis\b|\bof\b)[\s*_\"'`]{{0,16}})?{_RATED}{_END}",
    re.IGNORECASE,
)
_FRACTION = re.compile(rf"(?<![\d./])({_NUMBER})\s{{0,8}}(?:/|\bout of\b)\s{{0,8}}(\d{{1,9}}){_END}", re.IGNORECASE)
_ALONE = re.compile(_RATED, re.IGNORECASE)
_BEFORE = re.compile(r"[\s*_\"'`(\[]*")
_BEHIND = re.compile(r"[\s*_\"'`)\].]*")
_SAID_EMPTY = {"skipped", "not_applicable", "not applicable"}


class NotApplicable(ValorError):
    """There is nothing to score: the row lacks an input, or the judge says so."""


@dataclass(frozen=True)
class Score:
    """A rating and its reason.

    Attributes:
        value: within the range asked for.
        reason: what the judge wrote for it, often empty.
    """

    value: float
    reason: str = ""

    def __float__(self) -> float:
        return self.value


def parse_score(text: str, low: float, high: float, key: str = "score", whole: bool = True) -> Score:
    """Reads a rating from ``low`` to ``high`` out of a reply.

    Args:
        text: the reply.
        low: the least rating.
        high: the greatest; ``n/5`` and ``n out of 5`` count when 5 is ``high``.
        key: the rating's key in a JSON object; ``reason`` is the key of the reason.
        whole: whether 4.5 is rejected; 4.0 is whole.

    Raises:
        ParseError: no rating, several that differ, or one out of range.
        NotApplicable: the object says so by ``"status": "skipped"``.

    Example:
        >>> parse_score('{"reason": "complete", "score": "4"}', 1, 5)
        Score(value=4.0, reason='complete')
        >>> parse_score("Rating: 3 out of 5", 1, 5).value
        3.0
    """
    if not isinstance(text, str):
        raise ParseError(f"the reply must be text but is {type(text).__name__}")
    bare = without_thoughts(text)
    if "{" in bare:
        found = parse_object(bare)
        if str(found.get("status", "")).lower() in _SAID_EMPTY and found.get(key) is None:
            raise NotApplicable(f"the judge did not score: {found.get('reason', '')}")
        reason = found.get("reason")
        return Score(_checked(_value_of(found, key, high), low, high, whole), reason if isinstance(reason, str) else "")
    return Score(_checked(_from_prose(bare, high), low, high, whole), "".join(_tagged(bare, "S1")[:1]).strip())


def _value_of(found: Mapping[str, Any], key: str, high: float) -> float:
    value = found.get(key)
    if isinstance(value, str) and (alone := _alone(value, high)) is not None:
        return alone
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        what = f"a {type(value).__name__}" if isinstance(value, (list, dict)) else shown(repr(value))
        raise ParseError(f"{key} must be a number but is {what}")
    return float(value) if abs(value) < 1e300 else math.inf  # such an int has no float


def _from_prose(text: str, high: float) -> float:
    if thoughts := list(THOUGHTS.finditer(text)):  # opened by the template of the model, or quoted
        head, tail = text[: thoughts[-1].start()], text[thoughts[-1].end() :]
        earlier = [_of_fraction(number, top, high) for number, top in _LABEL.findall(head)]
        return _agreed([_from_prose(tail, high), *earlier], text)
    if tags := _tagged(text, "S2"):
        return _agreed([_in_tag(tag, high) for tag in tags], text)
    if "# Result" in text:
        text = text.rpartition("# Result")[2].lstrip(": \n\t")
    if (alone := _alone(text, high)) is not None:
        return alone
    for pattern in (_LABEL, _FRACTION):
        if matches := pattern.findall(text):
            return _agreed([_of_fraction(number, top, high) for number, top in matches], text)
    raise ParseError(f"the reply must hold a rating but is {shown(text)}")


def _alone(text: str, high: float) -> float | None:
    """The rating that a text is, but for marks and brackets around it; None when it is more or less."""
    begin, back = _BEFORE.match(text), _BEHIND.match(text[::-1])
    first, last = begin.end() if begin else 0, len(text) - (back.end() if back else 0)
    match = _ALONE.fullmatch(text, first, last) if first < last else None
    return None if match is None else _of_fraction(match[1], match[2], high)


def _tagged(text: str, tag: str) -> list[str]:
    """What stands between every ``<tag>`` and the next ``</tag>``."""
    tagged, begin = [], -1
    for match in _TAG.finditer(text):
        if match[2].upper() != tag:
            continue
        if match[1] and begin >= 0:
            tagged.append(text[begin : match.start()])
            begin = -1
        elif not match[1] and begin < 0:
            begin = match.end()
    return tagged


def _in_tag(text: str, high: float) -> float:
    alone = _alone(text, high)
    if alone is None:
        raise ParseError(f"the tag must hold a number but holds {shown(text)}")
    return alone


def _of_fraction(number: str, top: str | None, high: float) -> float:
    if top and float(top) != high:
        raise ParseError(f"the rating must be out of {high:g} but is {number}/{top}")
    return float(number)


def _agreed(values: list[float], text: str) -> float:
    if any(value != values[0] for value in values):
        raise ParseError(f"the reply must hold one rating but holds several: {shown(text)}")
    return values[0]


def _checked(value: float, low: float, high: float, whole: bool) -> float:
    if not low <= value <= high:
        raise ParseError(f"the rating must lie in {low:g} to {high:g} but is {value:g}")
    if whole and value != int(value):
        raise ParseError(f"the rating must be a whole number but is {value:g}")
    return float(value)


def score_schema(low: int, high: int) -> Schema:
    """Makes the JSON schema of a reason and a whole rating, in this order, so that the judge reasons before it rates.

    Example:
        >>> score_schema(1, 3)["properties"]["score"]
        {'type': 'integer', 'enum': [1, 2, 3]}
    """
    score = {"type": "integer", "enum": list(range(low, high + 1))}
    return object_schema({"reason": {"type": "string"}, "score": score})


def object_schema(properties: Mapping[str, Any]) -> Schema:
    """Makes the JSON schema of an object with all of these properties and no others, as strict modes take it.

    Example:
        >>> sorted(object_schema({"claims": {"type": "array", "items": {"type": "string"}}}))
        ['additionalProperties', 'properties', 'required', 'type']
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def repair_messages(messages: Messages, reply: Reply, problem: str) -> list[Message]:
    """Puts the question again, with the reply that could not be used and what was wrong with it.

    Example:
        >>> [m["role"] for m in repair_messages([{"role": "user", "content": "?"}], Reply("x"), "no JSON")]
        ['user', 'assistant', 'user']
    """
    wish = f"That reply could not be used: {problem}. Reply again with valid JSON only, as asked, and nothing else."
    return [*messages, {"role": "assistant", "content": reply.text}, {"role": "user", "content": wish}]


@dataclass(frozen=True)
class Expected:
    """A rating by probabilities.

    Attributes:
        value: expected rating, within the range asked for.
        probabilities: of each rating; they sum to 1.
        mass: probability of all ratings together among all tokens, in [0, 1]; far below 1, the judge wanted to say
            something else.
    """

    value: float
    probabilities: Mapping[int, float]
    mass: float


def expected_score(reply: Reply, low: int, high: int) -> Expected:
    """Computes the expected rating from the log-probabilities of the reply's first token that is a rating.

    Args:
        reply: with ``logprobs``, of a judge with ``logprobs=True`` or of the logits mode.
        low: the least rating, at least 0.
        high: the greatest, at most 9.

    Raises:
        InputError: the range has ratings of more than one digit.
        ParseError: the reply has no log-probabilities, or no rating among them.

    Example:
        >>> from math import log
        >>> expected_score(Reply("4", logprobs=({"4": log(0.6), "5": log(0.2)},)), 1, 5).value
        4.25
    """
    if not 0 <= low < high <= 9:
        raise InputError(f"low and high must satisfy 0 <= low < high <= 9 but got {low} and {high}")
    for position in reply.logprobs or ():
        totals = {rating: 0.0 for rating in range(low, high + 1)}
        for token, logprob in position.items():
            digit = token.strip().strip("▁Ġ")
            if digit.isdecimal() and len(digit) == 1 and int(digit) in totals:
                totals[int(digit)] += math.exp(logprob)
        mass = math.fsum(totals.values())
        if mass > 0.0:
            shares = {rating: share / mass for rating, share in totals.items()}
            return Expected(math.fsum(rating * share for rating, share in shares.items()), shares, min(mass, 1.0))
    raise ParseError("the reply must have log-probabilities of a rating but has none")
