"""Judges of the chat-completions protocol against a loopback server: what is sent, and every way to fail."""

from __future__ import annotations

import asyncio
import io
import pickle
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from tests.judge.loops import FastLoop, run, run_all
from tests.judge.server import Answer, ChatServer, Request, completion, failure
from tests.judge.watched import Watched
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge import retries
from valor_gpu.judge import scheduler as scheduling
from valor_gpu.judge.azure import AzureOpenAIJudge
from valor_gpu.judge.completions import retry_after
from valor_gpu.judge.endpoint import async_http
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.openai import OpenAIJudge
from valor_gpu.judge.parse import parse_score, score_schema
from valor_gpu.judge.protocol import Judgement, Status, Usage
from valor_gpu.judge.scheduler import Question, Scheduler

openai = pytest.importorskip("openai")
KEY = "sk-very-secret-123"
QUICK = Limits(concurrency=4, transport_retries=2, backoff=0.01, timeout=20.0, repairs=0)


def question(text: str = "rate this", schema: Any = None) -> Question:
    return Question([{"role": "user", "content": text}], lambda reply: parse_score(reply, 1, 5).value, schema)


def ask(judge: OpenAIJudge, one: Question | None = None, limits: Limits = QUICK) -> Judgement:
    scheduler = Scheduler(judge, limits)
    return run(scheduler, lambda: scheduler.ask(one or question()))


def judged(respond: Callable[[Request], Any], limits: Limits = QUICK, **options: Any) -> tuple[Judgement, ChatServer]:
    with ChatServer(respond) as server:
        return ask(OpenAIJudge("m", base_url=server.url, **options), limits=limits), server


def test_a_plain_request_and_its_reply() -> None:
    top = [{"token": "4", "logprob": -0.1, "bytes": None}, {"token": "5", "logprob": -2.0, "bytes": None}]
    logprobs = {"content": [{"token": "4", "logprob": -0.1, "bytes": None, "top_logprobs": top}]}
    answer = completion("4", usage=(100, 7, 64), logprobs=logprobs)
    found, server = judged(lambda request: answer, seed=3, top_logprobs=2, extra={"user": "u"})
    assert found.ok and found.value == 4 and found.usage == Usage(100, 7, 64) and found.attempts == 1
    assert found.reply is not None and found.reply.model == "stub-1" and found.reply.finish_reason == "stop"
    assert found.reply.logprobs == ({"4": -0.1, "5": -2.0},)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "rate this"}],
        "temperature": 0.0,
        "max_tokens": 1024,
        "seed": 3,
        "logprobs": True,
        "top_logprobs": 2,
        "user": "u",
    }


def test_azure_paths_and_mistral_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with ChatServer(lambda request: "4") as server:
        judge = AzureOpenAIJudge("dep", endpoint=server.root, api_version="2024-10-21")
        assert ask(judge).ok
        assert server.requests[0].path == "/openai/deployments/dep/chat/completions?api-version=2024-10-21"
        assert server.requests[0].headers["api-key"] == KEY
        assert judge.identity["api_version"] == "2024-10-21" and KEY not in repr(judge.identity) + repr(vars(judge))
        monkeypatch.setattr("valor_gpu.judge.openai.MISTRAL_URL", server.url)
        monkeypatch.setenv("MISTRAL_API_KEY", "mk")
        assert ask(OpenAIJudge.mistral(seed=7)).ok
        assert server.requests[1].body["random_seed"] == 7 and "seed" not in server.requests[1].body
        assert server.requests[1].headers["authorization"] == "Bearer mk"
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(InputError, match="endpoint must be an address"):
        AzureOpenAIJudge("dep", api_version="1")
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    assert AzureOpenAIJudge("dep", endpoint="https://x.openai.azure.com").api_version == "2024-10-21"


