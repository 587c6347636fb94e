"""The benchmark of rank correlations and scores of forecasts: valor_gpu and torchmetrics on the same rows, in turn.

A time is that of ``update`` and ``compute`` of a new metric. torchmetrics is not run where it would take minutes: it
compares each pair of rows for Kendall's tau, and each pair of members of an ensemble at once in memory.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import machine

CASES = ("ranks",)
_PACKAGES = ("valor_gpu", "torch", "torchmetrics", "numpy")
_SIZES, _QUICK_SIZES = (100, 10_000, 1_000_000), (100, 1000)
_MEMBERS = 20
_TOLERANCE = 2e-4
"""torchmetrics computes in float32."""

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Work:
    """One metric.

    Attributes:
        name: of the class in both packages.
        batch: arguments of ``update`` for so many rows.
        most: rows beyond which torchmetrics is not run.
        choices: arguments of both classes.
    """

    name: str
    batch: Callable[[int, int], Batch]
    most: int
    choices: tuple[tuple[str, Any], ...] = ()


def _pairs(rows: int, seed: int) -> Batch:
    preds, noise = torch.randn((2, rows), generator=torch.Generator().manual_seed(seed))
    return preds, preds + noise


def _ensembles(rows: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((rows, _MEMBERS), generator=generator), torch.randn(rows, generator=generator)


def _distributions(rows: int, seed: int) -> Batch:
    first, second = torch.rand((2, rows, _MEMBERS), generator=torch.Generator().manual_seed(seed)) + 0.01
    return first, second


WORKS = (
    Work("SpearmanCorrCoef", _pairs, 10**6),
    Work("KendallRankCorrCoef", _pairs, 10**4),
    Work("ContinuousRankedProbabilityScore", _ensembles, 10**6),
    Work("CosineSimilarity", _distributions, 10**6, (("reduction", "mean"),)),
    Work("KLDivergence", _distributions, 10**6),
    Work("JensenShannonDivergence", _distributions, 10**6),
)


def measure(work: Work, rows: int, seed: int, repeats: int) -> list[dict[str, Any]]:
    """Our row and torchmetrics', of runs that alternate."""
    import torchmetrics.regression

    import valor_gpu.regression

    batch, choices = work.batch(rows, seed), dict(work.choices)
    tools: dict[str, Any] = {"valor_gpu": getattr(valor_gpu.regression, work.name)}
    if rows <= work.most:
        tools["torchmetrics"] = getattr(torchmetrics.regression, work.name)
    seconds: dict[str, list[float]] = {tool: [] for tool in tools}
    values = {}
    for _ in range(repeats + 1):  # the first run of each is not counted
        for tool, kind in tools.items():
            start = time.perf_counter()
            metric = kind(**choices)
            metric.update(*batch)
            values[tool] = float(metric.compute())
            seconds[tool].append(time.perf_counter() - start)
    gap = abs(values["valor_gpu"] - values.get("torchmetrics", values["valor_gpu"]))
    status = "ok" if gap <= _TOLERANCE * max(1, abs(values["valor_gpu"])) else f"differs by {gap:.1e}"
    base = {"case": "ranks", "path": work.name, "rows": rows}
    return [
        {**base, "tool": tool, "status": status, "seconds": {"median": statistics.median(found[1:])}}
        for tool, found in seconds.items()
    ]


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All works, as the JSON that is stored."""
    torch.set_num_threads(arguments.threads)
    found: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics warns that it keeps all rows
        for work in WORKS:
            for rows in _QUICK_SIZES if arguments.quick else _SIZES:
                print(f"  {work.name}, {rows:,} rows", file=sys.stderr, flush=True)
                found += measure(work, rows, arguments.seed, arguments.repeats)
    about = machine.describe(_PACKAGES)
    choices = {"quick": arguments.quick, "repeats": arguments.repeats, "threads": arguments.threads}
    return {"kind": "regression_ranks", **about, **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """The newest result as a Markdown table and how it was measured."""
    result = results[-1]
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if v and k != "valor_gpu")
    about = (
        f"valor_gpu, and torchmetrics in brackets. One process, {result['threads']} threads,"
        f" {result['machine']['cpus']} CPUs, {result['machine']['processor']}; rows of {_MEMBERS} numbers; medians of"
        f" {result['repeats']} runs in turn, numbers agree to {_TOLERANCE:g}. {versions}. Commit"
        f" {result['commit'][:10]}, {result['date'][:10]}."
    )
    return by_size(result["rows"], _cell) + "\n\n" + about


def by_size(rows: list[dict[str, Any]], cell: Callable[[list[dict[str, Any]]], str]) -> str:
    """Returns a Markdown table of metrics by numbers of rows; ``cell`` writes the rows of a metric and a size."""
    sizes = sorted({row["rows"] for row in rows})
    lines = [f"| `update` and `compute` | {' | '.join(f'{size:,} rows' for size in sizes)} |"]
    lines.append("| --- |" + " --- |" * len(sizes))
    for name in dict.fromkeys(row["path"] for row in rows):
        cells = (cell([row for row in rows if (row["path"], row["rows"]) == (name, size)]) for size in sizes)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]]) -> str:
    seconds = {row["tool"]: row["seconds"]["median"] for row in rows}
    if not rows or rows[0]["status"] != "ok":
        return rows[0]["status"] if rows else ""
    mine, theirs = seconds["valor_gpu"], seconds.get("torchmetrics", math.nan)
    other = "not run" if math.isnan(theirs) else f"{_time(theirs)}, {theirs / mine:.3g}x"
    return f"**{_time(mine)}** ({other})"


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"
