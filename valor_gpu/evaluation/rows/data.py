"""Data sets: files, lists of dicts and data frames as rows, read one at a time. Imports neither torch nor pandas.

Example:
    >>> from valor_gpu.evaluation.rows.data import open_data
    >>> source = open_data([{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": None}])
    >>> source.columns
    ('question', 'answer')
    >>> [row.values["answer"] for row in source]
    ['4', None]
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

from valor_gpu.checks import check_choice, near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.rows._csv_rows import csv_columns, csv_rows
from valor_gpu.evaluation.rows._frame_rows import frame_source, parquet_source
from valor_gpu.evaluation.rows._json_rows import json_rows
from valor_gpu.evaluation.rows._source_rows import FIRST_ROWS, SourceRow, plain_row
from valor_gpu.evaluation.rows.columns import ColumnNames
from valor_gpu.evaluation.rows.row_counts import count_file_rows
from valor_gpu.inputs.files import InputFile

__all__ = ["DataSource", "SourceRow", "open_data"]

FORMATS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
"""Format by the ending of a file's name, ``.gz`` left out; every other ending is JSON lines."""

_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_CHUNK = 1 << 16  # bytes
_OF_ROWS = ("jsonl", "rows")  # formats whose columns are those of their rows


@dataclass(frozen=True)
class DataSource:
    """Rows of a data set, which can be read several times and are never all in memory.

    Attributes:
        name: of the file, or what kind of data it is.
        format: ``csv``, ``jsonl``, ``parquet``, ``rows`` (a list of dicts) or ``frame``.
        columns: names of columns: of the header, of the frame, or of the first 100 rows in the order of their
            appearance; :class:`~valor_gpu.evaluation.rows.columns.ColumnNames` where rows were read.

    Iterating gives a :class:`SourceRow` for every row. A row that cannot be read has an ``error`` and no values, and
    the others follow it.
    """

    name: str
    format: str
    columns: ColumnNames
    _rows: Callable[[], Iterator[SourceRow]] = field(repr=False)
    _file: InputFile | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[SourceRow]:
        return self._rows()

    def offset(self) -> int:
        """Bytes up to which the file was read by who reads it now, perhaps in another thread; 0 where nobody does."""
        return 0 if self._file is None else self._file.offset()

    def count_rows(self, most: int | None = None) -> int:
        """Number of rows, those with an error included; a file is read for that.

        Args:
            most: the count ends here; None for all rows.
        """
        n = self.__dict__.get("_n_rows")
        if n is None:
            n = self._count(most)
            if most is None or n < most:
                self.__dict__["_n_rows"] = n
        return int(n if most is None else min(n, most))

    def _count(self, most: int | None) -> int:
        if self._file is not None:
            return count_file_rows(self._file, self.format, most)
        return sum(1 for _ in islice(self, most))

    def with_all_columns(self) -> DataSource:
        """The source with the columns and paths of all rows, which are read once for that where they were not."""
        return self._whole if self.columns.is_partial else self

    @cached_property
    def _whole(self) -> DataSource:
        rows = 0

        def readable() -> Iterator[Mapping[str, Any]]:
            nonlocal rows
            for row in self:
                rows += 1
                yield row.values

        header = None if self.format in _OF_ROWS else self.columns
        columns = ColumnNames.of(readable(), "", header)
        columns.seen = f"all {rows:,} rows" if header is None else ""
        found = replace(self, columns=columns)
        for known in ("hash", "_n_rows"):  # of the same content: not to be computed again
            if known in self.__dict__:
                found.__dict__[known] = self.__dict__[known]
        return found

    @cached_property
    def hash(self) -> str:
        """SHA-256 in hexadecimal: of a file's bytes, unpacked; of the rows as JSON for other data."""
        digest = hashlib.sha256()
        if self._file is not None:
            with self._file.open() as stream:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
        else:
            for row in self:
                digest.update(json.dumps([row.error, row.values], sort_keys=True).encode() + b"\n")
        return digest.hexdigest()


