"""What a judge's function may return in place of a text."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests.judge.test_openai import question
from valor_gpu.judge import CallableJudge, Status
from valor_gpu.judge.metric import question_metric
from valor_gpu.judge.returned import fields_in, reply_text
from valor_gpu.judge.run import run_judge


@dataclass
class Rating:
    score: Any
    reason: str = "r\xe9"


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("4", "4"),
        (4, "4"),
        (4.5, "4.5"),
        (np.int64(4), "4"),
        (np.float32(0.5), "0.5"),
        (Fraction(1, 2), "0.5"),
        ({"score": 4, "reason": "r\xe9"}, '{"score": 4, "reason": "r\xe9"}'),
        ({"score": np.int64(4), "all": np.array([1, 2])}, '{"score": 4, "all": [1, 2]}'),
        (Rating(Rating(1)), '{"score": {"score": 1, "reason": "r\xe9"}, "reason": "r\xe9"}'),
        (namedtuple("Score", "score")(4), '{"score": 4}'),
        ({"role": "assistant", "content": "4"}, "4"),
        (SimpleNamespace(content="4", role="assistant"), "4"),
        ({"content": "4"}, '{"content": "4"}'),
        (None, None),
        (True, None),
        (float("nan"), None),
        (10**400, None),
        ({"score": float("inf")}, None),
        ({"score": object()}, None),
        ([4], None),
        (b"4", None),
        (SimpleNamespace(content=None), None),
        (SimpleNamespace(content=["4"]), None),
        (Rating, None),
        (Mock(), None),
    ],
)
def test_texts_of_what_functions_return(returned: Any, text: str | None) -> None:
    assert reply_text(returned) == text


def test_models_of_pydantic_are_json() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", score=(int, ...), parts=(list[float], ...))
    assert reply_text(model(score=4, parts=[0.5])) == '{"score": 4, "parts": [0.5]}'
    message = pydantic.create_model("Message", content=(str, ...))
    assert reply_text(message(content="4")) == "4" and fields_in(message(content="4")) == {"content": "4"}


def test_a_judge_may_return_them() -> None:
    metric = question_metric("m", lambda row: question(str(row)), 1, 5)
    returns = [4, {"score": 5, "reason": "good"}, Rating(3), SimpleNamespace(content="2"), [1]]
    run = run_judge(range(5), [metric], CallableJudge(lambda messages: returns[int(messages[0]["content"])]))
    assert run.scores("m")[:4] == [4.0, 5.0, 3.0, 2.0]
    assert run.judgements["m"][4][0].status is Status.JUDGE_ERROR
