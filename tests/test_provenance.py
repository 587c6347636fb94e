"""Results name the device and the kernels that served them."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from importlib.machinery import ModuleSpec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from testing.lvis_scenes import random_lvis
from tests.checkout import ROOT
from tests.coco.comparison import OURS, evaluator, random_objects, run
from tests.contract import METRICS, Case
from valor_gpu import native, provenance
from valor_gpu._version import __version__
from valor_gpu.classification import Accuracy
from valor_gpu.cli import main
from valor_gpu.coco import LVISEval
from valor_gpu.coco.torch_engine import TorchEngine
from valor_gpu.errors import InputError
from valor_gpu.ops import _library, _switches, backends
from valor_gpu.report import classify as report
from valor_gpu.result import Result, Signature
from valor_gpu.text import BLEU

PACKAGE = ROOT / "valor_gpu"
KINDS = {"C++", "CUDA", "Triton", "reference"}
HOST_KIND = "C++" if native.available("valor_cpu") else "Python"
TORCH = metadata.version("torch")  # as installed: 2.6.0 where torch.__version__ says 2.6.0+cu124


class Dispatched(TorchDispatchMode):
    """Notes which ops of the package the dispatcher is asked for; nothing goes to a kernel beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == _library.NAMESPACE:
            self.ops.add(func._schema.name.partition("::")[2])
        return func(*args, **(kwargs or {}))


def served(found: dict[str, Any]) -> dict[str, Any]:
    """The part of a provenance that does not depend on the data."""
    return {name: found[name] for name in ("device", "version", "versions", "kernels")}


def backend(name: str) -> str:
    """Kind of the CPU kernel of an op."""
    return next(op.cpu.kind for op in backends() if op.name == name)


def accuracy() -> Accuracy:
    metric = Accuracy(num_classes=3)
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    return metric


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_every_op_that_a_metric_calls_is_named(case: Case) -> None:
    metric = case.make()
    with Dispatched() as seen:
        metric.update(*case.batch(0))
        result = metric.result()
    kernels = dict(result.provenance["kernels"])
    assert seen.ops <= kernels.keys()
    assert kernels.pop("host") == HOST_KIND
    served = {op.name: op.cpu.kind for op in backends()}
    assert kernels == {name: served[name] for name in kernels}
    assert set(kernels.values()) <= KINDS


def test_some_ops_are_dispatched() -> None:
    """Else the test above would see nothing."""
    with Dispatched() as seen:
        accuracy()
    assert seen.ops == {"count_labels"}


def test_ops_of_other_metrics_are_not_named() -> None:
    """Whatever else this process has imported."""
    kernels = accuracy().result().provenance["kernels"]
    assert set(kernels) == {
        "host", "confuse_scores", "count_labels", "count_pairs", "count_top", "first_in_cells", "predict_maps",
        "score_histogram", "top_classes",
    }  # fmt: skip


ONE_METRIC = """
import json
from valor_gpu.segmentation import PanopticQuality
print(json.dumps(PanopticQuality(things={0}, stuffs={1}).result().provenance))
"""
WHOLE_PACKAGE = """
import importlib, pkgutil
import valor_gpu
for module in pkgutil.walk_packages(valor_gpu.__path__, "valor_gpu."):
    if not module.name.endswith("__main__") and ".triton" not in module.name and "libvalor" not in module.name:
        importlib.import_module(module.name)
"""
POLLUTED = """
import sys
import torch
import valor_gpu.metric, valor_gpu.ops.labels.op, valor_gpu.classification.accuracy as accuracy
for name, module in list(sys.modules.items()):
    if name.startswith("valor_gpu."):
        module._kept, module._class, module._op = accuracy, accuracy.Accuracy, torch.ops.valor_gpu.count_labels.default
"""


