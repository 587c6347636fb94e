"""The place where two contents differ, which ranks report."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from tests.contents import content, expect

NAN = float("nan")


def changed(*values: tuple[int, float]) -> torch.Tensor:
    tensor = torch.zeros(4, 19)
    for place, value in values:
        tensor.view(-1)[place] = value
    return tensor


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (
            changed(),
            changed((59, NAN), (61, -0.0)),
            r"value[3, 2], the first of 2 of 76: found np.float32(0.0)",
        ),
        ({"x": [torch.ones(2)]}, {"x": [torch.tensor([1.0, 2.0])]}, "value['x'][0][1], the first of 1 of 2"),
        (torch.tensor(NAN), torch.tensor(1.0), "value[], the first of 1 of 1: found np.float32(nan)"),
        (np.zeros(3, np.float32), torch.zeros(3), "value[0]: found 'array', expected 'Tensor'"),
        (torch.zeros(0), torch.zeros(1), "value[2][0]: found 0, expected 1"),
        ({"a": 1}, {"b": 1}, "value: found {'a': '1'}, expected {'b': '1'}"),
        ([1, 2], [1], "value: found ['1', '2'], expected ['1']"),
    ],
)
def test_the_first_difference_is_named(found: Any, wanted: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        expect(content(found), content(wanted))


@pytest.mark.parametrize("value", [changed((5, NAN)), {"a": [np.zeros(2), NAN]}, None])
def test_equal_contents_are_as_expected(value: Any) -> None:
    expect(content(value), content(value))
