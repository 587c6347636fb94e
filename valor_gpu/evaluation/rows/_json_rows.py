"""Rows of JSON lines: one object a line, blank lines left out.

``NaN``, which Python's ``json.dumps`` writes where a number is missing, is read as missing. ``Infinity`` and numbers
beyond float64 are no values of strict JSON: an error of their row, as is a key that an object has twice.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._source_rows import DEEPEST, SourceRow
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.text_lines import check_length, check_text, text_lines

_LIST = re.compile(r"\[\s*(?:\{|$)")
_VALUES = re.compile(r'"(?:[^"\\]|\\.)*"|-?[A-Za-z]+|-?[0-9][-+.0-9eE]*')
_BLANK = " \t\r\n"
_LONGEST_NUMBER = 400  # digits; longer ones are no number that anybody means, and slow to convert


def json_rows(file: InputFile) -> Iterator[SourceRow]:
    """Rows as they are read.

    Yields:
        a row for each line that is not blank; one that cannot be read has an error.

    Raises:
        InputError: the file is one list, or its first object goes over several lines.
    """
    with text_lines(file, "\n") as lines:
        number = 0
        for line, text in lines:
            bare = text.strip(_BLANK)
            if not bare:
                continue
            number += 1
            if number == 1 and _LIST.match(bare):
                raise InputError(
                    f"{file.name} must have one JSON object a line but is one JSON list: give the list itself,"
                    " json.load(file), or write its objects to lines, as jq -c '.[]' does"
                )
            if number == 1 and bare == "{":
                raise InputError(
                    f"{file.name} must have one JSON object a line but its first object goes on in the next line: write"
                    " each on a line of its own, as jq -c . does"
                )
            place = f"{file.name}, line {line}"
            try:
                yield SourceRow(number, _values(place, bare, text.index(bare[0])), line=line)
            except InputError as error:
                yield SourceRow(number, {}, str(error), line)


def _values(place: str, text: str, start: int) -> dict[str, Any]:
    """The object of a line; ``start`` is where its text begins, from 0."""
    check_length(place, len(text))
    check_text(place, text, start)
    try:
        value = _DECODER.decode(text)
        if text.count("[") + text.count("{") > DEEPEST:
            _check_depth(value)
    except json.JSONDecodeError as error:
        hint = ": end the line without the comma" if text[error.pos :] == "," and error.msg == "Extra data" else ""
        found = f"{error.msg.lower()} at column {start + error.colno}"
        raise InputError(f"{place} must be JSON but has {found}{hint}") from None
    except ValueError as error:
        at = _place(text, error.args[1:])
        column = f" at column {start + at}" if at else ""
        raise InputError(f"{place} must be JSON but {error.args[0]}{column}") from None
    except RecursionError:
        raise InputError(f"{place} must have at most {DEEPEST} levels of lists and objects but has more") from None
    if not isinstance(value, dict):
        raise InputError(f"{place} must be a JSON object but is {_KINDS[type(value)]}")
    return value


_KINDS = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}


def _check_depth(value: Any) -> None:
    """Goes down a level at a time, since a function that calls itself is what it is to prevent."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST + 1:  # the values of the innermost list are a level too
            raise RecursionError
        level = [
            each
            for outer in level
            if isinstance(outer, (dict, list))
            for each in (outer.values() if isinstance(outer, dict) else outer)
        ]


def _place(text: str, sought: tuple[str, ...]) -> int:
    """The column, from 1, where a value stands outside texts; 0 where none is sought."""
    return next((each.start() + 1 for each in _VALUES.finditer(text) if sought and each[0] == sought[0]), 0)


def _constant(text: str) -> None:
    if text != "NaN":
        raise ValueError(f"has {text}", text)


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"has a number of {len(text)} digits", text)
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"has the number {text[:40]}, which is beyond float64,", text)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"has the key {twice!r:.80} more than once")
    return result


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_int=_integer, parse_float=_real, object_pairs_hook=_object)
