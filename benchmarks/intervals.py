"""The benchmark of intervals: CPU seconds of a thousand replicates, beside those of the loops that users write.

Every engine runs in a process of its own, in turn. Opponents that take minutes do a few replicates, from which a
thousand are reckoned: their cost beyond the first is the same for each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.in_turn import clocked, conditions, measure_in_turn, row_of
from testing.datasets import CASES as DETECTION
from testing.formats import cached

REPLICATES = 1000
CASES = ("ap", "auroc", "mean")
SIZES = {"ap": (5_000, 200), "auroc": (1_000_000, 20_000), "mean": (100_000, 10_000)}
"""Images or rows of each case, whole and quick."""
FEW = {"hotcoco": 4, "scikit-learn": 4}
"""Replicates of an opponent that takes minutes."""
TEXT = {
    "ap": "the 12 numbers of COCO and 80 classes, {:,} images",
    "auroc": "AUROC of {:,} rows",
    "mean": "mean of {:,} rows",
}

Run = Callable[[int], Any]
"""Does so many replicates, and gives a number to look at."""


def _ap_ours(size: int, data: str) -> Run:
    from valor_gpu.coco import COCO, COCOeval

    files = cached(DETECTION["val2017"], size, 0, Path(data))
    truth = COCO(str(files.gt))
    evaluator = COCOeval(truth, truth.loadRes(str(files.dt)), "bbox")
    evaluator.evaluate()
    evaluator.accumulate()
    return lambda replicates: evaluator.result(intervals=replicates).intervals["map"].standard_error


def _ap_hotcoco(size: int, data: str) -> Run:
    import hotcoco

    files = cached(DETECTION["val2017"], size, 0, Path(data))
    truth = hotcoco.COCO(str(files.gt))
    pair = [hotcoco.COCOeval(truth, truth.load_res(str(files.dt)), "bbox") for _ in range(2)]
    for evaluator in pair:
        evaluator.evaluate()
        evaluator.accumulate()
    return lambda replicates: len(str(hotcoco.compare(*pair, n_bootstrap=replicates)))


def _scores(size: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    target = rng.random(size) < 0.3
    return rng.normal(target, 1.5).astype(np.float32), target.astype(np.int64)


def _auroc_ours(size: int, _: str) -> Run:
    import torch

    from valor_gpu.classification import BinaryAUROC

    scores, target = map(torch.from_numpy, _scores(size))
    metric = BinaryAUROC(thresholds=None)
    metric.update(scores.sigmoid(), target)
    return lambda replicates: next(iter(metric.result(intervals=replicates).intervals.values())).standard_error


def _auroc_sklearn(size: int, _: str) -> Run:
    import numpy as np
    from sklearn.metrics import roc_auc_score

    scores, target = _scores(size)
    rng = np.random.default_rng(1)

    def run(replicates: int) -> float:
        found = []
        for _ in range(replicates):
            rows = rng.integers(size, size=size)
            found.append(roc_auc_score(target[rows], scores[rows]))
        return float(np.std(found))

    return run


def _mean_ours(size: int, _: str) -> Run:
    from valor_gpu.stats.intervals import Bootstrap
    from valor_gpu.stats.resample import intervals_of
    from valor_gpu.stats.row_samples import RowSample

    scores, _ = _scores(size)
    values = scores.astype(float)
    return lambda replicates: (
        intervals_of({"score": float(values.mean())}, RowSample({"score": values}), Bootstrap(replicates))[
            "score"
        ].standard_error
    )


def _mean_scipy(size: int, _: str) -> Run:
    import numpy as np
    from scipy.stats import bootstrap

    scores, _ = _scores(size)

    def run(replicates: int) -> float:
        rng = np.random.default_rng(0)
        found = bootstrap((scores.astype(float),), np.mean, n_resamples=replicates, batch=16, method="basic", rng=rng)
        return float(found.standard_error)

    return run


ENGINES: dict[str, dict[str, Callable[[int, str], Run]]] = {
    "ap": {OURS: _ap_ours, "hotcoco": _ap_hotcoco},
    "auroc": {OURS: _auroc_ours, "scikit-learn": _auroc_sklearn},
    "mean": {OURS: _mean_ours, "scipy": _mean_scipy},
}
"""Of each case what prepares an engine from a size and the folder of generated data."""


def timed(case: str, engine: str, size: int, data: str) -> dict[str, Any]:
    """CPU and wall seconds of a thousand replicates, and the peak of memory above that before, in MB."""
    run = ENGINES[case][engine](size, data)
    run(2)  # imports and first calls
    few = FEW.get(engine, REPLICATES)
    found = clocked(lambda: run(few))
    scale = REPLICATES / few
    return {**found, "cpu": found["cpu"] * scale, "seconds": found["seconds"] * scale, "replicates": few}


def measure(case: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all engines of a case."""
    size = SIZES[case][bool(arguments.quick)]
    found = measure_in_turn("benchmarks.intervals", case, [*ENGINES[case]], (size, str(arguments.data)), arguments)
    return [_row(case, engine, size, runs) for engine, runs in found.items()]


def _row(case: str, engine: str, size: int, runs: list[dict[str, Any]] | str) -> dict[str, Any]:
    head = {"case": case, "path": "intervals", "rows": size, "tool": engine, "package": engine}
    replicates = {} if isinstance(runs, str) else {"replicates": runs[0]["replicates"]}
    return row_of({**head, **replicates}, runs)


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    names = CASES if arguments.case == "all" else [arguments.case]
    found = [row for name in names for row in measure(name, arguments)]
    choices = {name: getattr(arguments, name) for name in ("quick", "repeats", "threads")}
    packages = (OURS, "hotcoco", "scikit-learn", "scipy")
    return {"kind": "intervals", **machine.describe(packages), **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """One Markdown table, and how the numbers were measured."""
    rows = [row for result in results for row in result["rows"]]
    lines = ["| 1,000 replicates of | valor_gpu | opponent |", "| --- | --- | --- |"]
    for case in dict.fromkeys(row["case"] for row in rows):
        ours, *others = [row for row in rows if row["case"] == case]
        base = ours["cpu"]["median"]
        lines.append(f"| {TEXT[case].format(ours['rows'])} | {base:.2f} s | {_others(others, base)} |")
    return "\n\n".join(["\n".join(lines), *(conditions(result, _CONDITIONS) for result in results)])


def _others(rows: list[dict[str, Any]], base: float) -> str:
    cells = []
    for row in rows:
        if row["status"] != "ok":
            cells.append(f"{row['tool']}: not run")
            continue
        few = f", from {row['replicates']}" if row["replicates"] != REPLICATES else ""
        cells.append(f"{row['tool']} {row['cpu']['median']:,.1f} s ({row['cpu']['median'] / base:.1f}x{few})")
    return "; ".join(cells)


_CONDITIONS = (
    "imports, matching and the first calls not counted. hotcoco's `compare` takes the replicates of the difference of"
    " two models, ours those of one and as many samples of half of the images, which the interval is made of."
)


if __name__ == "__main__":
    print(json.dumps(timed(*json.loads(sys.argv[1]))))
