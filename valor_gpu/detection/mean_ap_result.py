"""The result of MeanAveragePrecision: its numbers, and what answers questions about them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from valor_gpu._frozen import replaced
from valor_gpu.detection.mean_ap_choices import MeanApChoices
from valor_gpu.detection.mean_ap_numbers import NumberParts, Parts, number_parts, resampled_images
from valor_gpu.reduce.precision_recall_plot import plot_precision_recall
from valor_gpu.result import Result

_GRIDS = ("iou_thresholds", "recall_thresholds")


def mean_ap_result(
    choices: MeanApChoices, parts: Parts, tie_interval: bool = False, error: Tensor | None = None
) -> Result:
    """Returns all numbers of a metric.

    Args:
        choices: of the metric.
        parts: prefixes of geometries, and their records of all ranks.
        tie_interval: also give the bounds of ``map`` over all orders of tied scores.
        error: int64 ``[]`` error code of records on CUDA.
    """
    made = [number_parts(choices, records, tie_interval, error) for _, records in parts]
    state, analysis = partial(resampled_images, choices, parts), partial(_analyses, choices, parts)
    if len(made) > 1:
        return Result(*_joined([prefix for prefix, _ in parts], made), state=state, analysis=analysis)
    return Result(*made[0], plot_precision_recall, state=state, analysis=analysis)


def _joined(prefixes: Sequence[str], made: Sequence[NumberParts]) -> NumberParts:
    """Joins numbers of the same detections: counts and thresholds once, other values after a prefix.

    The highest of each count is taken: those of boxes are 0 for masks.
    """
    first = made[0]
    values, reasons = (
        {
            prefix + name: v
            for prefix, part in zip(prefixes, made)
            for name, v in getattr(part, field).items()
            if name not in _GRIDS
        }
        for field in ("values", "reasons")
    )
    values.update({name: first.values[name] for name in _GRIDS})
    counts = {name: max(part.counts[name] for part in made) for name in first.counts}
    return NumberParts(values, first.signature, counts, reasons)


def _analyses(choices: MeanApChoices, parts: Parts) -> Any:
    """What answers questions about the numbers: one for each geometry by its name, or the only one."""
    from valor_gpu.detection.mean_ap_analysis import MeanApAnalysis

    if len(parts) == 1:
        return MeanApAnalysis(choices, parts[0][1])
    return {
        name: MeanApAnalysis(replaced(choices, iou_type=(name,), config={**choices.config, "iou_type": name}), records)
        for name, (_, records) in zip(choices.iou_type, parts)
    }
