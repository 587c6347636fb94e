"""The benchmark of detection: all engines on every case, from files and from tensors."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from benchmarks.baselines import OURS, TOOLS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.suite import packages_of, plans, stored
from benchmarks.verify import REFERENCE, RULES
from testing import formats
from testing.datasets import CASES

PATHS = {"files": "JSON files to AP", "tensors": "tensors in batches of 16 images to AP"}
PACKAGES = packages_of(TOOLS)


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
    for case, plan in plans("detection", arguments, CASES, lambda c: c.quick_images if arguments.quick else c.images):
        plan = replace(plan, big=case.name != "val2017" and not arguments.quick)
        formats.cached(case, plan.size, plan.seed, plan.folder)
        for path in PATHS:
            found += compare(path, plan)
    return stored("detection", arguments, PACKAGES, found)
