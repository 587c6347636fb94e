"""Records of csv files as Excel, pandas and RFC 4180 write them: the one reader of csv files.

A record whose quotes are wrong costs its first line: reading goes on with the next one. The module csv alone would take
the rest of a file into one cell where nobody closes a quote, and its longest cell is a setting of the whole process. So
it only splits single lines, where it is fast; what it rejects or does not finish is read by code of this module.

No line is read more than three times by that code: a line that opens a cell has an odd run of quotes, and such a run
closes, or breaks, an open cell.
"""

from __future__ import annotations

import csv
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from typing import NamedTuple

from valor_gpu.errors import InputError
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.text_lines import LONGEST_ROW, check_length, check_text, is_utf8, text_lines

DELIMITERS = ",\t;|"
"""The first of these that the header has outside of quotes is the delimiter; the first one where it has none."""
MOST_COLUMNS = 100_000
_QUOTE = '"'
_SAID = re.compile('sep=([^"])', re.IGNORECASE)
_ENDS = ("", "\n", "\r", "\r\n")

Line = tuple[int, str]
Record = tuple[int, list[str] | str]
"""Number of the first line, from 1, and the cells; a text instead of them says why the record cannot be read."""


class CsvFile(NamedTuple):
    """An open csv file.

    Attributes:
        line: of the header, from 1.
        header: its cells.
        records: those below the header as they are read, with as many cells as it has. A blank line is no record.
        says_delimiter: whether a line before the header names the delimiter.
    """

    line: int
    header: list[str]
    records: Iterator[Record]
    says_delimiter: bool = False


class _BadQuotes(InputError):
    """Quotes that make no cell."""


class _Lines:
    """Numbered lines that can be put back.

    Attributes:
        ahead: those that were not taken yet.
        back: those that were put back, which come first.
        given: the first line of the record that :meth:`pull` gives.
        taken: the other lines of it that were pulled.
        dead_end: number of a line at which every quote fails that is open at the end of an earlier line.
    """

    def __init__(self, lines: Iterator[Line]) -> None:
        self.ahead, self.back = lines, deque[Line]()
        self.given: list[str] = []
        self.taken: list[Line] = []
        self.dead_end = 0.0
        self._size = 0

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        return self.back.popleft() if self.back else next(self.ahead)

    def pull(self) -> str:
        """Gives the module csv a line; raises EOFError where it asks for more than a record with right quotes has."""
        if self.given:
            text = self.given.pop()
            self._size = len(text)
            return text
        taken = self.taken
        line = None if taken and taken[-1][1].count(_QUOTE) % 2 else next(self, None)  # an odd number closes the record
        if line is None:
            raise EOFError
        taken.append(line)
        self._size += len(line[1])
        if self._size > LONGEST_ROW:
            raise EOFError
        return line[1]

    def cells(self, number: int, text: str, split: Iterator[list[str]]) -> list[str]:
        """The cells of the record that begins with a line; none where its quotes are wrong, and nothing is taken."""
        self.taken.clear()
        if number < self.dead_end:  # module csv would look for the end of every open quote again
            return []
        self.given.append(text)
        try:
            return next(split)
        except (csv.Error, EOFError):
            self.put_back(self.taken)
            return []

    def put_back(self, lines: list[Line]) -> None:
        self.back.extendleft(reversed(lines))


class _Dialect(NamedTuple):
    """How lines are split.

    Attributes:
        delimiter: between cells.
        spaced: spaces before a cell do not belong to it.
        split: gives the cells of a record, whose lines it pulls; raises where its quotes are wrong.
        any_bytes: bytes that are no UTF-8 stay in the cells.
    """

    delimiter: str
    spaced: bool
    split: Iterator[list[str]]
    any_bytes: bool


