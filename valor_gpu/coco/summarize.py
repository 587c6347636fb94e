"""The numbers of ``COCOeval.summarize`` and ``LVISEval.summarize``, and their lines. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.params import Params
from valor_gpu.coco.protocols import FREQUENCIES, PROTOCOLS, Line, Protocol
from valor_gpu.errors import InputError


class LimitsError(InputError, IndexError):
    """The summary needs more max-detection limits than there are."""


def summarize(
    params: Params, arrays: Mapping[str, Any], strict: bool, groups: Mapping[str, float] | None = None
) -> NDArray[np.float64]:
    """Prints the lines of the protocol of ``params.iouType`` and returns their numbers; -1 where nothing counts.

    Args:
        params: thresholds, ranges and limits of the arrays.
        arrays: ``COCOeval.eval``.
        strict: boxes have the first line at 100 detections and the last ones at the third limit, keypoints all at 20,
            as in pycocotools; else at the largest limit.
        groups: the numbers of the lines over parts of the images, by the name of the part.

    Returns:
        float64 ``[lines]``.
    """
    protocol = PROTOCOLS[params.iouType]
    stats = np.zeros(len(protocol.lines))
    for n, line in enumerate(protocol.lines):
        limit = _limit(params.maxDets, line, strict)
        stats[n] = groups[line.group] if line.group and groups else line_mean(params, arrays, line, limit)
        print(line_text(protocol, line, params.iouThrs, limit, stats[n]))
    return stats


def _limit(limits: Sequence[int], line: Line, strict: bool) -> int:
    if not strict:
        return limits[-1] if line.limit is not None or line.nth == 2 else limits[min(line.nth, len(limits) - 1)]
    if line.limit is not None:
        return line.limit
    if line.nth >= len(limits):
        raise LimitsError(f"params.maxDets must hold at least 3 limits for the summary but got {list(limits)}")
    return limits[line.nth]


def line_text(protocol: Protocol, line: Line, thresholds: Sequence[float], limit: int, value: float) -> str:
    """The line of a summary as the protocol's own package prints it."""
    kind, short = ("Average Precision", "(AP)") if line.precision else ("Average Recall", "(AR)")
    iou = f"{thresholds[0]:0.2f}:{thresholds[-1]:0.2f}" if line.iou is None else f"{line.iou:0.2f}"
    text = protocol.group_text if line.group and protocol.group_text else protocol.text
    return text.format(
        kind=kind, short=short, iou=iou, area=line.area, limit=limit, group=line.group or "all", value=value
    )


def line_mean(params: Params, arrays: Mapping[str, Any], line: Line, limit: int) -> float:
    """Mean over what counts; the values stand in the order of the array, which decides the last bit of the sum."""
    areas = [a for a, name in enumerate(params.areaRngLbl) if name == line.area]
    limits = [m for m, candidate in enumerate(params.maxDets) if candidate == limit]
    values, limits = _table(arrays, line.precision, limits, len(params.maxDets))
    if line.iou is not None:
        values = values[np.flatnonzero(np.asarray(params.iouThrs) == line.iou)]
    # A view is enough of one range and one limit: the lists would copy.
    chosen = values[..., areas[0], limits[0]] if len(areas) == len(limits) == 1 else values[..., areas, limits]
    counting = chosen[chosen > -1]
    return float(np.mean(counting)) if len(counting) else -1.0


def _table(arrays: Mapping[str, Any], precision: bool, limits: list[int], count: int) -> tuple[Any, list[int]]:
    """The array of a line and the positions of its limits there: the last limit alone when that is enough."""
    if not precision:
        return arrays["recall"], limits
    last = arrays.last_precision if isinstance(arrays, EvalDict) else None
    if last is not None and all(m == count - 1 for m in limits):
        return last, [0] * len(limits)
    return arrays["precision"], limits


def federated_means(params: Any, arrays: Mapping[str, Any], groups: Sequence[list[int]]) -> dict[str, Any]:
    """Computes the means of LVIS by the names of lvis-api; -1 where nothing counts.

    Args:
        params: :class:`valor_gpu.coco.LVISParams` of the arrays.
        arrays: ``LVISEval.eval``.
        groups: for each frequency the positions of its categories.
    """
    return {
        line.name.format(limit=params.max_dets): _federated_mean(params, arrays, line, groups)
        for line in PROTOCOLS["lvis"].lines
    }


def _federated_mean(p: Any, arrays: Mapping[str, Any], line: Line, groups: Sequence[list[int]]) -> Any:
    """Mean over what counts; the values stand in the order of the array, which decides the last bit of the sum."""
    values = arrays["precision" if line.precision else "recall"]
    if line.iou is not None:
        values = values[np.flatnonzero(np.asarray(p.iou_thrs) == line.iou)]
    if line.group:
        group = groups[FREQUENCIES.index(line.group)] if p.use_cats else []
        values = values[..., np.array(group, np.int64), :]
    chosen = values[..., [a for a, name in enumerate(p.area_rng_lbl) if name == line.area]]
    counting = chosen[chosen > -1]
    return np.mean(counting) if len(counting) else -1


def federated_text(line: Line, thresholds: Any, limit: int, value: float) -> str:
    """The line of a summary as lvis-api prints it: areas by their first letter."""
    short = line.area if line.area == "all" else line.area[0]
    shown = Line(line.precision, line.iou, short, group=line.group)
    return line_text(PROTOCOLS["lvis"], shown, thresholds, limit, value)
