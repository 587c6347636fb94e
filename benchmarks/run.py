"""``python -m benchmarks.run detection``: time, CPU and memory of COCO evaluators, side by side, parity first.

Every run is a process of its own; engines take turns, forwards and backwards; medians are reported. Time and CPU
seconds begin after the imports; memory is the peak above the resident size at that point. An engine whose numbers
differ from pycocotools', beyond what it documents, gets no number.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import forms, machine, report
from benchmarks.child import Request
from benchmarks.opponents import OURS, TOOLS, Tool
from benchmarks.scenes import CASES, ROOT, Case
from benchmarks.verify import REFERENCE, RULES, Outcome, verdict

PATHS = {"files": "JSON files to AP", "tensors": "tensors in batches of 16 images to AP"}
_PACKAGES = ("valor_gpu", "torch", "numpy", *sorted({t.package for tools in TOOLS.values() for t in tools} - {OURS}))
_TIMEOUT = 3600  # seconds a run

Measured = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Plan:
    """One case at one size.

    Attributes:
        repeats: runs of each engine; slow ones get ``slow_repeats``.
        big: beyond the val2017 scale, where slow engines are not run.
    """

    case: Case
    images: int
    folder: Path
    threads: int
    repeats: int
    slow_repeats: int
    big: bool = False
    seed: int = 0

    def small(self) -> Plan:
        """The version on which every engine is held against pycocotools first."""
        return replace(self, images=self.case.quick_images, repeats=1, slow_repeats=1, big=False)


def measure_once(tool: Tool, path: str, plan: Plan) -> dict[str, Any]:
    """One run in a fresh process: what :func:`benchmarks.child.measure` gives, or ``failed`` with the reason."""
    threads = {name: str(plan.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "measured.json"
        request = Request(
            path, tool.name, plan.case.name, plan.images, plan.seed, str(plan.folder), plan.threads, str(output)
        )
        command = [sys.executable, "-m", "benchmarks.child", json.dumps(request._asdict())]
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


def take_turns(path: str, tools: Sequence[Tool], plan: Plan) -> Measured:
    """All runs of ``tools``, round-robin, forwards and backwards; no second run of what failed or is missing."""
    runs: Measured = {tool.name: [] for tool in tools}
    for turn in range(max(plan.repeats, plan.slow_repeats)):
        for tool in tools if turn % 2 == 0 else reversed(tools):
            past = runs[tool.name]
            if turn >= (plan.slow_repeats if tool.slow else plan.repeats) or (past and "seconds" not in past[-1]):
                continue
            got = measure_once(tool, path, plan)
            past.append(got)
            told = f"{got['seconds']:.3f} s" if "seconds" in got else got.get("missing") or got["failed"]
            print(f"  {path} {tool.name}: {told}", file=sys.stderr, flush=True)
    return runs


def rows(path: str, tools: Sequence[Tool], plan: Plan, runs: Measured, reference: str) -> list[dict[str, Any]]:
    """A row an engine: status, verdict and, only if it agrees, its numbers and ratios."""
    expected = _outcome(runs.get(reference, []))
    ours = _outcome(runs.get(OURS, []))
    out = [_row(path, tool, plan, runs.get(tool.name, []), expected, ours) for tool in tools]
    good = {row["tool"]: row["seconds"]["median"] for row in out if row["status"] == "ok"}
    peers = [seconds for name, seconds in good.items() if name != OURS]
    for row in out:
        if row["status"] == "ok":
            row["times_ours"] = row["seconds"]["median"] / good[OURS] if OURS in good else None
            row["times_fastest_peer"] = row["seconds"]["median"] / min(peers) if peers else None
    return out


def _outcome(runs: list[dict[str, Any]]) -> Outcome | None:
    return Outcome(**runs[0]["outcome"]) if runs and "outcome" in runs[0] else None


def _row(
    path: str, tool: Tool, plan: Plan, runs: list[dict[str, Any]], expected: Outcome | None, ours: Outcome | None
) -> dict[str, Any]:
    row = {"case": plan.case.name, "images": plan.images, "path": path, "tool": tool.name, "package": tool.package}
    if not runs:
        return {**row, "status": "not run", "reason": "takes minutes and many gigabytes at this scale"}
    for status in ("missing", "failed"):
        if status in runs[-1]:
            return {**row, "status": status, "reason": runs[-1][status]}
    if expected is None:
        return {**row, "status": "unverified", "reason": f"{REFERENCE}, or an engine equal to it, is missing"}
    judged = [verdict(RULES[tool.rule], Outcome(**run["outcome"]), expected, ours) for run in runs]
    worst = next((one for one in judged if not one.agrees), judged[0])
    if not worst.agrees:
        return {**row, "status": "mismatch", "reason": worst.text}
    return {
        **row,
        "status": "ok",
        "parity": {"rule": worst.text, "largest_difference": worst.difference, "map": runs[0]["outcome"]["stats"][0]},
        **{name: _spread([run[name] for run in runs]) for name in ("seconds", "cpu_seconds", "peak_mb", "resident_mb")},
        "import_seconds": _spread([run["import_seconds"] for run in runs]),
        "phases": {name: statistics.median(run["phases"][name] for run in runs) for name in runs[0]["phases"]},
        "load": [run["load"] for run in runs],
    }


def _spread(values: list[float | None]) -> dict[str, Any] | None:
    """Median, smallest, largest and all values; null where the system could not tell."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return {"median": statistics.median(known), "min": min(known), "max": max(known), "runs": known}


