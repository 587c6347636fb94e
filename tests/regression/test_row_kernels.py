"""Native scores of rows beside their definition in torch."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import torch

from tests.contents import content
from valor_gpu.errors import InputError
from valor_gpu.functional import cosine_similarity, jensen_shannon_divergence, kl_divergence
from valor_gpu.regression import cosine, divergences

FUNCTIONS = {"cosine": cosine_similarity, "kl": kl_divergence, "js": jensen_shannon_divergence}


def defined(name: str, *args: torch.Tensor, **choices: bool) -> torch.Tensor:
    """The scores of rows without the library."""
    module = cosine if name == "cosine" else divergences
    with mock.patch.object(module, "native_row_scores", return_value=None):
        return FUNCTIONS[name](*args, **choices, reduction="none")


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scores_equal_the_definition(name: str, dtype: torch.dtype) -> None:
    for rows, columns in ((0, 3), (1, 1), (5, 7), (40, 8), (3, 1000)):
        first, second = torch.rand((2, rows, columns), generator=torch.Generator().manual_seed(rows)).to(dtype)
        first = first * (first > 0.2)  # with zeros
        for log_prob in (False, True):
            choices = {"log_prob": True} if log_prob else {}
            if log_prob and name == "cosine":
                continue
            sides = (first.log(), second.log()) if log_prob else (first, second)
            found = FUNCTIONS[name](*sides, **choices, reduction="none")
            np.testing.assert_allclose(found, defined(name, *sides, **choices), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers(name: str) -> None:
    values = torch.tensor([0.0, 1.0, 5e-324, 1e308, math.inf, math.nan]).double()
    first, second = torch.cartesian_prod(values, values), torch.cartesian_prod(values, values).flip(0)
    found, expected = FUNCTIONS[name](first, second, reduction="none"), defined(name, first, second)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def test_threads_give_the_same() -> None:
    first, second = torch.rand((2, 5000, 11), generator=torch.Generator().manual_seed(1))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(content(kl_divergence(first, second, reduction="none")))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_negative_numbers_are_named() -> None:
    first, second = torch.ones(4000, 5), torch.ones(4000, 5)
    second[3210, 4] = -1
    for function in (kl_divergence, jensen_shannon_divergence):
        with pytest.raises(InputError, match=r"q\[3210, 4\] is negative"):
            function(first, second)
