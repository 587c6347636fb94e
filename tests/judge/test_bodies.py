"""Bodies of replies by what they declare, and the same bodies from a judge's and an embedder's server."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, completion
from tests.judge.test_openai import ask
from valor_gpu.judge import (
    JudgeError,
    Limits,
    OpenAIJudge,
    Question,
    Status,
    parse_score,
    question_metric,
    run_judge,
)
from valor_gpu.judge.bodies import BodyError, ContentType, codec_of, json_value, text_of, unpacked
from valor_gpu.text import OpenAIEmbedder

pytest.importorskip("openai")
TWICE = Limits(transport_retries=1, backoff=0.0, repairs=0)


@pytest.mark.parametrize(
    ("value", "media_type", "charset"),
    [
        ("application/json", "application/json", None),
        (' Text/Plain ;Charset="ISO-8859-1"; x=y', "text/plain", "ISO-8859-1"),
        ("text/plain; a=b ;charset = utf-8", "text/plain", "utf-8"),
        ('text/plain; note="; charset=utf-7"; charset=utf-8', "text/plain", "utf-8"),
        ("text/plain; charset=utf-8; charset=latin1", "text/plain", "utf-8"),
        ("text/plain; charset=", "text/plain", ""),
        ("", "", None),
        ("json", "json", None),
    ],
)
def test_content_types(value: str, media_type: str, charset: str | None) -> None:
    assert ContentType.of(value) == ContentType(media_type, charset)


def test_which_media_types_are_json() -> None:
    of = ContentType.of
    assert all(of(each).is_json for each in ("application/json", "text/json", "application/problem+json;v=1"))
    assert not any(of(each).is_json for each in ("application/x-ndjson", "text/plain", "json", "application/jsonl", ""))


@pytest.mark.parametrize(
    ("content", "charset", "expected"),
    [
        ("caf\xe9".encode(), None, "caf\xe9"),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "UTF8", "caf\xe9"),
        (b"caf\xe9", "latin1", "caf\xe9"),
        ("caf\xe9".encode("utf-16"), "utf-16", "caf\xe9"),
        ("\ufeffcaf\xe9".encode("utf-16-be"), "UTF-16BE", "caf\xe9"),
        ("\u6e2f".encode("shift_jis"), "Shift_JIS", "\u6e2f"),
        (b"", "utf-16", ""),
    ],
)
def test_what_a_charset_decodes(content: bytes, charset: str | None, expected: str) -> None:
    assert text_of(content, charset) == expected


@pytest.mark.parametrize(
    ("content", "charset", "error"),
    [
        (b"caf\xe9", None, "its byte 4 of 4 is no UTF-8"),
        (b"\xed\xa0\x80", None, "its byte 1 of 3 is no UTF-8"),
        (b"caf\xe9", "us-ascii", "its byte 4 of 4 is no ASCII"),
        ("4".encode("utf-16-le"), "utf-16", "its charset utf-16 needs a byte order mark"),
        (b"4", "utf-16", "needs a byte order mark"),
        (b"4", "nonsense", "its charset 'nonsense' is not known"),
        (b"4", "zlib", "its charset 'zlib' is not known"),
        (b"4", "rot13", "is not known"),
        (b"4", "undefined", "is not known"),
        (b"4", "unicode_escape", "is not known"),
        (b"4", "../../x", "is not known"),
        (b"4", "u" * 1000, "is not known"),
    ],
)
def test_bytes_that_are_not_what_they_declare(content: bytes, charset: str | None, error: str) -> None:
    with pytest.raises(BodyError, match=error):
        text_of(content, charset)


def test_names_of_charsets() -> None:
    assert codec_of("ISO_8859-1:1987") == "iso8859-1"
    with pytest.raises(BodyError, match="its charset 'hex' is not known"):
        codec_of("hex")


BROKEN = [
    ('{"a": "b', "it ends too early, after 8 characters"),
    ('{"a": [1, 2\n', "it ends too early, after 12 characters"),
    (" \t", "it is empty"),
    ('{"a": 1} x', r"it is no JSON at character 10 of 10 \(Extra data\)"),
    ("{'a': 1}", "it is no JSON at character 2 of 8"),
    ('{"a": "line\nend"}', "it is no JSON at character 12"),
    ("[" * 100_000 + "]" * 100_000, "it has too many lists and objects within one another"),
    ('{"a": ' + "9" * 6000 + "}", "it has a number of 6,000 digits"),
    ('{"a": 1, "b": {"c": 1, "c": 1}}', "it has the key 'c' more than once"),
    ("\xa04", "it is no JSON at character 1 of 2"),
]


@pytest.mark.parametrize(("text", "error"), [*BROKEN, ('{"a": NaN}', "it has NaN, which is no JSON")])
def test_what_is_no_json(text: str, error: str) -> None:
    with pytest.raises(BodyError, match=error):
        json_value(text)


def test_what_is_json() -> None:
    assert json_value(' \r\n{"a": [1, -2.5e3, null, true, "\\ud83d"]}\t') == {"a": [1, -2500.0, None, True, "\ud83d"]}
    assert json_value("9" * 1000) == int("9" * 1000)
    assert json_value('{"a": -Infinity}', non_finite=True) == {"a": float("-inf")}


def test_content_encodings() -> None:
    packed, bare = gzip.compress(b"abc"), zlib.compressobj(wbits=-zlib.MAX_WBITS)
    stream = bare.compress(b"abc") + bare.flush()
    for body, coding in (
        (packed, "gzip"),
        (packed, " X-GZip "),
        (zlib.compress(b"abc"), "deflate"),
        (stream, "deflate"),
        (b"abc", ""),
        (b"abc", "identity"),
        (b"abc", "utf-8"),
    ):
        assert unpacked(body, coding, 10) == (b"abc", "")
    assert unpacked(gzip.compress(b"x" * 1000), "gzip", 10) == (b"x" * 11, "")
    assert unpacked(packed[:-9], "gzip", 10, cut=True)[1] == ""
    for body, coding, problem in (
        (packed[:-1], "gzip", "its content encoding gzip ends too early"),
        (packed + b"x", "gzip", "its content encoding gzip has more behind its end"),
        (b"abc", "gzip", "its content encoding gzip is damaged"),
        (stream, "gzip", "its content encoding gzip is damaged"),
        (packed, "gzip, gzip", "its content encoding 'gzip, gzip' was not asked for"),
        (b"abc", "zstd", "its content encoding 'zstd' was not asked for"),
    ):
        assert unpacked(body, coding, 10) == (b"", problem)


def judged(answer: Answer) -> Any:
    with ChatServer(lambda request: answer) as server:
        return ask(OpenAIJudge("m", base_url=server.url), limits=TWICE)


GOOD = json.dumps(completion("4").body)
EMBEDDED = '{"data": [{"index": 0, "embedding": [3.0, 4.0]}]}'
SENT_BY_SERVERS = [
    "application/json",
    "application/json; charset=UTF8",
    "text/plain",
    "text/plain; charset=utf-8",
    "text/html; charset=utf-8",
    "text/event-stream",
    "application/problem+json",
    "application/octet-stream",
    "nonsense",
    "",
]


@pytest.mark.parametrize("kind", SENT_BY_SERVERS)
def test_judges_and_embedders_read_json_whatever_its_media_type(kind: str) -> None:
    assert judged(Answer(body=GOOD.encode(), headers={"content-type": kind})).value == 4
    with ChatServer(lambda request: Answer(body=EMBEDDED.encode(), headers={"content-type": kind})) as server:
        assert OpenAIEmbedder("m", server.url)(["x"]).tolist() == [[3, 4]]


@pytest.mark.parametrize("charset", ["utf-16", "iso-8859-1", "shift_jis"])
def test_judges_and_embedders_honour_the_charset(charset: str) -> None:
    headers = {"content-type": f"application/json; charset={charset}"}
    assert judged(Answer(body=GOOD.encode(charset), headers=headers)).value == 4
    with ChatServer(lambda request: Answer(body=EMBEDDED.encode(charset), headers=headers)) as server:
        assert OpenAIEmbedder("m", server.url)(["x"]).tolist() == [[3, 4]]


def test_numbers_that_are_no_json_cost_a_judge_their_field_alone() -> None:
    body = GOOD.replace('"prompt_tokens": 10', '"prompt_tokens": NaN')
    found = judged(Answer(body=body.encode()))
    assert body != GOOD and found.value == 4 and found.usage.total == 0


UNREADABLE = [
    *((text.encode(), {}, reason) for text, reason in BROKEN),
    (GOOD.encode()[:60], {}, "it ends too early, after 60 characters"),
    (GOOD.encode().replace(b'"4"', b'"\xe9"'), {}, "is no UTF-8"),
    (GOOD.encode("utf-16"), {}, "its byte 1 of [0-9,]+ is no UTF-8"),
    (GOOD.encode(), {"content-type": "application/json; charset=nonsense"}, "its charset 'nonsense' is not known"),
    (GOOD.encode(), {"content-encoding": "br"}, "its content encoding 'br' was not asked for"),
    (gzip.compress(GOOD.encode())[:-8], {"content-encoding": "gzip"}, "its content encoding gzip ends too early"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "headers", "reason"), UNREADABLE)
def test_a_judge_whose_reply_cannot_be_read_gives_no_score(body: bytes, headers: dict[str, str], reason: str) -> None:
    found = judged(Answer(body=body, headers=headers))
    assert found.status is Status.SERVER_ERROR and found.attempts == 2
    with pytest.raises(BodyError, match=reason):
        raise BodyError(found.error)
    assert found.error.startswith("the reply was no chat completion: it")
    with (
        ChatServer(lambda request: Answer(body=body, headers=headers)) as server,
        pytest.raises(JudgeError, match=f"the reply was no list of embeddings: .*{reason}") as caught,
    ):
        OpenAIEmbedder("m", server.url, retries=0)(["x"])
    assert caught.value.status is Status.SERVER_ERROR


def test_content_types_that_are_declared_twice() -> None:
    # The server sends its own header beside one whose name is written otherwise.
    body = GOOD.encode()
    assert judged(Answer(body=body, headers={"Content-Type": "application/json; charset=UTF8"})).value == 4
    found = judged(Answer(body=body, headers={"Content-Type": "application/json; charset=latin1"}))
    assert "its charset is declared as iso8859-1 and utf-8" in found.error


def test_an_address_that_gives_pages_alone_is_asked_no_more() -> None:
    def asked(row: Any) -> Question:
        return Question([{"role": "user", "content": row["q"]}], lambda text: parse_score(text, 1, 5))

    rows = [{"q": str(n)} for n in range(40)]
    with ChatServer(lambda request: Answer(200, b"<html>Sign in</html>")) as server:
        judge, limits = OpenAIJudge("m", base_url=server.url), Limits(concurrency=1, backoff=0.001)
        run = run_judge(rows, [question_metric("rating", asked, 1, 5)], judge, limits=limits)
    assert len(server.requests) < 40, "five rows with four tries each, and those that had begun meanwhile"
    assert run.stopped is not None and run.stopped.startswith("5 requests in a row failed by the same cause")
    assert "does the address end as it should (often in /v1)?" in run.stopped


def test_a_reply_that_was_cut_off_is_no_question_of_the_address() -> None:
    assert "address" not in judged(Answer(body=b'{"choices": [')).error


def test_a_stream_of_events_is_named() -> None:
    found = judged(Answer(body=b'data: {"choices": []}\n\n', headers={"content-type": "text/event-stream"}))
    assert "it is a stream of events, which was not asked for" in found.error


@pytest.mark.parametrize("charset", ["zlib", "rot13", "undefined", "punycode", "utf-16", "nonsense"])
def test_an_error_in_an_odd_charset_keeps_its_status(charset: str) -> None:
    odd = Answer(503, zlib.compress(b"busy"), {"content-type": f"application/json; charset={charset}"})

    def respond(request: Request) -> Answer:
        return completion("4") if request.number else odd

    with ChatServer(respond) as server:
        found = ask(OpenAIJudge("m", base_url=server.url), limits=TWICE)
    assert found.value == 4 and len(server.requests) == 2


def test_the_text_of_an_error_is_shown_in_its_charset() -> None:
    body = json.dumps({"error": {"message": "zu sp\xe4t"}}, ensure_ascii=False).encode("latin-1")
    assert "zu sp\xe4t" in judged(Answer(400, body, {"content-type": "application/json; charset=latin1"})).error


@pytest.mark.parametrize("key", ["a-secret-key", "k" * 200])
def test_no_reason_holds_the_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with ChatServer(lambda request: Answer(body=f'{{"{key}": 1, "{key}": 2}}'.encode())) as server:
        found = ask(OpenAIJudge("m", base_url=server.url, api_key_env="MY_KEY"), limits=TWICE)
        with pytest.raises(JudgeError, match="more than once") as caught:
            OpenAIEmbedder("m", server.url, "MY_KEY", retries=0)(["x"])
    assert "more than once" in found.error
    assert key[:12] not in found.error + str(caught.value)
