"""rank_sums: the kernel equals the definition bit by bit, the definition a count of all pairs and SciPy's ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats  # type: ignore[import-untyped]
from torch import Tensor

from testing import examples_rank_sums as made
from testing.registry import ROWS, disagreement
from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.rank_sums import cpu
from valor_gpu.ops.rank_sums.cpu import RANK_SUMS
from valor_gpu.ops.rank_sums.op import rank_sums

ROW = ROWS["rank_sums"]


def by_name(sums: Tensor) -> dict[str, int]:
    """The numbers of one pair of columns, words joined."""
    found = dict(zip(RANK_SUMS, sums.tolist()))
    for name in ("cubes_x", "cubes_y", "products"):
        found[name] = (found.pop(f"{name}_high") << 32) + found.pop(f"{name}_low")
    return found


def counted(x: np.ndarray, y: np.ndarray) -> dict[str, int]:
    """The numbers from SciPy's ranks and a look at every pair, in Python's whole numbers."""
    n = len(x)
    ranks = [[int(2 * rank) - n - 1 for rank in stats.rankdata(side)] for side in (x, y)]
    sizes = [np.unique(side, return_counts=True)[1].tolist() for side in (x, y)]
    signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    return {
        "nan_rows": 0,
        "groups_x": len(sizes[0]),
        "groups_y": len(sizes[1]),
        "squares_x": sum(size**2 for size in sizes[0]),
        "squares_y": sum(size**2 for size in sizes[1]),
        "concordant": int((signs > 0).sum()) // 2,
        "discordant": int((signs < 0).sum()) // 2,
        "cubes_x": sum(size**3 for size in sizes[0]),
        "cubes_y": sum(size**3 for size in sizes[1]),
        "products": sum(a * b for a, b in zip(*ranks)),
    }


@pytest.mark.smoke
def test_kernel_equals_the_definition() -> None:
    for example in ROW.examples(True):
        assert disagreement(ROW, example, torch.device("cpu")) == "", example.name


@pytest.mark.parametrize("seed", seeds(40))
def test_counts_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = (torch.float32, torch.float64)[seed % 2]
    preds, target = made.columns(seed, (int(rng.integers(1, 120)), 2), int(rng.integers(1, 200)), dtype)
    for column, sums in enumerate(rank_sums(preds, target)):
        assert by_name(sums) == counted(preds[:, column].numpy(), target[:, column].numpy())


def test_sums_beyond_64_bits() -> None:
    rows = 3_000_000
    preds = torch.arange(rows, dtype=torch.float32)[:, None]
    equal = by_name(rank_sums(preds, torch.zeros_like(preds), pairs=False)[0])
    assert equal["cubes_y"] == rows**3 > 2**64 and equal["cubes_x"] == rows and equal["products"] == 0
    same = by_name(rank_sums(preds, preds.clone(), pairs=False)[0])
    assert same["products"] == (rows**3 - rows) // 3
    reference = _library.reference("rank_sums")
    assert by_name(reference(preds, torch.zeros_like(preds), False)[0]) == equal


def test_threads_give_the_same() -> None:
    preds, target = made.columns(3, (400, 9), 50, torch.float32)
    arrays = [np.ascontiguousarray(side.numpy().T) for side in (preds, target)]
    if not native.usable("valor_cpu"):
        pytest.skip("the definition uses no threads of its own")
    for threads in (1, 3):
        np.testing.assert_array_equal(cpu.rank_sums(*arrays, True, threads), rank_sums(preds, target).numpy())


def test_the_order_of_rows_changes_nothing() -> None:
    preds, target = made.columns(3, (500, 2), 20, torch.float64)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(1))
    assert torch.equal(rank_sums(preds[order], target[order]), rank_sums(preds, target))


def test_what_does_not_fit_is_refused() -> None:
    preds = torch.zeros(3, 2)
    with pytest.raises(InputError, match="preds must have shape"):
        rank_sums(preds[0], preds)
    with pytest.raises(InputError, match="target must have shape"):
        rank_sums(preds, preds[:2])
    with pytest.raises(InputError, match="preds must"):
        rank_sums(preds.long(), preds.long())
    with pytest.raises(InputError, match="target must"):
        rank_sums(preds, preds.double())
