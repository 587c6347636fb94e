"""The simulator computes what CUDA defines, and reports each mistake that it claims to find."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from pathlib import Path

import numpy as np
import pytest

from tests.native.sim import launching_nothing, simulate

SEEDS = ["", "1", "2", "3"]


@functools.cache
def probes() -> ctypes.CDLL:
    return simulate("probes", [Path(__file__).parent / "probes.cu"])


def call(name: str, *arguments: object) -> tuple[int, str]:
    values = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in arguments]
    status = getattr(probes(), name)(*values)
    return status, probes().valor_sim_error().decode()


@pytest.fixture(params=SEEDS)
def seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("VALOR_SIM_SEED", request.param)
    return str(request.param)


def test_shuffles_and_votes(seed: str) -> None:
    values = np.arange(100, 132, dtype=np.int32)
    values[9] = 7
    out = np.zeros((32, 8), np.int32)
    assert call("probe_shuffles", values, out) == (0, "")
    lane = np.arange(32)
    expected = np.stack(
        [
            np.full(32, values[5]),
            values[lane ^ 3],
            np.where(lane < 2, values, values[lane - 2]),
            np.where(lane > 29, values, values[(lane + 2) % 32]),
            values[lane // 8 * 8 + 1],
            np.full(32, sum(int(v & 1) << i for i, v in enumerate(values)), np.uint32).view(np.int32),
            np.full(32, 3),
            np.full(32, values.sum()),
        ],
        axis=1,
    )
    assert out.tolist() == expected.tolist()


def test_parts_of_a_warp_may_run_apart(seed: str) -> None:
    out = np.zeros(32, np.int32)
    assert call("probe_halves", out) == (0, "")
    assert out.tolist() == [15] * 16 + [16] * 16


def test_block_barrier_and_dynamic_shared_memory(seed: str) -> None:
    values = np.random.default_rng(0).integers(0, 1000, (3, 100)).astype(np.int32)
    out = np.zeros(3, np.int32)
    assert call("probe_block_sum", values, out, 3, 100, 1) == (0, "")
    assert out.tolist() == values.sum(1).tolist()


def test_a_seed_exposes_a_missing_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    values, out, wrong = np.ones(64, np.int32), np.zeros(1, np.int32), 0
    for seed in SEEDS[1:]:
        monkeypatch.setenv("VALOR_SIM_SEED", seed)
        assert call("probe_block_sum", values, out, 1, 64, 0) == (0, "")
        wrong += int(out[0]) != 64
    assert wrong > 0


@pytest.mark.parametrize("of_template", [0, 1])
def test_shared_memory_holds_garbage_in_every_block(of_template: int) -> None:
    out = np.zeros(3, np.int32)
    assert call("probe_unset_shared", out, 3, of_template) == (0, "")
    assert out.view(np.uint32).tolist() == [0xA5A5A5A5] * 3


def test_atomics(seed: str) -> None:
    sums, ints, words = np.zeros(1), np.array([-1, 500, 0], np.int32), np.zeros(2, np.uint64)
    assert call("probe_atomics", sums, ints, words) == (0, "")
    assert sums[0] == 48.0 and ints[:2].tolist() == [95, 0] and 1 <= ints[2] <= 96
    assert words.tolist() == [2**64 - 1, 95]


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ("probe_divergent_barrier", "wait for others that never come"),
        ("probe_divergent_warp", "wait for others that never come"),
        ("probe_absent_lane", "which takes no part in __shfl_xor_sync"),
        ("probe_foreign_mask", "thread 0 is not in the mask that it passes to __syncwarp"),
    ],
)
def test_mistakes_are_reported_with_their_place(seed: str, probe: str, said: str) -> None:
    arguments = [np.zeros(32, np.int32)] if probe == "probe_absent_lane" else []
    status, error = call(probe, *arguments)
    assert status == 719
    assert said in error and "probes.cu:" in error and "block (0, 0, 0) thread" in error


@pytest.mark.parametrize(
    ("threads", "shared", "status", "said"),
    [(0, 0, 9, "limits"), (1025, 0, 9, "limits"), (32, 48 * 1024 + 1, 1, "48 KiB")],
)
def test_a_launch_outside_the_limits_of_a_device_fails(threads: int, shared: int, status: int, said: str) -> None:
    got, error = call("probe_limits", threads, ctypes.c_int64(shared))
    assert got == status and said in error


@pytest.mark.parametrize("which", range(6))
def test_two_calls_of_one_warp_method_are_told_apart(seed: str, which: int) -> None:
    status, error = call("probe_divergent_call", which)
    assert status == 719 and "wait for others that never come" in error
    assert len(set(re.findall(r"probes.cu:(\d+)", error))) == 2


def test_static_and_dynamic_shared_memory_have_one_limit(seed: str) -> None:
    out = np.zeros(1, np.int32)
    assert call("probe_static_shared", out, ctypes.c_int64(46 * 1024), 0) == (0, "") and out[0] == 1
    assert call("probe_static_shared", out, ctypes.c_int64(45 * 1024), 1) == (0, "")
    for dynamic, more in ((46 * 1024 + 1, 0), (45 * 1024 + 1, 1)):
        status, error = call("probe_static_shared", out, ctypes.c_int64(dynamic), more)
        assert status == 1 and f"{dynamic} of dynamic shared memory, together more than 48 KiB" in error


def test_a_kernel_has_the_shared_memory_that_it_asked_for() -> None:
    values, out = np.ones(32, np.int32), np.zeros(1, np.int32)
    for allowed, dynamic, most in ((50, 50, 0), (98, 98, 0), (49, 50, 49), (30, 49, 48), (99, 99, 99), (100, 1, 99)):
        out[0] = 0
        status, error = call(
            "probe_allowed_shared", values, out, *(ctypes.c_int64(n << 10) for n in (allowed, dynamic))
        )
        assert (status, int(out[0])) == ((1, 0) if most else (0, 32)), error
        assert f"{most} KiB" in error or f"of which there are {most << 10}" in error or not most
    assert call("probe_allowed_shared", values, out, ctypes.c_int64(0), ctypes.c_int64(1024)) == (0, "")


def test_parameters_of_a_kernel_have_a_limit() -> None:
    out = np.ones(1, np.int32)
    assert call("probe_parameters", out, 511) == (0, "") and out[0] == 0
    status, error = call("probe_parameters", out, 512)
    assert status == 1 and "4104 bytes of parameters, of which there is room for 4096" in error


def test_launches_can_be_left_out() -> None:
    values = np.arange(300, dtype=np.int32).reshape(3, 100)
    probes().valor_sim_launches()
    for skips in (True, False):
        out = np.full(3, -1, np.int32)
        with launching_nothing(probes()) if skips else contextlib.nullcontext():
            assert call("probe_block_sum", values, out, 3, 100, 1) == (0, "")
        assert probes().valor_sim_launches() == b"block_sum_kernel<true>\n"
        assert out.tolist() == ([-1] * 3 if skips else values.sum(1).tolist())
    with launching_nothing(probes()):
        status, error = call("probe_limits", 1025, ctypes.c_int64(0))
        assert status == 9 and "limits" in error


def test_a_copy_back_brings_what_it_brought_while_kernels_ran() -> None:
    host, earlier, later = np.zeros(3, np.int64), np.array([5, 6, 7]), np.array([8, 9, 10])

    def read(device: np.ndarray, words: int) -> list[int]:
        assert call("probe_read_back", host, device, ctypes.c_int64(words))[0] == 0
        return host.tolist()

    assert read(earlier, 3) == [5, 6, 7]
    with launching_nothing(probes()):
        assert read(later, 3) == [5, 6, 7]
        assert read(later, 2) == [8, 9, 7]  # none of two words came before
    assert read(later, 3) == [8, 9, 10]


@pytest.mark.parametrize(
    ("which", "size", "access"),
    [(0, 16, "uint4"), (1, 8, "uint2"), (2, 16, "__ldg"), (3, 16, "float4"), (4, 8, "uint64_t"),
     (5, 16, "__builtin_assume_aligned"), (6, 8, "atomicAdd")],
)  # fmt: skip
def test_a_misaligned_access_is_reported_with_kernel_and_place(which: int, size: int, access: str) -> None:
    memory = np.zeros(128, np.uint8)
    start = -memory.ctypes.data % 16
    for at_in, at_out in ((0, 0), (size, 0), (0, size), (1, 0), (0, 1), (size // 2, 0), (0, size // 2)):
        if (which == 2 and at_out) or (which == 6 and at_in):
            continue  # __ldg only reads, and an atomic has one address
        status, error = call("probe_vector", memory[start + at_in :], memory[start + 64 + at_out :], which)
        if at_in % size == at_out % size == 0:
            assert (status, error) == (0, "")
            continue
        assert status == 716 and error.startswith("vector_kernel: block (0, 0, 0) thread 0 needs an address")
        assert f"a multiple of {size} in" in error and access in error
        assert f"probes.cu:{_line_of(f'which == {which})')})" in error and f"is {at_in + at_out} more" in error


def _line_of(which: str) -> int:
    lines = (Path(__file__).parent / "probes.cu").read_text().splitlines()
    begin = next(number for number, line in enumerate(lines, 1) if "void vector_kernel(" in line)
    return next(number for number, line in enumerate(lines[begin:], begin + 1) if which in line)


def test_shared_memory_is_aligned_as_its_type_asks_and_no_better() -> None:
    assert call("probe_shared_vector", 1) == (0, "")
    status, error = call("probe_shared_vector", 0)
    assert status == 716 and "a multiple of 8 in __builtin_assume_aligned (" in error


def test_seeds_expose_what_depends_on_the_order_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    last = {}
    for seed in ["", *map(str, range(9))]:
        monkeypatch.setenv("VALOR_SIM_SEED", seed)
        out = np.zeros(1, np.int32)
        assert call("probe_last_block", out, 2) == (0, "")
        last[seed] = int(out[0])
    assert [last[seed] for seed in ("", "0", "3", "6")] == [1] * 4  # forwards
    assert [last[seed] for seed in ("1", "4", "7")] == [0] * 3  # backwards
    monkeypatch.setenv("VALOR_SIM_SEED", "2")
    assert call("probe_last_block", out, 1000) == (0, "") and out[0] not in (0, 999)  # shuffled
