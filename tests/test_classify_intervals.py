"""``valor-gpu classify --intervals``: replicates are the numbers of a file with its rows repeated, to the last bit."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.cli import BAD_INPUT, OK, main
from valor_gpu.exports.leaves import leaves
from valor_gpu.inputs.predictions import IGNORED, Predictions
from valor_gpu.report.classify import evaluate
from valor_gpu.stats import Bootstrap, compare_auroc, delong, pass_rate
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import collected
from valor_gpu.stats.units import pair_units

ROWS, REPLICATES = 50, 6


def predictions(kind: str, seed: int = 0) -> Predictions:
    rng = np.random.default_rng(seed)
    names = ("a", "b") if kind == "binary" else ("a", "b", "c/d")
    target = rng.integers(0, len(names), ROWS)
    if kind == "labels":
        return Predictions(names, target, labels=np.where(rng.random(ROWS) < 0.7, target, 0))
    scores = rng.random((ROWS, len(names))).round(1) + 0.4 * np.eye(len(names))[target]  # rounded: scores tie
    if kind == "binary":
        return Predictions(names, target, scores[:, 1] / 2)
    return Predictions(names, target, scores - 1 if kind == "logits" else scores / scores.sum(1, keepdims=True))


def repeated(of: Predictions, order: Any, weights: Any) -> Predictions:
    rows = np.repeat(order, weights)
    scores, labels = (None if part is None else part[rows] for part in (of.scores, of.labels))
    return replace(of, target=of.target[rows], scores=scores, labels=labels)


def orders_of(of: Predictions) -> tuple[Any, Any]:
    """The rows in the order of the cells of their confusion matrix, and in that of their bytes."""
    decided = of.labels if of.labels is not None else None
    if decided is None:
        scores = np.asarray(of.scores)
        decided = (scores > 0.5).astype(int) if of.binary else scores.argmax(1)
    cells = np.argsort(of.target * len(of.names) + decided, kind="stable")
    if of.scores is None:
        return cells, cells
    rows = np.column_stack((of.target.astype(float), of.scores))
    return cells, np.array(sorted(range(len(rows)), key=lambda row: rows[row].tobytes()))


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("kind", ["binary", "scores", "logits", "labels"])
@pytest.mark.parametrize("thresholds", [None, 7])
def test_replicates_are_those_of_repeated_rows(kind: str, average: str, thresholds: int | None) -> None:
    of = predictions(kind)
    state = vars(evaluate(of, average, thresholds, "cpu").result)["_state"]()
    draws = Draws(ROWS, REPLICATES, seed=5)
    found = collected(state, draws)
    cells, by_bytes = orders_of(of)
    for column, weights in enumerate(draws.array().T):
        for order, ranked in ((cells, False), (by_bytes, True)):
            again = dict(leaves(evaluate(repeated(of, order, weights), average, thresholds, "cpu").result.values))
            for name in found:
                if name.startswith(("roc_auc", "average_precision")) == ranked:
                    assert np.array_equal(found[name][column], again[name], equal_nan=True), (name, column)
    assert {"accuracy", "f1", "cohen_kappa"} <= set(found) and ("roc_auc" in found) == (kind != "labels")
    assert kind == "binary" or "f1_per_class/c/d" in found


def test_clusters_are_drawn_as_a_whole() -> None:
    of = predictions("scores")
    clusters = tuple(f"patient {row % 9}" for row in range(ROWS))
    state = vars(evaluate(of, "macro", None, "cpu").result)["_state"]()
    draws = Draws(ROWS, REPLICATES, seed=5, clusters=state.clusters(clusters))
    found = collected(state, draws)
    for column, weights in enumerate(draws.array().T):
        again = dict(leaves(evaluate(repeated(of, np.arange(ROWS), weights), "macro", None, "cpu").result.values))
        assert all(np.array_equal(found[name][column], again[name], equal_nan=True) for name in found)


def test_the_order_of_the_file_does_not_matter_and_ignored_rows_are_none() -> None:
    of = predictions("scores")
    plain = evaluate(of, "macro", None, "cpu").result.with_intervals(20).intervals
    order = np.random.default_rng(1).permutation(ROWS)
    again = evaluate(repeated(of, order, np.ones(ROWS, int)), "macro", None, "cpu").result.with_intervals(20)
    assert repr(again.intervals) == repr(plain)
    more = replace(of, target=np.append(of.target, IGNORED), scores=np.vstack((of.scores, [0.2, 0.2, 0.6])))  # type: ignore[list-item]
    assert repr(evaluate(more, "macro", None, "cpu").result.with_intervals(20).intervals) == repr(plain)


def test_numbers_without_an_honest_interval_say_why() -> None:
    of = predictions("scores")
    sure = replace(of, scores=np.eye(3)[of.target])
    found = evaluate(sure, "macro", None, "cpu").result.with_intervals(20).intervals
    assert "biased upward" in found["calibration_error"].reason
    assert found["roc_auc"].reason.startswith("perfect separation")
    assert found["cohen_kappa"].reason.startswith("every replicate is equal")
    assert (found["accuracy"].low, found["accuracy"].high) == (pass_rate(ROWS, ROWS).low, 1.0)
    assert found["f1_per_class/a"].reason.startswith("too few rows")
    assert "samples_per_class/a" not in found


def write(path: Path, rows: int = 40) -> Path:
    rng = np.random.default_rng(2)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("t", "guess", "w", "patient"))
        for row in range(rows):
            target = int(rng.integers(0, 2))
            writer.writerow((target, target if rng.random() < 0.8 else 1 - target, 1.5, f"p{row % 8}"))
    return path


def classify(tmp_path: Path, *options: str) -> dict[str, Any]:
    out = tmp_path / "out.json"
    data = ["--data", str(write(tmp_path / "data.csv")), "--target", "t", "--pred", "guess", "--json", str(out)]
    assert main(["classify", *data, *options]) == OK
    found: dict[str, Any] = json.loads(out.read_text(), parse_constant=pytest.fail)
    return found


def test_the_command_shows_bounds_and_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = classify(tmp_path, "--intervals", "60", "--seed", "4", "--confidence", "0.9")
    shown = capsys.readouterr().out
    bounds = found["intervals"]["matthews_corrcoef"]
    assert f"({bounds['low']:.4f} to {bounds['high']:.4f})" in shown
    assert "90% intervals of E[accuracy] at 40 rows: 60 replicates of rows" in shown
    assert "intervals" not in classify(tmp_path)


def test_the_command_takes_a_column_of_clusters(tmp_path: Path) -> None:
    found = classify(tmp_path, "--intervals", "60", "--cluster-column", "patient")
    assert found["interval_choices"]["clusters"] == 8 and "wilson" not in found["interval_choices"]
    low = found["intervals"]["accuracy"]["low"]
    assert not math.isnan(low) and low != classify(tmp_path, "--intervals", "60")["intervals"]["accuracy"]["low"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster-column", "patient"), "--cluster-column needs --intervals N"),
        (("--intervals", "9", "--weight", "w"), "intervals need rows of equal weight but weights were given"),
        (("--intervals", "9", "--cluster-column", "video"), "must have one column 'video'"),
    ],
)
def test_what_intervals_need_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    data = ["--data", str(write(tmp_path / "data.csv")), "--target", "t", "--pred", "guess"]
    assert main(["classify", *data, *options]) == BAD_INPUT
    assert words in capsys.readouterr().err


def test_clusters_are_one_for_each_row() -> None:
    result = evaluate(predictions("labels"), "macro", None, "cpu").result
    with pytest.raises(ValueError, match=f"clusters must be one for each of {ROWS} rows but are 2"):
        result.with_intervals(Bootstrap(9, clusters=["a", "b"]))


@pytest.mark.parametrize("few", [4, ROWS - 4])
def test_few_positives_or_negatives_have_no_areas(few: int) -> None:
    scores = np.random.default_rng(5).random(ROWS)
    found = evaluate(Predictions(("a", "b"), (np.arange(ROWS) < few).astype(int), scores), "macro", None, "cpu")
    intervals = found.result.with_intervals(8).intervals
    assert intervals["roc_auc"].reason == "too few rows: 4 hold a truth, it takes 20"
    assert intervals["average_precision"].reason.startswith("too few") == (few == 4)


def test_a_row_without_a_cluster_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows without one are no cluster: their scores would be drawn together."""
    data = tmp_path / "data.csv"
    data.write_text("t,guess,patient\n0,0,a\n1,1,\n")
    choices = ["--target", "t", "--pred", "guess", "--intervals", "9", "--cluster-column", "patient"]
    assert main(["classify", "--data", str(data), *choices]) == BAD_INPUT
    assert "column 'patient' must hold a cluster but is empty" in capsys.readouterr().err


