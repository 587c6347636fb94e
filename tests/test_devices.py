"""Devices that metrics do not run on."""

from __future__ import annotations

import pytest
import torch

from valor_gpu.classification import Accuracy
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError


def test_a_device_that_no_kernel_serves_is_named() -> None:
    """A device of kind meta stands for mps, xpu and others, which are not here."""
    words = r"update must get tensors of the CPU or of a CUDA device, .* but one is on meta: move it with .cpu\(\)"
    labels = torch.zeros(3, dtype=torch.int64, device="meta")
    sides = [{"boxes": torch.rand(2, 4), "scores": torch.rand(2), "labels": torch.zeros(2, dtype=torch.int64)}] * 2
    there = [[{key: value.to("meta") for key, value in side.items()}] for side in sides]
    for metric, given in ((Accuracy(num_classes=3), (labels, labels)), (MeanAveragePrecision(), there)):
        with pytest.raises(InputError, match=words):
            metric.update(*given)
        with pytest.raises(InputError, match=words):
            metric.to("meta").update(*given)
