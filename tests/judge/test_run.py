"""Whole runs at a loopback server: order, failures, repeats, cost, a run that is killed and goes on."""

from __future__ import annotations

import asyncio
import json
import math
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, completion, failure
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.judge import (
    JudgeCache,
    JudgeRun,
    Limits,
    LLMMetric,
    NotApplicable,
    OpenAIJudge,
    ParseError,
    Prices,
    Progress,
    Question,
    Usage,
    parse_score,
    question_metric,
    run_judge,
    score_schema,
)
from valor_gpu.judge.progress import ProgressBar

QUICK = Limits(concurrency=8, transport_retries=1, backoff=0.01, timeout=20.0, repairs=0)


def rate(row: Any) -> Question:
    messages = [{"role": "user", "content": f"row {row}"}]
    return Question(messages, lambda text: parse_score(text, 1, 5).value, score_schema(1, 5), "v1")


RATE = question_metric("q", rate, 1, 5)


def number(request: Request) -> int:
    return int(request.text.rpartition(" ")[2])


def test_rows_keep_their_order_and_metrics_share_one_limit() -> None:
    class TwoSteps(LLMMetric):
        name, low, high = "steps", 1, 5

        async def score(self, row: int, ask: Any) -> float:
            first: float = await ask(Question([{"role": "user", "content": f"first {row}"}], int))
            return (first + float(await ask(Question([{"role": "user", "content": f"second {row}"}], int)))) / 2

    together = threading.Barrier(3)

    def respond(request: Request) -> Answer:
        if 1 <= request.number <= 3:  # the first request of a run goes alone
            together.wait(120)
        answer = completion(str(1 + number(request) % 5), usage=(100, 10))
        answer.delay = random.Random(request.number).random() * 0.02
        return answer

    shown: list[Progress] = []
    metrics = [RATE, TwoSteps()]
    with ChatServer(respond) as server:
        run = run_judge(range(20), metrics, OpenAIJudge("m", base_url=server.url), limits=Limits(concurrency=3),
                         prices=Prices(1.0, 10.0), progress=shown.append)  # fmt: skip
        assert server.peak == run.peak == 3 and len(server.requests) == 60
    assert run.scores("q") == run.scores("steps") == [float(1 + at % 5) for at in range(20)]
    steps = run.summaries["steps"]
    assert (steps.attempts, steps.usage) == (40, Usage(4000, 400)) and run.row_usage(7) == Usage(300, 30)
    assert run.usage == Usage(6000, 600) and run.cost == pytest.approx(0.012, rel=1e-12)
    assert [one.done for one in shown] == list(range(2, 41, 2)) and shown[-1].total == 40
    assert shown[-1].attempts == 60 and shown[-1].usage == run.usage


DEADLINE = 4.0
"""Seconds until a request that hangs is given up; a busy machine answers the others sooner."""


def test_injected_failures_appear_in_the_aggregate() -> None:
    kinds = {
        0: failure(500, "boom"),
        1: completion("4", "length"),
        2: completion(None, "content_filter"),
        3: completion(None, refusal="no"),
        4: completion("nine"),
        5: completion('{"score": 9}'),
        6: failure(400, "bad"),
        7: failure(429, "slow"),
        8: Answer(hang=True),
    }
    with ChatServer(lambda request: kinds.get(number(request) % 30, completion("4"))) as server:
        limits = Limits(concurrency=16, transport_retries=1, backoff=0.01, timeout=DEADLINE, repairs=0)
        run = run_judge(range(60), [RATE], OpenAIJudge("m", base_url=server.url), limits=limits)
    found = run.summaries["q"]
    assert found.n == 60 and found.n_scored == 42 and found.mean == 4.0 and found.rows_scored == 42
    assert found.n_failed == {
        "server_error": 2, "truncated": 2, "content_filter": 2, "refused": 2, "parse_error": 4, "bad_request": 2,
        "rate_limited": 2, "timeout": 2,
    }  # fmt: skip
    assert found.lower == pytest.approx((42 * 4 + 18 * 1) / 60) and found.upper == pytest.approx((42 * 4 + 18 * 5) / 60)
    assert [math.isnan(score) for score in run.scores("q")] == [at % 30 < 9 for at in range(60)]
    wrong = run.judgements["q"][5][0]
    assert wrong.reply is not None and wrong.reply.text == '{"score": 9}' and wrong.value is None


