"""The benchmark of retrieval: order and scores of ranked documents beside segmented torch ops and torchmetrics.

nDCG at 10 of every query, from indexes, scores and grades to one number per query, and the mean by the class. Each
engine runs in a process of its own, whose peak of memory beyond the input is taken. torchmetrics takes a Python loop
over queries, so that it is timed on the first of them.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine

CASES = {"small": (8, 10), "medium": (8_000, 40), "large": (100_000, 100)}
"""Queries and documents of each."""
ENGINES = ("valor_gpu", "metric", "torch", "torchmetrics")
TOP_K = 10
_OURS = ENGINES[:2]

_PACKAGES = ("valor_gpu", "numpy", "torch", "torchmetrics")
_QUICK = {"small": (8, 10), "medium": (80, 40), "large": (100, 100)}
_LOOPED = 500  # queries that torchmetrics is timed on
_LARGE = 1 << 20  # bytes of input beside which the memory of the process itself is small
_TOLERANCE = 2e-6  # torchmetrics and torch add float32

Array = NDArray[Any]


def documents(queries: int, each: int, seed: int) -> tuple[Array, Array, Array]:
    """Shuffled indexes int64, scores float32 and grades int64 from 0 to 3."""
    rng = np.random.default_rng(seed)
    indexes = rng.permutation(np.repeat(np.arange(queries), each))
    return indexes, rng.random(len(indexes)).astype(np.float32), rng.integers(0, 4, len(indexes))


def ours(indexes: Array, preds: Array, target: Array, threads: int) -> Array:
    """nDCG of each query by the ops of valor_gpu."""
    from valor_gpu.ops.queries import cpu

    order = cpu.query_order(indexes, preds, threads)
    scores: Array = cpu.query_scores("ndcg", order.order, order.offsets, preds, target, TOP_K, threads=threads).scores
    return scores


def by_metric(indexes: Array, preds: Array, target: Array) -> Array:
    """The mean nDCG by ``update`` and ``compute`` of the class, ``[1]``."""
    import torch

    from valor_gpu.retrieval import RetrievalNormalizedDCG

    metric = RetrievalNormalizedDCG(top_k=TOP_K)
    metric.update(*map(torch.from_numpy, (preds, target, indexes)))
    return metric.compute()[None].numpy()


def by_torch(indexes: Array, preds: Array, target: Array) -> Array:
    """nDCG of each query by sorts of all documents and segmented sums; ties are not averaged."""
    import torch

    where, score, grade = map(torch.from_numpy, (indexes, preds, target))
    sizes = torch.bincount(where)
    rank = torch.arange(len(where)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    weight = torch.where(rank < TOP_K, 1 / torch.log2(rank + 2.0), 0.0)
    query = torch.arange(len(sizes)).repeat_interleave(sizes)

    def gain(key: torch.Tensor) -> torch.Tensor:
        order = key.argsort(descending=True, stable=True)
        order = order[where[order].argsort(stable=True)]
        return torch.zeros(len(sizes)).index_add_(0, query, weight * grade[order])

    scores: Array = (gain(score) / gain(grade)).numpy()
    return scores


def by_torchmetrics(indexes: Array, preds: Array, target: Array) -> Array:
    """nDCG of each query by the function of torchmetrics, one query after another, as its class calls it."""
    import torch
    from torchmetrics.functional.retrieval import retrieval_normalized_dcg

    order = np.argsort(indexes, kind="stable")
    sizes = np.bincount(indexes)
    sides = (torch.from_numpy(side[order]).split(sizes.tolist()) for side in (preds, target))
    scores = [retrieval_normalized_dcg(score, grade, top_k=TOP_K) for score, grade in zip(*sides)]
    return torch.stack(scores).numpy()


def worker(task: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each run of an engine, the peak of memory beyond the input, and the first scores."""
    queries, each = task["size"]
    data = documents(queries, each, task["seed"])
    timed = min(queries, _LOOPED) if task["engine"] == "torchmetrics" else queries
    rows = data[0] < timed
    given = data if timed == queries else tuple(side[rows] for side in data)
    engines: dict[str, Callable[..., Array]] = {
        "valor_gpu": functools.partial(ours, threads=task["threads"]),
        "metric": by_metric,
        "torch": by_torch,
        "torchmetrics": by_torchmetrics,
    }
    run = engines[task["engine"]]
    import torch

    torch.set_num_threads(task["threads"])
    run(*documents(3, 3, 0))  # imports
    seconds: list[float] = []
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = _memory("VmRSS")
    scores = np.empty(0)
    for _ in range(task["repeats"]):
        start = time.perf_counter()
        scores = run(*given)
        seconds.append(time.perf_counter() - start)
        gc.collect()  # a metric holds itself, so that the states of all runs would count
    return {
        "seconds": [value * queries / timed for value in seconds],
        "peak_bytes": _memory("VmHWM") - before,
        "input_bytes": sum(side.nbytes for side in data),
        "timed_queries": timed,
        "scores": scores[:_LOOPED].tolist(),
        "mean": float(scores.mean()),
    }


