"""Which labels detection records hold, and how many rows count: what is known before anything is ordered."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops._accumulate_cpu import label_counts
from valor_gpu.ops._launch import cpp
from valor_gpu.ops._library import by_reference, register
from valor_gpu.ops.curves import detection_labels, record_labels
from valor_gpu.ops.match_batch import PADDING_BUCKET


class Census(NamedTuple):
    """Ascending ``labels`` int64 ``[K]``; ``totals`` int64 ``[3]`` on the CPU: detections, ground truths, ignored."""

    labels: Tensor
    totals: Tensor


def census(detections: Tensor, truths: Tensor, areas: int) -> Census:
    """Labels and row counts of the tables that matching leaves, padding rows left out.

    Args:
        detections: uint8 rows, see docs/design/001-detection-records.md.
        truths: uint8 rows on the same device.
        areas: A, the number of area ranges.
    """
    return Census(*_OP(detections, truths, areas))


def _bit(truths: Tensor, bit: int) -> Tensor:
    return (truths[:, 4 + bit // 8] >> bit % 8 & 1).bool()


def _census_reference(detections: Tensor, truths: Tensor, areas: int) -> Census:
    found = detections[detections[:, 12] != PADDING_BUCKET]
    true = truths[_bit(truths, areas)]
    labels = torch.unique(torch.cat((detection_labels(found), record_labels(true))))
    return Census(labels, torch.tensor([len(found), len(true), int(_bit(true, areas + 1).sum())]))


def _census_cpu(detections: Tensor, truths: Tensor, areas: int) -> Census:
    return Census(*map(torch.from_numpy, label_counts(detections.numpy(), truths.numpy(), areas)))


def _census_fake(detections: Tensor, truths: Tensor, areas: int) -> Census:
    size = torch.library.get_ctx().new_dynamic_size()
    int64 = torch.int64
    return Census(detections.new_empty(size, dtype=int64), torch.empty(3, dtype=int64, device="cpu"))


_OP = register(
    "census(Tensor detections, Tensor truths, int areas) -> (Tensor, Tensor)",
    reference=_census_reference,
    fake=_census_fake,
    cpu=cpp(_census_cpu),
    cuda=by_reference("torch.unique sorts on the device"),
)
