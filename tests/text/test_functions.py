"""Functions of texts give the numbers of torchmetrics, by its positions and defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import torchmetrics.functional.text as peers

from tests.text.test_metrics import pairs
from valor_gpu import functional
from valor_gpu.metric import Metric
from valor_gpu.plans import checked_only
from valor_gpu.text import WordErrorRate

SEVERAL: dict[str, list[dict[str, Any]]] = {
    "bleu_score": [{}, {"n_gram": 2, "smooth": True}],
    "sacre_bleu_score": [{}, {"tokenize": "char", "lowercase": True}],
    "translation_edit_rate": [{}, {"normalize": True, "no_punctuation": True}],
}
SINGLE: dict[str, list[dict[str, Any]]] = {
    "word_error_rate": [{}],
    "char_error_rate": [{}],
    "match_error_rate": [{}],
    "word_information_lost": [{}],
    "word_information_preserved": [{}],
    "edit_distance": [{}, {"substitution_cost": 2, "reduction": "none"}],
    "rouge_score": [{"rouge_keys": ("rouge1", "rougeL")}],
}
CASES = [(name, choices) for name, each in {**SEVERAL, **SINGLE}.items() for choices in each]


def _numbers(value: Any) -> Any:
    return {name: float(x) for name, x in value.items()} if isinstance(value, dict) else value.tolist()


def _defaults(parameters: Any) -> list[tuple[str, Any]]:
    return [(name, each.default) for name, each in parameters.items()]


@pytest.mark.parametrize(("name", "choices"), CASES)
def test_numbers_are_those_of_torchmetrics(name: str, choices: dict[str, Any]) -> None:
    preds, target = pairs(20)
    rows: Any = target if name in SEVERAL else [row[0] for row in target]
    expected = _numbers(getattr(peers, name)(preds, rows, **choices))
    assert _numbers(getattr(functional, name)(preds, rows, **choices)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("whitespace", [False, True])
def test_chrf_is_that_of_sacrebleu(whitespace: bool) -> None:
    """torchmetrics adds a small number where an order of n-grams has no match, which changes the third digit."""
    sacrebleu = pytest.importorskip("sacrebleu")
    preds, target = pairs(20)
    target = [[row[0], row[-1]] for row in target]
    peer = sacrebleu.CHRF(word_order=2, whitespace=whitespace)
    expected = peer.corpus_score(preds, list(zip(*target))).score / 100
    found: Any = functional.chrf_score(preds, target, whitespace=whitespace)
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", [*SEVERAL, *SINGLE, "chrf_score", "squad"])
def test_positions_and_defaults_are_those_of_torchmetrics(name: str) -> None:
    found, expected = (inspect.signature(getattr(module, name)).parameters for module in (functional, peers))
    assert [(key, each.default) for key, each in found.items()] == [
        (key, each.default) for key, each in expected.items()
    ]


def test_a_text_alone_is_a_row() -> None:
    assert float(functional.word_error_rate("a b", "a c")) == 0.5
    assert functional.rouge_score("a b", ["x", "a b"], rouge_keys="rouge1")["rouge1_fmeasure"] == 1
    record = {"prediction_text": "1976", "id": "x"}, {"answers": {"answer_start": [97], "text": ["1976"]}, "id": "x"}
    assert _numbers(functional.squad(*record)) == {"exact_match": 100, "f1": 100}


@pytest.mark.parametrize("name", ["chrf_score", "translation_edit_rate"])
def test_rows_beside_the_corpus(name: str) -> None:
    preds, target = pairs(5)
    whole, rows = getattr(functional, name)(preds, target, return_sentence_level_score=True)
    assert rows.shape == (5,) and rows.dtype == torch.float64
    expected = [float(getattr(functional, name)(pred, [row])) for pred, row in zip(preds, target)]
    assert rows.tolist() == pytest.approx(expected, rel=1e-12)
    assert whole == getattr(functional, name)(preds, target)


def test_functions_take_no_part_in_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr("torchmetrics.metric.jit_distributed_available", lambda: True)
    monkeypatch.setattr(Metric, "sync", lambda _self, _dist, _group, should_sync=True, *_: asked.append(should_sync))
    with checked_only():
        functional.accuracy(torch.zeros(4), torch.tensor([0, 1, 1, 1]), "binary")
        functional.word_error_rate("a cat", "a dog")
        functional.squad({"prediction_text": "a", "id": "1"}, {"answers": {"text": ["a"]}, "id": "1"})
        functional.bert_score([torch.ones(1, 2)], [torch.ones(1, 2)])
        assert len(asked) == 4 and not any(asked)
        WordErrorRate()(["a"], ["a"])
        metric = WordErrorRate()
        metric.update(["a"], ["a"])
        metric.compute()
    assert asked[-1]
