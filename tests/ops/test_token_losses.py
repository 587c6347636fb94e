"""sum_token_losses: kernels equal the definition by bytes, the definition exact arithmetic and cross entropy."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing import examples_tokens as made
from testing.parity import differences
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.ops.token_losses import op as token_losses
from valor_gpu.ops.token_losses import reference
from valor_gpu.ops.token_losses.op import describe_token, sum_token_losses, total_loss

NAME = "sum_token_losses"
EXAMPLES = dict(made.examples(quick=True))
EXPECTED = {name: reference.sum_token_losses(*arguments) for name, arguments in EXAMPLES.items()}
Run = Callable[..., Any]


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    return kernel(request.param, NAME, token_losses._sum_token_losses_cuda)


def wrong(run: Run, names: Any = EXAMPLES) -> dict[str, str]:
    """Examples whose result differs; where there is an error, nothing else is defined."""
    found = {}
    for name in names:
        (sums, error), (expected, code) = run(*EXAMPLES[name]), EXPECTED[name]
        parts = ((error, code),) if int(code) != NO_ERROR else ((error, code), (sums, expected))
        found[name] = "; ".join(filter(None, (differences(*part) for part in parts)))
    return {name: text for name, text in found.items() if text}


@pytest.mark.smoke
def test_kernels_equal_the_definition(run: Run) -> None:
    assert wrong(run) == {}


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated = kernel("simulated", NAME, token_losses._sum_token_losses_cuda)
    names = ("31 x 129, torch.bfloat16", "far apart, torch.float32, torch.int16", "nan, torch.float64")
    assert wrong(simulated, names) == {}


def test_threads_give_the_same_sums() -> None:
    rng = np.random.default_rng(3)
    logits, target = made.logits_of(rng, (300, 999)), made.tokens_of(rng, (300,), 999)
    bad = logits.clone()
    bad[250, 5], bad[17, 998] = torch.nan, torch.inf
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append((sum_token_losses(logits, target), sum_token_losses(bad, target).error))
    finally:
        torch.set_num_threads(before)
    assert differences(*found) == ""
    with pytest.raises(InputError, match=r"^preds\[17, 998\] must be below inf, not NaN, and not all"):
        raise_error(found[0][1], lambda code: describe_token(code, target.shape))


# ------------------------------------------------------------------------------------------------------------ oracles


def exact_losses(logits: Tensor, target: Tensor) -> list[Decimal]:
    """By decimal arithmetic of 40 digits."""
    with localcontext() as context:
        context.prec = 40
        rows = [[Decimal(x) for x in row] for row in logits.double().tolist()]
        sums = [sum((x - row[t]).exp() for x in row) for row, t in zip(rows, target.tolist())]
        return [total.ln() for total in sums]


@pytest.mark.parametrize("spread", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("dtype", made.FLOATS)
def test_each_loss_is_as_exact_as_promised(dtype: torch.dtype, spread: float) -> None:
    rng = np.random.default_rng(5)
    logits, target = made.logits_of(rng, (6, 70), spread).to(dtype), made.tokens_of(rng, (6,), 70)
    bound = 4e-9 if dtype == torch.float64 else 2e-7
    for row, expected in enumerate(exact_losses(logits, target)):
        loss = total_loss(sum_token_losses(logits[row : row + 1], target[row : row + 1]).sums.tolist())
        assert abs(loss - float(expected)) <= bound * (1 + float(expected))


@pytest.mark.parametrize("dtype", made.FLOATS)
def test_cross_entropy(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(7)
    logits, target = made.logits_of(rng, (40, 5000)).to(dtype), made.tokens_of(rng, (40,), 5000)
    target[::3] = -100
    expected = torch.nn.functional.cross_entropy(logits.double(), target, reduction="sum")
    sums = sum_token_losses(logits, target, ignore_index=-100).sums.tolist()
    assert sums[0] == 26 and total_loss(sums) == pytest.approx(float(expected), rel=1e-7)


def test_fused_steps_of_the_definition_round_once() -> None:
    rng = np.random.default_rng(11)
    for dtype in (torch.float32, torch.float64):
        a, b = (torch.from_numpy(rng.standard_normal(2000)).to(dtype) for _ in range(2))
        c = (-a * b) * torch.from_numpy(1 + rng.integers(-3, 4, 2000) * torch.finfo(dtype).eps).to(dtype)
        found = reference._fused(a, b, c)
        for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), found):
            with localcontext() as context:
                context.prec = 200
                exact = Decimal(x) * Decimal(y) + Decimal(z)
            assert torch.tensor(float(exact), dtype=torch.float64).to(dtype) == got


# --------------------------------------------------------------------------------------------------------- edge cases


def test_probability_0_and_far_tokens() -> None:
    logits = torch.tensor([[-torch.inf, 0.0], [0.0, -torch.inf], [-3e38, 3e38], [0.0, 2.0**29]])
    assert sum_token_losses(logits, torch.tensor([0, 0, 0, 0])).sums.tolist() == [4, 2**29, 0, 2]
    assert math.isinf(total_loss([4, 0, 0, 2])) and total_loss([1, 3, 2**27, 0]) == 3.5


def test_no_logits_of_ignored_rows_are_looked_at() -> None:
    logits = torch.tensor([[0.0, 0.0], [torch.nan, torch.inf]])
    sums, error = sum_token_losses(logits, torch.tensor([1, 7]), ignore_index=7)
    assert sums.tolist()[0] == 1 and int(error) == NO_ERROR


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a, t: sum_token_losses(a.long(), t), "preds must have dtype .* but got torch.int64"),
        (lambda a, t: sum_token_losses(a, t.float()), "target must have dtype .* but got torch.float32"),
        (lambda a, t: sum_token_losses(a, t[:1]), r"of target, \[1, 3\], and one of classes but has shape \[2, 3, 5\]"),
        (lambda a, t: sum_token_losses(a[0, 0], t[0, 0]), r"of target, \[\], and one of classes but has shape \[5\]"),
        (lambda a, t: sum_token_losses(a[..., :0], t), r"must have 1 to \d+ classes but has shape \[2, 3, 0\]"),
        (lambda a, t: sum_token_losses(a, t.to("meta")), "target must be on cpu like preds but is on meta"),
    ],
)
def test_errors_name_the_argument(call: Callable[[Tensor, Tensor], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(torch.zeros(2, 3, 5), torch.zeros(2, 3, dtype=torch.int64))


def test_errors_name_the_first_place() -> None:
    target = torch.tensor([[0, 1, 9], [1, 9, 1]])
    with pytest.raises(InputError, match=r"^target\[0, 2\] must be an index of the last dimension of preds$"):
        raise_error(sum_token_losses(torch.zeros(2, 3, 5), target).error, lambda c: describe_token(c, target.shape))
    last = ((2**27 - 1) << 32 | 4) << 4 | 2
    assert describe_token(last).startswith("preds[134217727 or later, 4] must be")


def test_opcheck() -> None:
    library.opcheck(getattr(torch.ops.valor_gpu, NAME).default, EXAMPLES["classes first"])
