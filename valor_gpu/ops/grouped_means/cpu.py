"""Numbers of groups of images over numpy arrays, by the C++ library. No torch import.

The torch op of :mod:`valor_gpu.ops.grouped_means.op` calls :func:`run` for CPU tensors. Callers ask
``native.usable("valor_cpu")`` first: without the library the torch reference serves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.ops.accumulate.cpu import label_counts
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, PickTable, RecordShape
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.ops.grouped_means.types import GroupedImages, GroupedMeans, class_pick_table

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROWS = ("DETECTIONS", "GROUND_TRUTHS")


class _Task(ctypes.Structure):
    """GroupedTask in csrc/cpu/grouped_means.h."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "detections", "ground_truths", "images", "num_detections", "num_images", "units", "num_units",
            "group_offsets", "group_units", "num_groups", "labels", "num_labels", "agnostic", "thresholds", "areas",
            "limits", "recall_grid", "grid_places", "recalls", "picks", "pick_thresholds", "num_picks", "class_picks",
            "class_thresholds", "num_class_picks", "full", "threads", "means", "class_means",
        )
    ]  # fmt: skip


def grouped_means(
    detections: Bytes,
    ground_truths: Bytes,
    images: Ints,
    groups: Sequence[Ints],
    choices: AccumulateChoices,
    class_picks: Sequence[Pick] = (),
    threads: int | None = None,
) -> GroupedMeans:
    """See :func:`valor_gpu.ops.grouped_means.op.grouped_means`; on at most so many threads, None: one for each CPU."""
    choices.shape.check_tables(detections, ground_truths, images)
    made = GroupedImages.of(images, (len(detections), len(ground_truths)), groups, choices)
    labels = choices.labels
    if labels is None:
        counts = np.zeros(len(images), np.bool_)
        counts[made.units] = True
        found, true = (np.repeat(counts, images[:, IMAGE_COLUMNS.index(name)]) for name in _ROWS)
        labels = label_counts(detections[found], ground_truths[true], choices.shape.areas).labels
    means, class_means = run(
        detections, ground_truths, images, made, labels, choices.recall_thresholds, choices.shape,
        choices.pick_table(), class_pick_table(class_picks, choices), (choices.agnostic, choices.full),
        native.threads() if threads is None else threads,
    )  # fmt: skip
    return GroupedMeans(labels, means, class_means)


def run(
    detections: Bytes, ground_truths: Bytes, images: Ints, groups: GroupedImages, labels: Ints,
    recall_thresholds: Floats, shape: RecordShape, picks: PickTable, class_picks: PickTable,
    flags: tuple[bool, bool], threads: int,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Returns means ``[N, P]`` and means of classes ``[N, K, Q]``.

    Args:
        detections: rows, see docs/design/001-detection-records.md.
        ground_truths: rows.
        images: table of images.
        groups: checked.
        labels: of the classes, ascending.
        recall_thresholds: float64 ``[R]``, any order.
        shape: T, A and M.
        picks: means over classes.
        class_picks: means of each class.
        flags: whether classes are pooled, and whether precision has all limits.
        threads: at most so many.
    """
    places = np.argsort(recall_thresholds, kind="stable")
    given: dict[str, NDArray[Any]] = {
        "detections": detections, "ground_truths": ground_truths, "images": images, "units": groups.units,
        "group_offsets": groups.offsets, "group_units": groups.members, "labels": labels,
        "recall_grid": recall_thresholds[places], "grid_places": places, "picks": picks.rows,
        "pick_thresholds": picks.thresholds, "class_picks": class_picks.rows,
        "class_thresholds": class_picks.thresholds,
    }  # fmt: skip
    kept = {name: np.ascontiguousarray(array) for name, array in given.items()}
    counted = ("detections", "images", "units", "labels", "picks", "class_picks")
    count, classes = len(groups.offsets) - 1, min(1, len(labels)) if flags[0] else len(labels)
    means, class_means = np.empty((count, len(picks.rows))), np.empty((count, classes, len(class_picks.rows)))
    kept |= {"means": means, "class_means": class_means}
    task = _Task(
        **{name: array.__array_interface__["data"][0] for name, array in kept.items()},
        **{f"num_{name}": len(kept[name]) for name in counted},
        num_groups=count, agnostic=flags[0], thresholds=shape.thresholds, areas=shape.areas, limits=shape.limits,
        recalls=len(places), full=flags[1], threads=threads,
    )  # fmt: skip
    native.function("valor_cpu", "valor_grouped_means_cpu", "p")(ctypes.addressof(task))
    return means, class_means
