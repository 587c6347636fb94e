"""Runs engines interleaved, each in a fresh process, and gives a number only to those that agree with the reference.

All engines run once before any runs again, forwards and backwards; medians are reported. Time and CPU seconds
begin after the imports; memory is the peak above the resident size at that point.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks.baselines import OURS, Tool
from benchmarks.verify import RULES, Outcome, verdict
from benchmarks.worker import Request
from testing.datasets import ROOT

_TIMEOUT = 3600  # seconds a run

Measured = dict[str, list[dict[str, Any]]]


class AnyCase(Protocol):
    """What every case has: its name, what its size counts, and what its first number is called."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def number(self) -> str: ...


@dataclass(frozen=True)
class Plan:
    """One case at one size.

    Attributes:
        size: images or rows, whichever is the ``unit`` of the case.
        folder: where generated data are kept.
        threads: CPUs that an engine may use.
        repeats: runs of each engine; slow ones get ``slow_repeats``.
        big: of detection: beyond the val2017 scale, where slow engines are not run.
        suite: key of :data:`benchmarks.worker.SUITES`.
    """

    case: AnyCase
    size: int
    folder: Path
    threads: int
    repeats: int
    slow_repeats: int
    big: bool = False
    seed: int = 0
    suite: str = "detection"


def measure_once(tool: Tool, path: str, plan: Plan) -> dict[str, Any]:
    """One run in a fresh process: what :func:`benchmarks.worker.measure` gives, or ``failed`` with the reason."""
    threads = {name: str(plan.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "measured.json"
        request = Request(
            plan.suite,
            path,
            tool.name,
            plan.case.name,
            plan.size,
            plan.seed,
            str(plan.folder),
            plan.threads,
            str(output),
        )
        command = [sys.executable, "-m", "benchmarks.worker", json.dumps(request._asdict())]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ, **threads}, timeout=_TIMEOUT,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failed": f"took more than {_TIMEOUT} s"}
        if done.returncode or not output.exists():
            last = (done.stderr.strip().splitlines() or [""])[-1]
            return {"failed": f"exit code {done.returncode}: {last}"}
        return dict(json.loads(output.read_text()))


def interleaved_runs(path: str, tools: Sequence[Tool], plan: Plan) -> Measured:
    """All runs of ``tools``, round-robin, forwards and backwards; no second run of what failed or is missing."""
    runs: Measured = {tool.name: [] for tool in tools}
    for turn in range(max(plan.repeats, plan.slow_repeats)):
        for tool in tools if turn % 2 == 0 else reversed(tools):
            past = runs[tool.name]
            if turn >= (plan.slow_repeats if tool.slow else plan.repeats) or (past and "seconds" not in past[-1]):
                continue
            got = measure_once(tool, path, plan)
            past.append(got)
            outcome = f"{got['seconds']:.3f} s" if "seconds" in got else got.get("missing") or got["failed"]
            print(f"  {path} {tool.name}: {outcome}", file=sys.stderr, flush=True)
    return runs


class Sides(NamedTuple):
    """What outcomes are held against: the name of the reference, what it computed, and what we did."""

    reference: str
    expected: Outcome | None
    ours: Outcome | None


def rows(path: str, tools: Sequence[Tool], plan: Plan, runs: Measured, reference: str) -> list[dict[str, Any]]:
    """One row per engine: status, verdict and, only if it agrees, its numbers and ratios."""
    sides = Sides(reference, _outcome(runs.get(reference, [])), _outcome(runs.get(OURS, [])))
    out = [_row(path, tool, plan, runs.get(tool.name, []), sides) for tool in tools]
    good = {row["tool"]: row["seconds"]["median"] for row in out if row["status"] == "ok"}
    no_peers = {OURS, *(tool.name for tool in tools if tool.floor)}
    peers = [seconds for name, seconds in good.items() if name not in no_peers]
    for row in out:
        if row["status"] == "ok":
            row["times_ours"] = row["seconds"]["median"] / good[OURS] if OURS in good else None
            row["times_fastest_peer"] = row["seconds"]["median"] / min(peers) if peers else None
    return out


def _outcome(runs: list[dict[str, Any]]) -> Outcome | None:
    return Outcome(**runs[0]["outcome"]) if runs and "outcome" in runs[0] else None


def _row(path: str, tool: Tool, plan: Plan, runs: list[dict[str, Any]], sides: Sides) -> dict[str, Any]:
    row = {"case": plan.case.name, plan.case.unit: plan.size, "path": path, "tool": tool.name, "package": tool.package}
    if not runs:
        return {**row, "status": "not run", "reason": "takes minutes and many gigabytes at this scale"}
    for status in ("missing", "failed"):
        if status in runs[-1]:
            return {**row, "status": status, "reason": runs[-1][status]}
    if sides.expected is None:
        return {**row, "status": "unverified", "reason": f"{sides.reference}, or an engine equal to it, is missing"}
    judged = [verdict(RULES[tool.rule], Outcome(**run["outcome"]), sides.expected, sides.ours) for run in runs]
    worst = next((one for one in judged if not one.agrees), judged[0])
    if not worst.agrees:
        return {**row, "status": "mismatch", "reason": worst.text}
    return {
        **row,
        "status": "ok",
        "parity": {
            "rule": worst.text,
            "largest_difference": worst.difference,
            plan.case.number: runs[0]["outcome"]["stats"][0],
        },
        **{name: spread([run[name] for run in runs]) for name in ("seconds", "cpu_seconds", "peak_mb", "resident_mb")},
        "import_seconds": spread([run["import_seconds"] for run in runs]),
        "phases": {name: statistics.median(run["phases"][name] for run in runs) for name in runs[0]["phases"]},
        "load": [run["load"] for run in runs],
    }


def spread(values: list[float | None]) -> dict[str, Any] | None:
    """Median, smallest, largest and all values; null where the system does not report it."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return {"median": statistics.median(known), "min": min(known), "max": max(known), "runs": known}
