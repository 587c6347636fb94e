"""The translation edit rate is that of sacreBLEU, by the native library and by the definition."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import pytest
from torchmetrics.functional.text import translation_edit_rate

from tests.fuzz import seeds
from valor_gpu import native, text
from valor_gpu.errors import InputTypeError
from valor_gpu.text.edit_rate import WORD_UNITS

OPTIONS = ("normalize", "no_punctuation", "lowercase", "asian_support")
PIECES = [
    "the",
    "Cat",
    "sat,",
    "1.5",
    "dog's",
    "&amp;",
    "a-b",
    "2-3",
    "(so)",
    '"x"',
    "日本語。",
    "カタカナ",
    "ー",
    "㈱",
    "\n-",
    "!",
]


def _moved(words: list[str], rng: random.Random) -> list[str]:
    """The words after up to four moves, and some of them replaced or left out."""
    words = words[:]
    for _ in range(rng.randrange(4)):
        start, size = rng.randrange(len(words) + 1), rng.randrange(1, 14)
        run, words = words[start : start + size], words[:start] + words[start + size :]
        place = rng.randrange(len(words) + 1)
        words[place:place] = run
    return [word if rng.random() < 0.9 else rng.choice(PIECES) for word in words if rng.random() < 0.95]


def rows(count: int, seed: int, pieces: list[str], longest: int = 25) -> tuple[list[str], list[list[str]]]:
    """Texts and 1 to 3 references of which most are the text with runs moved."""
    rng, preds, target = random.Random(seed), [], []
    for _ in range(count):
        words = [rng.choice(pieces) for _ in range(rng.randrange(longest))]
        several = [[rng.choice(pieces) for _ in range(rng.randrange(longest))] for _ in range(rng.randrange(3))]
        preds.append(" ".join(words))
        target.append([" ".join(row) for row in (_moved(words, rng), *several)])
    return preds, target


def _statistics(preds: list[str], target: list[list[str]], choices: dict[str, bool]) -> Any:
    """sacreBLEU's edits and mean length of every row, and its peer."""
    sacrebleu = pytest.importorskip("sacrebleu")
    names = dict(zip(OPTIONS, ("normalized", "no_punct", "case_sensitive", "asian_support")))
    chosen = {names[name]: value != (name == "lowercase") for name, value in choices.items()}
    peer = sacrebleu.TER(**chosen)
    found = [peer._extract_corpus_statistics([pred], [[each] for each in row])[0] for pred, row in zip(preds, target)]
    return peer, found


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_of_sacrebleu(seed: int) -> None:
    rng = random.Random(seed)
    choices = {name: rng.random() < 0.5 for name in OPTIONS} if seed else dict.fromkeys(OPTIONS, True)
    preds, target = rows(20, seed, PIECES[: rng.choice((4, 8, 16))], 14)
    peer, expected = _statistics(preds, target, choices)
    counts = text.ter_counts(preds, target, **choices)
    assert counts.edits.tolist() == [edits for edits, _ in expected]
    assert counts.lengths.tolist() == [
        round(WORD_UNITS * Fraction(length).limit_denominator(6)) for _, length in expected
    ]
    scores = [peer._compute_score_from_stats(each).score / 100 for each in expected]
    assert text.ter_scores(preds, target, **choices).tolist() == pytest.approx(scores, rel=1e-12)
    metric = text.TranslationEditRate(**choices)  # type: ignore[arg-type]
    for part in (slice(0, 7), slice(7, 20)):
        metric.update(preds[part], target[part])
    assert metric.compute() == pytest.approx(peer._aggregate_and_compute(expected).score / 100, rel=1e-12)
    assert metric.result().counts == {"rows": 20} and "ter" in metric.result().values


SPACES = [*(chr(code) for code in range(0x3001) if chr(code).isspace()), "\u200b", "\ufeff", "\x00"]
ODD = [
    "dog's",
    "'s",
    "s'",
    "1.,2",
    ",.",
    "..",
    "2-",
    "&amp;lt;",
    "ΑΣ",
    "İ",
    "日本",
    "'s。",
    "㈱",
    "(x)",
    "'s,",
    "a's-b",
]


