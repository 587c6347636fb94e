"""The reliability diagram of a calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np

from valor_gpu.drawing import GRID, Texts, axes_to_draw, count, has_room, say_empty, titled
from valor_gpu.reduce.reliability import with_ones_in_last_bin
from valor_gpu.result import Result


def plot_reliability(
    result: Result, ax: Any = None, names: list[str] | None = None, source: str | None = None, resize: bool = False
) -> Any:
    """Draws accuracy over confidence, one bar per bin, coloured by the fraction of samples in it; returns the axes.

    Samples whose confidence is exactly 1 are in the last bar, also where the error has a bin of their own for them.

    Args:
        result: of :class:`CalibrationError`.
        ax: matplotlib axes, or None for new ones.
        names: names of the classes; in the binary task the second one names the axes.
        source: what was evaluated, for the title.
        resize: fit the size of the figure to the picture, as is done with new ones.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    axes = axes_to_draw(ax, (6.2, 5.0), resize)
    if not result.values["count"].any():
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
        say_empty(axes, "no data")
        titled(axes, "Expected calibration error (ECE)", ["0 samples"], source)
        return axes
    edges, share, accuracy, confidence = _bars(result)
    scale = ScalarMappable(Normalize(0.0, float(share.max())), "Blues")
    axes.bar(edges[:-1], accuracy, np.diff(edges), align="edge", color=scale.to_rgba(share), edgecolor="0.35",
             linewidth=0.8, label="accuracy of a bin")  # fmt: skip
    axes.figure.colorbar(scale, ax=axes, label="fraction of samples in the bin")
    axes.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="perfect calibration")
    axes.plot(confidence, accuracy, "o", color="#D55E00", markersize=4, clip_on=False,
              label="at the mean confidence of the bin")  # fmt: skip
    across, up = "confidence", "accuracy"
    if result.signature["task"] == "binary":
        name = Texts.of(["class 1" if names is None else names[1]])
        across, up = f"predicted probability of {name.texts[0]}", f"fraction that is {name.texts[0]}"
        axes.set_xlabel(name.with_notes(across), **name.font)
        axes.set_ylabel(f"fraction of positives: {name.texts[0]}", **name.font)
    else:
        axes.set(xlabel=across, ylabel=up)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.grid(**GRID)
    axes.set_axisbelow(True)
    samples = result.counts["samples"] - result.counts["ignored"]
    below: dict[str, Any] = {"bbox_to_anchor": (-0.02, -0.13), "frameon": False, "ncols": 2} if has_room(axes) else {}
    axes.legend(fontsize="small", loc="upper left", **below)
    headline = f"Expected calibration error (ECE) {result.values['expected_error']:.4f}"
    titled(axes, headline, [count(samples, "sample"), count(result.signature["n_bins"], "bin")], source)
    return axes


def _bars(result: Result) -> tuple[Any, Any, Any, Any]:
    """Edges ``[B + 1]`` and, of each bin, fraction of samples, accuracy and confidence; a bin of exactly 1 joined."""
    values, count = result.values, result.values["count"]
    share = count / max(count.sum(), 1e-300)
    if values["bin_lower"][-1] < 1:
        return np.append(values["bin_lower"], 1.0), share, values["accuracy"], values["confidence"]
    joined = with_ones_in_last_bin(count)

    def mean(name: str) -> Any:
        sums = with_ones_in_last_bin(np.nan_to_num(values[name]) * count)
        return np.divide(sums, joined, out=np.full(len(joined), np.nan), where=joined > 0)

    return values["bin_lower"], with_ones_in_last_bin(share), mean("accuracy"), mean("confidence")