def _memory(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(f"{name}:"))


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every case by every engine, as the JSON that is stored."""
    rows: list[dict[str, Any]] = []
    sizes = _QUICK if arguments.quick else CASES
    for case in CASES if arguments.case == "all" else (arguments.case,):
        expected, mean = np.empty(0), math.nan
        for engine in ENGINES:
            print(f"  {case}, {engine}", file=sys.stderr, flush=True)
            repeats = arguments.repeats if engine in _OURS else arguments.slow_repeats
            task = {
                "engine": engine, "size": sizes[case], "seed": arguments.seed, "threads": arguments.threads,
                "repeats": repeats,
            }  # fmt: skip
            command = [sys.executable, "-m", "benchmarks.retrieval", json.dumps(task)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            scores, whole = np.array(found.pop("scores")), found.pop("mean")
            if engine == "valor_gpu":
                expected, mean = scores, whole
            gap = abs(whole - mean) if engine == "metric" else float(np.abs(scores - expected).max())
            rows.append({
                "case": case, "queries": sizes[case][0], "documents": sizes[case][1], "tool": engine,
                "status": "ok" if gap <= _TOLERANCE else f"differs by {gap:.1e}", **found,
                "seconds": {"median": float(np.median(found["seconds"])), "least": min(found["seconds"])},
            })  # fmt: skip
    choices = {name: getattr(arguments, name) for name in ("quick", "threads", "repeats", "slow_repeats")}
    return {"kind": "retrieval", **machine.describe(_PACKAGES), **choices, "rows": rows}


def report(results: list[dict[str, Any]]) -> str:
    """The newest result as a Markdown table and how it was measured."""
    result = results[-1]
    lines = [
        f"| nDCG at {TOP_K} of each query | valor_gpu | RetrievalNormalizedDCG | torch, segmented | torchmetrics |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in dict.fromkeys(row["case"] for row in result["rows"]):
        row_of = {row["tool"]: row for row in result["rows"] if row["case"] == case}
        mine = row_of["valor_gpu"]
        cells = [_cell(row_of[engine], mine) if engine in row_of else "" for engine in ENGINES]
        lines.append(f"| {mine['queries']:,} queries of {mine['documents']} documents | {' | '.join(cells)} |")
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if v and k != "valor_gpu")
    about = (
        f"Each engine in a process of its own, {result['threads']} threads, {result['machine']['processor']}; medians"
        f" of {result['repeats']} runs of ours, {result['slow_repeats']} of the others. RetrievalNormalizedDCG is"
        f" update and compute of the class, with its checks and copies; memory is the peak beyond the"
        f" input, as times the input. torchmetrics at the speed of {_LOOPED} queries. {versions}. Commit"
        f" {result['commit'][:10]}, {result['date'][:10]}."
    )
    return "\n".join(lines) + "\n\n" + about


def _cell(row: dict[str, Any], mine: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    seconds = row["seconds"]["median"]
    shown = row["input_bytes"] >= _LARGE and row["timed_queries"] == row["queries"]
    more = f", {row['peak_bytes'] / row['input_bytes']:.1f}x memory" if shown else ""
    if row is mine:
        return f"**{seconds:.3g} s**{more}"
    return f"{seconds:.3g} s ({seconds / mine['seconds']['median']:.0f}x){more}"


if __name__ == "__main__":
    print(json.dumps(worker(json.loads(sys.argv[1]))))
