"""Metrics of texts by torchmetrics' names: its arguments in its order, and its numbers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torchmetrics import text as peer

from valor_gpu import functional, text
from valor_gpu.errors import InputError, SyncError

PREDS = ["the cat is on the mat", "hello there General Kenobi .", "one two three four five six"]
TARGET = [
    ["there is a cat on the mat", "a cat is on the mat"],
    ["Hello there general kenobi"],
    ["one two 3 four five six"],
]


@pytest.mark.parametrize("name", ["BLEUScore", "SacreBLEUScore", "CHRFScore", "ROUGEScore", "TranslationEditRate"])
def test_arguments_are_those_of_torchmetrics(name: str) -> None:
    mine, theirs = (inspect.signature(getattr(module, name)).parameters for module in (text, peer))
    assert list(mine) == list(theirs)
    assert [mine[key].default for key in theirs] == [each.default for each in theirs.values()]


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
    values = mine.compute(), same.compute()
    assert values[0] == values[1] == pytest.approx(0.85, abs=0.1)


@pytest.mark.parametrize("name", ["CHRFScore", "TranslationEditRate"])
def test_sentence_level_scores_are_those_of_each_row_in_their_order(name: str) -> None:
    metric, plain = getattr(text, name)(return_sentence_level_score=True), getattr(text, name)()
    metric.update(PREDS[0], TARGET[0])
    value, rows = metric.compute()  # one row: no dimension, as in torchmetrics
    assert rows.shape == () and float(rows) == float(value)
    metric.update(PREDS[1:], TARGET[1:])
    value, rows = metric.compute()
    plain.update(PREDS, TARGET)
    alone = [getattr(text, name)()([row], [several]) for row, several in zip(PREDS, TARGET)]
    assert float(value) == float(plain.compute()) and rows.tolist() == [float(each) for each in alone]
    assert "scores" not in plain.metric_state


@pytest.mark.parametrize("name", ["CHRFScore", "TranslationEditRate"])
def test_sentence_level_scores_are_no_view_of_the_state(name: str) -> None:
    metric = getattr(text, name)(return_sentence_level_score=True)
    metric.update(PREDS, TARGET)
    metric.compute()[1].fill_(7)
    assert metric.state().scores.max() < 7


def test_sentence_level_edit_rates_are_those_of_torchmetrics() -> None:
    values = []
    for module in (text, peer):
        metric = module.TranslationEditRate(return_sentence_level_score=True)
        metric.update(PREDS, TARGET)
        values.append(metric.compute())
    torch.testing.assert_close(*values, atol=1e-6, rtol=0, check_dtype=False)


def test_a_loaded_state_has_a_possible_score_for_every_row() -> None:
    metric = text.CHRFScore(return_sentence_level_score=True)
    metric.update(PREDS, TARGET)
    for scores, message in (
        (torch.tensor([0.5, -1.0, 0.5]), r"scores\[1\] must be"),
        (torch.ones(2), "number of scores, 2"),
    ):
        state = {**metric.metric_state, "scores": [scores.double()]}
        with pytest.raises(InputError, match=message):
            text.CHRFScore(return_sentence_level_score=True).merge_state(state)
    with pytest.raises(SyncError, match="return_sentence_level_score"):
        text.CHRFScore().from_bytes(metric.to_bytes())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: text.BLEUScore(n_gram=0), "^n_gram must be a whole number from 1 to 1000 but got 0"),
        (lambda: functional.bleu_score("a", "a", n_gram=0), "^n_gram must be a whole number from 1 to 1000 but got 0"),
        (lambda: text.SacreBLEUScore(tokenize="spm"), "^tokenize must be one that needs no model but got 'spm'"),
        (lambda: functional.sacre_bleu_score("a", "a", tokenize="words"), "^tokenize must be one of '13a', .*'words'$"),
        (lambda: text.BLEUScore(smooth="no"), "smooth must be bool but got str"),  # type: ignore[arg-type]
        (lambda: text.BLEU(max_ngram=-3), "max_ngram must be a whole number from 1 to 1000 but got -3"),
        (lambda: text.GLEU(max_ngram=0), "max_ngram must be a whole number from 1 to 1000 but got 0"),
        (lambda: text.CHRFScore(0, 0), "^n_char_order and n_word_order must name one n-gram but are 0 and 0"),
        (lambda: text.CHRFScore(1.5), "^n_char_order must be int but got float"),  # type: ignore[arg-type]
        (lambda: text.CHRFScore(-1), "^n_char_order must be at least 0 but got -1"),
        (lambda: text.CHRFScore(2**40), r"^n_char_order must be in \[0, 1000\] but got 1099511627776"),
        (lambda: text.CHRFScore(6, 1001), r"^n_word_order must be in \[0, 1000\] but got 1001"),
        (lambda: text.GLEU(max_ngram=1001), "max_ngram must be a whole number from 1 to 1000 but got 1001"),
        (lambda: text.CHRFScore(beta=float("nan")), "beta must be in .* but got nan"),
        (lambda: text.CHRFScore(beta=float("inf")), "beta must be in .* but got inf"),
        (lambda: text.CHRFScore(lowercase="no"), "lowercase must be bool but got str"),  # type: ignore[arg-type]
        (lambda: text.BERTScore()(["a"], ["a"]), r"preds\[0\] must be embeddings .* no encoder of texts is given"),
    ],
)
def test_arguments_are_checked_before_a_batch_is_counted(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
