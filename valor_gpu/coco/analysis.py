"""What the result of a COCO or LVIS evaluation answers about errors: rows of its layout, pairs when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.detection import DetectionAnalysis
from valor_gpu.analysis.rows import Pairs, Rows
from valor_gpu.coco.annotation_sets import image_objects
from valor_gpu.coco.engine import engine_on
from valor_gpu.coco.evaluation import Accumulated
from valor_gpu.coco.federated_evaluation import FederatedEvaluation
from valor_gpu.coco.geometry import Geometry, geometry_of
from valor_gpu.coco.image_subsets import coco_subset, lvis_subset, shares_ids
from valor_gpu.coco.layout import Layout, Side, select_rows
from valor_gpu.coco.match_layout import batch_of, gt_areas, gt_flags, match_rule
from valor_gpu.coco.resampled_evaluation import Taken, chosen_of
from valor_gpu.coco.side_objects import objects_of_side
from valor_gpu.coco.taken_part import new_labels
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import single_numbers
from valor_gpu.ops.assign.match_batch import CROWD, IGNORED, UNMATCHED_IGNORED

if TYPE_CHECKING:
    from valor_gpu.analysis.tide_result import DetectionErrors
    from valor_gpu.result import Result

LOWEST = 0.1
"""IoU from which on pairs are found unless a lower one is asked for: TIDE's background threshold."""

_EDITED = (
    "analyses need the records of evaluate() but accumulate() followed evalImgs, which somebody looked at before:"
    " call evaluate() and accumulate() again"
)
_NO_TIDE = (
    "errors() is not defined for keypoints: TIDE tells classification, localisation and background apart by IoU, not by"
    " OKS; ask olrp(), operating_points(), images() or matches()"
)


