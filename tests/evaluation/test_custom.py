"""Evaluators of the user's own."""

from __future__ import annotations

import asyncio
import decimal
import functools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators import _watched
from valor_gpu.evaluation.evaluators.base import Outcome, score_portion
from valor_gpu.evaluation.evaluators.custom import custom_evaluator, source_of

ROWS: list[dict[str, Any]] = [{"answer": "a b", "question": "q"}, {"answer": ""}, {"question": "q"}]


def share(answer: str, question: str = "none") -> float:
    """Inverse number of words."""
    return len(question) / len(answer.split())


def test_an_exception_of_a_row_is_of_that_row_alone() -> None:
    made = custom_evaluator(share)
    assert (made.name, made.requires, made.info.summary) == ("share", {"answer"}, "Inverse number of words")
    assert made.score_rows(ROWS) == [
        Outcome(0.5),
        Outcome(None, "evaluator_error", "ZeroDivisionError: division by zero"),
        Outcome(None, "missing_field", "missing answer"),
    ]


def test_parameters_get_fields_by_alias_and_defaults_stay() -> None:
    def words(response: str, query: str = "xyz") -> float:
        return len(response) * 100 + len(query)

    made = custom_evaluator(words)
    assert made.requires == {"answer"}
    found = made.score_rows([*ROWS[:2], {"answer": "a", "question": None}])
    assert [outcome.value for outcome in found] == [301, 3, 103]


def test_double_star_gets_every_field_whatever_its_name() -> None:
    def count(answer: str, **row: Any) -> int:
        return len(row)

    assert custom_evaluator(count).score_rows([{"answer": "a", "price": 1, "none": None}]) == [Outcome(1.0)]


def test_double_star_beside_other_names_of_fields() -> None:
    def count(*, response: str, query: str = "none", **row: Any) -> int:
        assert "answer" not in row and "question" not in row
        return len(response) * 1000 + len(query) * 100 + len(row)

    made = custom_evaluator(count)
    assert made.requires == {"answer"}
    row = {"answer": "a", "question": "qq", "context": "c", "price": 1}
    assert made.score_rows([row, {"answer": "a", "response": "column"}, {"question": "q"}]) == [
        Outcome(1202.0),
        Outcome(1400.0),
        Outcome(None, "missing_field", "missing answer"),
    ]


def test_several_numbers_have_outcomes_of_their_own() -> None:
    def give(answer: str) -> dict[str, Any]:
        return {"a": 1, "b": 20, "c": float("nan"), "b_level": "high", "reason": "all", "a_reason": "mine", "more": "x"}

    [found] = custom_evaluator(give, high=10).score_rows([{"answer": "a"}])
    assert (found.value, found.status) == (None, "undefined")
    assert found.reason == "several numbers, each a metric of its own: a = 1, b = evaluator_error, c = undefined"
    assert found.parts is not None
    assert found.parts["a"] == Outcome(1.0, reason="mine", details={"more": "x"})
    assert found.parts["b"] == Outcome(None, "evaluator_error", "InputError: its value must be in [-inf, 10] but is 20")
    assert found.parts["c"] == Outcome(None, "undefined", "the evaluator's value is nan")

    def many(answer: str) -> dict[str, int]:
        return dict.fromkeys(map(str, range(101)), 1)

    [failed] = custom_evaluator(many).score_rows([{"answer": "a"}])
    assert failed.reason == "InputError: a mapping must have at most 100 numbers but has 101"


class Exact:
    """Whether the answer is a text."""

    def __init__(self, text: str = "a") -> None:
        self.text = text

    def __call__(self, answer: str) -> bool:
        """Compares."""
        return answer == self.text


class Later:
    """A coroutine as a method."""

    async def __call__(self, answer: str) -> float:
        """Waits once."""
        await asyncio.sleep(0)
        return 1 / len(answer)


def test_classes_and_objects() -> None:
    row = [{"answer": "b"}]
    assert custom_evaluator(Exact).score_rows(row) == [Outcome(0.0)]
    assert custom_evaluator(Exact("b"), parameters={"text": "b"}).score_rows(row) == [Outcome(1.0)]
    assert custom_evaluator(Exact).name == "Exact"
    one, two = (custom_evaluator(Exact(text), parameters={"text": text}).version for text in "ab")
    assert one != two


def test_coroutines_run_side_by_side_and_fail_alone() -> None:
    running = most = 0

    async def wait(answer: str) -> float:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return 1 / len(answer)

    rows = [{"answer": "a" * (n % 3)} for n in range(60)]
    found = custom_evaluator(wait).score_rows(rows)
    assert [outcome.value for outcome in found] == [None, 1.0, 0.5] * 20
    assert found[0].reason == "ZeroDivisionError: division by zero"
    assert most == 32


