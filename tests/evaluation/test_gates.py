"""Gates on the numbers of a run, and assert_evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hand_made_runs import make_rows, make_run, make_scores
from valor_gpu.errors import InputError
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.results.gates import failing_gates, parse_gate
from valor_gpu.store import Store, StoredRow
from valor_gpu.testing import assert_evaluation


@pytest.fixture
def result(tmp_path: Path) -> Iterator[EvaluationResult]:
    with Store(tmp_path / "store.sqlite") as store:
        rows = [*make_rows(4), StoredRow(5, "k5", {}, {}, "timeout", "late")]
        scores = [
            *make_scores("f1_score", [1, 0.5, 0.75, "timeout"]),
            *make_scores("violence", [0, 0, 6, 0]),
            *make_scores("gpt_fluency", ["refused"]),
        ]
        yield EvaluationResult(store, make_run(store, ["f1_score", "violence", "gpt_fluency"], rows, scores))


@pytest.mark.parametrize(
    ("gate", "holds"),
    [
        ("mean_f1_score >= 0.75", True),
        ("mean_f1_score>0.75", False),
        ("mean_f1_score == 7.5e-1", True),
        ("mean_f1_score != 0.75", False),
        (" mean_f1_score <= 75 % ", True),
        ("violence_defect_rate < 25%", False),
        ("violence_defect_rate <= 0.25", True),
        ("f1_score.n_without_score <= 1", True),
        ("f1_score.n_failed == 1", True),
        ("rows.failed == 0", False),
        ("rows.n == 5", True),
        ("tokens < 1", True),
        ("mean_gpt_fluency >= 1", False),
        ("mean_gpt_fluency < 1", False),
        ("cost <= 1", False),
    ],
)
def test_gates_hold_or_fail(result: EvaluationResult, gate: str, holds: bool) -> None:
    assert (failing_gates(result.summary, [gate]) == []) is holds
    has_number = not gate.startswith(("mean_gpt", "cost"))
    assert (failing_gates(result.summary, [gate], fail_if=True) == []) is (has_number and not holds)


def test_a_failed_gate_says_why(result: EvaluationResult) -> None:
    found = failing_gates(result.summary, ["mean_f1_score > 0.9", "mean_gpt_fluency >= 4", "cost < 1"])
    assert [str(each) for each in found] == [
        "mean_f1_score > 0.9 does not hold: it is 0.75",
        "mean_gpt_fluency >= 4 cannot be decided: there is no number, no row has a score",
        "cost < 1 cannot be decided: there is no number",
    ]
    [must_not] = failing_gates(result.summary, "mean_f1_score<0.8", fail_if=True)
    assert str(must_not) == "mean_f1_score < 0.8 holds: it is 0.75"


@pytest.mark.parametrize(
    "text", ["", "f1", "f1 >=", ">= 3", "f1 = 3", "f1 >= x", "f1 >= nan", "a > b > 3", "f1 => 3", "f1 >= inf"]
)
def test_what_is_no_gate(text: str) -> None:
    with pytest.raises(InputError, match="gate must be like 'map >= 0.4 and p_map < 0.05' but is"):
        parse_gate(text)


def test_a_gate_on_no_number_of_the_run(result: EvaluationResult) -> None:
    with pytest.raises(InputError, match="'mean_f1' is none; did you mean 'mean_f1_score'"):
        failing_gates(result.summary, ["mean_f1 > 0"])


def test_assert_evaluation(result: EvaluationResult) -> None:
    assert_evaluation(result, "mean_f1_score >= 0.7", "violence_defect_rate <= 30%")
    with pytest.raises(
        AssertionError, match=r"mean_f1_score >= 0.8 does not hold: it is 0.75\nrows.failed == 0 does not"
    ):
        assert_evaluation(result, "mean_f1_score >= 0.8", "rows.n > 1", "rows.failed == 0")
    with pytest.raises(AssertionError, match="capitals, run "):
        assert_evaluation(result, "mean_f1_score >= 0.8")
    with pytest.raises(InputError, match="gates must hold at least one condition"):
        assert_evaluation(result)


def test_a_run_that_was_stopped_meets_no_condition(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        run = make_run(store, ["f1_score"], make_rows(2), make_scores("f1_score", [1, 1]), state="stopped")
        with pytest.raises(AssertionError, match=r"the run is not complete, .* it reached: it is stopped"):
            assert_evaluation(EvaluationResult(store, run), "mean_f1_score >= 0.5")
    summary = {"metrics": {"mean_f1_score": 1.0}, "rows": {"n": 2, "ok": 2, "failed": {}}, "evaluators": {}}
    with pytest.raises(AssertionError, match=r"the run is not complete, .* it reached: max_cost"):
        assert_evaluation({**summary, "stopped": "max_cost"}, "mean_f1_score >= 0.5")


def test_pytest_shows_the_line_of_the_users_test() -> None:
    summary = {"metrics": {"mean_f1_score": 0.75}, "rows": {"n": 4, "ok": 4, "failed": {}}, "evaluators": {}}
    with pytest.raises(AssertionError, match=r"does not hold: it is 0\.75") as failed:
        assert_evaluation(summary, "mean_f1_score >= 0.8")
    assert failed.traceback[-1].frame.f_locals["__tracebackhide__"] is True
