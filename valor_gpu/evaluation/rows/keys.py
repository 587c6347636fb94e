"""Keys of rows: what two runs over the same data are joined by. No torch.

The key of a row is the value of column ``key``, else of column ``id``, else a hash of its mapped inputs without the
answer. Of rows with the same key the second one gets ``#2``, the third ``#3``.

Example:
    >>> from valor_gpu.evaluation.rows.data import open_data
    >>> from valor_gpu.evaluation.rows.mapping import resolve_mapping
    >>> source = open_data([{"id": 7, "answer": "a"}, {"id": "7", "answer": "b"}, {"question": "q"}])
    >>> keys = RowKeys(source.columns, resolve_mapping(None, source.columns))
    >>> [keys.next(row) for row in source]
    ['7', '7#2', '77a23443ee6addb6']
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._references import ColumnsError, shown_names
from valor_gpu.evaluation.rows._source_rows import SourceRow
from valor_gpu.evaluation.rows.fields import MESSAGES
from valor_gpu.evaluation.rows.mapping import Mapping
from valor_gpu.judge.metrics.messages import ASSISTANT, messages_of, spoken

COLUMNS = ("key", "id")
LONGEST = 200
"""Characters of a key. Of a longer value the first 100 are kept, and a hash of all."""

_HASH = 16  # hexadecimal digits: 64 bits; two of 100,000 rows share them with probability 3e-10
_SORTED = json.JSONEncoder(sort_keys=True)  # made once: a row takes half the time


class RowKeys:
    """Gives the rows of a data set their keys, one after the other.

    It remembers 8 bytes of each key that it gave, in a set: 100,000 rows take about 12 MB.

    Args:
        columns: names of the columns of the data.
        mapping: of the fields.
        column: whose values are the keys; None for ``key`` or ``id`` where there is one.

    Raises:
        InputError: there is no such column.
    """

    def __init__(self, columns: Collection[str], mapping: Mapping, column: str | None = None) -> None:
        if column is not None and column not in columns:
            near = near_names(column, columns)
            raise ColumnsError(f"key must be a column but is {column!r:.80}{near}; columns: {shown_names(columns)}")
        self.column = column or next((each for each in COLUMNS if each in columns), None)
        self._mapping = mapping
        self._given: set[int] = set()
        self._counts: dict[int, int] = {}  # keys that came more than once, to the last number

    def next(self, row: SourceRow) -> str:
        """The key of the next row.

        A row without a value in the column of keys has the hash; one that could not be read ``row-`` and its number.
        """
        return self._unique(self._bare(row))

    def epoch(self, key: str, number: int) -> str:
        """The key of a row when the target answers it again: ``key@2``, and so on, unless another row has that.

        Args:
            key: that :meth:`next` gave.
            number: from 2.
        """
        return self._unique(f"{key}@{number}")

    def _unique(self, key: str) -> str:
        mark = _mark(key)
        if mark not in self._given:
            self._given.add(mark)
            return key
        number = self._counts.get(mark, 1) + 1
        while _mark(f"{key}#{number}") in self._given:  # another row has this very text as its key
            number += 1
        self._counts[mark] = number
        self._given.add(_mark(f"{key}#{number}"))
        return f"{key}#{number}"

    def _bare(self, row: SourceRow) -> str:
        if row.error:
            return f"row-{row.number}"
        named = _text(row.values.get(self.column)) if self.column else ""
        if named:
            return named if len(named) <= LONGEST else f"{named[: LONGEST // 2]}...{_hash(named)}"
        inputs = self._mapping.key_values(row.values)
        if not inputs:  # nothing but columns of the user's own
            answers = {source.name for field, source in self._mapping.sources.items() if field == "answer"}
            inputs = {name: value for name, value in row.values.items() if name not in answers}
        if MESSAGES in inputs:
            inputs[MESSAGES] = _asked(inputs[MESSAGES])
        return _hash(inputs)


def _text(value: Any) -> str:
    """A value as a key: 7, 7.0 and "7" are the same, since csv files have texts and frames with gaps have floats."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, sort_keys=True)


def _asked(value: Any) -> Any:
    """The turns of a conversation that are not answers, role and content alone: citations are the system's too."""
    try:
        messages, _ = messages_of(value)
    except InputError:
        return value
    turns = [spoken(turn) for turn in messages if isinstance(turn, dict)]
    return [list(turn) for turn in turns if turn.role != ASSISTANT]


def _hash(value: Any) -> str:
    return hashlib.sha256(_SORTED.encode(value).encode()).hexdigest()[:_HASH]


def _mark(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
