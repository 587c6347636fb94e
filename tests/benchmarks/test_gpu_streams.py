"""Detection on CUDA, as a graph captures it: updates and the device part of compute never wait or pin memory.

Then the checks of a GPU that are about waits, limits and processes, each of which is able to fail.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import gpu_nccl, gpu_parity, gpu_process, gpu_streams, gpu_unseen_streams, gpu_waiting
from benchmarks.checks import CHECK_SECONDS, Checks, Disagreement, Unavailable
from benchmarks.gpu_parity import as_lists, as_packed
from benchmarks.gpu_streams import CHOICES, check_replays
from testing.scenes import random_scene
from tests.native import sim
from tests.native.pretend import DeviceTensor, Waited, here, on_device, pretending, there
from valor_gpu import native
from valor_gpu.classification import Accuracy
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError, SyncError
from valor_gpu.inputs import boxes
from valor_gpu.ops import _device_tables, backends
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._library import by_reference
from valor_gpu.ops.accumulate.run import Guess, Records, Words, enqueue
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.replays import add_replay

Form = Callable[..., tuple[Any, Any]]
FORMS: dict[str, Form] = {"lists": as_lists, "padded": as_packed}
TABLES = ("detections", "ground_truths", "images")
gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.fixture(autouse=True)
def every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No digest holds all the Python whose waits for the device these tests find."""
    monkeypatch.setattr(sim, "skips_known", False)


def batch_of(form: str, images: int, seed: int = 0) -> tuple[Any, Any]:
    return FORMS[form](random_scene(np.random.default_rng([seed, images]), images=images, most=9), seed)


def on_pretended_device() -> MeanAveragePrecision:
    metric = MeanAveragePrecision(box_format="xywh")
    metric.error = there(metric.error)
    return metric


def compute_of(metric: MeanAveragePrecision) -> dict[str, torch.Tensor]:
    """What the CPU gives for the records; padding rows, which the CUDA route keeps, count nowhere."""
    plain = MeanAveragePrecision(box_format="xywh")
    for name in TABLES:
        getattr(plain, name).extend(here(getattr(metric, name)))
    plain._update_count = 1
    return plain.compute()


