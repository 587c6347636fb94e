"""The benchmark of classification: all engines on every work and size, as ``benchmarks.run`` stores it."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import scores
from benchmarks.classification_baselines import TOOLS
from benchmarks.interleave import Plan, interleaved_runs, rows
from benchmarks.scores import CASES
from benchmarks.suite import packages_of, plans, stored

WORKS = {
    "top-1": "accuracy (macro, micro), precision, recall, F1 in one collection",
    "top-5": "top-5 accuracy",
    "confusion matrix": "confusion matrix",
    "ROC AUC at thresholds": "macro ROC AUC, 200 thresholds",
    "precision-recall at thresholds": "precision-recall curves, 200 thresholds",
    "ROC AUC": "macro ROC AUC, exact",
    "average precision": "macro average precision, exact",
}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    found: list[dict[str, Any]] = []
    asked = plans(
        "classification", arguments, CASES, lambda c: c.quick[0] if arguments.quick else c.rows,
        lambda case, size: f" of {case.classes_at(size)} classes",
    )  # fmt: skip
    for case, plan in asked:
        scores.cached(case, plan.size, plan.seed, plan.folder)
        for work in TOOLS:
            found += compare(work, plan)
    return stored("classification", arguments, packages_of(TOOLS), found)


def compare(work: str, plan: Plan) -> list[dict[str, Any]]:
    """Rows of all engines on one work at one size; those beyond their largest size are not run."""
    tools = TOOLS[work]
    able = [tool for tool in tools if tool.most is None or plan.size <= tool.most]
    runs = interleaved_runs(work, able, plan)
    classes = CASES[plan.case.name].classes_at(plan.size)
    return [{**row, "classes": classes} for row in rows(work, tools, plan, runs, reference=tools[2].name)]
