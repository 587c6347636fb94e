"""Stateful text metrics equal their functions, whatever the split; what no row has is NaN with a reason."""

from __future__ import annotations

import importlib
import math
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from valor_gpu import text
from valor_gpu.errors import InputError, MissingExtraError

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "ran;", "running", "quickly"]


def pairs(rows: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    rng = random.Random(seed)

    def sentence() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 12)))

    return [sentence() for _ in range(rows)], [[sentence() for _ in range(rng.randint(1, 2))] for _ in range(rows)]


ROWS = pairs(30)
EXPECTED: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], dict[str, float]]]] = {
    "rouge": (
        lambda: text.ROUGE(["rouge2", "rougeLsum"], use_stemmer=True),
        lambda p, t: {
            f"{kind}_{field}": float(getattr(scores, field).mean())
            for kind, scores in text.rouge_scores(p, t, ["rouge2", "rougeLsum"], True).items()
            for field in ("fmeasure", "precision", "recall")
        },
    ),
    "gleu": (text.GLEU, lambda p, t: {"gleu": float(text.gleu_scores(p, t).mean())}),
    "token f1": (
        text.TokenF1,
        lambda p, t: {name: float(getattr(text.token_f1(p, t), name).mean()) for name in ("f1", "precision", "recall")},
    ),
    "exact match": (text.ExactMatch, lambda p, t: {"exact_match": float(text.exact_match(p, t).mean())}),
    "bleu": (
        lambda: text.BLEU(smoothing="floor", lowercase=True),
        lambda p, t: {
            "bleu": (whole := text.corpus_bleu(p, t, smoothing="floor", lowercase=True)).value,
            **{f"precision_{n}": value for n, value in enumerate(whole.precisions, 1)},
            "brevity_penalty": whole.brevity_penalty,
        },
    ),
    "chrf": (lambda: text.CHRF(3, 1), lambda p, t: {"chrf": _corpus_chrf(p, t)}),
    "wer": (text.WordErrorRate, lambda p, t: {"wer": _rate(p, t, "whitespace")}),
    "cer": (text.CharErrorRate, lambda p, t: {"cer": _rate(p, t, "characters")}),
}


def _rate(preds: Any, target: Any, tokenizer: str) -> float:
    counts = text.edit_counts(preds, target, tokenizer)
    return float(counts.edits.sum() / counts.reference_lengths.sum())


def _corpus_chrf(preds: Any, target: Any) -> float:
    chrf = importlib.import_module("valor_gpu.text.chrf")
    counts = text.chrf_counts(preds, target, 3, 1)
    return float(chrf.chrf_value(chrf.ChrfCounts(*(n.sum(0) for n in counts))))


