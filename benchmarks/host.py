"""What an update and a ``compute`` on CUDA cost the host, measured without a GPU.

One process, one thread, CPU seconds. The shortest of several calls counts, since it is the least disturbed one.
Launches are left out, and what the machine of a GPU would take is predicted from counts. torchmetrics would compute on
the same CPU tensors, so that it has no row; the budgets are those of :data:`benchmarks.gpu_targets.TARGETS`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import gpu_table, machine
from benchmarks.baselines import OURS
from benchmarks.gpu_targets import TARGETS, duration
from benchmarks.host_cases import CASES as CASES
from benchmarks.host_cases import HostCase
from benchmarks.host_costs import GPU, THERE, here, predicted
from benchmarks.host_device import Work, counts_of, launching_nothing, pretended
from benchmarks.small import alone, block_seconds
from testing.parity import differences

PACKAGES = ("valor_gpu", "torch", "numpy")
_ROUNDS = 6  # for each of --repeats


def measure(case: HostCase, group: str, rounds: int, costs: Mapping[str, float]) -> dict[str, Any]:
    """Returns the row of a work: microseconds, counts of parts, and the prediction.

    Args:
        case: the work.
        group: of :data:`CASES`.
        rounds: measured calls.
        costs: of the parts here, see :func:`benchmarks.host_costs.here`.
    """
    row: dict[str, Any] = {"case": group, "path": case.name, "tool": OURS, "package": "valor_gpu"}
    with pretended():
        counts = {part: count / case.times for part, count in sorted(counts_of(case.make).items())}
        work = case.make()
        with launching_nothing():
            seconds = [_seconds(work) for _ in range(rounds + 1)][1:]
        if text := _difference(work):
            return {**row, "status": "mismatch", "reason": text}
    micros = [round(1e6 * each / case.times, 3) for each in seconds]
    spread = {"median": statistics.median(micros), "min": min(micros), "max": max(micros)}
    found = round(predicted(spread["min"], counts, costs), 1)
    return {**row, "status": "ok", "microseconds": spread, "counts": counts, "predicted": found}


def _seconds(work: Work) -> float:
    work.prepare()
    return block_seconds(work, 1)


def _difference(work: Any) -> str:
    """How the numbers of a work differ from those that kernels gave; empty for a work without numbers."""
    return differences(work.expected, work.value) if hasattr(work, "expected") else ""


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns all groups asked for, as the JSON that is stored."""
    rounds = 2 if arguments.quick else _ROUNDS * arguments.repeats
    found: list[dict[str, Any]] = []
    with alone():
        with pretended(), launching_nothing():
            costs = here()
        for group in CASES if arguments.case == "all" else (arguments.case,):
            for case in CASES[group]:
                found.append(measure(case, group, rounds, costs))
                print(f"  {_line(found[-1])}", file=sys.stderr, flush=True)
    choices = {"quick": arguments.quick, "repeats": arguments.repeats, "threads": 1, "costs": costs}
    return {"kind": "host", **machine.describe(PACKAGES), **choices, "rows": found}


def _line(row: Mapping[str, Any]) -> str:
    if row["status"] != "ok":
        return f"{row['path']}: {row['status']}, {row['reason']}"
    counts = ", ".join(f"{count:g} x {part}" for part, count in row["counts"].items())
    return f"{row['path']}: {row['microseconds']['min']:.1f} us here, {row['predicted']} us predicted; {counts}"


# ------------------------------------------------------------------------------------------------------------- report

_HEADS = (
    "here", "C calls", "launches", "torch operations", "allocations", "views", "predicted, H100", "measured, H100",
    "budget",
)  # fmt: skip
_SHOWN = (("C call",), ("launch",), ("operation",), ("allocation", "pinned"), ("view", "detach"))
_TITLES = {
    "detection": "`MeanAveragePrecision`, boxes",
    "classification": "Classification",
    "segmentation": "Segmentation",
}


def report(results: list[dict[str, Any]], record: dict[str, Any] | None = None) -> str:
    """Returns a Markdown table per group of the newest result, and how it was measured.

    Args:
        results: stored ones, oldest first.
        record: of a GPU check, for the column of measured times; None for the newest stored one.
    """
    result, record = results[-1], record or gpu_table.newest()
    known = {row["work"].removesuffix(" †"): row for row in gpu_table.rows(record)} if record else {}
    tables = [_table(group, [row for row in result["rows"] if row["case"] == group], known) for group in CASES]
    return "\n\n".join([*filter(None, tables), _conditions(result)])


def _table(group: str, rows: Sequence[dict[str, Any]], known: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    cases = {case.name: case for case in CASES[group]}
    lines = [f"| {_TITLES[group]} | {' | '.join(_HEADS)} |", "| --- |" + " --- |" * len(_HEADS)]
    for row in rows:
        case = cases.get(row["path"])
        cells = [row["status"], *[""] * (len(_SHOWN) + 1)]
        if row["status"] == "ok":
            counts = [sum(row["counts"].get(part, 0) for part in parts) for parts in _SHOWN]
            micros = row["microseconds"]["min"], row["predicted"]
            first, last = (duration(each / 1e6) for each in micros)
            cells = [f"**{first}**", *(f"{count:.3g}" if count < 1000 else f"{count:,.0f}" for count in counts), last]
        cells += [measured(case, known), budget(case)] if case else ["", ""]
        lines.append(f"| {row['path']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measured(case: HostCase, known: Mapping[str, Any]) -> str:
    """Returns the time of a work in a GPU check, or nothing where the check has none."""
    row = known.get(case.row, {})
    return duration(row[case.clock]["median"]) if case.clock in row else ""


def budget(case: HostCase) -> str:
    """Returns what the host may take for a work, or nothing where no target says so."""
    return "".join(duration(target.seconds) for target in TARGETS.get(case.budget, ()) if target.bound == "host")


def _conditions(result: dict[str, Any]) -> str:
    about, costs = result["machine"], result["costs"]
    parts = ", ".join(f"{part} {there:g} ({costs[part]:.1f})" for part, there in THERE.items())
    return (
        f"CPU time of one thread, the shortest of {_ROUNDS * result['repeats']} calls; CPU tensors stand for those of a"
        " GPU, and launches are counted and left out."
        f" Predicted: that time, with what each part takes on the machine of a GPU ({GPU}) in place of what it takes"
        f" here, in microseconds: {parts}; Python counts as it is here. Measured: by the newest GPU check, of batches"
        f" at val2017 scale. Budget: of a GPU check. {about['processor']}, Python {about['python']}, torch"
        f" {result['versions']['torch']}. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
