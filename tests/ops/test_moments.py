"""moments: kernels equal the definition by bytes, the definition exact fractions, whatever order and split of rows."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing.examples_moments import PARAMETERS, pair, wild
from testing.parity import differences
from testing.registry import ROWS
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.ops.moments import launches, reference
from valor_gpu.ops.moments.kinds import NARROW, WIDE, Kind, limbs_for
from valor_gpu.ops.moments.op import Moments, describe_moment, moments
from valor_gpu.reduce.exact_sums import exact, rounded, unit

NAME = "moments"
EXAMPLES = {example.name: example.arguments for example in ROWS[NAME].examples(True)}
EXACT = (Kind.ABSOLUTE, Kind.SQUARED, Kind.WEIGHTED, Kind.VARIANCE, Kind.PRODUCTS)


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return kernel(request.param, NAME, launches.on_cuda)


@pytest.mark.smoke
def test_kernels_equal_the_definition(run: Callable[..., Any]) -> None:
    for name, arguments in EXAMPLES.items():
        assert differences(run(*arguments), reference.moments(*arguments)) == "", name


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated = kernel("simulated", NAME, launches.on_cuda)
    columns = "VARIANCE, (259, 9), 136", "PRODUCTS, wild columns"
    for name in ("PRODUCTS, (2061,)", "VARIANCE, special, 136", "SQUARED_LOG, no term", "SQUARED, wild", *columns):
        assert differences(simulated(*EXAMPLES[name]), reference.moments(*EXAMPLES[name])) == "", name


# ------------------------------------------------------------------------------------------------------------ oracles


def fractions(p: Tensor, t: Tensor, kind: Kind) -> list[Fraction]:
    """The sums of an exact kind, whose differences are those of float64."""
    rows = [(Fraction(a), Fraction(b), Fraction(a - b)) for a, b in zip(p.double().tolist(), t.double().tolist())]
    terms = {
        Kind.ABSOLUTE: lambda x, y, e: (abs(e),),
        Kind.SQUARED: lambda x, y, e: (e * e,),
        Kind.WEIGHTED: lambda x, y, e: (abs(e), abs(y)),
        Kind.VARIANCE: lambda x, y, e: (e, e * e, y, y * y),
        Kind.PRODUCTS: lambda x, y, e: (x, y, x * x, y * y, x * y),
    }[kind]
    return [sum(column, Fraction(0)) for column in zip(*(terms(*row) for row in rows))]


def found_fractions(found: Moments, column: int = 0) -> list[Fraction]:
    return [Fraction(number, unit(found.sums)) for number in exact(found.sums[column])]


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("kind", EXACT)
def test_sums_are_those_of_fractions(kind: Kind, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 1500))
    usual = pair(rng, kind, (rows,), torch.float32)
    rough = wild(rng, (rows,), high=1022), wild(rng, (rows,), high=1022)
    near = wild(rng, (rows,), -40, 40), wild(rng, (rows,), -90, -30)
    mixed = tuple(torch.where(torch.rand(rows) < 0.99, side.double(), odd) for side, odd in zip(usual, rough))
    huge = torch.full((rows,), 1e308, dtype=torch.float64), torch.full((rows,), 5e-324, dtype=torch.float64)
    tiny = wild(rng, (rows,), -970, -920), torch.zeros(rows, dtype=torch.float64)
    for p, t in (usual, rough, near, mixed, huge, tiny):
        assert found_fractions(moments(p, t, kind)) == fractions(p, t, kind)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in EXACT])
def test_sums_of_terms_are_those_of_fsum(kind: Kind) -> None:
    p, t = pair(np.random.default_rng(4), kind, (1500,), torch.float64)
    parameter = PARAMETERS.get(kind, 0.0)
    terms = reference._terms(p, t, kind, parameter)[0][0]
    assert rounded(moments(p, t, kind, parameter).sums).item() == math.fsum(terms.tolist())


def test_sums_of_tiny_terms_are_those_of_fractions(run: Callable[..., Any]) -> None:
    sizes = np.random.default_rng(9).uniform(1, 2, (40, 1))
    t = torch.from_numpy(np.ldexp(sizes, np.arange(-1074, -850, 7)))  # each column has an exponent
    found = Moments(*run(torch.zeros_like(t), t, int(Kind.PINBALL), 0.5, WIDE))
    for column, numbers in enumerate(t.T.tolist()):
        assert found_fractions(found, column) == [sum(Fraction(x / 2) for x in numbers)]


@pytest.mark.parametrize("kind", EXACT)
def test_no_order_split_or_number_of_threads_changes_a_bit(kind: Kind) -> None:
    rng = np.random.default_rng(int(kind))
    p, t = pair(rng, kind, (200_000,), torch.float32)
    p[::1000] *= 1e20
    whole, before = moments(p, t, kind), torch.get_num_threads()
    order = torch.from_numpy(rng.permutation(len(p)))
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert differences(moments(p[order], t[order], kind), whole) == ""
    finally:
        torch.set_num_threads(before)
    parts = [moments(a, b, kind).sums for a, b in zip(p.split(70_001), t.split(70_001))]
    assert exact(sum(parts[1:], parts[0])) == exact(whole.sums)


def test_columns_are_those_of_one_at_a_time() -> None:
    p, t = pair(np.random.default_rng(5), Kind.VARIANCE, (700, 21), torch.float32)
    p[3, 4], t[5, 6], p[7, 8] = torch.nan, torch.inf, -torch.inf
    whole = moments(p.t().contiguous().t(), t, Kind.VARIANCE)  # columns of one lie together
    for column in range(21):
        alone = moments(p[:, column], t[:, column], Kind.VARIANCE)
        assert differences(tuple(part[column : column + 1] for part in whole[:4]), alone[:4]) == ""
    assert whole.counts[[4, 6, 8]].tolist() == [[700, 1, 0, 0], [700, 1, 0, 0], [700, 0, 0, 1]]


def test_narrow_sums_cut_what_lies_below() -> None:
    numbers = [2.0**-150, 2.0**-193, 2.0**-150 + 2.0**-200, -(2.0**-200), 2.0**160, -(2.0**159)]
    p = torch.tensor(numbers, dtype=torch.float64)
    found = moments(p, torch.zeros_like(p), Kind.VARIANCE, limbs=NARROW)
    assert found_fractions(found)[:2] == [2 * Fraction(2.0**-150) - 2**159, 2 * Fraction(2) ** -300 + 2**318]
    assert found.counts.tolist() == [[6, 0, 1, 0]]
    assert limbs_for(1) == WIDE and limbs_for(100_000) == NARROW


# ------------------------------------------------------------------------------------------------------ small updates


@pytest.mark.smoke
@pytest.mark.parametrize("kind", list(Kind))
def test_a_small_update_adds_to_the_state(kind: Kind) -> None:
    parameter = PARAMETERS.get(kind, 0.0)
    call = launches.small_update()
    assert call is not None
    for shape in ((1,), (8,), (40, 3)):
        p, t = pair(np.random.default_rng(6), kind, (2 * shape[0], *shape[1:]), torch.float32)
        old = moments(p[: shape[0]], t[: shape[0]], kind, parameter)
        new = [torch.empty_like(part) for part in old[:4]]
        p_new, t_new = p[shape[0] :].contiguous(), t[shape[0] :].contiguous()
        words = launches.task_words((p.dtype, t.dtype), torch.Size(shape), kind, parameter, WIDE)
        addresses = [part.data_ptr() for part in (p_new, t_new, *old[:4], *new)]
        assert call(words, struct.pack(f"{len(addresses)}Q", *addresses)) == 0
        assert differences(tuple(new), moments(p, t, kind, parameter)[:4]) == ""
        if kind == Kind.TWEEDIE:
            p_new.view(-1)[-1] = -1.0
            assert call(words, struct.pack(f"{len(addresses)}Q", *addresses)) != 0


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda p, t: moments(p, t[:2], Kind.SQUARED),
            r"same shape, \[N\] or \[N, D\], but have shapes \[3\] and \[2\]",
        ),
        (lambda p, t: moments(p[None, None], t[None, None], Kind.SQUARED), r"have shapes \[1, 1, 3\] and \[1, 1, 3\]"),
        (lambda p, t: moments(p.to(torch.complex64), t, Kind.SQUARED), "preds must have dtype .* got torch.complex64"),
        (lambda p, t: moments(p, t.to("meta"), Kind.SQUARED), "target must be on cpu like preds but is on meta"),
        (lambda p, t: moments(p, t, Kind.PINBALL, 1.5), r"quantile must be in \[0, 1\] but got 1.5"),
        (lambda p, t: moments(p, t, Kind.MINKOWSKI, 0.5), r"p must be in \[1, inf\] but got 0.5"),
        (lambda p, t: moments(p, t, Kind.TWEEDIE, 0.5), "power must be at most 0, or at least 1, but got 0.5"),
        (lambda p, t: moments(p, t, Kind.SQUARED, limbs=5), "limbs must be even and at least 4 but got 5"),
    ],
)
def test_errors_name_the_argument(call: Callable[[Tensor, Tensor], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(torch.ones(3), torch.ones(3))


@pytest.mark.parametrize(
    ("kind", "power", "place", "said"),
    [
        (Kind.TWEEDIE, 1.5, (0, 5, 0), r"^preds\[5\] must be above 0 for power=1.5 but is -2$"),
        (Kind.TWEEDIE, 1.0, (1, 5, 0), r"^target\[5\] must be at least 0 for power=1 but is -2$"),
        (Kind.TWEEDIE, 3.0, (1, 5, 1), r"^target\[5, 1\] must be above 0 for power=3 but is -2$"),
        (Kind.SQUARED_LOG, 0.0, (0, 2, 1), r"^preds\[2, 1\] must be at least -1 but is -2$"),
    ],
)
def test_a_number_without_a_term_is_named(kind: Kind, power: float, place: tuple[int, int, int], said: str) -> None:
    side, row, column = place
    sides = torch.ones(2, 9, 2 if column else 1)
    sides[side, row, column], sides[side, 7] = -2.0, -3.0
    p, t = (part if column else part[:, 0] for part in sides)
    found = moments(p, t, kind, power)
    with pytest.raises(InputError, match=said):
        raise_error(found.error, lambda code: describe_moment(code, kind, power, (p, t)))
    assert int(moments(p.abs(), t.abs(), kind, power).error) == NO_ERROR


def test_opcheck() -> None:
    library.opcheck(getattr(torch.ops.valor_gpu, NAME).default, EXAMPLES["VARIANCE, (300, 3)"])
