"""ComparisonResult: the numbers of two models, their differences, intervals and tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.leaves import single_numbers
from valor_gpu.result import Result, require_matplotlib

COLUMNS = (
    "name", "class", "first", "second", "difference", "low", "high", "p", "p_adjusted", "p_permutation",
    "detectable", "test", "reason",
)  # fmt: skip
"""Columns of :meth:`ComparisonResult.table`."""


class ComparisonResult(Result):
    """Two models on the same data.

    ``values`` has mappings with the names of the numbers of the metric: ``first``, ``second``, ``difference`` (second
    less first), ``p``, ``p_adjusted`` (over the classes of a number), ``p_permutation`` and ``detectable`` (the
    smallest difference that the data show with the chosen power). ``intervals`` has those of ``difference/map`` and so
    on. ``signature`` has ``tests``: the test of each number, with the hypothesis that it tests.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return ComparisonResult, super().__reduce__()[1]

    def table(self) -> ColumnTable:
        """Returns a table with a row for each number, with the columns :data:`COLUMNS`."""
        rows = list(self._rows())
        return ColumnTable({name: [row[name] for row in rows] for name in COLUMNS}, dict(self.signature))

    def gate_numbers(self) -> dict[str, float]:
        """Returns every number that a gate can name.

        ``map`` is the number of the second model, ``delta_map`` the difference, ``delta_map_low`` and
        ``delta_map_high`` its interval, ``p_map`` the p-value; of a class ``delta_map_per_class/cat`` and so on, whose
        p-value is adjusted.
        """
        found: dict[str, float] = dict(single_numbers(self.values["second"]))
        for row in self._rows():
            p_value = row["p"] if row["class"] is None else row["p_adjusted"]
            numbers = row["difference"], p_value, row["low"], row["high"]
            found |= dict(zip(_gate_names(_named(row)), numbers))
        return found

    def gate_reason(self, name: str) -> str:
        """Returns why the number of :meth:`gate_numbers` does not exist; empty where that is not known."""
        reasons = ((row, _named(row)) for row in self._rows())
        return next(
            (str(row["reason"]) for row, whole in reasons if name in _gate_names(whole)), self.reason(name) or ""
        )

    def scalars(self, prefix: str = "") -> dict[str, float]:
        """Returns the numbers of :meth:`gate_numbers` after a prefix, for loggers."""
        return {prefix + name: value for name, value in self.gate_numbers().items()}

    def __repr__(self) -> str:
        from valor_gpu.comparison.comparison_text import answer

        return f"ComparisonResult({answer(self)})"

    def __str__(self) -> str:
        from valor_gpu.comparison.comparison_text import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        """The table for notebooks: the answer, the numbers, classes folded, and what was drawn and tested."""
        from valor_gpu.comparison.comparison_markup import comparison_element

        return comparison_element(self)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draws differences with their intervals; see :func:`valor_gpu.comparison.forest_plot.forest_plot`.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from valor_gpu.comparison.forest_plot import forest_plot

        require_matplotlib("ComparisonResult.plot")
        return forest_plot(self, ax, **options)

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        columns = {
            name: single_numbers(self.values[name])
            for name in ("first", "second", "difference", "p", "p_adjusted", "p_permutation", "detectable")
        }
        for whole in columns["difference"]:
            name, _, key = whole.partition("/")
            interval = self.intervals.get(f"difference/{whole}")
            yield {
                "name": name,
                "class": key or None,
                **{column: found.get(whole, math.nan) for column, found in columns.items()},
                "low": math.nan if interval is None else interval.low,
                "high": math.nan if interval is None else interval.high,
                "test": str(self.signature.get("tests", {}).get(whole, "")),
                "reason": self.reason(f"difference/{whole}") or ("" if interval is None else interval.reason),
            }


def _named(row: Mapping[str, Any]) -> str:
    return str(row["name"]) if row["class"] is None else f"{row['name']}/{row['class']}"


def _gate_names(name: str) -> tuple[str, str, str, str]:
    """Names in gates of the difference, its p-value and the ends of its interval."""
    return f"delta_{name}", f"p_{name}", f"delta_{name}_low", f"delta_{name}_high"
