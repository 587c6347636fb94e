"""Calls the C++ kernel of ``resampled_means``."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from valor_gpu import native

_TABLES = (
    "detections", "order", "offsets", "record_units", "truths", "truth_offsets", "truth_units", "weights",
)  # fmt: skip


class _Task(ctypes.Structure):
    """ResampledTask in csrc/cpu/resampled_events.h."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *_TABLES, "units", "replicates", "classes", "thresholds", "areas", "limits", "recall_grid", "grid_places",
            "recalls", "picks", "pick_thresholds", "num_picks", "full", "threads", "means", "class_precision",
            "class_recall",
        )
    ]  # fmt: skip


def resampled_means(
    detections: Tensor, order: Tensor, offsets: Tensor, record_units: Tensor, truths: Tensor, truth_offsets: Tensor,
    truth_units: Tensor, weights: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """See :func:`valor_gpu.ops.resampled_means.op.resampled_means`."""
    tables = detections, order, offsets, record_units, truths, truth_offsets, truth_units, weights
    given = dict(zip(_TABLES, tables))
    places = torch.argsort(recall_thresholds, stable=True)
    given |= {"recall_grid": recall_thresholds[places], "grid_places": places}
    given |= {"picks": picks, "pick_thresholds": pick_thresholds}
    kept = {name: tensor.contiguous() for name, tensor in given.items()}
    units, replicates = weights.shape
    classes = len(offsets) - 1
    out = [torch.empty((replicates, n), dtype=torch.float64) for n in (len(picks), classes, classes)]
    thresholds, areas, limits = sizes
    task = _Task(
        **{name: tensor.data_ptr() for name, tensor in kept.items()},
        **{name: tensor.data_ptr() for name, tensor in zip(("means", "class_precision", "class_recall"), out)},
        units=units, replicates=replicates, classes=classes, thresholds=thresholds, areas=areas, limits=limits,
        recalls=len(places), num_picks=len(picks), full=flags[0], threads=torch.get_num_threads(),
    )  # fmt: skip
    native.function("valor_cpu", "valor_resampled_means_cpu", "p")(ctypes.addressof(task))
    return out[0], out[1], out[2]