def test_one_number_has_one_interval() -> None:
    """Pooled over classes, precision and recall are the accuracy."""
    found = evaluate(predictions("scores"), "micro", None, "cpu").result.with_intervals(20).intervals
    ends = {(found[name].low, found[name].high) for name in ("accuracy", "precision", "recall")}
    assert len(ends) == 1 and "precision" in found.choices["wilson"]


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("kind", ["binary", "scores", "logits"])
def test_areas_and_accuracy_have_tests_of_their_own(kind: str, average: str) -> None:
    first, second = predictions(kind), predictions(kind, 1)
    second = replace(second, target=first.target)
    results = [evaluate(each, average, None, "cpu").result for each in (first, second)]
    states = [vars(result)["_state"]() for result in results]
    pairing = pair_units(*(state.identities() for state in states))
    tests = states[0].paired_tests(states[1], pairing, 0.95)
    values = [dict(leaves(result.values)) for result in results]
    for name, test in tests.items():
        assert (test.first, test.second) == pytest.approx([each[name] for each in values], abs=1e-12), name
    assert {"accuracy", "roc_auc"} <= tests.keys()
    assert ("recall" in tests) == (kind == "binary" or average == "micro")
    if kind == "binary":
        expected = compare_auroc(first.scores, second.scores, first.target)
        assert (tests["roc_auc"].p_value, tests["roc_auc"].low) == (expected.p_value, expected.low)
        found = results[0].with_intervals("delong").intervals["roc_auc"]
        alone = delong(first.scores, first.target)
        assert (found.low, found.high) == (alone.low, alone.high)


def test_areas_by_thresholds_are_those_of_no_placements() -> None:
    states = [vars(evaluate(predictions("binary"), "macro", 7, "cpu").result)["_state"]() for _ in range(2)]
    tests = states[0].paired_tests(states[1], pair_units(*(state.identities() for state in states)), 0.95)
    assert tests.keys() == {"accuracy", "recall"}
    assert states[0].analytic("delong", None, 0.95) == {}
