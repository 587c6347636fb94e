"""Traces of runs: what a server was asked and what it answered, as the server itself saw it."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.test_resume import kill_when, write_rows
from tests.judge.server import Answer, ChatServer, Request, completion, failure
from valor_gpu.cli import OK, main
from valor_gpu.errors import InputTypeError
from valor_gpu.evaluation.engine.traces import LONGEST_TEXT, LONGEST_TRACE
from valor_gpu.evaluation.results.config_difference import config_differences
from valor_gpu.evaluation.run import evaluate, rescore_run, resume_run
from valor_gpu.judge import LLMMetric, Question, calls, run_judge
from valor_gpu.store import Run, Store, StoredTrace, size_of_traces, traces_of

KEY = "a-key-that-nobody-may-see"
ROWS = [{"question": f"Capital of {name}?", "answer": f"It is {name} City."} for name in ("France", "Italy", "Spain")]
GOOD = '{"reason": "as asked", "score": 4}'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def judge_at(server: ChatServer) -> dict[str, Any]:
    return {"model": "m", "base_url": server.url, "api_key": KEY}


def kept(run: Run) -> list[StoredTrace]:
    return [trace for row in run.rows(limit=10_000) for trace in traces_of(run, row.number)]


def requests_of(trace: StoredTrace) -> list[dict[str, Any]]:
    return [request for call in trace.content["calls"] for request in call["requests"]]


def sent_by(trace: StoredTrace) -> list[Any]:
    """The messages of every request, put together as the documentation says."""
    return [
        call["messages"] + request.get("added", [])
        for call in trace.content["calls"]
        for request in call["requests"]
    ]  # fmt: skip


def everything(path: Path) -> str:
    """All that the file has in traces, unpacked without the code under test."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT evaluator, row, repeat, content FROM traces").fetchall()
    connection.close()
    bases = {(name, row, repeat): zlib.decompress(content) for name, row, repeat, content in rows if repeat < 0}
    found = list(bases.values())
    for name, _, repeat, content in rows:
        if repeat >= 0 and content.startswith(b"B"):
            place = (int.from_bytes(content[1:9], "big"), int.from_bytes(content[9:17], "big", signed=True))
            found.append(zlib.decompressobj(zdict=bases[(name, *place)]).decompress(content[17:]))
        elif repeat >= 0:
            found.append(zlib.decompress(content))
    return b"\n".join(found).decode(errors="surrogatepass")


def test_a_trace_has_every_request_as_the_server_saw_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.judge.limits.Limits.wait_before", lambda self, *given: 0.002)
    monkeypatch.setattr("valor_gpu.judge.openai.OpenAIJudge.probes", False, raising=False)
    rng, said = random.Random(38), []

    def respond(request: Request) -> Answer | str:
        kind = rng.choice(["ok", "ok", "ok", "ok", "server_error", "rate_limited", "unreadable"])
        answer: Answer | str = GOOD
        if kind == "unreadable":
            answer = f"no rating, try {len(said)}"
        elif kind != "ok":
            code = 500 if kind == "server_error" else 429
            answer = failure(code, f"down {len(said)}")
        said.append((kind, answer))
        return answer

    metrics = ["gpt_fluency", "gpt_coherence"]
    with ChatServer(respond) as server:
        rows = [{**row, "question": f"{row['question']} {n}"} for n in range(4) for row in ROWS]
        run = evaluate(
            data=rows, metrics_list=metrics, model_config=judge_at(server), store=store, max_concurrency=1,
            repeats=2, progress=False,
        ).run  # fmt: skip
        bodies = [request.body["messages"] for request in server.requests]
    traces, scores = kept(run), list(run.scores())
    assert {(each.row, each.evaluator, each.repeat) for each in traces} == {
        (each.row, each.evaluator, each.repeat) for each in scores
    }
    assert Counter(json.dumps(each) for trace in traces for each in sent_by(trace)) == Counter(map(json.dumps, bodies))
    assert _statuses(traces, bodies, said) == {"ok", "parse_error", "server_error", "rate_limited"}
    by_place = {(each.row, each.evaluator, each.repeat): each for each in traces}
    for score in scores:
        trace = by_place[(score.row, score.evaluator, score.repeat)]
        assert trace.content["calls"][-1]["status"] == score.status
        assert score.usage is not None and len(requests_of(trace)) == score.usage["attempts"]
        used = [each["reply"]["usage"] for each in requests_of(trace) if "reply" in each]
        assert sum(each["prompt"] for each in used) == score.usage["prompt"]


