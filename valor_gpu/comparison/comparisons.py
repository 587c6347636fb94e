"""Comparisons: the pairs of several models."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.files import write_text
from valor_gpu.result import require_matplotlib

if TYPE_CHECKING:
    import pandas


class Comparisons(Mapping[str, ComparisonResult]):
    """Comparisons of several models on the same data, by names such as ``detr vs yolo``: detr less yolo.

    P-values are adjusted over the pairs: ``p_adjusted`` of a number is for all pairs at once, of a class for all pairs
    and classes.

    Args:
        found: name to comparison, in the order of the models.

    Example:
        >>> import torch
        >>> from valor_gpu.segmentation import mIOU
        >>> from valor_gpu.stats import compare
        >>> target = torch.randint(0, 2, (40, 1, 8), generator=torch.Generator().manual_seed(0))
        >>> models = {}
        >>> for name, wrong in (("old", 4), ("new", 3), ("best", 1)):
        ...     preds = target.clone()
        ...     preds[::2, :, :wrong] = 1 - preds[::2, :, :wrong]
        ...     models[name] = mIOU(2, keep_images=True)
        ...     models[name].update(preds, target)
        >>> list(compare(models, replicates=200))
        ['new vs old', 'best vs old', 'best vs new']
    """

    def __init__(self, found: Mapping[str, ComparisonResult]) -> None:
        self._found = dict(found)

    def __getitem__(self, name: str) -> ComparisonResult:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def table(self) -> ColumnTable:
        """Returns the tables of all pairs as one, with the column ``comparison`` before the others."""
        tables = {name: each.table() for name, each in self.items()}
        columns: dict[str, list[Any]] = {
            "comparison": [name for name, table in tables.items() for _ in range(len(table))]
        }
        for column in next(iter(tables.values())):
            columns[column] = [value for table in tables.values() for value in table[column]]
        return ColumnTable(columns, dict(next(iter(self.values())).signature))

    def gate_numbers(self) -> dict[str, float]:
        """Returns what a gate can name: the numbers of each pair after its name, as ``detr vs yolo/delta_map``.

        P-values are adjusted over the pairs.
        """
        found: dict[str, float] = {}
        for pair, result in self.items():
            found |= {f"{pair}/{name}": value for name, value in result.gate_numbers().items()}
            adjusted = ((name, p) for name, p in result.values["p_adjusted"].items() if not isinstance(p, Mapping))
            found |= {f"{pair}/p_{name}": p_value for name, p_value in adjusted}
        return found

    def gate_reason(self, name: str) -> str:
        """Returns why the number of :meth:`gate_numbers` does not exist; empty where that is not known."""
        pair = next((pair for pair in self if name.startswith(f"{pair}/")), None)
        return "" if pair is None else self[pair].gate_reason(name.removeprefix(f"{pair}/"))

    def __repr__(self) -> str:
        return f"Comparisons({', '.join(self)})"

    def __str__(self) -> str:
        from valor_gpu.comparison.comparison_text import comparisons_text

        return comparisons_text(self)

    def _repr_html_(self) -> str:
        """The tables of all pairs for notebooks, folded."""
        from valor_gpu.comparison.comparison_markup import comparisons_element

        return comparisons_element(self)

    def to_dict(self) -> dict[str, Any]:
        """Returns the documents of all pairs by their names, as :meth:`ComparisonResult.to_dict` gives them."""
        return {name: each.to_dict() for name, each in self.items()}

    def to_json(self, indent: int | None = None) -> str:
        """Returns :meth:`to_dict` as strict JSON: what is not finite is ``null``, and ``reasons`` says why.

        Args:
            indent: spaces of each level; None: all on one line.
        """
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns :meth:`table` as a table of pandas.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return self.table().to_pandas()

    def scalars(self, prefix: str = "") -> dict[str, float]:
        """Returns the numbers of :meth:`gate_numbers` after a prefix, for loggers."""
        return {prefix + name: value for name, value in self.gate_numbers().items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`to_json` to a file, in one step; each pair alone can be saved and loaded as a Result.

        Args:
            path: of the file.

        Raises:
            OSError: the file cannot be written; an older one stays as it is.
        """
        write_text(path, self.to_json(indent=2) + "\n")

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draws the difference of each pair; see :func:`valor_gpu.comparison.forest_plot.forest_plot_of_pairs`.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from valor_gpu.comparison.forest_plot import forest_plot_of_pairs

        require_matplotlib("Comparisons.plot")
        return forest_plot_of_pairs(self, ax, **options)
