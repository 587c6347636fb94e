"""The benchmark of masks: files to AP, dense masks to AP, pairwise IoU."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.mask_baselines import TOOLS
from benchmarks.mask_cases import CASES, cached
from benchmarks.verify import REFERENCE

WORKS = {
    "segm files": "JSON files with masks to AP",
    "dense masks": "dense masks in batches of 16 images to AP",
    "keypoints files": "JSON files with keypoints to AP",
    "mask IoU": "IoU of run lengths, pairs of an image and class",
}


_PACKAGES = ("valor_gpu", "torch", "numpy", *sorted({t.package for tools in TOOLS.values() for t in tools} - {OURS}))


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    for case in CASES.values() if arguments.case == "all" else (CASES[arguments.case],):
        size = case.quick if arguments.quick else case.images
        plan = Plan(
            case, size, arguments.data, arguments.threads, arguments.repeats, arguments.slow_repeats,
            seed=arguments.seed, suite="masks",
        )  # fmt: skip
        print(f"{case.name}: {size} images", file=sys.stderr, flush=True)
        cached(case.name, size, arguments.seed, arguments.data)
        tools = TOOLS[case.work]
        found += rows(case.work, tools, plan, interleaved_runs(case.work, tools, plan), REFERENCE)
    about = machine.describe(dict.fromkeys(_PACKAGES))
    choices = {"quick": arguments.quick, "threads": arguments.threads, "repeats": arguments.repeats}
    return {"kind": "masks", **about, **choices, "slow_repeats": arguments.slow_repeats, "rows": found}
