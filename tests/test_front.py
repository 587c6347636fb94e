"""``import valor_gpu as torchmetrics``: every name of the metrics at the top, and what is said of others."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torchmetrics
from torch import Tensor

import valor_gpu
from tools import front_stub
from valor_gpu.compat.torchmetrics import sources
from valor_gpu.errors import InputTypeError

TASKS = ("classification", "detection", "nominal", "regression", "retrieval", "segmentation", "text")
ROOT = Path(__file__).parent.parent


def package(name: str) -> Any:
    return importlib.import_module(f"valor_gpu.{name}")


def run(program: str) -> str:
    """What a program prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("task", TASKS)
def test_every_class_of_a_task_is_at_the_top(task: str) -> None:
    classes = [name for name in package(task).__all__ if isinstance(getattr(package(task), name), type)]
    assert classes and {"coco_targets", "stem", "token_f1"} & set(classes) == set()
    others = {"ExactMatch"} if task == "text" else set()
    assert [name for name in classes if getattr(valor_gpu, name) is not getattr(package(task), name)] == sorted(others)
    assert set(classes) <= set(valor_gpu.__all__)


def test_names_that_two_tasks_have_are_known() -> None:
    """A name that is added to a second task needs a decision: torchmetrics' meaning, else the first of TASKS."""
    names = [name for task in TASKS for name in package(task).__all__]
    twice = {name for name in names if names.count(name) > 1}
    assert twice == {"ExactMatch", "PanopticQuality", "ModifiedPanopticQuality"}
    assert valor_gpu.ExactMatch is package("classification").ExactMatch is not package("text").ExactMatch
    assert valor_gpu.PanopticQuality is package("detection").PanopticQuality is package("segmentation").PanopticQuality
    assert not set(names) & set(valor_gpu._HOMES)
    assert not set(sources.passed_through()) & {*names, *valor_gpu._HOMES}


def test_top_level_names_of_torchmetrics_mean_the_same_here() -> None:
    """``torchmetrics.WordErrorRate`` is a class of torchmetrics.text, and so is ours of valor_gpu.text."""
    shared = [
        name for name in torchmetrics.__all__ if name in valor_gpu.__all__ and name not in ("functional", "Metric")
    ]
    assert len(shared) >= 50
    for name in shared:
        theirs, ours = getattr(torchmetrics, name), getattr(valor_gpu, name)
        task = theirs.__module__.split(".")[1]
        assert ours is (getattr(package(task), name) if task in TASKS else theirs), name


def test_what_holds_metrics_is_that_of_torchmetrics() -> None:
    passed = sources.passed_through()
    assert passed.keys() >= {
        "MetricCollection", "CompositionalMetric", "MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric",
        "RunningMean", "RunningSum", "BootStrapper", "ClasswiseWrapper", "FeatureShare", "MetricTracker",
        "MinMaxMetric", "MultioutputWrapper", "MultitaskWrapper", "Running", *torchmetrics.wrappers.__all__,
    }  # fmt: skip
    for name, home in passed.items():
        assert getattr(valor_gpu, name) is getattr(importlib.import_module(home), name)
        assert getattr(torchmetrics, name, None) in (None, getattr(valor_gpu, name))


def test_a_newer_torchmetrics_brings_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "torchmetrics"
    (folder / "wrappers").mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from torchmetrics.aggregation import MedianMetric, MeanMetric as Mean\n"
        "from torchmetrics.image import PeakSignalNoiseRatio\n"
        "__all__ = ['MedianMetric', 'Mean', 'PeakSignalNoiseRatio']\n"
    )
    (folder / "wrappers" / "__init__.py").write_text(
        "try:\n    import that\nexcept ImportError:\n    pass\nelse:\n    __all__ = ['Ensemble']\n__all__ += ['Pair']\n"
    )
    (folder / "metric.py").write_text("class CompositionalMetric:\n    pass\n")
    monkeypatch.setattr(sources, "_file", lambda module: _file_below(folder, module))
    assert sources.passed_through() == {
        "MedianMetric": "torchmetrics.aggregation",
        "Mean": "torchmetrics.aggregation",
        "Ensemble": "torchmetrics.wrappers",
        "Pair": "torchmetrics.wrappers",
        "CompositionalMetric": "torchmetrics.metric",
    }
    assert sources.place_of("", "PeakSignalNoiseRatio") == "torchmetrics"
    assert sources.place_of("", "Pair") == "torchmetrics.wrappers"


