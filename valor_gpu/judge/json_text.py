"""JSON objects out of a judge's reply: wrapped in prose, fenced, or slightly broken. No torch.

A reply is hostile text: whoever wrote the judged row may have had a hand in it. Every function here reads it once, or
a fixed number of times, so that the work grows as the length does. Regular expressions begin with a fixed sign and
never look further ahead than they take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from valor_gpu.errors import ValorError

THOUGHTS = re.compile(r"<(/?)(?:think|thinking|thoughts?|reasoning)>", re.IGNORECASE)
"""Tags around what a model thinks before it replies."""
_FENCE_HEAD = re.compile(r"[\w-]*[ \t]*\n?")
# Of masked texts, where no quote is escaped; a string that is not closed goes on to the end, so none is read twice.
_SIGN = re.compile(r"""[{}\[\],]|"[^"]*"?|'[^']*'?|\b(?:True|False|None)\b""")
_BRACE = re.compile(r'[{}]|"[^"]*"?')
_BRACKET = re.compile(r'[{}\[\]]|"[^"]*"?')
_CLOSERS = {"{": "}", "[": "]"}
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_ESCAPED = re.compile(r"""\\.|["\n\t]""", re.DOTALL)
_LONGEST_NUMBER = 400  # characters; longer ones are no number that anybody means, and slow to convert
_DEEPEST = 100  # brackets within brackets; what reads a value later shall not run out of stack
_REREADS = 4  # times the length of a text that may be read in search of objects within broken ones
_REREAD_LEAST = 10_000  # characters that may be read so, however short the text
_READ_COST = 64  # characters that could be read in the time that it takes to begin


class ParseError(ValorError, ValueError):
    """A reply without a usable value."""


class _Contradiction(ParseError):
    """A reply that says two things."""


def parse_object(text: str) -> dict[str, Any]:
    """Returns the one JSON object of a reply.

    Accepted around it: prose, a code fence, ``<think>`` blocks. Mended in it: trailing commas, single quotes, Python's
    ``True``, ``False`` and ``None``, brackets that are not closed. NaN and Infinity are no JSON.

    Raises:
        ParseError: there is none, there are several that differ, or one key has several values that differ.

    Example:
        >>> parse_object('Sure: {"verdict": "yes", "score": 4,}')
        {'verdict': 'yes', 'score': 4}
    """
    bare = without_thoughts(text)
    for candidate in _candidates(bare):
        value = _loaded(candidate)
        if isinstance(value, dict):
            return value
    first: dict[str, Any] | None = None
    for one in _objects(bare):
        if first is not None and one != first:
            raise ParseError(f"the reply must hold one JSON object but has JSON objects that differ: {shown(text)}")
        first = one
    if first is None:
        raise ParseError(f"the reply must hold one JSON object but has no JSON object: {shown(text)}")
    return first


def without_thoughts(text: str) -> str:
    """Returns a text without its blocks of thoughts, ``<think>``, ``<thinking>``, ``<thought>``, ``<reasoning>``.

    A text that begins with a block that is not closed, since the reply was cut short, has nothing else.

    Example:
        >>> without_thoughts("<think>4?</think>5"), without_thoughts("<think>Score: 4, or rather")
        ('5', '')
    """
    kept, position, begin = [], 0, -1
    for match in THOUGHTS.finditer(text):
        if not match[1] and begin < 0:
            begin = match.start()
        elif match[1] and begin >= 0:
            kept.append(text[position:begin])
            position, begin = match.end(), -1
    if begin >= 0 and not "".join([*kept, text[position:begin]]).strip():
        return ""
    return "".join(kept) + text[position:]


def _candidates(text: str) -> Iterator[str]:
    """What may be the one object: what is fenced, else all, from the first brace on; as it is, then mended."""
    for piece in (*_fenced(text), text):
        begin, end = piece.find("{"), piece.rfind("}") + 1
        if begin < 0:
            continue
        whole = piece[begin:end] if end > begin else piece[begin:]
        yield whole
        rests = [piece[begin:], whole] if begin + len(whole) < len(piece) else [whole]
        yield from filter(None, map(_mended, rests))


def _fenced(text: str) -> list[str]:
    """What stands in the code fence of a text that has one; nothing where there are several, or none."""
    parts = text.split("```")
    if len(parts) not in (3, 4):  # before, in and behind a fence; a fourth part is after a fence that is not closed
        return []
    head = _FENCE_HEAD.match(parts[1])
    return [parts[1][head.end() if head else 0 :]]


