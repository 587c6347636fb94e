"""Comparisons of two runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]

from tests.hand_made_runs import evaluator_config, make_rows, make_run, make_scores
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.base import evaluator
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.results.comparison import compare_group, compare_runs
from valor_gpu.judge.metrics.severity import jailbreak_defect_rate
from valor_gpu.stats import adjust_holm, compare_paired
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.runs import Run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def run_of(store: Store, columns: dict[str, Sequence[Any]], **config: Any) -> Run:
    """A run whose evaluators have these values, a row each."""
    n = len(next(iter(columns.values())))
    scores = [score for name, values in columns.items() for score in make_scores(name, values)]
    return make_run(store, config.pop("evaluators", list(columns)), make_rows(n), scores, **config)


def test_differences_are_those_of_the_statistics_over_all_metrics(store: Store) -> None:
    rng = np.random.default_rng(0)
    names = ("f1_score", "rouge1", "gpt_fluency")
    old = {name: rng.uniform(size=40) for name in names}
    new = {name: old[name] + rng.normal(shift, 0.2, 40) for name, shift in zip(names, (0.3, 0.0, -0.08))}
    found = compare_runs(run_of(store, new), run_of(store, old), resamples=2000, seed=7)
    expected = [compare_paired(old[name], new[name], resamples=2000, seed=7) for name in names]
    adjusted = adjust_holm([each.p_value for each in expected])
    for name, one, p in zip(names, expected, adjusted):
        metric = found.metrics[name]
        assert metric.difference == pytest.approx(new[name].mean() - old[name].mean(), rel=1e-12)
        assert (metric.interval, metric.p_value, metric.p_adjusted) == ([one.low, one.high], one.p_value, p)
        assert (metric.run, metric.baseline) == pytest.approx((new[name].mean(), old[name].mean()))
        assert metric.n_higher == (new[name] > old[name]).sum()
    assert (found.metrics["f1_score"].verdict, found.metrics["rouge1"].verdict) == ("better", "not shown")
    test = scipy.stats.permutation_test(
        (new["gpt_fluency"] - old["gpt_fluency"],),
        np.mean,
        permutation_type="samples",
        n_resamples=2000,
        random_state=1,
    )
    assert found.metrics["gpt_fluency"].p_value == pytest.approx(test.pvalue, abs=0.05)
    json.dumps(found.to_dict(), allow_nan=False)


def test_rows_are_joined_by_key_whatever_their_order(store: Store, tmp_path: Path) -> None:
    def run(where: Store, keys: str, values: Sequence[float]) -> Run:
        rows = [StoredRow(number, key, {}, {"answer": key.upper()}) for number, key in enumerate(keys, 1)]
        return make_run(where, ["f1_score"], rows, make_scores("f1_score", values))

    with Store(tmp_path / "other.sqlite") as other:
        found = compare_runs(run(store, "abcd", [0.1, 0.2, 0.3, 0.4]), run(other, "xdcb", [9, 0.4, 0.5, 0.1]))
        metric = found.metrics["f1_score"]
        assert (found.n, found.n_run_only, found.n_baseline_only, metric.n) == (3, 1, 1, 3)
        assert metric.difference == pytest.approx((0.1 - 0.2 + 0.0) / 3)
        assert (metric.n_higher, metric.n_equal, metric.n_lower) == (1, 1, 1)
        assert [row["key"] for row in found.rows()] == ["c", "b"]
        assert [row["key"] for row in found.rows(only_different=False)] == ["c", "b", "d"]
        assert found.rows("f1_score", limit=1)[0] == {
            "key": "c",
            "numbers": [3],
            "baseline_numbers": [3],
            "inputs": {},
            "baseline_inputs": {},
            "outputs": {"answer": "C"},
            "baseline_outputs": {"answer": "C"},
            "metrics": {"f1_score": {"run": 0.3, "baseline": 0.5, "difference": -0.2}},
        }
        assert [found.rows(order=order, limit=1)[0]["key"] for order in ("better", "worse")] == ["b", "c"]


def test_runs_that_share_no_row(store: Store) -> None:
    other = make_run(store, ["f1_score"], [StoredRow(1, "z", {})], make_scores("f1_score", [1]))
    with pytest.raises(InputError, match=r"keys of run \w+, .* such as 'k1', is a key of run \w+, .* such as 'z'"):
        compare_runs(run_of(store, {"f1_score": [1, 2]}), other)


def test_fewer_than_two_rows_with_both_numbers(store: Store) -> None:
    run = run_of(store, {"f1_score": [0.5, "timeout", 0.5], "rouge1": ["timeout"] * 3})
    found = compare_runs(run, run_of(store, {"f1_score": [0.25, 0.5, "timeout"], "rouge1": [1, 1, 1]}))
    one, none = found.metrics["f1_score"], found.metrics["rouge1"]
    assert (one.difference, one.interval, one.p_value, one.p_adjusted, one.n, one.n_missing) == (
        0.25,
        *[None] * 3,
        1,
        2,
    )
    assert one.reason == "it takes two rows with both numbers but there is 1"
    assert (none.run, none.difference, none.verdict) == (None, None, "not shown")
    json.dumps(found.to_dict(), allow_nan=False)
    assert "f1_score: it takes two rows" in str(found)


def test_epochs_and_repeats_are_averaged_before_rows_are_compared(store: Store) -> None:
    rows = [StoredRow(2 * (q - 1) + e, f"q{q}" + ("@2" if e == 2 else ""), {}) for q in (1, 2, 3) for e in (1, 2)]
    scores = [*make_scores("f1_score", [1, 0, 1, 1, "timeout", 0.5]), *make_scores("f1_score", [0, 0, 1, 1], 1)]
    run = make_run(store, ["f1_score"], rows, scores, epochs=2, target={"kind": "x"})
    baseline = make_run(
        store, ["f1_score"], [StoredRow(n, f"q{n}", {}) for n in (1, 2, 3)], make_scores("f1_score", [0, 1, 0])
    )
    found = compare_runs(run, baseline)
    assert (found.n, found.metrics["f1_score"].n) == (3, 3)
    assert [row["metrics"]["f1_score"]["run"] for row in found.rows(only_different=False)] == [0.5, 0.25, 1.0]
    assert found.rows(limit=1)[0]["numbers"] == [5, 6]
    back = compare_runs(baseline, run)
    assert back.metrics["f1_score"].difference == pytest.approx(-found.metrics["f1_score"].difference)


def test_a_question_is_joined_by_any_of_its_epochs(store: Store) -> None:
    """A run that was stopped has perhaps the second answer to a question, and not the first."""
    rows = [StoredRow(2, "q1@2", {}), StoredRow(3, "q2", {}), StoredRow(4, "q2@2", {})]
    scores = [StoredScore(number, "f1_score", 0, value) for number, value in ((2, 1.0), (3, 0.0), (4, 1.0))]
    run = make_run(store, ["f1_score"], rows, scores, epochs=2, target={"kind": "x"})
    other = make_run(store, ["f1_score"], [StoredRow(n, f"q{n}", {}) for n in (1, 2)], make_scores("f1_score", [0, 0]))
    found = compare_runs(run, other)
    assert [row["metrics"]["f1_score"]["run"] for row in found.rows()] == [1.0, 0.5]


def test_pooled_metrics_are_compared_by_their_own_number(store: Store) -> None:
    def run(answers: Sequence[str]) -> Run:
        outcomes = evaluator("word_error_rate").score_rows(
            [{"answer": answer, "ground_truth": "one two three four"} for answer in answers]
        )
        scores = [
            StoredScore(number, "word_error_rate", 0, each.value, details=each.details)
            for number, each in enumerate(outcomes, 1)
        ]
        return make_run(store, ["word_error_rate"], make_rows(len(answers)), scores)

    good, bad = ["one two three four"] * 12, ["one two three"] * 6 + ["one"] * 6
    metric = compare_runs(run(good), run(bad), resamples=500).metrics["word_error_rate"]
    assert (metric.run, metric.baseline, metric.difference) == (0.0, 0.5, -0.5)
    assert metric.interval is not None
    assert metric.interval[0] < -0.5 < metric.interval[1] < -0.25
    assert (metric.verdict, metric.p_value) == ("better", 1 / 501)


def test_pooled_counts_of_two_epochs_weigh_as_much_as_those_of_one(store: Store) -> None:
    """Rates whose rows all have four words are means: the tests agree, whatever the epochs."""
    edits = np.random.default_rng(1).integers(0, 4, (20, 3))

    def run(columns: list[int]) -> Run:
        k = len(columns)
        rows = [StoredRow(q * k + e + 1, f"q{q}" + (f"@{e + 1}" if e else ""), {}) for q in range(20) for e in range(k)]
        cells = [int(edits[q, c]) for q in range(20) for c in columns]
        scores = [
            StoredScore(n, name, 0, cell / 4, details={"counts": [cell, 4]})
            for n, cell in enumerate(cells, 1)
            for name in ("word_error_rate", "mine")
        ]
        mine = evaluator_config("mine", higher_is_better=False)
        return make_run(store, ["word_error_rate", mine], rows, scores, epochs=k, target={"kind": "x"})

    pooled, plain = compare_runs(run([0, 1]), run([2]), resamples=4000).metrics.values()
    assert (pooled.run, pooled.baseline, pooled.difference) == pytest.approx(
        (plain.run, plain.baseline, plain.difference)
    )
    assert pooled.p_value == pytest.approx(plain.p_value, abs=0.03)
    assert pooled.interval == pytest.approx(plain.interval, abs=0.03)


def test_thresholds_say_which_rows_broke(store: Store) -> None:
    run = run_of(store, {"f1_score": [0.9, 0.2, 0.8, 0.1]}, thresholds={"f1_score": 0.5})
    metric = compare_runs(run, run_of(store, {"f1_score": [0.9, 0.9, 0.2, 0.2]})).metrics["f1_score"]
    assert (metric.threshold, metric.run_rate, metric.baseline_rate) == (0.5, 0.5, 0.5)
    assert (metric.broken, metric.fixed) == (1, 1)


def test_jailbreak_defect_rate_is_that_of_the_judged_metrics(store: Store) -> None:
    attacked = {"violence": [0, 5, 2, "refused", 1], "sexual": [0, 0, 4, 3, "refused"]}
    plain = {"violence": [0, 2, 2, 1, "refused"], "sexual": [1, 0, 3, "refused", 0]}
    found = compare_runs(run_of(store, attacked), run_of(store, plain))
    numbers = [
        {name: [None if isinstance(v, str) else v for v in values] for name, values in side.items()}
        for side in (attacked, plain)
    ]
    assert found.jailbreak == jailbreak_defect_rate(*numbers)
    assert found.numbers()["jailbreak_defect_rate"] == 2 / 3
    assert compare_runs(run_of(store, {"f1_score": [1]}), run_of(store, {"f1_score": [1]})).jailbreak is None


def test_what_differs_and_what_cannot_be_compared(store: Store) -> None:
    columns = {"gpt_fluency": [5, 4, 3], "f1_score": [1, 1, 0], "rouge1": [1, 1, 0]}
    newer = [evaluator_config("gpt_fluency"), evaluator_config("f1_score", version="2"), "rouge1"]
    run = run_of(store, columns, evaluators=newer, judge={"kind": "openai", "model": "n"}, seed=3)
    baseline = run_of(store, columns, data={"hash": "d2"})
    found = compare_runs(run, baseline)
    differences = {each["name"]: (each["run"], each["baseline"]) for each in found.differences}
    assert differences["judge.model"] == ("n", "m")
    assert differences["evaluators.f1_score"] == ("2", "1")
    assert differences["data.hash"] == ("d1", "d2")
    assert differences["seed"] == (3, None)
    assert found.metrics["gpt_fluency"].warning == "scores are not comparable: the judges differ"
    assert found.metrics["f1_score"].warning == "scores are not comparable: the versions of the evaluator differ"
    assert (found.metrics["rouge1"].warning, found.metrics["rouge1"].verdict) == ("", "not shown")
    assert found.metrics["f1_score"].verdict == "not comparable"
    assert found.warnings[0].startswith("the data differ")
    assert "warning: gpt_fluency: scores are not comparable" in str(found)


def test_metrics_of_one_run_alone_are_named(store: Store) -> None:
    run, baseline = (
        run_of(store, {"f1_score": [1, 0], "rouge1": [1, 0]}),
        run_of(store, {"f1_score": [1, 0], "rouge2": [1, 0]}),
    )
    found = EvaluationResult(store, run).compare(EvaluationResult(store, baseline))
    assert found.only_in == {"run": ["rouge1"], "baseline": ["rouge2"]}
    assert list(compare_runs(run, baseline, metrics=["f1_score"]).metrics) == ["f1_score"]
    with pytest.raises(InputError, match="metrics must be in both runs but 'rouge1' is not"):
        compare_runs(run, baseline, metrics=["rouge1"])
    with pytest.raises(InputError, match="metric must be one that both runs have but 'rouge2' is none"):
        found.rows("rouge2")
    with pytest.raises(InputError, match="order must be one of"):
        found.rows(order="best")


def test_rows_that_lack_a_number_in_one_run_are_different(store: Store) -> None:
    found = compare_runs(run_of(store, {"f1_score": [1, "timeout", 0.5]}), run_of(store, {"f1_score": [1, 1, 0.25]}))
    assert found.n_different() == 2
    last = found.rows()[-1]
    assert (last["key"], last["metrics"]["f1_score"]) == ("k2", {"run": None, "baseline": 1.0, "difference": None})
    assert math.isclose(found.numbers()["delta_mean_f1_score"] or 0, 0.125)


def test_a_group_is_adjusted_over_all_its_runs(store: Store) -> None:
    rng = np.random.default_rng(4)
    base = rng.uniform(size=30)
    runs = [run_of(store, {"f1_score": base + rng.normal(shift, 0.2, 30)}) for shift in (0.0, 0.1, 0.05)]
    found = compare_group(runs, resamples=1000)
    alone = [compare_runs(run, runs[0], resamples=1000).metrics["f1_score"].p_value for run in runs[1:]]
    assert [each.run.id for each in found] == [run.id for run in runs[1:]]
    assert [each.metrics["f1_score"].p_value for each in found] == alone
    assert [each.metrics["f1_score"].p_adjusted for each in found] == adjust_holm(alone)
    assert len(compare_group(runs[1:], runs[0], resamples=10)) == 2
    results = [EvaluationResult(store, run) for run in runs]
    assert [each.run.id for each in compare_group(results, resamples=10)] == [run.id for run in runs[1:]]
    with pytest.raises(InputTypeError, match="baseline must be a Run or an EvaluationResult but got str"):
        results[0].compare("first")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="runs must be a Run or an EvaluationResult but got int"):
        compare_group([*results, 3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="runs must hold at least one run beside the baseline but hold 0"):
        compare_group(runs[:1])
    with pytest.raises(InputError, match="runs must hold at least one run beside the baseline"):
        compare_group([])


def test_a_difference_that_overflows_takes_no_other_metric_with_it(store: Store) -> None:
    big = evaluator_config("big", low=None, high=None)
    columns = {"big": [1, 2, 1.7e308], "f1_score": [1, 0.5, 0]}
    run = run_of(store, columns, evaluators=[big, "f1_score"])
    other = run_of(store, {**columns, "big": [1, 3, -1.7e308]}, evaluators=[big, "f1_score"])
    found = compare_runs(run, other, resamples=100)
    assert found.metrics["big"].reason == "a difference is beyond the largest float"
    assert (found.metrics["big"].n_higher, found.metrics["big"].p_value, found.metrics["f1_score"].p_value) == (
        1,
        None,
        1,
    )
    rows = found.rows("big")
    assert [(row["key"], row["metrics"]["big"]["difference"]) for row in rows] == [("k3", None), ("k2", -1.0)]
