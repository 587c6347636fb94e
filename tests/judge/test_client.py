"""What leaves and what enters: failures before a request is sent, odd fields of replies, replies without end, keys."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, completion, failure
from tests.judge.test_openai import KEY, ask, judged, question
from valor_gpu.judge import question_metric, run_judge
from valor_gpu.judge.azure import AzureOpenAIJudge
from valor_gpu.judge.endpoint import check_headers
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.openai import OpenAIJudge
from valor_gpu.judge.parse import expected_score, score_schema
from valor_gpu.judge.protocol import JudgeError, Reply, Status, Usage
from valor_gpu.judge.requests import escaped

pytest.importorskip("openai")
MANY = Limits(concurrency=1, transport_retries=10, backoff=0.01, repairs=0)


def raised(judge: OpenAIJudge, messages: Any = ({"role": "user", "content": "?"},)) -> JudgeError:
    """The error of a direct call."""

    async def call() -> Reply:
        try:
            return await judge(list(messages))
        finally:
            await judge.aclose()

    with pytest.raises(JudgeError, match=r"\w") as caught:
        asyncio.run(call())
    return caught.value


def test_parameters_that_the_client_does_not_know_are_sent() -> None:
    extra = {"top_k": 5, "min_p": 0.1, "guided_regex": "[1-5]", "chat_template_kwargs": {"thinking": False}}
    found, server = judged(lambda request: "4", extra=extra)
    assert found.ok and found.attempts == 1
    assert extra.items() <= server.requests[0].body.items()
    assert OpenAIJudge("m", extra=extra).identity["parameters"].items() >= extra.items()


@pytest.mark.parametrize(
    ("key", "words"),
    [("sk-SECRET\n", "holds a line end"), ("sk-SÉCRET", "holds a space or another sign"), ("sk SECRET", "a space")],
)
@pytest.mark.parametrize("azure", [False, True])
def test_a_key_that_no_header_can_carry_is_no_server_error(
    key: str, words: str, azure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with ChatServer(lambda request: "4") as server:
        judge = (
            AzureOpenAIJudge("d", endpoint=server.root, api_version="1", api_key_env="MY_KEY")
            if azure
            else OpenAIJudge("m", base_url=server.url, api_key_env="MY_KEY")
        )
        found, error = ask(judge, limits=MANY), raised(judge)
        assert not server.requests
    assert (found.status, found.attempts) == (Status.BAD_REQUEST, 1)
    assert "MY_KEY must hold printable ASCII" in found.error and words in found.error and key not in found.error
    assert error.shared_cause == found.error


def test_a_header_of_the_environment_that_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("org\n", "örg"):
        monkeypatch.setenv("OPENAI_ORG_ID", value)
        with ChatServer(lambda request: "4") as server:
            judge = OpenAIJudge("m", base_url=server.url)
            found, error = ask(judge, limits=MANY), raised(judge)
            assert not server.requests
        assert (found.status, found.attempts) == (Status.BAD_REQUEST, 1)
        assert "the header OpenAI-Organization must be printable ASCII" in found.error
        assert error.shared_cause is not None

    check_headers(SimpleNamespace(default_headers={"a": "", "b": "x", "c": "x y\tz", "d": object()}))


def test_a_client_that_cannot_be_made_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "gopher://proxy")
    judge = OpenAIJudge("m", base_url="https://host.invalid/v1")
    found, error = ask(judge, limits=MANY), raised(judge)
    assert (found.status, found.attempts) == (Status.BAD_REQUEST, 1)
    assert "the request cannot be made" in found.error and error.shared_cause is not None


def test_a_cause_that_rows_share_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-SECRET\n")
    unknown = failure(400, "no such parameter", "unknown_parameter", "top_k")
    with ChatServer(lambda request: unknown) as server:
        for options, requests in (({"api_key_env": "MY_KEY"}, 0), ({"extra": {"top_k": 5}}, 5)):
            judge = OpenAIJudge("m", base_url=server.url, **options)
            metric = question_metric("q", question, 1, 5)
            run = run_judge(map(str, range(200)), [metric], judge, limits=Limits(concurrency=1))
            assert run.summaries["q"].n_failed == {"bad_request": 200} and run.summaries["q"].attempts == 5
            assert run.stopped is not None and "5 requests in a row failed by the same cause" in run.stopped
            assert len(server.requests) == requests


@pytest.mark.parametrize("content", [object(), {"a": {1, 2}}, float("nan"), b"bytes"])
def test_messages_that_are_no_json_fail_alone(content: Any) -> None:
    with ChatServer(lambda request: "4") as server:
        judge = OpenAIJudge("m", base_url=server.url)
        error = raised(judge, [{"role": "user", "content": content}])
        assert not server.requests
    assert (error.status, error.shared_cause, error.max_retries) == (Status.BAD_REQUEST, None, 0)
    assert "the messages must be JSON values" in str(error)


def test_what_has_no_utf8_is_sent_as_visible_characters() -> None:
    text = "half \ud83d and \ude00, whole \ud83d\ude00 or 😀, nul \x00, plain \\u0000"
    with ChatServer(lambda request: completion("4", model="x")) as server:
        assert ask(OpenAIJudge("m", base_url=server.url), question(text, score_schema(1, 5)), MANY).ok
    sent = server.requests[0].body["messages"][-1]["content"]
    assert sent == "half \\ud83d and \\ude00, whole 😀 or 😀, nul \\u0000, plain \\u0000"
    assert escaped(sent) == sent and escaped(("é", 1, None, True, 0.5)) == ["é", 1, None, True, 0.5]


def plain(patch: dict[str, Any], choice: dict[str, Any] | None = None) -> Answer:
    """A completion with some fields replaced."""
    answer = completion("4")
    answer.body.update(patch)
    answer.body["choices"][0].update(choice or {})
    return answer


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": "10", "completion_tokens": "5"},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 1.5, "completion_tokens": 5},
        {"prompt_tokens": True, "completion_tokens": 5},
        {"prompt_tokens": 1e308, "completion_tokens": 5},
        {"prompt_tokens": 10**399, "completion_tokens": 5},
        {"prompt_tokens": [1], "completion_tokens": 5},
        {"prompt_tokens": 1, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}},
        {"prompt_tokens": 1, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": "1"}},
        [1, 2],
        "many",
        7,
    ],
)
def test_odd_usage_costs_the_usage_alone(usage: Any) -> None:
    limits = Limits(concurrency=1, tokens_per_minute=10_000, transport_retries=0, repairs=0)
    found, _ = judged(lambda request: plain({"usage": usage}), limits)
    assert (found.value, found.usage) == (4, Usage())


def test_absent_parts_of_usage_are_zero() -> None:
    for details in (None, {}, [], {"cached_tokens": None}):
        found, _ = judged(lambda request, d=details: plain({"usage": {"prompt_tokens": 3, "prompt_tokens_details": d}}))
        assert found.usage == Usage(3, 0)


@pytest.mark.parametrize("model", [None, 7, ["m"], {"a": 1}, "", "x\ud83d", "x" * 5000])
def test_an_odd_model_is_the_one_that_was_asked(model: Any) -> None:
    found, _ = judged(lambda request: plain({"model": model}))
    assert found.ok and found.reply is not None
    assert found.reply.model == {"x\ud83d": "x\\ud83d", "x" * 5000: "x" * 200}.get(str(model), "m")


@pytest.mark.parametrize(
    ("finish", "expected"), [(["stop"], "unknown"), ({}, "unknown"), (3, "unknown"), (None, "stop")]
)
def test_an_odd_finish_reason_is_unknown(finish: Any, expected: str) -> None:
    found, _ = judged(lambda request: plain({}, {"finish_reason": finish}))
    assert found.ok and found.reply is not None and found.reply.finish_reason == expected


def test_a_call_of_a_tool_is_no_reply() -> None:
    for reason in ("tool_calls", "function_call"):
        found, _ = judged(lambda request, reason=reason: completion("4", reason))
        assert (found.status, found.value) == (Status.PARSE_ERROR, None) and "instead of answering" in found.error


@pytest.mark.parametrize(
    ("logprobs", "kept"),
    [
        ([{"token": "4", "logprob": -0.5, "top_logprobs": None}], True),
        ([{"token": "4", "logprob": 1e-7}], True),
        ([{"token": "4", "logprob": "-0.5"}], False),
        ([{"token": "4", "logprob": 1e308}], False),
        ([{"token": "4", "logprob": -(10**400)}], False),
        ([{"token": 4, "logprob": -0.5}], False),
        ([{"token": "4", "logprob": -0.5, "top_logprobs": ["4"]}], False),
        (["4"], False),
        ("4", False),
    ],
)
def test_odd_logprobs_cost_the_logprobs(logprobs: Any, kept: bool) -> None:
    found, _ = judged(lambda request: plain({}, {"logprobs": {"content": logprobs}}))
    assert found.ok and found.reply is not None and (found.reply.logprobs is not None) == kept
    if kept:
        assert expected_score(found.reply, 1, 5).value == 4.0


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "4"}]}, 4),
        ({"content": ["4", {"type": "text", "text": " "}]}, 4),
        ({"content": "4", "refusal": ["no"]}, 4),
        ({"content": 4}, None),
        ({"content": [4]}, None),
        ({"content": [{"type": "text", "text": 4}]}, None),
    ],
)
def test_content_in_parts_is_joined_and_other_content_is_none(message: dict[str, Any], value: int | None) -> None:
    found, _ = judged(lambda request: plain({}, {"message": message}))
    assert found.value == value and found.status is (Status.OK if value else Status.SERVER_ERROR)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 5000,
        b"\xff\xfe",
        b"null",
        b'{"choices": {"0": 1}}',
        b'{"choices": [1]}',
    ],
)
def test_bodies_that_are_no_completion(body: bytes) -> None:
    found, server = judged(lambda request: Answer(200, body))
    assert found.status is Status.SERVER_ERROR and "no chat completion" in found.error
    assert len(server.requests) == 3


class EndlessServer:
    """Sends 100 MB to every request, as fast as they are taken."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.sent: list[int] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        chunk = b" " * 100_000
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65536)
                self.sent.append(0)
                try:
                    connection.sendall(
                        self.head + b"content-type: application/json\r\ncontent-length: 100000000\r\n\r\n"
                    )
                    for _ in range(1000):
                        connection.sendall(chunk)
                        self.sent[-1] += len(chunk)
                except OSError:
                    pass  # the client has closed the connection

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.fixture(params=[b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 400 Bad Request\r\n"], ids=["reply", "error"])
def endless(request: pytest.FixtureRequest) -> Iterator[EndlessServer]:
    server = EndlessServer(request.param)
    yield server
    server.close()


def test_a_reply_without_end_is_cut_off_while_it_arrives(endless: EndlessServer) -> None:
    judge = OpenAIJudge("m", base_url=endless.url)
    ask(judge)  # imports and their memory
    tracemalloc.start()
    found = ask(judge)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ok = b"200" in endless.head
    assert found.status is (Status.TRUNCATED if ok else Status.BAD_REQUEST) and found.attempts == 1
    assert ("cut off after 1,000,000 bytes: it is longer than max_reply_bytes; raise it" in found.error) == ok
    assert peak < 12_000_000
    endless.close()
    assert all(sent < 50_000_000 for sent in endless.sent)  # what the buffers of the system take


def test_max_reply_bytes_bounds_what_a_reply_unpacks_to() -> None:
    bomb = gzip.compress(json.dumps(completion("4 " + " " * 20_000_000).body).encode())
    packed = {"content-encoding": "gzip"}
    found, server = judged(lambda request: Answer(200, bomb, packed))
    assert found.status is Status.TRUNCATED and server.requests[0].headers["accept-encoding"] == "identity"
    found, _ = judged(lambda request: Answer(200, gzip.compress(json.dumps(completion("4").body).encode()), packed))
    assert found.ok
    for damaged in (b"no gzip", gzip.compress(b"{}")[:8]):
        found, _ = judged(lambda request, body=damaged: Answer(200, body, packed))
        assert found.status is Status.SERVER_ERROR
    answer = json.dumps(completion("4").body).encode()
    found, _ = judged(lambda request: Answer(200, answer), max_reply_bytes=len(answer))
    assert found.ok
    found, _ = judged(lambda request: Answer(200, answer), max_reply_bytes=len(answer) - 1)
    assert found.status is Status.TRUNCATED


def quoting(request: Request) -> Answer | str:
    """A server that quotes what it was asked in a 400."""
    if "temperature" in request.text:
        return failure(400, f"Invalid input: {request.text}", request.body.get("user"))
    return "4"


@pytest.mark.parametrize("code", [None, "unsupported_parameter"])
def test_a_failure_that_quotes_a_row_drops_nothing(code: str | None) -> None:
    row = "Unsupported parameter: temperature, seed, max_tokens use max_completion_tokens response_format json_schema"
    with ChatServer(quoting) as server:
        judge = OpenAIJudge("m", base_url=server.url, seed=7, extra={"user": code})
        found = [ask(judge, question(text, score_schema(1, 5))) for text in ("a", row, "b")]
    assert [one.status for one in found] == [Status.OK, Status.BAD_REQUEST, Status.OK]
    assert len(server.requests) == 3 and judge.dropped({}) == ()
    assert server.requests[2].body == {**server.requests[0].body, "messages": server.requests[2].body["messages"]}


def test_what_was_dropped_is_on_every_reply() -> None:
    def respond(request: Request) -> Answer | str:
        for name in ("seed", "response_format"):
            if request.body.get(name):
                return failure(400, "no", "unsupported_parameter", f"{name}.type" if name != "seed" else name)
        return "4"

    with ChatServer(respond) as server:
        judge = OpenAIJudge("m", base_url=server.url, seed=7)
        one, two = ask(judge, question(schema=score_schema(1, 5))), ask(judge)
    assert one.reply is not None and one.reply.dropped == ("seed", "json_schema", "json_object")
    assert two.reply is not None and two.reply.dropped == ("seed",) == judge.dropped(None)
    assert judge.dropped({}) == one.reply.dropped and judge.identity["parameters"]["seed"] == 7


def test_a_value_out_of_range_is_not_dropped() -> None:
    refusal = failure(400, "temperature must be at most 2", "decimal_above_max_value", "temperature")
    found, server = judged(lambda request: refusal, temperature=7.0)
    assert (found.status, len(server.requests)) == (Status.BAD_REQUEST, 1)


def test_parameters_and_models_that_a_server_does_not_know_are_a_shared_cause() -> None:
    for code, name, shared in (
        ("unknown_parameter", "top_k", "the parameter top_k"),
        ("model_not_found", "model", "the parameter model"),
        ("context_length_exceeded", "messages", None),
        (None, "messages", None),
        ("unsupported_value", "messages[0].content", None),  # of one row, whose content the server does not take
    ):
        with ChatServer(lambda request, code=code, name=name: failure(400, "no", code, name)) as server:
            assert raised(OpenAIJudge("m", base_url=server.url, extra={"top_k": 1})).shared_cause == shared


def test_a_key_that_a_server_quotes_as_a_parameter_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_TEST", "sk-secret")
    with ChatServer(lambda request: failure(400, "no", "unknown_parameter", "sk-secret")) as server:
        assert (
            raised(OpenAIJudge("m", base_url=server.url, api_key_env="KEY_OF_TEST")).shared_cause == "the parameter ***"
        )


def test_kinds_of_failure_come_from_fields_alone() -> None:
    quoted = "about insufficient_quota and content_filter"
    assert judged(lambda request: failure(429, quoted))[0].status is Status.RATE_LIMITED
    assert judged(lambda request: failure(400, quoted))[0].status is Status.BAD_REQUEST
    azure = failure(400, "filtered", "other")
    azure.body["error"]["innererror"] = {"code": "ResponsibleAIPolicyViolation"}
    assert judged(lambda request: azure)[0].status is Status.CONTENT_FILTER


def reachable(error: BaseException) -> Iterator[Any]:
    """All exceptions that come along with one, and what the frames of its traceback hold."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        trace = seen.__traceback__
        while trace is not None:
            if "valor_gpu/judge" in trace.tb_frame.f_code.co_filename:
                yield from trace.tb_frame.f_locals.values()
            trace = trace.tb_next
        seen = seen.__cause__ or seen.__context__


@pytest.mark.parametrize("answer", [failure(400, "no"), failure(500, "no"), Answer(200, b"<"), Answer(drop=True)])
def test_no_exception_brings_the_key_along(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with ChatServer(lambda request: answer) as server:
        error = raised(OpenAIJudge("m", base_url=server.url, api_key_env="MY_KEY"))
    assert error.__context__ is None and error.__cause__ is None
    for one in reachable(error):
        assert not hasattr(one, "request") and not hasattr(one, "response") and KEY not in repr(one)
