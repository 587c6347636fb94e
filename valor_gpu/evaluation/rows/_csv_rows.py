"""Rows of csv files. Every cell is a text; an empty one is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._source_rows import SourceRow
from valor_gpu.inputs.csv_records import named, open_csv
from valor_gpu.inputs.files import InputFile


def csv_columns(file: InputFile) -> tuple[str, ...]:
    """The names in the header.

    Raises:
        InputError: there is no header, or two columns have one name.
    """
    with open_csv(file) as table:
        return _names(f"{file.name}, line {table.line}", table.header)


def csv_rows(file: InputFile) -> Iterator[SourceRow]:
    """Rows as they are read. A blank line is no row.

    Yields:
        a row for each record; one that cannot be read has an error.
    """
    with open_csv(file) as table:
        columns = _names(f"{file.name}, line {table.line}", table.header)
        for number, (line, cells) in enumerate(table.records, 1):
            if isinstance(cells, str):
                yield SourceRow(number, {}, cells, line)
            else:
                yield SourceRow(number, {name: cell or None for name, cell in zip(columns, cells)}, line=line)


def _names(place: str, cells: list[str]) -> tuple[str, ...]:
    twice = [name for name, count in Counter(cells).items() if count > 1 and name]
    if twice:
        raise InputError(f"{place} must name every column once but has {', '.join(map(repr, twice))} more than once")
    names = named(cells)
    return _names(place, names) if names != cells else tuple(names)
