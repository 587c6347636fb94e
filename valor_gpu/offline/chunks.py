"""Rows of a shard, several at a time, as columns; rows that cannot be read apart from them. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from valor_gpu.offline.records import BadRow
from valor_gpu.offline.shards import Shard

Column = Sequence[Any] | np.ndarray[Any, Any]


@dataclass(frozen=True)
class Chunk:
    """Up to ``batch_size`` rows.

    Attributes:
        places: how messages call each row.
        columns: name to values, one per row: a list or an array.
        bad: rows that could not be read, which are not among the columns.
        classes: label, as text, to name, where the shard names its classes; in its first chunk.
        others: names of columns that were not asked for.
        texts: what numbers stand for where ids are texts: see :data:`valor_gpu.offline.text_ids.Texts`; in the first
            chunk.
        missing: counts of what rows of the shard lack and what metrics take something for; in its first chunk.
    """

    places: Sequence[str]
    columns: Mapping[str, Column]
    bad: tuple[BadRow, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: Sequence[int]) -> Chunk:
        """These rows, without those that could not be read."""
        columns = {
            name: values[list(rows)] if isinstance(values, np.ndarray) else [values[row] for row in rows]
            for name, values in self.columns.items()
        }
        return Chunk([self.places[row] for row in rows], columns)


class Format(Protocol):
    """Reads the rows of a shard."""

    def __call__(self, shard: Shard, columns: Sequence[str], batch_size: int) -> Iterator[Chunk]:
        """The rows in order, never all in memory unless the format leaves no other way."""
        ...


def in_chunks(
    rows: Iterator[tuple[str, Mapping[str, Any] | str]], columns: Sequence[str], batch_size: int,
    missing: Callable[[str, str, Mapping[str, Any]], str],
) -> Iterator[Chunk]:  # fmt: skip
    """Single rows as chunks.

    Args:
        rows: place of each row, and its values or why it cannot be read.
        columns: that every row must have.
        batch_size: rows of a chunk, with those that cannot be read.
        missing: the message about a row that lacks a column, from its place, the column and the row.
    """
    places: list[str] = []
    found: dict[str, list[Any]] = {name: [] for name in columns}
    bad: list[BadRow] = []
    others: set[str] = set()
    for place, values in rows:
        lacks = None if isinstance(values, str) else next((name for name in columns if name not in values), None)
        if isinstance(values, str) or lacks is not None:
            text = values if isinstance(values, str) else missing(place, str(lacks), values)
            bad.append(BadRow(place, text))
        else:
            places.append(place)
            others.update(values.keys() - found.keys())
            for name, column in found.items():
                column.append(values[name])
        if len(places) + len(bad) == batch_size:
            yield Chunk(places, found, tuple(bad), others=frozenset(others))
            places, found, bad = [], {name: [] for name in columns}, []
    if places or bad:
        yield Chunk(places, found, tuple(bad), others=frozenset(others))
