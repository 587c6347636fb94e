"""Azure's metrics of texts: the numbers that azure-ai-evaluation 1.18.10 gave, recorded; tests/data/NOTICE.md."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.evaluators.azure_tokens import azure_tokenizer
from valor_gpu.evaluation.evaluators.base import Outcome, evaluator, score_portion

CASES = json.loads(gzip.decompress((Path(__file__).parents[1] / "data/azure/text_overlap.json.gz").read_bytes()))[
    "cases"
]
ROWS = [{"answer": case["prediction"], "ground_truth": case["ground_truth"]} for case in CASES]
IDS = [case["id"] for case in CASES]
ROUGES = (*(f"rouge{n}" for n in range(1, 6)), "rougeL")
SYNONYMS = (("automobile", "car"), ("quick", "fast"))


class Synonyms:
    """WordNet as far as the recorded cases need it."""

    def synsets(self, word: str) -> list[Any]:
        """One synonym set for each word of a pair."""
        return [Synset(pair) for pair in SYNONYMS if word in pair]


class Synset:
    """A synonym set: what METEOR reads of one."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def lemmas(self) -> list[Any]:
        """Its words."""
        return [Lemma(name) for name in self.names]


class Lemma:
    """A word of a synonym set."""

    def __init__(self, word: str) -> None:
        self.word = word

    def name(self) -> str:
        """The word."""
        return self.word


def expected(key: str) -> list[Any]:
    """The recorded values of a metric."""
    return [case["expected"][key] for case in CASES]


def values(outcomes: list[Outcome]) -> list[float | None]:
    """Values of rows that are all ok."""
    assert {outcome.status for outcome in outcomes} == {"ok"}
    return [outcome.value for outcome in outcomes]


def close(found: Any, want: Any) -> None:
    """Relative 1e-9."""
    assert found == pytest.approx(want, rel=1e-9, abs=0)


@pytest.mark.parametrize(("name", "key"), [("f1_score", "f1_score"), ("bleu", "bleu"), ("gleu", "gleu")])
def test_recorded_numbers(name: str, key: str) -> None:
    if name != "f1_score":
        pytest.importorskip("nltk")
    close(values(evaluator(name).score_rows(ROWS)), expected(key))


def test_all_kinds_of_rouge_of_a_portion() -> None:
    found = score_portion([evaluator(name) for name in ROUGES], ROWS)
    for name in ROUGES:
        close(values(found[name]), [case["f1_score"] for case in expected(name)])
        for part in ("precision", "recall"):
            close(
                [outcome.details[part] for outcome in found[name] if outcome.details], [c[part] for c in expected(name)]
            )


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("exact_match", []),
        ("exact_match_ignore_case", ["ignore_case"]),
        ("exact_match_ignore_case_punct", ["ignore_case", "ignore_punctuation"]),
        ("exact_match_ignore_numbers", ["ignore_numbers"]),
        (
            "exact_match_squad_normalized",
            ["ignore_case", "ignore_punctuation", "ignore_articles", "ignore_white_space"],
        ),
    ],
)
def test_exact_match_and_its_options(key: str, options: list[str]) -> None:
    found = values(evaluator("exact_match", **dict.fromkeys(options, True)).score_rows(ROWS))
    assert found == [float(value) for value in expected(key)]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_tokens(case: dict[str, Any]) -> None:
    pytest.importorskip("nltk")
    split = azure_tokenizer()
    for field in ("prediction", "ground_truth"):
        assert split(case[field]) == case["expected"]["tokens_azure_ai_evaluation"][field]


def test_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the synonyms that the cases need; with a whole WordNet where VALOR_GPU_WORDNET names its folder."""
    pytest.importorskip("nltk")
    folder = os.environ.get("VALOR_GPU_WORDNET")
    if not folder:
        home = "valor_gpu.evaluation.evaluators.overlap.wordnet_reader"
        monkeypatch.setattr(home, lambda folder: Synonyms())
    close(values(evaluator("meteor", wordnet=folder or "none").score_rows(ROWS)), expected("meteor"))
