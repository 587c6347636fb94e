"""present_means: every kernel equals numpy's mean by bytes, in numpy's order of summation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.native.sim import simulated_kernel
from tests.numpy_sums import needs_recorded_order
from tests.ops.backends import BACKENDS, SIM_SEEDS
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.accumulate import means_cuda as _means_cuda
from valor_gpu.ops.accumulate import op as accumulate
from valor_gpu.ops.accumulate.op import present_means
from valor_gpu.ops.accumulate.types import Curves, Pick

Means = Callable[[Curves, list[Pick]], Tensor]


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Means:
    if request.param == "simulated":
        monkeypatch.setattr(accumulate, "_MEANS", simulated_kernel(_means_cuda.present_means))
    if request.param == "cuda":
        return lambda curves, picks: present_means(Curves(*(array.cuda() for array in curves)), picks).cpu()
    return present_means


def random_curves(T: int, R: int, K: int, A: int = 2, C: int = 1, M: int = 3, seed: int = 0) -> Curves:
    """Arrays of random numbers; about a quarter of the classes is absent in each area range."""
    rng = np.random.default_rng([seed, T, R, K])
    precision, recall = rng.random((T, R, K, A, C)) ** 3, rng.random((T, K, A, M))
    for k, a in np.argwhere(rng.random((K, A)) < 0.25):
        precision[:, :, k, a] = recall[:, k, a] = -1.0
    return Curves(torch.from_numpy(precision), torch.from_numpy(recall), torch.empty(0))


def numpy_mean(curves: Curves, pick: Pick) -> float:
    values = getattr(curves, pick.array).numpy()[list(pick.thresholds)][..., pick.area, pick.limit]
    present = values[values > -1]
    return float(np.mean(present)) if present.size else np.nan


def check(run: Means, curves: Curves, picks: list[Pick]) -> Tensor:
    expected = torch.tensor([numpy_mean(curves, pick) for pick in picks], dtype=torch.float64)
    got = run(curves, picks)
    assert got.dtype == torch.float64 and got.numpy().tobytes() == expected.numpy().tobytes()
    return got


def all_picks(T: int) -> list[Pick]:
    whole = range(T)
    picks = [Pick("precision", area, -1, rows) for area in (0, 1) for rows in (whole, [0], [T - 1, 0], [])]
    return picks + [Pick("recall", area, limit, whole) for area in (0, -1) for limit in range(3)]


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(1, 1, 0), (1, 1, 1), (1, 1, 7), (2, 3, 40), (3, 5, 11), (10, 101, 9)])
def test_equals_numpy(run: Means, shape: tuple[int, int, int]) -> None:
    check(run, random_curves(*shape), all_picks(shape[0]))


@pytest.mark.parametrize("classes", [*range(1, 40), *range(120, 140), *range(250, 275), 520, 1030, 5000])
def test_equals_numpy_at_every_size_of_a_block(run: Means, classes: int) -> None:
    check(run, random_curves(1, 1, classes), all_picks(1))


@needs_recorded_order
def test_equals_numpy_on_the_arrays_of_coco(run: Means) -> None:
    curves = random_curves(10, 101, 80, A=4, C=1, M=3)
    picks = [Pick("precision", area, 0, range(10)) for area in range(4)]
    found = check(run, curves, [*picks, Pick("precision", 0, 0, [5]), Pick("recall", 0, 2, range(10))])
    assert (found > 0).all()


def test_limits_of_full_curves(run: Means) -> None:
    curves = random_curves(3, 7, 20, C=3)
    check(run, curves, [Pick("precision", 1, limit, range(3)) for limit in range(3)])


def test_a_threshold_that_is_listed_twice(run: Means) -> None:
    check(run, random_curves(4, 11, 13), [Pick("precision", 0, 0, [2, 0, 2])])


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_threads_changes_nothing(run: Means, monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    check(run, random_curves(5, 21, 33), all_picks(5))


def test_where_nothing_counts_there_is_no_mean(run: Means) -> None:
    curves = random_curves(2, 3, 4)
    for array in (curves.precision, curves.recall):
        array.fill_(-1.0)
    assert run(curves, all_picks(2)).isnan().all() and run(curves, []).shape == (0,)


def test_opcheck() -> None:
    curves = random_curves(2, 3, 4)
    picks, places = torch.tensor([[0, 1, 0, 0, 2], [1, 0, 2, 0, 1]]), torch.tensor([0, 1])
    torch.library.opcheck(torch.ops.valor_gpu.present_means.default, (*curves[:2], picks, places))
    assert _library.reference("present_means")(*curves[:2], picks, places).shape == (2,)


def test_errors_name_the_argument() -> None:
    curves = random_curves(2, 3, 4)
    with pytest.raises(InputError, match="picks array must be one of 'precision', 'recall' but got 'scores'"):
        present_means(curves, [Pick("scores", 0, 0, [0])])
    with pytest.raises(InputError, match="recall must be on cpu like precision but is on meta"):
        _means_cuda.present_means(
            curves.precision, curves.recall.to("meta"), torch.zeros(0, 5).long(), torch.zeros(0).long()
        )
