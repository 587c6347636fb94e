"""Choices of ROUGE, BLEU and chrF give the numbers of sacreBLEU and torchmetrics."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torchmetrics.functional.text as peers

from valor_gpu import functional, text
from valor_gpu.errors import InputError, InputTypeError

PIECES = [
    *(
        "the",
        "Cat",
        "sat,",
        "1.5",
        ".5",
        "5.",
        "a-b",
        "¿qué?",
        "日本語。",
        "汉字abc",
        "€3",
        "x+y",
        "…",
        "٣,٤",
        "Ⅳ.",
        "½!",
    ),
    *("running", "\u2001", "\u2603", "\U0001d4b3", "\U00020000", "「引用」", "don't", "&quot;", "\uff41\uff11"),
]


def rows(count: int, seed: int, references: int = 2) -> tuple[list[str], list[list[str]]]:
    rng = random.Random(seed)

    def sentence(words: list[str]) -> str:
        return " ".join(rng.choice(PIECES) if rng.random() < 0.2 else word for word in words)

    preds = [[rng.choice(PIECES) for _ in range(rng.randrange(4, 14))] for _ in range(count)]
    return list(map(" ".join, preds)), [[sentence(words) for _ in range(references)] for words in preds]


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "zh", "char", "none"])
def test_tokenizers_are_those_of_sacrebleu(tokenizer: str) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    preds, target = rows(60, 1)
    expected = sacrebleu.BLEU(tokenize=tokenizer).corpus_score(preds, list(map(list, zip(*target))))
    found = text.corpus_bleu(preds, target, tokenizer)
    assert found.value == pytest.approx(expected.score / 100, rel=1e-12)
    assert (found.prediction_length, found.reference_length) == (expected.sys_len, expected.ref_len)
    assert f"tok:{tokenizer}|" in found.signature
    metric = text.BLEU(tokenizer)
    metric.update(preds, target)
    assert float(metric.compute()["bleu"]) == found.value


@pytest.mark.parametrize("weights", [(0.1, 0.2, 0.3, 0.4), (0.7, 0.1, 0.1, 0.1)])
def test_weights_are_those_of_torchmetrics(weights: tuple[float, ...]) -> None:
    preds, target = rows(30, 2)
    for smooth, smoothing in ((False, "none"), (True, "add-k")):
        expected = peers.bleu_score(preds, target, smooth=smooth, weights=weights)
        metric = text.BLEU("whitespace", smoothing, weights=weights)
        metric.update(preds, target)
        assert float(metric.compute()["bleu"]) == pytest.approx(float(expected), rel=1e-5)
        assert (
            float(metric.compute()["bleu"]) == text.corpus_bleu(preds, target, "none", smoothing, weights=weights).value
        )


def test_a_size_of_weight_0_does_not_count() -> None:
    whole, two = (
        text.corpus_bleu(["a b c"], ["a b d"], weights=(0.5, 0.5, 0, 0), smoothing="none"),
        (2 / 3 * 1 / 2) ** 0.5,
    )
    assert whole.value == pytest.approx(two, rel=1e-12)
    assert text.corpus_bleu(["a"], ["a"], weights=(0, 0, 0, 1), effective_order=True).value == 0


@pytest.mark.parametrize("whitespace", [False, True])
def test_chrf_with_white_space_is_that_of_sacrebleu(whitespace: bool) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    preds, target = rows(40, 3)
    peer = sacrebleu.CHRF(word_order=2, whitespace=whitespace)
    metric = text.CHRF(word_order=2, whitespace=whitespace)
    metric.update(preds, target)
    assert float(metric.compute()) == pytest.approx(peer.corpus_score(preds, list(zip(*target))).score / 100, rel=1e-12)
    expected = [peer.sentence_score(pred, row).score / 100 for pred, row in zip(preds, target)]
    assert text.chrf_scores(preds, target, word_order=2, whitespace=whitespace).tolist() == pytest.approx(expected)


def shout(value: str) -> str:
    """A normaliser that keeps every character."""
    return value.upper()


def at_commas(value: str) -> list[str]:
    """Words, some of them empty."""
    return value.replace(" ", ",").split(",")


@pytest.mark.parametrize("accumulate", ["best", "avg"])
@pytest.mark.parametrize("stem", [False, True])
@pytest.mark.parametrize(
    ("normalizer", "tokenizer"), [(None, None), (shout, None), (None, list), (str.lower, at_commas)]
)
@pytest.mark.filterwarnings(
    "ignore:ROUGE counts the letters a to z:UserWarning"
)  # numbers are torchmetrics' all the same
def test_rouge_is_that_of_torchmetrics(
    accumulate: Any, stem: bool, normalizer: Callable[[str], str] | None, tokenizer: Callable[[str], list[str]] | None
) -> None:
    preds, target = rows(12, 4, 3)
    kinds = ("rouge1", "rouge2", "rougeL")
    choices: dict[str, Any] = {"accumulate": accumulate, "normalizer": normalizer, "tokenizer": tokenizer}
    expected = peers.rouge_score(preds, target, use_stemmer=stem, rouge_keys=kinds, **choices)
    metric = text.ROUGE(kinds, stem, **choices)
    for part in (slice(0, 5), slice(5, 12)):
        metric.update(preds[part], target[part])
    assert {name: float(value) for name, value in metric.compute().items()} == pytest.approx(
        {name: float(value) for name, value in expected.items()}, rel=1e-5
    )


@pytest.mark.parametrize("sample", ["тест привет", "今天 2024", "สวัสดี ครับ", "👍"])
def test_rouge_warns_of_scripts_that_it_cannot_read(sample: str) -> None:
    """Numbers stay those of rouge_score, where equal texts of such scripts have 0."""
    calls: dict[str, Callable[..., Any]] = {
        "function": lambda **given: text.rouge_scores([sample], [sample], ["rouge1"], **given)["rouge1"].fmeasure[0],
        "class": lambda **given: text.ROUGE(["rouge1"], **given)([sample], [sample])["rouge1_fmeasure"],
        "named": lambda **given: text.ROUGEScore(rouge_keys="rouge1", **given)(sample, sample)["rouge1_fmeasure"],
        "functional": lambda **given: functional.rouge_score(sample, sample, rouge_keys="rouge1", **given)[
            "rouge1_fmeasure"
        ],
    }
    for call in calls.values():
        with pytest.warns(UserWarning, match='most of the texts of 1 of 1 rows .*give tokenizer="unicode"'):
            assert float(call()) == float(any(map(str.isdigit, sample)))
        for name in ("unicode", "characters"):
            assert float(call(tokenizer=name)) == 1
        assert float(call(normalizer=str.lower)) == 1


def test_named_tokenizers_of_rouge() -> None:
    pairs = ["Das Café am Eck"], ["DAS CAFE\u0301 am Ende"]
    assert text.rouge_scores(*pairs, ["rouge1"], tokenizer="unicode")["rouge1"].fmeasure.tolist() == [0.75]
    stems = text.rouge_scores(["cats running"], ["cat runs"], ["rouge1"], use_stemmer=True, tokenizer="unicode")
    assert stems["rouge1"].fmeasure.tolist() == [1]
    lower = text.rouge_scores(["A b"], ["a B"], ["rouge1"], normalizer=str.lower, tokenizer="whitespace")
    assert lower["rouge1"].fmeasure.tolist() == [1]
    assert "tokenizer:unicode" in str(text.ROUGE(["rouge1"], tokenizer="unicode").result().signature)


def test_lines_of_summaries_are_split_by_the_same_functions() -> None:
    found = text.rouge_scores(["A,b\nC"], [["c\na,b"]], ["rougeLsum"], normalizer=str.lower, tokenizer=at_commas)
    assert np.array_equal(found["rougeLsum"], [[1], [1], [1]])
    assert text.rouge_scores([], [], accumulate="avg")["rougeL"].recall.tolist() == []


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: text.BLEU("ja-mecab"), InputError, "tokenizer must .* no model but got 'ja-mecab': split"),
        (lambda: text.BLEU(weights=(1.0,)), InputError, r"weights must be max_ngram = 4 numbers but got \[1\.0\]"),
        (lambda: text.BLEU(weights=(1, 1, 1, 1)), InputError, "weights must be numbers .* sum to 1"),
        (lambda: text.ROUGE(accumulate="max"), InputError, "accumulate must be one of 'best', 'avg' but got 'max'"),
        (lambda: text.ROUGE(tokenizer=13), InputTypeError,  # type: ignore[arg-type]
         "tokenizer must be a function of a text or None but got"),
        (lambda: text.ROUGE(tokenizer="13a"), InputError, "tokenizer must be one of .*'unicode' but got '13a'"),
    ],
)  # fmt: skip
def test_choices_are_checked_at_once(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()
