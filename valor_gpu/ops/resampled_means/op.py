"""Numbers of resampled data sets: replicates of the means of :mod:`valor_gpu.ops.accumulate.op`.

Definition: :mod:`valor_gpu.ops.resampled_means.reference`. Row layouts: docs/design/001-detection-records.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu._frozen import frozen
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_dtype, check_same_device, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.accumulate.op import accumulate, label_counts, order_records
from valor_gpu.ops.accumulate.record_rows import ground_truth_bit, ground_truth_labels
from valor_gpu.ops.accumulate.types import AccumulateChoices
from valor_gpu.ops.assign.image_order import check_row_counts, choose_images
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.ops.resampled_means import cpu as _resampled_means_cpu
from valor_gpu.ops.resampled_means import cuda as _resampled_means_cuda
from valor_gpu.ops.resampled_means import reference

_ID, _DETECTIONS, _GROUND_TRUTHS = map(IMAGE_COLUMNS.index, ("ID", "DETECTIONS", "GROUND_TRUTHS"))
_MOST_ROWS = (2**31 - 1) // 255
"""Rows of a class whose weights, of at most 255, add up in int32."""


@frozen
class ResampledRecords:
    """Detection records in the order in which replicates read them; a unit is an image.

    Attributes:
        detections: uint8 ``[D, 13 + 2B]`` rows.
        order: int64 ``[N]`` row numbers by (class, score descending, unit, place in the image).
        offsets: int64 ``[K + 1]``: class k is ``order[offsets[k]:offsets[k + 1]]``.
        record_units: int32 ``[N]``, the unit of each record of ``order``.
        truths: uint8 ``[G, ceil((A + 2) / 8)]``, the bits of the ground truths that count in any area range, without
            their label, by (class, unit).
        truth_offsets: int64 ``[K + 1]``, as ``offsets``.
        truth_units: int32 ``[G]``.
        labels: int64 on the CPU, the ascending labels; K of them, or any number where ``choices`` pools the classes.
        units: images that count, copies of an image left out.
        keys: int64 ``[units]`` on the host: the ID of each, its content hash where it has none. Units of equal keys
            without id are alike.
        images: int64 ``[units]`` on the host: the row of the images table that each unit is.
        choices: what is accumulated.
    """

    detections: Tensor
    order: Tensor
    offsets: Tensor
    record_units: Tensor
    truths: Tensor
    truth_offsets: Tensor
    truth_units: Tensor
    labels: Tensor
    units: int
    keys: NDArray[np.int64]
    images: NDArray[np.int64]
    choices: AccumulateChoices

    @property
    def classes(self) -> int:
        """K."""
        return len(self.offsets) - 1


class ResampledMeans(NamedTuple):
    """Numbers of L replicates, float64 on the device of the records.

    Attributes:
        means: ``[L, P]``, the picks of the choices; NaN where nothing counts.
        class_precision: ``[L, K]``: mean over IoU thresholds and recall samples in the first area range at the last
            max-detection limit; NaN where no ground truth counts.
        class_recall: ``[L, K]``: likewise over IoU thresholds.
    """

    means: Tensor
    class_precision: Tensor
    class_recall: Tensor


@arguments_of(accumulate)
def resampled_records(
    detections: Tensor, ground_truths: Tensor, images: Tensor, choices: AccumulateChoices
) -> ResampledRecords:
    """Orders the tables of matching once for all replicates; waits for the device.

    The units are ordered as :func:`valor_gpu.ops.accumulate.op.accumulate` orders images: by key, unless
    ``choices.by_key`` is False or ``choices.images`` gives another order.

    Args:
        choices: what to accumulate; its first order of ties is ``given``, others are not read.

    Raises:
        InputError: another first order of ties, an image id that came with two different ground truths, images that
            name other rows than the tables have, or more rows of a class than weights can be added up for.
    """
    if choices.ties[0] != "given":
        raise InputError(f"choices.ties must begin with given but begins with {choices.ties[0]}")
    choices.shape.check_tables(detections, ground_truths, images)
    table: NDArray[np.int64] = images.cpu().numpy()
    check_row_counts(table, len(detections), len(ground_truths))
    kept = choose_images(table, choices.by_key) if choices.images is None else choices.images
    unit_of_image = np.full(len(table), -1, np.int32)
    unit_of_image[kept] = np.arange(len(kept))
    units, gt_units = (
        to_device(torch.from_numpy(np.repeat(unit_of_image, table[:, column])), detections.device)
        for column in (_DETECTIONS, _GROUND_TRUTHS)
    )
    areas, limits = choices.shape.areas, choices.shape.limits
    if choices.labels is None:
        labels = label_counts(detections[units >= 0], ground_truths[gt_units >= 0], areas).labels
    else:
        labels = torch.from_numpy(choices.labels).to(detections.device)
    classes, pooled = (labels[:1] if choices.agnostic else labels), choices.agnostic and len(labels) > 0
    lengths = table[:, _DETECTIONS]
    first, rows = (torch.from_numpy(x[kept]) for x in (np.cumsum(lengths) - lengths, lengths))
    order, offsets = order_records(detections, first, rows, classes, limits, pooled)
    truths = _ordered_truths(ground_truths, gt_units, classes, areas, pooled)
    _check_sizes(offsets, truths[1])
    return ResampledRecords(
        detections, order, offsets, units[order], *truths, labels.cpu(), len(kept), table[kept, _ID], kept, choices
    )


def resampled_means(records: ResampledRecords, weights: Tensor) -> ResampledMeans:
    """Computes the numbers of data sets in which every unit stands as often as its weight says.

    They have the bits of :func:`valor_gpu.ops.accumulate.op.accumulate`, and so of pycocotools' ``COCOeval``, over a
    data set with so many copies of each image, one after another in the order of images.

    Args:
        records: from :func:`resampled_records`.
        weights: uint8 ``[units, L]``, a column for each replicate, on the device of the records.

    Raises:
        InputError: on another shape, dtype or device.

    Example:
        >>> from valor_gpu.detection import MeanAveragePrecision
        >>> from valor_gpu.ops.accumulate.types import Pick, RecordShape
        >>> metric, box = MeanAveragePrecision(), torch.tensor([[0.0, 0.0, 9.0, 9.0]])
        >>> found = {"boxes": box, "scores": torch.tensor([0.5]), "labels": torch.tensor([3])}
        >>> nothing = {name: tensor[:0] for name, tensor in found.items()}
        >>> metric.update([found, nothing], 2 * [{"boxes": box, "labels": torch.tensor([3])}])
        >>> choices = AccumulateChoices(RecordShape(10, 4, 3), np.linspace(0, 1, 101), (Pick("recall", 0, -1, [0]),))
        >>> records = resampled_records(*metric.state().tensors().values(), choices)
        >>> sorted(resampled_means(records, torch.tensor([[1, 1, 3], [1, 3, 1]]).byte()).means[:, 0].tolist())
        [0.25, 0.5, 0.75]
    """
    check_shape("weights", weights, (records.units, None))
    check_dtype("weights", weights, (torch.uint8,))
    check_same_device(("records", "weights"), (records.detections, weights))
    choices, shape = records.choices, records.choices.shape
    picks, thresholds = map(torch.from_numpy, choices.pick_table())
    return ResampledMeans(
        *_RESAMPLED_MEANS(
            records.detections, records.order, records.offsets, records.record_units, records.truths,
            records.truth_offsets, records.truth_units, weights, torch.from_numpy(choices.recall_thresholds),
            [shape.thresholds, shape.areas, shape.limits], picks, thresholds, [choices.full],
        )
    )  # fmt: skip


def _ordered_truths(
    ground_truths: Tensor, units: Tensor, classes: Tensor, areas: int, pooled: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Bits, offsets and units of the ground truths of kept images that count in any area range."""
    names = classes.new_zeros(len(ground_truths)) if pooled else ground_truth_labels(ground_truths)
    counts = torch.stack([ground_truth_bit(ground_truths, a) for a in range(areas)], 1).any(1) & (units >= 0)
    at = classes.new_zeros(len(ground_truths))
    if len(classes) and not pooled:
        at = torch.searchsorted(classes, names).clamp(max=len(classes) - 1)
        counts = counts & (classes[at] == names)
    rows = (counts & bool(len(classes))).nonzero()[:, 0]
    rows = rows[torch.sort(units[rows], stable=True).indices]
    by_class = torch.sort(at[rows], stable=True)
    rows = rows[by_class.indices]
    offsets = torch.searchsorted(by_class.values, torch.arange(len(classes) + 1, device=at.device))
    return ground_truths[rows, 4:].contiguous(), offsets, units[rows]


def _check_sizes(*offsets: Tensor) -> None:
    most = max(int(ends.diff().max()) if len(ends) > 1 else 0 for ends in offsets)
    if most > _MOST_ROWS:
        raise InputError(f"a class must have at most {_MOST_ROWS} rows to be resampled but has {most}")


_RESAMPLED_MEANS = register(
    "resampled_means(Tensor detections, Tensor order, Tensor offsets, Tensor record_units, Tensor truths,"
    " Tensor truth_offsets, Tensor truth_units, Tensor weights, Tensor recall_thresholds, int[] sizes, Tensor picks,"
    " Tensor pick_thresholds, bool[] flags) -> (Tensor, Tensor, Tensor)",
    reference=reference.resampled_means,
    fake=reference.resampled_means_fake,
    cpu=cpp(_resampled_means_cpu.resampled_means),
    cuda=cuda(_resampled_means_cuda.resampled_means),
)
