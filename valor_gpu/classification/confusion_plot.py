"""The picture of a confusion matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from valor_gpu.result import Result


def plot_confusion(result: Result, ax: Any = None, label: int = 0, names: list[str] | None = None) -> Any:
    """Draw the matrix of ``result``, of one ``label`` in the multilabel task; returns the axes.

    Args:
        result: of :class:`ConfusionMatrix`.
        ax: matplotlib axes, or None for new ones.
        label: which matrix of several.
        names: of the classes, else their indices; numbers are written into the cells of up to 20 classes.
    """
    matrix = result.values["confusion_matrix"]
    matrix = matrix[label] if matrix.ndim == 3 else matrix
    if ax is None:
        from matplotlib import pyplot as plt  # needs a display or a backend; axes of the caller do not

        ax = plt.subplots(figsize=(6, 5), layout="constrained")[1]
    image = ax.imshow(matrix, cmap="Blues", vmin=0)
    ax.figure.colorbar(image, ax=ax, fraction=0.046)
    ax.set(xlabel="predicted class", ylabel="true class", title=f"{result.counts['samples']:,} samples")
    if len(matrix) > 20:
        return ax
    names = [str(index) for index in range(len(matrix))] if names is None else names
    digits = ".6g" if result.signature["normalize"] in ("none", None) else ".2f"
    ax.set_xticks(range(len(matrix)), names, rotation=90 if max(map(len, names)) > 3 else 0)
    ax.set_yticks(range(len(matrix)), names)
    middle = np.nanmax(matrix, initial=0) / 2
    for row, column in np.ndindex(*matrix.shape):
        value = matrix[row, column]
        color = "white" if value > middle else "black"
        ax.text(column, row, f"{value:{digits}}", ha="center", va="center", color=color, fontsize=8)
    return ax
