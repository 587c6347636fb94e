"""The benchmark of masks: files to AP, dense masks to AP, pairwise IoU."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.interleave import interleaved_runs, rows
from benchmarks.mask_baselines import TOOLS
from benchmarks.mask_cases import CASES, cached
from benchmarks.suite import packages_of, plans, stored
from benchmarks.verify import REFERENCE

WORKS = {
    "segm files": "JSON files with masks to AP",
    "dense masks": "dense masks in batches of 16 images to AP",
    "keypoints files": "JSON files with keypoints to AP",
    "mask IoU": "IoU of run lengths, pairs of an image and class",
}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    for case, plan in plans("masks", arguments, CASES, lambda c: c.quick if arguments.quick else c.images):
        cached(case.name, plan.size, plan.seed, plan.folder)
        tools = TOOLS[case.work]
        found += rows(case.work, tools, plan, interleaved_runs(case.work, tools, plan), REFERENCE)
    return stored("masks", arguments, packages_of(TOOLS), found)
