"""Functions as targets: what they get, what they return, and every way to fail."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets import TargetAnswer, open_target, target_from_config
from valor_gpu.evaluation.targets.base import Target
from valor_gpu.judge import Usage

ROW = {"question": "2 + 2?", "context": "sums", "id": 7}


def opened(target: Any, **options: Any) -> Target:
    return open_target(target, secrets=options.pop("secrets", Secrets()), **options)


def answered(target: Any, row: Mapping[str, Any] = ROW, **options: Any) -> TargetAnswer:
    return asyncio.run(opened(target, **options).answer(row))


def question_only(question: str) -> str:
    """Echoes."""
    return f"to {question}"


class Bot:
    outputs = ("answer", "context")

    def __call__(self, question: str, context: str = "none") -> dict[str, Any]:
        return {"answer": question, "context": context}


def test_a_function_gets_the_parameters_that_it_accepts() -> None:
    def with_default(context: str, note: str = "no note", *, id: int = 0) -> str:
        return f"{context} {note} {id}"

    def everything(**fields: Any) -> dict[str, Any]:
        return fields

    async def later(question: str) -> str:
        await asyncio.sleep(0)
        return question

    assert answered(question_only).outputs == {"answer": "to 2 + 2?"}
    assert answered(with_default).outputs == {"answer": "sums no note 7"}
    assert answered(everything).outputs == ROW
    assert answered(later).outputs == {"answer": "2 + 2?"}
    assert answered(functools.partial(later)).outputs == {"answer": "2 + 2?"}
    assert answered(lambda question: later(question)).outputs == {"answer": "2 + 2?"}
    assert answered(Bot()).outputs == answered(Bot).outputs == {"answer": "2 + 2?", "context": "sums"}
    assert opened(with_default).accepts == {"context", "note", "id"} and opened(everything).accepts is None
    assert opened(Bot()).outputs == ("answer", "context")


def test_a_parameter_is_filled_by_the_only_column_of_its_field() -> None:
    assert answered(question_only, {"query": "q"}).outputs == {"answer": "to q"}
    target = opened(question_only)
    target.check_columns(["query"])
    target.check_columns(["question", "query"])
    with pytest.raises(
        InputError, match=r"^target question_only needs 'question', which no column gives; did you mean 'q"
    ):
        target.check_columns(["questio"])
    with pytest.raises(InputError, match="'question', which no column gives"):
        target.check_columns(["query", "queries"])


def test_a_parameter_is_filled_by_what_the_data_mapping_says_of_its_field() -> None:
    columns = ["q", "query", "c", "note"]
    target = opened(Bot())
    with pytest.raises(InputError, match="'question', which no column gives"):
        opened(Bot()).check_columns(["q"])
    mapping: Any = {"questions": "${data$q}", "contexts": "c", "answer": "${target.answer}", "x": 3, "y_test": "none"}
    target.map_columns(mapping, columns)
    target.check_columns(columns)
    row = {"q": "mapped", "query": "not this", "c": "there", "note": "n"}
    assert asyncio.run(target.answer(row)).outputs == {"answer": "mapped", "context": "there"}
    assert asyncio.run(target.answer({**row, "question": "named"})).outputs["answer"] == "named"


def test_a_missing_value_leaves_the_default() -> None:
    assert answered(Bot(), {"question": None, "context": None}).outputs == {"answer": None, "context": "none"}


def test_parameters_take_the_place_of_columns() -> None:
    found = answered(Bot(), parameters={"context": "given"})
    assert found.outputs["context"] == "given"
    with pytest.raises(InputError, match="must take the parameter 'contex' but does not; did you mean 'context'"):
        opened(Bot(), parameters={"contex": 1})


@pytest.mark.parametrize(
    ("returned", "outputs"),
    [
        ({"answer": np.float32(0.5), "n": np.int64(3), "x": float("nan")}, {"answer": 0.5, "n": 3, "x": None}),
        ([{"role": "user", "content": "a"}], {"messages": [{"role": "user", "content": "a"}]}),
        ("", {"answer": ""}),
        ("\ud800\x00", {"answer": "\ud800\x00"}),
    ],
)
def test_what_is_returned_becomes_strict_json(returned: Any, outputs: Any) -> None:
    assert answered(lambda: returned).outputs == outputs


@dataclass
class Found:
    answer: str
    documents: Any = ()


class Pair(NamedTuple):
    answer: str
    context: str


def test_objects_with_fields_are_outputs_by_name() -> None:
    assert answered(lambda: Found("a", [Found("b")])).outputs == {
        "answer": "a",
        "documents": [{"answer": "b", "documents": []}],
    }
    assert answered(lambda: Pair("a", "c")).outputs == {"answer": "a", "context": "c"}
    assert answered(lambda: {"answer": "a", "documents": [Found("b")]}).outputs["documents"][0]["answer"] == "b"
    assert "column 'documents' must be a value of JSON but is object" in answered(lambda: Found("a", object())).error
    loop = Found("a")
    loop.documents = loop
    assert "must have at most 100 levels" in answered(lambda: loop).error


def test_models_of_pydantic_are_outputs_by_name() -> None:
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", text=(str, ...))
    model = pydantic.create_model("Model", answer=(str, ...), documents=(list[inner], ...))
    assert answered(lambda: model(answer="a", documents=[inner(text="t")])).outputs == {
        "answer": "a",
        "documents": [{"text": "t"}],
    }


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (None, "must return a text or a dict of outputs but returned NoneType"),
        (3, "but returned int"),
        ((text for text in "ab"), "but returned generator"),
        (Found, "but returned type"),
        (Mock(), "but returned Mock"),
        ({}, "returned an empty dict"),
        ({"a": object()}, "the answer, column 'a' must be a value of JSON but is object"),
        ({"a": float("inf")}, "must be a finite number"),
        ({1: "a"}, "must have texts as names"),
        ({"_cost": 1}, "other names than _cost"),
    ],
)
def test_what_cannot_be_an_answer_is_an_error_of_its_row(returned: Any, error: str) -> None:
    found = answered(lambda: returned)
    assert found.status == "target_error" and error in found.error and found.outputs == {}


def test_declared_outputs_must_be_there() -> None:
    class Lying(Bot):
        def __call__(self, question: str, context: str = "") -> dict[str, Any]:
            return {"answer": question}

    assert answered(Lying()).error == "the target must return context but returned answer"


def test_an_answer_may_say_its_usage_and_cost() -> None:
    found = answered(lambda: TargetAnswer({"answer": "a"}, usage=Usage(3, 4), cost=0.5))
    assert (found.usage, found.cost, found.status) == (Usage(3, 4), 0.5, "ok") and found.seconds > 0


def raising(error: BaseException) -> Callable[[], Any]:
    def target() -> Any:
        raise error

    return target


def awaiting(error: BaseException) -> Callable[[], Any]:
    async def target() -> Any:
        raise error

    return target


@pytest.mark.parametrize("make", [raising, awaiting])
@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), asyncio.TimeoutError("no"), RecursionError("no")],
)  # fmt: skip
def test_an_exception_is_an_answer_of_its_row(make: Any, error: BaseException) -> None:
    found = answered(make(error))
    assert found.status == "target_error" and type(error).__name__ in found.error and found.outputs == {}


def test_a_target_that_cancels_itself_does_not_cancel_the_run() -> None:
    assert answered(awaiting(asyncio.CancelledError())).error == "the target cancelled itself"


def test_messages_are_masked_and_answers_too() -> None:
    secrets = Secrets()
    secrets.add("a-secret-key-1")
    found = answered(raising(ValueError("no key a-secret-key-1 in https://u:p@h")), secrets=secrets)
    assert found.error == "ValueError: no key *** in https://***@h"
    assert answered(lambda: "a-secret-key-1!", secrets=secrets).outputs == {"answer": "***!"}


def test_a_slow_target_times_out_and_others_go_on() -> None:
    release = threading.Event()

    def slow(n: int) -> str:
        if n == 0:
            release.wait()
        return str(n)

    async def all_of() -> list[TargetAnswer]:
        hurried, patient = opened(slow, timeout=0.3), opened(slow, timeout=60)
        return await asyncio.gather(hurried.answer({"n": 0}), *(patient.answer({"n": n}) for n in (1, 2)))

    found = asyncio.run(all_of())
    release.set()
    assert [each.status for each in found] == ["timeout", "ok", "ok"]
    assert found[0].error == "no answer within 0.3 s" and found[0].seconds >= 0.3


def test_a_coroutine_that_does_not_end_when_cancelled_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.evaluation.targets.base._PATIENCE", 0.05)

    async def main() -> TargetAnswer:
        ended = asyncio.Event()

        async def stubborn() -> str:
            while not ended.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await ended.wait()
            raise ValueError("late")  # must not be written to the log as never retrieved

        found = await opened(stubborn, timeout=0.05).answer({})
        ended.set()
        await asyncio.sleep(0.01)
        gc.collect()
        return found

    assert asyncio.run(main()).status == "timeout"


def test_a_cancellation_of_the_run_passes() -> None:
    begun, ended = [], []

    async def endless() -> None:
        begun.append(1)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def main() -> None:
        task = asyncio.ensure_future(opened(endless).answer({}))
        while not begun:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert ended == [1]


def test_functions_run_side_by_side() -> None:
    barrier = threading.Barrier(8, timeout=120)

    async def all_of() -> list[TargetAnswer]:
        target = opened(lambda: str(barrier.wait()))
        return await asyncio.gather(*(target.answer({}) for _ in range(8)))

    assert {each.status for each in asyncio.run(all_of())} == {"ok"}


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (3, "but got int"),
        (lambda a, /: a, "must take its parameters by name, but not so 'a'"),
        ("azureml://flows/1", "azureml: addresses need Azure's service: give a Python function"),
        ("no such thing", "target must be a function"),
        ("no_such_module:f", "there is no 'no_such_module'"),
        ("json:dump_s", "it has no 'dump_s'; did you mean 'dumps'"),
        ("no/such/file.py:f", "a file that is there but 'no/such/file.py' is not"),
        ("json:__name__", "must be a function"),
    ],
)
def test_what_is_no_target_is_an_error_before_any_row(target: Any, error: str) -> None:
    with pytest.raises(InputError, match=error):
        opened(target)


def test_types_are_named() -> None:
    with pytest.raises(InputTypeError, match="timeout must be a number"):
        opened(question_only, timeout="5")
    with pytest.raises(InputError, match="timeout must be above 0"):
        opened(question_only, timeout=0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_target_app.py").write_text("from my_neighbour import word\ndef chat(question): return word\n")
    (tmp_path / "my_neighbour.py").write_text("word = 'hello'\n")
    (tmp_path / "broken_app.py").write_text("raise ValueError('at import')\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["my_target_app:chat", "my_target_app.py:chat"])
def test_functions_by_name(folder: Path, name: str) -> None:
    assert answered(name).outputs == {"answer": "hello"}
    config = opened(name).config()
    assert config["origin"] == name
    again = target_from_config(config, secrets=Secrets())
    assert again is not None and again.config() == config
    config["version"] = "0" * 16
    with pytest.raises(InputError, match="has changed since the run"):
        target_from_config(config, secrets=Secrets())


def test_a_module_that_raises_is_an_error_that_says_so(folder: Path) -> None:
    for name in ("broken_app:f", "broken_app.py:f"):
        with pytest.raises(InputError, match="cannot be imported: ValueError: at import"):
            opened(name)


def test_a_flow_with_an_entry_is_run_and_a_graph_is_not(folder: Path) -> None:
    flow = folder / "flow"
    flow.mkdir()
    with pytest.raises(InputError, match=r"has no flow\.flex\.yaml: give a Python function"):
        opened(flow)
    (flow / "flow.dag.yaml").write_text("nodes: []\n")
    with pytest.raises(InputError, match="is a graph of nodes, which is not run here: give a Python function"):
        opened(str(flow))
    (flow / "flow.flex.yaml").write_text("# flow\nentry: app:Flow  # class\nenvironment: {}\n")
    (flow / "app.py").write_text("class Flow:\n    def __call__(self, question): return question\n")
    assert answered(flow).outputs == answered(flow / "flow.flex.yaml").outputs == {"answer": "2 + 2?"}
    (flow / "flow.flex.yaml").write_text("inputs: {}\n")
    with pytest.raises(InputError, match="must have a line 'entry: module:function'"):
        opened(flow)


def test_a_function_of_this_process_cannot_be_made_again() -> None:
    config = opened(lambda: "a").config()
    assert config["origin"] is None and config["name"] == "<lambda>"
    with pytest.raises(InputError, match="pass target="):
        target_from_config(config, secrets=Secrets())
    other = opened(lambda: "b").version
    assert opened(lambda: "a").version != other


def test_nothing_here_imports_torch_or_pandas() -> None:
    code = "import sys, valor_gpu.evaluation.targets.open, valor_gpu.evaluation.models as _; "
    code += "print({'torch', 'pandas'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_what_a_target_does_to_its_arguments_stays_with_it() -> None:
    def spoil(messages: list[str]) -> str:
        messages.append("more")
        return str(len(messages))

    row = {"messages": ["one"]}
    assert [answered(spoil, row).outputs["answer"] for _ in range(2)] == ["2", "2"]
    assert row == {"messages": ["one"]}
