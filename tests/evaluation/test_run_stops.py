"""Runs that end early: by the store, by exits of the user's code, by a judge that never answers."""

from __future__ import annotations

import _thread
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, failure
from valor_gpu.errors import LeaseError, StoreError
from valor_gpu.evaluation import EvaluationInterrupted, RowFailed, evaluate, resume_run
from valor_gpu.judge import JudgeError, Question, Status, question_metric
from valor_gpu.store import Run, Store

ROWS = [{"question": str(number), "answer": "a", "ground_truth": "a"} for number in range(300)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def rate(messages: Any) -> str:
    return '{"reason": "-", "score": 4}'


def same(question: str) -> str:
    return "a"


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "valor_gpu judge run"]


@pytest.mark.parametrize("method", ["add_scores", "add_rows"])
@pytest.mark.parametrize("error", [StoreError("the disk is full"), LeaseError("another one took it over")])
def test_a_store_that_fails_ends_the_run_with_its_error(
    store: Store, monkeypatch: pytest.MonkeyPatch, method: str, error: Exception
) -> None:
    calls = 0
    real = getattr(Run, method)

    def sometimes(self: Run, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise error
        return real(self, *given)

    monkeypatch.setattr(Run, method, sometimes)
    with pytest.raises(type(error), match=str(error)) as raised:
        evaluate(data=ROWS, target=same, metrics_list=["gpt_coherence"], judge=rate, store=store)
    assert store.runs()[0].state == "failed" and not own_threads()
    goes_on = f"run {store.runs()[0].id} can be resumed once that is mended"
    assert (goes_on in str(raised.value)) == isinstance(error, StoreError)  # another process has the run otherwise
    monkeypatch.undo()
    done = resume_run(store, store.runs()[0].id, data=ROWS, target=same, judge=rate)
    assert done.run.counts() == {"ok": 300} and done.summary["evaluators"]["gpt_coherence"]["n"] == 300


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
def test_exits_of_a_target_are_failures_of_their_rows(store: Store, raised: BaseException) -> None:
    def target(question: str) -> str:
        if question == "7":
            raise raised
        return "a"

    result = evaluate(data=ROWS[:20], target=target, metrics_list=["exact_match"], store=store)
    assert result.run.counts() == {"ok": 19, "target_error": 1}


def test_ctrl_c_while_scores_are_computed_stops_a_run_that_can_go_on(store: Store) -> None:
    armed = True

    def strict(answer: str, question: str) -> float:
        if armed and question == "250":
            _thread.interrupt_main()
        return 1.0

    with pytest.raises(EvaluationInterrupted) as caught:
        evaluate(data=ROWS, evaluators=[strict], store=store)
    assert caught.value.result.run.state == "stopped"
    armed = False
    again = resume_run(store, caught.value.result.run_id, evaluators=[strict])
    assert again.metrics_summary == {"mean_strict": 1.0} and again.summary["evaluators"]["strict"]["n"] == 300


def test_ctrl_c_that_another_thread_receives_stops_a_run(store: Store) -> None:
    """Such a signal does not wake the main thread, and neither does one that comes just before it waits."""
    leave = threading.Event()

    def target(question: str) -> str:
        if question == "250":
            time.sleep(0.2)  # until the main thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            leave.wait(60)
        return "a"

    try:
        with pytest.raises(EvaluationInterrupted, match=r"^$") as caught:
            evaluate(data=ROWS, target=target, metrics_list=["exact_match"], store=store, max_concurrency=1)
    finally:
        leave.set()
    assert caught.value.result.run.counts() == {"ok": 250}


def test_a_judge_without_quota_stops_the_run_and_resume_asks_the_rest(store: Store) -> None:
    paid = 40
    asked: list[str] = []

    async def judge(messages: Any) -> str:
        asked.append(json.dumps(messages))
        if len(asked) > paid:
            raise JudgeError(Status.QUOTA, "the account is used up")
        return rate(messages)

    with pytest.warns(UserWarning, match="stopped, and can be resumed: an earlier request failed: the account"):
        result = evaluate(data=ROWS, metrics_list=["gpt_coherence"], judge=judge, store=store, max_concurrency=4)
    assert result.run.state == "stopped" and len(asked) <= paid + 4
    good = [score for score in result.run.scores() if score.value is not None]
    assert len(good) == paid
    paid = 10_000
    result = resume_run(store, result.run_id, judge=judge, data=ROWS)
    assert result.state == "finished" and len(set(asked)) == 300 and len(asked) <= 300 + 4


def test_metrics_of_several_questions_keep_their_first_replies(store: Store) -> None:
    asked: list[str] = []
    broken = True

    async def judge(messages: Any) -> str:
        asked.append(messages[0]["content"])
        if broken and messages[0]["content"] == "second 3":
            raise JudgeError(Status.QUOTA, "used up")
        return "1"

    def make() -> Any:
        class Two(type(question_metric("x", lambda row: Question([], int)))):  # type: ignore[misc]
            async def score(self, row: Any, ask: Any) -> float:
                for order in ("first", "second"):
                    await ask(Question([{"role": "user", "content": f"{order} {row['question']}"}], int))
                return 1.0

        return Two("two", lambda row: Question([], int), 0, 1)

    two = make()
    with pytest.warns(UserWarning, match="stopped"):
        result = evaluate(data=ROWS[:8], evaluators=[two], judge=judge, store=store, max_concurrency=1)
    broken = False
    result = resume_run(store, result.run_id, data=ROWS[:8], evaluators=[two], judge=judge)
    assert result.metrics_summary == {"mean_two": 1.0}
    assert sorted(asked).count("second 3") == 2 and len(asked) == 17  # none of the others came twice
    assert not list(store.path.parent.glob("*.replies*"))


def test_on_error_raise_keeps_what_came_before(store: Store) -> None:
    def picky(question: str) -> float:
        return 1.0 if question != "50" else 1 / 0

    with pytest.raises(RowFailed, match=r"row 51 .*picky: evaluator_error: ZeroDivisionError"):
        evaluate(data=ROWS, evaluators=[picky, "exact_match"], on_error="raise", store=store)
    assert store.runs()[0].state == "failed"


def test_a_resumed_run_comes_to_the_rows_behind_those_that_are_rejected(store: Store) -> None:
    """The first rows are rejected for what they hold, in words that do not say so."""
    rejected = JudgeError(Status.BAD_REQUEST, "HTTP 403: no", suspect="HTTP 403")

    async def judge(messages: Any) -> str:
        if any(f"number {at}." in json.dumps(messages) for at in range(8)):
            raise rejected
        return rate(messages)

    rows = [{"question": "?", "answer": f"number {at}."} for at in range(20)]
    options: dict[str, Any] = {"data": rows, "judge": judge, "max_concurrency": 1}
    with pytest.warns(UserWarning, match="can be resumed: 5 requests in a row failed by the same cause"):
        result = evaluate(metrics_list=["gpt_coherence"], store=store, **options)
    result = resume_run(store, result.run_id, **options)
    assert result.state == "finished" and result.summary["evaluators"]["gpt_coherence"]["n"] == 12


def test_a_resumed_run_asks_its_target_for_the_rows_behind_those_that_are_rejected(store: Store) -> None:
    def respond(request: Request) -> Answer | str:
        return failure(403, "no") if request.text in map(str, range(8)) else "a"

    with ChatServer(respond) as server:
        options = {"data": ROWS[:20], "target": {"model": "m", "base_url": server.url}, "max_concurrency": 1}
        with pytest.warns(UserWarning, match="no row of run .* has an answer"):
            result = evaluate(metrics_list=["exact_match"], store=store, **options)
        assert len(server.requests) == 5
        result = resume_run(store, result.run_id, **options)
    assert result.run.counts() == {"ok": 12, "target_error": 8} and len(server.requests) == 25