@pytest.mark.parametrize(
    "before",
    ["", pytest.param(WHOLE_PACKAGE, marks=pytest.mark.slow), pytest.param(POLLUTED, marks=pytest.mark.slow)],
    ids=["alone", "whole package", "polluted"],
)
def test_it_does_not_depend_on_what_the_process_did_before(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", before + ONE_METRIC], capture_output=True, text=True, check=True)
    kernels = {"host": HOST_KIND, "count_panoptic": backend("count_panoptic")}
    reason = "the state keeps counts alone"
    assert json.loads(done.stdout) == {
        "device": "cpu",
        "version": __version__,
        "versions": {"numpy": np.__version__, "torch": TORCH},
        "kernels": kernels,
        "dtype": "int64",
        "world_size": 1,
        "deviations": [],
        "hashed": None,
        "ground_truth": None,
        "predictions": None,
        "reasons": {"ground_truth": reason, "predictions": reason},
    }


def test_modules_that_are_imported_when_needed_are_named_before() -> None:
    """The torch engine imports these inside of methods: the ops of boxes alone would depend on earlier evaluations."""
    program = """
import json, torch
from valor_gpu.coco.torch_engine import TorchEngine
print(json.dumps(TorchEngine(torch.device("cpu")).provenance()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found == TorchEngine(torch.device("cpu")).provenance()
    assert {"keypoint_pairs", "rotated_pairs", "run_pairs"} <= found["kernels"].keys()


def test_every_op_is_found_in_its_source() -> None:
    paths = (path.relative_to(ROOT / "valor_gpu/ops") for path in (ROOT / "valor_gpu/ops").glob("*/op.py"))
    homes = [f"valor_gpu.ops.{path.parent.name}.op" for path in paths]
    assert sorted(op for home in homes for op in provenance._source(home).ops) == list(_switches.NAMES)


def parsed(path: Path) -> tuple[set[tuple[str, str]], set[str], set[str]]:
    """Imports from the package, ops and constants at the top level of a file, by Python's parser."""
    body = ast.parse(path.read_bytes()).body
    froms = [node for node in body if isinstance(node, ast.ImportFrom) and str(node.module).startswith("valor_gpu")]
    ops, constants = set(), set()
    for node in body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        call = node.value if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "register" else None
        texts = (part.value for part in ast.walk(call.args[0]) if isinstance(part, ast.Constant)) if call else ()
        ops |= {str(text).partition("(")[0] for text in islice(texts, 1)}
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        constants |= set() if call else {name for name in names if name.isupper()}
    return {(str(node.module), part.name) for node in froms for part in node.names if part.name != "*"}, ops, constants


def test_sources_are_read_as_by_the_parser() -> None:
    paths = {f"valor_gpu.{'.'.join(path.relative_to(PACKAGE).parts)}"[:-3]: path for path in PACKAGE.rglob("*.py")}
    modules = {name: path for name, path in paths.items() if path.stem != "__init__" and ".triton." not in name}
    assert len(modules) > 500
    for name, path in modules.items():
        found = provenance._source(name)
        assert (set(found.imports), found.ops, found.constants) == parsed(path), name


def test_a_constant_of_another_op_is_no_call_of_it() -> None:
    assert ("valor_gpu.ops.pixel_counts.op", "PIXEL_TYPES") in provenance._source("valor_gpu.ops.panoptic.op").imports
    assert provenance._home("valor_gpu.ops.pixel_counts.op", "PIXEL_TYPES") == ""
    assert provenance._home("valor_gpu.ops.pixel_counts.op", "count_pixels") == "valor_gpu.ops.pixel_counts.op"
    assert provenance._home("valor_gpu.ops.panoptic", "reference") == "valor_gpu.ops.panoptic.reference"
    assert provenance._home("valor_gpu.classification", "Accuracy") == ""


@pytest.mark.parametrize("origin", ["missing.py", "compiled.pyc"])
def test_without_a_source_all_ops_may_have_served(origin: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "compiled.pyc").write_bytes(b"\xa7\r\r\n" + bytes(12))
    spec = ModuleSpec("valor_gpu.ops.labels.op", None, origin=str(tmp_path / origin))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    found = provenance._source.__wrapped__("valor_gpu.ops.labels.op")
    assert found == ((), frozenset(_switches.NAMES), frozenset())


def test_it_is_found_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    ours = provenance.op_provenance
    monkeypatch.setattr(provenance, "op_provenance", lambda *given: calls.append(given) or ours(*given))
    result = accuracy().result()
    str(result), repr(result), result.scalars(), result.signature
    assert calls == []
    assert result.provenance == result.provenance and len(calls) == 1
    assert result.provenance["device"] == "cpu" and result.provenance["version"] == __version__


def test_it_is_json_and_read_only() -> None:
    result = accuracy().result()
    found = result.provenance
    expected = result.to_dict()["provenance"]
    assert json.loads(json.dumps(found)) == found == expected
    found["device"] = found["kernels"]["count_labels"] = "changed"
    assert result.provenance == expected
    with pytest.raises(AttributeError, match="provenance"):
        result.provenance = {}  # type: ignore[misc]


def test_what_is_given_is_copied() -> None:
    given: Any = {"device": "cpu", "kernels": {"assign": "C++"}}
    result = Result({}, Signature({}), provenance=given)
    assert result.provenance == given
    given["kernels"]["assign"] = "changed"
    assert result.provenance["kernels"] == {"assign": "C++"}


def test_it_is_no_part_of_text_or_signature() -> None:
    plain = accuracy().result()
    other = Result(plain.values, plain.signature, plain.counts, plain.reasons, provenance={"device": "x"})
    assert str(plain) == str(other) and plain.signature == other.signature and repr(plain) == repr(other)
    assert plain.provenance != other.provenance == {"device": "x"}


def test_what_switches_a_kernel_off_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda given: f"NVIDIA {given}")
    count = _library._REGISTERED["count_labels"]
    serving = replace(count, cuda=replace(count.cuda, kind="CUDA"))
    monkeypatch.setitem(_library._REGISTERED, "count_labels", serving)
    found = provenance.op_provenance(device, "valor_gpu.ops.labels.op")
    assert (found["device"], found["kernels"]["count_labels"]) == ("NVIDIA cuda:0", "CUDA")
    monkeypatch.setitem(_library._REGISTERED, "count_labels", replace(count, cuda=_library.by_reference("off")))
    assert provenance.op_provenance(device, "valor_gpu.ops.labels.op")["kernels"]["count_labels"] == "reference"
    other = provenance.op_provenance(torch.device("mps"), "valor_gpu.ops.labels.op")
    assert (other["device"], other["kernels"]["count_labels"]) == ("mps", "reference")


