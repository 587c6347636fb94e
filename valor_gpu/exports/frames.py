"""Results as tables of pandas and pyarrow: one row for each number. Imports both when called, and no torch."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import MissingExtraError
from valor_gpu.exports.intervals import exists
from valor_gpu.stats.intervals import Intervals

if TYPE_CHECKING:
    import pandas
    import pyarrow

Entry = tuple[str, str | None, Any, str | None]
"""Name, key within what the name stands for, number or array, and why it does not exist."""

_NAMES, _ENDS = ("name", "key", "value", "reason"), ("low", "high", "standard_error")


def pandas_table(
    entries: Iterable[Entry], arrays: bool, attributes: Mapping[str, Any], intervals: Intervals
) -> pandas.DataFrame:
    """The table of a result; ``attributes`` become its ``attrs``. Without intervals it has no columns of them.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    columns = _columns(entries, arrays, intervals)
    frame: pandas.DataFrame = imported("pandas", "pandas", "Result.to_pandas").DataFrame(columns)
    frame.attrs.update(attributes)
    return frame.astype({name: "float64" for name in columns if name in ("value", *_ENDS)})


def arrow_table(
    entries: Iterable[Entry], arrays: bool, attributes: Mapping[str, Any], intervals: Intervals
) -> pyarrow.Table:
    """The table of a result; ``attributes`` become metadata of its schema, each as JSON. See :func:`pandas_table`.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    arrow = imported("pyarrow", "arrow", "Result.to_arrow")
    columns = _columns(entries, arrays, intervals)
    kinds = [(name, arrow.float64() if name in ("value", *_ENDS) else arrow.string()) for name in columns]
    metadata = {name: json.dumps(value) for name, value in attributes.items()}
    return arrow.table(columns, schema=arrow.schema(kinds, metadata=metadata))


def imported(name: str, extra: str, purpose: str) -> ModuleType:
    """Returns a module of an extra; raises :class:`MissingExtraError` where it is not installed.

    Args:
        name: of the module.
        extra: that installs it.
        purpose: what needs it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingExtraError(name, extra, purpose) from None


def _columns(entries: Iterable[Entry], arrays: bool, intervals: Intervals) -> dict[str, list[Any]]:
    rows = [row for entry in entries for row in _rows(entry, arrays)]
    if not intervals.choices and not intervals:
        return {name: [row[place] for row in rows] for place, name in enumerate(_NAMES)}
    full = [_with_interval(row, intervals) for row in rows]
    return {name: [row[place] for row in full] for place, name in enumerate((*_NAMES, *_ENDS))}


def _with_interval(row: Entry, intervals: Intervals) -> tuple[Any, ...]:
    name, key, number, reason = row
    interval = intervals.get(name if key is None else f"{name}/{key}")
    if interval is None or not exists(interval):
        why = reason if interval is None or not math.isfinite(number) else f"no interval: {interval.reason}"
        return name, key, number, why, None, None, None
    return name, key, number, reason, interval.low, interval.high, interval.standard_error


def _rows(entry: Entry, arrays: bool) -> Iterator[Entry]:
    name, key, value, reason = entry
    if not hasattr(value, "shape") or not len(value.shape):
        number = float(value)
        yield name, key, number, None if math.isfinite(number) else reason
    elif arrays:
        for place, number in _numbers(value.tolist(), ""):
            where = place if key is None else f"{key}/{place}"
            yield name, where, number, None if math.isfinite(number) else reason


def _numbers(values: Any, place: str) -> Iterator[tuple[str, float]]:
    """Every number of nested lists with its place, such as ``0,3``."""
    if not isinstance(values, list):
        yield place, float(values)
        return
    for i, value in enumerate(values):
        yield from _numbers(value, f"{place},{i}" if place else str(i))
