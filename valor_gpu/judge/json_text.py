"""The JSON object that a judge's reply gives: in prose, fenced, or slightly broken. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from valor_gpu.judge.lenient import (
    Found,
    Objects,
    ParseError,
    find_fences,
    find_objects,
    has_quotes,
    quoted,
    same,
    shown,
)
from valor_gpu.judge.places import FENCED, PAIRS, QUOTED, STANDS, Places
from valor_gpu.judge.thoughts import Parts, add_thought_marks, split_thoughts, without_thoughts

__all__ = ["ParseError", "add_thought_marks", "parse_object", "quoted", "shown", "split_thoughts", "without_thoughts"]

_ABSENT = object()
SAID_EMPTY = frozenset(("skipped", "not_applicable", "not applicable"))
"""Values of ``status`` by which a judge says that there is nothing to score."""


@dataclass(frozen=True)
class Object:
    """An object of a reply.

    Attributes:
        value: the object; a key that was asked for is spelt as it was asked for.
        weight: how much it counts, see :mod:`valor_gpu.judge.places`.
    """

    value: Mapping[str, Any]
    weight: int


@dataclass(frozen=True)
class Survey:
    """What a text holds beside its thoughts.

    Attributes:
        objects: those that fit what was asked for, in their order.
        others: objects that fit nothing.
        prose: the text around all objects.
        fences: where code fences begin and end in it.
        broken: whether braces that hold quotes make no object.
    """

    objects: tuple[Object, ...]
    others: tuple[Mapping[str, Any], ...]
    prose: str
    fences: tuple[tuple[int, int], ...]
    broken: bool


def parse_object(text: str, *keys: str) -> dict[str, Any]:
    """Returns the one JSON object of a reply.

    Accepted around it: prose, a code fence, thoughts. Mended in it: control characters in texts, a comma too many,
    single and curly quotes, stray backslashes, Python's ``True``, ``False`` and ``None``, brackets that are not closed.
    NaN and Infinity are no JSON. An object in a code fence, or quoted, counts only where no other one does.

    Args:
        text: the reply.
        keys: what the object must have one of, in upper or lower case; objects that have none are passed over. Without
            keys every object counts.

    Raises:
        ParseError: there is none, there are several that differ by a key that counts, or one key has several values
            that differ.

    Example:
        >>> parse_object('Sure: {"verdict": "yes", "score": 4,}')
        {'verdict': 'yes', 'score': 4}
        >>> parse_object('{"note": 1} and {"Score": 4}', "score")
        {'score': 4}
    """
    found = find_object(text, *keys)
    if found is None:
        named = f" with {', '.join(map(repr, keys))}" if keys else ""
        raise ParseError(f"the reply must hold one JSON object but has no JSON object{named}: {quoted(text)}")
    return found


def find_object(text: str, *keys: str) -> dict[str, Any] | None:
    """Returns the object of :func:`parse_object`; None when a reply has none.

    Raises:
        ParseError: as there, but for the object that is missing.
    """
    parts = split_thoughts(text)
    here = survey(parts.verdict, keys).objects
    if not (found := foremost(here)):
        return None
    others = [one for said in parts.before for one in survey(said, keys).objects]
    for one in (*here, *others):
        if not _agree(found[0].value, one.value, keys):
            raise ParseError(f"the reply must hold one JSON object but has JSON objects that differ: {quoted(text)}")
    return dict(found[0].value)


class _Weighed(Protocol):
    @property
    def weight(self) -> int: ...


W = TypeVar("W", bound=_Weighed)


def foremost(found: Sequence[W]) -> list[W]:
    """Returns what gives the verdict: what stands by itself, else what is in code fences, else nothing."""
    for weight in (STANDS, FENCED):
        if those := [one for one in found if one.weight == weight]:
            return those
    return []


def _agree(one: Mapping[str, Any], other: Mapping[str, Any], keys: Sequence[str]) -> bool:
    if not keys:
        return same(dict(one), dict(other))
    return all(same(one.get(key, _ABSENT), other.get(key, _ABSENT)) for key in keys)


def verdict_parts(text: str) -> Parts:
    """Returns the parts of a reply.

    Raises:
        ParseError: its thoughts have no end.
    """
    parts = split_thoughts(text)
    if parts.cut:
        raise ParseError(f"the reply must hold a verdict behind its thoughts but has none: {quoted(text)}")
    return parts


def survey(text: str, keys: Sequence[str] = (), named: Sequence[str] = ()) -> Survey:
    """Looks through a text without thoughts.

    Args:
        text: the text.
        keys: what an object must have one of; without keys all fit.
        named: further keys that are given in any case.

    Raises:
        ParseError: an object that fits says two things; braces with one of ``keys`` that make no object; too many
            braces.
    """
    objects = find_objects(text)
    fences = tuple(find_fences(objects.prose))
    quoted = {number for number in range(len(objects.broken)) if has_quotes(objects.around(number))}
    for number in quoted:
        _check_broken(objects, number, keys, text)
    fitting: list[Object] = []
    others: list[Mapping[str, Any]] = []
    places = Places(objects.prose, fences)
    for one in objects.found:
        value = with_keys(one.value, [*keys, *named, "status"])
        if keys and not any(key in value for key in keys) and not is_empty(value):
            others.append(value)
            continue
        if one.problem:
            raise ParseError(one.problem)
        weight = _weight(one, text, places)
        fitting.append(Object(value, weight if not quoted or (weight == STANDS and one.within < 0) else QUOTED))
    return Survey(tuple(fitting), tuple(others), objects.prose, fences, bool(quoted))


def _check_broken(objects: Objects, number: int, keys: Sequence[str], text: str) -> None:
    """Raises for braces that were to be the verdict: what is quoted in them is not the verdict."""
    around = objects.around(number).casefold()
    for key in keys:
        if key.casefold() in around:
            raise ParseError(f"the reply must hold a JSON object but the one with {key!r} is none: {quoted(text)}")


def is_empty(value: Mapping[str, Any]) -> bool:
    """Whether an object says by its status that there is nothing to score."""
    return str(value.get("status", "")).lower() in SAID_EMPTY


def with_keys(value: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Returns an object whose keys are spelt as asked for, whatever their case.

    Raises:
        ParseError: two of its keys differ in their case alone, and their values differ.

    Example:
        >>> with_keys({"Score": 4}, ["score"])
        {'score': 4}
    """
    spelt = {key.casefold(): key for key in keys}
    result: dict[str, Any] = {}
    for key, one in value.items():
        name = spelt.get(key.strip().casefold(), key)
        if name in result and not same(result[name], one):
            values = f"{shown(repr(result[name]))} and {shown(repr(one))}"
            raise ParseError(f"the reply must give {shown(name)} one value but gives {values}")
        result[name] = one
    return result


def _weight(one: Found, text: str, places: Places) -> int:
    """How much an object counts by the place where it stands."""
    weight = places.weight(one.begin)
    before, behind = text[max(0, one.begin - 1) : one.begin], text[one.end : one.end + 1]
    if weight == FENCED or before == behind == "`":
        return FENCED
    if before and {**PAIRS, "'": "'"}.get(before) == behind:  # the whole reply may be in quotes
        return QUOTED if (text[: one.begin - 1] + text[one.end + 1 :]).strip() else FENCED
    return weight
