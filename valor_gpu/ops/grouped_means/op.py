"""Numbers of many groups of images at once: the means of :mod:`valor_gpu.ops.accumulate.op` over each group.

Definition: :mod:`valor_gpu.ops.grouped_means.reference`. Row layouts: docs/design/001-detection-records.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.argument_docs import arguments_of
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.accumulate.op import accumulate, label_counts
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, PickTable, RecordShape
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.ops.grouped_means import cpu as _grouped_means_cpu
from valor_gpu.ops.grouped_means import reference
from valor_gpu.ops.grouped_means.types import GroupedImages, GroupedMeans, class_pick_table

Ints = NDArray[np.int64]

_DETECTIONS, _GROUND_TRUTHS = map(IMAGE_COLUMNS.index, ("DETECTIONS", "GROUND_TRUTHS"))


@arguments_of(accumulate)
def grouped_means(
    detections: Tensor,
    ground_truths: Tensor,
    images: Tensor,
    groups: Sequence[Ints],
    choices: AccumulateChoices,
    class_picks: Sequence[Pick] = (),
) -> GroupedMeans:
    """Computes the numbers of groups of images, which may overlap; waits for the device.

    They have the bits of :func:`valor_gpu.ops.accumulate.op.accumulate` over the images of a group alone: a class
    without a ground truth in a group has no part in its means. The records are ordered once for all groups.

    Args:
        groups: int64, ascending positions of the images of each group, among the images that count in the order that
            breaks ties of scores: ``choices.images`` or, if that is None, images by key (or by arrival).
        choices: what to accumulate; its first order of ties is ``given``, others are not read.
        class_picks: means of a class over IoU thresholds and recall samples.

    Raises:
        InputError: another first order of ties, an image id that came with two different ground truths, images that
            name other rows than the tables have, or a group whose positions do not ascend or do not exist.

    Example:
        >>> from valor_gpu.detection import MeanAveragePrecision
        >>> from valor_gpu.ops.accumulate.types import RecordShape
        >>> metric, box = MeanAveragePrecision(), torch.tensor([[0.0, 0.0, 9.0, 9.0]])
        >>> for image, score in enumerate((0.5, 0.25)):
        ...     found = {"boxes": box + 99 * image, "scores": torch.tensor([score]), "labels": torch.tensor([3])}
        ...     metric.update([found], [{"boxes": box, "labels": torch.tensor([3]), "image_id": image}])
        >>> choices = AccumulateChoices(RecordShape(10, 4, 3), np.linspace(0, 1, 101), (Pick("recall", 0, -1, [0]),))
        >>> groups = [np.array([0]), np.array([1]), np.array([0, 1])]
        >>> grouped_means(*metric.state().tensors().values(), groups, choices).means[:, 0].tolist()
        [1.0, 0.0, 0.5]
    """
    choices.shape.check_tables(detections, ground_truths, images)
    table: Ints = images.cpu().numpy()
    made = GroupedImages.of(table, (len(detections), len(ground_truths)), groups, choices)
    labels = choices.labels
    if labels is None:
        labels = _labels_of(detections, ground_truths, table, made.units, choices.shape.areas)
    numbers = (made.units, made.offsets, made.members, labels, choices.recall_thresholds)
    picks = (*choices.pick_table(), *class_pick_table(class_picks, choices))
    means, class_means = _GROUPED_MEANS(
        detections, ground_truths, images, *map(torch.from_numpy, numbers), list(choices.shape),
        *map(torch.from_numpy, picks), [choices.agnostic, choices.full],
    )  # fmt: skip
    return GroupedMeans(torch.from_numpy(labels), means, class_means)


def _labels_of(detections: Tensor, ground_truths: Tensor, table: Ints, units: Ints, areas: int) -> Ints:
    """Ascending labels of the rows of images that count."""
    counts = np.zeros(len(table), np.bool_)
    counts[units] = True
    if not counts.all():
        detections, ground_truths = (
            rows[torch.from_numpy(np.repeat(counts, table[:, column])).to(rows.device)]
            for rows, column in ((detections, _DETECTIONS), (ground_truths, _GROUND_TRUTHS))
        )
    found: Ints = label_counts(detections, ground_truths, areas).labels.cpu().numpy()
    return found


def _grouped_means_cpu_kernel(
    detections: Tensor, ground_truths: Tensor, images: Tensor, units: Tensor, group_offsets: Tensor,
    group_units: Tensor, labels: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, class_picks: Tensor, class_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    groups = GroupedImages(*(column.numpy() for column in (units, group_offsets, group_units)))
    means, class_means = _grouped_means_cpu.run(
        detections.numpy(), ground_truths.numpy(), images.numpy(), groups, labels.numpy(), recall_thresholds.numpy(),
        RecordShape(*sizes), PickTable(picks.numpy(), pick_thresholds.numpy()),
        PickTable(class_picks.numpy(), class_thresholds.numpy()), (flags[0], flags[1]), torch.get_num_threads(),
    )  # fmt: skip
    return torch.from_numpy(means), torch.from_numpy(class_means)


def _grouped_means_cuda(*arguments: object) -> tuple[Tensor, Tensor]:
    """A run of the kernels of ``accumulate`` for each group, whose numbers come to the host."""
    return reference.each_group(accumulate, *arguments)  # type: ignore[arg-type]


def _grouped_means_fake(
    detections: Tensor, ground_truths: Tensor, images: Tensor, units: Tensor, group_offsets: Tensor,
    group_units: Tensor, labels: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, class_picks: Tensor, class_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    groups, classes = group_offsets.shape[0] - 1, labels.shape[0]
    if flags[0]:
        classes = min(1, classes)
    means = torch.empty((groups, picks.shape[0]), dtype=torch.float64)
    return means, torch.empty((groups, classes, class_picks.shape[0]), dtype=torch.float64)


_GROUPED_MEANS = register(
    "grouped_means(Tensor detections, Tensor ground_truths, Tensor images, Tensor units, Tensor group_offsets,"
    " Tensor group_units, Tensor labels, Tensor recall_thresholds, int[] sizes, Tensor picks, Tensor pick_thresholds,"
    " Tensor class_picks, Tensor class_thresholds, bool[] flags) -> (Tensor, Tensor)",
    reference=reference.grouped_means,
    fake=_grouped_means_fake,
    cpu=cpp(_grouped_means_cpu_kernel),
    cuda=cuda(_grouped_means_cuda),
    launches=("accumulate", "precision_recall", "present_means"),
)
