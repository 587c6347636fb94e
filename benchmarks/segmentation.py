"""The benchmark of segmentation: all engines on every case, as ``benchmarks.run`` stores it."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.interleave import interleaved_runs, rows
from benchmarks.segmentation_cases import CASES, cached
from benchmarks.segmentation_objects import TOOLS
from benchmarks.suite import packages_of, plans, stored

WORKS = {
    "label maps": "IoU of label maps",
    "logits": "IoU of float32 logits",
    "mean IoU": "MeanIoU of torchmetrics, an image at a time",
    "panoptic quality": "PQ, SQ and RQ of panoptic maps",
    "Hausdorff distance": "Hausdorff distance",
    "surface distances": "average surface distance and HD95",
    "PNG files": "folders of PNG files to IoU",
}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    for case, plan in plans("segmentation", arguments, CASES, lambda c: c.quick if arguments.quick else c.images):
        cached(case.name, plan.size, plan.seed, plan.folder)
        tools = TOOLS[case.path]
        found += rows(case.path, tools, plan, interleaved_runs(case.path, tools, plan), tools[-1].name)
    return stored("segmentation", arguments, packages_of(TOOLS), found)
