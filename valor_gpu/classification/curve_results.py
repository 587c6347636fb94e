"""Results of ROC and precision-recall curves. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from valor_gpu.classification.curve_plot import plot_curves
from valor_gpu.result import Result, Signature
from valor_gpu.stats.counts import ResampledCounts

ROC_AXES = ("fpr", "tpr")
PRECISION_RECALL_AXES = ("precision", "recall")
_NO_POINT = "nothing to divide by at these points"


def curve_result(
    axes: tuple[str, str],
    curves: Sequence[Sequence[NDArray[np.float64]]],
    single: bool,
    signature: Signature,
    counts: Mapping[str, int],
) -> Result:
    """The result of curves, each of two coordinates and thresholds ``[T]``.

    Args:
        axes: names of the coordinates.
        curves: of each class.
        single: whether the one curve stands for itself; else values are by class, ``"0"``, ``"1"`` ...
        signature: of the result.
        counts: of samples.
    """
    parts = dict(zip((*axes, "thresholds"), zip(*curves)))
    values = {
        name: group[0] if single else {str(c): part for c, part in enumerate(group)} for name, group in parts.items()
    }
    missing = [name for name, group in parts.items() if any(np.isnan(part).any() for part in group)]
    reasons = dict.fromkeys(missing, "nothing to divide by at these points")
    keeps = "take a number of the curve, such as that of AUROC(thresholds=None)"
    rows = ResampledCounts(np.array([[counts.get("samples", 0)]]), None, keeps=keeps)  # points have no interval
    return Result(values, signature, counts, reasons, plot_curves, state=rows)
