"""VALOR_GPU_DISABLE: CUDA kernels that it names are never launched, and what serves instead gives the same numbers."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.checkout import ROOT
from tests.native import clean
from tests.native.pretend import DeviceTensor, here, pretending, there
from valor_gpu import native
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.ops import _launch, _library, _switches, backends
from valor_gpu.ops.accumulate import cuda as _accumulate_cuda
from valor_gpu.ops.accumulate import op as accumulate
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule
from valor_gpu.ops.boundary.op import MAX_CUDA_WIDTH, mask_boundary
from valor_gpu.ops.masks import op as masks
from valor_gpu.ops.outcome_counts import op as outcome_counts
from valor_gpu.report import doctor

TABLES = ("valor_upload_cuda", "valor_read_back_cuda")
"""C functions that copy tables: they belong to no op."""

WITHOUT_KERNEL = {"count_ground_truths", "label_counts", "order_records", "rank_sums"}
IN_VAIN = "; VALOR_GPU_DISABLE finds no CUDA kernel to switch off"

Rows = dict[str, dict[str, Any]]


def ended(variable: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "VALOR_GPU_DISABLE": variable, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=ROOT)


@functools.cache
def switched(variable: str) -> Rows:
    """The rows that tests/ops/switched.py prints."""
    clean.skip_if_known("simulator")
    done = ended(variable, "-m", "tests.ops.switched")
    assert done.returncode == 0, done.stderr
    found: Rows = json.loads(done.stdout)
    return found


def test_every_op_can_be_named() -> None:
    assert tuple(op.name for op in backends()) == _switches.NAMES


def test_a_kernel_that_two_ops_launch_has_one_owner() -> None:
    """Of a C function that several ops call, all but one op say whose it is: it stops where that op is switched off."""
    usual = switched("")
    assert all(not row["wrong"] and not row["warnings"] and not row["disabled"] for row in usual.values())
    assert sum(row["kind"] == "CUDA" for row in usual.values()) == 44
    callers: dict[str, list[str]] = {}
    for name, row in usual.items():
        for symbol in row["called"]:
            callers.setdefault(symbol, []).append(name)
    for symbol, names in callers.items():
        if symbol == "valor_add_pixels_cuda":  # one C function, but each of the two ops has a kernel of its own
            kernels = [set(usual[name]["kernels"]) for name in ("count_pixels", "count_logits")]
            assert {name.split("<")[0] for name in kernels[0] & kernels[1]} == {"begin_kernel"}  # which sets them to 0
            assert all("count_" in str(names) for names in kernels)
        elif symbol not in TABLES:
            owners = [o for o in names if all(o in usual[name]["launches"] for name in names if name != o)]
            assert len(owners) == 1, (symbol, names)
    shared = [name for name, row in usual.items() if row["launches"]]
    shares = [
        "accumulate",
        "count_top",
        "grouped_means",
        "keypoint_pairs",
        "query_scores",
        "rank_curves",
        "rotated_pairs",
    ]
    assert shared == shares


def test_what_is_named_launches_nothing_and_gives_the_same_numbers() -> None:
    usual = switched("")
    found = switched(" precision_recall,count_labels,,auroc_and_ap,keypoint_similarity , rotated_iou,count_logits,")
    named = {"precision_recall", "count_labels", "auroc_and_ap", "keypoint_similarity", "rotated_iou", "count_logits"}
    off = named | {"accumulate", "count_top", "grouped_means", "keypoint_pairs", "rank_curves", "rotated_pairs"}
    assert {name for name, row in found.items() if row["disabled"]} == off
    for name in off:
        row = found[name]
        assert (row["kind"], row["called"], row["kernels"], row["wrong"]) == ("reference", [], [], []), name
        (warning,) = row["warnings"]
        assert warning == f"plain PyTorch serves {name} on CUDA tensors, slowly: {row['reason']}"
        assert row["reason"].startswith("VALOR_GPU_DISABLE switches off ")
    assert found["count_top"]["reason"].endswith(" the kernel of count_labels, which its CUDA kernel needs")
    assert {name: row for name, row in found.items() if name not in off} == {
        name: row for name, row in usual.items() if name not in off
    }


@pytest.mark.slow
def test_all_kernels_can_be_off() -> None:
    found = switched(",".join(_switches.NAMES))
    assert {name for name, row in found.items() if not row["disabled"]} == WITHOUT_KERNEL
    assert all(row["kind"] == "reference" for row in found.values())
    assert all(row["called"] == row["kernels"] == row["wrong"] == [] for row in found.values())


def test_both_kernels_of_an_op_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the CUDA library Triton serves ``count_logits``, but not where that is named."""
    monkeypatch.setattr(_library, "switched_off", lambda: {"count_logits"})
    triton = _library.Implementation("Triton", lambda *_: None, "triton is installed")
    found = _library._unless_disabled("count_logits", (), triton)
    assert (found.kind, found.kernel, found.disabled) == ("reference", None, True)
    assert "its Triton kernel" in found.reason


