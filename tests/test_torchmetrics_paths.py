"""Modules by the paths of torchmetrics: what they hold, and what is said about those that torchmetrics alone has."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import pickle
import pkgutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
import torchmetrics

import valor_gpu
from valor_gpu.compat.torchmetrics import sources

SHARED = ("classification", "detection", "segmentation", "text", "functional")

HELD = ("aggregation", "collections", "utilities", "utilities.data", "wrappers", "wrappers.tracker",
        "wrappers.transformations")  # fmt: skip
"""Modules that hold no metric of predictions; old releases lack some."""


def modules_of_torchmetrics() -> list[str]:
    """Paths below torchmetrics of every public module; importing it finds them, unlike the code that is tested."""
    found = [each.name for each in pkgutil.walk_packages(torchmetrics.__path__, "torchmetrics.")]
    paths = [name.partition(".")[2] for name in found]
    return [path for path in paths if not any(part.startswith("_") for part in path.split("."))]


PATHS = modules_of_torchmetrics()
MADE = valor_gpu.functional.classification.__all__
"""Functions that are made when they are first used."""
NAMED_AS_FUNCTIONS = [
    path for path in PATHS
    if path.startswith(tuple(f"functional.{task}." for task in SHARED))
    and path.rpartition(".")[2] in valor_gpu.functional.__all__
]  # fmt: skip
"""Modules with the name of a function that they hold, such as ``functional.classification.accuracy``."""


def defined(module: ModuleType) -> list[str]:
    """Public classes and functions that are defined in a module, or listed by a package."""
    listed = getattr(module, "__all__", None)
    return [
        name for name in listed or vars(module)
        if not name.startswith("_") and (listed or getattr(vars(module)[name], "__module__", "") == module.__name__)
    ]  # fmt: skip


def owner_of(path: str) -> Any:
    return importlib.import_module(f"valor_gpu.{path.partition('.')[0]}")


@pytest.mark.parametrize("path", [path for path in PATHS if path.partition(".")[0] in SHARED])
def test_what_is_here_is_there_by_the_path_of_torchmetrics(path: str) -> None:
    theirs = importlib.import_module(f"torchmetrics.{path}")
    here = [name for name in defined(theirs) if name in owner_of(path).__all__]
    if not here and "." in path:
        with pytest.raises(ImportError, match=r"^No module named 'valor_gpu\.[\w.]+' but torchmetrics has it: import"):
            importlib.import_module(f"valor_gpu.{path}")
        return
    ours = importlib.import_module(f"valor_gpu.{path}")
    assert here
    for name in here:
        assert getattr(ours, name) is getattr(owner_of(path), name)
        assert not isinstance(getattr(ours, name), ModuleType)


@pytest.mark.parametrize("path", [path for path in PATHS if path in HELD])
def test_modules_that_hold_no_metric_give_what_torchmetrics_has(path: str) -> None:
    theirs, ours = (importlib.import_module(f"{root}.{path}") for root in ("torchmetrics", "valor_gpu"))
    assert defined(theirs) and set(defined(theirs)) <= set(ours.__all__) <= set(dir(ours))
    for name in defined(theirs):
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours is not theirs and theirs.__name__ == f"torchmetrics.{path}" == theirs.__spec__.name


@pytest.fixture
def functions_as_before() -> Iterator[None]:
    """Gives modules of functions back all their names, and the process its modules."""

    def modules() -> dict[str, ModuleType]:
        return {name: module for name, module in sys.modules.items() if name.startswith("valor_gpu.functional")}

    before = {name: (module, dict(vars(module))) for name, module in modules().items()}
    yield
    for name in modules().keys() - before.keys():
        del sys.modules[name]
    for name, (module, held) in before.items():
        sys.modules[name] = module
        vars(module).clear()
        vars(module).update(held)


@pytest.mark.usefixtures("functions_as_before")
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("path", NAMED_AS_FUNCTIONS)
def test_a_function_keeps_its_name_when_its_module_is_imported(path: str, used: bool) -> None:
    """Python binds a module that it imports to its name in the package, which is also that of the function."""
    package, _, name = f"valor_gpu.{path}".rpartition(".")
    sys.modules.pop(f"{package}.{name}", None)
    if name in MADE:
        for part in ("valor_gpu.functional", package):
            vars(importlib.import_module(part)).pop(name, None)
    before = getattr(importlib.import_module(package), name) if used else None
    module = importlib.import_module(f"{package}.{name}")
    function = getattr(sys.modules[package], name)
    assert isinstance(module, ModuleType) and not isinstance(function, ModuleType)
    assert function is getattr(module, name) is getattr(valor_gpu.functional, name)
    assert function is (before or function) and function.__name__ == name


def test_private_names_and_helpers_of_passed_modules_are_theirs() -> None:
    """A program may use what is not public, as ``dim_zero_cat`` of a module is used by subclasses."""
    from valor_gpu.utilities.checks import _check_same_shape

    assert _check_same_shape is torchmetrics.utilities.checks._check_same_shape


def test_modules_are_reached_as_attributes() -> None:
    program = """
