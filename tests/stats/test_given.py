"""Rows in every form that a user has them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.errors import InputError
from valor_gpu.stats import compare_accuracy, compare_auroc, compare_paired

ROWS = 24
SCORES = np.random.default_rng(34).integers(0, 9, (2, ROWS)) / 8  # bfloat16 has them, too
TARGET = np.arange(ROWS) % 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_are_what_their_numbers_are(dtype: torch.dtype) -> None:
    first, second = (torch.tensor(side, dtype=dtype, requires_grad=True) for side in SCORES)
    assert compare_paired(first, second) == compare_paired(*SCORES)
    assert repr(compare_auroc(first, second, torch.tensor(TARGET))) == repr(compare_auroc(*SCORES, TARGET))
    right = torch.tensor(TARGET, dtype=dtype)
    assert repr(compare_accuracy(right, 1 - right)) == repr(compare_accuracy(TARGET, 1 - TARGET))


@pytest.mark.parametrize("rows", [["a", "b"], [1j, 2], ["1", "2"], np.array([object(), 1], object)])
def test_rows_that_are_no_numbers(rows: Any) -> None:
    with pytest.raises(InputError, match="second must hold numbers but has dtype"):
        compare_paired([1, 2], rows)
    with pytest.raises(InputError, match="first must hold numbers but has dtype"):
        compare_auroc(rows, [1, 2], [0, 1])
