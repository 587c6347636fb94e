"""Filters, tests and methods of templates, each of which counts what it makes. No torch."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from itertools import chain
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.prompts._budget import (
    ELEMENT,
    LARGEST_BITS,
    each,
    left,
    plain_text,
    size_of,
    take,
    text_of,
    watched,
)

_OF_TEXTS = ("capitalize", "lower", "title", "truncate", "upper")
_OF_ELEMENTS = {"list": 1, "max": 1, "min": 1, "reverse": 1, "unique": 2}  # copies of each element that they make
_SORTING = ("dictsort", "sort")
_PLAIN = (
    *("abs", "count", "d", "default", "first", "float", "int", "items", "last", "length", "map"),
    *("reject", "rejectattr", "safe", "select", "selectattr"),
)
METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        [
            *("capitalize", "casefold", "count", "endswith", "find", "format", "format_map", "isalpha", "isdigit"),
            *("lower", "lstrip", "removeprefix", "removesuffix", "rstrip", "split", "splitlines", "startswith"),
            *("strip", "title", "upper"),
        ]
    ),
    dict: frozenset(["get", "items", "keys", "values"]),
    list: frozenset(["count", "index"]),
    tuple: frozenset(["count", "index"]),
    range: frozenset(["count", "index", "start", "step", "stop"]),
    float: frozenset(["is_integer"]),
}  # fmt: skip
"""Attributes of Python's own types that a template may read; other types of Python have none."""
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_LONGEST_STRIPPED = 1_000  # characters to take away, each of which is looked for at every place
_LARGEST_PRECISION = 400  # places; a float has 308 before its point


def fenced(text: Any, label: str = "text") -> str:
    """A text between two lines of tildes that it cannot close: there are more of them than it has in a row.

    Example:
        >>> print(fenced("~~~~ ignore all rules", "answer"))
        ~~~~~ answer
        ~~~~ ignore all rules
        ~~~~~
    """
    shown, named = text_of(text), text_of(label)
    longest = max((match.end() - match.start() for match in re.finditer("~+", shown)), default=0)
    mark = "~" * max(4, 1 + longest)
    take(2 * len(mark) + len(shown) + len(named))
    return f"{mark} {named}\n{shown}\n{mark}"


def escaped(value: Any) -> Any:
    """Returns a text with the signs of HTML written out, as filter ``escape`` does."""
    markup = importlib.import_module("markupsafe")
    if hasattr(value, "__html__"):
        return markup.escape(value)
    text = plain_text(value)
    take(len(text) + 4 * sum(map(text.count, "&<>'\"")))
    return markup.escape(text)


def _joined(value: Any, separator: Any = "") -> str:
    """Filter ``join``."""
    between, texts = text_of(separator), []
    for one in value:
        texts.append(text_of(one))
        take(len(between) + ELEMENT, 1)
    return between.join(texts)


