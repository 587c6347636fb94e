"""Models as targets against a loopback server: messages, answers, usage and cost, failures."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, completion, failure
from valor_gpu.errors import InputError
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets import TargetAnswer, open_target, target_from_config
from valor_gpu.judge import Usage

pytest.importorskip("openai")
KEY = "sk-a-model-key-123"
ROW = {"question": "2 + 2?", "context": "sums", "extra": 1}
TALK = [
    {"role": "user", "content": "hi", "session": 1},
    {"role": "assistant", "content": "hello"},
    {"role": "user", "content": "bye"},
    {"role": "assistant", "content": "the old answer", "context": {"citations": []}},
]


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
    respond: Callable[[Request], Answer | str], row: dict[str, Any] = ROW, options: Any = None, **given: Any
) -> tuple[TargetAnswer, ChatServer]:
    with ChatServer(respond) as server:
        (found,) = answers({"model": "m", "base_url": server.url, **given}, [row], **(options or {}))
    return found, server


def test_without_a_prompt_the_question_is_asked_and_nothing_is_set() -> None:
    found, server = one(
        lambda request: completion("four", usage=(10, 5)), options={"prices": {"prompt": 1e6, "completion": 2e6}}
    )
    assert found.outputs == {"answer": "four"} and found.status == "ok"
    assert found.usage == Usage(10, 5) and found.cost == 20.0
    assert server.requests[0].body == {"model": "m", "messages": [{"role": "user", "content": "2 + 2?"}]}


def test_a_conversation_is_asked_up_to_the_last_word_of_the_user() -> None:
    found, server = one(lambda request: "new", row={"messages": TALK}, system="Be {{ 1 + 1 }}.")
    assert server.requests[0].body["messages"] == [
        {"role": "system", "content": "Be 2."},
        *({"role": each["role"], "content": each["content"]} for each in TALK[:3]),
    ]
    assert found.outputs == {"answer": "new", "messages": [*TALK[:3], {"role": "assistant", "content": "new"}]}
    assert one(lambda request: "x", row={"messages": TALK[1:2]})[0].error.startswith("messages must have one that")
    assert one(lambda request: "x", row={"question": " "})[0].error == "the row has no question"


def test_a_conversation_of_another_form_is_asked_as_a_list_and_keeps_its_context() -> None:
    shared = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "old"}]
    for given in ({"messages": shared, "context": "c"}, json.dumps({"messages": shared, "context": "c"})):
        found, server = one(lambda request: "new", row={"conversation": given})
        assert server.requests[0].body["messages"] == [{"role": "user", "content": "hi"}]
        said = [shared[0], {"role": "assistant", "content": "new"}]
        assert found.outputs["messages"] == {"messages": said, "context": "c"}


def test_a_prompt_is_filled_and_parameters_have_their_place() -> None:
    prompt = "system:\n{{ style }}\nuser:\n{{ context }}: {{ question }}"
    options = {"parameters": {"style": "short", "temperature": 0.5, "model": "n"}}
    found, server = one(lambda request: "ok", prompt=prompt, seed=4, options=options)
    assert server.requests[0].body == {
        "model": "n", "temperature": 0.5, "seed": 4,
        "messages": [{"role": "system", "content": "short"}, {"role": "user", "content": "sums: 2 + 2?"}],
    }  # fmt: skip
    assert found.outputs == {"answer": "ok"}
    with pytest.raises(InputError, match="must show the parameter 'styl' in its prompt"):
        one(lambda request: "x", prompt=prompt, options={"parameters": {"styl": 1}})
    target = open_target({"model": "m", "base_url": "http://127.0.0.1/v1", "prompt": prompt}, secrets=Secrets())
    assert target.requires == {"style", "context", "question"} and target.outputs == ("answer",)
    with pytest.raises(InputError, match="target m needs 'style', which no column gives"):
        target.check_columns(["query", "context"])


def test_a_prompt_file_brings_its_parameters(tmp_path: Path) -> None:
    file = tmp_path / "ask.prompty"
    file.write_text("---\nname: a\nmodel:\n  parameters: {max_tokens: 9, top_p: 0.5}\n---\nuser:\nQ {{question}}\n")
    found, server = one(lambda request: "ok", prompt_file=str(file), max_tokens=7)
    body = server.requests[0].body
    assert (body["max_tokens"], body["top_p"], body["messages"][0]["content"]) == (7, 0.5, "Q 2 + 2?")
    target = open_target({"model": "m", "base_url": "http://127.0.0.1/v1", "prompt_file": file}, secrets=Secrets())
    config = json.loads(json.dumps(target.config()))
    file.unlink()
    again = target_from_config({**config, "version": target.version}, secrets=Secrets())
    assert again is not None and again.config() == config and found.status == "ok"


def test_how_a_reply_ends() -> None:
    cut, _ = one(lambda request: completion("a long", finish_reason="length"))
    assert cut.outputs == {"answer": "a long", "finish_reason": "length"} and cut.status == "ok"
    refused, _ = one(lambda request: completion(None, refusal="I will not"))
    assert refused.outputs == {"answer": "I will not", "finish_reason": "refusal"}
    filtered, _ = one(lambda request: completion(None, finish_reason="content_filter"))
    assert filtered.status == "filtered" and filtered.outputs == {}
    blocked, server = one(lambda request: failure(400, "blocked", "content_filter"))
    assert blocked.status == "filtered" and "blocked" in blocked.error and len(server.requests) == 1


def test_failures_are_tried_again_or_said() -> None:
    def busy(request: Request) -> Answer | str:
        return failure(429, "busy", retry_after="0.05") if request.number == 0 else "ok"

    found, server = one(busy)
    assert found.outputs == {"answer": "ok"} and len(server.requests) == 2
    found, server = one(lambda request: failure(500, "down"), retries=1)
    assert found.status == "target_error" and "HTTP 500" in found.error and len(server.requests) == 2
    found, server = one(lambda request: Answer(hang=True), options={"timeout": 0.3})
    assert (found.status, found.error, len(server.requests)) == ("timeout", "no answer within 0.3 s", 1)


def test_a_server_without_a_parameter_is_asked_without_it() -> None:
    def picky(request: Request) -> Answer | str:
        if "temperature" in request.body:
            return failure(400, "no temperature", "unsupported_parameter", "temperature")
        return "ok"

    found, server = one(picky, temperature=0.5)
    assert found.outputs == {"answer": "ok"} and len(server.requests) == 2


def test_equal_rows_and_epochs_are_asked_each() -> None:
    with ChatServer(lambda request: str(request.number)) as server:
        found = answers({"model": "m", "base_url": server.url}, [ROW] * 5)
    assert len({each.outputs["answer"] for each in found}) == 5


def test_no_key_is_shown(log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    secrets = Secrets()
    with ChatServer(lambda request: failure(400, f"got {request.headers['authorization']}")) as server:
        given = {"model": "m", "base_url": server.url, "api_key": KEY}
        (found,) = answers(given, [ROW], secrets)
        target = open_target(given, secrets=secrets)
    assert "got Bearer ***" in found.error and server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(found) + json.dumps(target.config()) + repr(vars(target)) + log.getvalue()
    with pytest.raises(InputError, match="had a secret by value: pass target="):
        target_from_config(target.config(), secrets=secrets)
    with pytest.raises(InputError, match="environment variable OPENAI_API_KEY is not set"):
        open_target({"model": "m"}, secrets=secrets)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"promt": "x"}, "must not have 'promt'; did you mean 'prompt'"),
        ({"prompt": "x", "prompt_file": "y"}, "but has both"),
        ({"prompt_file": "no/such.prompty"}, "prompt file 'no/such.prompty' cannot be read: No such file"),
        ({"prompt": "{{ x"}, r"target\['prompt'\], line 1: unexpected end"),
        ({"retries": True}, "retries must be int"),
        ({"model": None}, r"target\['model'\] must be a text but is None"),
    ],
)
def test_what_is_wrong_is_said_before_any_row(given: Any, error: str) -> None:
    with pytest.raises(InputError, match=error):
        open_target({"model": "m", "base_url": "http://127.0.0.1/v1", **given}, secrets=Secrets())


def test_columns_must_give_something_to_ask() -> None:
    target = open_target({"model": "m", "base_url": "http://127.0.0.1/v1"}, secrets=Secrets())
    target.check_columns(["query"])
    with pytest.raises(InputError, match="target m needs 'question' or 'messages', or a prompt; columns: 'text'"):
        target.check_columns(["text"])
