"""ROUGE, BLEU, GLEU, chrF and answer scores against rouge_score, NLTK, sacreBLEU, Valor's cases and hand counts."""

from __future__ import annotations

import json
import math
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.text.bleu import SMOOTHING, bleu_counts, corpus_bleu, gleu_scores, sentence_bleu
from valor_gpu.text.chrf import ChrfCounts, chrf_counts, chrf_scores, chrf_value
from valor_gpu.text.mteval import tokenize_13a
from valor_gpu.text.overlap import edit_counts, exact_match, token_f1
from valor_gpu.text.rouge import TYPES, rouge_scores
from valor_gpu.text.stemmer import stem
from valor_gpu.text.tokens import TOKENIZERS, plain_answer

CASES = json.loads((Path(__file__).parent.parent / "data/valor/text_cases.json").read_text())["cases"]
SENTENCES = """the cat sat on a mat and ran, running quickly; $45 or 3.14 Euro. It's flies skies dying happily
relational conditional naïve 語 x-ray (end) “quoted” U.S.A. B2B e.g. & < >"""
VOCABULARY = SENTENCES.split()


def random_text(rng: random.Random, max_words: int = 25) -> str:
    marks = [" "] * 8 + ["\n", ". ", " \n", ", "]
    return "".join(rng.choice(VOCABULARY) + rng.choice(marks) for _ in range(rng.randrange(max_words)))