def test_keys_come_from_the_environment_and_stay_there(monkeypatch: pytest.MonkeyPatch, log: io.StringIO) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    refusal = failure(403, f"key {KEY} may not use this model")
    with ChatServer(lambda request: refusal if request.number else completion("4")) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key_env="MY_KEY")
        assert ask(judge).ok and server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        refused = ask(judge)
    assert refused.status is Status.BAD_REQUEST and "key *** may not" in refused.error
    everything = repr(judge) + repr(vars(judge)) + repr(judge.identity) + log.getvalue() + repr(refused)
    assert server.url in log.getvalue(), "requests are logged"
    assert KEY not in everything and KEY.encode() not in pickle.dumps(judge)
    assert repr(pickle.loads(pickle.dumps(judge))) == repr(judge)
    monkeypatch.delenv("MY_KEY")
    missing = ask(judge)
    assert (
        missing.status is Status.UNAUTHORIZED and "environment variable MY_KEY must hold the API key" in missing.error
    )


def test_the_key_of_openai_goes_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    _, server = judged(lambda request: "4")
    assert KEY not in repr(server.requests[0].headers)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAIJudge("m").api_key_env == "OPENAI_API_KEY"
    assert OpenAIJudge("m", base_url="https://other.example/v1").api_key_env is None
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    assert OpenAIJudge("m").base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("answers", "status", "attempts", "error"),
    [
        ([failure(429, "slow", "rate_limit_exceeded", retry_after="0.02"), "4"], Status.OK, 2, ""),
        ([failure(429, "slow")] * 9, Status.RATE_LIMITED, 3, "HTTP 429"),
        ([failure(429, "pay", "insufficient_quota")] * 9, Status.QUOTA, 1, "pay"),
        ([failure(500, "boom"), failure(503, "busy"), "4"], Status.OK, 3, ""),
        ([failure(500, "boom")] * 9, Status.SERVER_ERROR, 3, "boom"),
        ([failure(408, "late")] * 9, Status.TIMEOUT, 3, "late"),
        ([failure(400, "no such thing")] * 9, Status.BAD_REQUEST, 1, "no such thing"),
        ([failure(404, "no such model")] * 9, Status.BAD_REQUEST, 1, "no such model"),
        ([failure(422, "not now")] * 9, Status.BAD_REQUEST, 3, "not now"),
        ([failure(401, f"key {KEY}")] * 9, Status.UNAUTHORIZED, 1, "rejected the API key"),
        ([failure(400, "The response was filtered", "content_filter")] * 9, Status.CONTENT_FILTER, 1, "filtered"),
        ([Answer(200, b"<html>oops")] * 9, Status.SERVER_ERROR, 3, "no chat completion"),
        ([Answer(200, {"choices": []})] * 9, Status.SERVER_ERROR, 3, "no choices"),
        ([Answer(200, {"ok": True})] * 9, Status.SERVER_ERROR, 3, "no chat completion"),
        ([Answer(drop=True), "4"], Status.OK, 2, ""),
        ([Answer(drop=True)] * 9, Status.CONNECTION_ERROR, 3, "no connection"),
        ([Answer(302, {}, {"location": "http://192.0.2.1/"})] * 9, Status.BAD_REQUEST, 1, "HTTP 302"),
        ([completion("4", "length")], Status.TRUNCATED, 1, "cut off at max_tokens=1024, thoughts included: raise it"),
        ([completion(None, "content_filter")], Status.CONTENT_FILTER, 1, "withheld"),
        ([completion(None, refusal="I will not.")], Status.REFUSED, 1, "refused"),
        ([completion("9")], Status.PARSE_ERROR, 1, "must lie in 1 to 5 but is 9"),
        ([completion("{not json")], Status.PARSE_ERROR, 1, "no JSON object"),
        ([completion(None)], Status.PARSE_ERROR, 1, "must hold a rating"),
        ([completion("4", usage=None)], Status.OK, 1, ""),
    ],
)
def test_every_way_to_fail_has_its_status(answers: list[Any], status: Status, attempts: int, error: str) -> None:
    found, server = judged(lambda request: answers[request.number])
    assert (found.status, found.attempts) == (status, attempts) and error in found.error
    assert (found.value == 4) if status is Status.OK else (found.value is None)
    assert len(server.requests) == attempts and KEY not in found.error
    if status is Status.REFUSED:
        assert found.reply is not None and found.reply.text == "I will not."
    if status is Status.PARSE_ERROR:
        assert found.usage == Usage(10, 5) and found.reply is not None


