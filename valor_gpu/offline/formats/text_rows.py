"""Shards of JSON lines and CSV: a line that cannot be read leaves the others alone. No torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.rows._csv_rows import csv_rows
from valor_gpu.evaluation.rows._json_rows import json_rows
from valor_gpu.evaluation.rows._source_rows import SourceRow
from valor_gpu.inputs.files import InputFile
from valor_gpu.offline.chunks import Chunk, in_chunks
from valor_gpu.offline.shards import Shard


def read_jsonl(shard: Shard, columns: Sequence[str], batch_size: int) -> Iterator[Chunk]:
    """One JSON object a line; also gzip."""
    return _read(shard, columns, batch_size, json_rows)


def read_csv(shard: Shard, columns: Sequence[str], batch_size: int) -> Iterator[Chunk]:
    """Cells are texts; the first line names the columns; also gzip."""
    return _read(shard, columns, batch_size, csv_rows)


def _read(
    shard: Shard, columns: Sequence[str], batch_size: int, rows: Callable[[InputFile], Iterator[SourceRow]]
) -> Iterator[Chunk]:
    path = shard.files["data"]
    if not os.path.getsize(path):  # as tools that write in parts leave them
        return iter(())
    file = InputFile(path)
    found = ((_place(file.name, row), row.error or row.values) for row in rows(file))
    return in_chunks(found, columns, batch_size, _lacking)


def _place(name: str, row: SourceRow) -> str:
    return f"{name}, row {row.number}" if row.line is None else f"{name}, line {row.line}"


def _lacking(place: str, column: str, row: Mapping[str, Any]) -> str:
    return f"{place} must have {column!r} but has {', '.join(map(str, row)) or 'nothing'}"
