"""Results as tables of pandas and pyarrow: one row for each number. Imports both when called, and no torch."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas
    import pyarrow

Entry = tuple[str, str | None, Any, str | None]
"""Name, key within what the name stands for, number or array, and why it does not exist."""


def pandas_table(entries: Iterable[Entry], arrays: bool, attributes: Mapping[str, Any]) -> pandas.DataFrame:
    """The table of a result; ``attributes`` become its ``attrs``.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    frame: pandas.DataFrame = _module("pandas", "pandas", "Result.to_pandas").DataFrame(_columns(entries, arrays))
    frame.attrs.update(attributes)
    return frame.astype({"value": "float64"})


def arrow_table(entries: Iterable[Entry], arrays: bool, attributes: Mapping[str, Any]) -> pyarrow.Table:
    """The table of a result; ``attributes`` become metadata of its schema, each as JSON.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    arrow = _module("pyarrow", "arrow", "Result.to_arrow")
    kinds = {"name": arrow.string(), "key": arrow.string(), "value": arrow.float64(), "reason": arrow.string()}
    metadata = {name: json.dumps(value) for name, value in attributes.items()}
    return arrow.table(_columns(entries, arrays), schema=arrow.schema(list(kinds.items()), metadata=metadata))


def _module(name: str, extra: str, purpose: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingExtraError(name, extra, purpose) from None


def _columns(entries: Iterable[Entry], arrays: bool) -> dict[str, list[Any]]:
    rows = [row for entry in entries for row in _rows(entry, arrays)]
    return {name: [row[place] for row in rows] for place, name in enumerate(("name", "key", "value", "reason"))}


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