import valor_gpu as torchmetrics
found = (
    torchmetrics.text.rouge.ROUGEScore, torchmetrics.text.wer.WordErrorRate, torchmetrics.metric.CompositionalMetric,
    torchmetrics.detection.mean_ap.MeanAveragePrecision, torchmetrics.wrappers.tracker.MetricTracker,
    torchmetrics.functional.segmentation.dice.dice_score, torchmetrics.classification.f_beta.MulticlassF1Score,
)
print([kind.__name__ for kind in found])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == (
        "['ROUGEScore', 'WordErrorRate', 'CompositionalMetric', 'MeanAveragePrecision', 'MetricTracker',"
        " 'dice_score', 'MulticlassF1Score']\n"
    )


def test_a_module_of_ours_comes_first() -> None:
    module = importlib.import_module("valor_gpu.text.rouge")
    assert str(module.__file__).endswith("rouge.py") and module.rouge_scores is valor_gpu.text.rouge_scores
    with pytest.raises(AttributeError, match=r"^module 'valor_gpu\.text\.rouge' has no attribute 'BLEUScore'$"):
        _ = module.BLEUScore


def test_made_modules_are_modules_of_python() -> None:
    module = importlib.import_module("valor_gpu.text.wer")
    assert importlib.import_module("valor_gpu.text.wer") is module is sys.modules["valor_gpu.text.wer"]
    assert importlib.reload(module) is module and module.__spec__ is not None
    assert module.__all__ == ["WordErrorRate"] and "torchmetrics.text.wer" in str(module.__doc__)
    assert pickle.loads(pickle.dumps(module.WordErrorRate)) is copy.copy(module.WordErrorRate)
    values: dict[str, Any] = {}
    exec("from valor_gpu.wrappers import *", values)
    assert values["MetricTracker"] is torchmetrics.MetricTracker


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("import valor_gpu.audio", "No module named 'valor_gpu.audio' but torchmetrics has it: import"
         " torchmetrics.audio"),
        ("from valor_gpu import audio", "No module named 'valor_gpu.audio' but torchmetrics has it: import"
         " torchmetrics.audio"),
        ("from valor_gpu.clustering import RandScore", "No module named 'valor_gpu.clustering' but torchmetrics has"
         " it: import torchmetrics.clustering"),
        ("from valor_gpu import PeakSignalNoiseRatio", "cannot import name 'PeakSignalNoiseRatio' from 'valor_gpu' but"
         " torchmetrics has it: from torchmetrics import PeakSignalNoiseRatio"),
        ("from valor_gpu.functional import peak_signal_noise_ratio", "cannot import name 'peak_signal_noise_ratio' from"
         " 'valor_gpu.functional' but torchmetrics has it: from torchmetrics.functional import"
         " peak_signal_noise_ratio"),
        ("from valor_gpu.nominal import CramersV", "cannot import name 'CramersV' from 'valor_gpu.nominal' but"
         " torchmetrics has it: from torchmetrics.nominal import CramersV"),
        ("from valor_gpu.text import WordErorRate", "cannot import name 'WordErorRate' from 'valor_gpu.text'; did you"
         " mean 'WordErrorRate'?"),
        ("from valor_gpu import COCOeval", "cannot import name 'COCOeval' from 'valor_gpu'; valor_gpu.coco.COCOeval is"
         " there"),
        ("import valor_gpu.no_such_module", "No module named 'valor_gpu.no_such_module'"),
        ("import valor_gpu._nothing", "No module named 'valor_gpu._nothing'"),
    ],
)  # fmt: skip
def test_imports_of_what_is_not_here_say_where_it_is(statement: str, message: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement)
    assert str(caught.value) == message


def test_an_unknown_name_is_an_error_of_python() -> None:
    with pytest.raises(ImportError, match=r"^cannot import name 'xyzzy' from 'valor_gpu' \(.*__init__.py\)$"):
        exec("from valor_gpu import xyzzy")


def test_whether_a_module_is_there_can_be_asked() -> None:
    assert importlib.util.find_spec("valor_gpu.audio") is None
    assert importlib.util.find_spec("valor_gpu.text.wer") is not None


def test_modules_and_messages_load_no_torch() -> None:
    program = """
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
import valor_gpu.wrappers, valor_gpu.utilities.data, valor_gpu.text.wer
dir(valor_gpu.wrappers)
for statement in ("import valor_gpu.audio", "from valor_gpu.nominal import CramersV"):
    try:
        exec(statement)
    except ImportError as error:
        str(error)
print([name for name in ("torch", "torchmetrics") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_names_read_from_files_are_those_of_the_modules() -> None:
    """Static reading and importing agree wherever a module lists or defines names, but for optional packages."""
    paths = [path for path in PATHS if path.partition(".")[0] not in ("utilities", "functional")]
    for path in ("", "functional", "functional.text", "functional.text.wer", "utilities", *paths):
        module = importlib.import_module(f"torchmetrics.{path}".rstrip("."))
        read, there = sources.names(path), set(defined(module))
        assert there <= read, path
        assert not any(hasattr(module, name) for name in read - there), path


def test_threads_parse_sources_of_torchmetrics_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 raises SystemError now and then where two threads make syntax trees at once."""
    active: list[int] = [0]

    def parse(*args: Any, **options: Any) -> Any:
        active.append(active[-1] + 1)
        time.sleep(0.01)
        active.append(active[-1] - 1)
        return compile(*args, **options)

    monkeypatch.setattr(sources, "compile", parse, raising=False)
    with ThreadPoolExecutor(4) as pool:
        read = [*pool.map(sources._read.__wrapped__, [str(sources._file("wrappers"))] * 4)]
    assert max(active) == 1 and read == [read[0]] * 4 and "MinMaxMetric" in read[0][0]