def _statuses(traces: list[StoredTrace], bodies: list[Any], said: list[tuple[str, Any]]) -> set[str]:
    """Statuses of all requests, each of which must be one that the server answered so."""
    scripted: dict[str, list[tuple[str, Any]]] = {}
    for body, each in zip(bodies, said):
        scripted.setdefault(json.dumps(body), []).append(each)
    for trace in traces:
        for sent, request in zip(sent_by(trace), requests_of(trace)):
            _check_request(request, scripted[json.dumps(sent)])
    return {request["status"] for trace in traces for request in requests_of(trace)}


def _check_request(request: dict[str, Any], possible: list[tuple[str, Any]]) -> None:
    status = {"parse_error": "unreadable"}.get(request["status"], request["status"])
    answers = [answer for kind, answer in possible if kind == status]
    assert answers and request["seconds"] > 0
    if status in ("ok", "unreadable"):
        assert request["reply"]["text"] in answers
        assert request["reply"]["finish_reason"] == "stop" and request["reply"]["model"] == "stub-1"
    else:
        assert any(answer.body["error"]["message"] in request["error"] for answer in answers)
        assert "reply" not in request


def test_the_judge_and_a_repair_and_the_waits_are_told(store: Store) -> None:
    answers = iter([failure(500, "down", retry_after="0.3"), "none", GOOD])
    with ChatServer(lambda request: next(answers)) as server:
        given = {**judge_at(server), "temperature": 0.5}
        run = evaluate(data=ROWS[:1], metrics_list=["gpt_fluency"], model_config=given, store=store).run
        url = server.url
    [trace] = traces_of(run, 1)
    judge = trace.content["judge"]
    assert (judge["kind"], judge["model"], judge["base_url"]) == ("openai", "m", url)
    assert judge["parameters"]["temperature"] == 0.5
    down, none, good = requests_of(trace)
    assert [each["status"] for each in (down, none, good)] == ["server_error", "parse_error", "ok"]
    assert down["waited"] >= 0.29 and "waited" not in none and "added" not in none
    assert [each["role"] for each in good["added"]] == ["assistant", "user"] and good["added"][0]["content"] == "none"
    assert "none" in none["error"]


def test_a_reply_of_the_cache_has_its_prompt_and_says_so(store: Store, tmp_path: Path) -> None:
    given = {"data": ROWS, "metrics_list": ["gpt_fluency"], "cache": str(tmp_path / "cache"), "store": store}
    with ChatServer(lambda request: GOOD) as server:
        first = evaluate(**given, model_config=judge_at(server)).run
        again = evaluate(**given, model_config=judge_at(server)).run
        assert len(server.requests) == 3
    for before, now in zip(kept(first), kept(again)):
        [asked], [known] = before.content["calls"], now.content["calls"]
        assert known["messages"] == asked["messages"] and known["requests"] == [] and known["cached"] is True
        assert known["reply"] == asked["requests"][0]["reply"] and "cached" not in asked


def test_equal_questions_of_a_run_say_that_nothing_was_sent(store: Store) -> None:
    with ChatServer(lambda request: GOOD) as server:
        run = evaluate(
            data=ROWS[:1] * 3, metrics_list=["gpt_fluency"], model_config=judge_at(server), store=store, key=None
        ).run
        assert len(server.requests) == 1
    assert [call.get("cached", False) for trace in kept(run) for call in trace.content["calls"]].count(True) == 2


