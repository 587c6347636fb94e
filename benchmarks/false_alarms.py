"""``python -m benchmarks.false_alarms run``: how often tests of two models alarm falsely, and how often they find.

Pairs of models are simulated, each on data of its own: pairs that are equally good, of which 5 % may have p < 0.05,
and pairs that differ by a stated amount, of which many should. ``report`` writes docs/tests.md from the newest stored
table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import machine
from benchmarks.false_alarms_scenes import detection_pair
from testing.datasets import ROOT
from valor_gpu.classification import BinaryAccuracy, BinaryAUROC
from valor_gpu.exports.signature import Signature
from valor_gpu.result import Result
from valor_gpu.stats import compare
from valor_gpu.stats.row_samples import RowSample

PAIRS, REPLICATES, LEVEL = 1000, 200, 0.05
UNEQUAL = 5
"""Of so many pairs of equal models one more pair is made of models that differ."""
LEAST, MOST = 0.04, 0.06
"""The share of false alarms that is wanted."""
CLASSES, FREQUENT = 40, 30
PAGE = ROOT / "docs" / "tests.md"

Random = np.random.Generator
Tests = Mapping[str, float]
"""p-values of a pair by the name of the test."""


def _means(columns: Mapping[str, NDArray[np.float64]]) -> Result:
    values: dict[str, Any] = {}
    for name, column in columns.items():
        family, _, key = name.partition("/")
        (values.setdefault(family, {}) if key else values)[key or family] = float(column.mean())
    return Result(values, Signature({"metric": "mean"}), state=RowSample(dict(columns)))


def _p_values(first: Any, second: Any, name: str, clusters: Any = None, seed: int = 0) -> Tests:
    found = compare(first, second, replicates=REPLICATES, clusters=clusters, seed=seed)
    row = next(row for row in found.table().rows() if (row["name"], row["class"]) == (name, None))
    return {row["test"].partition(":")[0]: row["p"], "permutation": row["p_permutation"]}


def _rows(rng: Random, difference: float, clustered: bool) -> Tests:
    """Skewed scores of 100 rows; in clusters of 4 rows that one of the models is better at."""
    hard = rng.gamma(2.0, 1.0, 100)
    own = rng.gamma(2.0, 1.0, (2, 100))
    clusters = np.arange(100) // 4 if clustered else None
    shifts = rng.normal(0, 1, 25)[clusters] if clusters is not None else 0.0
    return _p_values(
        _means({"mean": hard + own[0]}), _means({"mean": hard + own[1] + shifts + difference}), "mean", clusters
    )


def _labels(rng: Random, difference: float, clustered: bool) -> Tests:
    """Two answers of 200 rows, right in some 70 %; in clusters of 4 rows that one of the models is better at."""
    clusters = np.arange(200) // 4 if clustered else None
    hard = rng.normal(0.7, 1, 200)
    shifts = rng.normal(0, 1, 50)[clusters] if clusters is not None else np.zeros(200)
    target = torch.from_numpy(rng.integers(0, 2, 200))
    metrics = []
    for shift in (shifts, difference - shifts):
        right = torch.from_numpy(hard + shift + rng.normal(0, 1, 200) > 0)
        metrics.append(BinaryAccuracy(keep_rows=True))
        metrics[-1].update(torch.where(right, target, 1 - target), target)
    return _p_values(*metrics, "BinaryAccuracy", clusters)


def _scores(rng: Random, difference: float, clustered: bool) -> Tests:
    """Scores of 200 rows, of which 60 are positive; of two models on other scales."""
    clusters = np.arange(200) // 4 if clustered else None
    target = np.arange(200) % 10 < 3
    hard = rng.normal(0, 0.8, 200) + (rng.normal(0, 0.6, 50)[clusters] if clusters is not None else 0.0)
    metrics = []
    for model, distance in enumerate((1.2, 1.2 + difference)):
        scores = 1 / (1 + np.exp(-(distance * target + hard + rng.normal(0, 0.8, 200))))
        metrics.append(BinaryAUROC(thresholds=None))
        metrics[-1].update(torch.from_numpy(scores ** (1 + 2 * model)), torch.from_numpy(target.astype(np.int64)))
    return _p_values(*metrics, "BinaryAUROC", clusters)


def _detections(rng: Random, difference: float, clustered: bool) -> Tests:
    """AP of three classes on 100 images; scores of two models on other scales."""
    first, second, clusters = detection_pair(rng, difference, clustered)
    return _p_values(first, second, "map", clusters)


def _classes(rng: Random, difference: float, adjust: str) -> Tests:
    """Whether any of 40 classes, whose means go together, has an adjusted p-value below the level."""
    shared = rng.normal(0, 1, (2, 1, 100))
    own = rng.normal(0, 1, (2, CLASSES, 100))
    rows = shared + own
    rows[1, 0] += difference
    sides = [_means({f"mean/{k}": row for k, row in enumerate(side)}) for side in rows]
    found = compare(*sides, replicates=REPLICATES, permutations=0, adjust=adjust)
    p_values = np.array(list(found.values["p_adjusted"]["mean"].values()))
    return {adjust: float(p_values[0] if difference else p_values.min())}


CASES: Mapping[str, tuple[Callable[[Random, float], Tests], float]] = {
    "mean of 100 rows": (lambda rng, d: _rows(rng, d, False), 0.6),
    "mean of 25 clusters of 4 rows": (lambda rng, d: _rows(rng, d, True), 0.9),
    "accuracy of 200 rows": (lambda rng, d: _labels(rng, d, False), 0.4),
    "accuracy of 50 clusters of 4 rows": (lambda rng, d: _labels(rng, d, True), 0.6),
    "AUROC of 200 rows": (lambda rng, d: _scores(rng, d, False), 0.5),
    "AUROC of 50 clusters of 4 rows": (lambda rng, d: _scores(rng, d, True), 0.5),
    "map of 100 images": (lambda rng, d: _detections(rng, d, False), 0.06),
    "map of 25 clusters of 4 images": (lambda rng, d: _detections(rng, d, True), 0.08),
    "any of 40 means": (lambda rng, d: _classes(rng, d, "max_t"), 1.0),
    "any of 40 means, Holm": (lambda rng, d: _classes(rng, d, "holm"), 1.0),
}
"""By name, what simulates a pair, and the difference in its own scale at which power is measured."""


def measured(case: str, pairs: int) -> list[dict[str, Any]]:
    """Counts of a case: a row for each test."""
    simulate, difference = CASES[case]
    start, found = time.process_time(), {}
    for place, size in enumerate((0.0, difference)):
        for pair in range(pairs // UNEQUAL if place else pairs):
            rng = np.random.default_rng([list(CASES).index(case), place, pair])
            for test, p_value in simulate(rng, size).items():
                row = found.setdefault(test, {"untested": 0, "alarms": 0, "finds": 0})
                row["untested"] += math.isnan(p_value)
                row["finds" if place else "alarms"] += p_value < LEVEL
    seconds = round(time.process_time() - start, 1)
    head = {"case": case, "pairs": pairs, "unequal_pairs": pairs // UNEQUAL, "replicates": REPLICATES}
    made = ((test, row) for test, row in found.items() if row["untested"] < pairs + pairs // UNEQUAL)
    return [{**head, "difference": difference, "test": test, **row, "seconds": seconds} for test, row in made]


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows in Markdown; shares in percent."""
    lines = [
        "| number | test | pairs | false alarms | finds a difference of | in |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        alarms = f"{100 * row['alarms'] / row['pairs']:.1f}%"
        finds = f"{100 * row['finds'] / max(row['unequal_pairs'], 1):.0f}%"
        test = row["test"].replace("_", " ")
        lines.append(f"| {row['case']} | {test} | {row['pairs']:,} | {alarms} | {row['difference']:g} | {finds} |")
    return lines


_HEAD = """<!-- Made from benchmarks/results: run python -m benchmarks.false_alarms report. -->

# How often tests alarm falsely

A test at the level 0.05 may call one of twenty pairs of equal models different. Each pair below has its own simulated
data: rows or images that are hard for both models, and noise of each. Scores of two models have different scales.
The last columns are the share of pairs with p < 0.05 where the second model is better by the stated amount, in the
scale of the simulation: standard deviations of a normal score, or, of `map`, the share of objects that are found.
`any of 40 means` counts a pair if any of 40 adjusted p-values is below 0.05; the difference is in one of them.

"""


def report(rows: Sequence[Mapping[str, Any]], path: Path = PAGE) -> None:
    """Writes the page."""
    path.write_text(_HEAD + "\n".join(table(rows)) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run or report; a run exits with 1 where a test alarms more or less often than it may."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.false_alarms", description=__doc__.split("\n")[0])
    parser.add_argument("work", choices=["run", "report"])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--json", type=Path, help="file to write; default benchmarks/results")
    arguments = parser.parse_args(argv)
    if arguments.work == "report":
        newest = max(machine.RESULTS.glob("false_alarms_*.json"))
        report(json.loads(newest.read_text())["rows"])
        return 0
    torch.set_num_threads(1)
    rows = []
    for case in arguments.cases:
        rows += (made := measured(case, arguments.pairs))
        print(*table(made)[2:], sep="\n", flush=True)
    path = arguments.json or machine.RESULTS / f"false_alarms_{machine.now()[:10]}.json"
    described = {"kind": "false_alarms", **machine.describe(("valor_gpu", "numpy")), "level": LEVEL}
    path.write_text(json.dumps({**described, "rows": rows}, indent=1) + "\n")
    return int(any(not LEAST <= row["alarms"] / row["pairs"] <= MOST for row in rows))


if __name__ == "__main__":
    sys.exit(main())