def test_a_prompt_that_fails_alone_is_given_up_though_nothing_else_is_asked() -> None:
    def answer(request: Request) -> Any:
        return "ok" if "Reply with the word ok." in str(request.body["messages"]) else failure(500, "boom")

    limits = Limits(backoff=0.0, repairs=0)
    with ChatServer(answer) as server:
        found = ask(OpenAIJudge("m", base_url=server.url), limits=limits)
        own = [one for one in server.requests if "Reply with the word ok." in str(one.body["messages"])]
    assert found.status is Status.SERVER_ERROR and "(failed 3 times while the server answered others)" in found.error
    assert len(own) == 3 and found.attempts == 8
    with ChatServer(lambda request: failure(500, "down")) as server:
        found = ask(OpenAIJudge("m", base_url=server.url), limits=limits)
    assert found.error.endswith("down") and sum("ok." not in str(one.body) for one in server.requests) == 11


@pytest.mark.parametrize(
    "reply", [completion("4", "length"), completion(None, refusal="No."), completion(None, "content_filter")]
)
def test_an_answer_that_is_no_reply_shows_that_the_server_is_there(reply: Answer) -> None:
    with ChatServer(lambda request: reply) as server:
        scheduler = Scheduler(OpenAIJudge("m", base_url=server.url), QUICK)
        found = run(scheduler, lambda: scheduler.ask(question()))
    assert not found.ok and scheduler.retries.replies == 1


def test_nobody_listens() -> None:
    with ChatServer(lambda request: "4") as server:
        url = server.url
    found = ask(OpenAIJudge("m", base_url=url))
    assert (found.status, found.attempts) == (Status.CONNECTION_ERROR, 3)
    patient = Limits(transport_retries=10, backoff=0.0)
    found = ask(OpenAIJudge("m", base_url=url), limits=patient)
    assert found.attempts == 4  # an address that never answered is likelier wrong than busy
    assert "127.0.0.1:" in found.error and "is the address right, and does the server run?" in found.error


def test_a_server_that_hangs_meets_the_deadline() -> None:
    limits = Limits(timeout=0.3, transport_retries=1, backoff=0.0)
    found, server = judged(lambda request: Answer(hang=True), limits)
    assert (found.status, found.attempts, len(server.requests)) == (Status.TIMEOUT, 2, 2)


def unsupported(name: str, hint: str = "") -> Answer:
    message = f"Unsupported parameter: '{name}' is not supported with this model.{hint}"
    return failure(400, message, "unsupported_parameter", name)


def picky(refused: dict[str, Answer], form: str | None = None) -> Callable[[Request], Answer | str]:
    """A server that refuses parameters, and all formats but ``form``."""

    def respond(request: Request) -> Answer | str:
        for name, answer in refused.items():
            if name in request.body:
                return answer
        asked = request.body.get("response_format", {}).get("type")
        if asked not in (None, form):
            words = f"Invalid parameter: 'response_format' of type '{asked}' is not supported"
            return failure(400, words, None, "response_format")
        return '{"reason": "r", "score": 4}'

    return respond


def test_parameters_of_reasoning_models_are_learnt_once_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    value = failure(400, "Unsupported value: 'temperature' does not support 0.0", "unsupported_value", "temperature")
    hint = " Use 'max_completion_tokens' instead."
    with ChatServer(picky({"max_tokens": unsupported("max_tokens", hint), "temperature": value})) as server:
        judge = OpenAIJudge("o", base_url=server.url)
        before = judge.identity
        scheduler = Scheduler(judge, Limits(concurrency=8))
        found: list[Judgement] = []

        async def one(at: int) -> None:
            found.append(await scheduler.ask(question(str(at))))

        # No request waits for one that the server has rejected.
        for module in (retries, scheduling):
            monkeypatch.setattr(module, "pause", lambda seconds, stop: pytest.fail(f"it waits for {seconds} seconds"))
        run_all(scheduler, [lambda at=at: one(at) for at in range(20)])  # type: ignore[misc]
        assert all(one.ok for one in found) and sum(one.attempts for one in found) == 22 == len(server.requests)
        assert ask(judge).attempts == 1 and judge.identity == before
        assert server.requests[-1].body["max_completion_tokens"] == 1024
        assert not {"max_tokens", "temperature"} & server.requests[-1].body.keys()