def _loaded(text: str) -> Any:
    """The value of a JSON text; None when it is none."""
    if _too_deep(text):
        return None
    try:
        return _DECODER.decode(text)
    except _Contradiction:
        raise
    except (ValueError, RecursionError):
        return None


def _masked(text: str) -> str:
    """A text of the same length without backslashes that escape backslashes or quotes, and without these."""
    return text.replace("\\\\", "__").replace('\\"', "__").replace("\\'", "__")


def _too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= _DEEPEST:
        return False
    depth = 0
    for match in _BRACKET.finditer(_masked(text)):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match[0], 0)
        if depth > _DEEPEST:
            return True
    return False


def _no_number(text: str) -> Any:
    raise ValueError(f"{text[:20]} is no number of JSON")


def _integer(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_NUMBER else _no_number(text)


def _real(text: str) -> float:
    return float(text) if len(text) <= _LONGEST_NUMBER else _no_number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and result[key] != value:
            values = f"{shown(repr(result[key]))} and {shown(repr(value))}"
            raise _Contradiction(f"the reply must give {shown(key)} one value but gives {values}")
        result[key] = value
    return result


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_int=_integer, parse_float=_real, object_pairs_hook=_object)


def _mended(text: str) -> str | None:
    """JSON that was written like Python, with commas too many or closing brackets too few; None where it was not."""
    out: list[str] = []
    open_ones: list[str] = []
    position, comma = 0, -1  # where in ``out`` a comma stands that no other sign has followed
    for match in _SIGN.finditer(_masked(text)):
        between, sign = text[position : match.start()], text[match.start() : match.end()]
        if (out and not open_ones) or len(open_ones) > _DEEPEST:
            return None
        position = match.end()
        if comma >= 0 and sign in ("}", "]") and not between.strip():
            out[comma] = ""
        out.append(between)
        comma = len(out) if sign == "," else -1
        if sign in _CLOSERS:
            open_ones.append(_CLOSERS[sign])
        elif sign in ("}", "]") and open_ones.pop() != sign:
            return None
        out.append(_double_quoted(sign) if sign[0] == "'" else _PYTHON.get(sign, sign))
    return "".join(out) + text[position:] + "".join(reversed(open_ones))


def _double_quoted(text: str) -> str:
    """A text in single quotes as one of JSON; as it is when it is not closed."""
    if len(text) < 2 or text[-1] != "'":
        return text
    return '"' + _ESCAPED.sub(_json_escape, text[1:-1]) + '"'


def _json_escape(match: re.Match[str]) -> str:
    sign = match[0]
    if sign[0] != "\\":
        return {'"': '\\"', "\n": "\\n", "\t": "\\t"}[sign]
    return "'" if sign == "\\'" else sign


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Whole JSON objects, one after the other, and those within what is none.

    Raises:
        ParseError: what is none holds more braces than can be searched in a time that grows as the text does.
    """
    left, done = _REREADS * len(text) + _REREAD_LEAST, 0
    for begin, end in _pairs(text):
        if begin < done:
            continue
        left -= end - begin + _READ_COST
        if left < 0:
            raise ParseError(f"the reply must hold one JSON object but has too many braces: {shown(text)}")
        value = _loaded(text[begin:end])
        if isinstance(value, dict):
            done = end
            yield value


def _pairs(text: str) -> list[tuple[int, int]]:
    """Begin and end of every pair of braces, by begin. Quotes count within braces alone: prose has apostrophes."""
    masked, position = _masked(text), text.find("{")
    pairs: list[tuple[int, int]] = []
    open_ones: list[int] = []
    while position >= 0 and (match := _BRACE.search(masked, position)) is not None:
        position = match.end()
        if match[0] == "{":
            open_ones.append(match.start())
        elif match[0] == "}":
            pairs.append((open_ones.pop(), position))
            if not open_ones:
                position = masked.find("{", position)
    return sorted(pairs)


def shown(text: str) -> str:
    """Returns at most 80 characters of a text, for messages: what has no UTF-8 is shown as its escape.

    Example:
        >>> shown("x" * 90)[-6:]
        'xxx...'
    """
    short = text if len(text) <= 80 else text[:77] + "..."
    return short.encode(errors="backslashreplace").decode()
