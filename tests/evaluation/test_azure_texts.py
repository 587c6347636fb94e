"""Azure's metrics of texts: the numbers that azure-ai-evaluation 1.18.10 gave, recorded; tests/data/NOTICE.md."""

from __future__ import annotations

import gc
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
SYNONYMS = {"noun": ("automobile", "car"), "adj": ("quick", "fast")}


def small_wordnet(folder: Path) -> Path:
    """A WordNet database as far as the recorded cases need it: one synonym set of nouns, one of adjectives."""
    folder.mkdir()
    (folder / "lexnames").write_text("00\tall\t3\n")
    for part, letter in (("noun", "n"), ("verb", "v"), ("adj", "a"), ("adv", "r")):
        words = SYNONYMS.get(part, ())
        lemmas = " ".join(f"{word} 0" for word in words)
        (folder / f"data.{part}").write_text(
            f"00000000 00 {letter} {len(words):02x} {lemmas} 000 | .  \n" if words else ""
        )
        index = "".join(f"{word} {letter} 1 0 1 0 00000000  \n" for word in sorted(words))
        (folder / f"index.{part}").write_text(index)
        (folder / f"{part}.exc").write_text("")
    return folder


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
    """Azure's numbers, but none where the words of a-z and 0-9 show nothing of a text; Azure has 0 there."""
    found = score_portion([evaluator(name) for name in ROUGES], ROWS)
    for name in ROUGES:
        unread = [row["answer"] for row, outcome in zip(ROWS, found[name]) if outcome.status == "undefined"]
        assert unread == [
            "東京\u3000です",
            "北京是中国的首都",
            "القاهرة عاصمة مصر",
            "दिल्ली भारत",
            "...",
            "e\u0301te\u0301",
        ]
        pairs = list(zip(found[name], expected(name)))
        assert {case["f1_score"] for outcome, case in pairs if outcome.status == "undefined"} == {0.0}
        read = [(outcome, case) for outcome, case in pairs if outcome.status != "undefined"]
        close(values([outcome for outcome, _ in read]), [case["f1_score"] for _, case in read])
        for part in ("precision", "recall"):
            close([outcome.details[part] for outcome, _ in read if outcome.details], [c[part] for _, c in read])


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


def test_meteor(tmp_path: Path) -> None:
    """With the synonyms that the cases need; with a whole WordNet where VALOR_GPU_WORDNET names its folder."""
    pytest.importorskip("nltk")
    folder = os.environ.get("VALOR_GPU_WORDNET") or small_wordnet(tmp_path / "wordnet")
    close(values(evaluator("meteor", wordnet=folder).score_rows(ROWS)), expected("meteor"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed on Linux")
def test_meteor_closes_the_files_of_its_wordnet(tmp_path: Path) -> None:
    pytest.importorskip("nltk")
    folder = small_wordnet(tmp_path / "wordnet")

    def opened() -> int:
        links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
        return sum(os.path.realpath(link).startswith(os.path.realpath(folder)) for link in links)

    scorer = evaluator("meteor", wordnet=folder)
    scorer.score_rows(ROWS)
    assert opened()
    del scorer
    gc.collect()
    assert not opened()
