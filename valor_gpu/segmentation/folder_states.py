"""State files of ``valor-gpu segment`` and ``valor-gpu panoptic``: the counts of each image. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import leaves
from valor_gpu.ops.panoptic.cpu import ROWS
from valor_gpu.reduce.panoptic import panoptic_values
from valor_gpu.result import Result
from valor_gpu.segmentation.label_map_folders import Task, Totals
from valor_gpu.segmentation.label_map_images import KeptCounts
from valor_gpu.segmentation.resampled_panoptic import resampled_panoptic
from valor_gpu.state_file import StateFile, distinct_ids, document_of, replaced

if TYPE_CHECKING:
    from valor_gpu.segmentation.coco_panoptic import PanopticEvaluation

LABEL_MAPS, PANOPTIC = "label_maps", "panoptic"
"""Kinds of these state files."""


def label_map_state(totals: Totals, result: Result) -> StateFile:
    """Returns what a state file holds of label maps.

    Args:
        totals: that keep the counts of each image.
        result: of them.
    """
    kept = totals.kept
    own = totals.result({}).counts
    choices = {
        "classes": list(totals.names),
        "ignore_index": totals.task.ignore_index,
        "images": [image.name for image in kept],
        "more_counts": {name: count for name, count in result.counts.items() if own.get(name) != count}
        | {"failed_images": len(totals.failed)},
    }
    arrays = {
        "counts": np.array([image.counts for image in kept], np.int64).reshape(-1, 3, len(totals.names)),
        "pixels": np.array([image.pixels for image in kept], np.int64),
    }
    return StateFile(LABEL_MAPS, choices, arrays, document_of(result))


def panoptic_state(evaluation: PanopticEvaluation, result: Result) -> StateFile:
    """Returns what a state file holds of a panoptic evaluation.

    Args:
        evaluation: with its images.
        result: of it.
    """
    choices = {
        "classes": list(evaluation.names()),
        "things": [category.is_thing for category in evaluation.ground_truth.categories],
        "images": list(evaluation.ground_truth.annotations),
    }
    return StateFile(PANOPTIC, choices, {"tables": evaluation.tables()}, document_of(result))


def result_of(file: StateFile) -> Result:
    """Computes the numbers of a state file again.

    Raises:
        InputError: the file holds other counts than these commands write.
    """
    names, images = [str(name) for name in file.choices["classes"]], distinct_ids(file.choices["images"])
    form = (3 if file.kind == LABEL_MAPS else ROWS, len(names))
    counts = file.arrays["counts" if file.kind == LABEL_MAPS else "tables"]
    if counts.dtype != np.int64 or counts.shape != (len(images), *form) or (counts < 0).any():
        raise InputError(f"the state file must have counts of at least 0, int64 {[len(images), *form]}, but has others")
    if file.kind == LABEL_MAPS:
        totals = Totals(names, Task(len(names), file.choices["ignore_index"]), keep_images=True)
        for name, table, pixels in zip(images, counts, file.arrays["pixels"].tolist(), strict=True):
            totals.add_counts(KeptCounts(str(name), table, pixels))
        return totals.result(file.choices["more_counts"])
    things = np.array(file.choices["things"], np.bool_)
    state = resampled_panoptic(counts, images, things, names)
    return replaced(file.result(state), dict(leaves(panoptic_values(counts.sum(0), things, names))))