class EvaluationAnalysis(DetectionAnalysis):
    """Answers from the records and the rows of an evaluation.

    Rows are those of the first area range and the last limit of the result.

    Args:
        taken: what accumulation took.
        choices: of the signature of the result.
    """

    def __init__(self, taken: Taken, choices: Mapping[str, Any]) -> None:
        chosen = taken.chosen
        if not chosen.selection.areas or not chosen.limits:
            raise InputError("analyses need an area range and a limit of detections but accumulate() took none")
        self._taken, self.choices, self.metric = taken, choices, str(choices["metric"])
        self.recall_thresholds = np.asarray(chosen.recalls, np.float64)
        self.iou_thresholds = np.asarray(taken.params.iouThrs, np.float64).tolist()
        self.image_ids: Sequence[Any] = chosen.keys
        self.images = len(self.image_ids)

    @cached_property
    def _rows_taken(self) -> tuple[Layout, NDArray[np.int64] | None]:
        """The rows that were taken, images in the order that breaks ties, and the places of its detections."""
        chosen, layout = self._taken.chosen, self._taken.layout
        images, categories = chosen.images, chosen.selection.categories
        whole = np.array_equal(images, np.arange(len(layout.images)))
        if len(set(categories)) < len(categories):
            raise InputError("analyses need each category once but params of accumulate() repeat one")
        labels = new_labels(categories, chosen.records.classes)
        if whole and labels is None:
            return layout, None
        detections, places = select_rows(layout.detections, images, labels)
        return Layout(select_rows(layout.ground_truths, images, labels)[0], detections, np.arange(len(images))), places

    def make_rows(self) -> Rows:
        """See :class:`DetectionAnalysis`."""
        taken, (layout, places) = self._taken, self._rows_taken
        chosen = taken.chosen
        low, high = match_rule(taken.params, chosen.strict).area_ranges[chosen.selection.areas[0]].tolist()
        detections, ground_truths = layout.detections, layout.ground_truths
        areas, own = gt_areas(ground_truths), detections.take("area")
        outside = ((areas < low) | (areas > high)).astype(np.uint8) * np.uint8(IGNORED)
        ignored, free = (own < low) | (own > high), self._free(detections)
        if taken.flags is not None:
            ignored |= ((taken.flags if places is None else taken.flags[places]) & UNMATCHED_IGNORED) != 0
        buckets, names = chosen.records.buckets(), taken.names()
        categories = [taken.params.catIds[k] for k in chosen.selection.categories] if taken.params.useCats else None
        kept = (buckets if places is None else buckets[places]) <= chosen.limits[-1]
        return Rows(
            self.image_ids, [names[k] for k in chosen.selection.categories], layout.lengths(), detections.take("score"),
            detections.labels.astype(np.int64), kept, ignored, ground_truths.labels.astype(np.int64),
            self._flags(ground_truths) | outside, detections.take("id"), ground_truths.take("id"), self._objects,
            self._image_fields, free, corners=lambda side: getattr(layout, side).take("bbox"),
            category_ids=categories, file_order=self._file_order,
        )  # fmt: skip

    def _flags(self, ground_truths: Side) -> NDArray[np.uint8]:
        """uint8 ``[G]``: sums of ``CROWD``, ``IGNORED`` and, where ids have an effect, ``ID_ZERO``."""
        geometry = self._taken.geometry
        flags = gt_flags(ground_truths, self._taken.chosen.strict, geometry)
        return flags if geometry.ids_matter else flags & np.uint8(CROWD | IGNORED)

    def _free(self, detections: Side) -> NDArray[np.bool_] | None:
        """Bool ``[D]``: detections whose id leaves their ground truth free, None for none."""
        taken = self._taken
        if not taken.chosen.strict or not taken.geometry.ids_matter or taken.flags is not None:
            return None
        free: NDArray[np.bool_] = detections.take("id") <= 0
        return free if free.any() else None

    def make_pairs(self) -> Pairs:
        """See :class:`DetectionAnalysis`."""
        return self.find_pairs(LOWEST)

    def find_pairs(self, lowest: float) -> Pairs:
        """See :class:`DetectionAnalysis`."""
        geometry = geometry_of(self._taken.params, self._taken.chosen.strict)
        return pairs_of(self._rows_taken[0], geometry, lowest)

    def errors(
        self, iou: float | Sequence[float] = 0.5, background: float | Sequence[float] = 0.1, protocol: str = "coco"
    ) -> DetectionErrors:
        """See :meth:`valor_gpu.result.Result.errors`."""
        if self._taken.params.iouType.startswith("keypoints"):
            raise InputError(_NO_TIDE)
        return super().errors(iou, background, protocol)

    def result_of(self, images: NDArray[np.int64]) -> Result:
        """See :class:`valor_gpu.analysis.base.Analysis`."""
        return self._taken.result_of(images)

    def numbers_of(self, groups: Sequence[NDArray[np.int64]]) -> Sequence[Mapping[str, float]]:
        """See :class:`valor_gpu.analysis.base.Analysis`."""
        from valor_gpu.coco.grouped_evaluation import evaluation_numbers, fits

        taken = self._taken
        shared = shares_ids(taken.layout, taken.chosen.strict)
        if shared or taken.category_groups is None or not fits(taken.chosen):
            return [single_numbers(self.result_of(group).values) for group in groups]
        return evaluation_numbers(taken.chosen, taken.layout, groups, taken.category_groups)

    def object_numbers(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[Mapping[str, float]]:
        """See :class:`DetectionAnalysis`."""
        from valor_gpu.coco.object_bins import object_numbers

        return object_numbers(self._taken, attribute, bins)

    def counting_objects(self, attribute: str, bins: Sequence[tuple[float, float]]) -> Sequence[int]:
        """See :class:`valor_gpu.analysis.base.Analysis`."""
        from valor_gpu.coco.object_bins import counting_objects

        return counting_objects(self._taken, attribute, bins)

    def _objects(self, side: str, rows: NDArray[np.int64]) -> Sequence[Mapping[str, Any]]:
        return objects_of_side(getattr(self._rows_taken[0], side), rows)

    @cached_property
    def _images_by_id(self) -> dict[Any, Mapping[str, Any]]:
        return {image["id"]: image for image in self._taken.image_objects()}

    def _image_fields(self, position: int) -> Mapping[str, Any]:
        """The COCO image object at a position, empty where the dataset lists none."""
        return self._images_by_id.get(self.image_ids[position], {})

    def _file_order(self) -> NDArray[np.int64]:
        places = {image_id: place for place, image_id in enumerate(self._images_by_id)}
        return np.array([places.get(image_id, len(places)) for image_id in self.image_ids], np.int64)


def coco_analysis(
    found: Accumulated, choices: Mapping[str, Any], result: Callable[[Accumulated], Result]
) -> EvaluationAnalysis:
    """Returns the analysis of a COCO evaluation.

    Args:
        found: what was accumulated.
        choices: of the signature of the result.
        result: returns the result of an evaluation of some of the images.

    Raises:
        InputError: accumulation followed ``evalImgs``.
    """
    chosen, evaluation = chosen_of(found), found.evaluation
    if chosen is None:
        raise InputError(_EDITED)
    taken, pooled = chosen.selection.images, not evaluation.evaluated.useCats

    def result_of(images: NDArray[np.int64]) -> Result:
        return result(coco_subset(found, np.sort(images if taken is None else np.array(taken)[images])))

    def names() -> dict[int, str]:
        return {0: "all"} if pooled else dict(zip(chosen.selection.categories, chosen.names))

    return EvaluationAnalysis(Taken(
        chosen, evaluation.layout, evaluation.evaluated, evaluation.geometry(), names,
        lambda: image_objects(evaluation.ground_truth), result_of,
        category_groups=None if evaluation.evaluated.iouType == "keypoints_crowd" else {},
    ), choices)  # fmt: skip


def lvis_analysis(
    evaluation: FederatedEvaluation, choices: Mapping[str, Any], result: Callable[[FederatedEvaluation], Result]
) -> EvaluationAnalysis:
    """Returns the analysis of an LVIS evaluation: detections of the categories that their image was searched for.

    What matches nothing in an image that is not annotated exhaustively for its category is ignored. The limit of an
    image is that of :class:`valor_gpu.coco.LVISResults`, which has left out what is beyond.

    Args:
        evaluation: of all images.
        choices: of the signature of the result.
        result: returns the result of an evaluation of some of the images.
    """
    chosen, records, pooled = evaluation.chosen(), evaluation.records, not evaluation.params.use_cats

    def names() -> dict[int, str]:
        return {0: "all"} if pooled else dict(zip(chosen.selection.categories, chosen.names))

    return EvaluationAnalysis(Taken(
        chosen, records.rows.layout, records.whole, records.geometry(), names,
        lambda: evaluation.ground_truths.images or (), lambda images: result(lvis_subset(evaluation, images)),
        records.rows.flags, evaluation.category_groups(),
    ), choices)  # fmt: skip


def pairs_of(layout: Layout, geometry: Geometry, lowest: float) -> Pairs:
    """Returns the pairs of a layout, of any classes, whose IoU reaches ``lowest``; 0: those that overlap."""
    sides = [replace(side, labels=np.zeros(len(side), np.int32)) for side in (layout.ground_truths, layout.detections)]
    everyone = Layout(sides[0], sides[1], layout.images)  # masks of other classes are read as well
    compared = geometry.pools or geometry.params.useCats or not geometry.strict
    floor = max(lowest, float(np.nextafter(0.0, 1.0))) if compared else np.inf
    engine = engine_on()
    made = geometry.batch(everyone, batch_of(everyone, geometry.strict, geometry), floor, engine)
    found = (made if made.pairs is not None else engine.box_pairs(made, floor)).pairs
    assert found is not None
    offsets, counts, truths, ious = (np.asarray(column) for column in vars(found).values())
    ends = np.append(0, counts.cumsum(dtype=np.int64))
    if len(truths) > ends[-1]:  # rooms that are not full
        used = np.repeat(offsets[:-1] - ends[:-1], counts) + np.arange(ends[-1])
        truths, ious = truths[used], ious[used]
    detections, lengths = layout.detections.lengths, layout.ground_truths.lengths
    of_images = np.diff(ends[np.append(0, detections.cumsum())])
    rows = truths + np.repeat(lengths.cumsum() - lengths, of_images)
    return Pairs(lowest, counts.astype(np.int64), rows, ious)