def test_every_turn_of_a_conversation_is_a_call(store: Store, tmp_path: Path) -> None:
    with ChatServer(lambda request: GOOD) as server:
        run = evaluate(
            data=write_rows(tmp_path, 4, chat=True), metrics_list=["gpt_groundedness"], store=store,
            model_config=judge_at(server), max_concurrency=1,
        ).run  # fmt: skip
        bodies = Counter(json.dumps(request.body["messages"]) for request in server.requests)
    for trace in kept(run):
        assert len(trace.content["calls"]) == 3
        for turn, sent in enumerate(sent_by(trace)):
            assert f"reply {trace.row - 1:03} {turn}" in sent[-1]["content"]
    assert Counter(json.dumps(each) for trace in kept(run) for each in sent_by(trace)) == bodies


class Second(LLMMetric):
    """Asks two questions; the second holds the reply to the first."""

    name = "second"
    high = 9.0

    async def score(self, row: Any, ask: Any) -> float:
        first = await ask(Question([{"role": "user", "content": "one"}], str))
        return float(await ask(Question([{"role": "user", "content": f"two {first}"}], float)))


@pytest.mark.parametrize(("second", "status"), [("7", "ok"), ("seventy", "parse_error"), ("70", "metric_error")])
def test_several_questions_come_in_order_also_of_a_failure(store: Store, second: str, status: str) -> None:
    def judge(messages: Any) -> str:
        return "6" if messages[0]["content"] == "one" else second

    with nullcontext() if status == "ok" else pytest.warns(UserWarning, match="no row of run"):
        run = evaluate(data=ROWS[:1], metrics_list=[], evaluators=[Second()], judge=judge, store=store).run
    [score], [trace] = run.scores(), traces_of(run, 1)
    assert score.status == status
    assert [call["messages"][0]["content"] for call in trace.content["calls"]] == ["one", "two 6"]
    assert trace.content["calls"][1]["requests"][0]["reply"]["text"] == second
    assert trace.content["judge"]["kind"] == "callable"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (failure(400, "no such thing"), "bad_request"),
        (completion("so far and", finish_reason="length"), "truncated"),
        (completion(None, refusal="I will not."), "refused"),
    ],
)
def test_a_score_that_failed_has_a_trace(store: Store, answer: Answer, status: str) -> None:
    with ChatServer(lambda request: answer) as server, pytest.warns(UserWarning, match="gpt_fluency"):
        run = evaluate(data=ROWS, metrics_list=["gpt_fluency"], model_config=judge_at(server), store=store).run
        bodies = [request.body["messages"] for request in server.requests]
    assert [score.status for score in run.scores()] == [status] * 3
    for trace in kept(run):
        [call] = trace.content["calls"]
        assert call["status"] == status and call["messages"] in bodies and call["error"]


def test_a_function_has_its_arguments_and_what_it_returned(store: Store) -> None:
    def target(question: str) -> Any:
        if "Italy" in question:
            raise ValueError(f"no answer, {KEY}")
        return 5 if "Spain" in question else {"answer": "Paris", "n": [1, None]}

    run = evaluate(data=ROWS, target=target, metrics_list=["f1_score"], store=store,
                   data_mapping={"ground_truth": "${data.answer}"}).run  # fmt: skip
    paris, italy, spain = kept(run)
    assert [row.status for row in run.rows()] == ["ok", "target_error", "target_error"]
    assert paris.evaluator == "" and paris.content["target"]["kind"] == "function"
    for trace, row in zip((paris, italy, spain), ROWS):
        [call] = trace.content["calls"]
        assert json.loads(call["arguments"]) == {"question": row["question"]}
    assert json.loads(paris.content["calls"][0]["returned"]) == {"answer": "Paris", "n": [1, None]}
    assert spain.content["calls"][0]["returned"] == "5" and "returned" not in italy.content["calls"][0]