@pytest.mark.slow
def test_an_op_without_a_cuda_kernel_is_not_switched_off() -> None:
    """It is as fast as before, so that nothing warns of it."""
    usual, found = switched(""), switched(",".join(_switches.NAMES))
    for name in WITHOUT_KERNEL:
        assert usual[name]["kind"] == "reference" and found[name]["warnings"] == []
        assert found[name]["reason"] == usual[name]["reason"] + IN_VAIN


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The registry as the variable leaves it on a machine with a GPU, for the ops that spare the dispatcher."""
    native.warn_once.cache_clear()
    for name in ("assign", "accumulate", "count_outcomes", "mask_boundary", "dense_pairs"):
        op = _library._REGISTERED[name]
        off = replace(op.cuda, warning=f"{name} is off", disabled=True)
        monkeypatch.setitem(_library._REGISTERED, name, replace(op, cuda=off))
    yield
    native.warn_once.cache_clear()


def batch_of_boxes() -> tuple[Any, Any]:
    box = torch.tensor([[0.0, 0.0, 9.0, 9.0], [20.0, 20.0, 29.0, 29.0]])
    preds = [{"boxes": box, "scores": torch.tensor([0.5, 0.75]), "labels": torch.tensor([3, 3])}]
    return preds, [{"boxes": box[:1], "labels": torch.tensor([3])}]


def updated() -> tuple[list[str], MeanAveragePrecision]:
    metric = MeanAveragePrecision()
    metric.error = there(metric.error)
    with pretending() as called:
        metric.update(*there(batch_of_boxes()))
    return called, metric


def test_assign_spares_the_dispatcher_only_where_it_is_not_named(named: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="^assign is off$"):
        called, metric = updated()
    assert called == ["valor_assign_cpu"]  # by the dispatcher, for which pretended tensors are of the CPU
    plain = MeanAveragePrecision()
    plain.update(*batch_of_boxes())
    assert torch.equal(here(metric.detections[0]), plain.detections[0])
    monkeypatch.undo()
    assert "valor_assign_cuda" in updated()[0]


def test_dense_pairs_spares_the_dispatcher_only_where_it_is_not_named(
    named: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = [torch.ones(1, 3, 3, dtype=torch.bool)]
    batch = MatchBatch(torch.tensor([[1], [1]]), [], [torch.ones(1)], [torch.ones(1).long()])
    batch = replace(batch, gt_labels=[torch.ones(1).long()])
    rule = MatchRule.make([0.5], [[0, 1e10]], [100])
    reached, op = [], masks._PAIRS

    def noting(name: str) -> Any:
        return lambda *given, **_: reached.append(name) or op(*here(given))

    def pairs() -> Any:
        with pytest.MonkeyPatch().context() as patched:
            patched.setattr(masks, "_PLAIN", {DeviceTensor})
            patched.setattr(masks, "_PAIRS", noting("dispatcher"))
            patched.setattr(masks, "_pairs_on_cuda", noting("kernel"))
            patched.setattr(native, "available", lambda name: True)
            fields = {name: there(getattr(batch, name)) for name in ("scores", "labels", "gt_labels")}
            found, _ = masks.dense_pairs(replace(batch, **fields), there(scene), there(scene), rule)
        assert found.pairs is not None
        return here(found.pairs.similarities).tolist()

    with pytest.warns(UserWarning, match="^dense_pairs is off$"):
        assert pairs() == [1.0]
    monkeypatch.undo()
    assert pairs() == [1.0]
    assert reached == ["dispatcher", "kernel"]


def test_accumulate_spares_the_dispatcher_only_where_it_is_not_named(
    named: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = MeanAveragePrecision()
    plain.update(*batch_of_boxes())
    expected = plain._accumulate(plain.state(), False).means
    reached, op = [], accumulate._ACCUMULATE
    patched = pytest.MonkeyPatch()
    patched.setattr(accumulate, "_ACCUMULATE", lambda *given: op(*here(given)))
    patched.setattr(accumulate, "Tensor", DeviceTensor)
    patched.setattr(native, "available", lambda name: True)
    patched.setattr(_accumulate_cuda, "accumulate", lambda *_: reached.append("kernel"))
    state = replace(plain.state(), **there(plain.state().tensors()))
    try:
        with pytest.warns(UserWarning, match="^accumulate is off$"):
            found = plain._accumulate(state, False)
        assert reached == [] and torch.equal(here(found.means).nan_to_num(-1.0), expected.nan_to_num(-1.0))
        monkeypatch.undo()
        plain._accumulate(state, False)
        assert reached == ["kernel"]
    finally:
        patched.undo()


def test_an_addition_in_place_asks_as_well(named: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = there((torch.zeros((1, 15), dtype=torch.uint8), torch.zeros(1, dtype=torch.int32)))
    tables = torch.zeros((1, outcome_counts.bin_count(1, 0), 2, 1)).long(), torch.zeros((1, 1, 1)).long()
    reached: list[str] = []
    monkeypatch.setattr(native, "available", lambda name: True)
    with monkeypatch.context() as patched:
        patched.setattr(outcome_counts, "_add_cuda", lambda *_, statuses: reached.append("kernel"))
        with pytest.warns(UserWarning, match="^count_outcomes is off$"):
            outcome_counts.Addition(*rows, *there(tables), 1, 0).run()
        assert reached == [] and int(tables[0].sum()) == 1
        patched.setattr(outcome_counts, "disabled", lambda name: False)
        outcome_counts.Addition(*rows, *there(tables), 1, 0).run()
    assert reached == ["kernel"]


def test_a_limit_of_a_kernel_goes_with_it(named: None, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = there(torch.ones((1, 1, MAX_CUDA_WIDTH + 1), dtype=torch.uint8))
    with pytest.warns(UserWarning, match="^mask_boundary is off$"):
        assert int(here(mask_boundary(wide)).sum()) == MAX_CUDA_WIDTH + 1
    monkeypatch.undo()
    with pytest.raises(InputError, match="masks must have at most 393201 columns on CUDA but have 393202"):
        mask_boundary(wide)


def test_a_warning_comes_once(named: None) -> None:
    with pytest.warns(UserWarning, match="^assign is off$"):
        assert _library.disabled("assign")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _library.disabled("assign") and not _library.disabled("box_iou")


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("assign,box_iuo", "'box_iuo'; did you mean 'box_iou' or "),
        ("iou", "'iou'; did you mean "),
        ("zzz", "'zzz': they are accumulate, assign, "),
        ("assign;box_iou", "'assign;box_iou'"),
    ],
)
def test_a_typo_is_an_error(variable: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_GPU_DISABLE", variable)
    with pytest.raises(InputError, match="VALOR_GPU_DISABLE must name ops, separated by commas, but got ") as raised:
        _switches.switched_off.__wrapped__()
    assert hint in str(raised.value)


@pytest.mark.slow
def test_a_typo_stops_the_first_op_and_doctor() -> None:
    done = ended("asign", "-c", "import valor_gpu.detection; valor_gpu.detection.MeanAveragePrecision")
    assert done.returncode == 1 and "got 'asign'; did you mean 'assign'?" in done.stderr.splitlines()[-1]
    done = ended("asign", "-m", "valor_gpu", "doctor")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[0].startswith("valor-gpu doctor: error: VALOR_GPU_DISABLE must name ops")


def test_doctor_says_what_is_off_and_what_serves(named: None) -> None:
    facts = doctor.survey()
    ops = {op["name"]: op for op in facts["ops"]}
    assert {name for name, op in ops.items() if op["cuda"]["disabled"]} == {
        "accumulate", "assign", "count_outcomes", "dense_pairs", "mask_boundary",
    }  # fmt: skip
    assert all("disabled" not in op["cpu"] for op in ops.values())
    off = "accumulate, assign, count_outcomes, dense_pairs, mask_boundary"
    advice = f"VALOR_GPU_DISABLE is set: plain PyTorch serves {off} on CUDA, slowly"
    assert [line for line in facts["advice"] if "VALOR_GPU_DISABLE" in line] == [advice]
    assert advice in doctor.doctor_text(facts)


def test_doctor_calls_no_op_slow_that_has_no_cuda_kernel() -> None:
    done = ended("label_counts", "-m", "valor_gpu", "doctor", "--json")
    facts = json.loads(done.stdout)
    (row,) = [op["cuda"] for op in facts["ops"] if op["name"] == "label_counts"]
    assert row["disabled"] is False and row["reason"].endswith(IN_VAIN)
    assert not any("VALOR_GPU_DISABLE" in line for line in facts["advice"])


@pytest.mark.parametrize(("archs", "ending"), [(["90"], " (13.0) for sm_90"), (["80", "90"], " for sm_80 sm_90")])
def test_doctor_names_architectures_as_nvcc_does(
    archs: list[str], ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = {"built": True, "compiler": "nvcc", "version": "13.0", "architectures": archs}
    monkeypatch.setattr(native, "build_record", lambda: {"valor_cuda": build})
    monkeypatch.setattr(native, "available", lambda name: True)
    monkeypatch.setattr(native, "explanation", lambda name: "loaded")
    facts = doctor.survey()
    assert facts["libraries"]["valor_cuda"]["build"]["architectures"] == archs
    assert any(line.endswith(ending) for line in doctor.doctor_text(facts).splitlines())


@pytest.mark.parametrize(
    ("version", "expected"),
    [("3.5.1", False), ("3.6.0", True), ("3.10.0+git1", True), ("4.0", True), ("odd", False)],
)
def test_only_a_triton_that_tests_have_seen_serves(
    version: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_launch.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(_launch.importlib.metadata, "version", lambda name: version)
    assert _launch.has_triton() is expected
    monkeypatch.setattr(_launch.importlib.util, "find_spec", lambda name: None)
    assert not _launch.has_triton()
