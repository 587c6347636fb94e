"""The benchmark of detection: all engines on every case, from files and from tensors."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from benchmarks import machine
from benchmarks.baselines import OURS, TOOLS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.verify import REFERENCE, RULES
from testing import formats
from testing.datasets import CASES

PATHS = {"files": "JSON files to AP", "tensors": "tensors in batches of 16 images to AP"}
PACKAGES = ("valor_gpu", "torch", "numpy", *sorted({t.package for tools in TOOLS.values() for t in tools} - {OURS}))


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
        formats.cached(case, images, arguments.seed, arguments.data)
        for path in PATHS:
            found += compare(path, plan)
    about = machine.describe(PACKAGES)
    choices = {"quick": arguments.quick, "threads": arguments.threads, "repeats": arguments.repeats}
    return {"kind": "detection", **about, **choices, "slow_repeats": arguments.slow_repeats, "rows": found}
