"""The op of polygons: every kernel makes the runs of the reference, and the reference is pycocotools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.examples_polygons import arguments, defined, masks
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from tests.ops.test_polygons import HAND_MADE, of_pycocotools, random_masks
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.polygons import op as polygons
from valor_gpu.ops.polygons.op import rasterise
from valor_gpu.ops.polygons.reference import CENTRE, COCO

Op = Callable[..., Any]
RULES = [COCO, CENTRE]


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "rasterise", polygons._on_cuda)


def listed(result: Any) -> list[list[int]]:
    """The runs of each mask."""
    counts, offsets = defined(result)
    assert (counts.dtype, offsets.dtype, int(offsets[0])) == (torch.int32, torch.int64, 0)
    return [counts[first:end].tolist() for first, end in zip(offsets.tolist(), offsets[1:].tolist())]


def check(op: Op, *given: Any) -> list[list[int]]:
    got = listed(op(*given))
    assert got == listed(_library.reference("rasterise")(*given))
    return got


NAMES = [name for name in HAND_MADE if name != "far away"]


def hand_made(rule: int, names: list[str] = NAMES) -> tuple[Any, ...]:
    return arguments([HAND_MADE[name][1] for name in names], [HAND_MADE[name][0] for name in names], rule)


def test_the_reference_equals_pycocotools() -> None:
    runs = listed(_library.reference("rasterise")(*hand_made(COCO)))
    assert runs == [of_pycocotools(HAND_MADE[name][1], *HAND_MADE[name][0]) for name in NAMES]


@pytest.mark.smoke
@pytest.mark.parametrize("rule", RULES)
def test_hand_made_polygons(op: Op, rule: int) -> None:
    check(op, *hand_made(rule))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("counts", [[], [0], [1], [0, 1, 2, 0, 17, 1]])
def test_numbers_of_rings(op: Op, rule: int, counts: list[int]) -> None:
    assert len(check(op, *arguments(*masks(4, counts, (21, 17)), rule))) == len(counts)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [(1, 1), (0, 3), (3, 0), (1, 700), (700, 1), (31, 33)])
def test_sizes(op: Op, rule: int, size: tuple[int, int]) -> None:
    check(op, *arguments(*masks(5, [1, 3, 1], size), rule))


@pytest.mark.parametrize("rule", RULES)
def test_crossings_beyond_shared_memory(op: Op, rule: int) -> None:
    """One mask of many is sorted outside; edges are as long as the mask is wide."""
    given = arguments(*masks(6, [1, 30, 1], (9, 90)), rule)
    assert int(given[4].diff().max()) > 1024 > int(given[4].diff().min())
    check(op, *given)


@pytest.mark.parametrize("rule", RULES)
def test_random_polygons_equal_the_cpu(rule: int) -> None:
    """At sizes and coordinates for which the reference takes too long."""
    given = arguments(*random_masks(3, 40), rule)
    simulate, cpu = (kernel(name, "rasterise", polygons._on_cuda) for name in ("simulated", "cpu"))
    assert listed(simulate(*given)) == listed(cpu(*given))


@pytest.mark.parametrize("sim_seed", SIM_SEEDS)
@pytest.mark.parametrize("rule", RULES)
def test_every_order_of_threads_makes_the_same_runs(rule: int, sim_seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", sim_seed)
    given = arguments(*masks(7, [2, 1, 25], (12, 110)), rule)
    check(kernel("simulated", "rasterise", polygons._on_cuda), *given)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("rule", RULES)
def test_random_polygons(op: Op, rule: int, seed: int) -> None:
    rng = np.random.default_rng([seed, 9])
    size = (int(rng.integers(1, 40)), int(rng.integers(1, 40)))
    check(op, *arguments(*masks(seed, rng.integers(0, 6, 5).tolist(), size), rule))


# ------------------------------------------------------------------------------------------------- public function


def tensors(changed: dict[str, Any]) -> dict[str, Any]:
    vertices = torch.tensor([[1.0, 1], [3, 1], [3, 3], [1, 3]], dtype=torch.float64)
    tables = {"rings": torch.tensor([0, 4]), "masks": torch.tensor([0, 1]), "sizes": torch.tensor([[4, 4]])}
    return {"vertices": vertices, **tables, **changed}


def test_runs_are_tensors() -> None:
    runs = rasterise(**tensors({}))
    assert all(isinstance(part, Tensor) for part in (runs.counts, runs.offsets, runs.sizes))
    assert (runs.counts.tolist(), runs.offsets.tolist(), runs.sizes.tolist()) == ([5, 2, 2, 2, 5], [0, 5], [[4, 4]])
    assert (runs.counts.dtype, runs.offsets.dtype, runs.sizes.dtype) == (torch.int32, torch.int64, torch.int32)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"vertices": torch.zeros(4, 2)}, "vertices must have dtype torch.float64 but got torch.float32"),
        ({"vertices": torch.zeros(8)}, r"vertices must have shape \[N, 2\] but got \[8\]"),
        ({"vertices": [[0, 0]]}, "vertices must be Tensor but got list"),
        ({"vertices": torch.zeros(4, 2).double() / 0}, r"ring 0 of mask 0 .* vertex 0 is \(nan, nan\)"),
        ({"rings": torch.tensor([0, 3])}, "rings must ascend from 0 to 4"),
        ({"rule": "none"}, "rule must be one of 'coco', 'centre' but got 'none'"),
    ],
)  # fmt: skip
def test_arguments_that_are_none_are_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        rasterise(**tensors(changed))


def test_too_many_crossings_for_a_device_are_reported() -> None:
    wide = torch.tensor([[0.0, 0], [3e6, 0], [3e6, 1], [0, 1]], dtype=torch.float64)
    changed = {"vertices": wide, "sizes": torch.tensor([[1, 4_000_000]]), "device": "meta"}
    with pytest.raises(
        InputError, match=r"mask 0 must have at most 4194304 crossings .* but has 6000000: rasterise it on"
    ):
        rasterise(**tensors(changed))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_polygons_of_the_host_go_to_a_device() -> None:
    runs = rasterise(**tensors({"device": "cuda"}))
    assert runs.counts.is_cuda and listed((runs.counts.cpu(), runs.offsets.cpu())) == [[5, 2, 2, 2, 5]]


def test_opcheck() -> None:
    given = arguments(*masks(8, [1, 2], (5, 6)), COCO)
    torch.library.opcheck(torch.ops.valor_gpu.rasterise.default, given)