def test_older_servers_and_endless_complaints() -> None:
    found, server = judged(picky({"max_completion_tokens": unsupported("max_completion_tokens")}), max_tokens=None,
                           extra={"max_completion_tokens": 9})  # fmt: skip
    assert found.ok and server.requests[-1].body["max_tokens"] == 9
    both = {name: unsupported(name) for name in ("max_tokens", "max_completion_tokens")}
    found, server = judged(picky(both))
    assert found.status is Status.BAD_REQUEST and len(server.requests) == 3
    complaint = {"type": "extra_forbidden", "loc": ["body", "top_logprobs"], "msg": "Extra inputs are not permitted"}
    for body in ({"detail": [complaint]}, {"object": "error", "message": {"detail": [complaint]}, "param": None}):
        found, server = judged(picky({"logprobs": Answer(422, body)}), top_logprobs=3)
        assert found.ok and found.attempts == 2 and "logprobs" not in server.requests[-1].body
        assert found.reply is not None and found.reply.dropped == ("logprobs", "top_logprobs")


@pytest.mark.parametrize(("form", "attempts"), [("json_schema", 1), ("json_object", 2), (None, 3)])
def test_structured_output_steps_down_and_is_remembered(form: str | None, attempts: int) -> None:
    schema = score_schema(1, 5)
    with ChatServer(picky({}, form)) as server:
        judge = OpenAIJudge("m", base_url=server.url)
        found = ask(judge, question(schema=schema))
        assert found.value == 4 and found.attempts == attempts
        assert ask(judge, question("again", schema)).attempts == 1
        assert ask(judge, question("no schema")).attempts == 1
        last, plain = server.requests[-2].body, server.requests[-1].body
        assert server.requests[0].body["response_format"]["json_schema"] == {
            "name": "judgement", "schema": dict(schema), "strict": True,
        }  # fmt: skip
    assert "response_format" not in plain and last.get("response_format", {}).get("type") == form
    asked = [message for message in last["messages"] if "JSON schema" in message["content"]]
    assert len(asked) == (form != "json_schema") and len(plain["messages"]) == 1


def test_peak_at_the_server_and_rates_of_the_client() -> None:
    together = threading.Barrier(5, timeout=120)

    def respond(request: Request) -> str:
        if 5 <= request.number < 10:
            together.wait()
        return "4"

    with ChatServer(respond) as server:
        judge = Watched(server.url)
        limits = Limits(concurrency=5, requests_per_minute=20, timeout=600)
        scheduler = Scheduler(judge, limits)  # a minute takes two seconds

        async def one(at: int) -> None:
            assert (await scheduler.ask(question(str(at)))).ok

        run_all(scheduler, [lambda at=at: one(at) for at in range(30)], FastLoop)  # type: ignore[misc]
        assert server.peak == 5 and len(server.requests) == len(times := judge.calls) == 30
        # A minute is 2 s here, and begins a moment before the client has the request.
        assert max(sum(start <= other < start + 1.6 for other in times) for start in times) <= 20
        assert max(times) - min(times) > 1.8


