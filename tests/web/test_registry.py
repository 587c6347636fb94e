"""The file of what forms can choose: every wrong entry is named, and no key by value is taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from valor_gpu.errors import InputError
from valor_gpu.web.registry import load_registry, read_registry
from valor_gpu.web.wizard.copies import _embedding_of, _is_judge

LOCAL = {"model": "large", "base_url": "http://127.0.0.1:8000/v1"}
GOOD = {
    "targets": {
        "plain": "json:dumps",
        "model": {"use": {**LOCAL, "prompt": "{{ question }}"}, "about": "cold", "variants": {"a": {"top_k": 1}}},
        "address": {"url": "http://127.0.0.1:9", "headers": {"Authorization": "Bearer ${env:SHOP_KEY}"}},
    },
    "judges": {"local": {**LOCAL, "api_key_env": "JUDGE_KEY", "prices": {"prompt": 1, "completion": 2}}},
    "evaluators": {"as_json": "json:dumps"},
}


def test_a_file_in_yaml_or_json(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(json.dumps(GOOD))  # JSON is YAML
    found = load_registry(tmp_path / "a.yaml")
    assert found.targets["plain"] == {"use": "json:dumps", "variants": {}, "about": ""}
    assert found.targets["model"]["variants"] == {"a": {"top_k": 1}}
    assert found.judges == GOOD["judges"]
    assert found.evaluators == {"as_json": "json:dumps"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"judge": {}}, "'judge' is none of targets, judges, evaluators, embeddings, folders; did you mean 'judges'?"),
        ({"judges": []}, "judges must be a mapping of names but is list"),
        ({"judges": {"a": {"base_url": "http://x"}}}, "judges.a: it must name the model"),
        ({"judges": {"a": {**LOCAL, "modle": 1}}}, "judges.a: 'modle' is none of"),
        ({"judges": {"a": {**LOCAL, "api_key": "abc"}}}, "judges.a: api_key has a secret by value"),
        ({"judges": {"a": {**LOCAL, "model": "sk-abcdefghijklmnopqrst"}}}, "judges.a: model has a secret by value"),
        ({"judges": {"a": {**LOCAL, "prices": {"prompt": 1}}}}, "judges.a: prices must have 'prompt' and 'completion'"),
        ({"targets": {"a": "shop answer"}}, "targets.a: it must be 'module:function', an address"),
        ({"targets": {"a": "json:dump_all"}}, "targets.a: target must be an object of json"),
        ({"targets": {"a": {"use": "json:dumps", "variant": {}}}}, "targets.a: 'variant' is none of use, variants"),
        ({"targets": {"a": {"use": "json:dumps", "variants": {"b": 1}}}}, "targets.a: variants must have names"),
        ({"targets": {"a": {"url": "http://x", "headers": {"x-api-key": "abc"}}}}, "x-api-key has a secret by value"),
        ({"evaluators": {"a": "none.such:name"}}, "evaluators.a: evaluator must be in a module"),
        ({"evaluators": {"a": 3}}, "evaluators.a: it must be 'module:function'"),
        ({"embeddings": {"a": {"base_url": "http://x"}}}, "embeddings.a: it must name the model"),
        ({"embeddings": {"a": {**LOCAL, "temperature": 1}}}, "embeddings.a: 'temperature' is none of model"),
        ({"embeddings": {"a": {**LOCAL, "api_key": "abc"}}}, "embeddings.a: api_key has a secret by value"),
        ({"folders": {"a": "/no/such/folder"}}, "folders.a: it must be a folder that exists"),
        ({"evaluators": {"": "json:dumps"}}, "a name must be a text of 1 to 100 characters"),
    ],
)
def test_every_wrong_entry_is_named(found: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match="registry must have entries that can be used") as error:
        read_registry({"wrong": {}, **found})
    assert message in str(error.value)
    assert "'wrong' is none of targets" in str(error.value)


def test_keys_by_value_are_not_repeated() -> None:
    with pytest.raises(InputError, match="secret by value") as error:
        read_registry({"judges": {"a": {**LOCAL, "api_key": "hunter2-hunter2"}}})
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("address", ["https://h", "https://h/openai/deployments/large/chat/completions?api-version=1"])
def test_a_copy_finds_its_judge_and_embeddings_by_pasted_addresses(address: str) -> None:
    place = {"azure_endpoint": address, "azure_deployment": "large", "credential": "default"}
    registry = read_registry({"judges": {"a": place}, "embeddings": {"b": place}})
    run = {"kind": "azure", "model": "large", "base_url": "https://h", "dimensions": None}
    assert _is_judge(registry.judges["a"], run) and _embedding_of(run, registry) == "b"
    other = {**run, "base_url": "https://other"}
    assert not _is_judge(registry.judges["a"], other) and not _embedding_of(other, registry)