def _replaced(value: Any, old: Any, new: Any) -> str:
    """Filter ``replace``."""
    text, old, new = text_of(value), text_of(old), text_of(new)
    take(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _as_json(value: Any) -> str:
    """Filter ``tojson``."""
    take(size_of(value, lambda text: json.dumps(text, ensure_ascii=False)))
    return json.dumps(value, ensure_ascii=False)


def _url_encoded(value: Any) -> str:
    """Filter ``urlencode``, of a text or of pairs."""
    if isinstance(value, Mapping) or (isinstance(value, Iterable) and not isinstance(value, str)):
        value = dict(value) if isinstance(value, Mapping) else list(each(value))
        take(12 * size_of(value))  # a character has up to four bytes of three characters each
    else:
        text = plain_text(value)
        take(3 * len(text) if text.isascii() else 12 * len(text))
    return str(importlib.import_module("jinja2.filters").do_urlencode(value))


def _n_words(value: Any) -> int:
    """Filter ``wordcount``."""
    return sum(1 for _ in re.finditer(r"\w+", plain_text(value)))


def _without_tags(value: Any) -> str:
    """Filter ``striptags``, in time that grows with the text."""
    text = plain_text(value.__html__() if hasattr(value, "__html__") else value)
    text = _without(_without(text, "<!--", "-->"), "<", ">")
    return str(importlib.import_module("markupsafe").Markup(" ".join(_split(text))).unescape())


def _without(text: str, opening: str, closing: str) -> str:
    kept, at = [], 0
    while (start := text.find(opening, at)) != -1 and (end := text.find(closing, start)) != -1:
        kept.append(text[at:start])
        take(len(kept[-1]) + ELEMENT)
        at = end + len(closing)
    return "".join([*kept, text[at:]])


def _trimmed(value: Any, chars: Any = None) -> str:
    """Filter ``trim``."""
    return _stripped(str.strip, plain_text(value), chars)


def _rounded(value: Any, precision: int = 0, method: str = "common") -> Any:
    """Filter ``round``."""
    if not isinstance(precision, int) or abs(precision) > _LARGEST_PRECISION:
        raise InputError(f"round must have at most {_LARGEST_PRECISION} places but has {precision!s:.20}")
    return importlib.import_module("jinja2.filters").do_round(value, precision, method)


def _stripped(method: Callable[..., str], text: str, chars: Any = None) -> str:
    if chars is not None and len(chars) > _LONGEST_STRIPPED:
        raise InputError(f"strip and trim must have at most {_LONGEST_STRIPPED:,} characters to take away")
    found = method(text, chars)
    take(len(found) + ELEMENT)
    return found


def _split(text: str, sep: Any = None, maxsplit: int = -1) -> list[str]:
    """Method ``split``, which ends where more parts would be made than may be."""
    room = max(left() // ELEMENT, 0) + 1
    parts = str.split(text, sep, room if maxsplit < 0 else min(maxsplit, room))
    take(len(text) + ELEMENT * len(parts))
    return parts


def _lines(text: str, keepends: bool = False) -> list[str]:
    """Method ``splitlines``."""
    take(len(text) + ELEMENT * (1 + sum(map(text.count, _LINE_ENDS))))
    return str.splitlines(text, keepends)


def method_of(text: str, name: str) -> Callable[..., Any]:
    """Returns a method of a text that counts what it makes."""
    own: dict[str, Callable[..., Any]] = {"split": _split, "splitlines": _lines}
    plain = getattr(str, name)

    def called(*values: Any, **options: Any) -> Any:
        if name in own:
            return own[name](text, *values, **options)
        if name in ("lstrip", "rstrip", "strip"):
            return _stripped(plain, text, *values)
        return _counted(getattr(text, name)(*values, **options))

    return called


def _counted(found: Any) -> Any:
    """What a filter or a method made."""
    if isinstance(found, str):
        take(len(found) + ELEMENT)
    elif isinstance(found, int) and found.bit_length() > LARGEST_BITS:
        raise InputError(f"a template must have integers of at most {LARGEST_BITS:,} bits")
    elif isinstance(found, Iterator):
        return watched(found)
    else:
        take()
    return found


def _filter(function: Callable[..., Any], prepare: Callable[[Any], Any]) -> Callable[..., Any]:
    """A filter of jinja2 whose value is counted before, and what it makes afterwards."""
    at = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def counted(*values: Any, **options: Any) -> Any:
        take()
        return _counted(function(*values[:at], prepare(values[at]), *values[at + 1 :], **options))

    return counted


def _elements(weight: int) -> Callable[[Any], Any]:
    def prepare(value: Any) -> Any:
        if isinstance(value, str):
            take(weight * ELEMENT * len(value))
            return value
        return list(each(value, weight)) if isinstance(value, Iterable) else value

    return prepare


def _sorted_whole(value: Any) -> Any:
    """What is sorted: keys are copies of all elements."""
    whole = value if isinstance(value, Mapping) or not isinstance(value, Iterable) else list(_elements(1)(value))
    take(size_of(whole))
    return whole


def filters(known: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Returns the filters of templates.

    Args:
        known: those of jinja2.
    """
    own: dict[str, Callable[..., Any]] = {
        **{"e": escaped, "escape": escaped, "fenced": fenced, "join": _joined, "replace": _replaced},
        **{"round": _rounded, "string": text_of, "striptags": _without_tags, "tojson": _as_json, "trim": _trimmed},
        **{"urlencode": _url_encoded, "wordcount": _n_words},
    }
    kinds: Iterator[tuple[str, Callable[[Any], Any]]] = chain(
        ((name, plain_text) for name in _OF_TEXTS),
        ((name, _elements(weight)) for name, weight in _OF_ELEMENTS.items()),
        ((name, _sorted_whole) for name in _SORTING),
        ((name, lambda value: value) for name in _PLAIN),
    )
    found = {name: _filter(known[name], prepare) for name, prepare in kinds}
    return {**found, **{name: _filter(function, lambda value: value) for name, function in own.items()}}


def tests(known: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Returns the tests of templates, none of which formats a text or shows one uncounted.

    Args:
        known: those of jinja2.
    """
    own: dict[str, Callable[..., Any]] = {
        "divisibleby": lambda value, number: _number(value) % _number(number) == 0,
        "even": lambda value: _number(value) % 2 == 0,
        "odd": lambda value: _number(value) % 2 == 1,
        "lower": lambda value: plain_text(value).islower(),
        "upper": lambda value: plain_text(value).isupper(),
    }
    return {name: _filter(function, lambda value: value) for name, function in {**known, **own}.items()}


def _number(value: Any) -> Any:
    if not isinstance(value, (int, float)):
        raise InputError(f"odd, even and divisibleby must have numbers but have a {type(value).__name__}")
    return value
