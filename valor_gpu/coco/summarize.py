"""The twelve numbers of ``COCOeval.summarize`` and their lines. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.params import Params
from valor_gpu.errors import InputError


class LimitsError(InputError, IndexError):
    """The summary needs more max-detection limits than there are."""


class _SummaryLine(NamedTuple):
    """``precision`` or recall, one IoU threshold or all, an area range, and which limit: 0, 1, 2, or None for 100."""

    precision: bool
    iou: float | None
    area: str
    limit: int | None


_LINES = (
    _SummaryLine(True, None, "all", None),
    _SummaryLine(True, 0.5, "all", 2),
    _SummaryLine(True, 0.75, "all", 2),
    _SummaryLine(True, None, "small", 2),
    _SummaryLine(True, None, "medium", 2),
    _SummaryLine(True, None, "large", 2),
    _SummaryLine(False, None, "all", 0),
    _SummaryLine(False, None, "all", 1),
    _SummaryLine(False, None, "all", 2),
    _SummaryLine(False, None, "small", 2),
    _SummaryLine(False, None, "medium", 2),
    _SummaryLine(False, None, "large", 2),
)


def summarize(params: Params, arrays: Mapping[str, Any], strict: bool) -> NDArray[np.float64]:
    """Prints the lines and returns their numbers, float64 ``[12]``; -1 where nothing counts.

    Args:
        params: thresholds, ranges and limits of the arrays.
        arrays: ``COCOeval.eval``.
        strict: the first line is at 100 detections and the last ones at the third limit, as in pycocotools; else at the
            largest limit.
    """
    stats = np.zeros(len(_LINES))
    for n, line in enumerate(_LINES):
        limit = _limit(params.maxDets, line, strict)
        stats[n] = _mean(params, arrays, line, limit)
        print(_text(params, line, limit, stats[n]))
    return stats


def _limit(limits: Sequence[int], line: _SummaryLine, strict: bool) -> int:
    if not strict:
        return limits[-1] if line.limit in (None, 2) else limits[min(line.limit or 0, len(limits) - 1)]
    if line.limit is None:
        return 100
    if line.limit >= len(limits):
        raise LimitsError(f"params.maxDets must hold at least 3 limits for the summary but got {list(limits)}")
    return limits[line.limit]


def _text(params: Params, line: _SummaryLine, limit: int, value: float) -> str:
    kind = ("Average Precision", "(AP)") if line.precision else ("Average Recall", "(AR)")
    first, last = params.iouThrs[0], params.iouThrs[-1]
    iou = f"{first:0.2f}:{last:0.2f}" if line.iou is None else f"{line.iou:0.2f}"
    return f" {kind[0]:<18} {kind[1]} @[ IoU={iou:<9} | area={line.area:>6s} | maxDets={limit:>3d} ] = {value:0.3f}"


def _mean(params: Params, arrays: Mapping[str, Any], line: _SummaryLine, limit: int) -> float:
    """Mean over what counts; the values stand in the order of the array, which decides the last bit of the sum."""
    areas = [a for a, name in enumerate(params.areaRngLbl) if name == line.area]
    limits = [m for m, candidate in enumerate(params.maxDets) if candidate == limit]
    values, limits = _table(arrays, line.precision, limits, len(params.maxDets))
    if line.iou is not None:
        values = values[np.flatnonzero(np.asarray(params.iouThrs) == line.iou)]
    chosen = values[..., areas, limits]
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
