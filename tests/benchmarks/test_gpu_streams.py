"""Detection on CUDA, as a graph captures it: updates and the device part of compute never wait or pin memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.gpu_parity import as_lists, as_packed
from benchmarks.gpu_streams import CHOICES, check_replays
from testing.scenes import random_scene
from tests.native import sim
from tests.native.pretend import DeviceTensor, Waited, here, pretending, there
from valor_gpu.classification import Accuracy
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError, SyncError
from valor_gpu.inputs import boxes
from valor_gpu.ops import _device_tables
from valor_gpu.ops._accumulate_run import Guess, Records, Words, enqueue
from valor_gpu.ops.dtypes import to_device
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.ops.match_batch import SEGMENT_FIELDS
from valor_gpu.replays import add_replay

Form = Callable[..., tuple[Any, Any]]
FORMS: dict[str, Form] = {"lists": as_lists, "padded": as_packed}
TABLES = ("detections", "ground_truths", "images")
gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


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
    uploads = -(-images * (len(SEGMENT_FIELDS) + 2) // 500) if table else 0  # a kernel carries 500 words
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
            sys.setprofile(lambda _frame, event, _arg, found=found: found.append(event))
            try:
                metric.update(*given)
            finally:
                sys.setprofile(None)
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
    assert [name for name in called if "workspace" not in name] == [
        "valor_order_detections_cuda", *["valor_precision_recall_cuda", "valor_present_means_cuda"] * 2,
    ]  # fmt: skip
    assert len(launched) <= 40, launched
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
