"""Records of matching as replicates read them, as tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu.ops.accumulate.types import AccumulateChoices
from valor_gpu.ops.resampled_means.op import ResampledRecords, resampled_means, resampled_records
from valor_gpu.ops.resampling.op import weights
from valor_gpu.reduce.matched_tables import Truths
from valor_gpu.stats.draws import Draws


class OrderedTable(NamedTuple):
    """What replicates are computed from.

    Attributes:
        records: in order.
        run: takes weights to means, and to precision and recall of classes.
        truths: ground truths that count.
    """

    records: ResampledRecords
    run: Callable[[Tensor], tuple[Any, Any, Any]]
    truths: Truths


def ordered_table(
    detections: Tensor, ground_truths: Tensor, images: Tensor, choices: AccumulateChoices
) -> OrderedTable:
    """Orders the tables of matching, see :func:`valor_gpu.ops.resampled_means.resampled_records`.

    Args:
        detections: uint8 rows, see docs/design/001-detection-records.md.
        ground_truths: uint8 rows.
        images: int64 ``[I, 8]``.
        choices: what to accumulate.
    """
    records = resampled_records(detections, ground_truths, images, choices)
    return OrderedTable(records, partial(resampled_means, records), truths_of(records))


def truths_of(records: ResampledRecords) -> Truths:
    """Returns the ground truths of ordered records on the host."""
    areas, ends = records.choices.shape.areas, records.truth_offsets.cpu().numpy()
    bits = np.unpackbits(records.truths.cpu().numpy(), axis=1, bitorder="little")[:, :areas]
    classes = np.repeat(np.arange(records.classes), np.diff(ends))
    return Truths(bits.astype(np.bool_), classes, records.truth_units.cpu().numpy().astype(np.int64), records.classes)


def weights_on(device: torch.device, draws: Draws) -> Tensor:
    """Returns the weights of draws, uint8 ``[U, L]``, on a device."""
    return weights(draws, device)