def test_the_device_is_that_of_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device] = []
    monkeypatch.setattr(provenance, "op_provenance", lambda device, *_: asked.append(device) or {"device": "there"})
    metric = accuracy()
    assert metric.result().provenance["device"] == "there" and asked == [metric.error.device]


def test_what_serves_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    found = provenance.host_provenance()
    assert (found["device"], found["version"], found["kernels"]) == ("cpu", __version__, {"host": HOST_KIND})
    assert found["versions"] == {"numpy": np.__version__}
    of_texts = BLEU().result().provenance
    assert served(of_texts) == {**found, "versions": {"numpy": np.__version__, "torch": TORCH}}
    monkeypatch.setattr(native, "available", lambda name: False)
    assert provenance.host_provenance()["kernels"] == {"host": "Python"}


def test_a_result_of_values_alone_claims_nothing() -> None:
    first = accuracy().result()
    assert Result({"a": 1.0}, Signature({})).provenance == {} == replace(first, counts={}).provenance
    assert first.provenance


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_keep_it(copied: Any) -> None:
    first = accuracy().result()
    made = copied(first)
    assert type(made.provenance) is dict and made.provenance == first.provenance


def test_files_keep_it_and_older_ones_load_without(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    first = accuracy().result()
    first.save(path)
    assert Result.load(path).provenance == first.provenance
    assert json.loads(first.to_json())["provenance"] == first.to_dict()["provenance"]
    given = json.loads(path.read_text())
    other = {**given, "provenance": {"device": "NVIDIA H100", "kernels": {"assign": "CUDA"}}}
    path.write_text(json.dumps(other))
    assert Result.load(path).provenance == other["provenance"]
    del given["provenance"]
    path.write_text(json.dumps(given))
    assert Result.load(path).provenance == {} and Result.load(path).scalars() == first.scalars()
    path.write_text(json.dumps({**given, "provenance": 3}))
    with pytest.raises(InputError, match="has provenance that is no object"):
        Result.load(path)


def test_a_subclass_that_calls_its_base_is_noted_as_itself() -> None:
    class Doubled(Accuracy):
        def result(self) -> Result:
            """Returns twice the accuracy."""
            base = super().result()
            return Result({"doubled": 2 * base.values["Doubled"]}, base.signature)

    metric = Doubled(num_classes=3)
    metric.update(torch.tensor([0]), torch.tensor([0]))
    result = metric.result()
    assert result.values["doubled"] == 2.0 and Doubled.result.__doc__ == "Returns twice the accuracy."
    assert result.provenance["kernels"] == accuracy().result().provenance["kernels"]


def test_a_result_of_another_kind_passes() -> None:
    class Numbers(Accuracy):
        def result(self) -> Any:
            """Returns a dict."""
            return {"a": 1}

    assert Numbers(num_classes=3).result() == {"a": 1}


def test_coco_results_are_of_their_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = random_objects(3)
    assert served(run(evaluator(OURS, objects)).e.result().provenance) == provenance.host_provenance()
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(torch.device("cpu")))
    evaluation = run(evaluator(OURS, objects)).e
    whole, counts = evaluation.result().provenance, evaluation.result(with_values=False).provenance
    assert {"assign", "box_iou", "order_records", "precision_recall"} <= whole["kernels"].keys()
    assert whole == counts and whole["device"] == "cpu"


def test_lvis_results_are_of_their_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dataset, detections = random_lvis(1)
    (tmp_path / "gt.json").write_text(json.dumps(dataset))

    def made() -> Result:
        evaluation = LVISEval(tmp_path / "gt.json", detections)
        evaluation.run()
        return evaluation.result()

    assert served(made().provenance) == provenance.host_provenance()
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(torch.device("cpu")))
    assert "assign" in made().provenance["kernels"]


DATA = ROOT / "examples/data"
COMMANDS = {
    "classify": ["--data", str(DATA / "digits_predictions.csv"), "--target", "digit", "--scores-prefix", "p_"],
    "panoptic": [
        *("--gt", str(DATA / "panoptic_examples.json")),
        *("--pred", str(DATA / "panoptic_examples_predictions.json")),
    ],
    "segment": [
        *("--gt", str(DATA / "label_maps/gt"), "--pred", str(DATA / "label_maps/pred")),
        *("--names", str(DATA / "label_maps/names.txt"), "--ignore", "255"),
    ],
    "text": ["--prediction", "a", "--reference", "a", "--metrics", "word_error_rate"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_what_serves_the_host(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, *COMMANDS[command], "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["provenance"]
    assert served(found) == provenance.host_provenance()
    assert found["world_size"] == 1 and found["deviations"] == [] and found["dtype"] in ("float64", "int64")


def test_classify_by_torch_names_the_ops(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_parts", report.results_by_torch)
    assert main(["classify", *COMMANDS["classify"], "--json", "-"]) == 0
    assert "count_pairs" in json.loads(capsys.readouterr().out)["provenance"]["kernels"]
