"""Valor's judged metrics over rows of fields."""

from __future__ import annotations

from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.judged import judged_metric
from valor_gpu.judge import run_judge
from valor_gpu.judge.metrics.table import VALOR
from valor_gpu.text import judged

ROW = {
    "question": "Is there a ferry?",
    "answer": "At nine.",
    "context": ["The ferry leaves at nine.", "Holm is an island."],
    "ground_truth": ["At nine.", "It leaves at nine."],
    "other": "never sent",
}
REPLIES = {
    "verdicts": '{"verdicts": [{"verdict": "yes"}, {"verdict": "no"}]}',
    "statements": '{"statements": ["a", "b"]}',
    "opinions": '{"opinions": ["a", "b"]}',
    "claims": '{"claims": ["a", "b"]}',
    "TP": '{"TP": ["a"], "FP": ["b"], "FN": []}',
    "score": '{"score": 4}',
}


async def reply(messages: Any) -> str:
    text = messages[0]["content"] + messages[-1]["content"]
    assert "never sent" not in text
    return REPLIES[
        next(key for key in ("TP", "verdicts", "statements", "opinions", "claims", "score") if f'"{key}"' in text)
    ]


@pytest.mark.parametrize("name", list(VALOR))
def test_numbers_are_those_of_the_metric_itself(name: str) -> None:
    info, metric = VALOR[name], judged_metric(name)
    original = getattr(judged, info.metric)()
    assert (metric.low, metric.high, metric.higher_is_better) == (info.low, info.high, info.higher_is_better)
    assert (original.low, original.high, original.higher_is_better) == (info.low, info.high, info.higher_is_better)
    row = judged.TextRow(ROW["question"], ROW["answer"], ROW["ground_truth"], ROW["context"])
    [[ours]] = run_judge([ROW], [metric], reply).judgements[name]
    [[theirs]] = run_judge([row], [original], reply).judgements[info.metric]
    assert ours.ok and ours.value == theirs.value and ours.attempts == theirs.attempts


@pytest.mark.parametrize("name", list(VALOR))
def test_rows_without_a_field_are_not_asked(name: str) -> None:
    for field in sorted(VALOR[name].fields):
        [[found]] = run_judge([{**ROW, field: " "}], [judged_metric(name)], reply).judgements[name]
        assert found.details.status == "missing_field" and field in found.details.reason and not found.attempts


def test_versions_and_tasks() -> None:
    assert len({judged_metric(name).version for name in VALOR}) == len(VALOR)
    with pytest.raises(InputError, match="task must be one of 'qa'"):
        judged_metric("valor_bias", task="chat")
