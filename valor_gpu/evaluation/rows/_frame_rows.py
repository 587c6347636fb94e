"""Rows of data frames and Parquet files, converted as they are asked for. No library of frames is imported here.

Frames of pandas and polars are read by their own methods; pyarrow's tables, Parquet files and every other frame that
gives Arrow or the dataframe interchange protocol are read by pyarrow, the extra ``arrow``.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.evaluation.rows._source_rows import SourceRow, plain_row
from valor_gpu.inputs.files import InputFile

PORTION = 1000
"""Rows of Arrow that are converted at a time."""

Rows = Callable[[], Iterator[SourceRow]]


def frame_source(data: Any) -> tuple[str, tuple[str, ...], Rows] | None:
    """Name, columns and rows of a data frame; None for what is none.

    Raises:
        InputError: two columns have one name, or a name is no text.
        MissingExtraError: only pyarrow can read it, and is not there.
    """
    kind = type(data)
    name = f"{kind.__module__.partition('.')[0]} {kind.__name__}"
    if hasattr(data, "read_next_batch"):
        raise InputError(f"data must be readable more than once but is a {name}: give data.read_all()")
    if hasattr(data, "itertuples") and hasattr(data, "columns"):
        data = _with_index(data)
        columns = _unique(name, data.columns)
        return name, columns, lambda: _numbered(name, columns, data.itertuples(index=False, name=None))
    if hasattr(data, "iter_rows") and hasattr(data, "columns"):
        columns = _unique(name, data.columns)
        return name, columns, lambda: _numbered(name, columns, data.iter_rows())
    if not any(hasattr(data, each) for each in ("__arrow_c_stream__", "__dataframe__")):
        return None
    table = _arrow_table(name, data)
    columns = _unique(name, table.schema.names)
    return name, columns, lambda: _numbered(name, columns, _arrow_rows(table.to_batches(PORTION)))


def parquet_source(file: InputFile) -> tuple[tuple[str, ...], Rows]:
    """Columns and rows of a Parquet file.

    Raises:
        InputError: it is none, or two columns have one name.
        MissingExtraError: pyarrow is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "arrow", f"reading {file.name}")

    def rows() -> Iterator[SourceRow]:
        with file.unchanged(), _opened(file) as opened:
            try:
                yield from _numbered(file.name, columns, _arrow_rows(_sound(opened.iter_batches(PORTION))))
            except (OSError, ValueError) as error:  # of pyarrow, for damaged pages
                if isinstance(error, InputError):
                    raise
                raise _damaged(file, error) from None

    with file.unchanged(), _opened(file) as opened:
        columns = _unique(file.name, opened.schema_arrow.names)
    return columns, rows


def parquet_rows(file: InputFile) -> int:
    """Number of rows of a Parquet file, which its footer says."""
    with file.unchanged(), _opened(file) as opened:
        return int(opened.metadata.num_rows)


def _opened(file: InputFile) -> Any:
    import pyarrow
    from pyarrow import parquet

    from valor_gpu.inputs.parquet_ends import check_one_parquet

    source = file.read() if file.is_stream else file.path
    try:
        given = pyarrow.BufferReader(source) if file.is_stream else source
        opened = parquet.ParquetFile(given, page_checksum_verification=True)
    except (OSError, pyarrow.ArrowException) as error:
        raise _damaged(file, error) from None
    try:
        check_one_parquet(file.name, source, opened.metadata)
    except BaseException:
        opened.close()
        raise
    return opened


def _sound(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches; raises for offsets that damage has led out of their arrays, before they are followed."""
    for batch in batches:
        for column in batch.columns:
            _check_offsets(column)
        yield batch


def _check_offsets(column: Any) -> None:
    try:
        column.validate(full=True)
    except ValueError as error:
        if "UTF8" not in str(error):  # of bytes that are no text, one row shall tell
            raise


def _damaged(file: InputFile, error: Exception) -> InputError:
    return InputError(f"{file.name} must be a Parquet file but cannot be read: {str(error).partition(chr(10))[0]}")


def _arrow_table(name: str, data: Any) -> Any:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "arrow", f"reading a {name}")
    import pyarrow
    from pyarrow.interchange import from_dataframe

    try:
        return pyarrow.table(data) if hasattr(data, "__arrow_c_stream__") else from_dataframe(data)
    except (TypeError, ValueError, NotImplementedError) as error:  # pyarrow's own errors are these too
        raise InputTypeError(f"data must be a data frame that pyarrow can read but is a {name}: {error}") from None


def _with_index(data: Any) -> Any:
    """A frame of pandas whose index is named has it as columns, since it holds what identifies a row."""
    names = getattr(getattr(data, "index", None), "names", None) or ()
    named = [each for each in names if isinstance(each, str) and each not in data.columns]
    return data.reset_index(named) if named else data


def _unique(name: str, columns: Iterable[Any]) -> tuple[str, ...]:
    names = tuple(columns)
    odd = [each for each in names if not isinstance(each, str)]
    if odd:
        raise InputError(f"{name} must have texts as names of columns but has {odd[0]!r:.80}")
    twice = [each for each, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{name} must name every column once but has {', '.join(map(repr, twice))} more than once")
    return names


def _numbered(name: str, columns: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> Iterator[SourceRow]:
    for number, cells in enumerate(rows, 1):
        place = f"{name}, row {number}"
        try:
            pairs = dict(zip(columns, cells))
            yield SourceRow(number, plain_row(place, pairs))
        except InputError as error:
            yield SourceRow(number, {}, str(error))


def _arrow_rows(batches: Iterable[Any]) -> Iterator[Iterable[Any]]:
    for batch in batches:
        yield from zip(*map(_arrow_cells, batch.columns)) if batch.num_columns else ()


def _arrow_cells(column: Any) -> list[Any]:
    from pyarrow import types

    if (types.is_timestamp(column.type) or types.is_time64(column.type)) and column.type.unit == "ns":
        return _nanoseconds(column)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # one cell, such as bytes that are no UTF-8, shall not cost the others
        return [_arrow_cell(cell) for cell in column]


def _nanoseconds(column: Any) -> list[Any]:
    """Times of Python, and texts where they have nanoseconds, which Python's have not; pandas is not needed."""
    import pyarrow

    numbers = column.cast(pyarrow.int64())
    parts = [None if each is None else each % 1000 for each in numbers.to_pylist()]
    whole = [None if each is None else each // 1000 for each in numbers.to_pylist()]
    is_time = pyarrow.types.is_time64(column.type)
    kind = pyarrow.time64("us") if is_time else pyarrow.timestamp("us", column.type.tz)
    found = pyarrow.array(whole, pyarrow.int64()).cast(kind).to_pylist()
    return [_with_nanoseconds(each, part) if part else each for each, part in zip(found, parts)]


def _with_nanoseconds(found: Any, part: int) -> str:
    """ISO 8601 of a time with its nanoseconds."""
    bare = found.replace(tzinfo=None)
    offset = found.isoformat()[len(bare.isoformat()) :]
    return f"{bare.isoformat(timespec='microseconds')}{part:03}{offset}"


def _arrow_cell(cell: Any) -> Any:
    """The value of a cell; where it has none in Python its bytes or itself, which the check of the row rejects."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return cell.as_buffer().to_pybytes() if hasattr(cell, "as_buffer") else cell
