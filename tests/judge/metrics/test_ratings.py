"""Ratings of rows: reasons, levels, what is missing, replies that cannot be used."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

from tests.judge.metrics.scripted import ROW, Script, outcome, outcomes, rating
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import Outcome
from valor_gpu.evaluation.judged import RATINGS, judged_metric, judged_outcome, mean_of_scored
from valor_gpu.judge import Judgement, Limits, Reply, Status, run_judge


@pytest.mark.parametrize("name", RATINGS)
def test_value_reason_and_level_of_a_row(name: str) -> None:
    metric = judged_metric(name)
    found = outcome(metric, ROW, rating(4, "It lacks one thing."))
    level = "Medium" if RATINGS[name].is_safety else ""
    assert found == Outcome(4.0, "ok", "It lacks one thing.", level)
    assert (metric.low, metric.high, metric.higher_is_better) == ((0, 7, False) if level else (1, 5, True))


@pytest.mark.parametrize("name", RATINGS)
@pytest.mark.parametrize("blank", [None, "", " \n\t", "\u200b\ufeff", math.nan, "absent"])
def test_a_field_without_text_is_not_asked_about(name: str, blank: Any) -> None:
    metric = judged_metric(name)
    for field in metric.requires:
        row = {**ROW, field: blank}
        if blank == "absent":
            del row[field]
        judge = Script(rating(2))
        bad, good = outcomes(metric, [row, ROW], judge)
        assert bad == Outcome(None, "missing_field", f"missing {field}")
        assert good.value == 2 and len(judge.asked) == 1


def test_all_missing_fields_are_named() -> None:
    assert outcome(judged_metric("gpt_relevance"), {}).reason == "missing answer, context, question"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**ROW, "answer": 7.5}, "answer must be text but is float: write its digits as a text"),
        ({**ROW, "answer": ["a"]}, "answer must be text but is list"),
        ({**ROW, "context": {"a": 1}}, "context must be text or a list of texts but is dict"),
        ({**ROW, "context": ["a", {}, []]}, r"context[2] must be text but is list"),
    ],
)
def test_a_field_that_is_no_text_costs_one_row(row: Any, reason: str) -> None:
    assert outcome(judged_metric("gpt_groundedness"), row) == Outcome(None, "missing_field", reason)


def test_integers_are_their_digits() -> None:
    judge = Script(rating(4))
    [found] = outcomes(judged_metric("gpt_groundedness"), [{**ROW, "answer": 1789, "context": 1788}], judge)
    assert found.value == 4 and "1789" in judge.users[0] and "1788" in judge.users[0]


def test_lists_of_contexts_and_of_ground_truths_are_shown_one_by_one() -> None:
    judge = Script(rating(5))
    row = {**ROW, "context": ["One.", "", {"id": "2.md", "content": "Two."}]}
    outcomes(judged_metric("gpt_groundedness"), [row], judge)
    assert "~~~~ context 1 of 2\nOne.\n~~~~\n~~~~ context 2 of 2\n2.md\nTwo.\n~~~~" in judge.users[0]
    judge = Script(rating(5))
    outcomes(judged_metric("gpt_similarity"), [{**ROW, "ground_truth": ["One.", "Two."]}], judge)
    assert "~~~~ correct answer 2 of 2\nTwo.\n~~~~" in judge.users[0]


def test_a_reply_without_a_rating_keeps_its_text_and_is_no_zero() -> None:
    found = outcome(judged_metric("violence"), ROW, "On a scale of 0 to 7 I give it a 2")
    assert (found.value, found.status, found.level) == (None, "parse_error", "")
    assert found.details == {"reply": "On a scale of 0 to 7 I give it a 2"}
    skipped = outcome(judged_metric("violence"), ROW, rating(None, "There is no answer."))
    assert (skipped.value, skipped.status) == (None, "not_applicable") and "There is no answer." in skipped.reason


def test_an_unusable_reply_is_sent_back_once() -> None:
    judge = Script("hm", rating(5))
    (found,) = outcomes(judged_metric("gpt_fluency"), [ROW], judge, repairs=1)
    assert found.value == 5 and len(judge.asked) == 2
    assert judge.schemas[0]["required"] == ["reason", "score", "status"]


def test_fractions_are_rounded_only_if_asked() -> None:
    assert outcome(judged_metric("gpt_fluency"), ROW, rating(4.5)).status == "parse_error"
    assert outcome(judged_metric("gpt_fluency", round_fractions=True), ROW, rating(4.5)).value == 5


def test_failures_of_the_judge_keep_their_status() -> None:
    found = outcome(judged_metric("gpt_fluency"), ROW, Status.CONTENT_FILTER)
    assert (found.value, found.status, found.reason) == (None, "content_filter", "as the script wants")


def test_the_judgement_of_a_row_keeps_what_a_metric_gave_beside_its_number() -> None:
    run = run_judge([ROW, {}], [judged_metric("violence")], Script(rating(6)), limits=Limits(concurrency=1))
    found, missing = (rows[0] for rows in run.judgements["violence"])
    assert found.value == 6 and found.details.level == "High" and run.summaries["violence"].n_scored == 1
    assert missing.status is Status.NOT_APPLICABLE and missing.details.status == "missing_field"
    with pytest.raises(InputError, match="the score must have a value but has the status missing_field: missing"):
        float(missing.details)


def test_outcomes_of_other_metrics() -> None:
    assert judged_outcome(Judgement(0.5, Status.OK, Reply("x"))) == Outcome(0.5)
    found = judged_outcome(Judgement(None, Status.TIMEOUT, error="no reply"))
    assert found == Outcome(None, "timeout", "no reply")


def test_means_leave_out_what_is_not_there() -> None:
    assert mean_of_scored([5.0, None, math.nan, 1.0]) == (3.0, 2)
    assert math.isnan(mean_of_scored([])[0])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gpt_fluncy", {}, r"name must be one of .*'gpt_fluency'.* but got 'gpt_fluncy'"),
        ("gpt_similarity", {"task": "chat"}, "gpt_similarity must have a task of qa but got 'chat'"),
        ("gpt_fluency", {"task": "sum"}, "gpt_fluency must have a task of qa, chat but got 'sum'"),
        ("gpt_fluency", {"round_fractions": 1}, "round_fractions must be bool but got int"),
    ],
)
def test_bad_arguments(name: str, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        judged_metric(name, **options)


def test_neither_torch_nor_pandas_nor_a_client_is_imported() -> None:
    code = (
        "import sys; from valor_gpu.evaluation.judged import *; judged_metric('violence');"
        "print([m for m in ('torch', 'pandas', 'numpy', 'openai', 'nltk') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
