"""Metrics of texts by torchmetrics' names: its arguments in its order, and its numbers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torchmetrics import text as peer

from valor_gpu import text

PREDS = ["the cat is on the mat", "hello there General Kenobi .", "one two three four five six"]
TARGET = [
    ["there is a cat on the mat", "a cat is on the mat"],
    ["Hello there general kenobi"],
    ["one two 3 four five six"],
]
LEFT_OUT = {"return_sentence_level_score"}


@pytest.mark.parametrize("name", ["BLEUScore", "SacreBLEUScore", "CHRFScore", "ROUGEScore"])
def test_arguments_are_those_of_torchmetrics(name: str) -> None:
    mine, theirs = (inspect.signature(getattr(module, name)).parameters for module in (text, peer))
    wanted = [key for key in theirs if key not in LEFT_OUT]
    assert list(mine) == wanted
    assert [mine[key].default for key in wanted] == [theirs[key].default for key in wanted]


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("BLEUScore", ()),
        ("BLEUScore", (2, True)),
        ("BLEUScore", (2, False, [0.25, 0.75])),
        ("SacreBLEUScore", ()),
        ("SacreBLEUScore", (3, True, "char", True)),
        ("ROUGEScore", (False, None, None, "avg", ("rouge1", "rougeL"))),
        ("ROUGEScore", (False, str.upper, str.split, "best", "rouge2")),
    ],
)
def test_numbers_are_those_of_torchmetrics(name: str, choices: Any) -> None:
    mine, theirs = (getattr(module, name)(*choices) for module in (text, peer))
    for metric in (mine, theirs):
        metric.update(PREDS[:1], TARGET[:1])
        metric.update(PREDS[1:], TARGET[1:])
    expected = theirs.compute()
    assert float(next(iter(expected.values())) if isinstance(expected, dict) else expected) > 0.1
    torch.testing.assert_close(mine.compute(), expected, atol=1e-6, rtol=0, check_dtype=False)


def test_chrf_is_that_of_words_of_up_to_two() -> None:
    """torchmetrics adds a small number where n-grams have no match; sacreBLEU and the class CHRF do not."""
    mine, same = text.CHRFScore(5, lowercase=True), text.CHRF(5, 2, lowercase=True)
    for metric in (mine, same):
        metric.update(PREDS, TARGET)
    assert float(mine.compute()) == float(same.compute()) == pytest.approx(0.85, abs=0.1)
