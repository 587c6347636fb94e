"""``python -m benchmarks.coverage run``: how often the intervals of the package hold what they are to hold.

Data sets are drawn from populations whose numbers are known (benchmarks/coverage_pools.py). Of each, every method of
benchmarks/coverage_methods.py makes an interval, and two targets are looked for in it: the number of the population,
and the mean of the number over data sets of this size. Blocks of data sets are appended to files as they are done, and
a run goes on where the last ended. ``collect`` makes the JSON of benchmarks/results, ``choose`` prints the
defaults that follow from it, as they stand in valor_gpu/stats/methods.py, and ``report`` writes docs/coverage.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # before numpy: one thread, so that seconds are CPU seconds
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from benchmarks import coverage_methods, coverage_report, machine  # noqa: E402
from benchmarks.coverage_methods import ALL, Sample, applies, ends  # noqa: E402
from benchmarks.coverage_pools import MAKERS, Floats, Pool, pool  # noqa: E402
from testing.datasets import ROOT  # noqa: E402
from valor_gpu.stats.draws import Draws  # noqa: E402
from valor_gpu.stats.methods import METHODS  # noqa: E402

SIZES = (100, 500, 5000)
CASES = (*MAKERS, "detection")
BLOCK = 50
"""Data sets of a block, which share their weights as all users of one seed do."""
CANDIDATE_BLOCKS = 5
"""Blocks in which candidates are compared as well."""
SETS = 1000
MEANS = {100: 10_000, 500: 5_000, 5000: 2_000}
"""Data sets over which the expected number is the mean, by size; a fifth of them where numbers take long."""
REPLICATES = 1000
FEWER = {"detection": 500}
"""Replicates of populations whose numbers take long."""
FOLDER = ROOT / "bench_data" / "coverage"
BINS = (2, 5, 10, 20, 50, 200)
"""Least units that hold a ground truth of a class: classes are counted together from one to the next."""
Row = dict[str, Any]


@lru_cache(maxsize=1)  # the populations of a block come one after the other
def weights_of(n: int, replicates: int, seed: int) -> dict[str, NDArray[np.uint8]]:
    """Weights of the estimate and of all replicates, each ``[n, L]``; those of candidates alone in their blocks."""
    rng = np.random.default_rng([seed, n])
    values = Draws(n, replicates, seed=seed).array()
    few = replicates // 2 if seed < CANDIDATE_BLOCKS else 0
    quarter = np.zeros((n, few // 2), np.uint8)
    for column in quarter.T:
        column[rng.permutation(n)[: n // 4]] = 1
    nested = np.zeros((n, few), np.uint8)
    for column, outer in zip(nested.T, values.T.astype(np.float64)):
        column[:] = rng.multinomial(n, outer / n)
    return {
        "estimate": np.ones((n, 1), np.uint8),
        "values": values,
        "half": Draws(n, replicates, seed=seed, kind="half").array(),
        "quarter": quarter,
        "deleted": Draws(n, 50, seed=seed, kind="delete", groups=50).array(),
        "nested": nested,
    }


def samples(population: Pool, drawn: NDArray[np.int64], weights: dict[str, NDArray[np.uint8]]) -> Iterator[Sample]:
    """What is known of each number of a data set."""
    joined = np.concatenate(list(weights.values()), 1)
    edges = np.cumsum([0, *(part.shape[1] for part in weights.values())])
    numbers, errors = population.numbers(drawn, joined), population.errors(drawn, joined)
    for i, row in enumerate(numbers):
        parts = {name: row[a:b] for name, a, b in zip(weights, edges, edges[1:])}
        parts["estimate"] = float(parts["estimate"][0])
        if errors is None:
            yield Sample(len(drawn), **parts)
        else:
            yield Sample(len(drawn), **parts, error=float(errors[i, 0]), errors=errors[i, edges[1] : edges[2]])


def bin_of(name: str, support: int | None) -> str | None:
    """The row of the table that a number counts in; None: in none."""
    if support is None:
        return name
    lower = [least for least in BINS if least <= support]
    if not lower:
        return None
    upper = [least for least in BINS if least > support]
    units = f"{lower[-1]} to {upper[0] - 1} units" if upper else f"{lower[-1]} units or more"
    kind = " ".join(name.split()[:2])
    return f"{kind}, {units}" + (", difference" if name.endswith("difference") else "")


def family_of(population: Pool, row: str) -> str:
    """The family of a row of the table: classes have one of their own."""
    return f"{population.family}_class" if row.startswith("class ") else population.family


def block_of(case: str, n: int, block: int, expected: Floats, sets: int = BLOCK, replicates: int = 0) -> list[Row]:
    """Counts of one block of data sets: a row for each number."""
    population = pool(case)
    rng = np.random.default_rng([zlib.crc32(case.encode()), n, block])
    weights = weights_of(n, replicates or FEWER.get(case, REPLICATES), block)
    counts: dict[str, dict[str, list[float]]] = {}
    sets_of: dict[str, int] = defaultdict(int)
    known = population.known()
    for _ in range(sets):
        drawn = rng.integers(0, population.units, n)
        supports = population.supports(drawn)
        for i, sample in enumerate(samples(population, drawn, weights)):
            row = bin_of(population.names[i], supports[i])
            if row is None or np.isnan(sample.estimate):
                continue
            sets_of[row] += 1
            if row not in counts:
                tried = ALL if block < CANDIDATE_BLOCKS else METHODS
                counts[row] = {m: [0.0] * 6 for m in tried if applies(m, population.family, row)}
            for method, tally in counts[row].items():
                add(tally, ends(method, sample), (float(expected[i]), float(known[i])))
    head = {"case": case, "n": n, "block": block}
    return [
        {**head, "family": family_of(population, row), "number": row, "sets": sets_of[row], "counts": dict(tallies)}
        for row, tallies in counts.items()
    ]


def add(tally: list[float], found: tuple[float, float], targets: tuple[float, float]) -> None:
    """Adds an interval: intervals, then of both targets whether it holds it and lies above it, then the width."""
    low, high = found
    if np.isnan(low) or np.isnan(high):
        return
    tally[0] += 1
    for i, target in enumerate(targets):
        tally[1 + 2 * i] += low <= target <= high
        tally[2 + 2 * i] += target < low
    tally[5] += high - low


def stem(folder: Path, case: str, n: int) -> Path:
    """Where the files of a case and size are, without what their names end in."""
    return folder / f"{re.sub(r'[^a-z0-9]+', '_', case)}_{n}"


def expected_of(case: str, n: int, folder: Path) -> Row:
    """Means of the numbers over many data sets, and their spread; kept in a file."""
    stored = stem(folder, case, n).with_suffix(".json")
    if not stored.exists():
        population = pool(case)
        found = population.estimates(
            np.random.default_rng([zlib.crc32(case.encode()), n]), n, MEANS[n] // (5 if case in FEWER else 1)
        )
        means = {
            "names": population.names, "known": population.known().tolist(),
            "mean": np.nanmean(found, 1).tolist(), "spread": np.nanstd(found, 1).tolist(),
        }  # fmt: skip
        stored.write_text(json.dumps(means))
    return dict(json.loads(stored.read_text()))


def blocks_of(case: str, n: int, folder: Path) -> list[list[Row]]:
    """The blocks that are done; a line that the end of a run cut off is none."""
    path = stem(folder, case, n).with_suffix(".jsonl")
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def run(arguments: argparse.Namespace) -> None:
    """Does the blocks that are missing, all sizes in turn, one line of JSON for each."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    cells = [(case, n) for n in arguments.sizes for case in arguments.cases]
    done = {cell: {rows[0]["block"] for rows in blocks_of(*cell, arguments.folder)} for cell in cells}
    for block in range(-(-arguments.sets // BLOCK)):
        for n in arguments.sizes:
            for case in arguments.cases:
                if block not in done[case, n]:
                    _do(case, n, block, arguments.folder)


def _do(case: str, n: int, block: int, folder: Path) -> None:
    began = time.process_time()
    rows = block_of(case, n, block, np.array(expected_of(case, n, folder)["mean"]))
    with stem(folder, case, n).with_suffix(".jsonl").open("a") as file:
        file.write(json.dumps(rows) + "\n")
    print(f"{case}, {n} units, block {block}: {time.process_time() - began:.1f} CPU s", file=sys.stderr, flush=True)


def collected(folder: Path) -> Row:
    """The JSON of benchmarks/results: the blocks of each number added up."""
    rows = []
    for case in CASES:
        for n in SIZES:
            found: dict[str, Row] = {}
            for row in (row for block in blocks_of(case, n, folder) for row in block):
                _add_row(found.setdefault(row["number"], {**row, "sets": 0, "blocks": 0, "counts": {}}), row)
            rows += [_row(row, expected_of(case, n, folder)) for row in found.values()]
    choices = {"block": BLOCK, "confidence": coverage_methods.CONFIDENCE, "quick": False}
    return {"kind": "coverage", **machine.describe(("valor_gpu", "numpy")), **choices, "rows": rows}


def _add_row(into: Row, row: Row) -> None:
    into["sets"] += row["sets"]
    into["blocks"] += 1
    for method, tally in row["counts"].items():
        before = into["counts"].get(method, [0] * len(tally))
        into["counts"][method] = [a + b for a, b in zip(before, tally)]


def _row(row: Row, means: Row) -> Row:
    """A row as it is stored: counts are whole, widths are means."""
    out = {name: row[name] for name in ("case", "family", "number", "n", "sets", "blocks")}
    out["replicates"] = FEWER.get(row["case"], REPLICATES)
    if row["number"] in means["names"]:
        i = means["names"].index(row["number"])
        out |= {name: means[name][i] for name in ("known", "mean", "spread")}
    out["methods"] = {
        method: {
            "intervals": int(tally[0]), "expected": int(tally[1]), "above_expected": int(tally[2]),
            "population": int(tally[3]), "above_population": int(tally[4]),
            "width": round(tally[5] / tally[0], 6),
        }
        for method, tally in row["counts"].items() if tally[0]
    }  # fmt: skip
    return out


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__.split("\n")[0])
    parser.add_argument("work", choices=["run", "collect", "choose", "report"])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=SIZES)
    parser.add_argument("--sets", type=int, default=SETS, help="data sets of each case and size")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the blocks are that are done")
    parser.add_argument("--json", type=Path, help="of collect: the file to write; default benchmarks/results")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, collect, choose or report."""
    arguments = parse(argv)
    if arguments.work == "run":
        run(arguments)
    elif arguments.work == "collect":
        path = arguments.json or machine.RESULTS / f"coverage_{machine.now()[:10]}.json"
        path.write_text(json.dumps(collected(arguments.folder), indent=1) + "\n")
        print(path)
    elif arguments.work == "choose":
        print(coverage_report.choices(coverage_report.table()["rows"]))
    else:
        coverage_report.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
