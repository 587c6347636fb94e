"""Tables as text, CSV and JSON lines: each error has its line."""

from __future__ import annotations

import csv
import io
import itertools
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.inputs._table import Format, Numbers, Table, cell_text, listed
from valor_gpu.inputs.files import InputFile

_SHOWN = 40  # characters of a value in a message


@contextmanager
def _lines(file: InputFile, newline: str | None) -> Iterator[io.TextIOWrapper]:
    """The text of a file; bytes that are not UTF-8 are an error with their line."""
    try:
        with file.open() as stream, io.TextIOWrapper(stream, "utf-8-sig", newline=newline) as text:
            yield text
    except UnicodeDecodeError as error:
        raise InputError(f"{file.name}: line {_undecodable_line(file)} must be UTF-8 but: {error.reason}") from None


def _undecodable_line(file: InputFile) -> int:
    data = file.read()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return len(data[: error.start + 1].splitlines())
    return 0  # not reached: the same bytes could not be decoded before


# ---------------------------------------------------------------------------------------------------------------- CSV


def _csv_rows(file: InputFile, separators: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of every row that is not empty; the first is the header, wherever it is.

    Args:
        file: to read.
        separators: the first of these that the first line has is the separator, none: the first.
    """
    with _lines(file, "") as text:
        first = text.readline()
        separator = next((s for s in separators if s in first), separators[0])
        lines = itertools.chain([first], text) if first else text
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != "\t", strict=True)
        end = 0
        try:
            for row in reader:
                line, end = end + 1, reader.line_num
                if row or line == 1:
                    yield line, row
        except csv.Error as error:
            raise InputError(f"{file.name}: line {reader.line_num} must be CSV but: {error}") from None


def _csv_names(separators: str, file: InputFile) -> list[str]:
    rows = _csv_rows(file, separators)
    try:
        _, header = next(rows, (1, []))
    finally:
        rows.close()  # type: ignore[attr-defined]
    if not header:
        raise InputError(f"{file.name} must have the names of its columns in the first line but that is empty")
    return header


def _read_csv(separators: str, file: InputFile, texts: Sequence[str], numbers: Sequence[Sequence[str]]) -> Table:
    rows = _csv_rows(file, separators)
    _, header = next(rows)
    places = [header.index(name) for name in texts]
    groups = [[header.index(name) for name in group] for group in numbers]
    pick = [_picker(group) for group in groups]
    cells: list[list[str]] = [[] for _ in texts]
    flat = [array("d") for _ in groups]
    lines = array("q")
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{file.name}: line {line} must have {len(header)} cells but has {len(row)}")
        lines.append(line)
        for column, place in zip(cells, places):
            column.append(row[place])
        for take, values, group in zip(pick, flat, groups):
            values.extend(_floats(take(row)) or _no_number(f"{file.name}: line {line}", header, row, group))
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
    with _lines(file, None) as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, _object(f"{file.name}: line {number}", line)


def _object(place: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if "\\u" in line:
            json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    except json.JSONDecodeError as error:
        raise InputError(f"{place}, character {error.colno}: {error.msg}") from None
    except UnicodeEncodeError:
        raise InputError(f"{place} must be text but has half of a surrogate pair") from None
    except ValueError as error:
        raise InputError(f"{place} must hold numbers that fit but: {error}") from None
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
        place = f"{file.name}: line {line}"
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


CSV = Format(partial(_csv_names, ",\t;|"), partial(_read_csv, ",\t;|"), is_text=True)
TSV = Format(partial(_csv_names, "\t"), partial(_read_csv, "\t"), is_text=True)
JSON_LINES = Format(_json_names, _read_json_lines, is_text=True)
