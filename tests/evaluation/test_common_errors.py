"""What a run says of its most frequent errors, and of numbers that it does not have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.hand_made_runs import make_run
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.results.common_errors import common_errors, error_lines, without_scores
from valor_gpu.evaluation.run import evaluate, rescore_run, resume_run
from valor_gpu.judge.protocol import JudgeError, Messages, Status
from valor_gpu.store import Run, Store, StoredRow, StoredScore

ROWS = [{"question": f"question {n}", "answer": f"answer {n}", "ground_truth": n + 0.5} for n in range(1, 9)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def rejecting(reason: Callable[[int], str]) -> Callable[[Messages], str]:
    """A judge that rejects each request with a reason of its own."""
    asked = iter(range(1000))

    def judge(messages: Messages) -> str:
        raise JudgeError(Status.BAD_REQUEST, reason(next(asked)))

    return judge


def told(action: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What an action gives, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = action()
    assert {each.category for each in caught} <= {UserWarning}
    assert {Path(each.filename).name for each in caught} <= {Path(__file__).name}  # where the user called
    return found, [str(each.message) for each in caught]


def failures(store: Store, reasons: dict[str, list[tuple[str, str]]], unanswered: int = 0) -> Run:
    """A run with these statuses and reasons of each metric, a row each."""
    n = max(map(len, reasons.values()), default=0)
    rows = [StoredRow(number, str(number), {"question": "?"}) for number in range(1, n + 1)]
    rows += [StoredRow(n + k, f"u{k}", {}, {}, "target_error", f"no {k}") for k in range(1, unanswered + 1)]
    scores = [
        StoredScore(number, name, 0, 1.0 if status == "ok" else None, status, reason)
        for name, each in reasons.items()
        for number, (status, reason) in enumerate(each, 1)
    ]
    return make_run(store, list(reasons), rows, scores)


def test_numbers_as_ground_truth_warn_and_are_named(store: Store) -> None:
    metrics = ["f1_score", "exact_match"]
    result, said = told(lambda: evaluate(data=ROWS, metrics_list=metrics, store=store))
    cause = "16 invalid_field, scores of exact_match and f1_score: ground_truth must be a text or a list of texts"
    assert len(said) == 1 and said[0].startswith(f"no row of run {result.run_id} (8 rows) has a score of f1_score")
    assert cause in said[0] and f"most frequent errors:\n  {cause}" in str(result)
    assert cause in result._repr_html_()


@pytest.mark.parametrize(
    "reason",
    [
        lambda n: f"HTTP 400: invalid prompt 'Question {n} & more'",
        lambda n: f"HTTP 400: no rating in \"It's <b>{n}</b> of them, I think",
        lambda n: f"HTTP 400: request {n:04x}-ab{n} of row {n} took {n}.5 s",
        lambda n: f"HTTP 400: Error code: 400 - {{'error': {{'message': 'Tried {n} times', 'code': {n}}}}}",
        lambda n: "HTTP 400: " + " ".join("ab"[n % 2] * k for k in range(1, n + 2)),  # nothing tells what is of a row
    ],
)
def test_texts_of_a_row_do_not_split_an_error(store: Store, reason: Callable[[int], str]) -> None:
    judge = rejecting(reason)
    result, [said] = told(lambda: evaluate(data=ROWS, metrics_list=["gpt_fluency"], judge=judge, store=store))
    found = common_errors(result.run)
    assert [(each.evaluators, each.status, each.n) for each in found] == [(("gpt_fluency",), "bad_request", 8)]
    assert "8 bad_request, scores of gpt_fluency" in said and "HTTP 400" in said
    assert ("of them with this cause" in said) == (found[0].n_alike < 8)


@pytest.mark.parametrize(
    ("reply", "cause"),
    [("It speaks of {} and reads well.", "must hold a rating"), ('{{"score": 2, "reason": "{}"}} Score: 4', "several")],
)
def test_replies_of_a_judge_do_not_split_an_error(store: Store, reply: str, cause: str) -> None:
    words = cycle(["wood", "stone", "it's iron", "\u201cglass\u201d"])

    def judge(messages: Messages) -> str:
        return reply.format(next(words))

    result, [said] = told(lambda: evaluate(data=ROWS, metrics_list=["gpt_fluency"], judge=judge, store=store))
    assert [each.n_alike for each in common_errors(result.run)] == [8] and cause in said


def test_causes_of_one_status_are_counted_apart(store: Store) -> None:
    reasons = [("bad_request", f"'{name}' is not supported") for name in 4 * ["temperature"] + 3 * ["seed"]]
    run = failures(store, {"gpt_fluency": reasons})
    assert list(map(str, common_errors(run))) == [
        "7 bad_request, scores of gpt_fluency (4 of them with this cause): 'temperature' is not supported"
    ]


def test_the_three_most_frequent_are_named_and_the_others_counted(store: Store) -> None:
    reasons = {
        "a": [("timeout", "late")] * 5,
        "b": [("timeout", "late")] * 4 + [("parse_error", "")],
        "c": [("judge_error", "gone")] * 2 + [("refused", "no")] * 3,
    }
    run = failures(store, reasons, 7)
    assert error_lines(run) == [
        "9 timeout, scores of a and b: late",
        "7 target_error, rows without an answer: no 1",
        "3 refused, scores of c: no",
        "and 2 more kinds of errors",
    ]
    assert [each.n for each in EvaluationResult(store, run).errors.common()] == [9, 7, 3, 2, 1]
    assert str(common_errors(run, {"b"})[-1]) == "1 parse_error, scores of b"
    assert error_lines(failures(store, {"a": [("ok", "")]})) == []


def test_more_causes_than_are_told_apart_are_still_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("store.groups", "evaluation.results.common_errors"):
        monkeypatch.setattr(f"valor_gpu.{module}.MOST_CAUSES", 2)
    words = [("bad_request", word) for word in ("one", "two", "three", "two", "four")]
    run = failures(store, {"a": words, "b": [("ok", "")] * 4 + [("timeout", "late")]}, 1)
    assert error_lines(run) == [
        "5 bad_request, scores of a (2 of them with this cause): two",
        "1 target_error, rows without an answer: no 1",
        "1 timeout, scores of b",
    ]


def test_an_error_is_one_visible_line(store: Store) -> None:
    [line] = error_lines(failures(store, {"a": [("timeout", "one\ntwo\x1b[31m \u202e" + "x " * 300)]}))
    assert line.startswith("1 timeout, scores of a: one two␛[31m [U+202E]x x") and line.endswith("x…")
    assert "\n" not in line


def test_a_target_that_always_fails_is_said_once(store: Store) -> None:
    def target(question: str) -> str:
        raise ValueError(f"no route for {question!r}")

    result, said = told(lambda: evaluate(data=ROWS, target=target, metrics_list=["f1_score"], store=store))
    cause = "8 target_error, rows without an answer: ValueError: no route for 'question 1'"
    assert said == [f"no row of run {result.run_id} (8 rows) has an answer; {cause}"] and cause in str(result)


def test_resumed_and_rescored_runs_warn_too(store: Store) -> None:
    rows = [{**row, "ground_truth": row["answer"]} for row in ROWS]
    judge = rejecting(lambda n: "HTTP 403")
    first, [said] = told(lambda: evaluate(data=rows, metrics_list=["gpt_fluency"], judge=judge, store=store))
    _, [again] = told(lambda: resume_run(store, first.run_id, data=rows, judge=judge))
    assert said == again and "HTTP 403" in said
    good, said = told(lambda: evaluate(data=rows, metrics_list=["f1_score"], store=store))
    assert not said and "errors" not in str(good)
    _, [later] = told(
        lambda: rescore_run(store, good.run_id, metrics_list=["gpt_fluency"], judge=rejecting(lambda n: "HTTP 409"))
    )
    assert "has a score of gpt_fluency; 8 bad_request" in later and "f1_score" not in later


def test_one_score_is_enough_and_a_stop_says_it_itself(store: Store) -> None:
    run = failures(store, {"gpt_fluency": [("ok", ""), ("timeout", "late")]})
    assert without_scores(run, EvaluationResult(store, run).summary) == ""
    empty = failures(store, {"gpt_fluency": []})
    assert without_scores(empty, EvaluationResult(store, empty).summary) == ""

    def judge(messages: Messages) -> str:
        raise JudgeError(Status.UNAUTHORIZED, "no key")

    _, [said] = told(lambda: evaluate(data=ROWS, metrics_list=["gpt_fluency"], judge=judge, store=store))
    assert "stopped, and can be resumed: an earlier request failed: no key" in said


def test_a_pooled_metric_without_a_number_warns_too(store: Store) -> None:
    rows = [{"answer": "one", "ground_truth": ""}] * 2
    _, [said] = told(lambda: evaluate(data=rows, metrics_list=["word_error_rate", "length"], store=store))
    assert "has a score of word_error_rate; 2 undefined, scores of word_error_rate: the ground truths have no" in said
