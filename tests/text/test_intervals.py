"""Intervals of metrics of texts: of means of rows, and of the numbers of a corpus."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.result import Result
from valor_gpu.stats import Bootstrap
from valor_gpu.stats.draws import Draws
from valor_gpu.text import (
    BLEU,
    CHRF,
    ROUGE,
    BLEUScore,
    CharErrorRate,
    CHRFScore,
    ExactMatch,
    MatchErrorRate,
    SacreBLEUScore,
    SQuAD,
    TokenF1,
    TranslationEditRate,
    WordErrorRate,
)

CORPORA = (
    BLEU, BLEUScore, SacreBLEUScore, CHRF, CHRFScore, TranslationEditRate, WordErrorRate, CharErrorRate, MatchErrorRate,
)  # fmt: skip
WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "in", "rain", "and", "with", "blue"]


def texts(rows: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Predictions, and references that share most of their words."""
    rng = random.Random(seed)
    preds = [rng.choices(WORDS, k=rng.randint(1, 9)) for _ in range(rows)]
    target = [[word if rng.random() < 0.7 else rng.choice(WORDS) for word in row] for row in preds]
    return [*map(" ".join, preds)], [*map(" ".join, target)]


def results(kind: Callable[..., Any], **options: Any) -> list[Result]:
    """Results of the same rows in one batch, in several, backwards, and merged."""
    preds, target = texts(40)
    whole, parts, backwards, merged, other = (kind(**options) for _ in range(5))
    whole.update(preds, target)
    for start in range(0, 40, 7):
        parts.update(preds[start : start + 7], target[start : start + 7])
    backwards.update(preds[::-1], target[::-1])
    merged.update(preds[25:], target[25:])
    other.update(preds[:25], target[:25])
    merged.merge_state(other)
    return [metric.result(intervals=12) for metric in (whole, parts, backwards, merged)]


@pytest.mark.parametrize("kind", CORPORA)
def test_replicates_of_a_corpus_are_the_metric_of_its_rows_repeated(kind: Callable[..., Any]) -> None:
    first, *others = results(kind, keep_rows=True)
    preds, target = texts(40)
    weights = Draws(40, 12).array()
    plain = kind()
    plain.update(preds, target)
    assert plain.result().values == first.values
    sample = vars(first)["_state"]()
    found = sample.replicates(Draws(40, 12))
    order = sample._order
    for column in range(12):
        rows = np.repeat(order, weights[:, column]).tolist()
        again = kind()
        again.update([preds[row] for row in rows], [target[row] for row in rows])
        assert {name: values[column] for name, values in found.items()} == again.result().values
    assert all(other.intervals == first.intervals for other in others)


@pytest.mark.parametrize("kind", [ROUGE, TokenF1, ExactMatch])
def test_intervals_of_means_of_rows_know_no_order(kind: Callable[..., Any]) -> None:
    first, *others = results(kind)
    names = [name for name in first.values if not name.endswith("_stderr")]
    assert list(first.intervals) == names
    assert all(other.intervals == first.intervals for other in others)
    for name in names:
        assert first.intervals[name].standard_error == pytest.approx(first.values[f"{name}_stderr"], rel=0.6)


def test_means_of_squad_are_of_a_hundred() -> None:
    metric = SQuAD()
    for row in range(40):
        answer = {"answers": {"answer_start": [0], "text": ["in 1976"]}, "id": str(row)}
        metric.update({"prediction_text": "in 1976" if row % 2 else "in 1977", "id": str(row)}, answer)
    found = metric.result(intervals=200).intervals
    assert [*found] == ["exact_match", "f1"]
    assert 5 < found["exact_match"].standard_error < 11


def test_a_corpus_that_keeps_no_rows_says_what_to_do() -> None:
    metric = BLEU()
    metric.update(*texts(3))
    message = r"intervals and comparisons need the counts of every row: make the metric with BLEU\(keep_rows=True\)"
    with pytest.raises(InputError, match=message):
        metric.result(intervals=10)
    with pytest.raises(InputError, match=message):
        metric.result().with_intervals(10)


def test_kept_rows_and_scores_of_rows_go_together() -> None:
    preds, target = texts(9)
    scored, kept = (CHRFScore(return_sentence_level_score=True, keep_rows=keep) for keep in (False, True))
    for metric in (scored, kept):
        metric.update(preds, target)
    assert all((a == b).all() for a, b in zip(scored.compute(), kept.compute()))


def test_clusters_are_drawn_as_a_whole() -> None:
    """Copies of a row in one cluster say no more than the row."""
    preds, target = texts(50)
    alone, copies = TokenF1(), TokenF1()
    alone.update(preds, target)
    for _ in range(4):
        copies.update(preds, target)
    wide = alone.result(intervals=400).intervals["f1"].standard_error
    narrow = copies.result(intervals=400).intervals["f1"].standard_error
    clustered = copies.result(intervals=Bootstrap(400, clusters=[*range(50)] * 4))
    assert narrow < 0.6 * wide
    assert clustered.intervals["f1"].standard_error == pytest.approx(wide, rel=0.15)
    assert clustered.intervals.choices["clusters"] == 50
    with pytest.raises(InputError, match="one for each of the 200 rows but has 3"):
        copies.result(intervals=Bootstrap(4, clusters=[1, 2, 3]))
    with pytest.raises(InputError, match="200 rows but has none for row 1"):
        copies.result(intervals=Bootstrap(4, clusters={0: "a"}))