def compare(path: str, plan: Plan) -> list[dict[str, Any]]:
    """Rows of all engines on one path of one case."""
    tools = TOOLS[path]
    if not plan.big:
        return rows(path, tools, plan, take_turns(path, tools, plan), REFERENCE)
    print(f"  {path}: parity on {plan.case.quick_images} images first", file=sys.stderr)
    small = plan.small()
    gate = {row["tool"]: row for row in rows(path, tools, small, take_turns(path, tools, small), REFERENCE)}
    passed = [t for t in tools if gate[t.name]["status"] == "ok"]
    fast = [t for t in passed if not t.slow]
    # pycocotools itself cannot run at this scale: a peer that equalled it on the small version stands for it.
    stand_in = next((t.name for t in fast if t.name != OURS and RULES[t.rule].same_arrays), REFERENCE)
    runs = take_turns(path, fast, plan)
    kept = rows(path, passed, plan, runs, stand_in)
    failed = [{**gate[t.name], "images": plan.images} for t in tools if t not in passed]
    return [*kept, *failed]


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    for case in CASES.values() if arguments.case == "all" else (CASES[arguments.case],):
        images = case.quick_images if arguments.quick else case.images
        big = case.name != "val2017" and not arguments.quick
        plan = Plan(
            case, images, arguments.data, arguments.threads, arguments.repeats, arguments.slow_repeats, big,
            arguments.seed,
        )  # fmt: skip
        print(f"{case.name}: {images} images", file=sys.stderr, flush=True)
        forms.cached(case, images, arguments.seed, arguments.data)
        for path in PATHS:
            found += compare(path, plan)
    about = machine.describe(_PACKAGES)
    choices = {"quick": arguments.quick, "threads": arguments.threads, "repeats": arguments.repeats}
    return {"kind": "detection", **about, **choices, "slow_repeats": arguments.slow_repeats, "rows": found}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=["detection"])
    parser.add_argument("--case", choices=[*CASES, "all"], default="all")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each engine")
    parser.add_argument("--slow-repeats", type=int, default=1, help="runs of those that take many seconds")
    parser.add_argument("--threads", type=int, default=machine.cpus(), help="CPUs each engine may use")
    parser.add_argument("--quick", action="store_true", help="a few hundred images; nothing is stored unless --json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=forms.FOLDER, help="where generated files are kept")
    parser.add_argument("--json", type=Path, help="where the result goes; default benchmarks/results")
    arguments = parser.parse_args(argv)
    for name in ("repeats", "slow_repeats", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1 but is {getattr(arguments, name)}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run, store, print; 1 when our own numbers do not agree with the reference."""
    arguments = parse(argv)
    result = benchmark(arguments)
    name = "_".join(["detection", *([] if arguments.case == "all" else [arguments.case]), result["date"][:10]])
    default = None if arguments.quick else machine.RESULTS / f"{name}.json"
    output = arguments.json or default
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n")
        print(f"written to {output}", file=sys.stderr)
    print(report.detection_text([result]))
    return 0 if all(row["status"] == "ok" for row in result["rows"] if row["tool"] == OURS) else 1


if __name__ == "__main__":
    sys.exit(main())
