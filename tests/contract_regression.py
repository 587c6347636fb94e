"""Rows of the contract table for the metrics of exact sums over numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from valor_gpu import regression
from valor_gpu.metric import Metric


def numbers_batch(seed: int, rows: int = 6, columns: int = 0) -> tuple[Tensor, Tensor]:
    """Predictions and targets above 0, ``[N]`` or ``[N, D]``, with equal numbers and large ones among them."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, columns) if columns else (rows,)
    target = torch.randint(1, 40, shape, generator=generator) / 8
    preds = target + torch.randint(0, 9, shape, generator=generator) / 16
    return preds * 1000 if seed == 2 else preds, target * 1000 if seed == 2 else target


def _squared(kind: type[Any]) -> type[Metric[Any]]:
    """A class that reads squares of predictions: most metrics have no other choice that ``update`` depends on."""

    class Squares(kind):  # type: ignore[misc]
        update_family = kind.update_family

        def _update_choices(self) -> dict[str, Any]:
            return {**super()._update_choices(), "squares": True}

        def update(self, preds: Tensor, target: Tensor) -> None:
            super().update(preds.square(), target)

    Squares.__name__ = f"Squares{kind.__name__}"
    return Squares


_ONE = (
    "MeanAbsoluteError",
    "MeanSquaredLogError",
    "MeanAbsolutePercentageError",
    "SymmetricMeanAbsolutePercentageError",
    "WeightedMeanAbsolutePercentageError",
    "LogCoshError",
)
_PAIRS = ("R2Score", "ExplainedVariance", "RelativeSquaredError", "PearsonCorrCoef", "ConcordanceCorrCoef")
_NO_SPREAD = "one row has no spread, so that the number does not exist"
_ROWS: list[tuple[str, dict[str, Any], str]] = [
    *((name, {}, "") for name in _ONE),
    *((name, {}, "" if name in ("RelativeSquaredError", "ExplainedVariance") else _NO_SPREAD) for name in _PAIRS),
    ("MeanSquaredError", {"squared": False}, ""),
    ("NormalizedRootMeanSquaredError", {"normalization": "mean"}, ""),
    ("MinkowskiDistance", {"p": 3}, ""),
    ("TweedieDevianceScore", {"power": 1.5}, ""),
]
_KEPT = (
    "MeanAbsoluteError",
    "WeightedMeanAbsolutePercentageError",
    "R2Score",
    "PearsonCorrCoef",
    "ConcordanceCorrCoef",
)


def _case(name: str, choices: dict[str, Any], why: str, label: str, columns: int = 0) -> dict[str, Any]:
    kind = getattr(regression, name)
    make: Callable[..., Metric[Any]] = partial(kind, **choices)
    batch = partial(numbers_batch, columns=columns)
    single = batch(7, 1)
    return {
        "name": f"{name}{label}",
        "make": make,
        "other": partial(_squared(kind), **choices),
        "batch": batch,
        "empty": partial(batch, 0, 0),
        "single": lambda: single,
        "bad": lambda: (single[0], single[1][:0]),
        "single_like_empty": why,
    }


def _events(seed: int, size: int = 6) -> tuple[Tensor, Tensor]:
    preds, target = numbers_batch(seed, size)
    return preds % 5, target % 5


def regression_rows() -> Iterator[dict[str, Any]]:
    """Keywords of the cases."""
    for row in _ROWS:
        yield _case(*row, "")
    whys = {name: why for name, _, why in _ROWS}
    for name in _KEPT:
        yield _case(name, {"keep_rows": True}, whys[name], "-rows")
    yield _case("R2Score", {"multioutput": "raw_values", "keep_rows": True}, "", "-outputs", 3)
    yield _case("MeanSquaredError", {"num_outputs": 3, "keep_rows": True}, "", "-outputs", 3)
    for kept, name, rows in ((None, "", False), (0, "-steps", False), (None, "-kept", True)):
        kind = partial(regression.CriticalSuccessIndex, keep_sequence_dim=kept, keep_rows=rows)
        yield {
            "name": f"CriticalSuccessIndex{name}",
            "make": partial(kind, 2.0),
            "other": partial(kind, 3.0),
            "batch": _events,
            "empty": partial(_events, 0, 0),
            "single": lambda: (torch.tensor([4.0]), torch.tensor([4.0])),
            "bad": lambda: (torch.zeros(2), torch.full((3,), math.inf)),
            "order_free": kept is None,
        }
