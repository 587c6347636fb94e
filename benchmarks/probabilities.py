"""The benchmark of metrics of probabilities: CPU seconds of an update and a compute, beside scikit-learn and torch.

Every engine runs in a process of its own, in turn; small sizes are repeated within a run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.in_turn import clocked, conditions, measure_in_turn, row_of

METRICS = ("brier", "nll", "aurc")
SMALL, LARGE, QUICK = 1_000, 10_000_000, 100_000
CASES = tuple(f"{metric}-{size}" for metric in METRICS for size in ("small", "large"))
"""Metric and size of each case."""
TEXT = {"brier": "Brier score", "nll": "negative log-likelihood", "aurc": "area under the risk-coverage curve"}

Run = Callable[[], float]


def _data(size: int) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    preds = torch.rand(size, generator=generator)
    return preds, (torch.rand(size, generator=generator) < preds).long()


def _ours(metric: str, size: int) -> Run:
    from valor_gpu import classification

    kind = getattr(classification, {"brier": "BrierScore", "nll": "NegativeLogLikelihood", "aurc": "AURC"}[metric])
    batch, made = _data(size), kind()

    def run() -> float:
        made.reset()
        made.update(*batch)
        return float(made.compute())

    return run


def _torch(metric: str, size: int) -> Run:
    import torch

    preds, target = _data(size)

    def aurc() -> float:
        wrong = (preds > 0.5) != target.bool()
        order = torch.maximum(preds, 1 - preds).argsort(descending=True)
        return float((wrong[order].cumsum(0) / torch.arange(1, size + 1)).mean())

    return {
        "brier": lambda: float((preds - target).square().mean()),
        "nll": lambda: float(torch.nn.functional.binary_cross_entropy(preds, target.float())),
        "aurc": aurc,
    }[metric]


def _sklearn(metric: str, size: int) -> Run:
    from sklearn import metrics

    preds, target = (part.numpy() for part in _data(size))
    score = {"brier": metrics.brier_score_loss, "nll": metrics.log_loss}[metric]
    return lambda: float(score(target, preds))


ENGINES: dict[str, Callable[[str, int], Run]] = {OURS: _ours, "torch": _torch, "scikit-learn": _sklearn}


def _sizes(case: str, quick: bool) -> tuple[str, int, int]:
    """Metric, rows, and repeats within a run."""
    metric, _, size = case.partition("-")
    return (metric, SMALL, 200) if size == "small" else (metric, QUICK if quick else LARGE, 1)


def timed(case: str, engine: str, quick: bool) -> dict[str, Any]:
    """CPU and wall seconds of one number, and the peak of memory above that before, in MB."""
    metric, size, times = _sizes(case, quick)
    run = ENGINES[engine](metric, size)
    run()  # imports and first calls
    found = clocked(lambda: [run() for _ in range(times)][-1])
    return {**found, "cpu": found["cpu"] / times, "seconds": found["seconds"] / times}


def measure(case: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all engines of a case."""
    metric, size, _ = _sizes(case, bool(arguments.quick))
    engines = [name for name in ENGINES if metric != "aurc" or name != "scikit-learn"]
    found = measure_in_turn("benchmarks.probabilities", case, engines, (bool(arguments.quick),), arguments)
    head = {"case": case, "path": TEXT[metric], "rows": size}
    return [row_of({**head, "tool": name, "package": name}, runs) for name, runs in found.items()]


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    names = CASES if arguments.case == "all" else (arguments.case,)
    found = [row for name in names for row in measure(name, arguments)]
    choices = {name: getattr(arguments, name) for name in ("quick", "repeats", "threads")}
    return {"kind": "probabilities", **machine.describe((OURS, "torch", "scikit-learn")), **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """One Markdown table, and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    lines = ["| one number of | valor_gpu | others |", "| --- | --- | --- |"]
    for case in dict.fromkeys(row["case"] for row in rows):
        ours, *others = [row for row in rows if row["case"] == case]
        base = ours["cpu"]["median"]
        cells = "; ".join(_cell(row, base) for row in others)
        lines.append(f"| {ours['path']}, {ours['rows']:,} binary rows | {base * 1e3:,.2f} ms | {cells} |")
    return "\n\n".join(["\n".join(lines), *(conditions(result, _CONDITIONS) for result in results)])


def _cell(row: dict[str, Any], base: float) -> str:
    if row["status"] != "ok":
        return f"{row['tool']}: not run"
    return f"{row['tool']} {row['cpu']['median'] * 1e3:,.2f} ms ({row['cpu']['median'] / base:.2f}x)"


_CONDITIONS = (
    "imports, the first calls and making the metric not counted; its reset is."
    " torch is the plain formula: it checks no value, sums in float32 and knows"
    " no ties; the Brier score of valor_gpu includes the sums of its parts."
)


if __name__ == "__main__":
    print(json.dumps(timed(*json.loads(sys.argv[1]))))
