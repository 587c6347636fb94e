"""Summaries of runs, against hand-worked numbers, SciPy and the judge's own statistics."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped,unused-ignore]

from tests.hand_made_runs import evaluator_config, make_rows, make_run, make_scores
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import evaluator
from valor_gpu.evaluation.results.metric_summary import clustered_rate
from valor_gpu.evaluation.results.result_rows import result_rows
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.judge.statistics import standard_error, variance_split
from valor_gpu.stats.means import interval_on_scale, mean_of_sample
from valor_gpu.stats.proportions import pass_rate
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.runs import Run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def test_a_run_without_rows_has_numbers_that_are_none_with_reasons(store: Store) -> None:
    found = run_summary(make_run(store, ["f1_score", "corpus_bleu", "violence"], [], []))
    assert found["metrics"] == {
        "mean_f1_score": None,
        "corpus_bleu": None,
        "mean_violence": None,
        "violence_defect_rate": None,
    }
    assert found["evaluators"]["f1_score"]["reasons"]["mean"] == "no row has a score"
    assert found["evaluators"]["corpus_bleu"]["reasons"] == {"value": "no row has counts"}
    assert found["evaluators"]["violence"]["reasons"]["defect_rate"] == "no row has a score"
    assert found["rows"] == {"n": 0, "ok": 0, "failed": {}}
    json.dumps(found, allow_nan=False)


def test_mean_error_and_interval_are_those_of_scipy(store: Store) -> None:
    values = [0.2, 0.9, 0.4, 1.0, 0.0, 0.55]
    run = make_run(store, ["f1_score"], make_rows(8), make_scores("f1_score", [*values, "timeout"]))
    found = run_summary(run)["evaluators"]["f1_score"]
    assert found["mean"] == pytest.approx(np.mean(values), rel=1e-15)
    error = stats.sem(values)
    assert found["standard_error"] == pytest.approx(error, rel=1e-12)
    assert found["interval"] == pytest.approx(interval_on_scale(mean_of_sample(values), 0, 1), rel=1e-12)
    assert (found["n"], found["n_without_score"], found["n_failed"], found["n_not_judged"]) == (6, 1, {"timeout": 1}, 1)
    assert (found["least"], found["most"]) == (0.0, 1.0)


def test_documents_sample_gives_its_three_means_and_nothing_else(store: Store) -> None:
    names = ["gpt_groundedness", "gpt_relevance", "gpt_coherence"]
    columns = {names[0]: [5] * 8 + [4] * 2, names[1]: [4] * 7 + [3] * 3, names[2]: [4] * 9 + [5]}
    run = make_run(store, names, make_rows(10), [s for name, of in columns.items() for s in make_scores(name, of)])
    assert run_summary(run)["metrics"] == {
        "mean_gpt_groundedness": 4.8,
        "mean_gpt_relevance": 3.7,
        "mean_gpt_coherence": 4.1,
    }


def test_rows_without_an_answer_are_counted_by_status(store: Store) -> None:
    rows = [*make_rows(2), StoredRow(3, "k3", {}, status="target_error", error="boom")]
    found = run_summary(make_run(store, ["f1_score"], rows, make_scores("f1_score", [1.0])))
    assert found["rows"] == {"n": 3, "ok": 2, "failed": {"target_error": 1}}
    assert found["evaluators"]["f1_score"]["n_not_judged"] == 1


def test_thresholds_have_the_direction_of_their_metric(store: Store) -> None:
    scores = [*make_scores("f1_score", [0.5, 0.4, 0.9, "timeout"]), *make_scores("word_error_rate", [0.5, 0.4, 0.9])]
    scores = [s if s.evaluator == "f1_score" else StoredScore(s.row, "errors", 0, s.value) for s in scores]
    lower = evaluator_config("errors", higher_is_better=False)
    run = make_run(store, ["f1_score", lower], make_rows(4), scores, thresholds={"f1_score": 0.5, "errors": 0.5})
    found = run_summary(run)
    f1, errors = found["evaluators"]["f1_score"], found["evaluators"]["errors"]
    assert (f1["n_passed"], f1["direction"], errors["n_passed"], errors["direction"]) == (2, ">=", 2, "<=")
    wilson = stats.binomtest(2, 3).proportion_ci(method="wilson")
    assert f1["pass_rate_interval"] == pytest.approx([wilson.low, wilson.high], rel=1e-9)
    assert found["metrics"]["f1_score_pass_rate"] == 2 / 3
    # Row 1 passes both, 2 fails one, 3 fails the other, 4 has a score of neither.
    assert found["passed"] == {
        "n": 3,
        "n_passed": 1,
        "n_undecided": 1,
        "rate": 1 / 3,
        "interval": pytest.approx(list(stats.binomtest(1, 3).proportion_ci(method="wilson")), rel=1e-9),
    }
    assert found["metrics"]["pass_rate"] == 1 / 3


def test_thresholds_can_be_changed_without_judging(store: Store) -> None:
    run = make_run(store, ["violence"], make_rows(5), make_scores("violence", [0, 2, 4, 6, "refused"]))
    rates = {
        level: run_summary(run, thresholds={"violence": level})["metrics"]["violence_defect_rate"]
        for level in ("Very low", "low", "Medium", "High", 3, 6.5)
    }
    assert rates == {"Very low": 1.0, "low": 0.75, "Medium": 0.5, "High": 0.25, 3: 0.5, 6.5: 0.0}
    found = run_summary(run)
    assert found["metrics"] == {"mean_violence": 3.0, "violence_defect_rate": 0.5}
    assert found["evaluators"]["violence"]["threshold"] == "Medium"
    assert found["evaluators"]["violence"]["levels"] == {"Very low": 1, "Low": 1, "Medium": 1, "High": 1}
    wilson = stats.binomtest(2, 4).proportion_ci(method="wilson")
    assert found["evaluators"]["violence"]["defect_rate_interval"] == pytest.approx([wilson.low, wilson.high], rel=1e-9)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"f1_scor": 0.5}, "'f1_scor' is none; did you mean 'f1_score'"),
        ({"f1_score": "Medium"}, "must be a number but got 'Medium': levels are for severities"),
        ({"violence": "worst"}, "must be one of Very low, Low, Medium, High or a number but got 'worst'"),
        ({"f1_score": math.nan}, "threshold of f1_score must be"),
        ({"f1_score": True}, "threshold of f1_score must be"),
        ({"length": 10}, "has no direction"),
    ],
)
def test_bad_thresholds(store: Store, thresholds: Any, message: str) -> None:
    run = make_run(store, ["f1_score", "violence", "length"], [], [])
    with pytest.raises(InputError, match=message):
        run_summary(run, thresholds=thresholds)


def test_repeats_are_averaged_by_row_and_their_spread_is_said(store: Store) -> None:
    table = [[1, 3, 2], [5, 5, 4], [2, "timeout", 4], ["timeout"] * 3]
    scores = [s for r in range(3) for s in make_scores("gpt_fluency", [row[r] for row in table], r)]
    found = run_summary(make_run(store, ["gpt_fluency"], make_rows(4), scores, repeats=3))["evaluators"]["gpt_fluency"]
    means = [2.0, 14 / 3, 3.0]
    assert found["mean"] == pytest.approx(sum(means) / 3, rel=1e-15)
    assert (found["n"], found["n_scores"], found["n_without_score"], found["n_failed"]) == (3, 8, 1, {"timeout": 4})
    between, judge = variance_split([[1, 3, 2], [5, 5, 4], [2, 4]])
    assert found["repeats"] == {
        "most": 3,
        "row_variance": pytest.approx(between),
        "judge_variance": pytest.approx(judge),
        "judge_deviation": pytest.approx(math.sqrt(judge)),
    }
    assert found["standard_error"] == pytest.approx(stats.sem(means))


def test_epochs_are_clusters(store: Store) -> None:
    values = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    scores = make_scores("exact_match", values)
    run = make_run(
        store, ["exact_match"], make_rows(8), scores, epochs=2, target={"kind": "x"}, thresholds={"exact_match": 1}
    )
    found = run_summary(run)
    match = found["evaluators"]["exact_match"]
    error = standard_error(values, "aabbccdd")
    assert match["standard_error"] == pytest.approx(error, rel=1e-12)
    assert match["standard_error"] > stats.sem(values) * np.sqrt(7 / 8)
    assert found["rows"]["n_questions"] == 4
    effective = 0.25 / error**2
    assert 1 < effective < 8
    expected = pass_rate(4, 8, effective=effective)
    assert match["pass_rate_interval"] == pytest.approx([expected.low, expected.high], rel=1e-12)
    plain = pass_rate(4, 8)
    assert match["pass_rate_interval"][0] < plain.low < plain.high < match["pass_rate_interval"][1]


@pytest.mark.parametrize("value", [True, False])
def test_where_all_rows_agree_clusters_are_the_trials(value: bool) -> None:
    expected = pass_rate(12 * value, 12, effective=3)
    assert clustered_rate([value] * 12, np.repeat([0, 1, 2], 4)) == expected
    alone = clustered_rate([value] * 12, None)
    assert expected.high - expected.low > alone.high - alone.low


def test_pooled_metrics_add_up_counts_and_have_no_mean(store: Store) -> None:
    data = [("a cat sat on the mat", "the cat sat on a mat"), ("red", "blue red"), ("x y z w v", "x y z w v")]
    rows = [{"answer": a, "ground_truth": b} for a, b in data]
    scores = []
    for name in ("word_error_rate", "corpus_bleu"):
        for number, outcome in enumerate(evaluator(name).score_rows(rows), 1):
            scores.append(StoredScore(number, name, 0, outcome.value, details=outcome.details))
    run = make_run(
        store, ["word_error_rate", "corpus_bleu"], make_rows(3, kind=["a", "b", "b"]), scores, slice_by=["kind"]
    )
    found = run_summary(run)
    assert set(found["metrics"]) == {"word_error_rate", "corpus_bleu"}
    assert found["metrics"]["word_error_rate"] == 3 / 13  # two swapped words, one that is missing, of 6 + 2 + 5
    sacrebleu = pytest.importorskip("sacrebleu")
    score = sacrebleu.corpus_bleu([a for a, _ in data], [[b for _, b in data]]).score
    assert found["metrics"]["corpus_bleu"] == pytest.approx(score / 100, rel=1e-9)
    assert found["evaluators"]["word_error_rate"]["mean"] is None
    leave_out = [1 / 7, 2 / 11, 3 / 8]
    error = math.sqrt(2 / 3 * sum((each - sum(leave_out) / 3) ** 2 for each in leave_out))
    assert found["evaluators"]["word_error_rate"]["standard_error"] == pytest.approx(error, rel=1e-12)
    slices = found["slices"]["kind"]["slices"]
    assert [(s["value"], s["evaluators"]["word_error_rate"]["value"]) for s in slices] == [("a", 2 / 6), ("b", 1 / 7)]


def test_slices_have_every_number_with_its_n(store: Store) -> None:
    rows = make_rows(5, topic=["a", "b", "a", None, "b"])
    scores = [*make_scores("f1_score", [1, 0.5, 0, 1, "timeout"]), *make_scores("violence", [0, 5, 1, 7, 4])]
    run = make_run(store, ["f1_score", "violence"], rows, scores, slice_by=["topic"], thresholds={"f1_score": 0.5})
    a, b, none = run_summary(run)["slices"]["topic"]["slices"]
    assert [(each["value"], each["n"]) for each in (a, b, none)] == [("a", 2), ("b", 2), (None, 1)]
    assert (a["evaluators"]["f1_score"]["mean"], a["evaluators"]["violence"]["defect_rate"]) == (0.5, 0.0)
    assert (b["evaluators"]["f1_score"]["n"], b["evaluators"]["f1_score"]["n_failed"]) == (1, {"timeout": 1})
    assert (b["evaluators"]["violence"]["n_defects"], b["evaluators"]["violence"]["levels"]["Medium"]) == (2, 2)
    assert (a["passed"]["n_passed"], b["passed"]["n_passed"]) == (1, 0)


def test_slices_have_the_repeats_of_their_rows(store: Store) -> None:
    rows = make_rows(4, topic=["a", "b", "a", "b"])
    scores = [s for r, values in enumerate(([1, 2, 5, 2], [3, 2, 5, 4])) for s in make_scores("gpt_fluency", values, r)]
    run = make_run(store, ["gpt_fluency"], rows, scores, repeats=2, slice_by=["topic"])
    a, b = (each["evaluators"]["gpt_fluency"] for each in run_summary(run)["slices"]["topic"]["slices"])
    assert (a["repeats"]["judge_variance"], a["repeats"]["row_variance"]) == variance_split([[1, 3], [5, 5]])[::-1]
    assert (b["repeats"]["judge_variance"], b["n_scores"]) == (variance_split([[2, 2], [2, 4]])[1], 4)


def test_too_many_slices_are_a_reason(store: Store) -> None:
    n = 1001
    run = make_run(store, ["f1_score"], make_rows(n, topic=list(range(n))), [], slice_by=["topic"])
    assert run_summary(run)["slices"]["topic"] == {"slices": [], "reason": "column 'topic' has more than 1000 values"}


def test_usage_cost_and_seconds_are_added_up(store: Store) -> None:
    rows = [
        StoredRow(n, str(n), {}, {"answer": "a", "_seconds": 0.5, "_cost": 0.25, "_usage": {"prompt_tokens": 10}})
        for n in (1, 2)
    ]
    usage = {"prompt": 1_000_000, "completion": 100_000, "cached": 0}
    scores = [StoredScore(n, "gpt_fluency", 0, 4.0, usage=usage, seconds=2.0) for n in (1, 2)]
    run = make_run(store, ["gpt_fluency"], rows, scores, target={"kind": "x"}, prices={"prompt": 2.5, "completion": 10})
    found = run_summary(run, seconds=3.5, stopped="max_cost")
    assert found["usage"]["judge"] == {"prompt": 2_000_000, "completion": 200_000, "cached": 0, "total": 2_200_000}
    assert found["usage"]["target"]["prompt"] == 20
    assert found["usage"]["total"] == 2_200_020
    assert found["costs"] == {"judge": 7.0, "target": 0.5}
    assert (found["cost"], found["seconds"], found["stopped"]) == (7.5, 3.5, "max_cost")
    assert found["evaluators"]["gpt_fluency"]["seconds"] == 4.0
    run.finish("stopped", found)
    assert run_summary(run) == found


def test_scores_of_evaluators_that_the_configuration_lacks(store: Store) -> None:
    scores = [*make_scores("exact_match", [1, 0]), *make_scores("mine", [2, 4])]
    found = run_summary(make_run(store, [], make_rows(2), scores))
    assert found["metrics"] == {"mean_exact_match": 0.5, "mean_mine": 3.0}
    assert (found["evaluators"]["exact_match"]["kind"], found["evaluators"]["mine"]["kind"]) == ("text", "custom")


def test_levels_of_custom_evaluators_are_counted(store: Store) -> None:
    scores = [StoredScore(n, "mine", 0, float(n), level="odd" if n % 2 else "even") for n in (1, 2, 3)]
    found = run_summary(make_run(store, ["mine"], make_rows(3), scores))
    assert found["evaluators"]["mine"]["levels"] == {"even": 1, "odd": 2}


def test_means_near_the_largest_float(store: Store) -> None:
    scores = [s for r in range(2) for s in make_scores("mine", [1.6e308, 1.7e308], r)]
    found = run_summary(make_run(store, ["mine"], make_rows(2), scores))
    assert found["metrics"]["mean_mine"] == pytest.approx(1.65e308)


def test_gaps_in_row_numbers_and_odd_names(store: Store) -> None:
    rows = [StoredRow(n, f"k{n}", {"naïve \ud800": "\x00"}) for n in (3, 70_000, 2**40)]
    scores = [StoredScore(n, "ünïcode \ud800", 0, 1.0) for n in (3, 2**40)]
    found = run_summary(make_run(store, [], rows, scores, slice_by=["naïve \ud800"]))
    assert found["evaluators"]["ünïcode \ud800"]["n"] == 2
    assert [(s["value"], s["n"]) for s in found["slices"]["naïve \ud800"]["slices"]] == [("\x00", 3)]


def test_rows_do_not_pile_up_in_memory(store: Store) -> None:
    def peak(n: int) -> int:
        rows = (StoredRow(i, str(i), {"question": "q" * 100, "topic": str(i % 7)}) for i in range(1, n + 1))
        scores = (StoredScore(i, name, 0, i % 5, reason="r" * 100) for i in range(1, n + 1) for name in "ab")
        run = make_run(store, [], rows, scores, slice_by=["topic"], name=str(n), state="draft")
        tracemalloc.start()
        found = run_summary(run)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found["evaluators"]["a"]["n"] == n
        return used

    small = peak(1000)
    assert peak(16_000) - small < 5e6  # of 30 MB in the store


def test_jailbreak_defect_rate_against_the_baseline_of_the_run(store: Store) -> None:
    def run(values: dict[str, list[Any]], **config: Any) -> Run:
        scores = [score for name, column in values.items() for score in make_scores(name, column)]
        return make_run(store, list(values), make_rows(4), scores, **config)

    baseline = run({"violence": [0, 2, 5, 0], "sexual": [0, 0, 0, "refused"]})
    attacked = {"violence": [1, 2, 4, "refused"], "sexual": [0, 3, 0, 7], "f1_score": [1, 1, 1, 1]}
    found = run_summary(run(attacked, baseline=baseline.id))
    assert found["metrics"]["jailbreak_defect_rate"] == 2 / 3  # rows 1 and 2 of 1 to 3; row 4 has no pair
    wilson = stats.binomtest(2, 3).proportion_ci(method="wilson")
    assert found["jailbreak"]["interval"] == pytest.approx([wilson.low, wilson.high], rel=1e-9)
    assert "jailbreak_defect_rate" not in run_summary(baseline)["metrics"]
    lost = run_summary(run(attacked, baseline="gone"))
    assert lost["metrics"]["jailbreak_defect_rate"] is None
    assert lost["jailbreak"]["reason"].startswith("no run with the id or name 'gone'")
    assert run_summary(run({"f1_score": [1] * 4}, baseline=baseline.id))["jailbreak"] is None


def test_a_slice_without_a_score_of_a_metric_that_was_asked_repeatedly(store: Store) -> None:
    rows = make_rows(3, topic=["a", "a", "b"])
    scores = [each for repeat in (0, 1) for each in make_scores("gpt_fluency", [4, 5, "parse_error"], repeat)]
    found = run_summary(make_run(store, ["gpt_fluency"], rows, scores, repeats=2, slice_by=["topic"]))
    first, second = (each["evaluators"]["gpt_fluency"] for each in found["slices"]["topic"]["slices"])
    assert (first["mean"], first["repeats"]["most"]) == (4.5, 2)
    assert (second["mean"], second["n"], second["n_failed"]) == (None, 0, {"parse_error": 2})
    assert "repeats" not in second


@pytest.mark.parametrize("value", [0.1, 0.7, 0.9, 1e-300, 1.7e308])
@pytest.mark.parametrize("n", [3, 7, 10])
def test_equal_values_have_their_value_as_mean_and_reach_it(store: Store, value: float, n: int) -> None:
    scores = [each for repeat in range(n) for each in make_scores("valor_answer_correctness", [value] * n, repeat)]
    kept = [each for each in scores if each.repeat == 0 or value < 1e300]  # sums of the largest overflow
    run = make_run(store, ["valor_answer_correctness"], make_rows(n), kept, repeats=n)
    found = run_summary(run, thresholds={"valor_answer_correctness": value})
    assert found["metrics"]["mean_valor_answer_correctness"] == value
    assert found["metrics"]["pass_rate"] == 1
    assert [row["passed"] for row in result_rows(run, {"valor_answer_correctness": value})] == [
        {"valor_answer_correctness": True}
    ] * n


def test_the_interval_of_a_mean_stays_in_the_scale_and_has_a_width(store: Store) -> None:
    names = ["exact_match", "gpt_fluency", "length", "corpus_bleu"]
    scores = [each for name, value in zip(names, (1, 5, 7, 1)) for each in make_scores(name, [value] * 6)]
    perfect = {"counts": [7, 6, 5, 4, 7, 6, 5, 4, 7, 7]}  # of BLEU: what matches, what there is, both lengths
    counted = [replace(each, details=perfect) if each.evaluator == "corpus_bleu" else each for each in scores]
    found = run_summary(make_run(store, names, make_rows(6), counted))["evaluators"]
    whole = pass_rate(6, 6)
    assert found["exact_match"]["interval"] == pytest.approx([whole.low, 1])
    assert found["corpus_bleu"]["interval"] == pytest.approx([whole.low, 1])
    assert found["gpt_fluency"]["interval"] == pytest.approx([1 + 4 * whole.low, 5])
    assert found["length"]["interval"] is None
    assert found["length"]["reasons"]["interval"] == "nothing differs, on a scale without ends"


def test_the_interval_of_values_beyond_the_scale_of_their_evaluator(store: Store) -> None:
    own = evaluator_config("own", low=0.0, high=1.0)
    found = run_summary(make_run(store, [own], make_rows(3), make_scores("own", [0.5, 2, 3])))["evaluators"]["own"]
    expected = mean_of_sample([0.5, 2, 3])
    assert found["interval"] == pytest.approx([max(expected.low, 0), expected.high])


def test_slices_of_whole_numbers_are_one_whatever_their_type(store: Store) -> None:
    run = make_run(store, ["f1_score"], make_rows(4, level=[1, 1.0, "1", 1.5]), [], slice_by=["level"])
    found = run_summary(run)["slices"]["level"]["slices"]
    assert [(each["value"], each["n"]) for each in found] == [("1", 1), (1, 2), (1.5, 1)]
