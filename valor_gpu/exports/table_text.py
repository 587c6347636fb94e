"""The first rows of a table as lines of aligned cells. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.exports.texts import value_text
from valor_gpu.pages.texts import visible


def table_text(columns: Mapping[str, Sequence[Any]], rows: int, notes: Sequence[str]) -> str:
    """Returns a line of names, a line per row, and the notes; numbers are aligned at the right.

    Args:
        columns: plain values of the rows that are shown.
        rows: how many the table has.
        notes: the last lines.

    Example:
        >>> print(table_text({"class": ["cat", None], "f1": [0.5, float("nan")]}, 3, ["3 rows"]))
        class      f1
        cat    0.5000
                  nan
        ... 1 more
        3 rows
    """
    lines = [*map("  ".join, zip(*(_aligned(name, values) for name, values in columns.items())))]
    shown = len(next(iter(columns.values()), ()))
    more = [f"... {rows - shown:,} more"] if rows > shown else []
    return "\n".join([*(line.rstrip() for line in lines), *more, *notes])


def cell_text(value: Any) -> str:
    """Returns the text of a value; empty: it is missing.

    Example:
        >>> cell_text(0.25), cell_text(None), cell_text("cat")
        ('0.2500', '', 'cat')
    """
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) else value_text(value)


def is_number(value: Any) -> bool:
    """Returns whether a value is a number, which is aligned at the right."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _aligned(name: str, values: Sequence[Any]) -> list[str]:
    cells = [visible(name), *map(cell_text, values)]
    wide = max(map(len, cells))
    return [f"{cell:>{wide}}" if any(map(is_number, values)) else f"{cell:<{wide}}" for cell in cells]
