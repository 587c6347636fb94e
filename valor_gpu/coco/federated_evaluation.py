"""An LVIS evaluation as data: rows, records, arrays and means. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from valor_gpu._frozen import frozen
from valor_gpu.coco.annotation_sets import category_names
from valor_gpu.coco.lvis_records import FederatedRecords
from valor_gpu.coco.resampled_evaluation import Chosen, plain_ids
from valor_gpu.coco.selection import Selection
from valor_gpu.coco.summarize import federated_means
from valor_gpu.inputs.coco import Dataset
from valor_gpu.ops.accumulate.types import Pick
from valor_gpu.reduce.coco_summary import summary_picks
from valor_gpu.reduce.resampled_detection import ResampledDetection

GROUPS = {"map_rare": "APr", "map_common": "APc", "map_frequent": "APf"}
"""Names of the means over a frequency: ours to lvis-api's."""


@frozen
class FederatedEvaluation:
    """What a finished ``LVISEval`` holds.

    Attributes:
        ground_truths: columns with image objects.
        detections: columns.
        limit: of detections in an image; those beyond it are not among ``detections``.
        dropped: how many detections are beyond it.
        params: those of ``accumulate`` and ``summarize``.
        records: of the matches.
        groups: for each frequency the positions of its categories in ``params.cat_ids``.
        arrays: ``precision [T, R, K, A]`` and ``recall [T, K, A]``.
        means: by the names of lvis-api.
    """

    ground_truths: Dataset
    detections: Dataset
    limit: int
    dropped: int
    params: Any
    records: FederatedRecords
    groups: Sequence[list[int]]
    arrays: Mapping[str, Any]
    means: Mapping[str, Any]

    @property
    def strict(self) -> bool:
        """Whether the convention is lvis-api's."""
        return self.records.strict

    def of_records(self, records: FederatedRecords, params: Any) -> FederatedEvaluation:
        """Returns an evaluation of the same files with other records, accumulated and summarized anew."""
        precision, recall = records.arrays(params.rec_thrs)
        arrays = {"precision": precision, "recall": recall}
        means = federated_means(params, arrays, self.groups)
        return replace(self, params=params, records=records, arrays=arrays, means=means)

    def names(self) -> list[str]:
        """Returns a different name for each category that is evaluated."""
        return lvis_names(self.ground_truths, self.params.cat_ids)

    def chosen(self) -> Chosen:
        """Returns what the evaluation took of its records."""
        p, records = self.params, self.records
        whole = records.records
        return Chosen(
            whole,
            Selection(records.positions(), list(range(whole.shape.areas)), None, [p.max_dets], (0, 0)),
            [0],
            np.array(p.rec_thrs, np.float64).reshape(-1),
            len(p.iou_thrs),
            summary_picks([float(t) for t in p.iou_thrs], [p.max_dets], list(p.area_rng_lbl)),
            self.names() if p.use_cats else (),
            list(records.params.img_ids),
            records.strict,
            plain_ids(p.cat_ids) if p.use_cats else (),
        )

    def category_groups(self) -> dict[str, list[int]] | None:
        """Returns places of the categories of each frequency; None if a number of it is no mean over one area range."""
        p = self.params
        if list(p.area_rng_lbl[:1]) != ["all"] or list(p.area_rng_lbl).count("all") != 1:
            return None
        return {name: places if p.use_cats else [] for name, places in zip(GROUPS, self.groups)}

    def chosen_and_groups(self) -> tuple[Chosen, dict[str, list[int]]]:
        """Returns what the evaluation took of its records, and :meth:`category_groups` that hold a category."""
        return self.chosen(), {name: places for name, places in (self.category_groups() or {}).items() if places}


def lvis_names(ground_truths: Dataset, cat_ids: Sequence[Any]) -> list[str]:
    """Returns a different name for each of some categories."""
    known = {category["id"]: category for category in ground_truths.categories}
    return category_names([known.get(number, {"id": number}) for number in cat_ids])


def resampled_of(chosen: Chosen, groups: Mapping[str, list[int]]) -> ResampledDetection:
    """Returns the images, to be drawn anew; the categories of a frequency are read again for the mean over them."""
    pick, every = Pick("precision", 0, 0, range(chosen.thresholds)), chosen.selection.categories
    tables = [chosen.table({name: pick}, categories=[every[k] for k in groups[name]]) for name in groups]
    named = chosen.names or every
    parts = {f"categories of {name}": [named[k] for k in places] for name, places in groups.items()}
    return chosen.resampled([chosen.main_table(), *tables], parts=parts)