def test_an_endpoint_has_its_body_and_masked_headers(store: Store) -> None:
    answers = iter([failure(503, f"busy {KEY}", retry_after="0.02"), Answer(body={"out": "Paris"})])
    with ChatServer(lambda request: next(answers)) as server:
        target = {
            "url": f"{server.root}/ask?sig=abcdefghijk", "headers": {"Authorization": f"Bearer {KEY}", "x-team": "geo"},
            "body": {"q": "${question}", "é": 1}, "answer": "out",
        }  # fmt: skip
        run = evaluate(data=ROWS[:1], target=target, metrics_list=[], store=store).run
        body = server.requests[0].body
    [trace] = kept(run)
    said = trace.content["target"]
    assert said["method"] == "POST" and said["url"].endswith("/ask?sig=***")
    assert said["headers"]["authorization"] == "***" and said["headers"]["x-team"] == "geo"
    [call] = trace.content["calls"]
    assert json.loads(call["messages"][0]["content"]) == body == {"q": ROWS[0]["question"], "é": 1}
    busy, good = call["requests"]
    assert busy["status"] == "server_error" and "busy ***" in busy["error"]
    assert json.loads(good["reply"]["text"]) == {"out": "Paris"}
    assert KEY not in everything(store.path)


def test_a_model_has_its_messages_and_a_cut_reply_says_so(store: Store) -> None:
    with ChatServer(lambda request: completion("Paris is", finish_reason="length")) as server:
        target = {**judge_at(server), "prompt": "Answer: {{question}}", "system": "Be short."}
        run = evaluate(data=ROWS, target=target, metrics_list=[], store=store).run
        bodies = Counter(json.dumps(request.body["messages"]) for request in server.requests)
    assert Counter(json.dumps(each) for trace in kept(run) for each in sent_by(trace)) == bodies
    for trace in kept(run):
        reply = requests_of(trace)[0]["reply"]
        assert reply["finish_reason"] == "length" and reply["usage"] == {"prompt": 10, "completion": 5, "cached": 0}
        assert trace.content["target"]["model"] == "m" and KEY not in json.dumps(trace.content)


def test_without_prompts_no_prompt_and_no_request_is_kept(store: Store) -> None:
    answers: Iterator[Any] = iter(["a secret plan", *[GOOD] * 9])
    with ChatServer(lambda request: next(answers)) as server:
        run = evaluate(
            data=ROWS, target=lambda question: "It is Rome", metrics_list=["gpt_fluency"], store=store,
            model_config=judge_at(server), keep_prompts=False, max_concurrency=1,
        ).run  # fmt: skip
    assert run.config["keep_prompts"] is False
    text = everything(store.path)
    assert "Capital of" not in text and "reads" not in text and "messages" not in text and "arguments" not in text
    assert "a secret plan" in text and "as asked" in text  # replies
    for trace in kept(run):
        assert trace.content["prompts"] is False
        if trace.evaluator:
            assert all(each["seconds"] > 0 and each["reply"]["usage"] for each in requests_of(trace))
    repaired = next(trace for trace in kept(run) if len(requests_of(trace) if trace.evaluator else []) > 1)
    assert "added" not in requests_of(repaired)[1]


def test_the_switch_is_checked_and_kept_by_a_run_that_goes_on(store: Store) -> None:
    with pytest.raises(InputTypeError, match="keep_prompts must be bool"):
        evaluate(data=ROWS, metrics_list=["f1_score"], store=store, keep_prompts=1)  # type: ignore[arg-type]
    judges: dict[str, Any] = {"judge": lambda messages: GOOD}
    rows = [{**row, "ground_truth": "Paris"} for row in ROWS]
    run = evaluate(data=rows, metrics_list=["gpt_fluency"], store=store, keep_prompts=False, **judges).run
    rescore_run(store, run.id, ["gpt_coherence"], **judges)
    rescore_run(store, run.id, ["gpt_similarity"], keep_prompts=True, **judges)
    found = {trace.evaluator: trace.content["prompts"] for trace in kept(run)}
    assert found == {"gpt_fluency": False, "gpt_coherence": False, "gpt_similarity": True}


def test_the_switch_is_no_difference_of_runs() -> None:
    assert config_differences({"keep_prompts": False, "seed": 0}, {"seed": 0}) == []


