"""Values out of a judge's reply: tolerant about the wrapping, strict about the value. No torch.

Thoughts go first. What is left is searched for every rating that it holds: JSON objects that stand by themselves, in
code fences or in quotes, ``<S2>4</S2>``, ``# Result 4``, ``Score: 4``, ``Rating: 4/5``, ``4 out of 5``, a text that is
one number. Two that differ are no rating. docs/judge.md has the whole grammar.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError, ValorError
from valor_gpu.judge.json_text import (
    Object,
    ParseError,
    foremost,
    is_empty,
    parse_object,
    quoted,
    shown,
    survey,
    verdict_parts,
)
from valor_gpu.judge.lenient import find_objects
from valor_gpu.judge.places import QUOTED, Places
from valor_gpu.judge.prose import alone, ratings, tagged
from valor_gpu.judge.protocol import Message, Messages, Reply, Schema
from valor_gpu.judge.thoughts import has_thoughts

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

_RATING_WORDS = ("score", "rating")
GRAMMAR = 2
"""Version of the rules by which replies are read; a run keeps it, since scores by older rules are read again."""


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
        key: the rating's key in a JSON object, in upper or lower case; ``reason`` is the key of the reason.
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
    return read_score(text, low, high, {key: ("reason",)}, whole)


def read_score(
    text: str, low: float, high: float, keys: Mapping[str, Sequence[str]], whole: bool = True, flags: bool = False
) -> Score:
    """Reads a rating that an object may have under one of several keys, each with the keys of its reason.

    Args:
        text: the reply.
        low: the least rating.
        high: the greatest.
        keys: of an object.
        whole: whether a fraction is rejected.
        flags: whether ``true`` and ``false`` are 1 and 0.

    Raises:
        ParseError: as :func:`parse_score`.
        NotApplicable: as there.

    Example:
        >>> read_score('{"label": 5, "reasoning": "a threat"}', 0, 7, {"label": ["reasoning"]})
        Score(value=5.0, reason='a threat')
    """
    if not isinstance(text, str):
        raise ParseError(f"the reply must be text but is {type(text).__name__}")
    parts = verdict_parts(text)
    found = _ratings(parts.verdict, high, keys, flags)
    given = foremost(found)
    if not given:
        if found:
            where = "in a JSON object or behind a label that begins a line"
            raise ParseError(f"the reply must give its rating {where} but only mentions one: {quoted(text)}")
        but = "has no JSON object with one:" if "{" in parts.verdict else "is"
        raise ParseError(f"the reply must hold a rating but {but} {quoted(text)}")
    others = [one for said in parts.before for one in _ratings(said, high, keys, flags)]
    if any(one.value != given[0].value for one in (*found, *others)):
        raise ParseError(f"the reply must hold one rating but holds several: {quoted(text)}")
    if given[0].value is None:
        raise NotApplicable(f"the judge did not score: {given[0].reason}")
    reason = next((one.reason for one in given if one.reason), "")
    return Score(_checked(given[0].value, low, high, whole), reason)


@dataclass(frozen=True)
class _Rating:
    """A rating in a text; ``value`` is None where the judge says that there is nothing to rate."""

    value: float | None
    weight: int
    reason: str = ""


def _ratings(text: str, high: float, keys: Mapping[str, Sequence[str]], flags: bool) -> list[_Rating]:
    """Every rating of a text, the objects first."""
    held = survey(text, tuple(keys), [reason for reasons in keys.values() for reason in reasons])
    found = [rating for one in held.objects for rating in _of_object(one, high, keys, flags)]
    found += [_Rating(number, QUOTED) for one in held.others for number in _numbers_in(one, high, keys)]
    said = "".join([text for text, _ in tagged(held.prose, "S1")][:1]).strip()
    places = Places(held.prose, held.fences)
    for one in ratings(held.prose, high):
        weight = places.weight(one.begin)
        found.append(_Rating(one.value, weight if one.gives and not held.broken else QUOTED, said))
    return found


def _numbers_in(value: Any, high: float, keys: Iterable[str], named: bool = False) -> Iterator[float]:
    """Numbers that an object of another form gives as ratings: ``{"final_score": 1}``, ``{"result": {"score": 1}}``."""
    if isinstance(value, Mapping):
        wanted = (*_RATING_WORDS, *(key.casefold() for key in keys))
        for key, one in value.items():
            yield from _numbers_in(one, high, keys, any(word in key.casefold() for word in wanted))
    elif isinstance(value, list):
        for one in value:
            yield from _numbers_in(one, high, keys) if isinstance(one, (dict, list)) else ()
    elif isinstance(value, str):
        if (number := alone(value, high) if named else None) is not None:
            yield number
        elif value.lstrip().startswith("{"):  # the arguments of a call of a tool are JSON in a text
            for one in find_objects(value).found:
                yield from _numbers_in(one.value, high, keys)
    elif named and isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value) if abs(value) < 1e300 else math.inf


def _of_object(one: Object, high: float, keys: Mapping[str, Sequence[str]], flags: bool) -> Iterator[_Rating]:
    for key, reasons in keys.items():
        told = next((said for reason in reasons if isinstance(said := one.value.get(reason), str)), "")
        if one.value.get(key) is not None:
            yield _Rating(_value_of(one.value[key], key, high, flags), one.weight, told)
    present = [key for key in keys if key in one.value]
    if all(one.value.get(key) is None for key in keys):
        if not is_empty(one.value):
            raise ParseError(f"{present[0]} must be a number but is None")
        yield _Rating(None, one.weight, str(one.value.get("reason", "")))


def _value_of(value: Any, key: str, high: float, flags: bool) -> float:
    if isinstance(value, str) and (number := alone(value, high)) is not None:
        return number
    if not isinstance(value, (int, float)) or (isinstance(value, bool) and not flags):
        what = f"a {type(value).__name__}" if isinstance(value, (list, dict)) else shown(repr(value))
        raise ParseError(f"{key} must be a number but is {what}")
    return float(value) if abs(value) < 1e300 else math.inf  # such an int has no float


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
    wish = (
        f"That reply could not be used: {problem}. Reply again with valid JSON only, as asked: one object, and no other"
        " object or rating quoted outside of its texts."
    )
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


def check_no_thoughts(reply: Reply) -> None:
    """Raises :class:`ParseError` for a reply with thoughts, whose log-probabilities cannot be told from a draft's."""
    if reply.logprobs and has_thoughts(reply.text):
        raise ParseError(
            f"the reply must be without thoughts to have a value by log-probabilities: {quoted(reply.text)}"
        )


