"""Shards of Parquet and Arrow files, a few thousand rows in memory at a time. No torch."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.inputs.parquet_ends import check_one_parquet
from valor_gpu.offline.chunks import Chunk, Column
from valor_gpu.offline.formats.arrow_ends import is_arrow_file
from valor_gpu.offline.formats.arrow_types import decimals_as_numbers, unread_type
from valor_gpu.offline.shards import Shard


def read_parquet(shard: Shard, columns: Sequence[str], batch_size: int) -> Iterator[Chunk]:
    """A Parquet file."""
    path = shard.files["data"]
    with _reading(path, "a Parquet file"):
        from pyarrow import parquet

        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            check_one_parquet(path, path, file.metadata)
            _check_columns(path, columns, file.schema_arrow)
            batches = file.iter_batches(batch_size, columns=list(columns))
            yield from _chunks(path, columns, file.schema_arrow.names, batches)


def read_arrow(shard: Shard, columns: Sequence[str], batch_size: int) -> Iterator[Chunk]:
    """An Arrow file (IPC, Feather version 2) or stream."""
    path = shard.files["data"]
    with _reading(path, "an Arrow file"):
        import pyarrow as pa

        with pa.memory_map(path) as source:
            opened: Any
            if is_arrow_file(path, source):
                opened = pa.ipc.open_file(source)
                whole = (opened.get_batch(index) for index in range(opened.num_record_batches))
            else:
                opened = pa.ipc.open_stream(source)
                whole = iter(opened)
            _check_columns(path, columns, opened.schema)
            parts = (b.slice(at, batch_size) for b in whole for at in range(0, b.num_rows, batch_size))
            yield from _chunks(path, columns, opened.schema.names, (part.select(list(columns)) for part in parts))


@contextlib.contextmanager
def _reading(path: str, kind: str) -> Iterator[None]:
    """Turns what pyarrow raises for damaged bytes into InputError."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "arrow", f"reading {path}")
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, (InputError, FileNotFoundError, PermissionError)):
            raise
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise InputError(f"{path} must be {kind} but cannot be read: {text}") from error


def _check_columns(path: str, columns: Sequence[str], schema: Any) -> None:
    known: list[str] = schema.names
    for name in columns:
        if known.count(name) != 1:
            raise InputError(f"{path} must have one column {name!r} but has {', '.join(known) or 'none'}")
        kind = schema.field(name).type
        if unread_type(kind) is not None:
            raise InputError(f"{path}, column {name!r} must hold numbers, texts or lists of them but is of Arrow type"
                             f" {kind}: cast it where the file is written")  # fmt: skip


def _chunks(path: str, columns: Sequence[str], known: Sequence[str], batches: Iterator[Any]) -> Iterator[Chunk]:
    row, others = 0, frozenset(known) - set(columns)
    for batch in batches:
        batch.validate(full=True)
        places = [f"{path}, row {number} (counted from 0)" for number in range(row, row + batch.num_rows)]
        row += batch.num_rows
        if places:
            yield Chunk(places, {name: _values(batch.column(name)) for name in columns}, others=others)


def _values(column: Any) -> Column:
    """A column of numbers as an array, of lists as a list of arrays, of anything else as Python objects."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_number(types, column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if (levels := _list_levels(types, column.type)) and levels <= 2 and not _has_null_items(column, levels):
        return _lists(column)
    found: list[Any] = column.to_pylist()
    as_numbers = decimals_as_numbers(column.type)
    return found if as_numbers is None else [as_numbers(value) for value in found]


def _is_number(types: Any, kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _list_levels(types: Any, kind: Any) -> int:
    """How many lists lie within one another around a number; 0: none, or no numbers."""
    levels = 0
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind, levels = kind.value_type, levels + 1
    return levels if levels and _is_number(types, kind) else 0


def _has_null_items(column: Any, levels: int) -> bool:
    """Whether a list holds null, which only Python objects show row by row."""
    for _ in range(levels):
        column = column.flatten()
        if column.null_count:
            return True
    return False


def _lists(column: Any) -> list[Any]:
    """Of each row an array; None where the row is null. Lists of lists of one length become a matrix."""
    make = _splitter(column)
    if column.null_count:
        return [None if null else make(row) for row, null in enumerate(column.is_null().to_pylist())]
    return [make(row) for row in range(len(column))]


def _splitter(column: Any) -> Callable[[int], Any]:
    from pyarrow import types

    lengths = [length or 0 for length in column.value_lengths().to_pylist()]
    ends = np.cumsum([0, *lengths])
    flat = column.flatten()
    if not _list_levels(types, flat.type):
        values = flat.to_numpy(zero_copy_only=False)
        return lambda row: values[ends[row] : ends[row + 1]]
    widths = flat.value_lengths().to_pylist()
    inner = flat.flatten()
    values, starts = inner.to_numpy(zero_copy_only=False), np.cumsum([0, *widths])

    def matrix(row: int) -> Any:
        begin, end = int(ends[row]), int(ends[row + 1])
        wide = set(widths[begin:end])
        if len(wide) > 1:
            return [values[starts[i] : starts[i + 1]] for i in range(begin, end)]
        return values[starts[begin] : starts[end]].reshape(end - begin, wide.pop() if wide else 0)

    return matrix
