"""Blocks of a launch that meet in global memory without atomics are found, whatever the order in which they ran."""

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