def masses_of(position: Mapping[str, float], names: Sequence[str], fits: Callable[[str, str], bool]) -> list[float]:
    """Returns the probabilities of names at a position; zeros where another token is likelier than all of them.

    There, their own probabilities are what was left by chance.

    Args:
        position: log-probabilities of tokens.
        names: in lower case.
        fits: whether a name goes with a token.

    Example:
        >>> masses_of({" 4": 0.0, "The": -9.0}, ["4", "5"], str.__eq__)
        [1.0, 0.0]
        >>> masses_of({" 4": -9.0, "The": 0.0}, ["4", "5"], str.__eq__)
        [0.0, 0.0]
    """
    masses, other = [0.0] * len(names), 0.0
    for token, logprob in position.items():
        bare = token.strip().strip("\u2581\u0120").lower()
        meant = [number for number, name in enumerate(names) if bare and fits(name, bare)]
        for number in meant:
            masses[number] += math.exp(logprob)
        other = other if meant else max(other, math.exp(logprob))
    return masses if sum(masses) >= other else [0.0] * len(names)


def _check_first(text: str, low: int, high: int) -> None:
    """Raises for a reply with a digit before its rating, whose log-probabilities would be taken for the rating's."""
    value = parse_score(text, low, high).value
    first = re.search(r"\d", text)
    if first is not None and int(first[0]) != value:
        raise ParseError(f"the reply must have no digit before its rating {value:g} but is {quoted(text)}")


def expected_score(reply: Reply, low: int, high: int) -> Expected:
    """Computes the expected rating from the log-probabilities of the reply's first token that is a rating.

    Args:
        reply: with ``logprobs``, of a judge with ``top_logprobs`` or of the logits mode.
        low: the least rating, at least 0.
        high: the greatest, at most 9.

    Raises:
        InputError: the range has ratings of more than one digit.
        ParseError: the reply has no log-probabilities, no position where a rating is likeliest, a digit before its
            rating, or thoughts: its first rating may be a draft.

    Example:
        >>> from math import log
        >>> expected_score(Reply("4", logprobs=({"4": log(0.6), "5": log(0.2)},)), 1, 5).value
        4.25
    """
    if not 0 <= low < high <= 9:
        raise InputError(f"low and high must satisfy 0 <= low < high <= 9 but got {low} and {high}")
    check_no_thoughts(reply)
    if reply.logprobs:
        _check_first(reply.text, low, high)
    for position in reply.logprobs or ():
        totals = masses_of(position, [str(rating) for rating in range(low, high + 1)], str.__eq__)
        mass = math.fsum(totals)
        if mass > 0.0:
            shares = {rating: share / mass for rating, share in enumerate(totals, low)}
            return Expected(math.fsum(rating * share for rating, share in shares.items()), shares, min(mass, 1.0))
    raise ParseError("the reply must have log-probabilities of a rating but has none")
