"""Rows of files as units of a comparison: ``valor-gpu classify`` and ``valor-gpu text``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.rows._source_rows import SourceRow
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.inputs.predictions import IGNORED, Predictions
from valor_gpu.report.classify import evaluate
from valor_gpu.report.texts import TextScores, text_evaluators
from valor_gpu.result import Result
from valor_gpu.stats import compare
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Resampled
from valor_gpu.stats.units import pair_units

N = 150
NAMES = ("cat", "dog", "owl")


def predictions(kind: str, seed: int, ignored: int = 10) -> Predictions:
    """Rows of one target; scores with ties, logits or predicted classes of a model."""
    target = np.random.default_rng(0).integers(0, 2 if kind == "binary" else 3, N)
    rng = np.random.default_rng(seed)
    names = NAMES[:2] if kind == "binary" else NAMES
    scores: Any = rng.integers(0, 8, N if kind == "binary" else (N, 3)) / 8
    if kind == "classes":
        labels = np.where(rng.random(N) < 0.6, target, rng.integers(0, 3, N))
        target[:ignored] = IGNORED
        return Predictions(names, target, labels=labels)
    if kind == "logits":
        scores = scores * 6 - 2 + 2.0 * (np.arange(3) == target[:, None])
    target[:ignored] = IGNORED
    return Predictions(names, target, scores)


def result_of(rows: Predictions) -> Result:
    return evaluate(rows, "macro", None, "cpu").result


def state_of(result: Result) -> Resampled:
    state = vars(result)["_state"]
    found: Resampled = state() if callable(state) else state
    return found


def chosen(rows: Predictions, places: Any) -> Predictions:
    scores, labels = rows.scores, rows.labels
    return replace(
        rows,
        target=rows.target[places],
        scores=None if scores is None else scores[places],
        labels=None if labels is None else labels[places],
    )


KINDS = pytest.mark.parametrize("kind", ["binary", "multiclass", "logits", "classes"])


@KINDS
def test_replicates_are_the_numbers_of_copies_of_the_same_rows(kind: str) -> None:
    sides = [predictions(kind, seed) for seed in (1, 2)]
    states = [state_of(result_of(rows)) for rows in sides]
    pairing = pair_units(*(state.identities() for state in states))
    for rows, state, codes in zip(sides, states, pairing.codes):
        draws, arrival = Draws(state.units, 2, clusters=codes), state.identities().arrival
        assert arrival is not None and state.units == N - 10
        weights, found = draws.array(), state.replicates(draws)
        for lane in range(2):
            copies = chosen(rows, np.repeat(arrival, weights[:, lane]))
            if kind == "logits":  # whether scores are logits is a choice of all rows
                assert copies.scores is not None and copies.scores.min() < 0
            wanted = dict(numbers_of(result_of(copies).values))
            numbers = {name: values[lane] for name, values in found.items()}
            assert numbers == pytest.approx({name: wanted[name] for name in numbers}, rel=1e-12, nan_ok=True)


@KINDS
def test_the_order_of_the_rows_changes_no_bit(kind: str) -> None:
    sides, order = [predictions(kind, seed) for seed in (1, 2)], np.random.default_rng(3).permutation(N)
    clusters = np.arange(N) // 5
    for groups, moved in ((None, None), (clusters, clusters[order])):
        found = [
            compare(*map(result_of, rows), replicates=12, clusters=each)
            for rows, each in ((sides, groups), ([chosen(rows, order) for rows in sides], moved))
        ]
        assert repr(found[0].values) == repr(found[1].values)
        assert dict(found[0].intervals) == dict(found[1].intervals)


@KINDS
def test_one_model_alone_has_its_numbers_in_a_joined_state(kind: str) -> None:
    results = [result_of(predictions(kind, seed)) for seed in (1, 2)]
    states = [state_of(result) for result in results]
    joined = states[0].swapping(states[1])
    assert joined is not None and joined.units == 2 * states[0].units

    class OfOne(Draws):
        def array(self) -> Any:
            return np.repeat(np.eye(2, dtype=np.uint8), self.units // 2, 0)

    found = joined.replicates(OfOne(joined.units, 2, kind="swap"))
    for side, result in enumerate(results):
        values = dict(numbers_of(result.values))
        numbers = {name: each[side] for name, each in found.items()}
        assert numbers == pytest.approx({name: values[name] for name in numbers}, rel=1e-12, nan_ok=True)


def test_other_classes_of_a_row_are_an_error() -> None:
    rows = predictions("multiclass", 1)
    target = rows.target.copy()
    target[[20, 31]] = (target[[20, 31]] + 1) % 3
    with pytest.raises(InputError, match=r"the same target but that of row 20 \(counted from 0\) differs"):
        compare(result_of(rows), result_of(replace(rows, target=target)), replicates=5)
    with pytest.raises(InputError, match="1 of 140 are missing from the second, such as 10"):
        compare(result_of(rows), result_of(predictions("multiclass", 1, 11)), replicates=5)


def scored(answers: list[str | None], references: list[Any]) -> Result:
    """F1 of words, and word error rate, of rows; an answer that is None could not be read."""
    scores = TextScores(text_evaluators(["f1_score", "wer"], {}), keep_rows=True)
    rows = [
        SourceRow(number, {}, error="no such column") if said is None
        else SourceRow(number, {"answer": said, "ground_truth": true})
        for number, (said, true) in enumerate(zip(answers, references), 1)
    ]  # fmt: skip
    assert len(list(scores.add_all(rows))) == len(rows)
    return scores.result()


def test_rows_of_texts_that_one_file_lacks_are_left_out_of_both() -> None:
    references = [f"a b c d{row}" for row in range(30)]
    first = [f"a b x d{row}" for row in range(30)]
    second: list[str | None] = [f"a b c d{row}" if row % 3 else f"a x y d{row}" for row in range(30)]
    second[4] = None
    found = compare(scored([*first], references), scored(second, references), replicates=50)
    kept = [row for row in range(30) if row != 4]
    alone = [scored([side[row] for row in kept], [references[row] for row in kept]) for side in (first, second)]
    for name in ("mean_f1_score", "word_error_rate"):
        assert found.values["first"][name] == pytest.approx(alone[0].values[name], rel=1e-12)
        assert found.values["second"][name] == pytest.approx(alone[1].values[name], rel=1e-12)
        assert found.counts[f"left_out_of_{name}"] == 1
    assert found.values["difference"]["mean_f1_score"] > 0


def test_other_references_of_a_row_are_an_error() -> None:
    answers: list[str | None] = ["a b", "c d", "e f"]
    mine = scored(answers, ["a b", "c", ["e", "f"]])
    with pytest.raises(InputError, match=r"the same references but that of row 1 \(counted from 0\) differs"):
        compare(mine, scored(answers, ["a b", "d", ["e", "f"]]), replicates=5)
    with pytest.raises(InputError, match=r"the same references but that of row 2 \(counted from 0\) differs"):
        compare(mine, scored(answers, ["a b", "c", ["f", "e"]]), replicates=5)
    with pytest.raises(InputError, match="but 3 came to the first and 2 to the second"):
        compare(mine, scored(answers[:2], ["a b", "c"]), replicates=5)
