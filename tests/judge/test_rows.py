"""One row never ends a run: odd values, odd replies, code that raises, causes that every row shares."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.judge import (
    CallableJudge,
    FailedJudgement,
    JudgeCache,
    JudgeError,
    Judgement,
    Limits,
    LLMMetric,
    NotApplicable,
    ParseError,
    Question,
    Reply,
    Status,
    Usage,
    question_metric,
    run_judge,
)

NO_REPAIR = Limits(repairs=0)


def about(row: Any, parse: Callable[[str], Any] = float) -> Question:
    return Question([{"role": "user", "content": str(row)}], parse)


class Odd:
    """Its text cannot be made and its number neither."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __float__(self) -> float:
        raise RuntimeError("no number")


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Panic(BaseException):
    """As bindings to other languages raise them."""


def raises(error: BaseException) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        raise error

    return parse


ODD_VALUES: list[Any] = [
    math.nan, math.inf, -math.inf, None,
    "4", b"4", [4.0], {"score": 4}, 10**400, complex(4), Odd(), 0.999, 5.001, 1e308,
]  # fmt: skip
ODD_ERRORS = [
    ValueError("x"), OverflowError("x"), ZeroDivisionError("x"), RecursionError("x"), MemoryError(), StopIteration(),
    AssertionError("x"), OddError(), KeyError("x"), StopAsyncIteration(), TimeoutError("x"), SystemExit(1), Panic("x"),
]  # fmt: skip


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: type(value).__name__)
def test_a_value_that_cannot_be_costs_one_row(value: Any, tmp_path: Path) -> None:
    calls: list[str] = []

    def judge(messages: Any) -> str:
        calls.append(messages[0]["content"])
        return messages[0]["content"]

    metric = question_metric("q", lambda row: about(row, lambda text: value if text == "odd" else 4.0), 1, 5)
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        for calls_by_then in (3, 4):  # the odd row is asked again, the others are kept
            named = CallableJudge(judge, name="j")
            run = run_judge(["a", "odd", "b"], [metric], named, limits=NO_REPAIR, cache=cache)
            assert [math.isnan(score) for score in run.scores("q")] == [False, True, False]
            assert run.summaries["q"].n_failed == {"parse_error": 1} and run.summaries["q"].mean == 4.0
            assert "the value must" in run.judgements["q"][1][0].error
            assert len(calls) == calls_by_then and len(cache) == 2


