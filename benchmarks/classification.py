"""The benchmark of classification: all engines on every work and size, as ``benchmarks.run`` stores it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import machine, scores
from benchmarks.baselines import OURS
from benchmarks.classification_baselines import TOOLS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.scores import CASES

WORKS = {
    "top-1": "accuracy (macro, micro), precision, recall, F1 in one collection",
    "top-5": "top-5 accuracy",
    "confusion matrix": "confusion matrix",
    "ROC AUC at thresholds": "macro ROC AUC, 200 thresholds",
    "precision-recall at thresholds": "precision-recall curves, 200 thresholds",
    "ROC AUC": "macro ROC AUC, exact",
    "average precision": "macro average precision, exact",
}
_PACKAGES = ("valor_gpu", "torch", "numpy", *sorted({t.package for tools in TOOLS.values() for t in tools} - {OURS}))


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    for case in CASES.values() if arguments.case == "all" else (CASES[arguments.case],):
        size = case.quick[0] if arguments.quick else case.rows
        plan = Plan(
            case, size, arguments.data, arguments.threads, arguments.repeats, arguments.slow_repeats,
            seed=arguments.seed, suite="classification",
        )  # fmt: skip
        print(f"{case.name}: {size} rows of {case.classes_at(size)} classes", file=sys.stderr, flush=True)
        scores.cached(case, size, arguments.seed, arguments.data)
        for work in TOOLS:
            found += compare(work, plan)
    about = machine.describe(dict.fromkeys(_PACKAGES))
    choices = {"quick": arguments.quick, "threads": arguments.threads, "repeats": arguments.repeats}
    return {"kind": "classification", **about, **choices, "slow_repeats": arguments.slow_repeats, "rows": found}


def compare(work: str, plan: Plan) -> list[dict[str, Any]]:
    """Rows of all engines on one work at one size; those beyond their largest size are not run."""
    tools = TOOLS[work]
    able = [tool for tool in tools if tool.most is None or plan.size <= tool.most]
    runs = interleaved_runs(work, able, plan)
    classes = CASES[plan.case.name].classes_at(plan.size)
    return [{**row, "classes": classes} for row in rows(work, tools, plan, runs, reference=tools[2].name)]
