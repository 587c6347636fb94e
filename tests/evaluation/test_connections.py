"""Entra ID, pasted addresses and headers in runs, targets, embeddings, files and commands."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, Request, completion, failure
from valor_gpu.cli import BAD_INPUT, main
from valor_gpu.errors import InputError
from valor_gpu.evaluation.models import connection_facts, embed_from_config, identity_of, judge_from_config
from valor_gpu.evaluation.run import evaluate, rescore_run, resume_run
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge import AzureOpenAIJudge, OpenAIJudge
from valor_gpu.store import Store
from valor_gpu.web.registry import read_registry
from valor_gpu.web.wizard.connection import connection_of
from valor_gpu.web.wizard.same_run import host_of

pytest.importorskip("openai")
TOKEN = "eyJ0.a-token-of-mine"
HOST = "https://name.openai.azure.com"
PLACE = {"azure_endpoint": HOST, "azure_deployment": "gpt"}
LOCAL = {"model": "m", "base_url": "http://127.0.0.1/v1"}
ROWS = [{"question": f"question {n}", "answer": f"answer {n}", "ground_truth": f"answer {n}"} for n in range(3)]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN",
                 "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


class Credential:
    def __init__(self, lasts: float = 3600.0) -> None:
        self.asked, self.lasts = 0, lasts

    def get_token(self, *scopes: str, **options: Any) -> Any:
        self.asked += 1
        return SimpleNamespace(token=f"{TOKEN}-{self.asked}", expires_on=time.time() + self.lasts)


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Credential]]:
    """The package azure-identity, with the credentials that it has made."""
    made: list[Credential] = []
    module = ModuleType("azure.identity")
    module.DefaultAzureCredential = lambda: made.append(Credential()) or made[-1]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "azure", ModuleType("azure"))
    monkeypatch.setitem(sys.modules, "azure.identity", module)
    yield made


def respond(request: Request) -> Answer:
    if "/embeddings" in request.path:
        return Answer(body={"data": [{"index": i, "embedding": [1.0, 2.0]} for i in range(len(request.body["input"]))]})
    return completion('{"reason": "reads well", "score": 4}')


def sent(server: ChatServer) -> set[str | None]:
    return {request.headers.get("authorization") for request in server.requests}


def made(config: Any) -> Any:
    return judge_from_config(config, secrets=Secrets())


@pytest.mark.parametrize(
    ("config", "kind", "facts"),
    [
        ({**PLACE, "azure_ad_token": TOKEN}, "azure", {"key_by_value": True, "credential": "a token"}),
        ({**PLACE, "azure_ad_token_env": "MY_TOKEN"}, "azure", {"azure_ad_token_env": "MY_TOKEN"}),
        ({**PLACE, "azure_ad_token_provider": lambda: TOKEN}, "azure",
         {"key_by_value": True, "credential": "a function"}),
        ({**PLACE, "credential": Credential()}, "azure", {"key_by_value": True, "credential": "Credential"}),
        ({**PLACE, "credential": "default"}, "azure", {"credential": "default"}),
        ({**PLACE, "credential": True, "api_key": None}, "azure", {"credential": "default"}),
        ({"azure_endpoint": HOST, "model": "gpt", "credential": "default"}, "azure", {"credential": "default"}),
        ({"base_url": f"{HOST}/openai/v1", "model": "gpt", "credential": "default"}, "openai",
         {"credential": "default"}),
        (SimpleNamespace(**PLACE, api_version=None, api_key=None, credential=Credential()), "azure",
         {"key_by_value": True, "credential": "Credential"}),
        ({**PLACE, "api_key": "k-by-value", "organization": "org-7"}, "azure",
         {"key_by_value": True, "organization": "org-7"}),
        ({**PLACE, "api_key": "k-by-value", "credential": None, "azure_ad_token_provider": None}, "azure",
         {"key_by_value": True}),
        ({**LOCAL, "extra_headers": {"X-Team": "a", "X-Key": "${env:MY_TOKEN}"}}, "openai",
         {"extra_headers": {"X-Team": "a", "X-Key": "${env:MY_TOKEN}"}}),
        ({**LOCAL, "extra_headers": {"X-Key": "a-secret-value"}}, "openai",
         {"extra_headers": {"X-Key": "***"}, "key_by_value": True}),
    ],
)  # fmt: skip
def test_how_a_judge_is_reached_and_what_is_kept_of_it(
    config: Any, kind: str, facts: dict[str, Any], identity: list[Credential], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    judge = made(config)
    assert judge.identity["kind"] == kind and connection_facts(judge) == facts
    assert type(judge) is (AzureOpenAIJudge if kind == "azure" else OpenAIJudge)
    assert TOKEN not in repr(connection_facts(judge)) + repr(vars(judge)) + repr(judge.identity)


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({**PLACE, "azure_ad_token": TOKEN, "api_key": "k"}, "must have 'api_key' or 'azure_ad_token' but has both"),
        ({**PLACE, "credential": Credential(), "api_key_env": "A"}, "must have 'api_key_env' or 'credential' but has"),
        ({**PLACE, "azure_ad_token": TOKEN, "credential": "default"}, "one of 'azure_ad_token' and 'credential'"),
        ({**PLACE, "azure_ad_token": None}, r"\['azure_ad_token'\] must be a text but is None: is the environment"),
        ({**PLACE, "azure_ad_token": "${env:NOT_THERE_7}"}, "needs the environment variable NOT_THERE_7"),
        ({**PLACE, "azure_ad_token_env": "NOT_THERE_7"}, "variable NOT_THERE_7 is not set: set it, or name another"),
        ({**PLACE, "credential": "managed"}, r"model_config\['credential'\] must be 'default' or an object"),
        (PLACE, "AZURE_OPENAI_API_KEY is not set: set it, name another by 'api_key_env', or give 'credential'"),
        ({"model": "m", "azure_ad_token": TOKEN}, "must have 'azure_endpoint' and 'azure_deployment', or a 'base_url'"),
        ({"model": "m", "base_url": "https://api.openai.com/v1", "azure_ad_token": TOKEN}, "must be of Azure OpenAI"),
        ({**PLACE, "azure_endpoint": f"{HOST}/openai/deployments/other", "api_key": "k"},
         "azure_endpoint must be of the deployment 'gpt' but is of 'other'"),
        ({**PLACE, "azure_endpoint": f"{HOST}/openai/deployments/gpt/embeddings", "api_key": "k"}, "ends in '/embedd"),
        ({**PLACE, "api_key": "k", "extra_headers": {"X-Key": "${env:NOT_THERE_7}"}},
         r"extra_headers\['X-Key'\] needs the environment variable NOT_THERE_7"),
        ({**PLACE, "azure_ad_tokens": "x"}, "must not have 'azure_ad_tokens'; did you mean 'azure_ad_token'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_without_the_token(config: Any, error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        made(config)
    assert TOKEN not in str(caught.value)


def test_pasted_addresses_name_the_deployment() -> None:
    pasted = f"{HOST}/openai/deployments/gpt/chat/completions?api-version=2025-01-01-preview"
    for config in ({"azure_endpoint": pasted}, {"base_url": pasted}, {"base_url": pasted, "model": "gpt"}):
        judge = made({**config, "api_key": "k-by-value"})
        assert type(judge) is AzureOpenAIJudge
        assert (judge.base_url, judge.model, judge.api_version) == (HOST, "gpt", "2025-01-01-preview")
    assert made({**PLACE, "api_key": "k-by-value", "api_version": None}).api_version == "2024-10-21"
    assert made({"model": "m", "base_url": "http://127.0.0.1/v1/chat/completions"}).base_url == "http://127.0.0.1/v1"


def test_a_run_by_a_credential_keeps_no_token_and_is_resumed_with_it(tmp_path: Path) -> None:
    credential = Credential(lasts=1.0)  # so that every request has a token of its own
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def quoting(request: Request) -> Answer:
        return failure(403, f"not {request.headers['authorization']}") if request.number == 1 else respond(request)

    with ChatServer(quoting) as server, Store(tmp_path / "store.sqlite") as store:
        config = {"azure_endpoint": server.root, "azure_deployment": "gpt", "credential": credential}
        options = {"metrics_list": ["gpt_fluency"], "store": store, "max_concurrency": 1}
        result = evaluate(data=str(data), model_config=config, output_path=tmp_path / "out", **options)
        assert credential.asked == len(server.requests) == len(sent(server)) == 3
        assert [each["error"] for each in result.errors] == ["HTTP 403: Error code: 403 - not Bearer ***"]
        run = store.run(result.run_id)
        assert run.config["judge"]["credential"] == "Credential" and run.config["judge"]["base_url"] == server.root
        with pytest.raises(InputError, match="its credential, Credential, was given by value and is not stored"):
            rescore_run(store, result.run_id, metrics_list=["gpt_coherence"])
        again = rescore_run(store, result.run_id, metrics_list=["gpt_coherence"], model_config=config)
        assert again.metrics_summary["mean_gpt_coherence"] == 4.0
        assert resume_run(store, result.run_id, model_config=config).state == "finished"
    kept = [*tmp_path.glob("store.sqlite*"), *(tmp_path / "out").iterdir()]
    assert not [file for file in kept if TOKEN.encode() in file.read_bytes()]


def test_the_default_credential_is_kept_by_its_name(tmp_path: Path, identity: list[Credential]) -> None:
    with ChatServer(respond) as server, Store(tmp_path / "store.sqlite") as store:
        config = {"azure_endpoint": server.root, "azure_deployment": "gpt", "credential": "default"}
        embedding = {**config, "azure_deployment": "ada", "azure_endpoint": f"{server.root}/openai/v1"}
        result = evaluate(
            data=ROWS, target={**config, "prompt": "{{ question }}"}, metrics_list=["gpt_fluency", "ada_similarity"],
            model_config=config, embedding_config=embedding, store=store,
        )  # fmt: skip
        assert result.metrics_summary["mean_gpt_fluency"] == 4.0
        assert result.metrics_summary["mean_ada_similarity"] == pytest.approx(1.0)
        stored = store.run(result.run_id).config
        assert stored["judge"]["credential"] == stored["embedding"]["credential"] == "default"
        assert stored["target"]["credential"] == "default" and stored["target"]["masked"] is False
        again = rescore_run(store, result.run_id, metrics_list=["gpt_coherence"])
        assert again.metrics_summary["mean_gpt_coherence"] == 4.0
    assert sent(server) == {f"Bearer {TOKEN}-1"} and all(each.asked <= 1 for each in identity)
    paths = {request.path.partition("?")[0] for request in server.requests}
    assert paths == {"/openai/deployments/gpt/chat/completions", "/openai/v1/embeddings"}


def test_a_target_with_an_object_as_credential_is_given_again(tmp_path: Path) -> None:
    with ChatServer(respond) as server, Store(tmp_path / "store.sqlite") as store:
        target = {"azure_endpoint": server.root, "azure_deployment": "gpt", "credential": Credential()}
        result = evaluate(data=ROWS, target=target, metrics_list=["f1_score"], store=store)
        assert sent(server) == {f"Bearer {TOKEN}-1"} and not result.errors
        stored = store.run(result.run_id).config["target"]
        assert stored["masked"] is True and "credential" not in stored
        with pytest.raises(InputError, match="had an object as credential or had a secret by value: pass target="):
            resume_run(store, result.run_id)
        assert resume_run(store, result.run_id, target=target).state == "finished"


def test_embeddings_renew_a_rejected_token() -> None:
    def second(request: Request) -> Answer:
        is_new = request.headers.get("authorization") == f"Bearer {TOKEN}-2"
        return respond(request) if is_new else failure(401, "the token has expired")

    with ChatServer(second) as server:
        config = {"azure_endpoint": server.root, "azure_deployment": "ada", "credential": Credential()}
        embed = embed_from_config(config, secrets=Secrets())
        assert embed(["a", "b"]).tolist() == [[1.0, 2.0], [1.0, 2.0]] and len(server.requests) == 2
    found = identity_of(embed)
    assert found is not None and found["credential"] == "Credential" and TOKEN not in repr(found)


def test_a_stored_model_of_embeddings_is_asked_again_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with ChatServer(respond) as server, Store(tmp_path / "store.sqlite") as store:
        address = f"{server.root}/openai/deployments/ada/embeddings?api-version=2"
        config = {"azure_endpoint": address, "azure_ad_token_env": "MY_TOKEN"}
        data = tmp_path / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        result = evaluate(data=str(data), metrics_list=["f1_score"], embedding_config=config, store=store)
        assert not server.requests
        again = rescore_run(store, result.run_id, metrics_list=["ada_similarity"])
        assert again.metrics_summary["mean_ada_similarity"] == pytest.approx(1.0)
    assert server.requests[0].path == "/openai/deployments/ada/embeddings?api-version=2"
    assert sent(server) == {f"Bearer {TOKEN}"}


def test_a_command_signs_in_by_name(
    tmp_path: Path, identity: list[Credential], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_TOKEN", f"{TOKEN}-of-the-variable")
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    run = ["eval", "run", "--data", str(data), "--metrics", "gpt_fluency", "--store", str(tmp_path / "s.sqlite")]
    with ChatServer(respond) as server:
        place = ["--azure-endpoint", server.root, "--azure-deployment", "gpt"]
        assert main([*run, *place, "--credential", "default"]) == 0
        assert sent(server) == {f"Bearer {TOKEN}-1"}
        file = tmp_path / "judge.json"
        file.write_text(json.dumps({"azure_endpoint": server.root, "azure_deployment": "gpt", "credential": "default"}))
        assert main([*run, "--model-config", str(file), "--azure-ad-token-env", "MY_TOKEN"]) == 0
        assert sent(server) == {f"Bearer {TOKEN}-1", f"Bearer {TOKEN}-of-the-variable"}
    assert main([*run, *place, "--credential", "default", "--azure-ad-token-env", "MY_TOKEN"]) == BAD_INPUT
    shown = capsys.readouterr()
    assert "--azure-ad-token-env must not go with --credential" in shown.err and TOKEN not in shown.out + shown.err


def test_the_registry_of_studio_signs_in_by_name(identity: list[Credential]) -> None:
    with ChatServer(respond) as server:
        place = {"azure_endpoint": server.root, "azure_deployment": "gpt", "credential": "default"}
        registry = read_registry({"judges": {"entra": place}, "embeddings": {"ada": place}})
        assert connection_of(registry, "entra").is_good
        assert sent(server) == {f"Bearer {TOKEN}-1"}
    for kind, entry, error in (
        ("judges", {**PLACE, "azure_ad_token": TOKEN}, "azure_ad_token has a secret by value: name an environment"),
        ("judges", {**PLACE, "credential": "managed"}, "credential has a secret by value"),
        ("embeddings", {**PLACE, "azure_ad_token_provider": 7}, "'azure_ad_token_provider' is none of"),
        ("embeddings", {"azure_endpoint": HOST}, "must name the model by 'model' or 'azure_deployment'"),
    ):
        with pytest.raises(InputError, match=error):
            read_registry({kind: {"a": entry}})


def test_the_host_that_gets_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert host_of(PLACE) == host_of({"api_base": HOST}) == "name.openai.azure.com"
    assert host_of({"model": "m"}) == "api.openai.com" and host_of({"azure_deployment": "gpt"}) == "Azure"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", HOST)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    assert (
        host_of({"azure_deployment": "gpt"}) == "name.openai.azure.com" and host_of({"model": "m"}) == "127.0.0.1:8000"
    )