def _file_below(folder: Path, module: str) -> str | None:
    path = folder.joinpath(*module.split(".")) if module else folder
    return next((str(file) for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def test_importing_and_listing_load_neither_torch_nor_numpy() -> None:
    program = """
import sys
before = set(sys.modules)
import valor_gpu
print(len(set(sys.modules) - before) < 20)
names = dir(valor_gpu), valor_gpu.__all__, hasattr(valor_gpu, "Anything"), hasattr(valor_gpu, "anything")
try:
    valor_gpu.PeakSignalNoiseRatio
except AttributeError as error:
    str(error)
print({"Accuracy", "ROUGEScore", "MeanAveragePrecision", "MetricTracker", "__version__"} <= set(names[0]))
print([name for name in ("torch", "numpy", "torchmetrics", "ast", "inspect") if name in sys.modules])
"""
    assert run(program) == "True\nTrue\n[]\n"


def test_looking_for_a_name_of_a_module_reads_no_file_of_torchmetrics() -> None:
    """``from valor_gpu import native`` asks for an attribute first, in commands that start without torch."""
    program = """
import sys
import valor_gpu
from valor_gpu import native
from valor_gpu.compat.torchmetrics import sources
print(hasattr(valor_gpu, "anything"), hasattr(valor_gpu, "_private"), hasattr(valor_gpu, "__wrapped__"))
print(sources._read.cache_info().misses, "difflib" in sys.modules, "valor_gpu.text" in sys.modules)
print(hasattr(valor_gpu, "Anything"), hasattr(valor_gpu, "AnythingElse"))
print(sources._read.cache_info().misses < 5, "difflib" in sys.modules)
"""
    assert run(program) == "False False False\n0 False False\nFalse False\nTrue False\n"


def test_all_names_are_given_by_a_star() -> None:
    values: dict[str, Any] = {}
    exec("from valor_gpu import *", values)
    assert set(valor_gpu.__all__) <= set(values) and values["ExactMatch"] is valor_gpu.classification.ExactMatch
    assert "collections" not in values and set(valor_gpu.__all__) <= set(dir(valor_gpu))
    assert valor_gpu.__all__ == sorted(set(valor_gpu.__all__))


def test_the_stub_is_up_to_date_and_has_every_name() -> None:
    assert front_stub.front_stub() == front_stub.STUB.read_text(), "run tools/make_names.py"
    stub = front_stub.STUB.read_text()
    wrappers = set(torchmetrics.wrappers.__all__)
    assert [name for name in valor_gpu.__all__ if f" {name} as {name}" not in stub and name not in wrappers] == []


@pytest.mark.parametrize(
    ("where", "name", "ending"),
    [
        ("", "PeakSignalNoiseRatio", " but torchmetrics has it: from torchmetrics import PeakSignalNoiseRatio"),
        ("", "CramersV", " but torchmetrics has it: from torchmetrics import CramersV"),
        ("", "RandScore", " but torchmetrics has it: from torchmetrics.clustering import RandScore"),
        ("", "audio", " but torchmetrics has it: from torchmetrics import audio"),
        ("nominal", "CramersV", " but torchmetrics has it: from torchmetrics.nominal import CramersV"),
        ("functional", "peak_signal_noise_ratio",
         " but torchmetrics has it: from torchmetrics.functional import peak_signal_noise_ratio"),
        ("functional", "rand_score",
         " but torchmetrics has it: from torchmetrics.functional.clustering import rand_score"),
        ("", "stem", "; valor_gpu.text.stem is there"),
        ("", "accuracy", "; valor_gpu.functional.accuracy is there"),
        ("", "COCOeval", "; valor_gpu.coco.COCOeval is there"),
        ("", "Acuracy", "; did you mean 'Accuracy'?"),
        ("classification", "MultilabelBrierScore", "; did you mean 'BrierScore'?"),
        ("classification", "BinaryFairnes", "; did you mean 'BinaryFairness'?"),
        ("coco", "CocoEval", "; did you mean 'COCOeval'?"),
        ("coco", "PeakSignalNoiseRatio", ""),
        ("", "xyzzy", ""),
        ("", "_PeakSignalNoiseRatio", ""),
        ("text", "__wrapped__", ""),
    ],
)  # fmt: skip
def test_a_missing_name_says_where_it_is(where: str, name: str, ending: str) -> None:
    module = package(where) if where else valor_gpu
    assert not hasattr(module, name) and getattr(module, name, None) is None
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    message = f"module '{module.__name__}' has no attribute '{name}'{ending}"
    assert str(caught.value) == message == str(pickle.loads(pickle.dumps(caught.value)))


def test_a_traceback_suggests_once() -> None:
    program = "import valor_gpu\nvalor_gpu.Acuracy"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.lower().count("did you mean") == 1


class Hits(valor_gpu.Metric):
    """As torchmetrics' documentation writes a metric, with the import changed."""

    full_state_update = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("right", default=torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("rows", default=[], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.right += (preds == target).sum()
        self.rows.append(preds)

    def compute(self) -> Tensor:
        return self.right / sum(len(part) for part in self.rows)


def test_a_metric_with_add_state_is_one_of_torchmetrics() -> None:
    metric = Hits()
    assert Hits.__bases__ == (torchmetrics.Metric,)
    assert metric(torch.tensor([1, 2]), torch.tensor([1, 3])) == 0.5
    metric.update(torch.tensor([1, 2]), torch.tensor([1, 2]))
    assert metric.compute() == 0.75 == pickle.loads(pickle.dumps(metric)).compute()
    both = valor_gpu.MetricCollection({"hits": Hits(), "accuracy": valor_gpu.Accuracy(4, average="micro")})
    assert both(torch.tensor([1, 2]), torch.tensor([1, 3])) == {"hits": 0.5, "accuracy": 0.5}


def test_every_metric_is_a_metric() -> None:
    """A program that resets what ``isinstance`` finds must not pass over torchmetrics' own."""
    for metric in (
        Hits(),
        valor_gpu.MeanMetric(),
        valor_gpu.Accuracy(3),
        valor_gpu.MinMaxMetric(valor_gpu.Accuracy(3)),
    ):
        assert isinstance(metric, valor_gpu.Metric) and issubclass(type(metric), valor_gpu.Metric)
    for other in (3, torch.nn.Linear(1, 1), valor_gpu.MetricCollection([valor_gpu.Accuracy(3)])):
        assert not isinstance(other, valor_gpu.Metric) and not isinstance(other, torchmetrics.Metric)
    assert not isinstance(valor_gpu.MeanMetric(), valor_gpu.Accuracy)
    assert isinstance(valor_gpu.MulticlassAccuracy(3), valor_gpu.Accuracy)
    assert not issubclass(valor_gpu.Accuracy, valor_gpu.Precision)


class Stateless(valor_gpu.Metric):
    def update(self) -> None: ...
    def compute(self) -> None: ...


class Widened(valor_gpu.MulticlassAccuracy):
    def __init__(self) -> None:
        super().__init__(3)
        self.add_state("extra", torch.tensor(0))


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        (Stateless, "empty of Stateless must be a State but got NoneType"),
        (Widened, "state extra of Widened must be a field of a State but came through add_state"),
    ],
)
def test_a_class_without_a_state_says_what_to_derive_from(kind: type, start: str) -> None:
    fix = "a class that uses add_state derives from the Metric of torchmetrics: from torchmetrics import Metric"
    with pytest.raises(InputTypeError) as caught:
        kind()
    assert str(caught.value) == f"{start}; {fix}"


def test_a_metric_of_torchmetrics_is_not_merged() -> None:
    message = r"^incoming_state must be of class MulticlassAccuracy, .* but got MeanMetric$"
    with pytest.raises(InputTypeError, match=message):
        valor_gpu.MulticlassAccuracy(3).merge_state(valor_gpu.MeanMetric())


@pytest.mark.parametrize(
    ("home", "name", "users"),
    [
        ("valor_gpu.classification.binary", "BinaryRecall", ("classification", "", "classification.precision_recall")),
        ("valor_gpu.detection", "MeanAveragePrecision", ("",)),
        ("valor_gpu.functional.classification", "binary_recall", ("functional",)),
        ("torchmetrics.wrappers", "MinMaxMetric", ("", "wrappers")),
    ],
)
def test_a_stand_in_of_a_test_goes_with_the_test(home: str, name: str, users: tuple[str, ...]) -> None:
    modules = [importlib.import_module(f"valor_gpu.{user}".rstrip(".")) for user in users]
    for module in modules:
        vars(module).pop(name, None)  # as if nobody had asked before
    with mock.patch(f"{home}.{name}") as stand_in:
        assert [getattr(module, name) for module in modules] == [stand_in] * len(modules)
    real = getattr(importlib.import_module(home), name)
    assert real is not stand_in and [getattr(module, name) is real for module in modules] == [True] * len(modules)
