"""Preference of two answers in both orders, and guards."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.judge.metrics.scripted import ROW, Script, assistant, outcome, outcomes, user
from valor_gpu.errors import InputError
from valor_gpu.evaluation.judged import GuardMetric, JudgedScore, judged_metric, preference_counts
from valor_gpu.judge import ParseError, Reply, Status
from valor_gpu.judge.metrics.reading import read_probability, read_verdict


def said(verdict: str | None, reason: str = "r") -> str:
    return json.dumps({"reason": reason, "verdict": verdict, "status": "completed" if verdict else "skipped"})


@pytest.mark.parametrize(
    ("one", "other", "value", "level", "consistent"),
    [
        ("first", "second", 1.0, "win", True),
        ("second", "first", 0.0, "loss", True),
        ("tie", "tie", 0.5, "tie", True),
        ("first", "first", 0.5, "tie", False),
        ("second", "second", 0.5, "tie", False),
        ("first", "tie", 0.5, "tie", False),
        ("tie", "first", 0.5, "tie", False),
    ],
)
def test_only_a_verdict_of_both_orders_is_a_win(
    one: str, other: str, value: float, level: str, consistent: bool
) -> None:
    judge = Script(said(one, "one"), said(other, "other"))
    (found,) = outcomes(judged_metric("preference"), [ROW], judge)
    assert (found.value, found.level, found.reason) == (value, level, "one")
    assert found.details is not None and found.details["consistent"] is consistent
    swapped = {"first": "second", "second": "first", "tie": "tie"}[other]
    assert found.details["orders"] == [{"verdict": one, "reason": "one"}, {"verdict": swapped, "reason": "other"}]
    assert "~~~~ first answer\nAt nine.\n~~~~" in judge.users[0]
    assert "~~~~ second answer\nNobody knows.\n~~~~" in judge.users[0]
    assert "~~~~ first answer\nNobody knows.\n~~~~" in judge.users[1]
    assert "~~~~ second answer\nAt nine.\n~~~~" in judge.users[1]


@pytest.mark.parametrize("replies", [("hm",), (said("first"), "hm"), (said("first"), said(None)), (Status.REFUSED,)])
def test_an_order_without_a_verdict_leaves_no_value(replies: Any) -> None:
    found = outcome(judged_metric("preference"), ROW, *replies)
    assert found.value is None and found.status in ("parse_error", "not_applicable", "refused")


def test_a_row_without_one_of_the_answers_is_not_asked_about() -> None:
    assert outcome(judged_metric("preference"), {**ROW, "baseline_answer": " "}).reason == "missing baseline_answer"


def test_counts_keep_ties_apart() -> None:
    tie, split = JudgedScore(0.5, details={"consistent": True}), JudgedScore(0.5, details={"consistent": False})
    failed = JudgedScore(None, "parse_error")
    found = preference_counts([JudgedScore(1.0), JudgedScore(1.0), tie, split, JudgedScore(0.0), failed, None])
    assert (found.wins, found.ties, found.losses, found.inconsistent, found.n_unscored) == (2, 2, 1, 1, 2)
    assert found.mean == 0.6 and math.isnan(preference_counts([failed]).mean)
    with pytest.raises(InputError, match="scores must be JudgedScore or NoneType but got float"):
        preference_counts([1.0])  # type: ignore[list-item]


@pytest.mark.parametrize("text", ["first", " **First.** ", '```json\n{"verdict": "first"}\n```', '"first"'])
def test_a_verdict_is_read_in_its_wrappings(text: str) -> None:
    assert read_verdict(text, ["first", "second", "tie"]).value == "first"


@pytest.mark.parametrize(
    "text", ["first or second", "the first answer", "", '{"verdict": 1}', '{"verdict": null}', "{"]
)
def test_anything_else_is_no_verdict(text: str) -> None:
    with pytest.raises(ParseError, match=r"verdict must be first, second, tie but is|JSON object"):
        read_verdict(text, ["first", "second", "tie"])


def guard_reply(**masses: float) -> Reply:
    return Reply("unsafe\nS1", logprobs=({"\n\n": -0.01}, {name: math.log(mass) for name, mass in masses.items()}))


def test_a_guard_gives_a_probability_under_its_own_name() -> None:
    asked: list[Any] = []

    def guard(messages: Any) -> Reply:
        asked.append(messages)
        return guard_reply(unsafe=0.6, safe=0.2, un=0.1, other=0.1)

    metric = GuardMetric("violence")
    (found,) = outcomes(metric, [ROW], guard)
    assert metric.name == "violence_probability" and not metric.higher_is_better
    assert found.value == pytest.approx(0.7 / 0.9, rel=1e-12) and found.level == ""
    assert asked == [[user(ROW["question"]), assistant(ROW["answer"])]]


def test_a_guard_gets_the_conversation_up_to_each_answer() -> None:
    lengths: list[int] = []

    def guard(messages: Any) -> str:
        lengths.append(len(messages))
        return json.dumps({"probability": 0.25 * len(messages) - 0.25})

    turns = [user("a"), assistant("b"), user("c"), assistant("d")]
    (found,) = outcomes(GuardMetric(task="chat"), [{"messages": turns}], guard)
    assert lengths == [2, 4] and found.value == 0.5 and found.details is not None and found.details["n_scored"] == 2


def test_a_verdict_alone_is_no_probability() -> None:
    found = outcome(GuardMetric(), ROW, "unsafe\nS1")
    assert (found.value, found.status) == (None, "parse_error")
    assert "must give a probability, or log-probabilities of its verdict" in found.reason
    assert read_probability(Reply("0.93"), "unsafe", "safe") == 0.93
    for text in ("1.2", '{"probability": -0.1}', '{"score": 0.5}'):
        with pytest.raises(ParseError, match="the guard must give a probability"):
            read_probability(Reply(text), "unsafe", "safe")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"harm": "a b"}, "harm must be a name but got 'a b'"),
        (
            {"positive": "yes", "negative": "yep"},
            "positive and negative must begin with two letters but got 'yes', 'ye",
        ),
        ({"positive": ""}, "positive and negative must begin with two letters"),
        ({"messages": 3}, "messages must be a function but got int"),
        ({"task": "sum"}, "task must be one of 'qa', 'chat' but got 'sum'"),
        ({"harm": 3}, "harm must be str but got int"),
    ],
)
def test_guards_that_cannot_be(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GuardMetric(**options)


def test_versions_of_guards() -> None:
    guards = [GuardMetric(), GuardMetric("violence"), GuardMetric(version="guard-3"), GuardMetric(task="chat")]
    assert len({guard.version for guard in guards}) == 4