def test_coroutines_run_where_a_loop_runs_already() -> None:
    async def notebook() -> list[Outcome]:
        return custom_evaluator(Later()).score_rows([{"answer": "ab"}])

    assert asyncio.run(notebook()) == [Outcome(0.5)]


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        (True, Outcome(1.0)),
        (np.float32(0.5), Outcome(0.5)),
        (np.bool_(True), Outcome(1.0)),
        (np.array(2), Outcome(2.0)),
        ({"score": 1, "reason": "why", "parts": [1]}, Outcome(1.0, reason="why", details={"parts": [1]})),
        ({"value": None, "reason": "why"}, Outcome(None, "undefined", "why")),
        (Outcome(3.0, level="high"), Outcome(3.0, level="high")),
        (None, Outcome(None, "undefined", "the evaluator returned None")),
        (float("nan"), Outcome(None, "undefined", "the evaluator's value is nan")),
        (decimal.Decimal("0.5"), Outcome(0.5)),
        ("5", Outcome(None, "evaluator_error", "InputTypeError: it must return a number or None but returned str")),
        (11, Outcome(None, "evaluator_error", "InputError: its value must be in [0, 10] but is 11")),
        ({"a": 1}, Outcome(1.0, details={"a": 1.0}, parts={"a": Outcome(1.0)})),
        (
            {"a": np.int64(1), "a_reason": "why"},
            Outcome(1.0, reason="why", details={"a": 1.0}, parts={"a": Outcome(1.0, reason="why")}),
        ),
        ({"a": None}, Outcome(None, "undefined", "the evaluator returned None as 'a'")),
        (
            {"a": "good"},
            Outcome(
                None,
                "evaluator_error",
                "InputError: a mapping must have a number, under 'value', 'score' or a key of its own, but has ['a']",
            ),
        ),
    ],
)
def test_what_may_be_returned(returned: Any, outcome: Outcome) -> None:
    def give(answer: str) -> Any:
        return returned

    assert custom_evaluator(give, low=0, high=10).score_rows([{"answer": "a"}]) == [outcome]


