"""Kinds of metrics in words, and prompts of built-in ones, as pages show them."""

from __future__ import annotations

from typing import Any

from valor_gpu.evaluation.evaluators.table import EvaluatorInfo
from valor_gpu.evaluation.judged import judged_metric

FAMILIES = {
    "quality": "quality, rated by a judge",
    "safety": "risk and safety, rated by a judge",
    "pairwise": "preference, decided by a judge",
    "text": "text comparison, computed",
    "corpus": "text comparison of all rows together, computed",
    "check": "a check, computed",
    "retrieval": "retrieved documents, computed",
    "prompt": "a prompt of your own, rated by a judge",
    "builtin": "a built-in evaluator with parameters of its own",
    "function": "a function of a module",
}
"""Kinds of evaluators in words, of the table and of the library."""

TASK_WORDS = {"qa": "questions and answers", "chat": "conversations"}
"""Tasks in words."""


def prompts_of(info: EvaluatorInfo) -> list[tuple[str, str, str]]:
    """Task, system message and user message of a metric that a judge decides."""
    if "judge" not in info.needs:
        return []
    found = []
    for task in sorted(info.tasks, reverse=True):
        made: Any = judged_metric(info.name, task=task) if info.kind != "pairwise" else judged_metric(info.name)
        prompts = getattr(made, "prompts", None) or (made.prompt,)
        found += [(task, prompt.system, prompt.task) for prompt in prompts]
    return found
