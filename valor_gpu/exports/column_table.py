"""ColumnTable: a table that analyses return, and the forms in which users take it. Imports no torch."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import json_value

if TYPE_CHECKING:
    import pandas


class ColumnTable:
    """Columns of equal length, in order, with the choices that made them.

    Args:
        columns: name to sequence or array; texts, numbers, bools, None where a value is missing.
        choices: what the table depends on.

    Example:
        >>> table = ColumnTable({"image_id": [7, 9], "f1": [0.5, 1.0]}, {"iou": 0.5})
        >>> len(table), table["f1"][1], table.rows()[0]
        (2, 1.0, {'image_id': 7, 'f1': 0.5})
    """

    def __init__(self, columns: Mapping[str, Any], choices: Mapping[str, Any] | None = None) -> None:
        self.columns = dict(columns)
        self.choices = dict(choices or {})
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns must have one length but have {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise InputError(f"there is no column {name!r}: the table has {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def rows(self) -> list[dict[str, Any]]:
        """Returns a dict of plain Python values per row."""
        columns = self.columns.values()
        plain = [column.tolist() if isinstance(column, np.ndarray) else list(column) for column in columns]
        return [dict(zip(self.columns, values)) for values in zip(*plain)]

    def to_dict(self) -> dict[str, Any]:
        """Returns the columns as lists that ``json.dumps(..., allow_nan=False)`` takes: NaN becomes None."""
        return {name: json_value(column) for name, column in self.columns.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a DataFrame; ``attrs`` has the choices."""
        from valor_gpu.exports.frames import imported

        frame = imported("pandas", "pandas", "ColumnTable.to_pandas").DataFrame(self.columns)
        frame.attrs = json_value(self.choices)
        return frame

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes the table as CSV, UTF-8, in one step."""
        import io

        from valor_gpu.exports.files import write_text

        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(row.values() for row in self.rows())
        write_text(path, text.getvalue())