def pass_time_by(hangs: threading.Semaphore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets time pass for the watch over calls whenever one of them says that it hangs, and at no other time."""
    now = [0.0]

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            while not super().wait(0.01):
                if hangs.acquire(blocking=False):
                    now[0] += timeout or 0.0
                    return False
            return True

    threads = SimpleNamespace(Event=Ended, Lock=threading.Lock, Thread=threading.Thread)
    monkeypatch.setattr(_watched, "threading", threads)
    monkeypatch.setattr(_watched, "time", SimpleNamespace(monotonic=lambda: now[0]))


def test_a_row_that_takes_too_long_costs_its_time_and_no_other_row(monkeypatch: pytest.MonkeyPatch) -> None:
    held, hangs = threading.Event(), threading.Semaphore(0)
    pass_time_by(hangs, monkeypatch)

    def wait(answer: str) -> float:
        if answer == "hang":
            hangs.release()
            held.wait(120)
        return 0.0

    made = custom_evaluator(wait, timeout=60)
    rows = [{"answer": answer} for answer in ("a", "hang", "b", "hang", "hang", "c")]
    found = made.score_rows(rows)
    late = Outcome(None, "timeout", "the evaluator needed more than 60 s")
    assert found == [Outcome(0.0), late, Outcome(0.0), late, late, Outcome(0.0)]
    held.set()


def test_a_function_that_always_hangs_is_called_five_times() -> None:
    held, calls = threading.Event(), []

    def hang(answer: str) -> float:
        calls.append(answer)
        held.wait(60)
        return 0.0

    made = custom_evaluator(hang, timeout=0.02)
    found = made.score_rows([{"answer": "a"}] * 4) + made.score_rows([{"answer": "a"}] * 3)
    assert len(calls) == 5 and [outcome.status for outcome in found] == ["timeout"] * 7
    assert found[-1].reason == "not called: 5 rows one after the other took more than 0.02 s"
    held.set()


def test_a_coroutine_that_takes_too_long_is_cancelled() -> None:
    async def wait(answer: str) -> float:
        await asyncio.sleep(60 if answer == "hang" else 0)
        return 1.0

    found = custom_evaluator(wait, timeout=0.1).score_rows([{"answer": "hang"}, {"answer": "a"}])
    assert found == [Outcome(None, "timeout", "the evaluator needed more than 0.1 s"), Outcome(1.0)]


def test_a_coroutine_that_ends_the_process_or_cancels_itself_fails_alone() -> None:
    async def leave(answer: str) -> float:
        if answer == "exit":
            sys.exit(3)
        raise asyncio.CancelledError

    found = custom_evaluator(leave).score_rows([{"answer": "exit"}, {"answer": "cancel"}])
    assert [outcome.reason for outcome in found] == ["SystemExit: 3", "CancelledError: "]


@pytest.mark.parametrize("timeout", [None, 10.0])
def test_a_function_that_ends_the_process_fails_alone(timeout: float | None) -> None:
    def leave(answer: str) -> float:
        return sys.exit(3) if answer == "exit" else 1.0

    found = custom_evaluator(leave, timeout=timeout).score_rows([{"answer": "exit"}, {"answer": "a"}])
    assert found == [Outcome(None, "evaluator_error", "SystemExit: 3"), Outcome(1.0)]


def test_what_a_function_does_to_its_arguments_stays_with_it() -> None:
    def spoil(context: list[str]) -> float:
        context.append("more")
        return float(len(context))

    row = {"context": ["one"]}
    assert custom_evaluator(spoil).score_rows([row, row]) == [Outcome(2.0), Outcome(2.0)]
    assert row == {"context": ["one"]}


def test_an_outcome_is_checked_as_any_other_value() -> None:
    returned = {
        "good": Outcome(1.0, reason="why", details={"a": 1}),
        "none": Outcome(None, "undefined", "no words"),
        "nan": Outcome(float("nan")),
        "no status": Outcome(None),
        "text": Outcome("1"),  # type: ignore[arg-type]
        "details": Outcome(1.0, details={"a": float("nan")}),
    }
    rows = [{"answer": name} for name in returned]
    found = custom_evaluator(lambda answer: returned[answer], "given").score_rows(rows)
    assert found[:2] == [returned["good"], returned["none"]]
    assert [outcome.status for outcome in found[2:]] == ["undefined"] * 2 + ["evaluator_error"] * 2


def test_details_that_are_no_json_are_errors_of_the_row() -> None:
    def give(answer: str) -> Any:
        return {"value": 1, "part": float(answer)}

    bad, good = custom_evaluator(give).score_rows([{"answer": "nan"}, {"answer": "2"}])
    assert bad.status == "evaluator_error" and "not JSON compliant" in bad.reason
    assert good == Outcome(1.0, details={"part": 2.0})


def test_lambdas_need_a_name_and_say_what_they_are() -> None:
    made = custom_evaluator(lambda answer: len(answer), name="size")
    assert made.is_lambda and made.hashes_code
    assert made.score_rows([{"answer": "abc"}]) == [Outcome(3.0)]
    assert not custom_evaluator(share).is_lambda
    with pytest.raises(InputError, match="is '<lambda>': give the evaluator a name"):
        custom_evaluator(lambda answer: 1)


def test_a_lambda_that_gives_a_coroutine_says_so() -> None:
    made = custom_evaluator(lambda answer: Later()(answer), name="later")
    assert made.score_rows([{"answer": "a"}])[0].reason == (
        "InputTypeError: it returned something to await: make it an async function"
    )


def test_own_evaluators_stand_beside_those_of_the_table() -> None:
    assert score_portion([custom_evaluator(share)], ROWS)["share"][0] == Outcome(0.5)


def test_versions_are_hashes_of_the_code() -> None:
    def first() -> Callable[..., Any]:
        def same(answer: str) -> int:
            return 1

        return same

    def second() -> Callable[..., Any]:
        def same(answer: str) -> int:
            return 2

        return same

    assert custom_evaluator(first()).version == custom_evaluator(first()).version
    assert custom_evaluator(first()).version != custom_evaluator(second()).version


def test_versions_cover_the_values_that_a_partial_binds() -> None:
    def scaled(answer: str, by: Any) -> float:
        return float(by)

    def version(by: Any) -> str:
        return custom_evaluator(functools.partial(scaled, by=by), "scaled").version

    assert (
        len({version(1), version(2), version([1]), custom_evaluator(functools.partial(share), "scaled").version}) == 4
    )
    assert version(object()) == version(object())  # its address is another one in every process


class Needy:
    """It cannot be made without an argument."""

    def __init__(self, text: str) -> None:
        self.text = text


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (3, {}, "evaluator must be a function, a class or an object but got int"),
        (Needy, {}, "evaluator Needy must be made without arguments, or given as an object"),
        (share, {"name": "f1_score"}, "name must differ from those of the table of evaluators but is 'f1_score'"),
        (share, {"name": "a b"}, "name must be letters, digits, '_', '.' and '-' but is 'a b'"),
        (share, {"low": 2, "high": 1}, r"high must be in \[2, inf\] but got 1"),
        (lambda: 1, {"name": "none"}, "evaluator must have a parameter, named as a field, but has none"),
        (lambda a, /: 1, {"name": "one"}, "evaluator must take its parameters by name, but not so 'a'"),
    ],
)
def test_what_cannot_be_an_evaluator(function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        custom_evaluator(function, **options)


def test_an_object_without_call_is_a_type_error() -> None:
    with pytest.raises(InputTypeError, match="objects of evaluator object must have a method __call__"):
        custom_evaluator(object)


def test_code_whose_file_holds_something_else_has_no_source(tmp_path: Path) -> None:
    """As of the cells of a page, or of a file that was edited since: its lines are no code."""
    page = tmp_path / "page.md"
    page.write_text('# A page (with a bracket\n\n"""and quotes\n')
    names: dict[str, Any] = {}
    exec(compile("\n\ndef size(*, answer, **kwargs):\n    return len(answer)\n", str(page), "exec"), names)
    assert source_of(names["size"]) == ""
