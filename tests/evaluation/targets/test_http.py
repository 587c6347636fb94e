"""HTTP endpoints as targets against a loopback server: what is sent and read, retries, limits, and secrets."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request
from valor_gpu.errors import InputError
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets import TargetAnswer, open_target, target_from_config
from valor_gpu.evaluation.targets.paths import path_of, value_at
from valor_gpu.judge.json_text import ParseError

pytest.importorskip("openai")
KEY = "a-secret-Key/42+x"
ROW = {"question": "2 + 2?", "context": ["sums", "four"], "n": 7, "none": None}


def answers(
    target: Any, rows: list[dict[str, Any]], secrets: Secrets | None = None, **options: Any
) -> list[TargetAnswer]:
    async def main() -> list[TargetAnswer]:
        made = open_target(target, secrets=secrets or Secrets(), **options)
        made.limits = replace(made.limits, backoff=0.01)  # type: ignore[attr-defined]
        try:
            return await asyncio.gather(*(made.answer(row) for row in rows))
        finally:
            await made.close()

    return asyncio.run(main())


def one(
    respond: Callable[[Request], Answer], row: dict[str, Any] = ROW, path: str = "", **given: Any
) -> tuple[Any, ChatServer]:
    options = {name: given.pop(name) for name in ("timeout", "parameters", "secrets") if name in given}
    with ChatServer(respond) as server:
        (found,) = answers({"url": server.root + path, **given}, [row], **options)
    return found, server


def test_without_a_body_the_columns_are_sent_and_the_object_is_the_outputs() -> None:
    found, server = one(lambda request: Answer(body={"answer": "4", "context": ["c"]}), path="/ask/")
    assert found.outputs == {"answer": "4", "context": ["c"]} and found.status == "ok" and found.error == ""
    (request,) = server.requests
    assert request.body == ROW and request.path == "/ask/"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("valor_gpu/")


def test_a_template_and_a_path() -> None:
    body = {
        "messages": [{"role": "user", "content": "Q: ${data.question} ${n}${none}"}],
        "docs": "${data$context}",
        "k": 5,
    }
    reply = {"choices": [{"message": {"content": "four"}}], "docs": [1]}
    found, server = one(
        lambda request: Answer(body=reply),
        body=body,
        answer="choices[0].message.content",
        outputs={"context": "$.docs"},
    )
    assert found.outputs == {"answer": "four", "context": [1]}
    sent = {"messages": [{"role": "user", "content": "Q: 2 + 2? 7"}], "docs": ["sums", "four"], "k": 5}
    assert server.requests[0].body == sent
    found, server = one(lambda request: Answer(body="4"), body=json.dumps(body))
    assert found.outputs == {"answer": "4"} and server.requests[0].body == sent


def test_what_a_row_holds_is_never_expanded() -> None:
    row = {"question": '${env:HOME} ${n} "}, {"', "n": 1}
    found, server = one(lambda request: Answer(body="x"), row=row, body={"q": "say ${question}"})
    assert server.requests[0].body == {"q": "say " + row["question"]} and found.status == "ok"


@pytest.mark.parametrize(
    ("answer", "outputs"),
    [
        (Answer(body="plain"), {"answer": "plain"}),
        (Answer(body=b"not json", headers={"content-type": "text/plain"}), {"answer": "not json"}),
        (Answer(body=[{"role": "assistant", "content": "a"}]), {"messages": [{"role": "assistant", "content": "a"}]}),
        (Answer(body=b'\xef\xbb\xbf{"answer": "bom"}'), {"answer": "bom"}),
        (Answer(201, {"answer": None, "x": 1}), {"answer": None, "x": 1}),
    ],
)
def test_replies_that_are_answers(answer: Answer, outputs: Any) -> None:
    assert one(lambda request: answer)[0].outputs == outputs


@pytest.mark.parametrize(
    ("answer", "given", "error"),
    [
        (Answer(body={"a": {"b": 1}}), {"answer": "a.c"}, "the reply has no 'c' at $.a, which is an object with 'b'"),
        (Answer(body={"a": [1]}), {"answer": "a[1]"}, "the reply has no 1 at $.a, which is a list of 1"),
        (Answer(body={"a": None}), {"answer": "a"}, "null in the place of the answer"),
        (Answer(body=b"oops"), {"answer": "a"}, "the reply must be JSON but is 'oops': it is no JSON"),
        (Answer(body=b" <!DOCTYPE html><p>Log in"), {}, "the reply must be JSON but is"),
        (Answer(body=7), {}, "must be an object or a text but is int: name the answer's path"),
        (Answer(204, b""), {}, "the reply is empty"),
        (Answer(body={}), {}, "returned an empty dict"),
        (Answer(body=b"[" * 100_000), {"answer": "a"}, "must be JSON"),
        (Answer(body=b'{"a": 1e999}'), {"answer": "a"}, "must be a finite number"),
        (Answer(302, b"", {"location": "http://127.0.0.1:1/"}), {}, "HTTP 302: redirects are not followed"),
        (Answer(404, {"detail": "no such bot"}), {}, 'HTTP 404: {"detail": "no such bot"}'),
        (Answer(body=b"x" * 2000), {"max_bytes": 1000}, "longer than 1,000 bytes: raise target['max_bytes']"),
        (Answer(500, b"down"), {"retries": 0}, "HTTP 500: down"),
        (Answer(drop=True), {"retries": 0}, "no connection: RemoteProtocolError"),
    ],
)
def test_replies_that_are_none_are_errors_of_their_row(answer: Answer, given: Any, error: str) -> None:
    found, server = one(lambda request: answer, **given)
    assert found.status == "target_error" and error in found.error and found.outputs == {}
    assert len(server.requests) == 1


def test_an_address_where_nobody_listens() -> None:
    with ChatServer(lambda request: Answer(body="ok")) as server:
        url = server.url
    target = open_target({"url": url}, secrets=Secrets())
    target.limits = replace(target.limits, transport_retries=5, backoff=0.0)
    found = asyncio.run(target.answer({"question": "When?"}))
    assert found.status == "target_error" and "is the address right, and does the server run?" in found.error


def test_busy_servers_are_asked_again_when_they_say() -> None:
    def respond(request: Request) -> Answer:
        if request.number == 0:
            return Answer(429, b"busy", {"retry-after-ms": "200"})
        return Answer(503, b"down") if request.number == 1 else Answer(body="ok")

    found, server = one(respond)
    assert found.outputs == {"answer": "ok"} and len(server.requests) == 3
    assert server.requests[1].time - server.requests[0].time >= 0.2
    found, server = one(lambda request: Answer(500, b"down"), retries=2)
    assert found.error == "HTTP 500: down" and len(server.requests) == 3


def test_one_bad_row_does_not_take_the_others_with_it_and_equal_rows_are_asked_each() -> None:
    def respond(request: Request) -> Answer:
        return Answer(422, b"bad") if request.body["n"] == 3 else Answer(body=str(request.number))

    with ChatServer(respond) as server:
        found = answers(server.root, [{"n": n} for n in (1, 3, 3, 3, 3, 3, 3, 1, 1)])
    assert [each.status for each in found] == ["ok", *["target_error"] * 6, "ok", "ok"]
    assert len({each.outputs["answer"] for each in found if each.status == "ok"}) == 3


def test_a_key_that_is_rejected_five_times_stops_the_asking() -> None:
    with ChatServer(lambda request: Answer(401, b"who are you")) as server:
        found = answers(server.root, [{"n": n} for n in range(40)], max_concurrency=2)
    assert {each.status for each in found} == {"target_error"} and "HTTP 401" in found[-1].error
    assert 5 <= len(server.requests) < 10


def test_an_attempt_times_out_and_is_not_tried_again() -> None:
    found, server = one(lambda request: Answer(hang=True), timeout=0.3)
    assert (found.status, found.error) == ("timeout", "no answer within 0.3 s")
    assert len(server.requests) == 1


def test_requests_are_bounded_and_run_side_by_side() -> None:
    together = threading.Barrier(6, timeout=120)

    def respond(request: Request) -> Answer:
        if 6 <= request.number < 18:
            together.wait()
        return Answer(body="x")

    with ChatServer(respond) as server:
        found = answers(server.root, [{"n": n} for n in range(24)], max_concurrency=6)
    assert {each.status for each in found} == {"ok"} and server.peak == 6


def echo(status: int, name: str = "error") -> Callable[[Request], Answer]:
    def respond(request: Request) -> Answer:
        return Answer(status, {name: {"got": request.headers, "path": request.path, "body": request.body}})

    return respond


@pytest.mark.parametrize(
    ("status", "name"), [(200, "got"), *((status, "error") for status in (200, 400, 401, 403, 429, 500))]
)
def test_a_server_that_echoes_the_key_leaks_nothing(
    status: int, name: str, monkeypatch: pytest.MonkeyPatch, log: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_TARGET_KEY", KEY)
    given = {
        "headers": {"Authorization": "Bearer ${env:MY_TARGET_KEY}", "X-Api-Key": "another-key-by-value"},
        "body": {"q": "${question}", "api_key": "${env:MY_TARGET_KEY}", "token": "third-key-by-value"},
    }
    secrets = Secrets()
    with ChatServer(echo(status, name)) as server:
        target = {"url": server.root + "/x?sig=fourth-key&code=${env:MY_TARGET_KEY}", **given, "retries": 1}
        (found,) = answers(target, [ROW], secrets)
        made = open_target(target, secrets=secrets)
        (request, *_) = server.requests
    assert request.headers["authorization"] == f"Bearer {KEY}" and request.body["api_key"] == KEY
    assert request.path == "/x?sig=fourth-key&code=a-secret-Key%2F42%2Bx"
    everything = repr(found) + json.dumps(made.config()) + repr(made) + log.getvalue() + "".join(capfd.readouterr())
    for key in (KEY, "a-secret-Key%2F42%2Bx", "another-key-by-value", "third-key-by-value", "fourth-key"):
        assert key not in everything
    assert "***" in everything and found.status == ("ok" if name == "got" else "target_error")


def test_a_key_at_the_end_of_what_is_shown_is_not_cut_in_half() -> None:
    found, _ = one(lambda request: Answer(400, b"x" * 490 + KEY.encode()), headers={"api-key": KEY})
    assert found.error == f"HTTP 400: {'x' * 490}***"
    found, _ = one(lambda request: Answer(body=b"x" * 90 + KEY.encode()), headers={"api-key": KEY}, answer="a")
    assert "x***': it is no JSON" in found.error


def test_what_has_its_keys_by_name_is_made_again_from_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TARGET_KEY", KEY)
    given = {"url": "https://host/ask?code=${env:MY_TARGET_KEY}", "headers": {"api-key": "${env:MY_TARGET_KEY}"},
             "body": {"q": "${question} ${t}"}, "answer": "a.b", "name": "bot"}  # fmt: skip
    made = open_target(given, secrets=Secrets(), parameters={"t": 1})
    config = json.loads(json.dumps(made.config()))
    again = target_from_config({**config, "version": made.version}, secrets=Secrets())
    assert again is not None and again.config() == config and again.version == made.version and KEY not in str(config)
    assert made.requires == {"question", "t"} and made.outputs == ("answer",)
    made.check_columns(["query"])
    with pytest.raises(InputError, match="target bot needs 'question', which no column gives"):
        made.check_columns(["context"])
    by_value = open_target({**given, "headers": {"api-key": KEY}}, secrets=Secrets(), parameters={"t": 1}).config()
    with pytest.raises(InputError, match="had a secret by value: pass target="):
        target_from_config(by_value, secrets=Secrets())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"url": "https://u:p4ss@host/"}, "must hold no user name or password"),
        ({"url": "ftp://host/"}, "must be an address that begins with http://"),
        ({"url": "https://host/a b"}, "must be an address"),
        ({"url": "https://host/?a#b"}, "query of printable ASCII without spaces and fragment"),
        ({"url": "https://h/", "header": {}}, "must not have 'header'; did you mean 'headers'"),
        ({"url": "https://h/", "headers": {"a b": "x"}}, "must have names of headers"),
        ({"url": "https://h/", "headers": {"Host": "x"}}, "must have names of headers"),
        ({"url": "https://h/", "headers": {"a": "x\ny"}}, "must be printable ASCII"),
        ({"url": "https://h/", "headers": {"a": None}}, "is None: is the environment variable set"),
        ({"url": "https://h/", "headers": {"a": "${env:NOT_THERE_7}"}}, "needs the environment variable NOT_THERE_7"),
        ({"url": "https://h/", "body": "{"}, r"target\['body'\] must be JSON"),
        ({"url": "https://h/", "body": 3}, r"target\['body'\] must be an object"),
        ({"url": "https://h/", "answer": "a..b"}, "must be a path such as"),
        ({"url": "https://h/", "answer": "a", "outputs": {"answer": "b"}}, "but has both"),
        ({"url": "https://h/", "max_bytes": 0}, "must be at least 1"),
        ({"url": "https://h/", "retries": -1}, "retries must be at least 0"),
        ({"url": 3}, r"target\['url'\] must be str"),
        ({"url": "http://example.com/", "headers": {"api-key": "abc"}}, "must have an https:// address"),
        ({"uri": "x"}, "but the mapping has uri"),
    ],
)
def test_what_is_wrong_is_said_before_any_row(given: Any, error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        open_target(given, secrets=Secrets())
    assert "p4ss" not in str(caught.value)


def test_parameters_must_have_a_place() -> None:
    with pytest.raises(InputError, match="parameters must be given when a target is made"):
        open_target(open_target("https://h/", secrets=Secrets()), secrets=Secrets(), parameters={"a": 1})
    with pytest.raises(InputError, match="must show the parameter 'top_k' in its body"):
        open_target({"url": "https://h/", "body": {"q": "${question}"}}, secrets=Secrets(), parameters={"top_k": 3})
    _, server = one(lambda request: Answer(body="x"), parameters={"n": 8})
    assert server.requests[0].body["n"] == 8


def test_rows_share_no_cookies() -> None:
    with ChatServer(lambda request: Answer(body="x", headers={"set-cookie": "session=1"})) as server:
        answers(server.root, [{"n": n} for n in range(3)], max_concurrency=1)
    assert all("cookie" not in request.headers for request in server.requests)


@pytest.mark.parametrize(
    ("text", "steps"),
    [("$", ()), ("a-b['c d'][0]", ("a-b", "c d", 0)), ("/a~1b/0", ("a/b", "0")), ('$["x"].y', ("x", "y"))],
)
def test_paths(text: str, steps: Any) -> None:
    assert path_of("answer", text) == steps


def test_a_step_of_digits_is_an_index_or_a_name() -> None:
    assert value_at({"a": ["x", "y"]}, ("a", "1")) == "y" and value_at({"1": "x"}, (1,)) == "x"
    with pytest.raises(ParseError, match="no 'b' at"):
        value_at("text", ("b",))


@pytest.mark.parametrize(
    ("status", "hint"),
    [(404, "is the address right?"), (403, "do the headers let"), (400, "take a body of this form?")],
)
def test_what_no_row_passes_is_asked_five_times(status: int, hint: str) -> None:
    rows = [{"question": str(number)} for number in range(40)]
    with ChatServer(lambda request: Answer(status, {"error": "no"})) as server:
        found = answers({"url": server.root}, rows, max_concurrency=1)
        assert len(server.requests) == 5
    assert {each.status for each in found} == {"target_error"}
    assert "none was answered" in found[-1].error and hint in found[-1].error
    with ChatServer(lambda request: Answer(body={"answer": "x"}) if request.number == 0 else Answer(status)) as server:
        answers({"url": server.root}, rows, max_concurrency=1)
        assert len(server.requests) == 40
