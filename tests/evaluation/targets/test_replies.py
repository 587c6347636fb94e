"""Replies of endpoints by content type and body: an answer, or an error of their row that says why there is none."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.evaluation.targets.test_http import answers, one
from tests.judge.server import Answer, ChatServer
from valor_gpu import evaluate
from valor_gpu.errors import InputError
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets import open_target, target_from_config

pytest.importorskip("openai")
OBJECT = {"answer": "M\xe1laga"}
TEXT = json.dumps(OBJECT, ensure_ascii=False)
CHAT = [{"role": "assistant", "content": "a"}]


def reply(body: bytes | str, kind: str = "", **headers: str) -> Answer:
    content = body.encode() if isinstance(body, str) else body
    return Answer(body=content, headers={"content-type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}})


@pytest.mark.parametrize(
    ("answer", "outputs"),
    [
        (reply(TEXT, "application/json"), OBJECT),
        (reply("\ufeff" + TEXT, "application/json"), OBJECT),
        (reply(TEXT.encode("latin-1"), "application/json; charset=iso-8859-1"), OBJECT),
        (reply(TEXT.encode("utf-16"), "application/json;charset=UTF-16"), OBJECT),
        (reply(json.dumps("\u6e2f", ensure_ascii=False).encode("shift_jis"), "text/json; charset=Shift_JIS"),
         {"answer": "\u6e2f"}),
        (reply(TEXT, "application/vnd.api+json"), OBJECT),
        (reply(TEXT, "text/plain"), OBJECT),
        (reply(TEXT, "text/html; charset=utf-8"), OBJECT),
        (reply(TEXT, ""), OBJECT),
        (reply(gzip.compress(TEXT.encode()), "application/json", content_encoding="gzip"), OBJECT),
        (reply(json.dumps(CHAT), "text/plain"), {"messages": CHAT}),
        (reply('"quoted"', "text/plain"), {"answer": "quoted"}),
        (reply("M\xe1laga".encode("latin-1"), "text/plain; charset=iso-8859-1"), OBJECT),
        (reply("M\xe1laga", "text/markdown"), OBJECT),
        (reply("M\xe1laga", ""), OBJECT),
        (reply("42", "text/plain"), {"answer": "42"}),
        (reply("[1] says so.", "text/plain"), {"answer": "[1] says so."}),
        (reply("[1]", "text/plain"), {"answer": "[1]"}),
        (reply("{x | x > 2}", "text/plain"), {"answer": "{x | x > 2}"}),
        (reply('{"answer": "\\ud83d"}', "application/json"), {"answer": "\ud83d"}),
        (reply('{"text": "a", "error": "b"}', "application/json"), {"text": "a", "error": "b"}),
        (reply('{"message": "a", "error": null}', "application/json"), {"message": "a", "error": None}),
    ],
)  # fmt: skip
def test_what_is_valid_in_what_it_declares_is_the_answer(answer: Answer, outputs: Any) -> None:
    found, _ = one(lambda request: answer)
    assert found.outputs == outputs and found.status == "ok"


CUT = '{"answer":"M\xe1laga","documents":["a"'
DEEP = "[" * 50_000 + "]" * 50_000
NO_ANSWER = [
    (reply(CUT, "application/json"), "the reply must be JSON but is .*: it ends too early, after 35 characters"),
    (reply(CUT, "text/plain"), "it ends too early, after 35 characters; where it is the answer, give the target"),
    (reply(CUT, ""), "it ends too early"),
    (reply(TEXT[:-1], "text/html"), "it ends too early"),
    (reply('{"answer": ' + DEEP + "}", "application/json"), "it has too many lists and objects within one another"),
    (reply('{"answer": ' + "9" * 6000 + "}", "application/json"), "it has a number of 6,000 digits"),
    (reply('{"answer": NaN}', "application/json"), "it has NaN, which is no JSON"),
    (reply('{"answer": -Infinity}', "text/plain"), "it has -Infinity, which is no JSON"),
    (reply('{"answer": "Paris", "answer": "London"}', "application/json"), "it has the key 'answer' more than once"),
    (reply("Paris", "application/json"), "must be JSON but is 'Paris': it is no JSON at character 1"),
    (reply(TEXT + TEXT, "application/json"), r"it is no JSON at character 21 of 40 \(Extra data\)"),
    (reply("null", "application/json"), "must be an object or a text but is NoneType"),
    (reply("true", "application/json"), "must be an object or a text but is bool"),
    (reply(TEXT.encode("latin-1"), "application/json"), "cannot be read: its byte 14 of 20 is no UTF-8"),
    (reply(TEXT.encode("utf-16"), "application/json"), "its byte 1 of 42 is no UTF-8"),
    (reply("M\xe1laga".encode("latin-1"), "text/plain"), "its byte 2 of 6 is no UTF-8"),
    (reply("M\xe1laga".encode("latin-1"), ""), "its byte 2 of 6 is no UTF-8"),
    (reply("M\xe1laga", "text/plain; charset=us-ascii"), "its byte 2 of 7 is no ASCII"),
    (reply("Paris".encode("utf-16-le"), "text/plain; charset=utf-16"), "needs a byte order mark"),
    (reply("Paris", "text/plain; charset=zlib"), "its charset 'zlib' is not known"),
    (reply("Paris", "text/plain; charset=klingon"), "its charset 'klingon' is not known"),
    (reply(b'\x0b\x05\x80{"answer"}\x03', "text/plain", content_encoding="br"), "'br' was not asked for"),
    (reply(gzip.compress(b"Paris")[:-4], "text/plain", content_encoding="gzip"), "gzip ends too early"),
    (reply("<p>Bad gateway", "text/html"), "must be an answer but is a page of text/html: .*'content_type'"),
    (reply("Bad gateway", "text/html; charset=utf-8"), "is a page of text/html"),
    (reply("<html>Log in", "text/plain"), "is a page of text/html"),
    (reply("<!DOCTYPE html>", ""), "is a page of text/html"),
    (reply('<?xml version="1.0"?><Error/>', "text/xml"), "is a page of text/xml"),
    (reply('data: {"delta": "Pa"}\n\n', "text/event-stream"), "is a stream of events"),
    (reply(TEXT + "\n" + TEXT, "application/x-ndjson"), "text or JSON but is 'application/x-ndjson': .*'content"),
    (reply(TEXT, "application/octet-stream"), "must be text or JSON but is 'application/octet-stream'"),
    (reply("GIF89a", "image/gif"), "must be text or JSON but is 'image/gif'"),
    (reply('{"error": "overloaded"}', "application/json"), "must have an answer but is an error: .*overloaded"),
    (reply('{"Error": {"m": "busy"}, "code": 7}', "text/plain"), "must have an answer but is an error: .*busy"),
    (reply('{"detail": "Not found"}', "application/json"), "must have an answer but is an error: .*Not found"),
    (reply(" \n", "text/plain"), "the reply is empty"),
    (reply("", "application/json"), "the reply is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "error"), NO_ANSWER)
@pytest.mark.parametrize("given", [{}, {"answer": "answer"}], ids=["whole", "path"])
def test_what_is_not_is_an_error_of_its_row(answer: Answer, error: str, given: Any) -> None:
    found, server = one(lambda request: answer, **given)
    assert found.status == "target_error" and found.outputs == {} and len(server.requests) == 1
    if not given:
        with pytest.raises(InputError, match=error):
            raise InputError(found.error)


@pytest.mark.parametrize(
    ("answer", "kind", "outputs"),
    [
        (reply("<p>Paris", "text/html"), "text/html", {"answer": "<p>Paris"}),
        (reply("Paris", "application/octet-stream"), "text/plain", {"answer": "Paris"}),
        (reply(CUT, "application/json"), "text/plain", {"answer": CUT}),
        (reply(TEXT, "image/gif"), "application/json", OBJECT),
        (reply(TEXT.encode("latin-1"), "application/json"), "application/json; charset=latin1", OBJECT),
    ],
)
def test_content_type_takes_the_place_of_what_is_declared(answer: Answer, kind: str, outputs: Any) -> None:
    assert one(lambda request: answer, content_type=kind)[0].outputs == outputs
    found, _ = one(lambda request: reply("Paris", "text/plain"), content_type="application/json")
    assert "the reply must be JSON but is 'Paris'" in found.error


def test_a_content_type_is_checked_and_kept() -> None:
    for kind, error in (
        ("image/gif", "must be text/... or application/json but is 'image/gif'"),
        ("text/plain; charset=klingon", "must have a charset that is known but has 'klingon'"),
        (3, r"target\['content_type'\] must be str"),
    ):
        with pytest.raises(InputError, match=error):
            open_target({"url": "https://h/", "content_type": kind}, secrets=Secrets())
    made = open_target({"url": "https://h/", "content_type": "text/html"}, secrets=Secrets())
    again = target_from_config(made.config(), secrets=Secrets())
    assert again is not None and again.config()["content_type"] == "text/html"
    assert made.version != open_target("https://h/", secrets=Secrets()).version


def test_two_content_types_are_one_when_they_are_equal() -> None:
    def respond(kind: str) -> Any:
        return one(lambda request: Answer(body=TEXT.encode(), headers={"Content-Type": kind}))[0]

    assert respond("Application/JSON; charset=utf8").outputs == OBJECT
    assert "declared more than once, as 'application/json' and 'text/plain'" in respond("text/plain").error


def test_the_body_of_an_error_is_shown_in_its_charset() -> None:
    found, _ = one(
        lambda request: Answer(400, "zu sp\xe4t".encode("latin-1"), {"content-type": "text/plain; charset=latin1"})
    )
    assert found.error == "HTTP 400: zu sp\xe4t"
    found, _ = one(lambda request: Answer(400, b"\x0b\x05", {"content-encoding": "br"}))
    assert found.error == "HTTP 400: (its content encoding 'br' was not asked for)"
    found, _ = one(lambda request: Answer(503, b"busy", {"content-type": "text/plain; charset=zlib"}), retries=0)
    assert found.error == "HTTP 503: busy"


def test_a_reply_that_cannot_be_read_has_no_score(tmp_path: Any) -> None:
    good = reply(TEXT.encode("latin-1"), "application/json; charset=iso-8859-1")
    with ChatServer(lambda request: reply(CUT, "application/json") if request.number else good) as server:
        data = [{"question": "q", "ground_truth": "M\xe1laga"}] * 2
        options: Any = {"target": {"url": server.root}, "metrics_list": ["exact_match"], "max_concurrency": 1}
        result = evaluate(data=data, store=tmp_path / "s.sqlite", **options)
    assert result.metrics_summary["mean_exact_match"] == 1.0
    assert "it ends too early, after 35 characters" in repr(list(result.errors))


@pytest.mark.parametrize("key", ["a-secret-Key/42+x", "k3y/" * 60])
def test_no_reason_holds_a_key(key: str) -> None:
    for answer in (
        reply(f'{{"{key}": 1, "{key}": 2}}', "application/json"),
        reply("Paris", f"text/plain; charset={key}"),
        reply("Paris", f"x/{key}"),
        reply("Paris", "text/plain", content_encoding=key),
    ):
        with ChatServer(lambda request, answer=answer: answer) as server:
            (found,) = answers({"url": server.root, "headers": {"api-key": key}}, [{"question": "q"}])
        assert found.status == "target_error" and key[:10].lower() not in found.error.lower()
