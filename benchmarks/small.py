"""Tiny batches: what constructor, ``update``, ``forward`` and ``compute`` take beside torchmetrics' metric of the name.

One process, one thread, CPU seconds of the process: blocks of calls of both sides take turns, and the medians count, so
that a busy machine disturbs both alike. A metric whose value differs gets no number.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks import machine, small_cases
from benchmarks.baselines import OURS, load_torchvision
from benchmarks.small_cases import CASES as CASES
from benchmarks.small_cases import Small, numbers
from benchmarks.small_shares import shares

WORKS = ("constructor", "update", "forward", "compute")
PACKAGES = ("valor_gpu", "torch", "numpy", "torchmetrics")
LIMITS = {"constructor": 2.0, "update": 0.7, "forward": 1.0, "compute": 1.0}
"""At most how many times torchmetrics' time each work may take; ``update`` of texts 1.0."""

_BLOCK, _QUICK_BLOCK = 2e-3, 2e-4  # seconds of one block of calls
_ROUNDS = 3  # blocks of each side for each of --repeats

Call = Callable[[], object]


def calls(metric: Any, make: Call, batch: Sequence[Any]) -> dict[str, Call]:
    """What one call of each work is."""
    state = metric.__dict__

    def compute() -> object:
        state["_computed"] = None  # else both give what they gave before
        return metric.compute()

    return {
        "constructor": make,
        "update": lambda: metric.update(*batch),
        "forward": lambda: metric(*batch),
        "compute": compute,
    }


def block_seconds(call: Call, count: int) -> float:
    """CPU seconds of one call, mean of ``count``."""
    turns = range(count)
    start = time.process_time_ns()
    for _ in turns:
        call()
    return (time.process_time_ns() - start) / 1e9 / count


def beside(ours: tuple[Any, Call], theirs: tuple[Any, Call], rounds: int, block: float) -> list[list[float]]:
    """CPU seconds of one call of each side, block by block; each block begins with the state of one update."""
    counts = [max(1, round(block / max(block_seconds(call, 1), 1e-7))) for _, call in (ours, theirs) for _ in range(2)]
    seconds: list[list[float]] = [[], []]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            prepare, call = (ours, theirs)[side]
            prepare()
            seconds[side].append(block_seconds(call, counts[2 * side + 1]))
    return seconds


def measure(case: Small, group: str, rounds: int, block: float) -> dict[str, Any]:
    """The row of one metric; times in microseconds."""
    row = {"case": group, "path": case.name, "tool": OURS, "package": "valor_gpu"}
    batch, metrics = case.batch(), (case.ours(), case.theirs())
    for metric in metrics:
        metric.update(*batch)
    mine, other = (numbers(read(m.compute())) for m, read in zip(metrics, (case.read_ours, case.read_theirs)))
    gap = _gap(mine, other)
    if not gap <= case.tolerance:
        return {**row, "status": "mismatch", "reason": f"the values differ by {gap:.1e}"}
    sides = [calls(m, make, batch) for m, make in zip(metrics, (case.ours, case.theirs))]
    resets = [_fresh(m, batch) for m in metrics]
    times = {}
    for work in WORKS:
        first, second = beside((resets[0], sides[0][work]), (resets[1], sides[1][work]), rounds, block)
        ratio = statistics.median(first) / statistics.median(second)
        times[work] = {"ours": _micro(first), "torchmetrics": _micro(second), "ratio": ratio}
    return {**row, "status": "ok", "largest_difference": gap, **times, "shares": shares(case, block)}


def _fresh(metric: Any, batch: Sequence[Any]) -> Call:
    def again() -> None:
        metric.reset()
        metric.update(*batch)
        gc.collect(0)

    return again


def _gap(mine: Any, other: Any) -> float:
    if mine.shape != other.shape:
        return math.inf
    both = np.isnan(mine) & np.isnan(other)  # neither has a number there
    return float(np.where(both, 0.0, np.abs(mine - other) / np.maximum(1, np.abs(other))).max(initial=0.0))


