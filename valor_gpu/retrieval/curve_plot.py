"""Picture of precision over recall, from the first document of queries to the last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.drawing import GRID, axes_to_draw, line_style, say_empty, titled
from valor_gpu.result import Result

_MARKED = 12
"""Most points that have a number beside them."""


def plot_curve(result: Result, ax: Any = None, source: str | None = None, resize: bool = False) -> Any:
    """Draws the curve of a result of :class:`RetrievalPrecisionRecallCurve`; returns the axes.

    Args:
        result: of the metric.
        ax: matplotlib axes, or None for new ones.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.
    """
    axes = axes_to_draw(ax, (5.6, 4.8), resize)
    draw_points(axes, np.asarray(result.values["precision"]), np.asarray(result.values["recall"]))
    queries, aggregation = result.counts["queries"], str(result.signature["aggregation"])
    details = [f"{queries:,} {'query' if queries == 1 else 'queries'}", f"{aggregation} of queries at every k"]
    titled(axes, "Precision and recall at k", details, source=source)
    return axes


def draw_points(axes: Any, precision: NDArray[Any], recall: NDArray[Any]) -> None:
    """Draws precision over recall, with k beside some of the points.

    Args:
        axes: of matplotlib.
        precision: ``[K]``.
        recall: ``[K]``.
    """
    axes.plot(recall, precision, marker="o", markersize=4, linewidth=1.5, **line_style(0))
    last = len(precision)
    step = max(1, -(-last // _MARKED))
    for k in range(1, last + 1, step):
        axes.annotate(f"{k}", (recall[k - 1], precision[k - 1]), xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), xlabel="recall at k", ylabel="precision at k")
    axes.grid(**GRID)
    axes.set_axisbelow(True)
    if not last:
        say_empty(axes, "no data")
