"""Rows of csv files as Excel, pandas and RFC 4180 write them. Every cell is a text; an empty one is missing.

Own code and not the module csv, because of bad files: there, a quote that nobody closes takes the rest of the file into
one cell, and the longest cell is a setting of the whole process.

A row whose quotes are wrong costs its first line: reading goes on with the next one. No line is read more than three
times for that: a line that opens a cell has an odd run of quotes, and such a run closes, or breaks, an open cell.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import chain

from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._source_rows import SourceRow
from valor_gpu.evaluation.rows._text_lines import check_length, check_text, text_lines
from valor_gpu.inputs.files import InputFile

MOST_COLUMNS = 100_000
_QUOTE = '"'
_SAID = re.compile('sep=([^"])', re.IGNORECASE)
_ENDS = ("", "\n", "\r", "\r\n")
_DELIMITERS = (",", "\t", ";", "|")  # the first one that the header has


class _BadQuotes(InputError):
    """Quotes that make no cell."""


class _Lines:
    """Numbered lines that can be put back."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self._back: deque[tuple[int, str]] = deque()

    def next(self) -> tuple[int, str] | None:
        return self._back.popleft() if self._back else next(self._lines, None)

    def put_back(self, lines: list[tuple[int, str]]) -> None:
        self._back.extendleft(reversed(lines))


def csv_columns(file: InputFile) -> tuple[str, ...]:
    """The names in the header.

    Raises:
        InputError: there is no header, or two columns have one name.
    """
    with text_lines(file, "") as lines:
        return _header(file.name, _Lines(lines))[1]


def csv_rows(file: InputFile) -> Iterator[SourceRow]:
    """Rows as they are read. A blank line is no row.

    Yields:
        a row for each record; one that cannot be read has an error.
    """
    with text_lines(file, "") as numbered:
        lines = _Lines(numbered)
        delimiter, columns = _header(file.name, lines)
        number = 0
        while (first := _next_not_blank(lines)) is not None:
            number += 1
            place = f"{file.name}, line {first[0]}"
            try:
                cells = _record(place, lines, first, delimiter)
                yield SourceRow(number, _values(place, columns, cells), line=first[0])
            except InputError as error:
                yield SourceRow(number, {}, str(error), first[0])


def _header(name: str, lines: _Lines) -> tuple[str, tuple[str, ...]]:
    """Delimiter and names of columns. Excel may say the delimiter in a first line of its own: ``sep=;``."""
    first = _next_not_blank(lines)
    said = _SAID.fullmatch(first[1].rstrip("\r\n")) if first else None
    if said:
        first = _next_not_blank(lines)
    if first is None:
        raise InputError(f"{name} must have a line with the names of its columns but is empty")
    place = f"{name}, line {first[0]}"
    delimiter = said[1] if said else _delimiter(first[1])
    if first[1].count(delimiter) >= MOST_COLUMNS:  # a line of commas makes a hundred times its bytes in names
        raise InputError(
            f"{place} must name at most {MOST_COLUMNS:,} columns but has {first[1].count(delimiter) + 1:,}"
        )
    cells = _record(place, lines, first, delimiter)
    _check_texts(place, [f"column {number}" for number in range(1, len(cells) + 1)], cells)
    return delimiter, _names(place, cells)


def _next_not_blank(lines: _Lines) -> tuple[int, str] | None:
    while (line := lines.next()) is not None:
        if line[1].strip("\r\n"):
            return line
    return None


def _delimiter(header: str) -> str:
    bare = "".join(header.split(_QUOTE)[::2])
    return next((each for each in _DELIMITERS if each in bare), ",")


def _names(place: str, cells: list[str]) -> tuple[str, ...]:
    twice = [name for name, count in Counter(cells).items() if count > 1 and name]
    if twice:
        raise InputError(f"{place} must name every column once but has {', '.join(map(repr, twice))} more than once")
    # pandas names its index nothing; such a column has the name that pandas gives it when it reads it again
    names = [name or f"Unnamed: {index}" for index, name in enumerate(cells)]
    return _names(place, names) if names != cells else tuple(names)


def _values(place: str, columns: tuple[str, ...], cells: list[str]) -> dict[str, str | None]:
    if len(cells) != len(columns):
        n = min(len(cells), len(columns))
        first = f"column {n + 1}, {columns[n]!r:.80}, is missing" if n < len(columns) else f"column {n + 1} has no name"
        if len(cells) == len(columns) + 1 and not cells[-1]:
            first += "; if all rows end in a delimiter, let the header end in one, too"
        raise InputError(f"{place} must have {len(columns)} cells, as the header has, but has {len(cells)}: {first}")
    _check_texts(place, [f"column {name!r:.80}" for name in columns], cells)
    return {name: cell or None for name, cell in zip(columns, cells)}


def _check_texts(place: str, columns: Sequence[str], cells: list[str]) -> None:
    """Raises for the first cell that has bytes of another encoding, by what its column is called."""
    if not "".join(cells).isascii():
        for name, cell in zip(columns, cells):
            check_text(f"{place}, {name}", cell)


def _record(place: str, lines: _Lines, first: tuple[int, str], delimiter: str) -> list[str]:
    """The cells of the record that begins with a line; where its quotes are wrong, its other lines are put back."""
    if _QUOTE not in first[1]:
        check_length(place, len(first[1]))
        return first[1].rstrip("\r\n").split(delimiter)
    others: list[tuple[int, str]] = []
    try:
        return _quoted_record(place, chain([first], _taken(lines, others)), delimiter)
    except InputError:
        lines.put_back(others)
        raise


def _taken(lines: _Lines, taken: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    while (line := lines.next()) is not None:
        taken.append(line)
        yield line


def _quoted_record(place: str, lines: Iterator[tuple[int, str]], delimiter: str) -> list[str]:
    cells: list[str] = []
    length, open_cell = 0, None
    for number, line in lines:
        length += len(line)
        check_length(place, length)
        try:
            open_cell = _split(line, delimiter, cells, open_cell)
        except _BadQuotes as error:
            raise InputError(
                f"{place} must close its quotes but column {len(cells)}, in line {number}, {error}"
            ) from None
        if open_cell is None:
            return cells
    raise InputError(
        f"{place} must close its quotes but the quote of column {len(cells) + 1} is open at the end of the file"
    )


def _split(line: str, delimiter: str, cells: list[str], open_cell: list[str] | None) -> list[str] | None:
    """Adds the cells of a line to ``cells``; returns the parts of the one that goes on in the next line, or None."""
    position = 0
    while True:
        if open_cell is None:
            if not line.startswith(_QUOTE, position):
                end = line.find(delimiter, position)
                if end < 0:
                    cells.append(line[position:].rstrip("\r\n"))
                    return None
                cells.append(line[position:end])
                position = end + 1
                continue
            open_cell, position = [], position + 1
        end = line.find(_QUOTE, position)
        if end < 0:
            open_cell.append(line[position:])
            return open_cell
        open_cell.append(line[position:end])
        position = end + 1
        if line.startswith(_QUOTE, position):  # a quote inside the cell is written twice
            open_cell.append(_QUOTE)
            position += 1
            continue
        cells.append("".join(open_cell))
        open_cell = None
        if line[position : position + 2] in _ENDS:
            return None
        if not line.startswith(delimiter, position):
            raise _BadQuotes(f"has {line[position]!r} behind a closing quote")
        position += 1
