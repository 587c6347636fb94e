"""Judges and embedders out of configurations, old and new."""

from __future__ import annotations

import asyncio
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from tests.judge.server import Answer, ChatServer, completion, failure
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.models import embed_from_config, identity_of, judge_from_config, prices_of
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge import AzureOpenAIJudge, CallableJudge, JudgeError, OpenAIJudge, Prices

KEY = "sk-by-value-12345"
AZURE = {
    "api_version": "2023-05-15",
    "api_base": "https://name.openai.azure.com/",
    "api_type": "azure",
    "api_key": KEY,
    "deployment_id": "gpt",
}
MESSAGES = [{"role": "user", "content": "rate"}]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT",
                 "OPENAI_API_VERSION"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def made(config: Any) -> Any:
    return judge_from_config(config, secrets=Secrets())


def ask(judge: Any) -> Any:
    async def main() -> Any:
        try:
            return await judge(MESSAGES)
        finally:
            await judge.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize(
    "config",
    [
        AZURE,
        {**AZURE, "api_type": "AZURE"},
        {key: value for key, value in AZURE.items() if key != "api_type"},
        {"azure_endpoint": "https://name.openai.azure.com", "azure_deployment": "gpt", "api_version": "2023-05-15",
         "api_key": KEY},
        {"type": "azure_openai", "azure_endpoint": "https://name.openai.azure.com", "azure_deployment": "gpt",
         "api_version": "2023-05-15", "api_key": KEY},
        SimpleNamespace(api_base="https://name.openai.azure.com", deployment_name="gpt", model_name="gpt", api_key=KEY,
                        api_version="2023-05-15", model_kwargs={}),
    ],
)  # fmt: skip
def test_the_ways_to_say_a_deployment_of_azure(config: Any) -> None:
    secrets = Secrets()
    judge = judge_from_config({**config} if isinstance(config, dict) else config, secrets=secrets)
    assert isinstance(judge, AzureOpenAIJudge) and judge.model == "gpt" and judge.api_version == "2023-05-15"
    assert judge.base_url == "https://name.openai.azure.com"
    assert secrets.mask(f"x {KEY}") == "x ***" and KEY not in repr(vars(judge)) + repr(judge.identity)


def test_a_compatible_server_and_its_parameters() -> None:
    judge = made({"base_url": "http://127.0.0.1:8000/v1", "model": "qwen", "temperature": None, "seed": 3})
    assert type(judge) is OpenAIJudge and judge.api_key_env is None
    assert judge.identity["parameters"] == {"max_tokens": 1024, "seed": 3}
    assert made({"api_base": "http://127.0.0.1:8000/v1", "model": "q", "api_type": "openai"}).model == "q"


