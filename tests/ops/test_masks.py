"""Mask packing: every kernel equals the reference, the reference equals numpy's packbits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.masks import op as masks
from valor_gpu.ops.masks.op import pack_masks

SHAPES = [(0, 4, 4), (2, 0, 3), (1, 1, 1), (3, 1, 7), (2, 3, 21), (5, 8, 8), (2, 5, 13), (4, 31, 33), (1, 64, 65)]
Op = Callable[[Tensor], tuple[Tensor, Tensor]]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "pack_masks", masks._pack_masks_cuda)


def random_masks(shape: tuple[int, ...], dtype: torch.dtype = torch.bool) -> Tensor:
    """Masks of which 40 % is set; uint8 ones hold every value from 1 to 255."""
    rng = np.random.default_rng(len(shape) + sum(shape))
    on = rng.random(shape) < 0.4
    values = on if dtype == torch.bool else on * rng.integers(1, 256, shape)
    return torch.from_numpy(values.astype(np.bool_ if dtype == torch.bool else np.uint8))


def check(op: Op, values: Tensor) -> None:
    words, area = op(values)
    expected_words, expected_area = _library.reference("pack_masks")(values)
    assert words.dtype == area.dtype == torch.int64
    assert words.shape == expected_words.shape and torch.equal(words, expected_words)
    assert torch.equal(area, expected_area)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_kernel_equals_the_reference(op: Op, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check(op, random_masks(shape, dtype))


@pytest.mark.parametrize("fill", [0, 1, 2, 64, 127, 128, 255])
def test_every_nonzero_byte_is_set(op: Op, fill: int) -> None:
    values = torch.full((2, 9, 15), fill, dtype=torch.uint8)
    check(op, values)
    assert op(values)[1].tolist() == [135 if fill else 0] * 2


def test_a_program_or_thread_takes_one_part_of_many(op: Op) -> None:
    check(op, random_masks((1, 330, 401)))


@pytest.mark.parametrize("width", [1, 7, 15, 16, 17, 63, 65])
def test_masks_begin_at_any_byte(op: Op, width: int) -> None:
    """Also the first one, at any distance from where memory was allocated."""
    flat = random_masks((40, 9, width)).reshape(-1)
    for first in (0, 1, 5, 15):
        check(op, flat[first : first + 37 * 9 * width].view(37, 9, width))


def test_masks_are_split_over_threads() -> None:
    check(kernel("cpu", "pack_masks", masks._pack_masks_cuda), random_masks((40, 300, 401)))


@pytest.mark.parametrize("seed", seeds(3))
def test_the_order_of_lanes_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", str(seed + 1))
    check(kernel("simulated", "pack_masks", masks._pack_masks_cuda), random_masks((2, 150, 133)))


def test_masks_may_be_strided(op: Op) -> None:
    values = random_masks((4, 20, 30))
    for strided in (values.permute(0, 2, 1), values[::2], values[:, 1:, 3:], values.permute(2, 0, 1)):
        assert not strided.is_contiguous()
        check(op, strided)


def test_equals_packbits() -> None:
    values = random_masks((7, 24, 32))
    expected = np.packbits(values.numpy().reshape(7, -1), axis=1, bitorder="little").view(np.int64)
    packed = pack_masks(values)
    assert packed.words.numpy().tolist() == expected.tolist()
    assert packed.area.tolist() == values.sum((1, 2)).tolist()


@pytest.mark.parametrize("shape", [(3, 5, 13), (0, 4, 4)])
def test_opcheck(shape: tuple[int, ...]) -> None:
    torch.library.opcheck(torch.ops.valor_gpu.pack_masks.default, (random_masks(shape),))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (torch.zeros(4, 4, dtype=torch.bool), r"masks must have shape \[N, N, N\] but got \[4, 4\]"),
        (torch.zeros(1, 4, 4), "masks must have dtype torch.bool or torch.uint8 but got torch.float32"),
    ],
)
def test_errors_name_the_argument(values: Tensor, said: str) -> None:
    with pytest.raises(InputError, match=said):
        pack_masks(values)
