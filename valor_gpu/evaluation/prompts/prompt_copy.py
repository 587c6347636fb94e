"""Prompts of built-in judged metrics as the texts of prompt files, which users change as they like. No torch."""

from __future__ import annotations

import json
import re
from typing import Any

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.judged import judged_metric
from valor_gpu.judge.metrics.table import RATINGS

_FIELDS = {
    "contexts": "context",
    "documents": "context",
    "correct_answers": "ground_truth",
    "earlier_messages": "history",
}
"""Inputs of built-in prompts, to the fields that a template names."""
_PLACE = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")


def can_copy(name: str) -> bool:
    """Whether a built-in evaluator asks one question, which a prompt file can ask too.

    Example:
        >>> can_copy("gpt_groundedness"), can_copy("f1_score"), can_copy("preference")
        (True, False, False)
    """
    return name in RATINGS


def prompt_copy(name: str, task: str = "qa") -> str:
    r"""The prompt of a built-in metric, with a front matter that has its scale.

    Out of it :func:`~valor_gpu.evaluation.prompts.prompt_files.prompt_evaluator` makes a metric that asks the same;
    texts stand between the same lines of tildes, several ones in one pair of them.

    Args:
        name: of the metric.
        task: ``qa`` or ``chat``.

    Raises:
        InputError: a metric without a prompt, or of several; a task that it does not have.

    Example:
        >>> text = prompt_copy("gpt_fluency")
        >>> text.splitlines()[2], '{{ answer|fenced("answer") }}' in text
        ('scale: [1, 5]', True)
    """
    if not can_copy(name):
        raise InputError(f"evaluator must be a judged one with a single prompt to be copied but is {name!r}")
    check_choice("task", task, tuple(RATINGS[name].prompts))
    made: Any = judged_metric(name, task=task)
    shown = {_FIELDS.get(place, place) for place in made.prompt.fields}
    optional = sorted(shown - made.needed)
    head = [
        f"description: {json.dumps(EVALUATORS[name].summary, ensure_ascii=False)}",
        f"scale: [{made.low:g}, {made.high:g}]",
        f"higher_is_better: {json.dumps(made.higher_is_better)}",
        *(["task: chat"] if task == "chat" else []),
        *(["inputs:", *(f'  {field}: {{default: "(none)"}}' for field in optional)] if optional else []),
    ]
    return "\n".join(["---", *head, "---", "system:", made.prompt.system, "", "user:", _places(made.prompt.task), ""])


def _places(text: str) -> str:
    """The text with the fields of a template in place of the inputs of a built-in prompt."""
    return _PLACE.sub(lambda found: f'{{{{ {_FIELDS.get(found[1], found[1])}|fenced("{found[1]}") }}}}', text)