def _named(metric: Any) -> dict[str, float]:
    """Numbers by name, also of a metric that computes one."""
    value = metric.compute()
    named = value if isinstance(value, dict) else {next(iter(metric.result().values)): value}
    return {name: float(number) for name, number in named.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_batches_give_what_the_function_gives_for_all(name: str) -> None:
    make, expected = EXPECTED[name]
    whole, split = make(), make()
    whole.update(*ROWS)
    for rows in (slice(17, 30), slice(0, 1), slice(1, 1), slice(1, 17)):
        split.update(ROWS[0][rows], ROWS[1][rows])
    values = _named(split)
    assert values == _named(whole)
    assert values == pytest.approx(expected(*ROWS), rel=1e-13)
    result = split.result()
    assert {key: result.values[key] for key in values} == values and result.counts == {"rows": 30}


@pytest.mark.parametrize("name", EXPECTED)
def test_one_number_is_a_tensor_that_loggers_take(name: str) -> None:
    metric = EXPECTED[name][0]()
    metric.update(*ROWS)
    value, one = metric.compute(), name in ("gleu", "exact match", "chrf", "wer", "cer")
    assert isinstance(value, torch.Tensor) == one
    if one:
        assert value.shape == () and value.dtype == torch.float64


@pytest.mark.parametrize("name", EXPECTED)
def test_no_row_has_no_value(name: str) -> None:
    metric = EXPECTED[name][0]()
    result = metric.result()
    metric.update([], [])
    assert all(math.isnan(value) for value in _named(metric).values())
    assert set(result.reasons) == set(result.values) and "no row was added" in result.reasons.values()


def test_standard_errors() -> None:
    metric = text.ExactMatch()
    metric.update(["a b", "c", "d"], ["b", "c", "e"])
    result = metric.result()
    assert result.values["exact_match_stderr"] == pytest.approx(np.std([1, 1, 0], ddof=1) / math.sqrt(3))
    one = text.ExactMatch()
    one.update(["b"], ["b"])
    assert one.result().reasons == {"exact_match_stderr": "fewer than two rows"}


def test_a_rate_by_nothing_has_a_reason() -> None:
    metric = text.WordErrorRate()
    metric.update(["some words"], [""])
    result = metric.result()
    assert math.isnan(result.values["wer"]) and result.reasons == {"wer": "its divisor is 0"}


def test_collections_and_choices() -> None:
    collection = MetricCollection(
        {"plain": text.BLEU(), "lower": text.BLEU(lowercase=True), "wer": text.WordErrorRate()}
    )
    collection.update(["The cat sat on the mat"], ["the cat sat on the mat"])
    values = {name: float(value) for name, value in collection.compute().items()}
    assert values["lower_bleu"] > values["plain_bleu"] > 0 and values["wer"] == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: text.ROUGE(["rouge0"]), "rouge_types must be of rouge1 to rouge9, .* but got 'rouge0'"),
        (lambda: text.BLEU(smoothing="x"), "smoothing must be one of 'none', 'exp', 'floor', 'add-k' but got 'x'"),
        (lambda: text.GLEU("words"), "tokenizer must be one of 'alphanumeric', .* but got 'words'"),
        (lambda: text.BLEU(tokenizer="14a"), "tokenizer must be one of '13a', 'intl', .* but got '14a'"),
    ],
)
def test_choices_are_checked_at_once(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_functions_import_no_torch() -> None:
    program = (
        "import sys; from valor_gpu import text; text.rouge_scores(['a'], ['a']); text.corpus_bleu(['a'], ['a']);"
        " text.chrf_scores(['a'], ['a']); text.token_f1(['a'], ['a']); text.edit_counts(['a'], ['a']);"
        " text.meteor_scores; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_meteor_needs_a_wordnet_and_nltk(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"wordnet must be a folder with a WordNet database but .* lacks data\.noun"):
        text.meteor_scores(["a"], ["a"], tmp_path)
    for kind in ("data", "index"):
        for part in ("noun", "verb", "adj", "adv"):
            (tmp_path / f"{kind}.{part}").touch()
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"{part}.exc").touch()
    (tmp_path / "lexnames").touch()
    pytest.importorskip("nltk")  # whole, since an import that fails halfway leaves parts of it behind
    monkeypatch.setitem(sys.modules, "nltk.corpus.reader", None)
    with pytest.raises(MissingExtraError, match=r"METEOR needs nltk: pip install 'valor_gpu\[text\]'"):
        text.meteor_scores(["a"], ["a"], tmp_path)


def test_meteor_is_that_of_nltk(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a WordNet that knows no word."""
    nltk = pytest.importorskip("nltk.translate.meteor_score")

    class NoSynonyms:
        def synsets(self, word: str) -> list[Any]:
            return []

    monkeypatch.setattr("valor_gpu.text.meteor.wordnet_reader", lambda folder: NoSynonyms())
    expected = [
        nltk.meteor_score([t.split() for t in row], p.split(), wordnet=NoSynonyms(), alpha=0.5) for p, row in zip(*ROWS)
    ]
    assert text.meteor_scores(*ROWS, wordnet="unused", alpha=0.5).tolist() == expected