def test_objects_that_are_judges_pass() -> None:
    assert isinstance(made(lambda messages: "4"), CallableJudge)
    judge = OpenAIJudge("m", base_url="http://127.0.0.1/v1")
    assert made(judge) is judge


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({**AZURE, "api_key": None}, r"model_config\['api_key'\] must be a text but is None: is the environment"),
        (SimpleNamespace(model="m", api_key=None), r"model_config\['api_key'\] must be a text but is None"),
        ({**AZURE, "deployment_id": None}, r"model_config\['deployment_id'\] must be a text but is None"),
        ({**AZURE, "api_key": " "}, r"model_config\['api_key'\] must be a text but is empty"),
        ({**AZURE, "api_key": 5}, r"model_config\['api_key'\] must be a text but is of type int"),
        ({**AZURE, "api_key_env": "A"}, "must have 'api_key' or 'api_key_env' but has both"),
        ({**AZURE, "azure_deployment": "other"}, "has 'azure_deployment' and 'deployment_id', which differ"),
        ({**AZURE, "deployment": "gpt", "modle": "m"}, "must not have 'modle'; did you mean 'model'"),
        ({**AZURE, "api_type": "bard"}, "must have the type 'azure' or 'openai' but has 'bard'"),
        ({"base_url": "http://127.0.0.1/v1"}, "must name the model by 'model' but does not"),
        ({"model": "m"}, "needs an API key, but the environment variable OPENAI_API_KEY is not set"),
        ({"model": "m", "api_key_env": "NOT_THERE_7"}, "environment variable NOT_THERE_7 is not set"),
        ({"model": "m", "api_key": "${env:NOT_THERE_7}"}, "needs the environment variable NOT_THERE_7"),
        ({"azure_deployment": "m", "azure_endpoint": "https://h", "api_key": KEY, "api_version": ["2"]},
         r"model_config\['api_version'\] must be a text but is of type list"),
        ({**AZURE, "api_base": "https://u:pw@h"}, "must hold no user name or password"),
        ("gpt-4", "model_config must be a mapping or a judge but got str"),
        ({**AZURE, "api_key": "two words"}, "api_key must be printable ASCII without spaces"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_without_the_key(config: Any, error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        made(config)
    assert KEY not in str(caught.value) and "u:pw" not in str(caught.value)


def test_a_key_by_value_is_sent_and_stays_here() -> None:
    pytest.importorskip("openai")
    with ChatServer(lambda request: failure(400, f"bad header {request.headers['authorization']}")) as server:
        judge = made({"base_url": server.url, "model": "m", "api_key": KEY})
        with pytest.raises(JudgeError, match=r"HTTP 400: .*bad header Bearer \*\*\*") as caught:
            ask(judge)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(caught.value.__context__) + repr(caught.value.__cause__)
    with pytest.raises(InputError, match="name its environment variable by api_key_env"):
        pickle.dumps(judge)


def test_the_variable_of_a_key_is_a_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TEST_KEY", KEY)
    secrets = Secrets()
    judge = judge_from_config({"model": "m", "api_key_env": "MY_TEST_KEY"}, secrets=secrets)
    assert secrets.mask(KEY) == "***" and isinstance(judge, OpenAIJudge) and judge.api_key_env == "MY_TEST_KEY"
    other = Secrets()
    judge_from_config(judge, secrets=other)
    assert other.mask(KEY) == "***" and pickle.loads(pickle.dumps(judge)).model == "m"


def test_embedders_of_both_kinds() -> None:
    pytest.importorskip("openai")
    vectors = {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}
    with ChatServer(lambda request: Answer(body=vectors)) as server:
        plain = embed_from_config({"base_url": server.url, "model": "bge", "api_key": KEY}, secrets=Secrets())
        azure = embed_from_config(
            {"azure_endpoint": server.root, "azure_deployment": "ada", "api_version": "2", "api_key": KEY},
            secrets=Secrets(),
        )
        assert plain(["a"]).tolist() == azure(["a"]).tolist() == [[1.0, 2.0]]
    first, second = server.requests
    assert first.path == "/v1/embeddings" and first.headers["authorization"] == f"Bearer {KEY}"
    assert second.path.startswith("/openai/deployments/ada/embeddings?api-version=2")
    assert second.headers["api-key"] == KEY
    assert identity_of(azure) == {
        "kind": "AzureEmbedder", "model": "ada", "base_url": server.root, "api_version": "2", "dimensions": None,
        "key_by_value": True,
    }  # fmt: skip
    assert KEY not in repr(plain) + repr(identity_of(plain))

    def own(texts: list[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    assert embed_from_config(own, secrets=Secrets()) is own and identity_of(own)["name"].endswith("own")  # type: ignore[index]
    assert identity_of(None) is None
    with pytest.raises(InputError, match="embedding_config must not have 'temperature'"):
        embed_from_config({"model": "m", "temperature": 1}, secrets=Secrets())
    with pytest.raises(InputError, match="azure_endpoint must be an address"):
        embed_from_config({"azure_deployment": "m", "api_key": KEY}, secrets=Secrets())


def test_prices_by_model() -> None:
    flat = {"prompt": 1, "completion": 2.5}
    assert prices_of(flat, "m") == prices_of({"m": flat}, "m") == prices_of(Prices(1, 2.5), "m") == Prices(1, 2.5)
    assert prices_of(None, "m") is None and prices_of({"other": flat}, "m") is None and prices_of({}, "m") is None
    for wrong, error in (
        ({"prompt": 1}, "must have 'prompt' and 'completion'"),
        ({"prompt": -1, "completion": 0}, r"prices\['prompt'\] must be a number of at least 0 but got -1"),
        ({"prompt": True, "completion": 0}, "but got True"),
    ):
        with pytest.raises(InputError, match=error):
            prices_of(wrong, "m")
    with pytest.raises(InputTypeError, match="prices must be a mapping or Prices but got list"):
        prices_of([1], "m")


def test_a_reply_by_a_judge_of_a_configuration() -> None:
    pytest.importorskip("openai")
    with ChatServer(lambda request: completion("4")) as server:
        judge = made(
            {"api_type": "azure", "api_base": server.root, "deployment_id": "d", "api_version": "1", "api_key": KEY}
        )
        assert ask(judge).text == "4"
    assert server.requests[0].headers["api-key"] == KEY and "/deployments/d/" in server.requests[0].path
