"""The benchmark of masks: files to AP, dense masks to AP, pairwise IoU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks import machine
from benchmarks.baselines import OURS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.mask_baselines import DENSE_ROUNDS, TOOLS
from benchmarks.verify import REFERENCE
from testing import mask_datasets
from testing.mask_datasets import MASK_CASES

WORKS = {
    "segm files": "JSON files with masks to AP",
    "dense masks": "dense masks in batches of 16 images to AP",
    "mask IoU": "IoU of run lengths, pairs of an image and class",
}


@dataclass(frozen=True)
class MaskCase:
    """One work at one scale.

    Attributes:
        name: how the command line calls it.
        work: key of ``WORKS``.
        scale: key of ``MASK_CASES``.
        images: how many, and how many of the quick version.
    """

    name: str
    work: str
    scale: str
    images: int
    quick: int
    unit: ClassVar[str] = "images"
    number: ClassVar[str] = "map"


CASES: Mapping[str, MaskCase] = {
    case.name: case
    for case in (
        MaskCase("segm-val2017", "segm files", "val2017", 5_000, 60),
        MaskCase("segm-lvis", "segm files", "lvis", 1_000, 20),
        MaskCase("dense", "dense masks", "val2017", 500, 40),
        MaskCase("mask-iou", "mask IoU", "val2017", 500, 30),
    )
}
_PACKAGES = ("valor_gpu", "torch", "numpy", *sorted({t.package for tools in TOOLS.values() for t in tools} - {OURS}))


def cached(name: str, size: int, seed: int, folder: Any) -> Any:
    """The files of a case; dense masks are decoded from fewer images, which come several times."""
    case = CASES[name]
    images = size // DENSE_ROUNDS if case.work == "dense masks" else size
    return mask_datasets.cached(MASK_CASES[case.scale], images, seed, folder)


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
