"""The library of evaluators: versions of built-ins, prompts and functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from valor_gpu.errors import InputError
from valor_gpu.evaluation.engine.metrics import resolve_evaluators
from valor_gpu.evaluation.evaluators import saved as library
from valor_gpu.evaluation.evaluators.base import evaluator
from valor_gpu.evaluation.evaluators.custom import custom_evaluator
from valor_gpu.evaluation.prompts.prompt_files import TemplateMetric, prompt_evaluator
from valor_gpu.store import Store

pytest.importorskip("jinja2")
ROW = {"answer": "The cat", "ground_truth": "the cat"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_library_code.py"
    path.write_text("def words(answer):\n    return len(answer.split())\n")
    yield path
    sys.modules.pop("my_library_code", None)


def test_a_builtin_with_parameters(store: Store) -> None:
    saved = library.save_evaluator(store, "same", "exact_match", "first", parameters={"ignore_case": True})
    assert (saved.number, saved.note) == (1, "first")
    assert (
        library.save_evaluator(store, "same", evaluator("exact_match", ignore_case=True)).number == 1
    )  # nothing is new
    library.save_evaluator(store, "same", "exact_match")
    first, newest = library.saved_evaluator(store, "same@1"), library.saved_evaluator(store, "same")
    assert first.name == newest.name == "same" and first.summary_name == "mean_same"  # type: ignore[union-attr]
    assert [each.score_rows([ROW])[0].value for each in (first, newest)] == [1.0, 0.0]  # type: ignore[union-attr]
    assert library.saved_evaluator(store, f"same@{saved.hash[:8]}").version == first.version  # type: ignore[union-attr]
    assert library.pinned_name(store, "same") == "same@2" and library.find_version(store, "same@1").note == "first"


def test_a_judged_builtin_keeps_its_kind_and_takes_the_task_of_the_run(store: Store) -> None:
    library.save_evaluator(store, "gore", "violence")
    (found,) = resolve_evaluators(["gore"], "chat", store=store)
    assert (found.name, found.kind, found.source, found.origin) == ("gore", "safety", "library", "gore@1")
    assert found.tool.task == "chat"  # type: ignore[union-attr]


def test_a_prompt_by_text_file_or_metric(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tone.md").write_text("Rate {{answer}}")
    saved = library.save_evaluator(store, "tone", tmp_path / "tone.md", parameters={"scale": [0, 3]})
    assert saved.content["prompt"] == "Rate {{answer}}" and saved.content["parameters"] == {"scale": [0, 3]}
    made = library.saved_evaluator(store, "tone")
    assert isinstance(made, TemplateMetric) and (made.low, made.high) == (0, 3)
    metric = prompt_evaluator("Rate\n{{answer}}", name="other", choices={"a": 0, "b": 1})
    assert library.save_evaluator(store, "tone", metric).number == 2
    (tmp_path / "tone.md").unlink()
    assert "-    Rate {{answer}}\n+    Rate\n+    {{answer}}" in store.evaluators.diff("tone", 1)
    assert store.evaluators.restore("tone", 1).number == 3
    assert library.saved_evaluator(store, "tone").version == made.version
    assert library.saved_evaluator(store, "tone@2").choices == {"a": 0.0, "b": 1.0}  # type: ignore[union-attr]
    (found,) = resolve_evaluators(["tone@2"], store=store)
    assert (found.kind, found.source, found.origin) == ("prompt", "library", "tone@2")


def test_a_function_whose_code_has_changed_is_an_error(store: Store, code: Path) -> None:
    saved = library.save_evaluator(store, "length_in_words", "my_library_code:words", parameters={"low": 0, "high": 9})
    assert "answer.split()" in saved.content["source"]
    made = library.saved_evaluator(store, "length_in_words")
    assert made.score_rows([ROW])[0].value == 2.0 and made.high == 9  # type: ignore[union-attr]
    code.write_text("def words(answer):\n    return 1 + len(answer.split())\n")
    del sys.modules["my_library_code"]
    with pytest.raises(InputError, match="my_library_code:words has changed: save a new version"):
        library.saved_evaluator(store, "length_in_words")
    assert library.save_evaluator(store, "length_in_words", "my_library_code:words").number == 2
    assert library.saved_evaluator(store, "length_in_words").score_rows([ROW])[0].value == 3.0  # type: ignore[union-attr]


def test_the_list_says_what_is_ready(store: Store, code: Path) -> None:
    library.save_evaluator(store, "same", "exact_match", "a note")
    library.save_evaluator(store, "words", "my_library_code:words")
    code.unlink()
    del sys.modules["my_library_code"]
    entries = {each["name"]: each for each in library.evaluator_entries(store)}
    assert entries["f1_score"]["source"] == "builtin" and entries["f1_score"]["version"] is None
    assert entries["same"]["status"] == "ready" and entries["same"]["requires"] == ["answer", "ground_truth"]
    assert (entries["same"]["version"], entries["same"]["note"]) == (1, "a note")
    assert "there is no 'my_library_code'" in entries["words"]["status"]
    assert {each["source"] for each in library.evaluator_entries()} == {"builtin"}


@pytest.mark.parametrize(
    ("name", "what", "parameters", "error"),
    [
        ("f1_score", "exact_match", {}, "name must differ from those of the table of evaluators"),
        ("a b", "exact_match", {}, "name must be letters"),
        ("a@2", "exact_match", {}, "name must not have '@'"),
        ("a", "exact_matc", {}, "must be the name of a built-in one, a prompt file"),
        ("a", "exact_match", {"colour": 1}, "must get parameters of"),
        ("a", lambda answer: 1.0, {}, "must be a function of a module"),
        ("a", "Rate {{answer}}", {"colour": 1}, "parameters of a prompt must be of scale"),
        ("a", "json:dumps", {"colour": 1}, "parameters of a function must be of low, high"),
        ("a", "no/such.prompty", {}, "cannot be read: No such file"),
        ("a", "gpt_relevance", {"prompts": "folder"}, "the files of a folder may change"),
        ("a", 5, {}, "or a function but got int"),
        ("a", custom_evaluator(lambda answer: 1.0, "x"), {}, "but got CustomEvaluator"),
    ],
)
def test_what_cannot_be_saved_is_said_and_nothing_is(
    store: Store, name: str, what: object, parameters: dict[str, object], error: str
) -> None:
    with pytest.raises(InputError, match=error):
        library.save_evaluator(store, name, what, parameters=parameters)
    assert store.evaluators.list() == []


def test_what_is_not_there_is_said(store: Store) -> None:
    library.save_evaluator(store, "same", "exact_match")
    for name, error in (("other", "no evaluator 'other' in the store"), ("same@2", "it has versions 1"),
                        ("same@", "must be named as name@3"), ("same@xyz", "at least 8 digits of a hash")):  # fmt: skip
        with pytest.raises(InputError, match=error):
            library.saved_evaluator(store, name)
    store.evaluators.save("old", {"prompt": "x"})
    with pytest.raises(InputError, match="must be saved by save_evaluator but its kind is None"):
        library.saved_evaluator(store, "old")
