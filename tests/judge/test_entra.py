"""Tokens of Entra ID against a loopback server: what is sent, when the next one is asked for, and what is kept."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, completion, failure
from tests.judge.test_openai import ask, question
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge import entra
from valor_gpu.judge.azure import AzureOpenAIJudge
from valor_gpu.judge.endpoint import key_value
from valor_gpu.judge.entra import SCOPE, EntraToken, entra_token
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.openai import OpenAIJudge
from valor_gpu.judge.protocol import JudgeError, Status
from valor_gpu.judge.scheduler import Scheduler

pytest.importorskip("openai")
TOKEN = "eyJ0.token-of-mine"
LASTING = 3600.0  # seconds of a token, well over the 300 before its end that it is renewed
QUICK = Limits(concurrency=8, transport_retries=2, backoff=0.01, timeout=20.0, repairs=0)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)


class Credential:
    """As azure-core has them: tokens with an end, numbered as they are asked for."""

    def __init__(self, lasts: float = LASTING, error: BaseException | None = None) -> None:
        self.lasts, self.error = lasts, error
        self.scopes: list[tuple[str, ...]] = []
        self.threads: set[int] = set()

    def get_token(self, *scopes: str, **options: Any) -> Any:
        self.threads.add(threading.get_ident())
        self.scopes.append(scopes)
        time.sleep(0.02)  # so that several requests wait for the same token
        if self.error is not None:
            raise self.error
        return SimpleNamespace(token=f"{TOKEN}-{len(self.scopes)}", expires_on=time.time() + self.lasts)


class AsyncCredential(Credential):
    """As those of ``azure.identity.aio``, whose connections belong to one event loop."""

    loops: tuple[Any, ...] = ()

    async def get_token(self, *scopes: str, **options: Any) -> Any:
        self.loops = (*self.loops, asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return Credential.get_token(self, *scopes)


def judge_at(server: ChatServer, **authentication: Any) -> AzureOpenAIJudge:
    return AzureOpenAIJudge("gpt", endpoint=server.root, **authentication)


def sent(server: ChatServer) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.requests]


def accepting(*tokens: str) -> Callable[[Request], Answer]:
    """Answers requests with one of these tokens, and rejects all others."""

    def respond(request: Request) -> Answer:
        known = request.headers.get("authorization", "") in [f"Bearer {token}" for token in tokens]
        return completion("4") if known else failure(401, "the access token has expired")

    return respond


async def provided() -> str:
    return TOKEN


@pytest.mark.parametrize(
    "authentication",
    [
        {"azure_ad_token": TOKEN},
        {"azure_ad_token_env": "MY_TOKEN"},
        {"azure_ad_token_provider": lambda: TOKEN},
        {"azure_ad_token_provider": provided},
        {"credential": Credential()},
        {"credential": AsyncCredential()},
    ],
)
def test_a_token_goes_into_the_header_and_nowhere_else(
    authentication: dict[str, Any], monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key-that-is-not-meant")
    with ChatServer(lambda request: completion("4")) as server:
        judge = judge_at(server, **authentication)
        assert ask(judge).ok
    token = f"{TOKEN}-1" if "credential" in authentication else TOKEN
    assert sent(server) == [f"Bearer {token}"] and "api-key" not in server.requests[0].headers
    assert server.requests[0].path == "/openai/deployments/gpt/chat/completions?api-version=2024-10-21"
    assert server.root in log.getvalue(), "requests are logged"
    assert TOKEN not in log.getvalue() + repr(judge) + repr(vars(judge)) + repr(judge.identity)
    assert key_value(judge.api_key_env) == token


def test_both_interfaces_of_azure_take_tokens() -> None:
    with ChatServer(lambda request: completion("4")) as server:
        newer = AzureOpenAIJudge("gpt", endpoint=f"{server.root}/openai/v1/", azure_ad_token=TOKEN)
        plain = OpenAIJudge("gpt", base_url=f"{server.root}/openai/v1", api_key_env=entra_token(azure_ad_token=TOKEN))
        assert ask(newer).ok and ask(plain).ok
    assert [request.path for request in server.requests] == ["/openai/v1/chat/completions"] * 2
    assert sent(server) == [f"Bearer {TOKEN}"] * 2 and server.requests[0].body["model"] == "gpt"


def many(judge: OpenAIJudge, count: int) -> list[Any]:
    async def main() -> list[Any]:
        async with Scheduler(judge, QUICK) as scheduler:
            return await asyncio.gather(*(scheduler.ask(question(f"rate {i}")) for i in range(count)))

    return asyncio.run(main())


@pytest.mark.parametrize("kind", [Credential, AsyncCredential])
def test_requests_that_wait_share_a_token(kind: type[Credential]) -> None:
    credential = kind()
    with ChatServer(lambda request: completion("4")) as server:
        judge = judge_at(server, credential=credential)
        assert all(each.ok for each in many(judge, 20))
        assert ask(judge).ok, "in another event loop"
    assert credential.scopes == [(SCOPE,)] and set(sent(server)) == {f"Bearer {TOKEN}-1"}
    assert threading.get_ident() not in credential.threads, "not in the event loop, which it would hold up"


def test_a_token_is_renewed_before_it_expires() -> None:
    credential = AsyncCredential(lasts=299.0)  # less than the 300 seconds before the end
    with ChatServer(lambda request: completion("4")) as server:
        judge = judge_at(server, credential=credential)
        assert ask(judge).ok and ask(judge).ok
        credential.lasts = LASTING
        assert ask(judge).ok and ask(judge).ok
    assert sent(server) == [f"Bearer {TOKEN}-{number}" for number in (1, 2, 3, 3)]
    assert len(set(credential.loops)) == 1, "connections of a credential belong to one event loop"


def test_a_rejected_token_is_renewed_once_for_all() -> None:
    credential = Credential()
    with ChatServer(accepting(f"{TOKEN}-2")) as server:
        judge = judge_at(server, credential=credential)
        found = many(judge, 8)
    assert all(each.ok for each in found) and len(credential.scopes) == 2
    assert sent(server).count(f"Bearer {TOKEN}-2") == 8 and all(each.attempts == 1 for each in found)


def test_a_renewed_token_that_is_rejected_stops_the_run() -> None:
    credential = Credential()
    with ChatServer(accepting()) as server:
        found = ask(judge_at(server, credential=credential))
    assert found.status is Status.UNAUTHORIZED and len(server.requests) == len(credential.scopes) == 2
    assert "has it expired, or lacks its identity the role 'Cognitive Services OpenAI User'" in found.error


@pytest.mark.parametrize(
    ("authentication", "requests", "error"),
    [
        ({"azure_ad_token": TOKEN}, 1, "give 'azure_ad_token_provider' or 'credential', which renew it"),
        ({"azure_ad_token_provider": lambda: TOKEN}, 1, "has it expired"),
        ({"azure_ad_token_env": "MY_TOKEN"}, 1, "has it expired"),
    ],
)
def test_the_same_token_is_not_sent_again(
    authentication: dict[str, Any], requests: int, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with ChatServer(accepting()) as server:
        found = ask(judge_at(server, **authentication))
    assert found.status is Status.UNAUTHORIZED and error in found.error and len(server.requests) == requests


def test_a_variable_is_read_again_when_its_token_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "an-old-token")

    def respond(request: Request) -> Answer:
        monkeypatch.setenv("MY_TOKEN", TOKEN)
        return accepting(TOKEN)(request)

    with ChatServer(respond) as server:
        assert ask(judge_at(server, azure_ad_token_env="MY_TOKEN")).ok
    assert sent(server) == ["Bearer an-old-token", f"Bearer {TOKEN}"]


class ServiceRequestError(Exception):
    """As azure-core names a service of tokens that cannot be reached."""


class Busy(Exception):
    status_code = 503


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("no account is signed in"), Status.UNAUTHORIZED),
        (SystemExit(2), Status.UNAUTHORIZED),
        (ServiceRequestError("no route"), Status.CONNECTION_ERROR),
        (OSError("no route"), Status.CONNECTION_ERROR),
        (Busy("later"), Status.SERVER_ERROR),
    ],
)
def test_without_a_token_nothing_is_sent(error: BaseException, status: Status) -> None:
    credential = Credential(error=error)
    with ChatServer(lambda request: completion("4")) as server:
        found = ask(judge_at(server, credential=credential))
    assert found.status is status and not server.requests
    assert f"no token of Entra ID: {type(error).__name__}: {error}" in found.error
    assert len(credential.scopes) == (1 if status is Status.UNAUTHORIZED else 3), "what may pass is tried again"


@pytest.mark.parametrize("given", ["", "two words", None, 7, "line\nend"])
def test_what_is_no_token_is_said(given: Any) -> None:
    with ChatServer(lambda request: completion("4")) as server:
        found = ask(judge_at(server, azure_ad_token_provider=lambda: given))
    assert found.status is Status.UNAUTHORIZED and "must give a token, a text without spaces, but gave" in found.error
    assert not server.requests and "two words" not in found.error


def test_a_server_that_quotes_a_token_does_not_get_it_into_a_message() -> None:
    with ChatServer(lambda request: failure(403, f"{request.headers['authorization']} may not")) as server:
        found = ask(judge_at(server, credential=Credential()))
    assert found.status is Status.BAD_REQUEST and "Bearer *** may not" in found.error


def test_watchers_see_every_token() -> None:
    token = entra_token(credential=Credential(lasts=1.0))
    assert token is not None
    seen: list[str | None] = []
    token.watch(seen.append)
    assert [token.asked(lambda text: text), token.asked(lambda text: text)] == [f"{TOKEN}-1", f"{TOKEN}-2"]
    assert seen == [None, f"{TOKEN}-1", f"{TOKEN}-2"]


def test_a_cancelled_request_leaves_the_token_to_the_others() -> None:
    token = entra_token(credential=Credential())
    assert token is not None

    async def echo(text: str) -> str | JudgeError:
        return text

    async def main() -> Any:
        first = asyncio.ensure_future(token.asked_async(echo))
        second = asyncio.ensure_future(token.asked_async(echo))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(main()) == f"{TOKEN}-1"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"azure_ad_token": TOKEN, "credential": "default"}, "one of 'azure_ad_token' and 'credential' but has both"),
        ({"azure_ad_token": "two words"}, "azure_ad_token must be a token, printable ASCII without spaces"),
        ({"azure_ad_token": 7}, "azure_ad_token must be a token"),
        ({"azure_ad_token_env": "my-token"}, "azure_ad_token_env must be the name of an environment variable"),
        ({"azure_ad_token_provider": TOKEN}, "must be a function that returns a token but is of type str"),
        ({"credential": TOKEN}, "credential must be 'default' or an object with get_token.*but is another text"),
        ({"credential": Credential}, "must be an object but is the class Credential: write Credential.."),
        ({"credential": object()}, "credential must be 'default' or an object with get_token.*but is of type object"),
    ],
)
def test_what_cannot_be_is_said_at_once(given: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        AzureOpenAIJudge("gpt", endpoint="https://name.openai.azure.com", **given)
    assert TOKEN not in str(caught.value) and "two words" not in str(caught.value)


def test_a_key_and_a_token_exclude_each_other() -> None:
    endpoint = "https://name.openai.azure.com"
    with pytest.raises(InputError, match="api_key_env must not go with a token or credential"):
        AzureOpenAIJudge("gpt", endpoint=endpoint, api_key_env="MY_KEY", credential=Credential())


def test_tokens_go_to_azure_and_encrypted() -> None:
    token = entra_token(azure_ad_token=TOKEN)
    with pytest.raises(InputError, match="base_url must be of Azure OpenAI for a token"):
        OpenAIJudge("gpt", base_url="https://api.openai.com/v1", api_key_env=token)
    with pytest.raises(InputError, match="endpoint must be of Azure OpenAI for a token"):
        AzureOpenAIJudge("gpt", endpoint="https://api.openai.com", azure_ad_token=TOKEN)
    with pytest.raises(InputError, match="endpoint must begin with https:// for a token of Entra ID"):
        AzureOpenAIJudge("gpt", endpoint="http://name.openai.azure.com", azure_ad_token=TOKEN)
    with pytest.raises(InputError, match="base_url must begin with https:// for a token of Entra ID"):
        OpenAIJudge("gpt", base_url="http://gateway.example/v1", api_key_env=token)


def test_a_token_of_the_environment_serves_where_there_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", TOKEN)
    with ChatServer(lambda request: completion("4")) as server:
        assert ask(judge_at(server)).ok
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key")
        assert ask(judge_at(server)).ok
    assert [request.headers.get("api-key") for request in server.requests] == [None, "a-key"]
    assert sent(server)[0] == f"Bearer {TOKEN}"


def test_the_default_credential_is_imported_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Credential] = []

    def default_credential() -> Credential:
        made.append(Credential())
        return made[-1]

    identity = ModuleType("azure.identity")
    identity.DefaultAzureCredential = default_credential  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "azure", ModuleType("azure"))
    monkeypatch.setitem(sys.modules, "azure.identity", identity)
    with ChatServer(lambda request: completion("4")) as server:
        for given in ("default", True):
            judge = judge_at(server, credential=given)
            assert not made or given is True
            assert ask(judge).ok and ask(judge).ok
    assert [len(each.scopes) for each in made] == [1, 1], "one credential of a judge, and one token of it"
    again = pickle.loads(pickle.dumps(judge.api_key_env))
    assert repr(again) == "EntraToken(credential='default')"
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(MissingExtraError, match=r"needs azure-identity: pip install 'valor_gpu\[azure\]'"):
        judge_at(server, credential="default")


@pytest.mark.parametrize("given", [{"azure_ad_token": TOKEN}, {"credential": Credential()}])
def test_what_is_given_by_value_stays_in_its_process(given: dict[str, Any]) -> None:
    judge = AzureOpenAIJudge("gpt", endpoint="https://name.openai.azure.com", **given)
    with pytest.raises(InputError, match="stays in its process: name the variable by azure_ad_token_env"):
        pickle.dumps(judge)
    assert isinstance(judge.api_key_env, EntraToken) and TOKEN not in repr(judge.api_key_env)
    named = AzureOpenAIJudge("gpt", endpoint="https://name.openai.azure.com", azure_ad_token_env="MY_TOKEN")
    assert repr(pickle.loads(pickle.dumps(named)).api_key_env) == "EntraToken(azure_ad_token_env='MY_TOKEN')"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (Unprintable(), "Unprintable: its text cannot be made"),
        (ValueError("bad eyJhbGciOiJS.eyJhdWQi.c2ln"), "bad ***"),
    ],
)
def test_errors_of_credentials_end_the_wait_and_show_no_token(error: Exception, shown: str) -> None:
    def provider() -> str:
        raise error

    token = entra_token(azure_ad_token_provider=provider)
    assert token is not None
    found = token.asked(lambda _: "sent")
    assert isinstance(found, JudgeError) and str(found) == "no token of Entra ID: " + (
        shown if isinstance(error, Unprintable) else f"ValueError: {shown}"
    )


def test_a_wait_without_an_event_loop_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entra, "_LONGEST", 0.1)
    go_on = threading.Event()
    token = entra_token(azure_ad_token_provider=lambda: "token" if go_on.wait() else "")
    assert token is not None
    found = token.asked(lambda _: "sent")
    assert isinstance(found, JudgeError) and (found.status, str(found)) == (
        Status.TIMEOUT,
        "no token of Entra ID within 0.1 s",
    )
    go_on.set()
    monkeypatch.setattr(entra, "_LONGEST", 60.0)
    assert token.asked(lambda given: given) == "token"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_fetches_its_own_token() -> None:
    """While the parent's thread, which the child has not, fetches one. In a process of its own: forks and threads."""
    code = """
import os, threading
from valor_gpu.judge.entra import entra_token
go_on = threading.Event()
token = entra_token(azure_ad_token_provider=lambda: "token" if go_on.wait() else "")
token._future(None)
child = os.fork()
go_on.set()
if child == 0:
    os._exit(0 if token.asked(lambda given: given) == "token" else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
