"""Rates of edits, edit distances and SQuAD's numbers equal those of torchmetrics, and of jiwer where it is there."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.text as peers

from valor_gpu import text
from valor_gpu.errors import InputError, InputTypeError

RATES = {"MatchErrorRate": "mer", "WordInfoLost": "wil", "WordInfoPreserved": "wip"}
WORDS = ("the", "cat", "sat", "on", "Mat", "a", "ran;", "é")


def _rows(seed: int, rows: int = 25, most: int = 12) -> tuple[list[str], list[str]]:
    rng = random.Random(seed)
    texts = [" ".join(rng.choice(WORDS) for _ in range(rng.randrange(most))) for _ in range(2 * rows)]
    return texts[:rows], texts[rows:]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", RATES)
def test_rates_are_those_of_torchmetrics(name: str, seed: int) -> None:
    ours, theirs = getattr(text, name)(), getattr(peers, name)()
    for rows in (_rows(seed), _rows(seed + 10, 1)):
        ours.update(*rows)
        theirs.update(*rows)
    assert float(ours.compute()) == pytest.approx(float(theirs.compute()), rel=1e-5)


@pytest.mark.parametrize("name", RATES)
def test_rates_are_those_of_jiwer_where_words_are_only_replaced_or_only_added(name: str) -> None:
    jiwer, rng = pytest.importorskip("jiwer"), random.Random(3)
    target = [row for row in _rows(1)[1] if row]
    preds = [f"{row} more words" if rng.random() < 0.5 else row.replace("cat", "dog") for row in target]
    metric = getattr(text, name)()
    metric.update(preds, target)
    expected = getattr(jiwer.process_words(target, preds), RATES[name])
    assert float(metric.compute()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", RATES)
def test_rates_of_nothing_have_a_reason(name: str) -> None:
    metric = getattr(text, name)()
    metric.update([""], ["" if name == "MatchErrorRate" else "words"])
    assert metric.compute().isnan()
    assert metric.result().reasons == {RATES[name]: "its divisor is 0"}


def test_the_nearest_reference_counts() -> None:
    for name, kind in RATES.items():
        several, one = getattr(text, name)(), getattr(text, name)()
        several.update(["The Cat sat"], [["a dog", "the cat sat down", "the cat sat"]])
        one.update(["The Cat sat"], ["the cat sat"])
        assert several.compute() == one.compute(), kind
        lower = getattr(text, name)(lowercase=True)
        lower.update(["The Cat sat"], ["the cat sat"])
        assert float(lower.compute()) == (kind == "wip")


def _distance(first: str, second: str, cost: int) -> int:
    table = np.add.outer(np.arange(len(first) + 1), np.arange(len(second) + 1))
    for i, j in np.ndindex(len(first), len(second)):
        replaced = table[i, j] + cost * (first[i] != second[j])
        table[i + 1, j + 1] = min(replaced, table[i, j + 1] + 1, table[i + 1, j] + 1)
    return int(table[-1, -1])


@pytest.mark.parametrize("cost", range(5))
def test_edit_distance_is_that_of_the_definition_and_of_torchmetrics(cost: int) -> None:
    preds, target = _rows(cost, most=5)
    expected = [_distance(*pair, cost) for pair in zip(preds, target)]
    cases: Any = (("none", expected), (None, expected), ("sum", sum(expected)), ("mean", np.mean(expected)))
    for reduction, value in cases:
        ours, theirs = text.EditDistance(cost, reduction), peers.EditDistance(cost, reduction)
        for rows in (slice(0, 1), slice(1, 25)):
            ours.update(preds[rows], target[rows])
            theirs.update(preds[rows], target[rows])
        found = ours.compute()
        assert found.tolist() == pytest.approx(value, rel=1e-15)
        assert theirs.compute().tolist() == pytest.approx(value, rel=1e-6)
        result = ours.result()
        assert np.array_equal(result.values["edit_distance"], found.numpy()) and result.counts == {"rows": 25}


def test_edit_distance_of_no_row() -> None:
    for reduction, value in (("sum", 0), ("none", []), ("mean", pytest.approx(np.nan, nan_ok=True))):
        metric = text.EditDistance(reduction=reduction)
        metric.update([], [])
        assert metric.compute().tolist() == value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: text.EditDistance(-1), "substitution_cost must be a whole number of at least 0 but got -1"),
        (lambda: text.EditDistance(True), "substitution_cost must be a whole number of at least 0 but got True"),
        (lambda: text.EditDistance(reduction="max"), "reduction must be one of 'mean', 'sum', 'none' but got 'max'"),
    ],
)
def test_choices_are_checked_at_once(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_state_of_distances_is_checked() -> None:
    metric = text.EditDistance()
    metric.update(["rain"], ["shine"])
    state = type(metric.state())(torch.tensor([[0.5]], dtype=torch.float64))
    with pytest.raises(InputError, match=r"scores.* must be whole numbers from 0 to 2\^53"):
        state.check(None)


def _questions(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    preds, target = _rows(seed, most=5)
    _, others = _rows(seed + 1, most=4)
    answers = [{"prediction_text": text, "id": f"q{i}"} for i, text in enumerate(preds)]
    asked = [
        {"answers": {"answer_start": [0, 0], "text": list(pair)}, "id": f"q{i}"}
        for i, pair in enumerate(zip(target, others))
    ]
    return answers[::-1], asked


@pytest.mark.parametrize("seed", range(3))
def test_squad_is_that_of_torchmetrics(seed: int) -> None:
    answers, asked = _questions(seed)
    ours, theirs = text.SQuAD(), peers.SQuAD()
    for metric in (ours, theirs):
        metric.update(answers, asked)
        metric.update({"prediction_text": "The Cat!", "id": "x"}, {"answers": {"text": ["cat"]}, "id": "x"})
    values = {name: float(value) for name, value in ours.compute().items()}
    assert values == pytest.approx({name: float(value) for name, value in theirs.compute().items()}, rel=1e-5)
    assert 0 < values["exact_match"] < values["f1"] < 100


def test_questions_without_an_answer_score_0_and_are_counted() -> None:
    answers, asked = _questions(0)
    ours, theirs = text.SQuAD(), peers.SQuAD()
    ours.update(answers[:-2], asked)
    with pytest.warns(UserWarning, match="Unanswered question"):
        theirs.update(answers[:-2], asked)
    result = ours.result()
    assert result.counts == {"rows": 25, "unanswered": 2}
    assert set(result.values) == {"exact_match", "f1", "exact_match_stderr", "f1_stderr"}
    assert result.values["f1"] == pytest.approx(float(theirs.compute()["f1"]), rel=1e-5)


RIGHT = {"answers": {"text": ["a"]}, "id": "x"}


@pytest.mark.parametrize(
    ("preds", "target", "kind", "message"),
    [
        ("a", [RIGHT], InputError, "preds must be a dict or a sequence of dicts but got str"),
        (
            [{"id": "x"}],
            [RIGHT],
            InputError,
            r"preds\[0\] must be a dict with 'prediction_text' and 'id' but got \['id",
        ),
        ([], [{"id": "x"}], InputError, r"target\[0\] must be a dict with 'answers' and 'id' but got \['id'\]"),
        ([], [{"id": "x", "answers": ["a"]}], InputError, r"target\[0\]\['answers'\] must be a dict with 'text'"),
        ([], [{"id": "x", "answers": {"text": []}}], InputError, "must be a list of at least one text but got"),
        ([], [{"id": "x", "answers": {"text": [1]}}], InputTypeError, r"\['text'\]\[0\] must be .*str"),
        (
            [{"id": "x", "prediction_text": 1}],
            [RIGHT],
            InputTypeError,
            r"preds\[0\]\['prediction_text'\] must be .*str",
        ),
        ([{"id": "y", "prediction_text": "a"}], [RIGHT], InputError, "preds must answer .* but 'y' is none of its ids"),
    ],
)
def test_bad_questions_are_named(preds: Any, target: Any, kind: type[Exception], message: str) -> None:
    metric = text.SQuAD()
    with pytest.raises(kind, match=message):
        metric.update(preds, target)
    assert len(metric.state().scores) == 0