@pytest.mark.parametrize("error", ODD_ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_parser_or_a_metric_raises_costs_one_row(error: BaseException) -> None:
    class Own(LLMMetric):
        name = "own"

        async def score(self, row: str, ask: Any) -> float:
            if row == "odd":
                raise error
            return 1.0

    parsed = question_metric("q", lambda row: about(row, raises(error) if row == "odd" else float), 0, 9)
    made = question_metric("made", lambda row: raises(error)(row) if row == "odd" else about(row), 0, 9)
    run = run_judge(["a", "odd", "b"], [parsed, made, Own()], lambda messages: "4", limits=NO_REPAIR)
    assert run.summaries["q"].n_failed == {"parse_error": 1}
    assert run.summaries["made"].n_failed == run.summaries["own"].n_failed == {"metric_error": 1}
    for name in ("q", "made", "own"):
        found = run.judgements[name][1][0]
        assert type(error).__name__ in found.error or isinstance(error, (StopIteration, StopAsyncIteration))


def test_a_metric_that_returns_no_number_costs_one_row_and_its_only_reply_is_not_kept(tmp_path: Path) -> None:
    class Own(LLMMetric):
        name, low, high = "own", 1, 5

        async def score(self, row: str, ask: Any) -> Any:
            return await ask(about(row))

    replies = iter(["NaN", "nan", "4"])
    judge = CallableJudge(lambda messages: next(replies) if messages[0]["content"] == "odd" else "4", name="j")
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        found = [run_judge(["a", "odd"], [Own()], judge, cache=cache).judgements["own"][1][0] for _ in range(3)]
    assert [one.status for one in found] == [Status.METRIC_ERROR, Status.METRIC_ERROR, Status.OK]
    assert found[0].error == "the value must be a number but is NaN" and found[0].attempts == 1


@pytest.mark.parametrize("kind", [NotApplicable, ParseError, InputError])
def test_an_error_whose_text_cannot_be_made_costs_one_row(kind: type[Exception]) -> None:
    def fail(self: Any) -> str:
        raise SystemExit("no text")

    error = type("Untold", (kind,), {"__str__": fail})()
    parsed = question_metric("q", lambda row: about(row, raises(error) if row == "odd" else float), 0, 9)
    made = question_metric("made", lambda row: raises(error)(row) if row == "odd" else about(row), 0, 9)
    run = run_judge(["a", "odd"], [parsed, made], lambda messages: "4", limits=NO_REPAIR)
    for name in ("q", "made"):
        assert run.scores(name)[0] == 4.0 and "its text cannot be made" in run.judgements[name][1][0].error


def test_a_failed_judgement_cannot_smuggle_a_value_in() -> None:
    class Own(LLMMetric):
        name, low, high = "own", 1, 5

        async def score(self, row: str, ask: Any) -> Any:
            raise FailedJudgement(Judgement(row, Status.OK))

    run = run_judge(["abc", 99.0], [Own()], lambda messages: "4")
    assert run.summaries["own"].n_failed == {"metric_error": 2}
    assert run.judgements["own"][0][0].error == "judgement must be a Judgement without a value"


@pytest.mark.parametrize("error", [StopIteration("x"), SystemExit(2), Panic("x")], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_judge_raises_costs_one_row_at_once(error: BaseException, is_async: bool) -> None:
    def plain(messages: Any) -> str:
        if messages[0]["content"] == "odd":
            raise error
        return "4"

    class Own:
        identity = None

        async def __call__(self, messages: Any, schema: Any) -> Reply:
            return Reply(plain(messages))

    judge: Any = Own() if is_async else plain
    run = run_judge(["a", "odd", "b"], [question_metric("q", about, 0, 9)], judge)
    [odd] = run.judgements["q"][1]
    assert run.summaries["q"].n_failed == {"judge_error": 1} and odd.attempts == 1 and type(error).__name__ in odd.error


def test_true_and_false_are_numbers_and_scores_have_them() -> None:
    metric = question_metric("q", lambda row: about(row, lambda text: text == "yes"))
    assert run_judge(["yes", "no"], [metric], lambda messages: messages[0]["content"]).scores("q") == [1.0, 0.0]


def test_a_kept_reply_that_no_longer_gives_a_value_is_asked_for_again(tmp_path: Path) -> None:
    replies = iter(["9", "4"])
    judge = CallableJudge(lambda messages: next(replies), name="j")
    for high, value, cached in ((10, 9.0, False), (5, 4.0, False), (5, 4.0, True)):
        [[found]] = run_judge(
            ["a"], [question_metric("q", about, 1, high)], judge, cache=tmp_path / "c.sqlite"
        ).judgements["q"]
        assert (found.value, found.cached) == (value, cached)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(None),  # type: ignore[arg-type]
        Reply("4", usage="many"),  # type: ignore[arg-type]
        Reply("4", finish_reason=["stop"]),  # type: ignore[arg-type]
        Reply("4", Usage("1", 2)),  # type: ignore[arg-type]
        [4],
        None,
    ],
    ids=repr,
)
def test_an_odd_reply_costs_one_row(reply: Any) -> None:
    def judge(messages: Any) -> Any:
        return reply if messages[0]["content"] == "odd" else "4"

    run = run_judge(["a", "odd", "b"], [question_metric("q", about, 1, 5)], judge)
    assert run.summaries["q"].n_failed == {"judge_error": 1} and run.summaries["q"].n_scored == 2


def test_a_judge_that_cancels_itself_costs_one_row() -> None:
    async def judge(messages: Any) -> str:
        if messages[0]["content"] == "odd":
            raise asyncio.CancelledError
        return "4"

    run = run_judge(["a", "odd", "b"], [question_metric("q", about, 1, 5)], judge)
    if sys.version_info >= (3, 11):  # before, nobody can tell it from a cancelled run
        assert run.summaries["q"].n_failed == {"judge_error": 1}
    assert run.summaries["q"].n_scored == 2


def test_sums_of_huge_values_do_not_overflow() -> None:
    metric = question_metric("q", about, -math.inf, math.inf)
    found = run_judge(["1e308", "1.5e308", "-1e308"], [metric], lambda messages: messages[0]["content"]).summaries["q"]
    assert found.mean == pytest.approx(0.5e308, rel=1e-12) and found.standard_error == pytest.approx(
        7.637e307, rel=1e-3
    )


def test_questions_that_json_cannot_express_cost_one_row(tmp_path: Path) -> None:
    judge = CallableJudge(lambda messages: "4", name="j")
    metric = question_metric("q", lambda row: Question([{"role": "user", "content": row}], float), 1, 5)
    run = run_judge(["a", {1, 2}], [metric], judge, cache=tmp_path / "c.sqlite")
    assert run.summaries["q"].n_failed == {"bad_request": 1}
    assert "must hold JSON values" in run.judgements["q"][1][0].error
    assert run_judge(["a", {1, 2}], [metric], lambda messages: "4").scores("q") == [4.0, 4.0]


class Failing:
    """A judge whose requests fail before they leave."""

    identity: Mapping[str, Any] = {"kind": "failing"}

    def __init__(self, fails: Callable[[str], JudgeError | None]) -> None:
        self.fails, self.asked = fails, 0

    async def __call__(self, messages: Any, schema: Any) -> Reply:
        self.asked += 1
        if (error := self.fails(messages[0]["content"])) is not None:
            raise error
        return Reply("4")


