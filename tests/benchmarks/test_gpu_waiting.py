"""The checks of waits: every metric has one, each finds a wait, and none is in what torch sees of an update."""

from __future__ import annotations

import importlib
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import gpu_waiting
from benchmarks.checks import Checks, Disagreement
from benchmarks.gpu_waiting import Waiting, check_forward, metrics
from tests.native.pretend import WAITS, DeviceTensor, here
from valor_gpu.classification import Accuracy
from valor_gpu.metric import Metric
from valor_gpu.regression import MeanSquaredError

CPU, META = torch.device("cpu"), torch.device("meta")
CASES = metrics()


def test_every_metric_has_a_check() -> None:
    named = {name.partition(",")[0] for name in CASES}
    made = importlib.import_module("valor_gpu.compat.torchmetrics.task_names").MADE
    for family in ("classification", "regression", "retrieval"):
        module = importlib.import_module(f"valor_gpu.{family}")
        kinds = {name: getattr(module, name) for name in module.__all__ if name not in made}
        assert {name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Metric)} <= named


def test_the_checks_pass_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    some = {name: CASES[name] for name in ("BrierScore", "R2Score, multioutput raw_values", "RetrievalMAP")}
    monkeypatch.setattr(gpu_waiting, "metrics", lambda: some)
    checks = Checks(show=lambda _: None)
    gpu_waiting.check_waiting(checks, CPU)
    assert [record["outcome"] for record in checks.records] == ["unavailable"] * 6, checks.records
    names = [record["name"] for record in checks.records[:2]]
    assert names == ["update of BrierScore does not wait", "forward of BrierScore waits as often as compute"]


class Reading:
    """A metric whose calls read back so many times, as torch would say of a GPU."""

    def __init__(self, by_compute: int, by_forward: int) -> None:
        self.by_compute, self.by_forward = by_compute, by_forward

    def to(self, _: torch.device) -> Reading:
        """Returns itself."""
        return self

    def update(self) -> None:
        """Reads nothing."""

    def compute(self) -> None:
        """Reads back."""
        for _ in range(self.by_compute):
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)

    def __call__(self) -> None:
        for _ in range(self.by_forward):
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)


@pytest.mark.filterwarnings("ignore:called a synchronizing")
def test_a_wait_of_forward_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = ["default"]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    found = [check_forward(Waiting(partial(Reading, 2, n), lambda _: ()), torch.device("cuda")) for n in (0, 2)]
    assert found == [{"waits_of_compute": 2}] * 2 and modes == ["default", *["warn", "default"] * 4]
    with pytest.raises(Disagreement, match="forward waits 3 times for the device, and compute 2 times"):
        check_forward(Waiting(lambda: Reading(2, 3), lambda _: ()), torch.device("cuda"))


# ---------------------------------------------------------------------------------------- what torch sees of an update


class Copies(TorchDispatchMode):
    """Notes copies between the host and the device, for which the host waits."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        leaves = [leaf for leaf in pytree.tree_leaves((args, out)) if isinstance(leaf, Tensor)]
        if func._schema.name in ("aten::_to_copy", "aten::copy_") and len({leaf.device for leaf in leaves}) > 1:
            self.note(func._schema.name)
        return out

    def note(self, what: str) -> None:
        """Keeps a wait with the last line of the package that led to it."""
        lines = [frame for frame in traceback.extract_stack() if "/valor_gpu/" in frame.filename]
        self.found.append(f"{what} in {lines[-1].filename}:{lines[-1].lineno}" if lines else what)


@pytest.fixture
def on_meta(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], list[str]]]:
    """A function that gives the waits of a call; tensors of the meta device, which has no values, count as a GPU's.

    torch raises where the host needs a value, and has no kernel where a value decides a shape.
    """
    monkeypatch.setattr(Tensor, "is_cuda", property(lambda tensor: tensor.device.type == "meta"))

    def waits(call: Callable[[], object]) -> list[str]:
        with monkeypatch.context() as patch, Copies() as copies:
            for name in ("tensor", "as_tensor"):
                make = getattr(torch, name)

                def noted(*given: Any, make: Any = make, name: str = name, **choices: Any) -> Tensor:
                    if choices.get("device") is not None and torch.device(choices["device"]) == META:
                        copies.note(f"torch.{name}")
                    made: Tensor = make(*given, **choices)
                    return made

                patch.setattr(torch, name, noted)
            call()
        found: list[str] = copies.found
        return found

    yield waits


def there(waiting: Waiting) -> tuple[Any, list[tuple[Tensor, ...]]]:
    """A metric of the meta device after a first update, and further batches."""
    metric = waiting.make().to(META)
    batches = [tuple(part.to(META) for part in waiting.batch(number)) for number in range(3)]
    metric.update(*batches[0])  # copies constant tables
    return metric, batches[1:]


@pytest.mark.parametrize("name", CASES)
def test_updates_and_the_sum_of_forward_need_no_value(name: str, on_meta: Callable[..., list[str]]) -> None:
    metric, (one, other) = there(CASES[name])
    assert on_meta(lambda: metric.update(*one)) == []
    metric.compute = lambda: None  # it reads back
    assert on_meta(lambda: metric(*other)) == []
    assert metric.update_count == 3


class Hasty(MeanSquaredError):
    """A metric that needs a value in its update."""

    def update(self, preds: Any, target: Any) -> None:
        """Adds a batch if it holds a number above 0."""
        if (preds > 0).any():
            super().update(preds, target)


class Copying(Accuracy):
    """A metric that makes a table of the host in its update."""

    def update(self, preds: Any, target: Any, sample_weight: Any = None) -> None:
        """Adds a batch."""
        super().update(preds, torch.tensor([1] * len(target), device=target.device), sample_weight)


def test_a_value_that_is_needed_is_found(on_meta: Callable[..., list[str]]) -> None:
    with pytest.raises(Exception, match="but one is on meta"):
        there(Waiting(Hasty, CASES["MeanSquaredError"].batch))
    metric, (batch, _) = there(Waiting(lambda: Copying(num_classes=gpu_waiting.CLASSES), CASES["Accuracy"].batch))
    assert [wait.partition(" in ")[0] for wait in on_meta(lambda: metric.update(*batch))] == ["torch.tensor"]


# --------------------------------------------------------------------------------------------------- reads of compute


class Read(DeviceTensor):
    """A tensor of the device that notes where its values are read, and gives them."""

    reads: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in WAITS:
            cls.reads.append(func.__name__)
            return here(found)
        return found if isinstance(found, torch.Size) else as_read(found)


def as_read(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.as_subclass(Read), value)


OF_SUMS = [
    name for name in CASES if not any(isinstance(held, list) for held in CASES[name].make().metric_state.values())
]
"""Metrics whose states are sums alone."""


@pytest.mark.parametrize("name", OF_SUMS)
def test_compute_reads_error_marks_and_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times at most: no field of the state comes alone."""
    metric = CASES[name].make()
    metric.update(*CASES[name].batch(0))
    for field, held in metric.metric_state.items():
        metric.__dict__[field] = as_read(held)
    monkeypatch.setattr(Read, "reads", [])
    metric.compute()
    assert 1 <= len(Read.reads) <= 3, Read.reads