def open_data(data: Any, format: str | None = None) -> DataSource:
    """Opens a data set.

    Args:
        data: path of a file, ``-`` for standard input, a sequence of dicts, or a data frame: of pandas, polars or
            pyarrow, or any that gives Arrow or the dataframe interchange protocol (by pyarrow). Files are UTF-8, with
            or without a byte order mark, perhaps gzip:

            * csv: the first line names the columns. Every cell is a text (``007`` stays ``007``), an empty one is
              missing, words such as ``NA`` are texts. Cells in quotes may hold delimiters, line ends and doubled
              quotes. The delimiter is a comma; a tab, a semicolon or a bar, in this order, when the header has no
              comma; a tab first where the name ends in ``.tsv``; or what a first line ``sep=;`` says.
            * JSON lines: one object a line; blank lines are left out. ``null`` and ``NaN`` are missing, ``Infinity``
              is an error of its row.
            * Parquet, by pyarrow.

            NaN, NaT and pandas.NA of a frame are missing; dates are texts in ISO 8601; an index of pandas that has a
            name is a column. A row of a file has at most 64 Mi characters.
        format: of a file, ``csv``, ``jsonl`` or ``parquet``; None: by the ending of its name (``.csv`` and ``.tsv``,
            ``.parquet`` and ``.pq``, also followed by ``.gz``); every other one is JSON lines.

    Returns:
        The rows, not yet read but for the first 100.

    Raises:
        InputError: there is no such file, its encoding is another, it has no row that can be read, or it names a column
            twice. The message has the line number where there is one.
        InputTypeError: ``data`` is something else.
        MissingExtraError: pyarrow is needed and not installed (extra ``arrow``).

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "rows.csv"
        ...     _ = path.write_text("id,answer" + chr(10) + '007,"4, or four"' + chr(10) + "008")
        ...     for row in open_data(path):
        ...         print(row.number, row.values or row.error.replace(folder, ""))
        1 {'id': '007', 'answer': '4, or four'}
        2 /rows.csv, line 3 must have 2 cells, as the header has, but has 1: column 2, 'answer', is missing
    """
    check_choice("format", format, (None, "csv", "jsonl", "parquet"))
    if isinstance(data, (str, os.PathLike)):
        return _file_source(os.fspath(data), format)
    found = frame_source(data)
    if found is not None:
        name, columns, rows = found
        return _with_columns(DataSource(name, "frame", ColumnNames(columns), rows))
    if isinstance(data, Sequence) and not isinstance(data, (bytes, bytearray)):
        return _with_columns(DataSource("data", "rows", ColumnNames(), lambda: _mapping_rows(data)))
    hint = ": give a list of dicts" if isinstance(data, (Mapping, Iterator)) else ""
    raise InputTypeError(f"data must be a path, a list of dicts or a data frame but is {type(data).__name__}{hint}")


def _mapping_rows(rows: Sequence[Any]) -> Iterator[SourceRow]:
    for number, row in enumerate(rows, 1):
        place = f"data, row {number}"
        try:
            if not isinstance(row, Mapping):
                raise InputError(f"{place} must be a dict but is {type(row).__name__}")
            yield SourceRow(number, plain_row(place, row))
        except InputError as error:
            yield SourceRow(number, {}, str(error))


def _file_source(path: str, format: str | None) -> DataSource:
    file = _input_file(path)
    name = path.lower().removesuffix(".gz")
    format = format or FORMATS.get(os.path.splitext(name)[1], "jsonl")
    if format == "parquet":
        columns, rows = parquet_source(file)
        return _with_columns(DataSource(file.name, format, ColumnNames(columns), rows, file))
    if format == "csv":
        return _with_columns(
            DataSource(file.name, format, ColumnNames(csv_columns(file)), lambda: csv_rows(file), file)
        )
    return _with_columns(DataSource(file.name, format, ColumnNames(), lambda: json_rows(file), file))


def _input_file(path: str) -> InputFile:
    address = _ADDRESS.match(path)
    if address:  # without the rest of the address, which may hold a secret
        raise InputError(
            f"data must be a local file, a list of dicts or a data frame but is an address that begins with"
            f" {address[0]}: download it and give its path"
        )
    if os.path.isdir(path):
        raise InputError(f"data must be a file but {path!r} is a folder")
    try:
        return InputFile(path)
    except FileNotFoundError:
        folder, name = os.path.split(path)
        there = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        raise InputError(f"data must be a file that exists but there is no {path!r}{near_names(name, there)}") from None
    except OSError as error:
        raise InputError(f"data must be a file that can be read but {path!r}: {error.strerror}") from None
    except ValueError as error:  # a NUL in the name
        raise InputError(f"data must be the path of a file but is {path!r}: {error}") from None


def _with_columns(source: DataSource) -> DataSource:
    """The source with the columns of its first rows.

    Raises:
        InputError: it has no row, or none that can be read; then the message is that of the first one.
    """
    rows = iter(source)
    first = list(islice(rows, FIRST_ROWS))
    if not first:
        raise InputError(f"{source.name} must have at least one row but has none")
    good = [row for row in first if not row.error] or [row for row in islice(_readable(rows), 1)]
    if not good:
        raise InputError(f"{source.name} must have a row that can be read but has none: {first[0].error}")
    header = None if source.format in _OF_ROWS else source.columns
    seen = f"all {len(first):,} rows" if len(first) < FIRST_ROWS else f"the first {FIRST_ROWS} rows"
    columns = ColumnNames.of((row.values for row in good), seen, header)
    columns.is_partial = len(first) == FIRST_ROWS and source.format != "csv"  # whose cells hold no objects
    if not columns:
        raise InputError(f"{source.name} must have columns but its first {len(good)} rows have none")
    return replace(source, columns=columns)


def _readable(rows: Iterator[SourceRow]) -> Iterator[SourceRow]:
    return (row for row in rows if not row.error)
