"""Means are divided once on every device: torch on CUDA multiplies by the reciprocal of a Python number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from valor_gpu.reduce.label_means import mean_of_thresholds
from valor_gpu.reduce.macro_curves import macro_precision_recall, macro_roc
from valor_gpu.reduce.partial_area import partial_roc_auc
from valor_gpu.reduce.ratios import quotient


class CudaLike(Tensor):
    """A tensor whose quotients by Python numbers have the bits that torch gives on CUDA."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("__truediv__", "div", "true_divide", "__itruediv__") and isinstance(args[1], (int, float)):
            func, args = torch.mul, (args[0], 1.0 / args[1])
        return super().__torch_function__(func, types, args, kwargs or {})


def as_on_cuda(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.as_subclass(CudaLike), value)


def numbers(*sizes: int) -> Tensor:
    return torch.rand(sizes, generator=torch.Generator().manual_seed(sum(sizes)), dtype=torch.float64)


def curves(count: int) -> list[Tensor]:
    return [torch.cat((torch.zeros(1), numbers(9 + i).sort().values, torch.ones(1))) for i in range(count)]


def test_the_imitation_rounds_twice() -> None:
    values = torch.arange(1, 100, dtype=torch.float64)
    assert not torch.equal(torch.as_tensor(as_on_cuda(values) / 10), values / 10)
    assert torch.equal(torch.as_tensor(quotient(as_on_cuda(values), 10)), values / 10)


@pytest.mark.parametrize(
    "means",
    [
        lambda there: mean_of_thresholds(there(numbers(200, 10))),
        lambda there: macro_roc(there(curves(7)), there(curves(7))),
        lambda there: macro_precision_recall(there(curves(7)), there([c.flip(0) for c in curves(7)])),
        lambda there: partial_roc_auc(there(numbers(50, 40).cumsum(1)), there(2 * numbers(50, 40).cumsum(1)), 0.3),
    ],
    ids=["thresholds", "roc", "precision_recall", "partial_area"],
)  # fmt: skip
def test_means_have_the_same_bits(means: Any) -> None:
    got, expected = means(as_on_cuda), means(lambda value: value)
    for ours, theirs in zip(pytree.tree_leaves(got), pytree.tree_leaves(expected), strict=True):
        assert torch.equal(torch.as_tensor(ours).as_subclass(Tensor), theirs)
