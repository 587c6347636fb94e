"""JSON objects of a text, where they begin and end, as people and models write them. No torch.

Mended: control characters in texts, single and curly quotes, a stray backslash, a comma too many at the end, Python's
``True``, ``False`` and ``None``, brackets that are not closed. NaN and Infinity are no JSON.

A reply is hostile text: whoever wrote the judged row may have had a hand in it. A text is read once, and what is no
object again a fixed number of times, so that the work grows as the length does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.errors import ValorError

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,399})(\.\d{1,399})?([eE][-+]?\d{1,9})?(?![\w.+-])", re.ASCII)
_WORD = re.compile(r"(?:[Tt]rue|[Ff]alse|null|None)\b")
_END = re.compile(r"\s*(?:```|~~~|\Z)")
# A text up to the mark that ends it. No sign fits two of the parts, so that a text without an end is given up once.
_DOUBLE = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SINGLE = re.compile(r"[^'\\]*(?:\\.[^'\\]*)*'", re.DOTALL)
_CURLY = re.compile("[^\u201c\u201d\\\\]*(?:\\\\.[^\u201c\u201d\\\\]*)*[\u201c\u201d]", re.DOTALL)
_CURLY_SINGLE = re.compile("[^\u2018\u2019\\\\]*(?:\\\\.[^\u2018\u2019\\\\]*)*[\u2018\u2019]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BRACE = re.compile("[{}]")
_FENCE = re.compile(r"`{3,}|~{3,}")
_QUOTED = re.compile("[\"\u201c\u201d]|(?<![^\\W\\d_])['\u2018\u2019]|['\u2018\u2019](?![^\\W\\d_])")

_MARKS = "\"'\u201c\u201d\u2018"
"""What may begin a text."""
_PLAIN = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_BEGINNING = frozenset("tTfFnN-0123456789")  # of words and numbers
_ENDING = frozenset(("", "`", "~"))  # of a text, or of a code fence
_DEEPEST = 100  # brackets within brackets; what reads a value later shall not run out of stack
_REREADS = 4  # times the length of a text that may be read in search of objects within broken ones
_REREAD_LEAST = 10_000  # characters that may be read so, however short the text
_READ_COST = 64  # characters that could be read in the time that it takes to begin
PLACEHOLDER = "\x00"
"""What stands for each character of an object in :attr:`Objects.prose`."""


class ParseError(ValorError, ValueError):
    """A reply without a usable value."""


class _Broken(Exception):
    """What was begun is no JSON."""


@dataclass(frozen=True)
class Found:
    """An object of a text.

    Attributes:
        begin, end: where it stands.
        value: the object.
        problem: why it says two things; empty when it does not.
        closed: whether its last bracket is there.
        texts: where the texts in it begin and end.
        within: number of the broken braces around it; -1: it stands by itself.
    """

    begin: int
    end: int
    value: dict[str, Any]
    problem: str
    closed: bool
    texts: tuple[tuple[int, int], ...]
    within: int = -1


@dataclass(frozen=True)
class Objects:
    """The objects of a text and what is around them.

    Attributes:
        found: objects in their order; none is within another.
        prose: the text, of the same length, with :data:`PLACEHOLDER` for the objects.
        broken: where braces that make no object begin and end, the outermost ones.
    """

    found: tuple[Found, ...]
    prose: str
    broken: tuple[tuple[int, int], ...]

    def around(self, number: int) -> str:
        """What stands within broken braces beside the objects in them."""
        begin, end = self.broken[number]
        return self.prose[begin:end]


def has_quotes(text: str) -> bool:
    """Whether a text has quotation marks; an apostrophe between letters is none.

    Example:
        >>> has_quotes("it's"), has_quotes("'it'")
        (False, True)
    """
    return _QUOTED.search(text) is not None


def find_objects(text: str) -> Objects:
    """Finds the JSON objects of a text.

    Raises:
        ParseError: it holds more braces than can be searched in a time that grows as the text does.

    Example:
        >>> [one.value for one in find_objects("So: {'score': 4,} or {score}").found]
        [{'score': 4}]
    """
    left, position = _REREADS * len(text) + _REREAD_LEAST, text.find("{")
    found: list[Found] = []
    while position >= 0:
        reader = _Reader(text, position)
        one = reader.found()
        left -= reader.furthest - position + _READ_COST * (1 if one is not None else reader.begun)
        if left < 0:
            raise ParseError(f"the reply must hold one JSON object but has too many braces: {quoted(text)}")
        if one is not None:
            found.append(one)
        position = text.find("{", one.end if one is not None else position + 1)
    prose = _without(text, found)
    broken = _outermost(prose)
    return Objects(tuple(_placed(found, broken)), prose, tuple(broken))


def _without(text: str, found: list[Found]) -> str:
    kept, position = [], 0
    for one in found:
        kept += [text[position : one.begin], PLACEHOLDER * (one.end - one.begin)]
        position = one.end
    return "".join(kept) + text[position:]


def _outermost(prose: str) -> list[tuple[int, int]]:
    """Where braces begin and end that are in no others; those that are not closed end with the text."""
    pairs: list[tuple[int, int]] = []
    open_ones: list[int] = []
    for match in _BRACE.finditer(prose):
        if match[0] == "{":
            open_ones.append(match.start())
        elif open_ones:
            begin = open_ones.pop()
            if not open_ones:
                pairs.append((begin, match.end()))
    return [*pairs, (open_ones[0], len(prose))] if open_ones else pairs


def _placed(found: list[Found], broken: list[tuple[int, int]]) -> list[Found]:
    """The objects with the broken braces that they are within."""
    placed, number = [], 0
    for one in found:
        while number < len(broken) and broken[number][1] <= one.begin:
            number += 1
        within = number if number < len(broken) and broken[number][0] < one.begin else -1
        placed.append(Found(one.begin, one.end, one.value, one.problem, one.closed, one.texts, within))
    return placed


def find_fences(prose: str) -> list[tuple[int, int]]:
    """Finds where code fences begin and end; the last one ends with the text when it is not closed.

    Args:
        prose: of :class:`Objects`, since signs in a text of JSON are no fence.

    Example:
        >>> find_fences("a ```b``` c")
        [(2, 9)]
    """
    fences: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(prose):
        if opening is None:
            opening = match
        elif match[0][0] == opening[0][0]:
            fences.append((opening.start(), match.end()))
            opening = None
    return fences if opening is None else [*fences, (opening.start(), len(prose))]


@dataclass
class _Reader:
    """Reads one object from its brace on."""

    text: str
    position: int
    furthest: int = 0
    depth: int = 0
    begun: int = 0  # brackets that were opened
    ended: bool = False  # brackets are open and nothing follows
    problem: str = ""
    texts: list[tuple[int, int]] = field(default_factory=list)

    def found(self) -> Found | None:
        """The object; None when there is none."""
        begin = self.position
        try:
            value = self._object()
        except _Broken:
            return None
        finally:
            self.furthest = max(self.furthest, self.position)
        return Found(begin, self.position, value, self.problem, not self.ended, tuple(self.texts))

    def _sign(self) -> str:
        """The next sign that is no space, which is not taken; empty at the end."""
        match = _SPACE.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return self.text[self.position : self.position + 1]

    def _deeper(self) -> None:
        self.position += 1
        self.depth += 1
        self.begun += 1
        if self.depth > _DEEPEST:
            raise _Broken

    def _more(self, closing: str) -> bool:
        """Whether another item follows the one that was read; takes the comma or the bracket."""
        if self.ended:
            return False
        if (sign := self._sign()) == ",":
            self.position += 1
            sign = self._sign()
            if sign != closing:
                return True
        if sign == closing:
            self.position += 1
            return False
        if sign not in _ENDING or _END.match(self.text, self.position) is None:
            raise _Broken
        self.ended = True
        return False

    def _object(self) -> dict[str, Any]:
        self._deeper()
        result: dict[str, Any] = {}
        more = self._sign() != "}"
        self.position += not more
        while more:
            key = self._text(self._sign())
            if self._sign() != ":":
                raise _Broken
            self.position += 1
            value = self._value()
            if key in result and not same(result[key], value) and not self.problem:
                values = f"{shown(repr(result[key]))} and {shown(repr(value))}"
                self.problem = f"the reply must give {shown(key)} one value but gives {values}"
            result[key] = value
            more = self._more("}")
        self.depth -= 1
        return result

    def _list(self) -> list[Any]:
        self._deeper()
        result: list[Any] = []
        more = self._sign() != "]"
        self.position += not more
        while more:
            result.append(self._value())
            more = self._more("]")
        self.depth -= 1
        return result

    def _value(self) -> Any:
        sign = self._sign()
        if sign == "{":
            return self._object()
        if sign == "[":
            return self._list()
        if sign and sign in _MARKS:
            return self._text(sign)
        pattern = _WORD if sign.isalpha() else _NUMBER
        match = pattern.match(self.text, self.position) if sign in _BEGINNING else None
        if match is None:
            raise _Broken
        self.position = match.end()
        if sign.isalpha():
            return _WORDS[match[0].lower()]
        return float(match[0]) if match[1] or match[2] else int(match[0])

    def _text(self, sign: str) -> str:
        """A text in quotes; escapes that JSON does not know stand for themselves."""
        if not sign or sign not in _MARKS:
            raise _Broken
        pattern = {'"': _DOUBLE, "'": _SINGLE, "\u2018": _CURLY_SINGLE}.get(sign, _CURLY)
        begin = self.position + 1
        match = pattern.match(self.text, begin)
        if match is None:
            self.furthest = len(self.text)
            raise _Broken
        self.position = match.end()
        self.texts.append((begin, match.end() - 1))
        raw = match[0][:-1]
        return _PAIR.sub(_joined, _ESCAPE.sub(_unescaped, raw)) if "\\" in raw else raw


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    sign = match[2]
    return _PLAIN.get(sign) or (sign if sign in "\"\\/'\u2018\u2019\u201c\u201d" else match[0])


def _joined(match: re.Match[str]) -> str:
    """Two surrogates as the character that they are."""
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


def same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are equal; ``true`` is not 1.

    Example:
        >>> same(1, 1.0), same([True], [1])
        (True, False)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def shown(text: str) -> str:
    """Returns at most 80 characters of a text, for messages: what has no UTF-8 is shown as its escape.

    Example:
        >>> shown("x" * 90)[-6:]
        'xxx...'
    """
    short = text if len(text) <= 80 else text[:77] + "..."
    return short.encode(errors="backslashreplace").decode()


def quoted(text: str) -> str:
    """Returns at most 80 characters of a reply, in quotes by which counts of errors know what belongs to one row.

    Example:
        >>> quoted("It depends."), quoted("")
        ('“It depends.”', 'empty')
    """
    if not text.strip():
        return "empty"
    return f"\u201c{shown(text).translate(_STRAIGHT)}\u201d"


_STRAIGHT = str.maketrans("\u201c\u201d", '""')
