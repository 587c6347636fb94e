"""Histograms of scores as the bootstrap asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from valor_gpu.classification.resampled_classes import rows_of
from valor_gpu.reduce.ranking import SEPARATED
from valor_gpu.stats.counts import ResampledCounts

if TYPE_CHECKING:
    from valor_gpu.classification.ranking_values import RankedScores
    from valor_gpu.classification.score_metric import Histogram
    from valor_gpu.stats.resample import Floats

KEEP_SCORES = "make the metric with thresholds=None, which keeps the scores"
NO_ROWS = "histograms of classes do not say which scores are of one row: thresholds=None keeps the scores"


def resampled_histogram(metric: RankedScores, state: Histogram) -> ResampledCounts:
    """Returns the histograms of a metric of ranks as the bootstrap asks them: a score is known by its bucket.

    Raises:
        InputError: they hold sums of weights.
    """
    positives, every = state.counts.cpu().numpy()
    classes, name = len(every), type(metric).__name__
    rows, ignored = state.seen.tolist()[:2]
    kept = classes * (rows - ignored) if metric.task.kind == "multiclass" else classes * rows - ignored
    tables = rows_of(np.concatenate((positives, every - positives), 1), kept)
    average = {name: NO_ROWS} if classes > 1 and metric.average != "none" else {}
    if metric.average == "micro" and average:
        return ResampledCounts(tables, None, "curve", refused=average, keeps=KEEP_SCORES)
    names = [name] if classes == 1 else [f"per_class/{index}" for index in range(classes)]

    def numbers(table: Floats) -> dict[str, float]:
        hits, others = np.split(table, 2, 1)
        values = metric._binned_value(torch.from_numpy(np.stack((hits, hits + others))))
        return dict(zip(names, values.tolist()))

    found = numbers(tables.astype(np.float64))
    refused = average | {each: SEPARATED for each, value in found.items() if value in (0, 1)}
    held = positives.sum(1) if metric._row else np.minimum(positives.sum(1), (every - positives).sum(1))
    supports = dict(zip(names, held.astype(np.int64).tolist()))
    return ResampledCounts(tables, numbers, "curve", supports, refused, keeps=KEEP_SCORES)
