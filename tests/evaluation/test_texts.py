"""Evaluators of texts: several ground truths, fields that are no texts, sharing, Valor's names, corpora, embeddings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu import text
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators import texts
from valor_gpu.evaluation.evaluators.azure_tokens import azure_tokenizer, international_tokens
from valor_gpu.evaluation.evaluators.base import EVALUATORS, Outcome, evaluator, score_portion

PLAIN = [name for name, info in EVALUATORS.items() if info.kind in ("text", "corpus") and not info.needs]
ROWS: list[dict[str, Any]] = [
    {"answer": "the red cat sat on the mat", "ground_truth": "a red cat sat on a mat"},
    {"answer": "dog", "ground_truth": ["cat", "the dog"]},
    {"answer": "", "ground_truth": ""},
]


@pytest.fixture(params=PLAIN)
def name(request: pytest.FixtureRequest) -> str:
    """An evaluator of texts that needs nothing beside them."""
    chosen: str = request.param
    if chosen in ("bleu", "gleu"):
        pytest.importorskip("nltk")
    return chosen


def test_values_lie_in_the_scale_and_the_best_ground_truth_counts(name: str) -> None:
    each = evaluator(name)
    several, alone = each.score_rows(ROWS[:2]), each.score_rows([{"answer": "dog", "ground_truth": "the dog"}])
    others = ("bleu", "corpus_bleu", "word_error_rate", "char_error_rate")
    if name not in others:  # these compare with the nearest, or with all at once
        assert several[1] == alone[0]
    assert all(each.low <= outcome.value <= (each.high or 9) for outcome in several if outcome.value is not None)


def test_rows_without_texts_fail_alone(name: str) -> None:
    rows = [ROWS[0], {"answer": 3.5, "ground_truth": "a"}, {"answer": "a", "ground_truth": []}, {"answer": "a"}]
    rows += [{"answer": "a", "ground_truth": {"x": 1}}, {"answer": "a", "ground_truth": ["a", True]}, ROWS[1]]
    found = evaluator(name).score_rows(rows)
    assert [found[0], found[-1]] == evaluator(name).score_rows(ROWS[:2])
    assert [(outcome.status, outcome.reason) for outcome in found[1:-1]] == [
        ("invalid_field", "answer must be text but is float: write its digits as a text"),
        ("invalid_field", "ground_truth must have at least one text but is an empty list"),
        ("missing_field", "missing ground_truth"),
        ("invalid_field", "ground_truth must be a text or a list of texts but is dict"),
        ("invalid_field", "ground_truth[1] must be text but is bool: write it as a text, as the other texts do"),
    ]
    assert evaluator(name).score_rows(rows[1:2])[0].status == "invalid_field"


def test_integers_are_their_digits(name: str) -> None:
    texts_ = {"answer": "42 words", "ground_truth": ["42", "42 words"]}
    assert evaluator(name).score_rows([{**texts_, "ground_truth": [42, "42 words"]}]) == evaluator(name).score_rows(
        [texts_]
    )
    same, alike = {"answer": 42, "ground_truth": 42}, {"answer": "42", "ground_truth": "42"}
    assert evaluator(name).score_rows([same]) == evaluator(name).score_rows([alike])
    [whole] = evaluator(name).score_rows([{"answer": "42", "ground_truth": 42.0}])
    assert whole.status == "invalid_field" and whole.reason.endswith("a text, since 42.0 may stand for 42")


def test_hostile_texts_have_numbers(name: str) -> None:
    rows = [{"answer": text, "ground_truth": text} for text in ("\x00", "\ud800 x", "<b>", "a" * 100_000, "\u2028")]
    statuses = [outcome.status for outcome in evaluator(name).score_rows(rows)]
    assert statuses == ["undefined" if "rouge" in name else "ok", "ok", "ok", "ok", "ok"]


SCRIPTS = {
    "Thai": ("สวัสดี ครับ", "ครับ สวัสดี", "แมว"),
    "Russian": ("тест привет", "привет тест", "кошка"),
    "Hindi": ("नमस्ते दुनिया", "दुनिया नमस्ते", "बिल्ली"),
    "Arabic": ("مرحبا بالعالم", "بالعالم مرحبا", "قطة"),
    "Chinese": ("今天很好", "很好今天", "猫"),
    "Japanese": ("今日はいい", "いい今日は", "ねこ"),
    "Korean": ("안녕 세계", "세계 안녕", "고양이"),
    "emoji": ("👍🎉", "🎉👍", "👎"),
    "mixed": ("GPT 今天很好", "GPT 很好今天", "GPT 明月如水"),
}
"""Script to a text, another order of its words, and another text."""


@pytest.mark.parametrize("script", SCRIPTS)
def test_rouge_of_other_scripts_is_undefined_until_a_tokenizer_is_given(script: str) -> None:
    same, other_order, other = SCRIPTS[script]
    rows = [{"answer": same, "ground_truth": each} for each in (same, other_order, other, [other, same], "Paris")]
    rows.append({"answer": "Paris", "ground_truth": [same, "Paris"]})
    for name in (each for each in EVALUATORS if "rouge" in each):
        found = evaluator(name).score_rows(rows)
        assert [outcome.status for outcome in found] == [*["undefined"] * 5, "ok"]
        assert f'metric_params={{"{name}": {{"tokenizer": "unicode"}}}}' in found[0].reason
        assert f"--param {name}.tokenizer=unicode" in found[0].reason and found[0].value is None
    values = [outcome.value for outcome in evaluator("rouge1", tokenizer="unicode").score_rows(rows)]
    assert values[0] == values[1] == values[3] == 1 and values[4] == 0
    assert values[2] == (0 if script != "mixed" else pytest.approx(0.2))
    assert all(outcome.value for outcome in evaluator("rougeL", tokenizer="unicode").score_rows(rows[:2]))


def test_a_text_of_punctuation_has_no_word_for_rouge() -> None:
    rows = [("...", "Paris"), ("Paris", "?!"), ("", "Paris"), ("Paris", "  "), ("été", "été"), ("café", "café")]
    found = evaluator("rouge1").score_rows([{"answer": a, "ground_truth": b} for a, b in rows])
    assert [outcome.value for outcome in found] == [None, None, 0, 0, None, 1]
    unicode = evaluator("rouge1", tokenizer="unicode")
    found = unicode.score_rows([{"answer": a, "ground_truth": b} for a, b in rows])
    assert [outcome.value for outcome in found] == [None, None, 0, 0, 1, 1]
    assert found[0].reason == "tokenizer 'unicode' finds no word in a text that is not empty"
    assert unicode.parameters == {"tokenizer": "unicode"} and unicode.version != evaluator("rouge1").version
    assert evaluator("rouge1", tokenizer="alphanumeric").version == evaluator("rouge1").version
    with pytest.raises(InputError, match=r"tokenizer must be one of 'alphanumeric', .*'unicode' but got 'thai'"):
        evaluator("rougeL", tokenizer="thai")


def test_metrics_that_split_at_white_space_read_every_script(name: str) -> None:
    if "rouge" in name:
        return
    same = [{"answer": text, "ground_truth": text} for text, _, _ in SCRIPTS.values()]
    each = evaluator(name)
    if each.pooled:
        counts = np.sum([outcome.details["counts"] for outcome in each.score_rows([*same, ROWS[0]])], axis=0)
        assert each.pool(counts.tolist()).value is not None
    found = [outcome.value for outcome in each.score_rows(same)]
    if name in ("f1_score", "exact_match", "gleu", "corpus_chrf"):
        assert found == pytest.approx([1] * len(same))
    elif name.endswith("error_rate"):
        assert found == [0] * len(same)


def test_f1_of_an_answer_without_a_word_says_so() -> None:
    rows = [("A", "A"), ("the", "Paris"), ("?", "?"), ("", ""), ("B", "B")]
    found = evaluator("f1_score").score_rows([{"answer": a, "ground_truth": b} for a, b in rows])
    assert [outcome.value for outcome in found] == [0, 0, 0, 0, 1]
    assert [bool(outcome.reason) for outcome in found] == [True, True, True, False, False]
    assert "no word is left of a text; exact_match compares it" in found[0].reason


def test_a_portion_is_split_once_into_words_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    split = texts.tokenize_rows
    monkeypatch.setattr(texts, "tokenize_rows", lambda t, r, name: made.append(name) or split(t, r, name))
    names = ["f1_score", "rouge1", "rouge5", "rougeL", "valor_rougeL", "valor_bleu", "valor_rouge2"]
    found = score_portion([evaluator(each) for each in names], ROWS)
    assert made == ["plain", "alphanumeric", "valor"]
    assert found["rougeL"] == evaluator("rougeL").score_rows(ROWS)


def test_valors_names_are_the_functions_of_text() -> None:
    predictions, references = [row["answer"] for row in ROWS], [row["ground_truth"] for row in ROWS]
    found = score_portion([evaluator(each) for each in EVALUATORS if each.startswith("valor_")], ROWS)
    assert [outcome.value for outcome in found["valor_bleu"]] == text.sentence_bleu(predictions, references).tolist()
    for kind, scores in text.rouge_scores(predictions, references).items():
        assert [outcome.value for outcome in found[f"valor_{kind}"]] == scores.fmeasure.tolist()


def test_counts_of_a_corpus_are_pooled_and_have_no_mean() -> None:
    rows = ROWS[:2]
    predictions, references = [row["answer"] for row in rows], [row["ground_truth"] for row in rows]
    sums = {}
    for each in map(evaluator, ("corpus_bleu", "corpus_chrf", "word_error_rate", "char_error_rate")):
        assert each.pooled and each.summary_name == each.name
        counts = [outcome.details["counts"] for outcome in each.score_rows(rows)]
        sums[each.name] = each.pool(np.sum(counts, axis=0).tolist()).value
    assert sums["corpus_bleu"] == text.corpus_bleu(predictions, references).value > 0
    for name, tokenizer in (("word_error_rate", "whitespace"), ("char_error_rate", "characters")):
        edits = text.edit_counts(predictions, references, tokenizer)
        assert sums[name] == edits.edits.sum() / edits.reference_lengths.sum()
    assert sums["word_error_rate"] == 3 / 8 and sums["char_error_rate"] == 9 / 25
    sacrebleu = pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")
    theirs = sacrebleu.corpus_chrf(predictions, [["a red cat sat on a mat", "cat"], [None, "the dog"]])
    assert sums["corpus_chrf"] == pytest.approx(theirs.score / 100, rel=1e-12)


def test_corpora_without_words() -> None:
    rate = evaluator("word_error_rate")
    assert rate.pool([0, 0]) == Outcome(0.0)
    assert rate.pool([2, 0]) == Outcome(None, "undefined", "the ground truths have no word")
    with pytest.raises(InputError, match=r"counts must be 2 sums of at least 0 for word_error_rate but got \[1\]"):
        rate.pool([1])


def letters(words: list[str]) -> list[list[float]]:
    """Counts of a and b."""
    return [[float(word.count("a")), float(word.count("b"))] for word in words]


def test_ada_similarity_is_the_cosine_and_a_text_without_direction_has_none() -> None:
    rows = [{"answer": "ab", "ground_truth": "abab"}, {"answer": "a", "ground_truth": "b"}]
    found = evaluator("ada_similarity", embed=letters).score_rows([*rows, {"answer": "", "ground_truth": "a"}])
    assert [outcome.value for outcome in found] == [pytest.approx(1.0), 0.0, None]
    assert (found[2].status, found[2].reason) == ("undefined", "the evaluator's value is nan")
    with pytest.raises(InputTypeError, match="embed must be a function from texts to vectors for ada"):
        evaluator("ada_similarity")


def test_folders_that_are_none() -> None:
    with pytest.raises(InputError, match="wordnet must be the folder of a WordNet 3 database for meteor but got None"):
        evaluator("meteor")
    pytest.importorskip("nltk")
    with pytest.raises(InputError, match=r"punkt must be a folder with NLTK's Punkt model but nowhere lacks abbrev"):
        evaluator("bleu", punkt="nowhere")


def test_a_named_model_of_punkt_says_where_sentences_end(tmp_path: Path) -> None:
    pytest.importorskip("nltk")
    for name, content in (("abbrev_types.txt", "zzq\n"), ("sent_starters.txt", ""), ("collocations.tab", "a\tb\n")):
        (tmp_path / name).write_text(content)
    (tmp_path / "ortho_context.tab").write_text("the\t46\n")
    sentence = "Ask zzq. Jones. Ask Dr. Jones."
    assert azure_tokenizer(tmp_path)(sentence) == ["Ask", "zzq.", "Jones", ".", "Ask", "Dr", ".", "Jones", "."]
    assert azure_tokenizer()(sentence) == ["Ask", "zzq", ".", "Jones", ".", "Ask", "Dr.", "Jones", "."]


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("北京。东京", "北京。东京"),
        ("です。はい", "です 。 はい"),
        ("한국어.“네”", "한국어 . “네”"),
        ("a-9é 9-a €5.50", "a - 9 é 9 - a € 5.50"),
        ("👍%é👍%", "👍 % é👍 %"),
        ("<skipped>é&amp;è", "é & è"),
    ],
)
def test_international_tokens_are_those_of_nltk_with_its_lists(sentence: str, tokens: str) -> None:
    """Recorded from NLTK 3.10.4 with the character lists of sacremoses 0.1.1."""
    assert international_tokens(sentence) == tokens.split()


def test_options_must_be_true_or_false() -> None:
    with pytest.raises(InputTypeError, match="ignore_case must be bool but got int"):
        evaluator("exact_match", ignore_case=1)


def test_metrics_of_texts_import_no_torch() -> None:
    code = (
        "import sys; from valor_gpu.evaluation.evaluators.base import evaluator;"
        "evaluator('f1_score'), evaluator('rougeL'), evaluator('length'), evaluator('corpus_bleu');"
        "print([m for m in ('torch', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
