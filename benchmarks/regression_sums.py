"""The benchmark of metrics of exact sums: valor_gpu, torchmetrics and one plain read of the numbers, in turn.

A time is that of ``update`` and ``compute`` of a new metric on float32 rows. The read is ``torch.sum`` of predictions
and of targets, which bounds what one pass over the memory can take.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks import machine
from benchmarks.regression_ranks import by_size

CASES = ("sums",)
NAMES = (
    "MeanAbsoluteError", "MeanSquaredError", "R2Score", "PearsonCorrCoef", "MeanSquaredLogError", "LogCoshError",
    "MinkowskiDistance", "TweedieDevianceScore",
)  # fmt: skip
_ARGUMENTS: dict[str, dict[str, float]] = {"MinkowskiDistance": {"p": 3}, "TweedieDevianceScore": {"power": 1.5}}
_POSITIVE = ("MeanSquaredLogError", "TweedieDevianceScore")
"""Metrics of numbers above 0: their rows are the sizes of the others and 0.01 more."""
_PACKAGES = ("valor_gpu", "torch", "torchmetrics", "numpy")
_SIZES, _QUICK_SIZES = (10**3, 10**6, 10**7), (100, 1000)
_TOLERANCE = 1e-3
"""torchmetrics sums in float32."""
_READ = "read"


def pairs(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Targets, and predictions that are one standard deviation off."""
    target, noise = torch.randn((2, rows), generator=torch.Generator().manual_seed(seed))
    return target + noise, target


def _once(kind: Callable[[], Any], preds: Tensor, target: Tensor) -> float:
    metric = kind()
    metric.update(preds, target)
    return float(metric.compute())


def measure(name: str, rows: int, seed: int, repeats: int) -> list[dict[str, Any]]:
    """The rows of both packages and of the read, of runs that alternate."""
    import torchmetrics.regression

    import valor_gpu.regression

    batch = pairs(rows, seed)
    if name in _POSITIVE:
        batch = batch[0].abs() + 0.01, batch[1].abs() + 0.01
    choices = _ARGUMENTS.get(name, {})
    mine, theirs = (partial(getattr(package.regression, name), **choices) for package in (valor_gpu, torchmetrics))
    tools: dict[str, Callable[[], float]] = {
        "valor_gpu": lambda: _once(mine, *batch),
        "torchmetrics": lambda: _once(theirs, *batch),
        _READ: lambda: float(batch[0].sum() + batch[1].sum()),
    }
    seconds: dict[str, list[float]] = {tool: [] for tool in tools}
    values = {}
    for _ in range(repeats + 1):  # the first run of each is not counted
        for tool, work in tools.items():
            start = time.perf_counter()
            values[tool] = work()
            seconds[tool].append(time.perf_counter() - start)
    gap = abs(values["valor_gpu"] - values["torchmetrics"])
    status = "ok" if gap <= _TOLERANCE * max(1, abs(values["valor_gpu"])) else f"differs by {gap:.1e}"
    base = {"case": "sums", "path": name, "rows": rows, "status": status}
    return [
        {**base, "tool": tool, "seconds": {"median": statistics.median(found[1:])}} for tool, found in seconds.items()
    ]


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All metrics, as the JSON that is stored."""
    torch.set_num_threads(arguments.threads)
    found: list[dict[str, Any]] = []
    for name in NAMES:
        for rows in _QUICK_SIZES if arguments.quick else _SIZES:
            print(f"  {name}, {rows:,} rows", file=sys.stderr, flush=True)
            found += measure(name, rows, arguments.seed, arguments.repeats)
    choices = {"quick": arguments.quick, "repeats": arguments.repeats, "threads": arguments.threads}
    return {"kind": "regression_sums", **machine.describe(_PACKAGES), **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """The newest result as a Markdown table and how it was measured."""
    result = results[-1]
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if v and k != "valor_gpu")
    about = (
        "valor_gpu, in brackets torchmetrics and one read of the numbers by `torch.sum`. float32 rows; one process,"
        f" {result['threads']} threads, {result['machine']['cpus']} CPUs, {result['machine']['processor']}; medians of"
        f" {result['repeats']} runs in turn, numbers agree to {_TOLERANCE:g}. {versions}. Commit"
        f" {result['commit'][:10]}, {result['date'][:10]}."
    )
    return by_size(result["rows"], _cell) + "\n\n" + about


def _cell(rows: list[dict[str, Any]]) -> str:
    if not rows or rows[0]["status"] != "ok":
        return rows[0]["status"] if rows else ""
    seconds = {row["tool"]: row["seconds"]["median"] for row in rows}
    mine, theirs, read = (seconds[tool] for tool in ("valor_gpu", "torchmetrics", _READ))
    return f"**{_time(mine)}** ({_time(theirs)}, {theirs / mine:.3g}x; read {_time(read)})"


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