def test_the_command_has_the_switch(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ChatServer(lambda request: GOOD) as server:
        judge = ["--model", "m", "--base-url", server.url, "--api-key-env", "HOME", "--store", str(store.path)]
        data = ["--data", write_rows(tmp_path, 2), "--metrics", "gpt_fluency", "--name", "n"]
        assert main(["eval", "run", *data, *judge, "--no-prompts"]) == OK
        assert main(["eval", "rescore", "n", "--metrics", "gpt_coherence", *judge]) == OK
        assert main(["eval", "run", *data[:-1], "with", *judge]) == OK
        assert main(["eval", "rescore", "with", "--metrics", "gpt_coherence", *judge, "--no-prompts"]) == OK
    capsys.readouterr()
    found = {name: {trace.evaluator: trace.content["prompts"] for trace in kept(store.run(name))}
             for name in ("n", "with")}  # fmt: skip
    assert found["n"] == {"gpt_fluency": False, "gpt_coherence": False}
    assert found["with"] == {"gpt_fluency": True, "gpt_coherence": False}


def test_odd_and_long_texts_are_kept_and_bounded(store: Store) -> None:
    odd = "\x00\x1b[31m\u202e<b>\ud800é"
    lengths = [5_000_000, *[200_000] * 59]

    class Shout(LLMMetric):
        name = "shout"

        async def score(self, row: Any, ask: Any) -> float:
            for n in range(60):
                await ask(Question([{"role": "user", "content": f"{n} " + odd + "y" * 300_000}], str))
            return 1.0

    def reply(messages: Any) -> str:
        return odd + "x" * lengths[int(messages[0]["content"].split()[0])]

    run = evaluate(data=ROWS[:1], metrics_list=[], evaluators=[Shout()], judge=reply, store=store).run
    [trace] = kept(run)
    texts = [call["messages"][0]["content"] for call in trace.content["calls"]]
    texts += [each["reply"]["text"] for each in requests_of(trace)]
    assert len(texts) == 120
    for each, whole in zip(texts, [300_002] * 10 + [300_003] * 50 + lengths):
        assert set(each) == {"text", "left_out"} and len(each["text"]) + each["left_out"] == len(odd) + whole
        assert len(each["text"]) <= LONGEST_TEXT
    assert sum(len(each["text"]) for each in texts) == LONGEST_TRACE
    assert texts[0]["text"].startswith("0 " + odd) and texts[60]["text"].startswith(odd)
    assert size_of_traces(run) < 100_000


@pytest.mark.parametrize("at", [-25, -13, -1, 7])
def test_a_key_at_the_end_of_a_text_that_is_cut_is_not_cut_in_half(store: Store, at: int) -> None:
    text = "z" * (LONGEST_TEXT + at) + KEY + "w" * 1000
    with ChatServer(lambda request: text if request.text == "one" else "7") as server:
        run = evaluate(data=ROWS[:1], metrics_list=[], evaluators=[Second()], model_config=judge_at(server),
                       store=store).run  # fmt: skip
    [trace] = kept(run)
    first, second = trace.content["calls"]
    for shown in (first["requests"][0]["reply"]["text"]["text"], second["messages"][0]["content"]["text"]):
        assert shown.rstrip("w*").removeprefix("two ").strip("z") == "" and len(shown) <= LONGEST_TEXT


def test_keys_are_masked_in_prompts_and_replies(store: Store) -> None:
    rows = [{"question": f"Is {KEY} a key?", "answer": KEY}]
    with ChatServer(lambda request: json.dumps({"reason": KEY, "score": 4})) as server:
        run = evaluate(data=rows, metrics_list=["gpt_fluency"], model_config=judge_at(server), store=store).run
    [trace] = kept(run)
    assert "Is *** a key?" in trace.content["calls"][0]["messages"][-1]["content"]
    assert KEY not in everything(store.path) and "***" in requests_of(trace)[0]["reply"]["text"]


def test_messages_of_parts_are_kept_as_json(store: Store) -> None:
    class Odd(LLMMetric):
        name = "odd"

        async def score(self, row: Any, ask: Any) -> float:
            parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
            message = {"role": "user", "content": parts, "name": "ana"}
            return float(await ask(Question([message, {"role": "tool", "content": None}], float)))

    run = evaluate(data=ROWS[:1], metrics_list=[], evaluators=[Odd()], judge=lambda messages: "1", store=store).run
    first, second = kept(run)[0].content["calls"][0]["messages"]
    assert json.loads(first["content"])[0] == {"type": "text", "text": "see"}
    assert json.loads(first["rest"]) == {"name": "ana"} and second["content"] == "null"


def test_computed_scores_have_no_trace_and_judging_without_a_store_records_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evaluate(data=[{**ROWS[0], "ground_truth": "a"}], metrics_list=["f1_score"], store=store).run
    assert kept(run) == [] and size_of_traces(run) == 0

    def made(*given: Any, **more: Any) -> None:
        raise AssertionError("a call was recorded")

    monkeypatch.setattr(calls, "Call", made)
    assert run_judge([{}], [Second()], lambda messages: "6").scores("second") == [6.0]


def test_probes_are_no_calls_of_a_row(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(request: Request) -> Answer | str:
        return failure(500, "not this one") if "Italy" in request.text else GOOD

    monkeypatch.setattr("valor_gpu.judge.limits.Limits.wait_before", lambda self, *given: 0.01)
    with ChatServer(respond) as server, pytest.warns(UserWarning, match="given up"):
        run = evaluate(data=ROWS, metrics_list=["gpt_fluency"], model_config=judge_at(server), store=store).run
        asked = sum("Italy" in request.text for request in server.requests)
        assert len(server.requests) > asked + 2  # a question that was answered before was asked again
    traces = {trace.row: requests_of(trace) for trace in kept(run)}
    assert len(traces[2]) == asked and len(traces[1]) == len(traces[3]) == 1


_CHILD = """
import itertools, json, sys, time
from valor_gpu import evaluate
calls = itertools.count()
def rate(messages):
    if next(calls) >= int(sys.argv[2]):
        time.sleep(600)  # until it is killed
    return '{"reason": "-", "score": 4}'
def target(question):
    return "It is " + question
evaluate(**json.loads(sys.argv[1]), judge=rate, target=target)
"""


def test_a_process_that_is_killed_leaves_no_score_and_no_answer_without_its_trace(tmp_path: Path, store: Store) -> None:
    rng = random.Random()
    data = write_rows(tmp_path, 300)
    for attempt in range(3):
        name = f"killed {attempt}"
        given = {"data": data, "metrics_list": ["gpt_fluency", "gpt_coherence"], "store": str(store.path),
                 "evaluation_name": name}  # fmt: skip
        wanted = rng.randrange(20, 200)
        child = subprocess.Popen([sys.executable, "-c", _CHILD, json.dumps(given), str(wanted + 100)])
        kill_when(child, lambda name=name, wanted=wanted: count(store, name) >= wanted)
        run = store.run(name)
        scores = {(each.row, each.evaluator, each.repeat) for each in run.scores()}
        answers = {(row.number, "", 0) for row in run.rows(limit=1000)}
        assert {(each.row, each.evaluator, each.repeat) for each in kept(run)} == scores | answers


def count(store: Store, name: str) -> int:
    heads = {head.name: head.id for head in store.heads()}
    return sum(1 for _ in store.run(heads[name]).scores()) if name in heads else 0


def test_a_run_that_is_resumed_replaces_the_traces_of_what_failed(store: Store, tmp_path: Path) -> None:
    answers: dict[str, Any] = {"answer": failure(401, "who are you?")}
    with ChatServer(lambda request: answers["answer"]) as server:
        data = write_rows(tmp_path, 2)
        with pytest.warns(UserWarning, match="stopped"):
            run = evaluate(data=data, metrics_list=["gpt_fluency"], model_config=judge_at(server), store=store).run
        before = kept(run)
        answers["answer"] = GOOD
        resume_run(store, run.id, model_config=judge_at(server))
    assert all(each.content["calls"][0]["status"] == "unauthorized" for each in before)
    assert [each.content["calls"][0]["status"] for each in kept(run)] == ["ok", "ok"]
