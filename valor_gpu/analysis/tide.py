"""What each kind of error costs in average precision: TIDE, Bolya et al. 2020 (ECCV, arXiv 2008.08115)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.analysis.rows import Bools, Floats, Ints
from valor_gpu.analysis.tide_curves import State
from valor_gpu.analysis.tide_kinds import DETECTION_KINDS, check_thresholds, kinds_of
from valor_gpu.analysis.tide_mend import GAIN_NAMES, MAIN_KINDS, Judged, Mended, descending
from valor_gpu.analysis.tide_program import RULE, judged_by_program
from valor_gpu.analysis.tide_result import DetectionErrors, plot_errors
from valor_gpu.checks import check_choice, check_number
from valor_gpu.errors import InputError
from valor_gpu.exports.signature import Signature

if TYPE_CHECKING:
    from valor_gpu.analysis.matched import MatchedDetections

PROTOCOLS = ("coco", "tidecv")

_NOTHING = "no ground truth counts for it"
_EMPTY = "no class of the mean is left once the errors are mended"
_EMPTIED = "nothing of the class is left in the mean once its errors are mended"


def detection_errors(
    analysis: MatchedDetections,
    iou: float | Sequence[float] = 0.5,
    background: float | Sequence[float] = 0.1,
    protocol: str = "coco",
) -> DetectionErrors:
    """Computes the gains of mending each kind of error; see :meth:`valor_gpu.result.Result.errors`."""
    check_choice("protocol", protocol, PROTOCOLS)
    many = _is_several(iou) or _is_several(background)
    pairs = _threshold_pairs(iou, background)
    parts = [_one(analysis, *pair, protocol) for pair in pairs]
    kept = {name: choice for name, choice in analysis.choices.items() if name not in ("metric", "iou_thresholds")}
    asked = {"metric": "DetectionErrors", "of": analysis.metric}
    texts = [f"{p:g} over {b:g}" if _is_several(background) else f"{p:g}" for p, b in pairs]
    if len(set(texts)) < len(texts):
        raise InputError(f"iou and background must name each pair of thresholds once but got {', '.join(texts)}")
    thresholds = ([p for p, _ in pairs], [b for _, b in pairs]) if many else pairs[0]
    signature = Signature({**asked, **kept, **dict(zip(("iou", "background"), thresholds)), "protocol": protocol})
    if not many:
        values, counts, reasons = parts[0]
        return DetectionErrors(values, signature, counts, reasons, plot_errors)
    shared = {name: parts[0][1][name] for name in ("images", "ground_truths")} if parts else {}
    return DetectionErrors(
        {text: {**values, "counts": counts} for text, (values, counts, _) in zip(texts, parts)}, signature, shared,
        {f"{text}/{name}": why for text, (*_, reasons) in zip(texts, parts) for name, why in reasons.items()},
        plot_errors,
    )  # fmt: skip


def _is_several(thresholds: Any) -> bool:
    """Whether these are thresholds, not one: a sequence or an array, but no text."""
    several = isinstance(thresholds, Sequence) or getattr(thresholds, "ndim", 0) == 1
    return several and not isinstance(thresholds, (str, bytes))


def _threshold_pairs(iou: float | Sequence[float], background: float | Sequence[float]) -> list[tuple[float, float]]:
    columns: dict[str, list[Any]] = {}
    for name, given in (("iou", iou), ("background", background)):
        columns[name] = list(given) if _is_several(given) else [given]  # type: ignore[arg-type]
        if not columns[name]:
            raise InputError(f"{name} must hold at least one threshold but is empty")
        for threshold in columns[name]:
            check_number(name, threshold, 0, 1)
    sizes = [len(column) for column in columns.values()]
    if min(sizes) < max(sizes) and _is_several(iou) and _is_several(background):
        raise InputError(f"iou and background must have one length but have {sizes[0]} and {sizes[1]} thresholds")
    of_all, to_all = ([float(x) for x in column] * (max(sizes) // len(column)) for column in columns.values())
    return list(zip(of_all, to_all))


def _one(
    analysis: MatchedDetections, iou: float, background: float, protocol: str
) -> tuple[dict[str, Any], dict[str, int], dict[str, str]]:
    """Values, counts and reasons at one pair of thresholds."""
    if protocol == "tidecv":
        check_thresholds(analysis, iou, background)
        judged = judged_by_program(analysis.rows, analysis.pairs, iou, background)
        values, reasons = _values(judged, lambda state: state.average_precision(RULE))
        values["gains"].update({name: max(values["gains"][name], 0.0) for name in MAIN_KINDS if
                                not math.isnan(values["gains"][name])})  # fmt: skip
    else:
        judged = _judged(analysis, iou, background)
        values, reasons = _values(judged, analysis.average_precision)
    by_class = _counts(judged)
    names = analysis.rows.classes
    values["counts_per_class"] = {name: dict(zip(names, part.tolist())) for name, part in by_class.items()}
    counts = {"images": analysis.images, **{name: int(part.sum()) for name, part in by_class.items()}}
    return values, counts, reasons


def _judged(analysis: MatchedDetections, iou: float, background: float) -> Judged:
    """Errors by the rules of the result itself."""
    errors = kinds_of(analysis, iou, background)
    matching = analysis.matching(iou)
    assert matching.found is not None
    counted = matching.hits | matching.false_positives
    order = descending(analysis.rows.scores, np.flatnonzero(counted))
    return Judged(analysis.rows, analysis.rows.kept, matching.hits, counted, matching.found, errors, order, order)


def _values(judged: Judged, average: Callable[[State], tuple[float, Floats]]) -> tuple[dict[str, Any], dict[str, str]]:
    """AP and gains, of all classes and of each, and why one is NaN."""
    names, states = judged.rows.classes, Mended(judged)
    ap, of_classes = average(states.base())
    mended = {name: average(state) for name, state in states.mended()}
    gains = {name: mended[name][0] - ap for name in GAIN_NAMES}
    per_class = {name: dict(zip(names, (mended[name][1] - of_classes).tolist())) for name in GAIN_NAMES}
    ap_per_class = dict(zip(names, of_classes.tolist()))
    absent = {name for name, number in ap_per_class.items() if math.isnan(number)}
    reasons = {f"ap_per_class/{name}": _NOTHING for name in absent}
    if math.isnan(ap):
        reasons["ap"] = _NOTHING
    for kind, gain in gains.items():
        if math.isnan(gain):
            reasons[f"gains/{kind}"] = _NOTHING if math.isnan(ap) else _EMPTY
        for name, number in per_class[kind].items():
            if math.isnan(number):
                reasons[f"gains_per_class/{kind}/{name}"] = _NOTHING if name in absent else _EMPTIED
    return {"ap": ap, "gains": gains, "ap_per_class": ap_per_class, "gains_per_class": per_class}, reasons


def _counts(judged: Judged) -> Mapping[str, Ints]:
    """int64 ``[K]`` by name: detections by their own class, ground truths by theirs."""
    rows, errors, table = judged.rows, judged.errors, judged.counts()
    of_kinds = table.sum(axis=1)

    def ground_truths(chosen: Bools) -> Ints:
        return np.bincount(rows.gt_labels[chosen], minlength=len(rows.classes))

    return {
        "ground_truths": ground_truths(rows.gt_counts),
        "hits": table[:, 1, -1],
        **{name: of_kinds[:, code] for code, name in enumerate(DETECTION_KINDS)},
        "missed": ground_truths(errors.missed),
        "false_positives": table[:, 1, :-1].sum(axis=1),
        "false_negatives": ground_truths(rows.gt_counts & ~judged.found),
        "ignored": np.bincount(rows.labels[judged.kept & ~judged.counted], minlength=len(rows.classes)),
    }
