"""Optimal localisation recall precision errors of detection.

Source: Oksuz, Cam, Kalkan, Akbas, "One Metric to Measure Them All: Localisation Recall Precision (LRP) for Evaluating
Visual Detection Tasks", TPAMI 2021, equations 4 to 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.rows import Floats
from valor_gpu.analysis.score_rankings import Ranking, ResampledRankings, Weights, rankings_of
from valor_gpu.analysis.thresholds import at
from valor_gpu.checks import check_number
from valor_gpu.errors import InputError
from valor_gpu.exports.signature import Signature
from valor_gpu.result_data import ResultData

if TYPE_CHECKING:
    from valor_gpu.analysis.matched import MatchedDetections

NUMBERS = ("olrp", "olrp_localization", "olrp_false_positive", "olrp_false_negative")
THRESHOLDS = "score_threshold_per_class"
NO_TRUTH = "no ground truth of the class counts"
NO_HIT = "no detection of the class is a true positive at this IoU"
_WITHOUT_HIT = (1.0, np.nan, np.nan, 1.0, np.nan)
_CHOICES = ("iou_type", "protocol", "convention", "max_detection_thresholds", "average")


def optimal_lrp(analysis: MatchedDetections, iou: float) -> ResultData:
    """Computes optimal LRP errors; see :meth:`valor_gpu.result.Result.olrp`."""
    check_number("iou", iou, 0, 1)
    iou = float(iou)
    matching = analysis.matching(iou)
    if matching.iou == 1:
        raise InputError(f"iou must be above 0 and below 1 but got {iou:g}: LRP divides by 1 - iou")
    if matching.ious is None:
        _ = analysis.pairs  # raises InputError that names the argument
    classes = matching.rows.classes
    rankings, level = rankings_of(matching)[1], matching.iou
    table = np.stack([class_errors(ranking, level) for ranking in rankings], -1) if rankings else np.empty((5, 0))
    values = _values(table, classes)
    names = [f"{name}_per_class" for name in NUMBERS]
    state = partial(
        ResampledRankings, matching, analysis.image_ids, partial(_replicates, rankings, level, classes),
        [*names, THRESHOLDS], max((len(ranking.scores) for ranking in rankings), default=0),
    )  # fmt: skip
    signature = {"metric": "oLRP", "of": analysis.metric, **chosen(analysis), "iou_threshold": iou}
    counts = {
        "images": matching.rows.lengths.shape[1],
        "ground_truths": int(matching.positives.sum()),
        "detections": int((matching.hits | matching.false_positives).sum()),
        "classes_without_ground_truth": int((matching.positives == 0).sum()),
    }
    return ResultData(values, Signature(signature), counts, _reasons(table, classes), state=state)


def chosen(analysis: MatchedDetections) -> dict[str, Any]:
    """Returns the choices of the evaluation that decide which detections are matched to which ground truths."""
    return {name: analysis.choices[name] for name in _CHOICES if name in analysis.choices}


def class_errors(ranking: Ranking, iou: float, weights: Weights | None = None) -> Floats:
    """Returns the optimal LRP error of a class, its three parts and its threshold, float64 ``[5, ...]``.

    Args:
        ranking: with losses.
        iou: of true positives.
        weights: of images in L replicates; None: each image counts once.

    Returns:
        NaN where the class has no ground truth that counts; 1, NaN, NaN, 1, NaN where it has no true positive.
    """
    kept = ranking.kept(weights)
    assert kept.losses is not None
    positives = np.asarray(kept.positives)
    if not kept.tp.shape[-1]:
        return _table(positives, [np.full(positives.shape, number) for number in _WITHOUT_HIT])
    with np.errstate(invalid="ignore", divide="ignore"):
        missed = positives[..., None] - kept.tp
        errors = (kept.losses / (1 - iou) + kept.fp + missed) / (positives[..., None] + kept.fp)
        errors[np.diff(kept.tp, prepend=0) == 0] = np.inf  # no true positive of the replicate has this score
        best = errors.shape[-1] - 1 - errors[..., ::-1].argmin(-1)  # of equal ones that of the lowest threshold
        losses, tp, fp, error = (at(part, best) for part in (kept.losses, kept.tp, kept.fp, errors))
        parts = [error, losses / tp, fp / (tp + fp), (positives - tp) / positives, ranking.thresholds[best]]
    return _table(positives, [np.where(tp > 0, part, number) for part, number in zip(parts, _WITHOUT_HIT)])


def _table(positives: NDArray[Any], rows: Sequence[NDArray[Any]]) -> Floats:
    table: Floats = np.where(positives > 0, np.stack(rows), np.nan)
    return table


def mean_where(table: Floats) -> Floats:
    """Means ``[...]`` of what exists in ``[..., K]``, NaN where nothing does."""
    known = table == table
    total = np.where(known, table, 0.0).sum(-1)
    number = known.sum(-1)
    found: Floats = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return found


def _values(table: Floats, classes: Sequence[str]) -> dict[str, Any]:
    """Values of ``[5, K]``."""
    means = zip(NUMBERS, mean_where(table[:4]).tolist())
    names = (*(f"{name}_per_class" for name in NUMBERS), THRESHOLDS)
    return {**dict(means), **{name: dict(zip(classes, row)) for name, row in zip(names, table.tolist())}}


def _replicates(
    rankings: Sequence[Ranking], iou: float, classes: Sequence[str], weights: NDArray[np.uint8]
) -> dict[str, Floats]:
    """Numbers of replicates by leaf names."""
    packed = Weights(weights)
    tables = [class_errors(ranking, iou, packed) for ranking in rankings]
    table = np.stack(tables, -1) if tables else np.empty((5, weights.shape[1], 0))  # [5, L, K]
    found = dict(zip(NUMBERS, mean_where(table[:4])))
    for name, part in zip((*(f"{name}_per_class" for name in NUMBERS), THRESHOLDS), table):
        found |= {f"{name}/{of}": part[:, place] for place, of in enumerate(classes)}
    return found


def _reasons(table: Floats, classes: Sequence[str]) -> dict[str, str]:
    """Why numbers are NaN."""
    reasons = {}
    for name, row in zip((*(f"{name}_per_class" for name in NUMBERS), THRESHOLDS), table):
        for place in np.flatnonzero(row != row).tolist():
            absent = table[0, place] != table[0, place]
            reasons[f"{name}/{classes[place]}"] = NO_TRUTH if absent else NO_HIT
    for name, mean in zip(NUMBERS, mean_where(table[:4])):
        if mean != mean:
            nothing = bool((table[0] != table[0]).all())
            reasons[name] = "no ground truth counts" if nothing else "no class has a true positive at this IoU"
    return reasons
