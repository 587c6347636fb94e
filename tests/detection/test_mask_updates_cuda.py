"""Updates of dense masks on CUDA, under the simulator: records and errors of the CPU, by few launches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.native import sim
from tests.native.pretend import here, on_device, pretending, there
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.masks import op as masks

KERNELS = ["upload_kernel", "pack_gts_kernel", "dense_overlaps_kernel", "pairs_kernel", "assign_kernel"]
LAUNCHING = {"aten.clone.default": 1, "aten.cat.default": 2}
"""Operations of torch that launch a kernel: of the error code, of labels and of labels of ground truths."""
_FREE = ("alias", "detach", "empty", "select", "lift_fresh", "view", "fill_")  # tests fill fresh memory


Side = list[dict[str, Tensor]]


def scene(seed: int, ground_truths: tuple[int, ...] = (3, 0, 2)) -> tuple[Side, Side]:
    """Rectangles of some images, and detections that are moved a little."""
    rng = np.random.default_rng(seed)
    preds, target = [], []
    for count in ground_truths:
        gts = np.zeros((count, 20, 33), bool)
        for mask in gts:
            top, left = rng.integers(0, 10, 2)
            mask[top : top + 8, left : left + 15] = True
        found = np.concatenate([np.roll(gts, shift, 1) for shift in (0, 1, 3)] + [np.ones((1, 20, 33), bool)])
        scores = torch.from_numpy(rng.random(len(found))).float()
        labels = torch.from_numpy(rng.integers(0, 2, count))
        of_found = torch.cat([labels, labels, labels, torch.zeros(1, dtype=torch.int64)])
        preds.append({"masks": torch.from_numpy(found), "scores": scores, "labels": of_found})
        target.append({"masks": torch.from_numpy(gts), "labels": labels})
    return preds, target


@contextmanager
def cuda_kernels() -> Iterator[None]:
    """Within it dense masks of the device take the kernels of CUDA."""
    sim.skips_known = False  # no digest holds all the Python that these tests run
    with pretending(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(masks, "_direct", lambda _: True)
        yield


class Counted(TorchDispatchMode):
    """Counts the operations that would launch a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(operation)
        if not any(word in name for word in _FREE):
            self.counts[name] = self.counts.get(name, 0) + 1
        return operation(*args, **(kwargs or {}))


def state_of(metric: Any) -> list[bytes]:
    """The row tables of detections, of ground truths and of images."""
    return [here(torch.cat(getattr(metric, name))).numpy().tobytes() for name in ("detections", "ground_truths")]


@pytest.mark.parametrize("kind", ["segm", ("segm", "boundary")])
def test_updates_are_those_of_the_cpu(kind: Any) -> None:
    plain = MeanAveragePrecision(iou_type=kind, keep_inputs=False)
    metric = on_device(MeanAveragePrecision(iou_type=kind, keep_inputs=False))
    for seed in range(2):
        sides = scene(seed)
        plain.update(*sides)
        with cuda_kernels():
            metric.update(*there(sides))
        assert state_of(metric) == state_of(plain)
        assert int(here(metric.error)) == NO_ERROR


def test_an_update_launches_eight_kernels() -> None:
    metric = on_device(MeanAveragePrecision(iou_type="segm", keep_inputs=False))
    sides = there(scene(1, (3, 1, 2)))
    with cuda_kernels():
        metric.update(*there(scene(0)))
        sim.launches()
        with Counted() as counted:
            metric.update(*sides)
        launched = [text.strip("()").split("<")[0] for text in sim.launches()]
    assert launched == KERNELS and counted.counts == LAUNCHING


def test_an_error_of_scores_stays() -> None:
    metric = on_device(MeanAveragePrecision(iou_type="segm", keep_inputs=False))
    codes = []
    for turn in range(4):
        preds, target = scene(turn)
        if turn in (1, 2):
            preds[2 - turn]["scores"][0] = torch.nan
        before = metric.error
        with cuda_kernels():
            metric.update(*there((preds, target)))
        assert metric.error is not before
        codes.append(int(here(metric.error)))
    assert codes[0] == NO_ERROR > codes[1] > codes[2] == codes[3]
