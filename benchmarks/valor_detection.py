"""The benchmark of Valor's detection metrics: all engines on every case, as ``benchmarks.run`` stores it."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.interleave import interleaved_runs, rows
from benchmarks.suite import packages_of, plans, stored
from benchmarks.valor_baselines import TOOLS
from benchmarks.valor_cases import CASES, cached

WORKS = {
    "objects": "objects to AP, AR, counts and confusion matrices",
    "tensors": "tensors in batches of 16 images to AP, AR, counts and confusion matrices",
}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    for case, plan in plans("valor_detection", arguments, CASES, lambda c: c.quick if arguments.quick else c.images):
        cached(case.name, plan.size, plan.seed, plan.folder)
        for path, tools in TOOLS.items():
            found += rows(path, tools, plan, interleaved_runs(path, tools, plan), tools[-1].name)
    return stored("valor_detection", arguments, packages_of(TOOLS), found)
