"""Classes and functions of one task, which the table of names makes on first use."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
import typing
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
import typing_extensions

from valor_gpu import classification, functional
from valor_gpu.compat.torchmetrics import task_names
from valor_gpu.compat.torchmetrics.functional.names import MODULES
from valor_gpu.compat.torchmetrics.task_names import FUNCTIONS, HOMES, MADE, NAMED, TABLE, TASKS
from valor_gpu.errors import InputError
from valor_gpu.options import NamedOptions

NEEDED = {"num_classes": 3, "num_labels": 3, "beta": 1.0, "min_precision": 0.5, "min_recall": 0.5,
          "min_sensitivity": 0.5, "min_specificity": 0.5}  # fmt: skip


def made(name: str) -> Any:
    """A metric of a class of one task."""
    return getattr(classification, name)(**{n: NEEDED[n] for n in MADE[name].arguments if n in NEEDED})


def test_rows_are_sorted_and_name_the_module_that_defines_the_class() -> None:
    assert [row.name for row in TABLE] == sorted(row.name for row in TABLE)
    assert set(classification.__all__) == HOMES.keys() == {row.name for row in TABLE} | MADE.keys()
    for row in TABLE:
        assert getattr(classification, row.name).__module__ == f"valor_gpu.classification.{row.module}"


@pytest.mark.parametrize("name", MADE)
def test_class_is_as_if_it_had_been_written(name: str) -> None:
    kind, named = getattr(classification, name), MADE[name]
    assert (kind.__name__, kind.__qualname__, kind.__module__) == (name, name, HOMES[name])
    assert kind.__mro__[1] is getattr(classification, named.row.name)
    assert list(inspect.signature(kind).parameters) == [*named.arguments, "kwargs"]
    assert kind.__init__.__qualname__ == f"{name}.__init__" and kind.__init__.__module__ == HOMES[name]
    assert kind.__init__.__annotations__.keys() == {*named.arguments, "kwargs", "return"}
    metric = made(name)
    for same in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert type(same) is kind and same.state() is not None


@pytest.mark.parametrize("name", [*MADE, *FUNCTIONS])
def test_every_argument_is_explained(name: str) -> None:
    made = getattr(classification, name) if name in MADE else getattr(functional, name)
    lines = [line for line in made.__doc__.splitlines() if line.startswith("    ") and line[4] != " "]
    explained = {each for line in lines for each in line.strip().partition(":")[0].split(", ")}
    assert inspect.signature(made).parameters.keys() <= explained
    assert max(map(len, made.__doc__.splitlines())) <= 120


def entry(made: Any, argument: str) -> str:
    """What a docstring says of an argument, on one line."""
    text = f"\n{made.__doc__}\n".partition(f"\n    {argument}: ")[2]
    return " ".join(re.split(r"\n {0,4}(?=\S|\n)", text)[0].split())


@pytest.mark.parametrize("name", [name for name, named in FUNCTIONS.items() if "task" in named.function_arguments])
def test_function_names_the_tasks_that_it_takes(name: str) -> None:
    named = FUNCTIONS[name]
    given = {each: NEEDED[each] for each in named.arguments if each in NEEDED}
    named_tasks = re.findall(r"``(\w+)``", entry(getattr(functional, name), "task"))
    for task in named_tasks:
        assert getattr(classification, named.name)(task=task, **given).task.kind == task
    for task in set(TASKS) - set(named_tasks):
        with pytest.raises(InputError, match=f"^task must be '.*' for {named.name} but got '{task}'$"):
            getattr(classification, named.name)(task=task, **given)


@pytest.mark.parametrize("name", [*MADE, *FUNCTIONS])
def test_what_has_a_task_is_not_said_to_be_binary_without_labels(name: str) -> None:
    made = getattr(classification if name in MADE else functional, name)
    assert "task is binary" not in " ".join(made.__doc__.split())


@pytest.mark.parametrize("name", [name for name, named in MADE.items() if "thresholds" in named.arguments])
def test_bytes_of_kept_scores_are_those_that_are_documented(name: str) -> None:
    metric, task = made(name), MADE[name].task
    scores = torch.linspace(0, 1, 48) if task == "binary" else torch.linspace(0, 1, 144).view(48, 3)
    metric.update(scores, torch.arange(48) % 3 if task == "multiclass" else (scores > 0.5).int())
    state = metric.state()
    assert state.scores.dtype == torch.float64
    assert "by default float64 where all scores are kept" in entry(metric, "score_dtype")
    kept = (state.scores.nbytes + state.target.nbytes) / 48
    assert kept <= {"binary": 9, "multiclass": 8 * 3 + 4, "multilabel": 9 * 3}[task]
    assert "in float64 8 C + 4 (9, or 9 L)" in entry(metric, "thresholds")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_as_if_it_had_been_written(name: str) -> None:
    function, named = getattr(functional, name), FUNCTIONS[name]
    assert (function.__name__, function.__qualname__) == (name, name)
    assert function is getattr(importlib.import_module(function.__module__), name)
    assert pickle.loads(pickle.dumps(function)) is function
    listed = list(inspect.signature(function).parameters)
    count = len(named.function_arguments) + 2
    assert listed[:count] == ["preds", "target", *named.function_arguments]
    assert listed[count : count + 2] == ["y_true", "y_pred"]
    assert function.__annotations__.keys() == {*listed, "return"}


@pytest.mark.parametrize("name", [*MADE, *FUNCTIONS])
def test_annotations_are_types_from_which_command_lines_are_made(name: str) -> None:
    function = getattr(classification, name).__init__ if name in MADE else getattr(functional, name)
    hints = typing.get_type_hints(function)  # jsonargparse, and so LightningCLI, guesses where this raises
    assert hints.keys() == function.__annotations__.keys()
    if name in MADE:
        [options] = typing_extensions.get_args(hints["kwargs"])
        assert options is NamedOptions


def test_help_and_inspect_show_the_parameters_of_classes_of_any_task() -> None:
    class Own(classification.BinaryAccuracy):
        def __init__(self, scale: float, *, shown: bool = True) -> None:
            super().__init__()

    assert list(inspect.signature(classification.Precision).parameters)[:3] == ["num_classes", "num_labels", "average"]
    assert "class Precision" in (shown := pydoc.render_doc(classification.Precision))
    assert "Precision(num_classes: 'int | None' = None, num_labels" in shown
    assert str(inspect.signature(Own)) == "(scale: 'float', *, shown: 'bool' = True)"
    for each in NAMED.values():
        shown = inspect.signature(getattr(classification, each.name)).parameters
        assert "args" not in shown and "self" not in shown, each.name


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((), {}, r"MulticlassAUROC\.__init__\(\) missing 1 required positional argument: 'num_classes'"),
        ((3,), {"num_classes": 3}, r"MulticlassAUROC\.__init__\(\) got multiple values for argument 'num_classes'"),
        ((3, *"abcde"), {}, r"MulticlassAUROC\.__init__\(\) takes from 2 to 6 positional arguments but 7 were given"),
    ],
)
def test_python_names_the_class_whose_arguments_are_wrong(args: Any, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        classification.MulticlassAUROC(*args, **options)


def test_python_names_the_function_whose_arguments_are_wrong() -> None:
    with pytest.raises(TypeError, match=r"^binary_auroc\(\) got an unexpected keyword argument 'maxfpr'"):
        functional.binary_auroc([0.5], [1], maxfpr=0.5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^binary_auroc\(\) got multiple values for argument 'preds'"):
        functional.binary_auroc([0.5], [1], preds=[0.5])  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"^binary_auroc\(\) takes from 0 to 6 positional arguments but 7 were given"):
        functional.binary_auroc(*range(7))  # type: ignore[arg-type]


def test_classes_may_be_derived_from_and_mixed() -> None:
    seen: list[dict[str, Any]] = []

    class Between(classification.Accuracy):
        def __init__(self, **kwargs: Any) -> None:
            seen.append(kwargs)
            super().__init__(**kwargs)

    class Own(classification.MulticlassAccuracy, Between):
        """Computes accuracy.

        Args:
            num_classes: as here.
        """

    metric = Own(3, average="none")
    assert [options["average"] for options in seen] == ["none"]
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    assert metric.compute().tolist() == [1, 0.5, 0]
    assert "num_classes: as here." in str(Own.__doc__) and "keep_rows: keep" in str(Own.__doc__)


def test_a_subclass_may_give_task_and_the_first_argument_a_meaning_of_its_own() -> None:
    class Titled(classification.BinaryF1Score):
        def __init__(self, title: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.title = title

    class Head(classification.Precision):
        def __init__(self, task: str, num_classes: int) -> None:
            super().__init__(num_classes)
            self.head = task

    assert Titled("train", threshold=0.25).title == Titled(title="train").title == "train"
    assert Head("depth", 3).head == Head(task="depth", num_classes=3).head == "depth"
    with pytest.raises(InputError, match=r"task must be left out: that of Titled follows from its name"):
        Titled("train", task="binary")


def test_a_subclass_of_the_same_name_is_not_taken_for_the_class_that_has_tasks() -> None:
    own: Any = type("Accuracy", (classification.Accuracy,), {"__module__": __name__})
    assert type(own(num_classes=3)) is own
    with pytest.raises(InputError, match=r"task must be left out: that of Accuracy follows"):
        own(task="multiclass", num_classes=3)


def test_table_is_read_without_the_parser_that_fails_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*args: object, **options: object) -> None:
        raise SystemError("AST constructor recursion depth mismatch (before=48, after=47)")

    monkeypatch.setattr("ast.parse", parse)  # CPython 3.11, where threads call it at once
    assert task_names._parsed("beta threshold=0.5 norm='l1' top_k=None") == {
        "beta": task_names.REQUIRED, "threshold": 0.5, "norm": "l1", "top_k": None
    }  # fmt: skip


def test_threads_that_ask_at_once_get_one_class_and_one_function() -> None:
    barrier = Barrier(8)
    for module, names in (
        (importlib.import_module("valor_gpu.classification.multilabel"), [n for n in MADE if "Multilabel" in n]),
        (importlib.import_module("valor_gpu.functional.classification"), list(FUNCTIONS)[:20]),
    ):
        for name in names:
            kept = vars(module).pop(name, None)

            def ask(module: Any = module, name: str = name) -> Any:
                barrier.wait()
                return getattr(module, name)

            with ThreadPoolExecutor(8) as pool:
                found = {id(each.result()): each.result() for each in [pool.submit(ask) for _ in range(8)]}
            assert len(found) == 1 and vars(module)[name] is next(iter(found.values()))
            if kept is not None:
                vars(module)[name] = kept


def test_pickles_of_0_2_0_and_of_other_processes_are_read() -> None:
    metric = classification.MulticlassRecall(3, average="macro")
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    data = pickle.dumps(metric)
    assert b"valor_gpu.classification.multiclass" in data  # where 0.2.0 defines it
    program = (
        "import pickle, sys\nmetric = pickle.loads(sys.stdin.buffer.read())\nprint(metric.compute().item())\n"
        "import valor_gpu.classification as c\nassert type(metric) is c.MulticlassRecall"
    )
    run = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    assert float(run.stdout) == metric.compute().item()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("binary", "binary_recall"),
        ("boxes", "mean_average_precision"),
        ("multiclass", "multiclass_roc"),
        ("multilabel", "multilabel_ranking_loss"),
        ("tasks", "accuracy"),
        ("texts", "rouge_score"),
        ("tokens", "perplexity"),
    ],
)
def test_pickled_functions_of_0_2_0_are_read(module: str, name: str) -> None:
    data = f"cvalor_gpu.functional.{module}\n{name}\n."
    assert pickle.loads(data.encode()) is getattr(functional, name)
    program = f"import pickle\nfunction = pickle.loads({data.encode()!r})\nassert function.__name__ == {name!r}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_compiled_programs_take_functions_and_updates() -> None:
    scores, target = torch.tensor([0.9, 0.2, 0.6, 0.4]), torch.tensor([1, 0, 0, 1])
    metric = classification.BinaryAccuracy()

    def step(scores: torch.Tensor) -> torch.Tensor:
        return functional.binary_accuracy(scores * 1.0, target) + 1

    def update(scores: torch.Tensor) -> None:
        metric.update(scores * 1.0, target)

    torch.compile(update, backend="eager", fullgraph=True)(scores)
    assert torch.compile(step, backend="eager")(scores) == 1.5 and metric.compute() == 0.5


@pytest.mark.parametrize("part", MODULES)
def test_functional_has_the_packages_of_torchmetrics(part: str) -> None:
    module = importlib.import_module(f"valor_gpu.functional.{part}")
    assert module is getattr(functional, part) and part in dir(functional) and part not in functional.__all__
    assert module.__all__ == MODULES[part] and set(module.__all__) <= set(functional.__all__)
    assert all(getattr(module, name) is getattr(functional, name) for name in module.__all__)
    peer = importlib.import_module(f"torchmetrics.functional.{part}")
    assert {name for name in peer.__all__ if name in functional.__all__} <= set(module.__all__)
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'no_such_name'"):
        _ = module.no_such_name


def test_names_of_functions_load_no_torch() -> None:
    program = (
        "import sys, valor_gpu.functional as f, valor_gpu.functional.classification as c\n"
        "import valor_gpu.classification.binary as b\ndir(f), dir(c), dir(b)\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_made_constructors_have_a_source() -> None:
    """``torch.jit.script`` reads it."""
    source = inspect.getsource(classification.BinaryHingeLoss.__init__)
    assert source.startswith("def __init__(self, squared, ignore_index, validate_args, **kwargs): return super(")
