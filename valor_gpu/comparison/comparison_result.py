"""ComparisonResult: two models on the same data, as text, page and picture."""

from __future__ import annotations

from typing import Any

from valor_gpu.comparison.comparison_data import ComparisonData
from valor_gpu.result import require_matplotlib


class ComparisonResult(ComparisonData):
    """Two models on the same data.

    ``values`` has mappings with the names of the numbers of the metric: ``first``, ``second``, ``difference`` (second
    less first), ``p``, ``p_adjusted`` (over the classes of a number), ``p_permutation`` and ``detectable`` (the
    smallest difference that the data show with the chosen power); where asked for, ``units_needed`` and
    ``observed_power``. Those of slices are under ``slices``, by the name of the slice. ``intervals`` has those of
    ``difference/map`` and so on. ``signature`` has ``tests``: the test of each number, with the hypothesis that it
    tests. ``provenance`` has those of both models, as ``first`` and ``second``.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return ComparisonResult, super().__reduce__()[1]

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
