"""Rows of the contract table for the metrics of regression whose state is rows, or sums of scores of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from valor_gpu import regression

Batch = tuple[Tensor, Tensor]
_FEW_ROWS = "a correlation takes two rows"


def pairs_batch(seed: int, size: int = 6) -> Batch:
    """Whole numbers with ties, correlated, and a prediction that is NaN."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(5, (size,), generator=generator).float()
    preds = target + torch.randint(4, (size,), generator=generator)
    return preds.index_fill(0, torch.arange(3, max(size, 3))[:1], math.nan), target


def vectors_batch(seed: int, size: int = 5) -> Batch:
    """Positive vectors of four numbers."""
    first, second = torch.rand((2, size, 4), generator=torch.Generator().manual_seed(seed)) + 0.01
    return first, second


def forecasts_batch(seed: int, size: int = 5, members: int = 4) -> Batch:
    """Sorted numbers for each of the targets."""
    generator = torch.Generator().manual_seed(seed)
    preds = torch.randn((size, members), generator=generator).sort(1).values
    return preds, torch.randn(size, generator=generator)


def _bad_shape(batch: Callable[..., Batch]) -> Batch:
    preds, target = batch(3)
    return preds, target[:-1]


def _negative(batch: Callable[..., Batch]) -> Batch:
    first, second = batch(3)
    return first, second - 1


def _row(name: str, batch: Callable[..., Batch], choices: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    metric = getattr(regression, name.partition("-")[0])
    return {
        "name": name,
        "make": partial(metric, **choices),
        "other": partial(metric, **other),
        "batch": batch,
        "empty": partial(batch, 0, 0),
        "single": partial(batch, 7, 1),
        "bad": partial(_bad_shape, batch),
    }


def row_metric_rows() -> Iterator[dict[str, Any]]:
    """Keywords of a case for each metric of rows."""
    few = {"single_like_empty": _FEW_ROWS}
    omit = {"nan_policy": "omit"}
    yield {**_row("SpearmanCorrCoef", pairs_batch, omit, {}), **few}
    yield {**_row("KendallRankCorrCoef", pairs_batch, {**omit, "variant": "c", "t_test": True}, {}), **few}
    for kept, choices in (("", {}), ("-kept", {"keep_rows": True})):
        yield _row(f"CosineSimilarity{kept}", vectors_batch, choices, {**choices, "reduction": "mean"})
        kl = _row(f"KLDivergence{kept}", vectors_batch, choices, {**choices, "log_prob": True})
        yield {**kl, "bad": partial(_negative, vectors_batch)}
        made = partial(_row, f"ContinuousRankedProbabilityScore{kept}", forecasts_batch)
        yield made(choices, {**choices, "fair": True})
        pair = partial(forecasts_batch, members=2)
        yield _row(f"IntervalCoverage{kept}", pair, choices, {**choices, "confidence": 0.5})
    js = _row("JensenShannonDivergence", vectors_batch, {"reduction": "none"}, {"reduction": "none", "log_prob": True})
    yield {**js, "order_free": False}
    thirds = [0.1, 0.4, 0.7, 0.9]
    yield _row("PinballLoss", forecasts_batch, {"quantiles": thirds}, {"quantiles": [0.2, 0.3, 0.5, 0.6]})
    rows = {"keep_rows": True}
    yield _row("QuantileCRPS", forecasts_batch, {"quantiles": thirds, **rows}, {"quantiles": thirds[::-1], **rows})