def random_pairs(seed: int, rows: int = 60) -> tuple[list[str], list[list[str]]]:
    rng = random.Random(seed)
    predictions = [random_text(rng) for _ in range(rows)]
    references = [[random_text(rng) for _ in range(rng.randint(1, 3))] for _ in range(rows)]
    for i in range(0, rows, 5):  # texts that have much in common
        words = predictions[i].split(" ")
        references[i][-1] = " ".join([*words[: len(words) // 2], "the", *words[len(words) // 2 + 1 :]])
    return predictions, references


@pytest.mark.parametrize("use_stemmer", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_rouge_equals_rouge_score(use_stemmer: bool, seed: int) -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    kinds = [*TYPES, "rouge3"]
    predictions, references = random_pairs(seed)
    theirs = scorer.RougeScorer(kinds, use_stemmer=use_stemmer)
    expected = [theirs.score_multi(row, text) for text, row in zip(predictions, references)]
    found = rouge_scores(predictions, references, kinds, use_stemmer)
    for kind in kinds:
        for field in ("precision", "recall", "fmeasure"):
            want = [getattr(row[kind], field) for row in expected]
            assert getattr(found[kind], field).tolist() == want, (kind, field)
    assert 0 < found["rougeLsum"].fmeasure.mean() < 1


@pytest.mark.parametrize("words", [64, 65, 129, 200])
def test_the_longest_common_subsequence_of_long_texts(words: int) -> None:
    """A kernel has 64 words in a machine word, and a sum that carries from one into the next, and over whole ones."""
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    rng = random.Random(words)
    long = ["first", *(f"w{number}" for number in range(words - 2)), "last"]
    pairs = [(long, ["last", "first"]), (long, ["last", "w3", "first", "w1", "w5", "w4"])]
    pairs += [(rng.choices(long, k=words), rng.choices(long[:: words // 4], k=words)) for _ in range(20)]
    texts = [tuple(map(" ".join, each)) for pair in pairs for each in (pair, pair[::-1])]
    found = rouge_scores([one for one, _ in texts], [two for _, two in texts], ["rougeL"])["rougeL"]
    assert found.recall.tolist() == [scorer.score(two, one)["rougeL"].recall for one, two in texts]


def test_stems_are_those_of_nltk() -> None:
    porter = pytest.importorskip("nltk.stem.porter").PorterStemmer()
    roots = "agre hope tie fl sk control fall hiss fizz fail fil rat general relat vietnam analog apolog happ enjo boy"
    ends = """s es ies ed ied ing y ly alli logi ation ational izer bli fulness iviti biliti icate ness ement ion tion
    ll e eed fulli ful ical ance ator alism ous ousli entli eli ize ism iti able ible er ic al"""
    words = {root + a + b for root in roots.split() for a in ("", *ends.split()) for b in ("", "s", "ed", "ly", "ness")}
    assert {word: stem(word) for word in words} == {word: porter.stem(word) for word in words}
    assert stem("skies") == "sky" and stem("is") == "is"


@pytest.mark.parametrize("weights", [(0.25,) * 4, (1.0,), (0.5, 0.5), (0.2,) * 5, (0.0, 1.0)])
def test_sentence_bleu_equals_nltk(weights: tuple[float, ...]) -> None:
    nltk = pytest.importorskip("nltk.translate.bleu_score")
    predictions, references = random_pairs(3)
    split = TOKENIZERS["valor"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nltk warns of texts without matches
        expected = [
            nltk.sentence_bleu([split(t) for t in row], split(text), weights) if split(text) else 0.0
            for text, row in zip(predictions, references)
        ]
    found = sentence_bleu(predictions, references, weights)
    assert found == pytest.approx([value if value >= 1e-9 else 0.0 for value in expected], rel=1e-13, abs=0)
    assert (found > 0).sum() > 5


@pytest.mark.parametrize("smoothing", SMOOTHING)
@pytest.mark.parametrize("lowercase", [False, True])
def test_corpus_bleu_equals_sacrebleu(smoothing: str, lowercase: bool) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    predictions, references = random_pairs(4)
    references = [(row * 2)[:2] for row in references]
    for rows in (slice(0, 60), slice(0, 1), slice(7, 9), slice(20, 24)):
        theirs = sacrebleu.BLEU(smooth_method=smoothing, lowercase=lowercase)
        streams = [[row[k] for row in references[rows]] for k in range(2)]
        expected = theirs.corpus_score(predictions[rows], streams)
        found = corpus_bleu(predictions[rows], references[rows], smoothing=smoothing, lowercase=lowercase)
        assert 100 * found.value == pytest.approx(expected.score, rel=1e-12, abs=1e-12)
        assert (found.prediction_length, found.reference_length) == (expected.sys_len, expected.ref_len)
        assert found.brevity_penalty == pytest.approx(expected.bp, rel=1e-15)
        mine, signature = (text.split("|version")[0] for text in (found.signature, str(theirs.get_signature())))
        assert mine == signature


@pytest.mark.parametrize("smoothing", SMOOTHING)
@pytest.mark.parametrize("effective", [False, True])
def test_short_sentences_equal_sacrebleu(smoothing: str, effective: bool) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    rng = random.Random(5)
    theirs = sacrebleu.BLEU(smooth_method=smoothing, effective_order=effective)
    for _ in range(120):
        text, *row = [" ".join(rng.choices("abcd", k=rng.randrange(7))) for _ in range(3)]
        expected = theirs.corpus_score([text], [[t] for t in row]).score
        found = corpus_bleu([text], [row], smoothing=smoothing, effective_order=effective)
        assert 100 * found.value == pytest.approx(expected, rel=1e-12, abs=1e-12), (text, row)


def test_13a_words_are_those_of_sacrebleu() -> None:
    theirs = pytest.importorskip("sacrebleu.tokenizers.tokenizer_13a").Tokenizer13a()
    rng = random.Random(0)
    signs = "ab9 .,-&;\"'()[]{}<>/$%\n`~#|é+*=:?!@\\^_"
    texts = ["".join(rng.choice(signs) for _ in range(30)) for _ in range(500)]
    texts += ["a &quot;b&quot; &amp;lt; 5&lt;6&gt;", "1,000.5 and x,y.z 3-4 <skipped> a-\nb"]
    assert [tokenize_13a(text) for text in texts] == [theirs(text.rstrip()).split() for text in texts]


def test_gleu_equals_nltk() -> None:
    nltk = pytest.importorskip("nltk.translate.gleu_score")
    predictions, references = random_pairs(6)
    expected = [
        nltk.sentence_gleu([t.split() for t in row], text.split()) for text, row in zip(predictions, references)
    ]
    assert gleu_scores(predictions, references).tolist() == expected


@pytest.mark.parametrize("orders", [(6, 0), (6, 2), (0, 1), (3, 0)])
@pytest.mark.parametrize("beta", [1, 2])
def test_chrf_equals_sacrebleu(orders: tuple[int, int], beta: int) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    predictions, references = random_pairs(7)
    theirs = sacrebleu.CHRF(char_order=orders[0], word_order=orders[1], beta=beta)
    expected = [theirs.sentence_score(text, row).score for text, row in zip(predictions, references)]
    assert (100 * chrf_scores(predictions, references, *orders, beta)).tolist() == pytest.approx(expected, rel=1e-12)
    references = [(row * 2)[:2] for row in references]
    corpus = theirs.corpus_score(predictions, [[row[k] for row in references] for k in range(2)]).score
    counts = ChrfCounts(*(column.sum(0) for column in chrf_counts(predictions, references, *orders, beta)))
    assert 100 * float(chrf_value(counts, beta)) == pytest.approx(corpus, rel=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] in ("rouge", "bleu")], ids=lambda case: case["name"])
def test_valor_cases(case: dict[str, Any]) -> None:
    rows = [case["prediction"]], [case["references"]]
    if case["kind"] == "rouge":
        found: Any = {kind: s.fmeasure[0] for kind, s in rouge_scores(*rows, use_stemmer=case["use_stemmer"]).items()}
        assert found == pytest.approx(case["expected"], rel=1e-12)
    else:
        assert sentence_bleu(*rows, case["weights"])[0] == pytest.approx(case["expected"]["lite"], rel=1e-12)


def test_answers_by_hand() -> None:
    assert plain_answer("An apple a day; THE end") == "apple day end"
    scores = token_f1(["the cat sat", "", "", "red red car"], ["cat", "", "x", ["a red bus", "red car red"]])
    assert scores.precision.tolist() == [0.5, 1.0, 0.0, 1.0]
    assert scores.recall.tolist() == [1.0, 1.0, 0.0, 1.0]
    assert scores.f1.tolist() == pytest.approx([2 / 3, 1.0, 0.0, 1.0])
    assert exact_match(["A cat", "a cat"], ["cat", ["the dog", "Cat"]], normalize=None).tolist() == [0.0, 0.0]
    assert token_f1(["The"], ["the"], normalize=None).f1.tolist() == [0.0]


def test_plain_answers_are_equal_where_their_texts_are() -> None:
    rng = random.Random(4)
    predictions = [random_text(rng, 3) for _ in range(300)]
    references = [
        [
            rng.choice((said.upper(), said[::-1], random_text(rng, 3), f"the {said}, a"))
            for _ in range(rng.randint(1, 3))
        ]
        for said in predictions
    ]
    found = exact_match(predictions, references)
    assert found.tolist() == exact_match(predictions, references, lambda text: plain_answer(text)).tolist()
    assert 0.2 < found.mean() < 0.9


def test_error_rates_by_hand() -> None:
    words = edit_counts(["the cat", "a", "", "x y z"], ["the cat sat", "", "", ["x y", "x z y z"]])
    assert (words.edits.tolist(), words.reference_lengths.tolist()) == ([1, 1, 0, 1], [3, 0, 0, 2])
    assert words.rate[[0, 2, 3]].tolist() == [1 / 3, 0.0, 0.5] and math.isnan(words.rate[1])
    letters = edit_counts(["naïve"], ["naive"], "characters")
    assert letters.rate.tolist() == [0.2]


@pytest.mark.parametrize("tokenizer", ["whitespace", "characters"])
def test_the_nearest_of_several_references_counts(tokenizer: str) -> None:
    """Wherever it stands, however long the others are, and the first of equally near ones."""
    far, near, rest = ["a b c d", "z", "a b c x y"], "a b d", ["", "q q q q q q"]
    for references in ([near, *far, *rest], [*far, near, *rest], [*rest, *far, near]):
        found = edit_counts(["a b d"], [references], tokenizer)
        assert (found.edits.tolist(), found.reference_lengths.tolist()) == (
            [0],
            [3 if tokenizer == "whitespace" else 5],
        )
    found = edit_counts(["a b"], [["x y z z z", "a", "a b c"]], tokenizer)
    edits, true = ([1], [1]) if tokenizer == "whitespace" else ([2], [1])
    assert (found.edits.tolist(), found.reference_lengths.tolist()) == (edits, true)


def test_of_equally_near_references_the_shorter_counts() -> None:
    assert bleu_counts(["a b c"], [["a b c d", "a b"]]).reference_lengths.tolist() == [2]
    assert bleu_counts(["a b c"], [["a b c d e", "a"]]).reference_lengths.tolist() == [1]


def test_no_rows_have_no_scores() -> None:
    assert (
        rouge_scores([], [])["rouge1"].fmeasure.shape
        == sentence_bleu([], []).shape
        == gleu_scores([], []).shape
        == (0,)
    )
    assert chrf_scores([], []).shape == token_f1([], []).f1.shape == exact_match([], []).shape == (0,)
    with pytest.raises(InputError, match="predictions must have at least one row"):
        corpus_bleu([], [])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rouge_scores(["a"], ["a"], ["rougeX"]),
            "rouge_types must be of rouge1 to rouge9, .* but got 'rougeX'",
        ),
        (lambda: sentence_bleu(["a"], ["a"], [0.5, 0.6]), "weights must be numbers .* sum to 1 but got"),
        (lambda: sentence_bleu(["a"], ["a"], []), "weights must be numbers"),
        (lambda: corpus_bleu(["a"], ["a"], smoothing="some"), "smoothing must be one of 'none', 'exp', .* 'some'"),
        (lambda: corpus_bleu(["a"], ["a"], "14a"), "tokenizer must be one of '13a', 'intl', .* but got '14a'"),
        (lambda: corpus_bleu(["a"], ["a"], max_ngram=0), "max_ngram must be a whole number from 1 to 1000 but got 0"),
        (lambda: gleu_scores(["a"], ["a"], max_ngram=0), "max_ngram must be a whole number from 1 to 1000 but got 0"),
        (lambda: gleu_scores(["a"], ["a"], "words"), "tokenizer must be one of 'alphanumeric', .* but got 'words'"),
        (lambda: chrf_scores(["a"], ["a"], beta=-1.0), r"beta must be in \[0, .* but got -1\.0"),
        (lambda: chrf_scores(["a"], ["a"], 0, 0), "char_order and word_order must name one n-gram but are 0 and 0"),
    ],
)
def test_errors_name_the_argument(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_statistics_of_a_corpus_are_sums() -> None:
    predictions, references = random_pairs(8)
    whole, parts = bleu_counts(predictions, references), [bleu_counts(predictions[s], references[s]) for s in
                                                          (slice(0, 20), slice(20, 60))]  # fmt: skip
    for k in range(4):
        assert np.array_equal(whole[k].sum(0), sum(part[k].sum(0) for part in parts))
