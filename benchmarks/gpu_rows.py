"""Regression and retrieval in a GPU check: update and ``compute``, torchmetrics beside where it takes seconds at most.

No time is kept unless its numbers equal those of the CPU bit by bit. The device may be the CPU.
"""

from __future__ import annotations

import importlib
import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_jobs import Job, OfMetric
from benchmarks.gpu_works import Sizes

REGRESSION = {"mean squared error": "MeanSquaredError", "R2": "R2Score", "Pearson correlation": "PearsonCorrCoef"}
"""Class in both packages, by what a row is called."""
_TOLERANCE = 1e-3
"""torchmetrics adds up in float32."""


def row_jobs(sizes: Sizes) -> list[Job]:
    """One update with all rows or documents, and ``compute``."""
    rows, (few, many) = sizes.numbers, sizes.documents
    jobs = [
        Job(
            f"{name}, {rows:,} float32", partial(_numbers, rows), partial(_metric, "valor_gpu.regression", kind),
            ("torchmetrics, numbers",), sizes.repeats, partial(_metric, "torchmetrics.regression", kind),
            tolerance=_TOLERANCE, seconds=60,
        )
        for name, kind in REGRESSION.items()
    ]  # fmt: skip
    graded = Job(
        f"nDCG, {few[0]:,} queries x {few[1]}", partial(_documents, few), partial(_metric, _RETRIEVAL, _GRADED),
        ("nDCG",), sizes.repeats, partial(_metric, "torchmetrics.retrieval", _GRADED), tolerance=_TOLERANCE, seconds=90,
    )  # fmt: skip
    # torchmetrics calls a function for each query: minutes for so many
    ranked = Job(
        f"average precision, {many[0]:,} queries x {many[1]}", partial(_documents, many),
        partial(_metric, _RETRIEVAL, "RetrievalMAP"), ("documents",), max(sizes.repeats // 4, 1), seconds=90,
    )  # fmt: skip
    return [*jobs, graded, ranked]


_RETRIEVAL, _GRADED = "valor_gpu.retrieval", "RetrievalNormalizedDCG"


def _metric(module: str, kind: str, device: torch.device) -> OfMetric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torchmetrics warns that it keeps all documents
        made: Any = getattr(importlib.import_module(module), kind)()
    return OfMetric(made.to(device))


def _numbers(rows: int, device: torch.device) -> list[tuple[Tensor, ...]]:
    generator = torch.Generator(device).manual_seed(0)
    preds = torch.randn(rows, generator=generator, device=device)
    return [(preds, preds + torch.randn(rows, generator=generator, device=device) / 2)]


def _documents(size: tuple[int, int], device: torch.device) -> list[tuple[Tensor, ...]]:
    """Documents query by query: float32 scores, a quarter of the int64 targets 1, int64 indexes."""
    generator = torch.Generator(device).manual_seed(0)
    preds = torch.rand(size, generator=generator, device=device).reshape(-1)
    target = (torch.rand(size, generator=generator, device=device) < 0.25).long().reshape(-1)
    return [(preds, target, torch.arange(size[0], device=device).repeat_interleave(size[1]))]
