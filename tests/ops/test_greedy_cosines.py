"""greedy_cosines: kernels equal the definition by bytes, the definition the cosines of numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, library

from testing import examples_cosines as made
from testing.parity import differences
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NO_ERROR, raise_error
from valor_gpu.ops.greedy_cosines import op as home
from valor_gpu.ops.greedy_cosines import reference
from valor_gpu.ops.greedy_cosines.op import describe_vector, greedy_cosines

NAME = "greedy_cosines"
EXAMPLES = dict(made.examples(quick=True))
EXPECTED = {name: reference.greedy_cosines(*arguments) for name, arguments in EXAMPLES.items()}
Run = Callable[..., Any]


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    return kernel(request.param, NAME, home._greedy_cosines_cuda)


def wrong(run: Run, names: Any = EXAMPLES) -> dict[str, str]:
    """Examples whose result differs; where there is an error, nothing else is defined."""
    found = {}
    for name in names:
        outputs, expected = run(*EXAMPLES[name]), EXPECTED[name]
        bad = int(expected[2]) != NO_ERROR
        found[name] = differences(outputs[2:], expected[2:]) if bad else differences(outputs, expected)
    return {name: text for name, text in found.items() if text}


@pytest.mark.smoke
def test_kernels_equal_the_definition(run: Run) -> None:
    assert wrong(run) == {}


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    assert wrong(kernel("simulated", NAME, home._greedy_cosines_cuda), ("of 96", "a prediction of NaN")) == {}


def test_threads_give_the_same() -> None:
    arguments = made.texts_of(np.random.default_rng(3), [(9, 40)] * 50, 128)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(greedy_cosines(*arguments))
    finally:
        torch.set_num_threads(before)
    assert differences(*found) == ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 5, 100])
def test_numpy(dtype: torch.dtype, width: int) -> None:
    preds, target, offsets = made.texts_of(np.random.default_rng(7), [(3, 5), (6, 1), (2, 0)], width)
    preds, target = preds.to(dtype), target.to(dtype)
    found = greedy_cosines(preds, target, offsets)
    a, b = (each.double().numpy() for each in (preds, target))
    a, b = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (a, b))
    for (i, j), (i_end, j_end) in zip(offsets.T[:-1].tolist(), offsets.T[1:].tolist()):
        cosines = a[i:i_end] @ b[j:j_end].T
        if cosines.size:
            assert found.preds[i:i_end].numpy() == pytest.approx(cosines.max(1), abs=1e-6)
            assert found.target[j:j_end].numpy() == pytest.approx(cosines.max(0), abs=1e-6)
    assert found.preds[-2:].tolist() == [-2, -2] and int(found.error) == NO_ERROR


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p, t, o: greedy_cosines(p.long(), t, o), "preds must have dtype .* but got torch.int64"),
        (lambda p, t, o: greedy_cosines(p, t[:, :4], o), r"target must have shape .*8\] but got \[2, 4\]"),
        (lambda p, t, o: greedy_cosines(p, t.to("meta"), o), "target must be on cpu like preds but is on meta"),
        (lambda p, t, o: greedy_cosines(p, t, o.int()), "offsets must have dtype torch.int64 but got torch.int32"),
        (lambda p, t, o: greedy_cosines(p, t, o - 1), r"ascend from 0 to \[3, 2\] but are \[\[-1, 2\], \[-1, 1\]\]"),
        (lambda p, t, o: greedy_cosines(p, t, o[:, :0]), r"ascend from 0 to \[3, 2\] but are \[\[\], \[\]\]"),
        (lambda p, t, o: greedy_cosines(p, t, o + torch.tensor([[0], [0]]) * 0 + torch.tensor([0, 1])), "ascend"),
    ],
)
def test_errors_name_the_argument(call: Callable[[Tensor, Tensor, Tensor], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(torch.ones(3, 8), torch.ones(2, 8), torch.tensor([[0, 3], [0, 2]]))


def test_errors_name_the_first_vector() -> None:
    preds, target = torch.ones(3, 8), torch.ones(2, 8)
    target[1] = 0
    with pytest.raises(InputError, match=r"^target must have vectors of a length from .* that of token 1 has not$"):
        raise_error(greedy_cosines(preds, target, torch.tensor([[0, 3], [0, 2]])).error, describe_vector)


def test_opcheck() -> None:
    library.opcheck(getattr(torch.ops.valor_gpu, NAME).default, EXAMPLES["of 32"])
