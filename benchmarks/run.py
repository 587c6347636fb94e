"""``python -m benchmarks.run detection|classification|text``: evaluators side by side, parity first.

How a run is measured: :mod:`benchmarks.interleave`. An engine whose numbers differ from the reference's (pycocotools,
scikit-learn), beyond what it documents, gets no number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import classification, machine, report, texts
from benchmarks.baselines import OURS, TOOLS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.verify import REFERENCE, RULES
from testing import formats
from testing.datasets import CASES

PATHS = {"files": "JSON files to AP", "tensors": "tensors in batches of 16 images to AP"}
_PACKAGES = ("valor_gpu", "torch", "numpy", *sorted({t.package for tools in TOOLS.values() for t in tools} - {OURS}))
_TASKS: dict[str, Collection[str]] = {"detection": CASES, "classification": classification.CASES, "text": texts.CASES}


def compare(path: str, plan: Plan) -> list[dict[str, Any]]:
    """Rows of all engines of detection on one path of one case."""
    tools = TOOLS[path]
    if not plan.big:
        return rows(path, tools, plan, interleaved_runs(path, tools, plan), REFERENCE)
    print(f"  {path}: parity on {CASES[plan.case.name].quick_images} images first", file=sys.stderr)
    # The version on which every engine is held against pycocotools first.
    small = replace(plan, size=CASES[plan.case.name].quick_images, repeats=1, slow_repeats=1, big=False)
    gate = {row["tool"]: row for row in rows(path, tools, small, interleaved_runs(path, tools, small), REFERENCE)}
    passed = [t for t in tools if gate[t.name]["status"] == "ok"]
    fast = [t for t in passed if not t.slow]
    # pycocotools itself cannot run at this scale: a peer that equalled it on the small version stands for it.
    stand_in = next((t.name for t in fast if t.name != OURS and RULES[t.rule].same_arrays), REFERENCE)
    runs = interleaved_runs(path, fast, plan)
    kept = rows(path, passed, plan, runs, stand_in)
    failed = [{**gate[t.name], plan.case.unit: plan.size} for t in tools if t not in passed]
    return [*kept, *failed]


def detection(arguments: argparse.Namespace) -> dict[str, Any]:
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
        formats.cached(case, images, arguments.seed, arguments.data)
        for path in PATHS:
            found += compare(path, plan)
    about = machine.describe(_PACKAGES)
    choices = {"quick": arguments.quick, "threads": arguments.threads, "repeats": arguments.repeats}
    return {"kind": "detection", **about, **choices, "slow_repeats": arguments.slow_repeats, "rows": found}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=[*_TASKS])
    parser.add_argument("--case", default="all", help="; ".join(f"{n}: {', '.join(c)}" for n, c in _TASKS.items()))
    parser.add_argument("--repeats", type=int, default=5, help="runs of each engine")
    parser.add_argument("--slow-repeats", type=int, default=1, help="runs of those that take many seconds")
    parser.add_argument("--threads", type=int, default=machine.cpus(), help="CPUs each engine may use")
    parser.add_argument("--quick", action="store_true", help="small cases; nothing is stored unless --json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=formats.FOLDER, help="where generated files are kept")
    parser.add_argument("--json", type=Path, help="where the result goes; default benchmarks/results")
    arguments = parser.parse_args(argv)
    known = _TASKS[arguments.task]
    if arguments.case not in (*known, "all"):
        parser.error(f"--case must be one of {', '.join(known)} or all of {arguments.task} but is {arguments.case}")
    for name in ("repeats", "slow_repeats", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1 but is {getattr(arguments, name)}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run, store, print; 1 when our own numbers do not agree with the reference."""
    arguments = parse(argv)
    tasks = {"detection": detection, "classification": classification.benchmark, "text": texts.benchmark}
    result = tasks[arguments.task](arguments)
    name = "_".join([arguments.task, *([] if arguments.case == "all" else [arguments.case]), result["date"][:10]])
    default = None if arguments.quick else machine.RESULTS / f"{name}.json"
    output = arguments.json or default
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n")
        print(f"written to {output}", file=sys.stderr)
    print(report.TEXTS[arguments.task]([result]))
    return 0 if all(row["status"] == "ok" for row in result["rows"] if row["tool"] == OURS) else 1


if __name__ == "__main__":
    sys.exit(main())
