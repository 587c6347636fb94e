"""The benchmark of segmentation: all engines on every case, as ``benchmarks.run`` stores it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.segmentation_cases import CASES, cached
from benchmarks.segmentation_objects import TOOLS

WORKS = {
    "label maps": "IoU of label maps",
    "logits": "IoU of float32 logits",
    "mean IoU": "MeanIoU of torchmetrics, an image at a time",
    "panoptic quality": "PQ, SQ and RQ of panoptic maps",
    "Hausdorff distance": "Hausdorff distance",
    "surface distances": "average surface distance and HD95",
    "PNG files": "folders of PNG files to IoU",
}
_PACKAGES = ("valor_gpu", "torch", "numpy", *sorted({t.package for tools in TOOLS.values() for t in tools} - {OURS}))


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    for case in CASES.values() if arguments.case == "all" else (CASES[arguments.case],):
        size = case.quick if arguments.quick else case.images
        plan = Plan(
            case, size, arguments.data, arguments.threads, arguments.repeats, arguments.slow_repeats,
            seed=arguments.seed, suite="segmentation",
        )  # fmt: skip
        print(f"{case.name}: {size} images", file=sys.stderr, flush=True)
        cached(case.name, size, arguments.seed, arguments.data)
        tools = TOOLS[case.path]
        found += rows(case.path, tools, plan, interleaved_runs(case.path, tools, plan), tools[-1].name)
    about = machine.describe(dict.fromkeys(_PACKAGES))
    choices = {"quick": arguments.quick, "threads": arguments.threads, "repeats": arguments.repeats}
    return {"kind": "segmentation", **about, **choices, "slow_repeats": arguments.slow_repeats, "rows": found}
