"""Choices, such as ``pass`` or ``first``, out of a judge's reply. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from valor_gpu.judge.json_text import ParseError, foremost, is_empty, quoted, shown, survey, verdict_parts
from valor_gpu.judge.lenient import PLACEHOLDER
from valor_gpu.judge.places import STANDS

_AROUND = " \t\r\n\"'`*_.!#"


@dataclass(frozen=True)
class Choice:
    """A choice of a judge and its reason.

    Attributes:
        value: one of those asked for; None where the judge says that there is nothing to choose.
        reason: what the judge wrote for it, often empty.
    """

    value: str | None
    reason: str = ""


@dataclass(frozen=True)
class _Said:
    value: str | None
    weight: int
    reason: str = ""


def read_choice(text: str, key: str, names: Sequence[str], labels: Sequence[str] = ("score", "rating")) -> Choice:
    """Reads one of several names: under a key of a JSON object, or as the whole reply.

    Args:
        text: the reply.
        key: of the object.
        names: what may be chosen, in upper or lower case.
        labels: words by which prose names a choice, ``verdict: first``; such a choice can contradict one, not give it.

    Raises:
        ParseError: none, something else, or several that differ.

    Example:
        >>> read_choice('{"reason": "It is complete.", "verdict": "First"}', "verdict", ["first", "second"])
        Choice(value='first', reason='It is complete.')
    """
    if not isinstance(text, str):
        raise ParseError(f"the reply must be text but is {type(text).__name__}")
    parts = verdict_parts(text)
    whole = _named(parts.verdict, names)
    found, prose = ([_Said(whole, STANDS)], "") if whole is not None else _in_objects(parts.verdict, key, names)
    others = [_in_objects(said, key, names) for said in parts.before]
    given = foremost(found)
    if not given:
        raise ParseError(f"{key} must be {', '.join(names)} but is {shown(repr(text))}")
    said = {one.value for kind in (found, *(objects for objects, _ in others)) for one in kind}
    said.update(name for text in (prose, *(words for _, words in others)) for name in _labelled(text, names, labels))
    if said != {given[0].value}:
        raise ParseError(f"the reply must hold one {key} but holds several: {quoted(text)}")
    return Choice(given[0].value, next((one.reason for one in given if one.reason), ""))


def _in_objects(text: str, key: str, names: Sequence[str]) -> tuple[list[_Said], str]:
    """The choices of the objects of a text, and the text around them."""
    held = survey(text, (key,), ("reason",))
    found = []
    for one in held.objects:
        value, reason = one.value.get(key), one.value.get("reason")
        name = None if value is None and is_empty(one.value) else _named(value, names)
        if name is None and not (value is None and is_empty(one.value)):
            raise ParseError(f"{key} must be {', '.join(names)} but is {shown(repr(value))}")
        found.append(_Said(name, one.weight, reason if isinstance(reason, str) else ""))
    return found, held.prose


def _named(said: object, names: Sequence[str]) -> str | None:
    """The name that a text is, whatever its case and the marks around it."""
    text = said if isinstance(said, str) else str(said) if isinstance(said, (int, float)) else ""
    bare = {text.strip().casefold(), text.strip(_AROUND).casefold()}
    return next((name for name in names if name.casefold() in bare), None)


def _labelled(text: str, names: Sequence[str], labels: Sequence[str]) -> Iterator[str]:
    """Names that a text gives behind a label."""
    label = rf"\b(?:{'|'.join(map(re.escape, labels))})\b[\s*_\"'`]{{0,8}}(?::|=|\bis\b)[\s*_\"'`]{{0,8}}"
    pattern = re.compile(rf"{label}({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})\b", re.IGNORECASE)
    for match in pattern.finditer(text.replace(PLACEHOLDER, "\n")):
        yield next(name for name in names if name.casefold() == match[1].casefold())
