"""What an update and a ``compute`` on CUDA cost the host, measured without a GPU.

One process, one thread, CPU seconds. The shortest of several calls counts, since it is the least disturbed one.
Launches are left out, and what the machine of a GPU would take is predicted from counts. torchmetrics would compute on
the same CPU tensors, so that it has no row; the budgets are those of :data:`benchmarks.gpu_targets.TARGETS`.
"""

from __future__ import annotations

import argparse
import shutil
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
from benchmarks.host_device import counts_of, launching_nothing, pretended
from benchmarks.small import alone, block_seconds
from testing import simulator
from testing.parity import differences
from valor_gpu import native

PACKAGES = ("valor_gpu", "torch", "numpy")
_ROUNDS = 6  # calls of a work in a pass; --repeats passes

Row = dict[str, Any]


def measure(cases: Sequence[tuple[str, HostCase]], passes: int, rounds: int) -> tuple[list[Row], dict[str, float]]:
    """Returns a row of each work and the least costs of parts here.

    Passes over all works spread the calls of one over the run, so that no row has a busy minute of the machine alone.

    Args:
        cases: groups of :data:`CASES`, and works.
        passes: over all of them.
        rounds: measured calls of a work in a pass.
    """
    costs: dict[str, float] = {}
    with pretended():
        works = [_Timed(group, case, counts_of(case.make), case.make()) for group, case in cases]
        with launching_nothing():
            for _ in range(passes):
                costs = {part: min(micros, costs.get(part, micros)) for part, micros in here().items()}
                for work in works:
                    work.run(rounds)
    return [work.row(costs) for work in works], costs


class _Timed:
    """A work with its counts, and the microseconds of its calls."""

    def __init__(self, group: str, case: HostCase, counts: Mapping[str, int], work: Any) -> None:
        self._case, self._work, self._micros = case, work, list[float]()
        self._counts = {part: count / case.times for part, count in sorted(counts.items())}
        self._row: Row = {"case": group, "path": case.name, "tool": OURS, "package": "valor_gpu"}

    def run(self, rounds: int) -> None:
        """Measures calls; one more comes first, which fills the caches."""
        for number in range(rounds + 1):
            self._work.prepare()
            micros = 1e6 * block_seconds(self._work, 1) / self._case.times
            self._micros += [round(micros, 3)] if number else []

    def row(self, costs: Mapping[str, float]) -> Row:
        """The row; without a time where the numbers are not those that kernels gave."""
        if hasattr(self._work, "expected") and (text := differences(self._work.expected, self._work.value)):
            return {**self._row, "status": "mismatch", "reason": text}
        micros = self._micros
        spread = {"median": statistics.median(micros), "min": min(micros), "max": max(micros), "runs": len(micros)}
        found = round(predicted(spread["min"], self._counts, costs), 1)
        return {**self._row, "status": "ok", "microseconds": spread, "counts": self._counts, "predicted": found}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns all groups asked for, as the JSON that is stored.

    Raises:
        SystemExit: there is no C++ compiler for csrc/sim, or no library of the CPU, which reads the inputs.
    """
    if shutil.which(simulator.COMPILER) is None:
        sys.exit(f"host times need a C++ compiler for csrc/sim but {simulator.COMPILER} is not in PATH: set CXX")
    if not native.available("valor_cpu"):
        sys.exit(f"host times need the C++ library but {native.reason('valor_cpu')}: {native.remedy('valor_cpu')}")
    groups = CASES if arguments.case == "all" else (arguments.case,)
    cases = [(group, case) for group in groups for case in CASES[group]]
    with alone():
        rows, costs = measure(cases, 1 if arguments.quick else arguments.repeats, 2 if arguments.quick else _ROUNDS)
    for row in rows:
        print(f"  {_line(row)}", file=sys.stderr, flush=True)
    choices = {"quick": arguments.quick, "repeats": arguments.repeats, "threads": 1, "costs": costs}
    return {"kind": "host", **machine.describe(PACKAGES), **choices, "rows": rows}


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
    return "\n\n".join([*filter(None, tables), _conditions(result, record)])


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


def _conditions(result: dict[str, Any], record: Mapping[str, Any] | None) -> str:
    about, costs = result["machine"], result["costs"]
    calls = max((row["microseconds"]["runs"] for row in result["rows"] if row["status"] == "ok"), default=0)
    measured_at = f", commit {record['commit'][:10]}" if record else ""
    parts = ", ".join(f"{part} {there:g} ({costs[part]:.1f})" for part, there in THERE.items())
    return (
        f"CPU time of one thread, the shortest of {calls} calls; CPU tensors stand for those of a"
        " GPU, and launches are counted and left out."
        f" Predicted: that time, with what each part takes on the machine of a GPU ({GPU}) in place of what it takes"
        f" here, in microseconds: {parts}; Python counts as it is here. Measured: by the newest GPU check{measured_at},"
        f" of batches at val2017 scale. Budget: of a GPU check. {about['processor']}, Python {about['python']}, torch"
        f" {result['versions']['torch']}. Commit {result['commit'][:10]}, {result['date'][:10]}."
    )
