"""CUDA kernels take tensors that begin anywhere: slices are as common as whole tensors."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from testing.offsets import moved
from tests.native import clean
from tests.native.sim import ROOT
from valor_gpu.ops import backends


@pytest.mark.timeout(3600)
def test_every_kernel_takes_tensors_that_begin_anywhere() -> None:
    clean.skip_if_known("offsets")
    kernels = sum(bool(op.cuda.kernel or op.cuda.warning) for op in backends())  # without those that torch serves
    command = [sys.executable, "-m", "tests.native.offsets", "1", "2", "3"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    assert f"cases of {kernels} ops, 0 wrong" in run.stdout


@pytest.mark.parametrize("by", [1, 2, 3])
def test_a_moved_tensor_has_its_values_and_strides_at_another_address(by: int) -> None:
    whole = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    for tensor in (whole, whole.transpose(0, 2), whole[1:, ::2, 1:4], whole[:, :1].expand(-1, 7, -1), whole[:0]):
        found = moved(tensor, by)
        assert torch.equal(found, tensor) and found.stride() == tensor.stride()
        assert found.data_ptr() % 64 == 4 * by or not found.numel()