@contextmanager
def open_csv(file: InputFile, delimiters: str = "", spaced: bool = False, any_bytes: bool = False) -> Iterator[CsvFile]:
    r"""Opens a csv file in UTF-8, plain or gzip. Excel may name the delimiter in a first line of its own: ``sep=;``.

    Args:
        file: to read.
        delimiters: the first of these that the header has outside of quotes is the delimiter. None given: those of
            ``DELIMITERS``, of which the tab comes first where the name of the file ends in ``.tsv`` or ``.tsv.gz``.
        spaced: spaces before a cell do not belong to it, except where the delimiter is the tab.
        any_bytes: bytes that are no UTF-8 are lone surrogates in the cells, as Python has them in names of files; else
            they are errors.

    Raises:
        InputError: the file has no header or one that cannot be read, or is no text in UTF-8.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "a.csv"
        ...     _ = path.write_text('truth,score\ncat,0.5\n"a, b",0.25\n')
        ...     with open_csv(InputFile(path)) as table:
        ...         table.header, list(table.records)
        (['truth', 'score'], [(2, ['cat', '0.5']), (3, ['a, b', '0.25'])])
    """
    with text_lines(file, "") as numbered:
        lines = _Lines(numbered)
        said, first, header, dialect = _header(
            file.name, lines, delimiters or _delimiters(file.name), spaced, any_bytes
        )
        yield CsvFile(first, header, _records(file.name, lines, header, dialect), said)


def _delimiters(name: str) -> str:
    is_tsv = name.lower().removesuffix(".gz").endswith(".tsv")
    return "\t" + DELIMITERS.replace("\t", "") if is_tsv else DELIMITERS


def _header(
    name: str, lines: _Lines, delimiters: str, spaced: bool, any_bytes: bool
) -> tuple[bool, int, list[str], _Dialect]:
    filled = (line for line in lines if line[1].strip("\r\n"))
    first = next(filled, None)
    said = _SAID.fullmatch(first[1].rstrip("\r\n")) if first else None
    if said:
        first = next(filled, None)
    if first is None:
        raise InputError(f"{name} must have a line with the names of its columns but is empty")
    place = f"{name}, line {first[0]}"
    if "\0" in first[1]:  # of UTF-16 without a mark, say, which may have no other sign of it
        raise InputError(f"{place} must name columns in UTF-8 but has a NUL: save the file as UTF-8, as text")
    dialect = _dialect(said[1] if said else _delimiter(first[1], delimiters), spaced, any_bytes, lines)
    if first[1].count(dialect.delimiter) >= MOST_COLUMNS:  # a line of commas makes a hundred times its bytes in names
        raise InputError(
            f"{place} must name at most {MOST_COLUMNS:,} columns but has {first[1].count(dialect.delimiter) + 1:,}"
        )
    cells = _cells(place, lines, first, dialect)
    if not any_bytes:
        _check_texts(place, (f"column {number}" for number in count(1)), cells)
    return said is not None, first[0], cells, dialect


def _delimiter(header: str, delimiters: str) -> str:
    bare = "".join(header.split(_QUOTE)[::2])
    return next((each for each in delimiters if each in bare), delimiters[0])


def _dialect(delimiter: str, spaced: bool, any_bytes: bool, lines: _Lines) -> _Dialect:
    spaced = spaced and delimiter not in "\t "
    pulled = iter(lines.pull, None)
    split = csv.reader(pulled, delimiter=delimiter, skipinitialspace=spaced, strict=True)
    return _Dialect(delimiter, spaced, split, any_bytes)


def _records(name: str, lines: _Lines, header: list[str], dialect: _Dialect) -> Iterator[Record]:
    delimiter, spaced, split, any_bytes = dialect
    width, taken = len(header), lines.taken
    for first in lines.ahead:
        number, text = first
        if text[0] in "\r\n":
            continue
        taken.clear()
        if _QUOTE not in text and not (spaced and " " in text):
            cells = text.rstrip("\r\n").split(delimiter) if len(text) <= LONGEST_ROW else []
        else:
            cells = lines.cells(number, text, split)
        if len(cells) == width and (any_bytes or is_utf8("".join(cells) if taken else text)):
            yield number, cells
        else:
            if cells:
                lines.put_back(taken)
            yield number, _record(name, lines, first, header, dialect)
        while lines.back:
            first = lines.back.popleft()
            if first[1][0] not in "\r\n":
                yield first[0], _record(name, lines, first, header, dialect)


