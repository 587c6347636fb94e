"""The library of evaluators as a file."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.exchange import export_library, import_library
from valor_gpu.evaluation.evaluators.saved import save_evaluator, saved_evaluator
from valor_gpu.store import Store
from valor_gpu.store.evaluators import content_hash

PROMPTS = ["How polite is it? {{ answer }}\n", "How kind is it? {{ answer }}\n", "How polite is it? {{ answer }}\n"]


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    """A file with a prompt of three versions, the last like the first, and a built-in one with parameters."""
    with Store(tmp_path / "from.sqlite") as store:
        for prompt in PROMPTS:
            save_evaluator(store, "polite", prompt, "a note")
        save_evaluator(store, "same", "exact_match", parameters={"ignore_case": True})
        found: dict[str, Any] = json.loads(json.dumps(export_library(store)))
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "to.sqlite") as found:
        yield found


def version(data: dict[str, Any], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = data["evaluators"][0]["versions"][place]
    return found


def test_all_versions_come_over(data: dict[str, Any], store: Store) -> None:
    done = import_library(store, data)
    assert done.added == {"polite": 3, "same": 1} and not done.refused and not done.unchanged
    kept = store.evaluators.versions("polite")
    assert [each.hash for each in kept] == [each["hash"] for each in data["evaluators"][0]["versions"]]
    assert kept[1].note == "a note" and saved_evaluator(store, "polite@2").name == "polite"
    again = import_library(store, data)
    assert again.unchanged == ["polite", "same"] and not again.added and len(store.evaluators.versions("polite")) == 3


def test_missing_versions_are_added_and_others_refused(data: dict[str, Any], store: Store) -> None:
    save_evaluator(store, "polite", PROMPTS[0])
    save_evaluator(store, "same", "exact_match")
    done = import_library(store, data)
    assert done.added == {"polite": 2}
    assert "other versions" in done.refused["same"] and len(store.evaluators.versions("same")) == 1


def forged(change: str, data: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(data)
    if change == "content":
        version(made)["content"]["prompt"] = "Give 5. {{ answer }}\n"
    elif change == "number":
        version(made)["number"] = 2
    elif change == "name":
        made["evaluators"][0]["name"] = "f1_score"
    elif change == "at":
        made["evaluators"][0]["name"] = "polite@1"
    elif change == "note":
        version(made)["note"] = 3
    elif change == "versions":
        made["evaluators"][0]["versions"] = []
    elif change == "no name":
        made["evaluators"][0] = {"versions": [1]}
    else:
        contents: dict[str, dict[str, Any]] = {
            "code": {"kind": "function", "origin": "os:getcwd", "parameters": {}, "source": ""},
            "folder": {"kind": "builtin", "evaluator": "gpt_fluency", "parameters": {"prompts": "/etc"}},
            "prompt": {"kind": "prompt", "prompt": "no place\n", "parameters": {}},
            "parameters": {"kind": "prompt", "prompt": PROMPTS[0], "parameters": [1]},
            "kind": {"kind": "other"},
        }
        version(made)["content"] = contents[change]
        version(made)["hash"] = content_hash(contents[change])
    return made


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("content", "another content than its number and hash"),
        ("number", "another content than its number and hash"),
        ("name", "must differ from"),
        ("at", "must not have '@'"),
        ("note", "a note that is no text"),
        ("versions", "no versions"),
        ("no name", "no name"),
        ("code", "it is code"),
        ("folder", "named by a folder"),
        ("prompt", "must show something of the row"),
        ("parameters", "must be a mapping"),
        ("kind", "must be saved by save_evaluator"),
    ],
)
def test_one_bad_evaluator_is_refused_alone(data: dict[str, Any], store: Store, change: str, words: str) -> None:
    done = import_library(store, forged(change, data))
    (reason,) = done.refused.values()
    assert words in reason and done.added == {"same": 1}
    assert [each.name for each in store.evaluators.list()] == ["same"]


@pytest.mark.parametrize("data", [[], {"format": "other"}, {"format": "valor_gpu evaluators", "evaluators": 3}, "text"])
def test_other_files_are_errors(store: Store, data: Any) -> None:
    with pytest.raises(InputError, match="must be one of evaluators"):
        import_library(store, data)


def test_another_version_of_the_file_is_an_error(store: Store) -> None:
    with pytest.raises(InputError, match="must have version 1 but has 2"):
        import_library(store, {"format": "valor_gpu evaluators", "version": 2, "evaluators": []})
