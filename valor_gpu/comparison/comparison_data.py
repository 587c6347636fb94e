"""ComparisonData: the numbers of two models, their differences, intervals and tests, as a table and for gates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.comparison.families import SLICES, Path
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.leaves import single_numbers
from valor_gpu.result import Result

COLUMNS = (
    "name", "class", "slice", "first", "second", "difference", "low", "high", "p", "p_adjusted", "p_permutation",
    "detectable", "test", "reason",
)  # fmt: skip
"""Columns of :meth:`ComparisonResult.table`."""
MODELS = ("first", "second")
"""Names of the models in ``values`` and ``provenance``."""
_NUMBERS = (*MODELS, "difference", "p", "p_adjusted", "p_permutation", "detectable")
_ASKED = ("units_needed", "observed_power")
"""Columns that are there where they were asked for."""


class ComparisonData(Result):
    """Numbers of a :class:`valor_gpu.comparison.comparison_result.ComparisonResult`, which text and pictures show."""

    def table(self) -> ColumnTable:
        """Returns a table with a row for each number, with the columns :data:`COLUMNS`.

        With slices ``slice`` stands after ``class``: None of numbers of all units. ``units_needed`` and
        ``observed_power`` follow where they were asked for.
        """
        rows = list(self._rows())
        columns = [name for name in COLUMNS if name != "slice" or any(row["slice"] for row in rows)]
        columns += [name for name in _ASKED if name in self.values]
        return ColumnTable({name: [row[name] for row in rows] for name in columns}, dict(self.signature))

    def gate_numbers(self) -> dict[str, float]:
        """Returns every number that a gate can name.

        ``map`` is the number of the second model, ``delta_map`` the difference, ``delta_map_low`` and
        ``delta_map_high`` its interval, ``p_map`` the p-value; of a class ``delta_map_per_class/cat`` and so on, whose
        p-value is adjusted.
        """
        found: dict[str, float] = dict(single_numbers(self.values["second"]))
        for row in self._rows():
            name = named(row)
            p_value = row["p"] if name == row["name"] else row["p_adjusted"]
            found |= dict(zip(_gate_names(name), (row["difference"], p_value, row["low"], row["high"])))
        return found

    def gate_reason(self, name: str) -> str:
        """Returns why the number of :meth:`gate_numbers` does not exist; empty where that is not known."""
        for whole, row in ((named(row), row) for row in self._rows()):
            if name in _gate_names(whole):
                column = "p" if name == f"p_{whole}" else "difference"
                return self.reason(f"{column}/{whole}") or str(row["reason"])
        return self.reason(f"second/{name}") or ""

    def scalars(self, prefix: str = "") -> dict[str, float]:
        """Returns the numbers of :meth:`gate_numbers` after a prefix, for loggers."""
        return {prefix + name: value for name, value in self.gate_numbers().items()}

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        columns = {name: dict(_paths(self.values[name])) for name in (*_NUMBERS, *_ASKED) if name in self.values}
        for path in columns["difference"]:
            whole = "/".join(path)
            interval = self.intervals.get(f"difference/{whole}")
            tests = self.signature.get("tests", {})
            sliced = path[0] == SLICES
            yield {
                "name": path[2] if sliced else path[0],
                "class": None if sliced or len(path) == 1 else path[1],
                "slice": path[1] if sliced else None,
                **{column: found.get(path, math.nan) for column, found in columns.items()},
                "low": math.nan if interval is None else interval.low,
                "high": math.nan if interval is None else interval.high,
                "test": str(tests.get(whole, tests.get(path[0], ""))),
                "reason": self.reason(f"difference/{whole}") or ("" if interval is None else interval.reason),
            }


def _paths(column: Mapping[str, Any]) -> Iterator[tuple[Path, float]]:
    """Numbers of a column by their paths: the number; the number and a class; or of a slice."""
    for name, value in column.items():
        if name == SLICES:
            yield from (
                ((SLICES, each, number), found) for each, part in value.items() for number, found in part.items()
            )
        elif isinstance(value, Mapping):
            yield from (((name, key), number) for key, number in single_numbers(value).items())
        else:
            yield (name,), float(value)


def named(row: Mapping[str, Any]) -> str:
    """Returns the name that gates have for a row of the table: with its class or its slice."""
    if row.get("slice"):
        return f"{SLICES}/{row['slice']}/{row['name']}"
    return str(row["name"]) if row["class"] is None else f"{row['name']}/{row['class']}"


def _gate_names(name: str) -> tuple[str, str, str, str]:
    """Names in gates of the difference, its p-value and the ends of its interval."""
    return f"delta_{name}", f"p_{name}", f"delta_{name}_low", f"delta_{name}_high"
