"""Weights of resampled units: the CUDA kernels, in the simulator and on a device, equal the definition by bytes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from testing.examples_resampling import draw_examples
from testing.parity import differences
from tests.native.sim import CACHE, COMPILER, CSRC, simulated_kernel
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.resampling import op as resampling
from valor_gpu.ops.resampling.op import weights
from valor_gpu.stats.draws import Draws

Run = Callable[..., Any]
NAME = "draw_weights"


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "cpu"])
def run(request: pytest.FixtureRequest) -> Run:
    """Calls the op as one backend computes it."""
    return kernel(request.param, NAME, resampling._weights_cuda)


def drawn(run: Run, draws: Draws) -> Any:
    """Weights and error code of the op."""
    codes = torch.empty(0, dtype=torch.int64) if draws.clusters is None else torch.from_numpy(draws.clusters)
    return run(codes, *resampling._numbers(draws))


def check(run: Run, draws: Draws) -> None:
    found, error = drawn(run, draws)
    assert found.numpy().tobytes() == draws.array().tobytes() and found.shape == (draws.units, draws.count)
    assert error.item() == 0


def test_examples(run: Run) -> None:
    for text, args in draw_examples(True):
        assert differences(tuple(run(*args)), tuple(_library.reference(NAME)(*args))) == "", text


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["multinomial", "half"])
def test_few_units(run: Run, kind: str) -> None:
    check(run, Draws(5, 3, 7, 11, kind))


def test_pairs_are_swapped(run: Run) -> None:
    check(run, Draws(6, 40, 7, 11, "swap"))
    check(run, Draws(6, 9, 0, 3, "swap", clusters=np.array([0, 0, 1, 2, 2, 3])))


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_orders_of_lanes(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    check(kernel("simulated", NAME, resampling._weights_cuda), Draws(700, 9, 2, 5))


@pytest.mark.parametrize("kind", ["multinomial", "half"])
def test_portions_are_parts_of_the_whole(run: Run, kind: str) -> None:
    whole = drawn(run, Draws(301, 40, 0, 3, kind))[0]
    parts = [drawn(run, Draws(301, count, first, 3, kind))[0] for first, count in ((0, 1), (1, 32), (33, 7))]
    assert torch.equal(torch.cat(parts, 1), whole)


def test_sorting_in_portions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_MOST_KEYS", 1000)
    check(run, Draws(301, 11, 4, 3, "half"))


def test_biased_words_are_drawn_again() -> None:
    """Of 2^31 + 1 units, half of all words would bias a draw."""
    units = 2**31 + 1
    draws, least, again = Draws(units, 1, seed=9), 2**32 % units, 0
    words = draws._words(3, 0)
    expected = []
    for at in range(12):
        product, attempt = int(words[at]) * units, 0
        while product % 2**32 < least:
            attempt, again = attempt + 1, again + 1
            product = int(draws._words(3, 0, attempt)[at]) * units
        expected.append(product >> 32)
    assert again >= 3
    assert first_units(units, 12, 9) == expected


def first_units(units: int, count: int, seed: int) -> list[int]:
    """The first draws of replicate 0, by the header that all kernels share."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE) as folder:
        source, program = Path(folder, "first_units.cpp"), Path(folder, "first_units")
        source.write_text(
            f'#include "{CSRC}/core/draws.h"\n#include <stdio.h>\nint main() {{\n'
            f"  const valor::Replicate from{{{seed}, 0, 0}};\n"
            f"  for (uint32_t i = 0; i < {count}; ++i)\n"
            f'    printf("%u\\n", valor::drawn_unit(from, i / 4, i % 4, from.block(i / 4).word[i % 4], {units}u,\n'
            f"                                     valor::least_unbiased({units}u)));\n}}\n"
        )
        subprocess.check_call([COMPILER, "-std=c++17", str(source), "-o", str(program)])
        return [int(line) for line in subprocess.check_output([str(program)]).split()]


@pytest.mark.parametrize(("before", "error"), [(254, 0), (255, 1)])
def test_a_weight_that_no_byte_holds_is_reported(before: int, error: int) -> None:
    """One unit, drawn once on top of what stands in its byte; the one beside it is another replicate's."""

    def draw(weights: torch.Tensor) -> int:
        code = torch.zeros((), dtype=torch.int64)
        task = resampling._task(1, 1, 0, 0, 0, weights.data_ptr(), code.data_ptr(), 0)
        native.function("valor_cuda", "valor_draw_weights_cuda", "pp")(task.buffer_info()[0], 0)
        return int(code)

    weights = torch.tensor([before, 7, 0, 0], dtype=torch.uint8)
    assert simulated_kernel(draw)(weights) == error
    assert weights.tolist() == ([255, 7, 0, 0] if not error else [0, 8, 0, 0])


def test_units_of_one_cluster_have_its_weight(run: Run) -> None:
    one = drawn(run, Draws(3, 2, 0, 1, clusters=np.zeros(3, np.int64)))[0]
    assert one.tolist() == [[1, 1]] * 3


def test_a_unit_that_is_drawn_too_often_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = Draws(4, 2)

    def too_often(clusters: torch.Tensor, *_: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros((4, 2), dtype=torch.uint8), torch.ones((), dtype=torch.int64)

    def array(_: Draws) -> None:
        raise InputError("a unit must be drawn at most 255 times but was drawn 300 times: take another seed")

    monkeypatch.setattr(resampling, "_OP", too_often)
    monkeypatch.setattr(Draws, "array", array)
    with pytest.raises(InputError, match="at most 255 times but was drawn 300 times: take another seed"):
        weights(draws)


def test_too_many_units_are_rejected() -> None:
    with pytest.raises(InputError, match=r"fewer than 2\*\*32 units to draw from but there are 4,294,967,296"):
        weights(Draws(2**32, 1))