@pytest.mark.parametrize("images", [1, 16, 17, 40])
@pytest.mark.parametrize("form", FORMS)
def test_updates_neither_wait_nor_pin_memory(form: str, images: int) -> None:
    preds, target = batch_of(form, images)
    metric, plain = on_pretended_device(), MeanAveragePrecision(box_format="xywh")
    with pretending() as called:
        sim.launches()
        metric.update(*there((preds, target)))
        launched = sim.launches()
    table = form == "lists" and images > 16
    assert called == ["valor_plan_assign_cuda", *(["valor_upload_cuda"] if table else []), "valor_assign_cuda"]
    uploads = (
        -(-images * (len(native.fields("valor_cuda", "Segment")) + 2) // 500) if table else 0
    )  # a kernel carries 500 words
    assert len(launched) == uploads + 1 and [name for name in launched if "upload" in name] == launched[:-1]
    plain.update(preds, target)
    got, expected = compute_of(metric), plain.compute()
    assert all(torch.equal(got[name], value) for name, value in expected.items())


def test_the_host_does_the_same_for_any_number_of_padded_images() -> None:
    """Every call of Python and of C counts, and nothing that the calls are given grows with the images."""
    calls = {}
    for images in (16, 400):
        given, metric, found = there(batch_of("padded", images)), on_pretended_device(), []
        with pretending():
            metric.update(*given)
            gc.collect()
            gc.disable()  # what other tests left would be finalised here, and counted
            sys.setprofile(lambda _frame, event, _arg, found=found: found.append(event))
            try:
                metric.update(*given)
            finally:
                sys.setprofile(None)
                gc.enable()
        calls[images] = len(found)
    with pretending():
        lengths = boxes.detection_batch(*given, "xywh").lengths
    assert lengths.shape == (2, 400) and lengths.untyped_storage().nbytes() == 16
    assert calls[400] == calls[16]


def test_a_wait_is_noticed() -> None:
    with pytest.raises(Waited, match="item of a device tensor"):
        there(torch.ones(())).item()
    assert isinstance(there(torch.ones(2)) + 1, DeviceTensor)


@pytest.mark.parametrize("form", FORMS)
def test_a_graph_captures_an_update_of_device_tensors(form: str) -> None:
    metric = on_pretended_device()
    with pretending(capturing=True):
        metric.update(*there(batch_of(form, 40)))
    assert metric.update_count == 1 and len(metric.state().images) == 40


@pytest.mark.parametrize("name", ["counts", "image_id"])
def test_a_graph_takes_no_counts_or_ids_of_the_host(name: str) -> None:
    preds, target = batch_of("padded", 4)
    given = there((preds, target))
    given[1][name] = target[name]
    metric = on_pretended_device()
    with pretending():
        metric.update(*given)
    metric.reset()
    metric.error = there(metric.error)
    with (
        pretending(capturing=True),
        pytest.raises(InputError, match=rf"target\['{name}'\] must not come from the host, .* capture of a CUDA graph"),
    ):
        metric.update(*given)
    assert not metric.images


def test_a_graph_takes_no_ids_of_the_host_in_lists() -> None:
    preds, target = there(batch_of("lists", 2))
    for key, item in enumerate(target):
        item["image_id"] = key
    with pretending(capturing=True), pytest.raises(InputError, match="image_id must not come from the host"):
        on_pretended_device().update(preds, target)


def test_the_device_part_of_compute_neither_waits_nor_pins_memory() -> None:
    metric = MeanAveragePrecision(box_format="xywh")
    metric.update(*batch_of("lists", 40))
    state = metric.state()
    records = Records(*(getattr(state, name) for name in TABLES))
    with pretending(capturing=True) as called:
        sim.launches()
        run = enqueue(there(records), CHOICES, Guess.of(63), True)
        launched = sim.launches()
    assert called == ["valor_accumulate_workspace_cuda", "valor_accumulate_cuda"]
    assert len(launched) == 18, launched  # 11, and 7 for the second order of ties
    words = Words(*here(run.head)[: len(Words._fields)].tolist())
    assert words.labels and not (words.repeated or words.invalid or words.full or words.wide)


def test_compute_says_that_it_cannot_be_captured() -> None:
    with pretending(capturing=True), pytest.raises(InputError, match="compute reads numbers back and must not run"):
        raise_error(there(torch.tensor(1)), str)


def test_tables_of_the_host_become_part_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """No CUDA device is there to copy to: the kernel writes to the CPU."""
    device = torch.device("cuda", 0)
    monkeypatch.setattr(_device_tables, "upload", lambda words, _: torch.from_numpy(words.copy()))
    tables = [torch.arange(5, dtype=torch.int16), torch.rand(3, 4), torch.tensor([[True], [False]])]
    with pretending(capturing=True):
        for table in tables:
            found = to_device(table, device)
            assert found.dtype == table.dtype and torch.equal(found, table)
        with pytest.raises(InputError, match=r"at most 1048576 bytes .* but one takes 1048577"):
            to_device(torch.zeros((1 << 20) + 1, dtype=torch.uint8), device)


# ------------------------------------------------------------------------------------------------------------ replays


def test_a_replay_is_added_as_a_copy() -> None:
    step, total = (MeanAveragePrecision(box_format="xywh") for _ in range(2))
    batch, expected = batch_of("lists", 5), MeanAveragePrecision(box_format="xywh")
    for _ in range(2):
        expected.update(*batch)
    step.update(*batch)
    for _ in range(2):
        add_replay(total, step)
    for name in TABLES:
        getattr(step, name)[0].zero_()
    assert total.update_count == 2
    for name in TABLES:
        assert torch.equal(torch.cat(getattr(total, name)), torch.cat(getattr(expected, name)))
    with pytest.raises(SyncError, match="box_format"):
        add_replay(MeanAveragePrecision(), step)
    with pytest.raises(InputError, match="step must be"):
        add_replay(total, batch)  # type: ignore[arg-type]


def test_a_replay_is_added_outside_of_graphs() -> None:
    """A graph would add to the state of its capture at every replay."""
    step, total = (on_device(Accuracy(num_classes=3)) for _ in range(2))
    with pretending(capturing=True), pytest.raises(InputError, match="add_replay must not run inside the capture"):
        add_replay(total, step)
    assert total.update_count == 0


def test_sums_and_errors_are_added_too() -> None:
    step, total, expected = (Accuracy(num_classes=3) for _ in range(3))
    for number in range(3):
        batch = torch.tensor([0, number, 2]), torch.tensor([0, 1, 2])
        step.reset()
        step.update(*batch)
        expected.update(*batch)
        add_replay(total, step)
    assert torch.equal(total.compute(), expected.compute()) and total.update_count == 3
    step.error = torch.tensor(5)
    add_replay(total, step)
    assert int(total.error) == 5


@pytest.mark.parametrize("form", [pytest.param(form, marks=gpu) for form in FORMS])
def test_replays_give_what_updates_give(form: str) -> None:
    check_replays(torch.device("cuda"), FORMS[form])


# -------------------------------------------------------------------------------------------------------------- waits

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Pretended:
    """A device with one stream, and a clock that passes where the host works or waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.awake = 0.0, 0.0
        self.sleeps: list[float] = []
        self.modes = ["default"]
        for name, replacement in (
            ("_sleep", self._sleep), ("Event", self._event), ("synchronize", lambda _: self.wait()),
            ("get_sync_debug_mode", lambda: self.modes[-1]), ("set_sync_debug_mode", self.modes.append),
            ("Stream", lambda _: None), ("stream", lambda _: contextlib.nullcontext()),
        ):  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, replacement, raising=False)
        monkeypatch.setattr(gpu_parity, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def _sleep(self, cycles: int) -> None:
        self.sleeps.append(cycles / gpu_parity.CYCLES_A_SECOND)
        self.awake = max(self.now, self.awake) + self.sleeps[-1]

    def _event(self) -> Any:
        done = []
        return SimpleNamespace(record=lambda: done.append(self.awake), query=lambda: self.now >= done[0])

    def wait(self) -> None:
        """Passes the time until the device is idle."""
        self.now = max(self.now, self.awake)


class Slow:
    """A metric whose updates take so many seconds of the host; those with the numbers ``waits`` wait for the device."""

    def __init__(self, device: Pretended, seconds: float = 0.001, waits: tuple[int, ...] = ()) -> None:
        self.device, self.seconds, self.waits, self.updates = device, seconds, waits, 0

    def to(self, _: torch.device) -> Slow:
        """Returns itself."""
        return self

    def update(self, *_: Any) -> None:
        """Passes time, and launches something, so that the stream is busy in any case."""
        self.device.now += self.seconds
        if self.updates in self.waits:
            self.device.wait()
        self.device.awake = max(self.device.now, self.device.awake) + 0.001
        self.updates += 1

    def compute(self) -> torch.Tensor:
        """Returns how many updates there were."""
        return torch.tensor(self.updates)


def slow_updates(make: Callable[[], Slow]) -> int:
    return int(gpu_parity.updated_without_wait(make, [()] * 4, CUDA).compute())


def test_updates_leave_the_device_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Pretended(monkeypatch)
    assert slow_updates(lambda: Slow(device, waits=(0,))) == 4  # the first update may wait
    assert device.sleeps == [0.1] and device.modes == ["default", "error", "default"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_wait_that_torch_does_not_see_is_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Pretended(monkeypatch)
    said = r"waited for the device: 3 took 1\.00\d s behind a kernel of 1\.0 s, and 0\.00\d s on an idle device"
    with pytest.raises(Disagreement, match=said):
        slow_updates(lambda: Slow(device, waits=(number,)))
    assert device.sleeps == [0.1, 0.2, 0.4, 0.8, 1.0]


def test_a_slow_host_does_not_count_as_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Pretended(monkeypatch)
    assert slow_updates(lambda: Slow(device, seconds=0.15)) == 4
    assert device.sleeps == [0.1, 0.2, 0.4, 0.8]
    with pytest.raises(Unavailable, match=r"less than 1\.0 s on the host to tell a wait but take 1\.20 s"):
        slow_updates(lambda: Slow(device, seconds=0.4))


def test_loading_a_kernel_once_does_not_count_as_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    device, loads = Pretended(monkeypatch), iter(((2,),))
    assert slow_updates(lambda: Slow(device, waits=next(loads, ()))) == 4
    assert device.sleeps == [0.1, 0.2]


def wait_in_boxes(metric: Callable[[], Slow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_parity, "on", lambda _, batch: batch)
    monkeypatch.setattr(gpu_parity, "MeanAveragePrecision", lambda **_: metric())
    gpu_parity._check_waiting(CUDA, as_lists, 2)


def wait_in_rows(metric: Callable[[], Slow], _: pytest.MonkeyPatch) -> None:
    gpu_waiting.check_updates(gpu_waiting.Waiting(metric, lambda _: ()), CUDA)


def wait_in_queue(metric: Callable[[], Slow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_unseen_streams, "on", lambda _, batch: batch)
    gpu_unseen_streams.check_queue(CUDA, gpu_unseen_streams.Work(metric, lambda _: ()), 4)


@pytest.mark.parametrize("check", [wait_in_boxes, wait_in_rows, wait_in_queue])
def test_every_check_of_waits_finds_one(check: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    device = Pretended(monkeypatch)
    check(lambda: Slow(device), monkeypatch)
    with pytest.raises(Disagreement, match="update waited for the device: 3 took"):
        check(lambda: Slow(device, waits=(3,)), monkeypatch)


def test_waits_are_rehearsed_on_the_cpu() -> None:
    said = "a wait of the host needs a CUDA device but this is cpu: the rest of the check ran"
    with pytest.raises(Unavailable, match=said):
        gpu_parity._check_waiting(CPU, as_lists, 2)
    with pytest.raises(Unavailable, match=said):
        gpu_waiting.check_updates(gpu_waiting.metrics()["Accuracy"], CPU)
    with pytest.raises(Unavailable, match=said):
        gpu_waiting.check_forward(gpu_waiting.metrics()["Accuracy"], CPU)


# ------------------------------------------------------------------------------------------------- limits, processes


class Listed(Checks):
    """Keeps the limit of each check, and runs none."""

    def __init__(self) -> None:
        super().__init__(show=lambda _: None)
        self.seconds: dict[str, float] = {}

    def run(self, name: str, check: Callable[[], object], seconds: float = CHECK_SECONDS) -> None:
        """Notes the limit."""
        self.seconds[name] = seconds


def test_a_slow_process_ends_ahead_of_its_check() -> None:
    checks = Listed()
    gpu_streams.check_streams(checks, CPU)
    gpu_unseen_streams.check_all(checks, CPU)
    for name, inner in (
        ("a process that was forked", gpu_streams.FORK_SECONDS),
        ("first calls of ops, in a capture", gpu_unseen_streams._FIRST_CALL_SECONDS),
    ):
        assert inner == 45 and checks.seconds[name] == inner + gpu_process.PATIENCE


@pytest.mark.parametrize(("device", "quick", "limit"), [(CUDA, True, 30), (CUDA, False, 60), (CPU, True, 60)])
def test_few_examples_of_an_op_have_a_shorter_limit(device: torch.device, quick: bool, limit: float) -> None:
    checks = Listed()
    gpu_parity.check_ops(checks, device, quick)
    assert set(checks.seconds.values()) == {limit} and len(checks.seconds) == len(backends())


def test_a_forked_process_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_streams, "FORK_SECONDS", 0.1)
    monkeypatch.setattr(gpu_streams, "_forked", lambda *_: time.sleep(60))
    with pytest.raises(Disagreement, match="the process took more than 0 s"):
        gpu_streams.check_fork(CPU)


@pytest.mark.parametrize("devices", [1, 2])
def test_one_gpu_has_two_ranks_over_gloo(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def run(command: list[str], _: float) -> gpu_process.Ended:
        started.append(command[3:-1])
        return gpu_process.Ended(0, "")

    monkeypatch.setattr(gpu_process, "run", run)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(gpu_nccl.dist, "is_backend_available", lambda _: True)
    checks = Checks(show=lambda _: None)
    gpu_nccl.check_nccl(checks, CUDA, lambda: 100.0)
    names = [record["name"] for record in checks.records]
    assert not checks.failed
    if devices == 1:
        assert names == ["metrics of 1 process, synchronised", "metrics of 2 processes on one device, over gloo"]
        assert started[0] == ["0", "1", "nccl", "cuda:0"]
        assert sorted(started[1:]) == [["0", "2", "gloo", "cuda:0"], ["1", "2", "gloo", "cuda:0"]]
    else:
        assert names == ["metrics of 2 processes, synchronised"]
        assert sorted(started) == [["0", "2", "nccl", "cuda:0"], ["1", "2", "nccl", "cuda:1"]]


def test_a_backend_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_nccl.dist, "is_backend_available", lambda _: False)
    with pytest.raises(Unavailable, match="torch was built without gloo"):
        gpu_nccl.check_processes(CPU, 2, "gloo")


def test_ops_that_no_kernel_serves_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of the C++ library, or by VALOR_GPU_DISABLE, whether or not there is a kernel to switch off."""
    served = [replace(op, cuda=replace(op.cuda, warning="")) for op in backends()]
    off = replace(by_reference("VALOR_GPU_DISABLE switches off its CUDA kernel", "slow"), disabled=True)
    idle = replace(by_reference("VALOR_GPU_DISABLE finds no CUDA kernel to switch off"), disabled=True)
    changes: dict[str, dict[str, Any]] = {
        "box_iou": {"cuda": off}, "order_records": {"cuda": idle},
        "pack_masks": {"cpu": by_reference("libvalor_cpu.so was not built", "slow")},
    }  # fmt: skip
    ops = [replace(op, **changes.get(op.name, {})) for op in served]
    checks = Checks(show=lambda _: None)
    for listed in (ops, served):
        monkeypatch.setattr(gpu_parity, "backends", lambda listed=listed: listed)
        gpu_parity.check_served(checks)
    assert checks.records[0]["detail"].splitlines() == [
        "box_iou: VALOR_GPU_DISABLE switches off its CUDA kernel",
        "order_records: VALOR_GPU_DISABLE finds no CUDA kernel to switch off",
        "pack_masks on the CPU: libvalor_cpu.so was not built",
    ]
    assert [record["outcome"] for record in checks.records] == ["fail", "pass"]
