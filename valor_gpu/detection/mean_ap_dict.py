"""Numbers of MeanAveragePrecision under the names of torchmetrics, for ``compute``."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import torch
from torch import Tensor

from valor_gpu.detection.choices import peer_number, peer_numbers
from valor_gpu.detection.extended import ExtendedRecords, Overlaps, PartRecords, box_overlaps, cell_ious, kept_overlaps
from valor_gpu.detection.geometry import Boxes
from valor_gpu.detection.mean_ap_choices import MeanApChoices
from valor_gpu.detection.records import DetectionRecords


def torchmetrics_dict(
    choices: MeanApChoices,
    state: DetectionRecords,
    error: Tensor | None,
    class_metrics: bool,
    extended_summary: bool,
    boxes: Boxes | None,
) -> dict[str, Tensor]:
    """Returns torchmetrics' dict of the records of one geometry.

    Args:
        choices: of the metric.
        state: the records.
        error: int64 ``[]`` error code of records on CUDA.
        class_metrics: also give the numbers of classes.
        extended_summary: also give curves and similarities, of an extended state.
        boxes: that an extended state keeps, None of other geometries.
    """
    found = choices.accumulate(state, choices.of(choices.pooled, extended_summary), error)
    per_class = f"mar_{choices.limits[-1]}_per_class"
    numbers = choices.scalars(found)
    for name in ("map_small", "mar_small", "map_per_class", per_class):
        numbers.setdefault(name, math.nan)
    values = peer_numbers(numbers)
    if class_metrics and found.totals.images:
        classes = choices.class_summary(state, choices.summary(found))
        values["map_per_class"] = peer_number(classes.average_precision())
        values[per_class] = peer_number(classes.average_recall())
    if extended_summary:
        values.update({name: curve.clone() for name, curve in found.curves._asdict().items()})
        labels, limit = found.labels.tolist(), choices.limits[-1]
        cells = cell_ious(state, _overlaps(boxes, state), labels, limit, choices.pooled, choices.shape.areas)
        values["ious"] = {  # type: ignore[assignment]
            cell: part.clone() if isinstance(part, Tensor) else part for cell, part in cells.items()
        }
    values["classes"] = torch.from_numpy(found.labels.numpy().astype(np.int32))
    return values


def _overlaps(boxes: Boxes | None, state: DetectionRecords) -> Overlaps:
    """The similarities of rows of an extended state."""
    if boxes is None:
        return kept_overlaps(cast(PartRecords, state))
    return box_overlaps(cast(ExtendedRecords, state), boxes)
