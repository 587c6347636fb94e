"""A CUDA graph reads the state before the update that it captured at every replay, so that state must live on."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from tests.native.pretend import here, pretending, there
from valor_gpu.classification import Accuracy
from valor_gpu.errors import InputError
from valor_gpu.graphs import guarded_update
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops.ranks import cuda as _ranks_cuda


def on_pretended_device() -> Accuracy:
    metric = Accuracy(num_classes=3)
    for name in metric._merge:
        setattr(metric, name, there(getattr(metric, name)))
    return metric


def add_one(metric: Accuracy) -> Any:
    """An update as ``guarded_update`` runs it: it replaces every tensor of the state."""

    def update() -> None:
        for name in metric._merge:
            setattr(metric, name, getattr(metric, name) + 1)

    return guarded_update(metric, update)


@pytest.mark.parametrize("capturing", [True, False])
def test_a_captured_update_keeps_the_state_that_it_read(capturing: bool) -> None:
    metric = on_pretended_device()
    update = add_one(metric)
    before = [weakref.ref(getattr(metric, name)) for name in metric._merge]
    with pretending(capturing):
        update()
    gc.collect()
    assert [ref() is not None for ref in before] == [capturing] * len(before)
    del update, metric
    gc.collect()
    assert all(ref() is None for ref in before)


def test_rank_curves_says_that_it_cannot_be_captured() -> None:
    scores, target = there((torch.rand(4, 3), torch.tensor([0, 1, 2, 0])))
    need = "rank_curves sizes its result by values on the device and must not run inside the capture of a CUDA graph"
    with pretending(capturing=True), pytest.raises(InputError, match=need):
        _ranks_cuda.rank_curves(scores, target, None, None)


def test_a_tensor_of_the_device_is_not_pinned() -> None:
    table = torch.arange(5)
    copy = here(to_device(there(table), torch.device("meta")))  # meta: a device other than that of the CPU
    assert copy.device.type == "meta" and copy.shape == (5,)