def _record(name: str, lines: _Lines, first: Line, header: list[str], dialect: _Dialect) -> list[str] | str:
    """The cells of the record that begins with a line, or why it cannot be read."""
    place = f"{name}, line {first[0]}"
    try:
        cells = _cells(place, lines, first, dialect)
        if len(cells) != len(header):
            return _bad_width(place, header, cells)
        if not dialect.any_bytes:
            _check_texts(place, (f"column {name!r:.80}" for name in named(header)), cells)
        return cells
    except InputError as error:
        return str(error)


def _bad_width(place: str, header: list[str], cells: list[str]) -> str:
    n = min(len(cells), len(header))
    name = named(header)[n] if n < len(header) else None
    first = f"column {n + 1} has no name" if name is None else f"column {n + 1}, {name!r:.80}, is missing"
    if len(cells) == len(header) + 1 and not cells[-1]:
        first += "; if all rows end in a delimiter, let the header end in one, too"
    return f"{place} must have {len(header)} cells, as the header has, but has {len(cells)}: {first}"


def named(header: list[str]) -> list[str]:
    """Names of columns: one without a name, as pandas writes its index, has that which pandas gives it.

    Example:
        >>> named(["", "truth"])
        ['Unnamed: 0', 'truth']
    """
    return [name or f"Unnamed: {index}" for index, name in enumerate(header)]


def _check_texts(place: str, columns: Iterable[str], cells: list[str]) -> None:
    """Raises for the first cell that has bytes of another encoding, by what its column is called."""
    for name, cell in zip(columns, cells):
        check_text(f"{place}, {name}", cell)


def _cells(place: str, lines: _Lines, first: Line, dialect: _Dialect) -> list[str]:
    """The cells of the record that begins with a line; where its quotes are wrong, its other lines are put back."""
    check_length(place, len(first[1]))
    if cells := lines.cells(*first, dialect.split):
        return cells
    others: list[Line] = []
    try:
        return _quoted_record(place, chain([first], _taken(lines, others)), dialect, lines)
    except InputError:
        lines.put_back(others)
        raise


def _taken(lines: _Lines, taken: list[Line]) -> Iterator[Line]:
    for line in lines:
        taken.append(line)
        yield line


def _quoted_record(place: str, record: Iterator[Line], dialect: _Dialect, lines: _Lines) -> list[str]:
    cells: list[str] = []
    length, open_cell = 0, None
    for number, line in record:
        length += len(line)
        check_length(place, length)
        try:
            open_cell = _split(line, dialect, cells, open_cell)
        except _BadQuotes as error:
            lines.dead_end = max(lines.dead_end, number)
            raise InputError(
                f"{place} must close its quotes but column {len(cells)}, in line {number}, {error}"
            ) from None
        if open_cell is None:
            return cells
        if number < lines.dead_end:
            raise InputError(f"{place} must close its quotes but the quote of column {len(cells) + 1} stays open")
    lines.dead_end = math.inf
    raise InputError(
        f"{place} must close its quotes but the quote of column {len(cells) + 1} is open at the end of the file"
    )


def _split(line: str, dialect: _Dialect, cells: list[str], open_cell: list[str] | None) -> list[str] | None:
    """Adds the cells of a line to ``cells``; returns the parts of the one that goes on in the next line, or None."""
    delimiter, position = dialect.delimiter, 0
    while True:
        if open_cell is None:
            while dialect.spaced and line.startswith(" ", position):
                position += 1
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
