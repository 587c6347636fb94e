"""Choices, such as ``pass`` or ``first``, out of a judge's reply. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.judge.json_text import ParseError, Survey, foremost, is_empty, quoted, shown, survey, verdict_parts
from valor_gpu.judge.lenient import PLACEHOLDER
from valor_gpu.judge.places import QUOTED, STANDS, Places
from valor_gpu.judge.prose import begins_line

_MARKS = r"[^\S\n]{0,8}[*_#\"'`()\[\].!]{0,8}[^\S\n]{0,8}"
_LABELS = (
    "score",
    "rating",
    "verdict",
    "result",
    "decision",
    "grade",
    "conclusion",
    "assessment",
    "judgment",
    "judgement",
)
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


def read_choice(text: str, key: str, names: Sequence[str], labels: Sequence[str] = _LABELS) -> Choice:
    """Reads one of several names: under a key of a JSON object, behind a label, or as the whole reply.

    Args:
        text: the reply.
        key: of the object.
        names: what may be chosen, in upper or lower case.
        labels: words beside the key by which prose names a choice, ``verdict: first``.

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
    said = _Words(key, names, labels)
    found = [_Said(whole, STANDS)] if whole is not None else _choices(parts.verdict, key, names, said)
    others = [one for before in parts.before for one in _choices(before, key, names, said)]
    given = foremost(found)
    if not given:
        raise ParseError(f"{key} must be {', '.join(names)} but is {shown(repr(text))}")
    if any(one.value != given[0].value for one in (*found, *others)):
        raise ParseError(f"the reply must hold one {key} but holds several: {quoted(text)}")
    return Choice(given[0].value, next((one.reason for one in given if one.reason), ""))


def _choices(text: str, key: str, names: Sequence[str], said: _Words) -> list[_Said]:
    """The choices of the objects of a text, then those of the text around them."""
    held = survey(text, (key,), ("reason",))
    found = _in_objects(held, key, names)
    found += [_Said(name, QUOTED) for one in held.others for name in said.in_object(one)]
    places = Places(held.prose, held.fences)
    for name, begin, gives in said.in_prose(held.prose):
        weight = places.weight(begin)
        found.append(_Said(name, weight if gives and not held.broken else QUOTED))
    return found


def _in_objects(held: Survey, key: str, names: Sequence[str]) -> list[_Said]:
    found = []
    for one in held.objects:
        value, reason = one.value.get(key), one.value.get("reason")
        name = None if value is None and is_empty(one.value) else _named(value, names)
        if name is None and not (value is None and is_empty(one.value)):
            raise ParseError(f"{key} must be {', '.join(names)} but is {shown(repr(value))}")
        found.append(_Said(name, one.weight, reason if isinstance(reason, str) else ""))
    return found


def _named(said: object, names: Sequence[str]) -> str | None:
    """The name that a text is, whatever its case and the marks around it."""
    text = said if isinstance(said, str) else str(said) if isinstance(said, (int, float)) else ""
    bare = {text.strip().casefold(), text.strip(_AROUND).casefold()}
    return next((name for name in names if name.casefold() in bare), None)


class _Words:
    """The ways in which words name a choice. Every quantifier is bounded.

    Args:
        key: the key of the choice in an object, which is a label, too.
        names: what may be chosen.
        labels: words before a choice.
    """

    def __init__(self, key: str, names: Sequence[str], labels: Sequence[str]) -> None:
        self._names = {name.casefold(): name for name in reversed(names)}
        self._labels = tuple(dict.fromkeys(label.casefold() for label in (key, *labels)))
        name = rf"({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})(?!\w|[.,/-]\d)"
        self._any = self._compiled(rf"(?<!\w){name}")
        label = rf"(?<![^\W_])(?:{'|'.join(map(re.escape, self._labels))})(?![^\W_])"
        scale = r"(?:\s{0,4}(?:\([^()\n]{1,80}\)|\[[^\[\]\n]{1,80}\]))?"
        between = rf"{scale}[\s*_\"'`]{{0,8}}(?:[:=\uff1a>|]|\bis\b:?|[-\u2013\u2014](?=\s))[\s*_\"'`(\[<]{{0,8}}"
        self._label = self._compiled(rf"{label}{between}(?:the\s)?{name}")
        self._line = self._compiled(rf"^{_MARKS}{name}{_MARKS}$")
        self._first = self._compiled(rf"\A\s*[*_]{{0,4}}{name}[*_]{{0,4}}[^\S\n]{{0,4}}[:.\u2013\u2014-][*_]{{0,4}}\s")
        self._picked = self._compiled(
            rf"\b(?:I|we)(?:['\u2019](?:d|ll))?(?:\s(?:would|will))?\s(?:choose|pick|prefer|select|say|vote\sfor)"
            rf"\s{{1,4}}(?:the\s)?[*_\"'`]{{0,4}}{name}"
        )
        self._better = self._compiled(rf"\bthe\s{name}\s(?:\w{{1,20}}\s)?is\s(?:\w{{1,20}}\s)?better\b")

    @staticmethod
    def _compiled(pattern: str) -> re.Pattern[str]:
        return re.compile(pattern, re.IGNORECASE | re.MULTILINE)

    def in_prose(self, text: str) -> list[tuple[str, int, bool]]:
        """Names, where they stand, and whether they can be the verdict: behind a label that begins a line, alone there.

        The first line can be the verdict without a label, and so can the word before its first sign.
        """
        first = len(text) - len(text.lstrip())
        text = text.replace(PLACEHOLDER, "\n")
        found = [(match, self._gives(text, match)) for match in self._label.finditer(text)]
        found += [(match, match.start() <= first) for match in self._line.finditer(text)]
        found += [(match, True) for match in self._first.finditer(text, 0, first + 80) if self._is_only(text, match)]
        found += [(match, False) for pattern in (self._picked, self._better) for match in pattern.finditer(text)]
        named = [(self._names.get(match[1].casefold()), match.start(1), gives) for match, gives in found]
        return sorted(
            ((name, begin, gives) for name, begin, gives in named if name is not None), key=lambda one: one[1]
        )

    def _is_only(self, text: str, match: re.Match[str]) -> bool:
        """Whether a text has no other name than that of ``match``."""
        return {self._names.get(one[1].casefold()) for one in self._any.finditer(text)} == {
            self._names.get(match[1].casefold())
        }

    def _gives(self, text: str, match: re.Match[str]) -> bool:
        """Whether a label begins its line, in which no other name follows: that would be the list of them."""
        behind = text[match.end() : match.end() + 80].partition("\n")[0]
        others = (self._names.get(other[1].casefold()) for other in self._any.finditer(behind))
        return begins_line(text, match) and {*others} <= {self._names.get(match[1].casefold())}

    def in_object(self, value: Any) -> Iterator[str]:
        """Names in an object of another form, under a key that is a label or has it as a part."""
        if isinstance(value, list):
            for one in value:
                yield from self.in_object(one)
        if not isinstance(value, Mapping):
            return
        for key, one in value.items():
            if isinstance(one, (list, Mapping)):
                yield from self.in_object(one)
            elif any(label in key.casefold() for label in self._labels):
                name = _named(one, tuple(self._names.values()))
                yield from () if name is None else (name,)