@pytest.mark.parametrize("seed", seeds(3))
def test_all_white_space_is_read_as_by_sacrebleu(seed: int) -> None:
    """It prepares references twice and predictions once: an 's before a tab is a word of a reference alone."""
    rng = random.Random(seed)

    def odd() -> str:
        return "".join(rng.choice(ODD) + rng.choice([*SPACES, *" " * 15, ""]) for _ in range(rng.randrange(9)))

    preds = [odd() for _ in range(8)]
    target = [[pred if rng.random() < 0.4 else odd(), *(odd() for _ in range(rng.randrange(3)))] for pred in preds]
    preds.append("the dog bone")
    target.append(["the dog's\tbone is old"])
    for chosen in itertools.product([False, True], repeat=4):
        choices = dict(zip(OPTIONS, chosen))
        peer, expected = _statistics(preds, target, choices)
        scores = [peer._compute_score_from_stats(each).score / 100 for each in expected]
        assert text.ter_scores(preds, target, **choices).tolist() == pytest.approx(scores, rel=1e-12)
        assert text.ter_counts(preds, target, **choices).edits.tolist() == [edits for edits, _ in expected]
        if choices["normalize"]:
            assert scores[-1] == 0.5


@pytest.mark.parametrize("with_library", [True, False])
def test_edits_of_equal_cost_are_chosen_as_by_sacrebleu(with_library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a deletion and an insertion cost the same, the choice decides which words move next."""
    texts = ("c b a b", "b d b a"), ("b b a b c", "b d b c b"), ("a d a b a", "c a b a a"), ("a a b b a", "a b a a b")
    pairs = [*texts, *((second, first) for first, second in texts)]
    preds, target = [first for first, _ in pairs], [[second] for _, second in pairs]
    _, expected = _statistics(preds, target, dict.fromkeys(OPTIONS, False))
    if not with_library:
        monkeypatch.setattr(native, "usable", lambda name: False)
    assert text.ter_counts(preds, target, lowercase=False).edits.tolist() == [edits for edits, _ in expected]


@pytest.mark.parametrize("words", [1, 2])
def test_a_mean_length_that_is_no_whole_number_of_units_is_rounded(words: int) -> None:
    references = ["a", *(["b"] if words == 2 else []), *[""] * (17 - words)]
    assert text.ter_counts(["a"], [references]).lengths.tolist() == [round(Fraction(words * WORD_UNITS, 17))]


def test_limits_of_the_search_are_those_of_sacrebleu() -> None:
    """Long runs, far moves, more trials than the search makes, and texts of very different lengths."""
    rng = random.Random(15)  # of two letters that need more trials
    many = [f"w{i}" for i in range(90)]
    two = [[rng.choice("ab") for _ in range(n)] for n in (26, 30)]
    pairs = [(many, many[60:75] + many[:60]), (many, many[8:20] + many[:8] + many[20:]), (two[0], two[1])]
    pairs += [(many[:1], many * 2), (many * 2, many[3:4]), ([], many[:4]), (many[:4], []), ([], [])]
    preds, target = [" ".join(first) for first, _ in pairs], [[" ".join(second)] for _, second in pairs]
    _, expected = _statistics(preds, target, dict.fromkeys(OPTIONS, False))
    assert text.ter_counts(preds, target, lowercase=False).edits.tolist() == [edits for edits, _ in expected]


@pytest.mark.smoke
def test_the_native_library_counts_as_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = rows(60, 3, PIECES[:6], 15)
    found = text.ter_counts(preds, target).edits.tolist()
    monkeypatch.setattr(native, "usable", lambda name: False)
    assert text.ter_counts(preds, target).edits.tolist() == found


def test_the_number_is_that_of_torchmetrics() -> None:
    preds, target = rows(15, 9, PIECES[:8], 12)
    kept = [i for i, row in enumerate(target) if all(each.split() for each in row)]  # it has 0 edits to no word
    preds, target = [preds[i] for i in kept], [target[i] for i in kept]
    metric, expected = text.TranslationEditRate(), translation_edit_rate(preds, target)
    metric.update(preds, target)
    assert float(metric.compute()) == pytest.approx(float(expected), rel=1e-6)  # type: ignore[arg-type]


def test_no_rows_and_bad_choices() -> None:
    assert text.ter_scores([], []).tolist() == []
    metric = text.TranslationEditRate()
    assert metric.result().reasons == {"ter": "no row was added"}
    with pytest.raises(InputTypeError, match=r"lowercase must be .*bool"):
        text.TranslationEditRate(lowercase="no")  # type: ignore[arg-type]
