"""Tables as text, CSV and JSON lines: each error has its line.

JSON lines are not read as rows of an evaluation are: a table ends at its first bad line and takes numbers as they are,
rows go on behind one and hold values of strict JSON.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from valor_gpu.checks import keys_once
from valor_gpu.errors import InputError
from valor_gpu.inputs._table import Format, Numbers, Table, cell_text, listed
from valor_gpu.inputs.csv_records import open_csv
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.text_lines import check_length, check_text, text_lines

_SHOWN = 40  # characters of a value in a message


# ---------------------------------------------------------------------------------------------------------------- CSV


def _csv_names(delimiters: str, file: InputFile) -> list[str]:
    with open_csv(file, delimiters, spaced=True) as table:
        return table.header


def _read_csv(delimiters: str, file: InputFile, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    cells: list[list[str]] = [[] for _ in texts]
    flat = [array("d") for _ in numbers]
    lines = array("q")
    with open_csv(file, delimiters, spaced=True) as table:
        header = table.header
        places = [header.index(name) for name in texts]
        groups = [[header.index(name) for name in group] for group in numbers]
        pick = [_picker(group) for group in groups]
        for line, row in table.records:
            if isinstance(row, str):
                raise InputError(row)
            lines.append(line)
            for column, place in zip(cells, places):
                column.append(row[place])
            for take, values, group in zip(pick, flat, groups):
                values.extend(_floats(take(row)) or _no_number(f"{file.name}, line {line}", header, row, group))
    matrices = tuple(_reshaped(values, len(lines), len(group)) for values, group in zip(flat, groups))
    return Table(file.name, tuple(cells), matrices, lines)


def _floats(cells: Sequence[str]) -> list[float] | None:
    """The numbers, or None where a cell is not one: float() alone would take 1_000 and the digits of every script."""
    try:
        found = list(map(float, cells))
    except ValueError:
        return None
    text = "".join(cells)
    return found if text.isascii() and "_" not in text else None


def _reshaped(values: array[float], rows: int, width: int) -> Numbers:
    flat = np.frombuffer(values, np.float64) if values else np.empty(0)
    return flat.reshape(rows, width)


def _picker(places: Sequence[int]) -> Callable[[list[str]], Sequence[str]]:
    if len(places) == 1:
        return lambda row: (row[places[0]],)
    return itemgetter(*places)


def _no_number(place: str, header: Sequence[str], row: list[str], group: Sequence[int]) -> list[float]:
    """Raises for the first cell of ``group`` that is not a number."""
    for column in group:
        if _floats((row[column],)) is None:
            raise InputError(
                f"{place}, column {header[column]!r} must hold a finite number but got {row[column][:_SHOWN]!r}"
            )
    return []


# --------------------------------------------------------------------------------------------------------- JSON lines


def _objects(file: InputFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of every line that is not blank."""
    with text_lines(file, "") as lines:
        for number, line in lines:
            if line.strip():
                yield number, _object(f"{file.name}, line {number}", line)


def _object(place: str, line: str) -> dict[str, Any]:
    check_length(place, len(line))
    check_text(place, line, 0)
    try:
        found = json.loads(line, object_pairs_hook=keys_once)
        if "\\u" in line:
            json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    except json.JSONDecodeError as error:
        raise InputError(f"{place}, character {error.colno}: {error.msg}") from None
    except UnicodeEncodeError:
        raise InputError(f"{place} must be text but has half of a surrogate pair") from None
    except ValueError as error:
        raise InputError(f"{place} must be flat JSON that can be read but: {error}") from None
    except RecursionError:
        raise InputError(f"{place} must be a flat object but is nested too deeply") from None
    if not isinstance(found, dict):
        raise InputError(f"{place} must be a JSON object but is {line.strip()[:_SHOWN]}")
    return found


def _json_names(file: InputFile) -> list[str]:
    first = next(_objects(file), None)
    if first is None:
        raise InputError(f"{file.name} must have a JSON object in each line but has no line")
    return list(first[1])


def _read_json_lines(file: InputFile, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    cells: list[list[str]] = [[] for _ in texts]
    flat = [array("d") for _ in numbers]
    widths: list[int] = [0 for _ in numbers]
    lines = array("q")
    for line, found in _objects(file):
        place = f"{file.name}, line {line}"
        for name in (*texts, *(name for group in numbers for name in group)):
            if name not in found:
                raise InputError(f"{place} must have {name!r} but has only {listed(list(found))}")
        for column, name in zip(cells, texts):
            column.append(_scalar(place, name, found[name]))
        for k, group in enumerate(numbers):
            values = [number for name in group for number in _cell_numbers(place, name, found[name])]
            if lines and len(values) != widths[k]:
                names = ", ".join(map(repr, group))
                raise InputError(f"{place}, {names} must hold {widths[k]} numbers as before but got {len(values)}")
            widths[k] = len(values)
            flat[k].extend(values)
        lines.append(line)
    matrices = tuple(_reshaped(values, len(lines), width) for values, width in zip(flat, widths))
    return Table(file.name, tuple(cells), matrices, lines)


def _scalar(place: str, name: str, value: Any) -> str:
    if isinstance(value, (list, dict)):
        raise InputError(f"{place}, {name!r} must be text or a number but got {json.dumps(value)[:_SHOWN]}")
    return cell_text(value)


def _cell_numbers(place: str, name: str, value: Any) -> Iterable[float]:
    """A number, or the numbers of a list."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            raise InputError(f"{place}, {name!r} must hold numbers but got {json.dumps(item)[:_SHOWN]}")
    try:
        return list(map(float, items))
    except OverflowError:
        raise InputError(f"{place}, {name!r} must hold finite numbers but got an integer beyond 1.8e308") from None


CSV = Format(partial(_csv_names, ""), partial(_read_csv, ""), is_text=True)
TSV = Format(partial(_csv_names, "\t"), partial(_read_csv, "\t"), is_text=True)
JSON_LINES = Format(_json_names, _read_json_lines, is_text=True)