PROGRAM = """
import sys
from valor_gpu.judge import Limits, OpenAIJudge, Question, question_metric, run_judge
def rate(row):
    return Question([{"role": "user", "content": f"row {row}"}], float)
def show(progress):
    print(progress.done, flush=True)
options = {"limits": Limits(concurrency=4), "cache": sys.argv[2], "progress": show}
judge = OpenAIJudge("m", base_url=sys.argv[1])
run = run_judge(range(60), [question_metric("q", rate, 1, 5)], judge, **options)
print(run.scores("q") == [4.0] * 60, run.summaries["q"].cached)
"""


@pytest.mark.slow
def test_a_run_killed_half_way_repeats_no_finished_call(tmp_path: Path) -> None:
    stuck = {"after": 30}

    def respond(request: Request) -> Answer | str:
        return Answer(hang=True) if request.number >= stuck["after"] else "4"

    with ChatServer(respond) as server:
        command = [sys.executable, "-c", PROGRAM, server.url, str(tmp_path / "c.sqlite")]
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "cwd": Path(__file__).parents[2]}
        process = subprocess.Popen(command, **options)
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "30":
                break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        finished = [number(request) for request in server.finished[:30]]
        assert len(set(finished)) == 30
        stuck["after"], before = 10**9, len(server.requests)
        resumed = subprocess.run(command, check=True, **options)
        assert resumed.stdout.splitlines()[-1] == "True 30"
        asked = [number(request) for request in server.requests[before:]]
        assert len(asked) == 30 and not set(asked) & set(finished)
        again = subprocess.run(command, check=True, **options)
        assert again.stdout.splitlines()[-1] == "True 60" and len(server.requests) == before + 30


def test_repeats_split_the_variance_and_failures_of_one_repeat_keep_the_row() -> None:
    def respond(request: Request) -> Answer | str:
        row = number(request)
        with lock:
            times[row] += 1
            nth = times[row]
        return completion(None, refusal="no") if row == 3 and nth == 1 else str(1 + row + (nth % 2))

    times, lock = Counter[int](), threading.Lock()
    with ChatServer(respond) as server:
        judge = OpenAIJudge("m", base_url=server.url)
        run = run_judge(range(4), [RATE], judge, limits=QUICK, repeats=4, clusters="aabb")
    found = run.summaries["q"]
    assert found.n == 16 and found.n_failed == {"refused": 1} and found.rows_scored == 4
    assert run.scores("q")[:3] == [1.5, 2.5, 3.5] and 4.3 < run.scores("q")[3] < 4.4
    assert found.judge_variance == pytest.approx((3 * 4 * 0.25 + 2 / 3) / 11, rel=1e-12)
    assert 1.0 < found.item_variance < 2.0 and found.standard_error > 0.7


def test_repeats_are_cached_apart(tmp_path: Path) -> None:
    with ChatServer(lambda request: "4") as server, JudgeCache(tmp_path / "c.sqlite") as cache:
        judge = OpenAIJudge("m", base_url=server.url)
        for repeats, requests in ((2, 4), (3, 6), (3, 6)):
            seen: list[Progress] = []
            run = run_judge(range(2), [RATE], judge, cache=cache, repeats=repeats, progress=seen.append)
            assert len(server.requests) == requests and seen[-1].cached == run.summaries["q"].cached
        assert run.summaries["q"].cached == 6 and run.usage == Usage() and run.cost is None


