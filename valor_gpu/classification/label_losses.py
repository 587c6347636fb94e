"""Losses of several labels of a sample: what is wrong with a batch, and what their means are resampled from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from valor_gpu.inputs.scores import ScoreBatch
from valor_gpu.ops.error_codes import PREDICTION, TARGET, WEIGHT, first_error
from valor_gpu.stats.row_samples import Arrivals, RowSample

_MOST_WEIGHT = 1e60
_WEIGHTED = "the weights of a mean by positives change with the rows: take average='macro'"
_PARTS = ("skill", "reliability", "resolution", "uncertainty", "within_bins")
_OF_LABELS = "parts of the scores of several labels have no interval: take the metric of one label"


def label_error(batch: ScoreBatch, scores: Tensor, outside: Tensor) -> Tensor:
    """Returns the first error of a batch of labels, int64 ``[]``; elements that are ignored have none but of weight.

    Args:
        batch: multilabel.
        scores: ``[N, L]``.
        outside: whether ``auto`` takes the scores for logits.
    """
    target, how = batch.target, batch.task.activation
    probable, good = (scores >= 0) & (scores <= 1), ~scores.isnan()
    if how == "none":
        good = probable
    elif how == "auto":
        good = torch.where(outside, good, probable)
    counted = torch.ones_like(good) if batch.task.ignore_index is None else target != batch.task.ignore_index
    masks = [(~good & counted, PREDICTION), ((target != 0) & (target != 1) & counted, TARGET)]
    if batch.weight is not None:
        masks.append((~((batch.weight >= 0) & (batch.weight <= _MOST_WEIGHT)), WEIGHT))
    return first_error(masks)


class LabelSample(RowSample):
    """Losses of the labels of rows, and their mean.

    Args:
        name: of the mean loss.
        losses: float64 ``[N, L]``.
        average: over labels.
        arrivals: of the rows.
        own: whether the numbers of labels are mean losses; False: they are made of parts.
    """

    def __init__(self, name: str, losses: Any, average: str, arrivals: Arrivals, own: bool = True) -> None:
        labels = [f"per_class/{place}" for place in range(losses.shape[1])]
        columns = {} if average in ("none", "weighted") else {name: losses.mean(1)}
        columns |= dict(zip(labels, losses.T.copy())) if own else {}
        parts = [*_PARTS, *(f"{part}/{place}" for part in (*_PARTS, name) for place in range(len(labels)))]
        self._refusals = dict.fromkeys(parts if own else [*parts, *labels, "BrierSkillScore"], _OF_LABELS)
        self._refusals |= {name: _WEIGHTED} if average == "weighted" else {}
        super().__init__(columns, ranges=dict.fromkeys(columns, (0.0, math.inf)), arrivals=arrivals)

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers without an interval."""
        return self._refusals
