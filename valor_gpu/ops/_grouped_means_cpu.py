"""Calls the C++ kernel of ``grouped_means``."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from valor_gpu import native


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
    detections: Tensor, ground_truths: Tensor, images: Tensor, units: Tensor, group_offsets: Tensor,
    group_units: Tensor, labels: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, class_picks: Tensor, class_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """See :func:`valor_gpu.ops.grouped_means.grouped_means`."""
    places = torch.argsort(recall_thresholds, stable=True)
    given = {
        "detections": detections, "ground_truths": ground_truths, "images": images, "units": units,
        "group_offsets": group_offsets, "group_units": group_units, "labels": labels,
        "recall_grid": recall_thresholds[places], "grid_places": places, "picks": picks,
        "pick_thresholds": pick_thresholds, "class_picks": class_picks, "class_thresholds": class_thresholds,
    }  # fmt: skip
    kept = {name: tensor.contiguous() for name, tensor in given.items()}
    counted = ("detections", "images", "units", "labels", "picks", "class_picks")
    (agnostic, full), (thresholds, areas, limits) = flags, sizes
    groups, classes = len(group_offsets) - 1, min(1, len(labels)) if agnostic else len(labels)
    means = torch.empty((groups, len(picks)), dtype=torch.float64)
    class_means = torch.empty((groups, classes, len(class_picks)), dtype=torch.float64)
    task = _Task(
        **{name: tensor.data_ptr() for name, tensor in kept.items()},
        **{f"num_{name}": len(kept[name]) for name in counted},
        num_groups=groups, agnostic=agnostic, thresholds=thresholds, areas=areas, limits=limits, recalls=len(places),
        full=full, threads=torch.get_num_threads(), means=means.data_ptr(), class_means=class_means.data_ptr(),
    )  # fmt: skip
    native.function("valor_cpu", "valor_grouped_means_cpu", "p")(ctypes.addressof(task))
    return means, class_means
