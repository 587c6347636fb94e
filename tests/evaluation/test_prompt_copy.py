"""Prompts of built-in metrics as texts of prompt files: the same question, the same scale."""

from __future__ import annotations

import re
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.judged import judged_metric
from valor_gpu.evaluation.prompts.prompt_copy import prompt_copy
from valor_gpu.evaluation.prompts.prompt_files import prompt_evaluator
from valor_gpu.judge import run_judge
from valor_gpu.judge.metrics.table import RATINGS

ROW = {"question": "Is it {{ 1 + 1 }}?", "answer": "Yes.", "context": "It is.", "ground_truth": "It is so."}
CITED = {"citations": [{"id": "d", "content": "It is."}]}
CHAT = {
    "messages": [
        {"role": "user", "content": "Is it?"},
        {"role": "assistant", "content": "Yes.", "context": CITED},
        {"role": "user", "content": "Really?"},
        {"role": "assistant", "content": "It is.", "context": CITED},
    ]
}
CASES = [(name, task) for name, rating in RATINGS.items() for task in rating.prompts]


def asked(metric: Any, row: Any) -> tuple[list[Any], list[float]]:
    seen: list[Any] = []

    def judge(messages: Any) -> str:
        seen.append([re.sub(r"~+.*", "~", message["content"]) for message in messages])
        return '{"reason": "r", "score": 2, "status": "completed"}'

    run = run_judge([row], [metric], judge)
    return seen, run.scores(metric.name)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_copy_asks_the_same(name: str, task: str) -> None:
    built_in = judged_metric(name, task=task)
    copy = prompt_evaluator(prompt_copy(name, task), name="copy")
    row = ROW if task == "qa" else CHAT
    (first, values), (second, copied) = asked(built_in, row), asked(copy, row)
    assert len(first) == len(second) == (1 if task == "qa" else 2) and copied == values == [2.0]
    # Earlier messages stand in one fence in place of one each, so the first turn is compared.
    expected = [re.sub(r"\(no earlier messages\)", "~ (none) ~", text).split() for text in first[0]]
    assert [text.split() for text in second[0]] == expected
    assert (copy.low, copy.high, copy.higher_is_better) == (built_in.low, built_in.high, built_in.higher_is_better)
    assert copy.needed == built_in.needed


@pytest.mark.parametrize("name", ["f1_score", "preference", "nothing"])
def test_what_has_no_single_prompt(name: str) -> None:
    with pytest.raises(InputError, match="must be a judged one with a single prompt"):
        prompt_copy(name)