def test_waits_as_the_server_asks() -> None:
    def date() -> str:
        return formatdate(time.time() + 2, usegmt=True)  # whole seconds: 1 to 2 from now

    for name, value in (("retry_after", lambda: "0.3"), ("retry_after_ms", lambda: "300"), ("retry_after", date)):

        def respond(request: Request, name: str = name, value: Callable[[], str] = value) -> Answer | str:
            return "4" if request.number else failure(429, "slow", **{name: value()})

        found, server = judged(respond, Limits(transport_retries=3, longest_wait=10.0))
        waited = server.requests[1].time - server.requests[0].time
        assert found.ok and found.attempts == 2 and waited > 0.28


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7.5", 7.5),
        ("86400", 86400.0),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("\u0663", None),
        ("9" * 400, None),
        ("1" + "0" * 12, None),
        (formatdate(0, usegmt=True), None),  # past
        (formatdate(1060, usegmt=True), 60.0),
        ("Thu, 01 Jan 1970 00:17:40 -0000", 60.0),  # no zone: GMT, not the zone of this machine
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 9999 00:00:00 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 +9999", None),
        ("", None),
    ],
)
def test_retry_after_that_cannot_be_meant_is_no_header(value: str, expected: float | None) -> None:
    assert retry_after({"retry-after": value}, now=1000.0) == expected
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": ""}, "model must be a name but got ''"),
        ({"base_url": "ftp://x"}, "base_url must be an address that begins with http:// or https:// but got 'ftp://x'"),
        ({"base_url": "http://[::1"}, r"base_url must be an address .* but got 'http://\[::1'"),
        ({"base_url": "http://host:port/v1"}, "base_url must be an address"),
        ({"base_url": "http://host/v1\n"}, "base_url must be an address"),
        ({"base_url": 7}, "base_url must be an address"),
        ({"base_url": "https://user:secret@host/v1"}, "must hold no user name or password"),
        (
            {"base_url": "https://host/v1?key=secret"},
            "no query or fragment but has one after 'https://host/v1'",
        ),
        ({"base_url": "https://[host/v1?key=secret"}, r"but got 'https://\[host/v1'"),
        ({"api_key_env": "sk-123"}, "must be the name of an environment variable but is no such name"),
        ({"top_logprobs": 21}, "top_logprobs must be at most 20 but got 21"),
        ({"max_tokens": "9"}, "max_tokens must be int but got str"),
        ({"seed": True}, "seed must be int but got bool"),
        ({"temperature": float("nan")}, r"temperature must be in \[0.0, 100.0\] but got nan"),
        ({"temperature": "0"}, "temperature must be a number but got '0'"),
        ({"max_reply_bytes": 0}, "max_reply_bytes must be at least 1 but got 0"),
        (
            {"response_format": "xml"},
            "response_format must be one of 'json_schema', 'json_object', 'text' but got 'xml'",
        ),
        ({"extra": [("a", 1)]}, "extra must be Mapping but got list"),
        ({"extra": {"messages": []}}, "extra must hold further parameters but has 'messages'"),
        (
            {"extra": {"timeout": 5}},
            "extra must hold parameters of the request's body but has 'timeout', of the client",
        ),
        ({"extra": {"stop": {1}}}, "extra must hold JSON values: Object of type set"),
        ({"extra": {"top_k": float("inf")}}, "extra must hold JSON values"),
        ({"model": "m\ud83d"}, "model must be a name but got"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        OpenAIJudge(**{"model": "m"} | options)
    assert "secret" not in str(caught.value) and "sk-123" not in str(caught.value)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"OpenAIJudge needs openai: pip install 'valor_gpu\[llm\]'"):
        ask(OpenAIJudge("m", base_url="http://127.0.0.1:9/v1"))


def test_importing_loads_no_torch_and_opens_no_connection() -> None:
    program = """
import socket, sys
def blocked(*arguments, **options): raise AssertionError("network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = blocked
import valor_gpu.judge as judge
for name in judge.__all__: getattr(judge, name)
judge.OpenAIJudge("m"), judge.AzureOpenAIJudge("d", endpoint="https://x.example", api_version="1")
metric = judge.question_metric("m", lambda row: judge.Question([], int), 1, 5)
rows = judge.run_judge([1], [metric], lambda messages: "4")
assert rows.scores("m") == [4.0]
print(*[name for name in ("torch", "numpy", "openai", "httpx", "transformers") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_no_certificates_are_read_for_http_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *paths: read.append(paths))
    for address, needed in {
        "http://localhost:1/v1": False,
        "https://127.0.0.1:1/v1": True,
        "http://host/v1": True,
    }.items():
        read.clear()
        client = async_http(openai, address, 100)
        context = client._transport._pool._ssl_context
        assert bool(read) == needed and context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname, address
        asyncio.run(client.aclose())