def test_a_cause_that_all_rows_share_stops_the_run_after_five_in_a_row() -> None:
    judge = Failing(lambda text: JudgeError(Status.BAD_REQUEST, f"{text}: no top_k", shared_cause="no argument top_k"))
    run = run_judge(range(200), [question_metric("q", about, 1, 5)], judge, limits=Limits(concurrency=1))
    assert judge.asked == 5 and run.summaries["q"].n_failed == {"bad_request": 200}
    assert run.stopped == "5 requests in a row failed by the same cause: no argument top_k"
    assert [row[0].error for row in run.judgements["q"][:5]] == [f"{at}: no top_k" for at in range(5)]
    assert run.judgements["q"][199][0].error == run.stopped and run.judgements["q"][199][0].attempts == 0


def test_a_shared_cause_is_never_retried_and_replies_in_between_reset_the_count() -> None:
    def fails(text: str) -> JudgeError | None:
        error = JudgeError(Status.CONNECTION_ERROR, "bad header", shared_cause="bad header")
        return None if int(text) % 5 == 0 else error

    judge = Failing(fails)
    run = run_judge(range(50), [question_metric("q", about, 1, 5)], judge, limits=Limits(concurrency=1))
    assert judge.asked == 50 and run.stopped is None and run.summaries["q"].n_scored == 10
    different = Failing(lambda text: JudgeError(Status.BAD_REQUEST, "x", shared_cause=str(int(text) % 2)))
    run = run_judge(range(50), [question_metric("q", about, 1, 5)], different, limits=Limits(concurrency=1))
    assert different.asked == 50 and run.stopped is None


def test_parameters_that_the_server_rejects_are_in_results_warning_and_key(tmp_path: Path) -> None:
    class Dropping:
        """Drops ``seed`` after the first request, which the server rejects."""

        identity: Mapping[str, Any] = {"kind": "dropping"}

        def __init__(self) -> None:
            self.asked, self.gone = 0, ()

        def dropped(self, schema: Any) -> tuple[str, ...]:
            return self.gone

        async def __call__(self, messages: Any, schema: Any) -> Reply:
            self.asked += 1
            if not self.gone:
                self.gone = ("seed",)  # type: ignore[assignment]
                raise JudgeError(Status.BAD_REQUEST, "no seed", retry_now=True)
            return Reply("4", dropped=self.gone)

    limits, metric, path = Limits(concurrency=1), question_metric("q", about, 1, 5), tmp_path / "c.sqlite"
    for asked in (4, 1):  # of the second judge only the first request, which tells it to drop the seed
        judge = Dropping()
        with pytest.warns(UserWarning, match="the judge's server rejects seed") as warned:
            run = run_judge(range(3), [metric], judge, limits=limits, cache=path)
        assert len(warned) == 1 and run.dropped == ("seed",)
        assert run.summaries["q"].cached == (0 if asked == 4 else 3)
        assert judge.asked == asked and run.scores("q") == [4.0] * 3
        assert all(row[0].reply is not None and row[0].reply.dropped == ("seed",) for row in run.judgements["q"])

    class Whole(Dropping):
        """The same judge at a server that takes the seed: other replies."""

        async def __call__(self, messages: Any, schema: Any) -> Reply:
            self.asked += 1
            return Reply("5")

    whole = Whole()
    assert run_judge(range(3), [metric], whole, limits=limits, cache=path).scores("q") == [5.0] * 3 and whole.asked == 3


def test_rows_without_an_input_and_nested_json(tmp_path: Path) -> None:
    def needs(row: str) -> Question:
        if not row:
            raise NotApplicable("the row is empty")
        return about(row, lambda text: json.loads(text)["score"])

    deep = "[" * 100_000
    run = run_judge(["", "b"], [question_metric("q", needs, 1, 5)], lambda messages: deep, limits=NO_REPAIR)
    assert run.summaries["q"].n_failed == {"not_applicable": 1, "parse_error": 1}


class Reasoned:
    """A number with its reason."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class WithReason(LLMMetric):
    name, low, high = "m", 1, 5

    async def score(self, row: Any, ask: Any) -> Any:
        if row is None:
            error = NotApplicable("nothing")
            error.details = "why"  # type: ignore[attr-defined]
            raise error
        return Reasoned(row) if row > 2 else row


def test_a_judgement_keeps_the_object_that_a_metric_gives_as_its_number() -> None:
    plain, reasoned, outside, missing = (
        rows[0] for rows in run_judge([2, 4.0, 6.0, None], [WithReason()], lambda messages: "").judgements["m"]
    )
    assert (plain.value, plain.details) == (2.0, None)
    assert reasoned.value == 4.0 and isinstance(reasoned.details, Reasoned)
    assert outside.status is Status.METRIC_ERROR and outside.details is None
    assert missing.status is Status.NOT_APPLICABLE and missing.details == "why"


def test_a_question_may_read_the_whole_reply() -> None:
    def ask_for(row: str) -> Question:
        messages = [{"role": "user", "content": row}]
        return Question(messages, lambda reply: reply.logprobs[0]["yes"], whole_reply=True)

    metric = question_metric("m", ask_for, -1, 0)
    run = run_judge(["a"], [metric], lambda messages: Reply("yes", logprobs=({"yes": -0.5},)))
    assert run.scores("m") == [-0.5]