def _micro(seconds: Sequence[float]) -> dict[str, float]:
    scaled = [round(1e6 * each, 3) for each in seconds]
    return {"median": statistics.median(scaled), "min": min(scaled), "max": max(scaled)}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One thread, no garbage collection in between, no words of torchmetrics."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.disable()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.enable()
        torch.set_num_threads(threads)


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All groups asked for, as the JSON that is stored."""
    load_torchvision()
    block = _QUICK_BLOCK if arguments.quick else _BLOCK
    found: list[dict[str, Any]] = []
    for group in CASES if arguments.case == "all" else (arguments.case,):
        for case in CASES[group]():
            with alone():
                found.append(measure(case, group, _ROUNDS * arguments.repeats, block))
            print(f"  {_line(found[-1])}", file=sys.stderr, flush=True)
    choices = {"quick": arguments.quick, "repeats": arguments.repeats, "threads": 1}
    return {"kind": "small", **machine.describe(PACKAGES), **choices, "rows": found}


def _line(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return f"{row['path']}: {row['status']}, {row['reason']}"
    ratios = ", ".join(f"{work} {row[work]['ours']['median']:.1f} us {row[work]['ratio']:.2f}x" for work in WORKS)
    return f"{row['path']}: {ratios}"


def limit(row: dict[str, Any], work: str) -> float:
    """At most how many times torchmetrics' time ``work`` should take."""
    return 1.0 if (row["case"], work) == ("text", "update") else LIMITS[work]


def mean_ratio(rows: Sequence[dict[str, Any]], work: str) -> float:
    """Geometric mean of the ratios to torchmetrics."""
    return statistics.geometric_mean(row[work]["ratio"] for row in rows if row["status"] == "ok")


_TITLES = {
    "classification": f"{small_cases.ROWS} rows, {small_cases.CLASSES} classes or labels",
    "detection": "Boxes as lists of dicts",
    "segmentation": f"One image of {small_cases.SIDE} x {small_cases.SIDE} pixels",
    "regression": f"{small_cases.ROWS} pairs of numbers, or rows of 20",
    "retrieval": f"{small_cases.ROWS} documents of two queries",
    "text": "One row of ten words",
}


def report(results: list[dict[str, Any]]) -> str:
    """One Markdown table per group of the newest result, and how it was measured."""
    result = results[-1]
    tables = [_table(group, [row for row in result["rows"] if row["case"] == group]) for group in CASES]
    return "\n\n".join([*filter(None, tables), _conditions(result)])


def _table(group: str, rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    heads = [*WORKS, "`update`: checks, dispatch, kernel"]
    lines = [f"| {_TITLES[group]} | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
    for row in rows:
        if row["status"] != "ok":
            lines.append(f"| {row['path']} | {row['status']} |" + " |" * (len(heads) - 1))
            continue
        cells = [f"{_figures(row[work]['ours']['median'])} us ({row[work]['ratio']:.2f}x)" for work in WORKS]
        parts = [f"{row['shares'][name]:.0%}" for name in ("checks", "dispatch", "kernel")]
        lines.append(f"| {row['path']} | {' | '.join(cells)} | {', '.join(parts)} |")
    good = [row for row in rows if row["status"] == "ok"]
    means = [f"**{mean_ratio(good, work):.2f}x**" for work in WORKS] if good else []
    above = [f"{sum(row[work]['ratio'] > limit(row, work) for row in good)} of {len(good)}" for work in WORKS]
    lines.append(f"| geometric mean | {' | '.join(means)} | |")
    goals = ["" if not rows else f"{limit(rows[0], work):g}x: {count}" for work, count in zip(WORKS, above)]
    lines.append(f"| goal, and how many are above it | {' | '.join(goals)} | |")
    return "\n".join(lines)


def _figures(micros: float) -> str:
    return f"{micros:.1f}" if micros < 100 else f"{micros:.0f}"


def _conditions(result: dict[str, Any]) -> str:
    about, versions = result["machine"], result["versions"]
    return (
        "Microseconds of a call, and in brackets how many times torchmetrics' time: its metric of the same name, or of"
        " the name in brackets, with its default arguments. One process, one thread, CPU time, medians of"
        f" {_ROUNDS * result['repeats']} blocks of calls in turns; both values agreed first. Kernel: in native code;"
        " dispatch: from a registered op to its native code; checks: everything else, the shell and small torch ops"
        f" included. {about['processor']}, Python {about['python']}, torch {versions['torch']}, torchmetrics"
        f" {versions['torchmetrics']}. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )


def summary_rows(results: Sequence[dict[str, Any]]) -> list[tuple[str, str, float]]:
    """Returns a row of the summary for each group: name, mean of our updates, torchmetrics' multiple of it."""
    rows = [row for row in (results[-1]["rows"] if results else ()) if row["status"] == "ok"]
    found = []
    for group in CASES:
        mine = [row for row in rows if row["case"] == group]
        if mine:
            micros = statistics.geometric_mean(row["update"]["ours"]["median"] for row in mine)
            name = f"`update` of a tiny batch, mean of {len(mine)} rows of {group}"
            found.append((name, f"**{_figures(micros)} us**", 1 / mean_ratio(mine, "update")))
    return found
