"""Blocks of a launch that meet in global memory without atomics are found, whatever the order in which they ran.

So is a kernel that begins early and does not wait for the one ahead.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np
import pytest

from tests.native.sim import simulate
from tests.ops.backends import SIM_SEEDS


@functools.cache
def probes() -> ctypes.CDLL:
    return simulate("probes", [Path(__file__).parent / "probes.cu"], watch=True)


@pytest.mark.parametrize("seed", ["", *SIM_SEEDS])
@pytest.mark.parametrize("which", range(13))
def test_a_conflict_of_two_blocks_is_an_error(which: int, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    out = np.zeros(8, np.int32)
    status = probes().probe_conflict(out.ctypes.data_as(ctypes.c_void_p), which)
    said = probes().valor_sim_error().decode()
    mistake = which < 4 or which > 10
    assert (status, bool(said)) == ((719, True) if mistake else (0, False)), said
    if mistake:
        assert said.startswith("conflict_kernel<int>: block (") and "what another block writes, at 0x" in said


@pytest.mark.parametrize("seed", ["", *SIM_SEEDS])
@pytest.mark.parametrize("which", range(7))
def test_what_has_to_wait_for_the_kernel_ahead_is_an_error(
    which: int, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    out = np.zeros(8, np.int32)
    status = probes().probe_early(out.ctypes.data_as(ctypes.c_void_p), which)
    said = probes().valor_sim_error().decode()
    assert (status, bool(said)) == ((719, True) if which < 4 else (0, False)), said
    if which == 0:
        assert said == "early_kernel: block (1, 0, 0) thread 1 ends before it has waited for the kernel ahead"
    elif which < 4:
        assert "writes, or reads what the kernel ahead writes, before it has waited for that, at 0x" in said


def test_a_conflict_within_an_atomic_operation_hides_none_of_the_next_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", "1")  # block 1, which writes, runs before block 0, which adds
    out = np.zeros(8, np.int32)
    for which in (3, 1):
        assert probes().probe_conflict(out.ctypes.data_as(ctypes.c_void_p), which) == 719
