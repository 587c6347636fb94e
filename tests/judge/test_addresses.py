"""Addresses as they are pasted, further headers, and how both reach the server."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.judge.server import ChatServer, completion, failure
from tests.judge.test_openai import ask
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.judge.addresses import CHAT, EMBEDDINGS, azure_address, openai_address
from valor_gpu.judge.azure import AzureOpenAIJudge
from valor_gpu.judge.openai import OpenAIJudge
from valor_gpu.judge.protocol import Status

HOST = "https://name.openai.azure.com"
DEFAULT = "2024-10-21"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "operation", "expected"),
    [
        ((HOST, "gpt", None), CHAT, (HOST, "gpt", DEFAULT)),
        ((f"{HOST}/", "gpt", "2025-01-01"), CHAT, (HOST, "gpt", "2025-01-01")),
        ((f"{HOST}/openai/", "gpt", None), CHAT, (HOST, "gpt", DEFAULT)),
        ((f"{HOST}/openai/deployments/gpt", None, None), CHAT, (HOST, "gpt", DEFAULT)),
        ((f"{HOST}/openai/deployments/gpt/", "gpt", None), CHAT, (HOST, "gpt", DEFAULT)),
        ((f"{HOST}/openai/deployments/gpt/chat/completions?api-version=1", None, None), CHAT, (HOST, "gpt", "1")),
        ((f"{HOST}/openai/deployments/a%20b/chat/completions?api-version=1", None, "1"), CHAT, (HOST, "a b", "1")),
        ((f"{HOST}/openai/deployments/ada/embeddings?api-version=1", None, None), EMBEDDINGS, (HOST, "ada", "1")),
        ((f"{HOST}/team/openai/deployments/gpt/chat/completions", None, None), CHAT, (f"{HOST}/team", "gpt", DEFAULT)),
        ((f"{HOST}/openai/v1/", "gpt", None), CHAT, (f"{HOST}/openai/v1", "gpt", None)),
        ((f"{HOST}/openai/v1/chat/completions", "gpt", "preview"), CHAT, (f"{HOST}/openai/v1", "gpt", "preview")),
        ((f"{HOST}/gateway", "gpt", None), CHAT, (f"{HOST}/gateway", "gpt", DEFAULT)),
    ],
)
def test_addresses_of_azure(given: tuple[Any, Any, Any], operation: str, expected: tuple[Any, Any, Any]) -> None:
    found = azure_address(*given, operation)
    assert (found.endpoint, found.deployment, found.version) == expected
    assert found.is_v1 is (expected[2] in (None, "preview"))


def test_what_the_environment_says_of_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", "2023-05-15")
    assert azure_address(HOST, "gpt", None).version == "2023-05-15"
    assert azure_address(f"{HOST}/openai/deployments/gpt?api-version=7", None, None).version == "7"
    assert azure_address(f"{HOST}/openai/v1", "gpt", None).version is None, "a date would be rejected there"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{HOST}/openai/deployments/gpt/chat/completions?api-version=8")
    assert azure_address(None, None, None) == azure_address(HOST, "gpt", "8")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((None, "gpt", None), "endpoint must be an address but neither it nor AZURE_OPENAI_ENDPOINT is set"),
        ((HOST, None, None), "deployment must be a name but neither it nor endpoint says one"),
        ((f"{HOST}/openai/deployments/a", "b", None), "endpoint must be of the deployment 'b' but is of 'a'"),
        ((f"{HOST}/openai/deployments/a?api-version=1", None, "2"), "must be of the api_version '2' but is of '1'"),
        ((f"{HOST}/openai/deployments/a/embeddings", None, None), "or end in /chat/completions, but ends in '/embed"),
        ((f"{HOST}/openai/responses?api-version=1", "a", None), "or end in /chat/completions, but ends in '/respon"),
        ((f"{HOST}/openai/v1/responses", "a", None), "or end in /chat/completions, but ends in '/responses'"),
        ((f"{HOST}/openai/v1", "a", "2024-10-21"), "api_version must be left out where endpoint ends in /openai/v1"),
        (("https://name.services.ai.azure.com/api/projects/p", "a", None), "must be of a resource but is of a project"),
        ((f"{HOST}/openai/deployments/a?api-version=1&code=secret7", None, None), "must hold no query or fragment"),
        ((f"{HOST}?sig=secret7", "a", None), "must hold no query or fragment"),
        (("https://u:secret7@host/openai/deployments/a", None, None), "must hold no user name or password"),
        (("name.openai.azure.com", "a", None), "must be an address that begins with http"),
        (("https://name.services.ai.azure.com/models/chat/completions", "a", None), "but its path is '/models/chat/"),
        ((f"{HOST}/OpenAI/Deployments/a/chat/completions", "a", None), "or have /openai/deployments/NAME or"),
    ],
)
def test_addresses_of_azure_that_cannot_be(given: tuple[Any, Any, Any], error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        azure_address(*given)
    assert "secret7" not in str(caught.value)


def test_addresses_of_openais_interface() -> None:
    for ending in ("", "/", "/chat/completions", "/chat/completions/"):
        assert openai_address("base_url", f"http://127.0.0.1:8000/v1{ending}") == "http://127.0.0.1:8000/v1"
    assert openai_address("base_url", "http://h/v1/embeddings", EMBEDDINGS) == "http://h/v1"
    for ending in ("/completions", "/embeddings", "/responses"):
        with pytest.raises(InputError, match=f"base_url must end before the operation.*but ends in {ending}"):
            openai_address("base_url", f"http://h/v1{ending}")
    with pytest.raises(InputError, match="ends in /chat/completions"):
        openai_address("base_url", "http://h/v1/chat/completions", EMBEDDINGS)
    with pytest.raises(InputError, match="is of a deployment of Azure: give it as azure_endpoint"):
        OpenAIJudge("gpt", base_url=f"{HOST}/openai/deployments/gpt/chat/completions?api-version=1")


def test_pasted_addresses_are_asked_at_the_right_path(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a-key")
    with ChatServer(lambda request: completion("4")) as server:
        of_deployment = f"{server.root}/openai/deployments/gpt/chat/completions?api-version=2025-01-01-preview"
        assert ask(AzureOpenAIJudge(endpoint=of_deployment)).ok
        assert ask(AzureOpenAIJudge("gpt", endpoint=f"{server.root}/openai/v1", api_version="preview")).ok
        assert ask(OpenAIJudge("gpt", base_url=f"{server.url}/chat/completions")).ok
    assert [request.path for request in server.requests] == [
        "/openai/deployments/gpt/chat/completions?api-version=2025-01-01-preview",
        "/openai/v1/chat/completions?api-version=preview",
        "/v1/chat/completions",
    ]
    assert server.requests[0].headers["api-key"] == "a-key"
    assert server.requests[1].headers["authorization"] == "Bearer a-key"


def test_organization_and_further_headers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("GATEWAY_KEY", "secret-of-the-gateway")
    headers = {"X-Team": "evaluation", "Ocp-Apim-Subscription-Key": "${env:GATEWAY_KEY}", "X-Plain": "another-secret"}
    options = {"organization": "org-7", "extra_headers": headers}
    with ChatServer(
        lambda request: failure(403, "not secret-of-the-gateway, another-secret") if request.number else "4"
    ) as server:
        judge = OpenAIJudge("m", base_url=server.url, **options)
        assert ask(judge).ok
        refused = ask(judge)
    request = server.requests[0]
    assert request.headers["openai-organization"] == "org-7" and request.headers["x-team"] == "evaluation"
    assert request.headers["ocp-apim-subscription-key"] == "secret-of-the-gateway"
    assert refused.status is Status.BAD_REQUEST and "not ***, ***" in refused.error
    assert "secret" not in repr(vars(judge)) + repr(judge.identity)
    with pytest.raises(InputError, match=r"extra_headers\['X-Team'\] stays in its process"):
        pickle.dumps(judge)
    del headers["X-Team"], headers["X-Plain"]
    again = pickle.loads(pickle.dumps(OpenAIJudge("m", base_url=server.url, extra_headers=headers)))
    monkeypatch.delenv("GATEWAY_KEY")
    missing = ask(again)
    assert missing.status is Status.UNAUTHORIZED
    assert "variable GATEWAY_KEY must hold the header Ocp-Apim-Subscription-Key but is not set" in missing.error


def test_a_gateway_may_want_a_scheme_of_its_own() -> None:
    pytest.importorskip("openai")
    with ChatServer(lambda request: completion("4")) as server:
        assert ask(OpenAIJudge("m", base_url=server.url, extra_headers={"Authorization": "Basic dTpwdw=="})).ok
    assert server.requests[0].headers["authorization"] == "Basic dTpwdw=="


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"Host": "h"}, "has 'Host', which the client sets itself"),
        ({"a b": "c"}, "must have names of headers but has another"),
        ({7: "c"}, "must have names of headers but has another"),
        ({"x-team": "secret\n"}, r"extra_headers\['x-team'\] must be a text of printable ASCII"),
        ({"x-team": 7}, r"extra_headers\['x-team'\] must be a text of printable ASCII"),
        ({"Authorization": "Bearer secret"}, "must not have 'Authorization' beside a key or token"),
    ],
)
def test_headers_that_cannot_be(headers: Any, error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        OpenAIJudge("m", base_url="http://127.0.0.1/v1", api_key_env="MY_KEY", extra_headers=headers)
    assert "secret" not in str(caught.value)
    with pytest.raises(InputTypeError, match="extra_headers must be Mapping"):
        OpenAIJudge("m", base_url="http://127.0.0.1/v1", extra_headers=["x"])  # type: ignore[arg-type]


def test_the_key_of_azure_is_no_further_header() -> None:
    with pytest.raises(InputError, match="extra_headers must not have 'api-key'"):
        AzureOpenAIJudge("gpt", endpoint=HOST, extra_headers={"api-key": "secret"})
    with pytest.raises(InputError, match="organization must be a name but got 7"):
        AzureOpenAIJudge("gpt", endpoint=HOST, organization=7)
