"""The columns that every format of tables is read into, and how messages name their cells."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.inputs.files import InputFile

Numbers = NDArray[np.float64]

_NAMES_SHOWN = 12
WHOLE_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(\.0+)?")
"""A whole number as csv files have it, also as a float; ``01`` is a name, since no number is written so."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of N rows.

    Attributes:
        name: of the file.
        texts: for each text column asked for, N strings: a number without fraction as an integer, a bool as ``0`` or
            ``1``, what is missing as the empty string.
        numbers: for each group of number columns asked for, finite float64 ``[N, M]``: its columns side by side, a
            column of lists as wide as they are.
        lines: the line in the file of each row; None where a file has no lines.
    """

    name: str
    texts: tuple[list[str], ...]
    numbers: tuple[Numbers, ...]
    lines: Sequence[int] | None = None

    def place(self, row: int) -> str:
        """How a message calls row ``row``, counted from 0."""
        return row_place(self.name, row) if self.lines is None else f"{self.name}, line {self.lines[row]}"


def row_place(name: str, row: int) -> str:
    """How a message calls a row of a file without lines."""
    return f"{name}: row {row} (counted from 0)"


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes:
        names: its column names.
        read: text columns and groups of number columns, to the table; numbers need not be finite yet.
        is_text: whether it is text, which may be gzip-compressed.
    """

    names: Callable[[InputFile], list[str]]
    read: Callable[[InputFile, Sequence[str], Sequence[Sequence[str]]], Table]
    is_text: bool


def listed(names: Sequence[str]) -> str:
    """The names in a message."""
    more = f", ... ({len(names)} columns)" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(names[:_NAMES_SHOWN])}{more}"


def cell_text(value: Any) -> str:
    """A cell as text, see :class:`Table`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return value.decode() if isinstance(value, bytes) else str(value)


def whole_text(text: str) -> str:
    """A name without the fraction of a whole number: pandas writes 1.0 for 1 in a column with an empty cell.

    Example:
        >>> whole_text("1.0"), whole_text("-0.0"), whole_text("01.0"), whole_text("1.5")
        ('1', '0', '01.0', '1.5')
    """
    found = WHOLE_NUMBER.fullmatch(text)
    return text if found is None or found[3] is None else found[1] * (found[2] != "0") + found[2]