def test_no_connection_leaves_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:3128")
    monkeypatch.setenv("ALL_PROXY", "http://192.0.2.1:3128")
    asked: list[Any] = []
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def watched(self: socket.socket, address: Any) -> Any:
        asked.append(address[0])
        return connect(self, address)

    def resolved(host: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", watched)
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    away = Answer(302, {}, {"location": "http://192.0.2.1/v1/chat/completions"})
    with ChatServer(lambda request: "4" if number(request) else away) as server:
        run = run_judge(range(3), [RATE], OpenAIJudge("m", base_url=server.url), limits=QUICK)
    assert {host.decode() if isinstance(host, bytes) else host for host in asked} == {"127.0.0.1"}
    assert run.summaries["q"].n_failed == {"bad_request": 1}


def test_callables_and_rows_that_lack_an_input() -> None:
    def needs_context(row: dict[str, str]) -> Question:
        if "context" not in row:
            raise NotApplicable("the row lacks context")
        return rate(row["context"])

    async def judge(messages: list[dict[str, Any]]) -> str:
        await asyncio.sleep(0)
        if messages[0]["content"].endswith("bad"):
            raise ValueError("out of order")
        return "5"

    rows = [{"context": "good"}, {}, {"context": "bad"}]
    run = run_judge(rows, [question_metric("q", needs_context, 1, 5)], judge, limits=QUICK)
    ((good,), (missing,), (bad,)) = run.judgements["q"]
    assert good.value == 5.0 and missing.error == "the row lacks context" and missing.attempts == 0
    assert str(bad.status) == "judge_error" and bad.error == "the judge raised ValueError: out of order"
    assert run.summaries["q"].n_failed == {"not_applicable": 1, "judge_error": 1}


def test_arguments_and_metrics_are_checked() -> None:
    def run(metric: Any, **options: Any) -> JudgeRun:
        return run_judge([1], [question_metric("q", metric, 1, 5)], lambda messages: "4", **options)

    for options, message in (
        ({"repeats": 0}, "repeats must be an int of at least 1 but got 0"),
        ({"clusters": "ab"}, "clusters must hold one id per row, 1, but has 2"),
        ({"cache": "/no such folder/x"}, "cache must be a file of judge replies"),
    ):
        with pytest.raises(InputError, match=message):
            run(rate, **options)
    with pytest.raises(InputError, match="metrics must be LLMMetric objects but one is function"):
        run_judge([1], [rate], len)  # type: ignore[list-item]
    with pytest.raises(InputError, match="metrics must differ by name but got q, q"):
        run_judge([1], [RATE, RATE], len)
    with pytest.raises(InputError, match="low must be less than high but got 5 and 1"):
        question_metric("q", rate, 5, 1)
    with pytest.raises(InputTypeError, match="judge must be a Judge or a callable but got int"):
        run_judge([1], [], 4)
    assert run_judge([], [RATE], lambda messages: "4").scores("q") == []


def test_the_bar_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_judge(range(3), [RATE], lambda messages: "4", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert "3/3, 0 failed, 0 cached, 3 requests, 0 tokens" in lines[-1]
    bar = ProgressBar()
    bar.close()
    assert capsys.readouterr().err == ""


def test_parse_errors_of_any_kind_are_statuses() -> None:
    def parse(text: str) -> float:
        raise ParseError("never") if text == "a" else json.JSONDecodeError("bad", text, 0)

    metric = question_metric("q", lambda row: Question([{"role": "user", "content": row}], parse), 0, 1)
    run = run_judge(["a", "b"], [metric], lambda messages: messages[0]["content"], limits=QUICK)
    assert run.judgements["q"][0][0].error == "never"
    assert "could not be parsed: JSONDecodeError: bad" in run.judgements["q"][1][0].error


def test_rows_that_come_count_and_not_a_length_that_says_otherwise() -> None:
    class Odd(list[str]):
        def __len__(self) -> int:
            return 2

    metric = question_metric("q", lambda row: Question([{"role": "user", "content": row}], float), 0, 9)
    for rows in (["1"], ["1", "2", "3"]):
        run = run_judge(Odd(rows), [metric], lambda messages: messages[0]["content"])
        assert run.scores("q") == [float(row) for row in rows] and run.summaries["q"].n == len(rows)
