"""Means over the thresholds, recall samples and classes of precision and recall arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.ops._accumulate_cpu import means_of_table
from valor_gpu.ops._launch import cuda, launching
from valor_gpu.ops._library import by_reference, register
from valor_gpu.ops.accumulate_types import Curves, Pick, PickTable, RecordShape
from valor_gpu.ops.dtypes import to_device


def present_means(curves: Curves, picks: Sequence[Pick]) -> Tensor:
    """Means of all values above -1, NaN where there is none.

    The order of summation is that of ``numpy.mean(s[s > -1])`` in pycocotools' ``COCOeval.summarize``, so that the
    result has the same bits.

    Args:
        curves: what :func:`valor_gpu.ops.curves.precision_recall` gave: a class is absent as a whole or not at all.
        picks: what to take the means over; places may be negative.

    Returns:
        float64 ``[P]`` on the device of the arrays; nothing waits for it.

    Raises:
        InputError: an array other than ``precision`` and ``recall``.

    Example:
        >>> recall = torch.tensor([0.5, -1.0, 0.25]).double().reshape(1, 3, 1, 1)
        >>> present_means(Curves(recall[None], recall, recall), [Pick("recall", 0, -1, [0])])
        tensor([0.3750], dtype=torch.float64)
    """
    thresholds, _, areas, limits = curves.recall.shape
    table = PickTable.of(picks, RecordShape(thresholds, areas, limits), curves.precision.shape[-1])
    means: Tensor = _OP(curves.precision, curves.recall, *map(torch.from_numpy, table))
    return means


def _means_reference(precision: Tensor, recall: Tensor, picks: Tensor, thresholds: Tensor) -> Tensor:
    curves = Curves(precision.cpu().numpy(), recall.cpu().numpy(), None)
    means = means_of_table(curves, PickTable(picks.numpy(), thresholds.numpy()))
    return torch.from_numpy(means).to(precision.device)


def _means_fake(precision: Tensor, recall: Tensor, picks: Tensor, thresholds: Tensor) -> Tensor:
    return precision.new_empty(picks.shape[0])


def _means_cuda(precision: Tensor, recall: Tensor, picks: Tensor, thresholds: Tensor) -> Tensor:
    check_same_device(("precision", "recall"), (precision, recall))
    precision, recall = precision.contiguous(), recall.contiguous()
    most = max((count for *_, count in picks.tolist()), default=0)
    sizes = torch.tensor([*precision.shape[1:], recall.shape[-1], picks.shape[0], most])
    found = ctypes.c_int64()
    native.function("valor_cuda", "valor_present_means_workspace_cuda", "pp")(sizes.data_ptr(), ctypes.byref(found))
    with launching(precision.device) as stream:
        words = to_device(torch.cat((picks.reshape(-1), thresholds)), precision.device)
        workspace = precision.new_empty(found.value, dtype=torch.uint8)
        out = precision.new_empty(picks.shape[0])
        native.function("valor_cuda", "valor_present_means_cuda", "pppppppp")(
            precision.data_ptr(), recall.data_ptr(), sizes.data_ptr(), words.data_ptr(),
            words[picks.numel() :].data_ptr(), out.data_ptr(), workspace.data_ptr(), stream,
        )  # fmt: skip
    return out


_OP = register(
    "present_means(Tensor precision, Tensor recall, Tensor picks, Tensor thresholds) -> Tensor",
    reference=_means_reference,
    fake=_means_fake,
    cpu=by_reference("numpy, whose order of summation is the definition"),
    cuda=cuda(_means_cuda),
)
