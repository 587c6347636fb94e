"""What the intervals of an evaluation are made of: records, and what ``accumulate`` took of them. No torch import."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.annotation_sets import names_of_categories
from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.evaluation import Accumulated
from valor_gpu.coco.geometry import Geometry
from valor_gpu.coco.layout import Layout
from valor_gpu.coco.match_layout import EvaluationRecords
from valor_gpu.coco.params import Params
from valor_gpu.coco.selection import Selection
from valor_gpu.coco.taken_part import part_of
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.reduce.coco_summary import summary_picks
from valor_gpu.reduce.matched_tables import MatchedTables, ReplicatedTable
from valor_gpu.reduce.resampled_detection import ResampledDetection
from valor_gpu.stats.resample import Resampled, refusing
from valor_gpu.stats.units import Units, units_with_ids

if TYPE_CHECKING:
    from valor_gpu.result import Result

Ints = NDArray[np.int64]

_EDITED = (
    "intervals need the records of evaluate() but accumulate() followed evalImgs, which somebody looked at before:"
    " call evaluate() and accumulate() again"
)
_OTHER_AXES = "accumulate() took other area ranges, limits or thresholds than evaluate()"
_CROWDS = "its mean is over several limits or categories, or accumulate() took a part of the images"


@frozen
class Chosen:
    """What accumulation took of an evaluation, and the names that its result has.

    Attributes:
        records: of the evaluation.
        selection: categories, area ranges and images.
        limits: positions among the limits of the records.
        recalls: float64 ``[R]``.
        thresholds: T IoU thresholds of the result.
        picks: means of the result, over axes of the result.
        names: of the categories; empty where the result has no numbers of them.
        ids: of the images that were evaluated.
        strict: the convention.
        category_ids: of ``names``; empty: unknown.
    """

    records: EvaluationRecords
    selection: Selection
    limits: Sequence[int]
    recalls: NDArray[np.float64]
    thresholds: int
    picks: Mapping[str, Pick]
    names: Sequence[str]
    ids: Sequence[Any]
    strict: bool
    category_ids: Sequence[Any] = ()

    @property
    def images(self) -> Ints:
        """int64: the images that were taken, among the rows of the records, in the order that breaks ties."""
        taken, places = self.selection.images, self.records.image_positions
        return places if taken is None else places[np.array(taken, np.int64)]

    @property
    def keys(self) -> list[Any]:
        """Ids of the images that were taken."""
        taken = self.selection.images
        return plain_ids(self.ids if taken is None else [self.ids[place] for place in taken])

    @property
    def whole_axes(self) -> bool:
        """Whether numbers of categories are over the first area range and the last limit that were evaluated."""
        shape, areas = self.records.shape, self.selection.areas
        return areas[:1] == [0] and list(self.limits[-1:]) == [shape.limits - 1] and self.thresholds == shape.thresholds

    def picks_of_records(self) -> Iterator[tuple[str, Pick]]:
        """The means that exist, over axes of the records."""
        areas, shape = self.selection.areas, self.records.shape
        for name, pick in self.picks.items():
            limit = pick.limit % max(len(self.limits), 1)
            thresholds = [t for t in pick.thresholds if t < shape.thresholds]
            if thresholds and pick.area < len(areas) and limit < len(self.limits):
                yield name, Pick(pick.array, areas[pick.area], self.limits[limit], thresholds)

    def table(
        self,
        picks: Mapping[str, Pick],
        names: Sequence[str] = (),
        categories: Sequence[int] | None = None,
        images: Ints | None = None,
    ) -> ReplicatedTable:
        """Returns what gives some numbers.

        Args:
            picks: means over axes of the records.
            names: of the categories whose numbers are wanted.
            categories: positions, ascending; None: all that were taken.
            images: int64, which of the images that were taken; None: all.
        """
        taken = list(self.selection.categories if categories is None else categories)
        check_ascending(taken)
        shape = self.records.shape
        whole = all(pick.array == "recall" or pick.limit == shape.limits - 1 for pick in picks.values())
        choices = AccumulateChoices(
            shape,
            self.recalls if self.strict else np.sort(self.recalls),
            tuple(picks.values()),
            full=not whole,
            labels=np.array(taken, np.int64),
            images=self.images if images is None else self.images[images],
        )
        records = self.records
        tables = records.detections, records.ground_truths, images_table(records.lengths)
        run, truths = records.engine.resampled(*tables, choices)
        assert choices.images is not None and choices.labels is not None
        source = MatchedTables(*tables, choices.images, choices.labels, choices, records.engine.resampled)
        return ReplicatedTable(run, truths, picks, names, units=images, source=source)

    def refused(self) -> dict[str, str]:
        """Returns the numbers of categories that have no interval, and why."""
        kinds = ("map_per_class", "mar_per_class")
        return {} if self.whole_axes else {f"{kind}/{name}": _OTHER_AXES for kind in kinds for name in self.names}

    def resampled(
        self,
        tables: Sequence[ReplicatedTable],
        refused: Mapping[str, str] | None = None,
        parts: Mapping[str, Sequence[Any]] | None = None,
    ) -> ResampledDetection:
        """Returns the images, to be drawn anew.

        Args:
            tables: see :class:`ResampledDetection`.
            refused: likewise, beside those of categories.
            parts: see :class:`valor_gpu.stats.units.Units`.
        """
        keys = self.keys
        return ResampledDetection(
            tables,
            len(keys),
            keys,
            self.records.engine.weights,
            {**self.refused(), **(refused or {})},
            lambda: replace(self.identities(), parts=parts or {}, classes=dict(zip(self.category_ids, self.names))),
        )

    def identities(self) -> Units:
        """Returns what tells the images apart: their ids, and hashes of their ground truths."""
        hashes = self.records.gt_hashes
        return units_with_ids("images", self.keys, None if hashes is None else hashes()[self.images])

    def main_table(self) -> ReplicatedTable:
        """Returns what gives the means and the numbers of categories."""
        named = self.names[: len(self.selection.categories)] if self.whole_axes else ()
        return self.table(dict(self.picks_of_records()), named)


@frozen
class Taken:
    """What accumulation took of an evaluation; later changes of the evaluation do not reach it.

    Attributes:
        chosen: records, and which categories, areas, images and limits.
        layout: all rows of the evaluation.
        params: of the evaluation.
        geometry: what rows were compared by.
        names: returns the names of categories by their places in the records.
        image_objects: returns the COCO image objects.
        result_of: returns the result of some of the images that were taken, int64 positions.
        flags: uint8 ``[D]``, flags of detections besides those of ids; None for none.
        category_groups: names of further means of ``map``, and positions of the categories that they are over; None:
            the result has other numbers too.
    """

    chosen: Chosen
    layout: Layout
    params: Params
    geometry: Geometry
    names: Callable[[], Mapping[int, str]]
    image_objects: Callable[[], Sequence[Mapping[str, Any]]]
    result_of: Callable[[NDArray[np.int64]], Result]
    flags: NDArray[np.uint8] | None = None
    category_groups: Mapping[str, Sequence[int]] | None = None


def plain_ids(ids: Sequence[Any]) -> list[Any]:
    """Returns ids as Python's own integers and texts."""
    return [number.item() if isinstance(number, np.generic) else number for number in ids]


def check_ascending(categories: Sequence[int]) -> None:
    """Raises :class:`InputError` unless positions of categories ascend."""
    if any(second <= first for first, second in itertools.pairwise(categories)):
        raise InputError("intervals need categories in ascending order, each once, but those of params are not so")


def images_table(lengths: Ints) -> Ints:
    """Returns the images table of records without hashes, int64 ``[I, 8]``.

    Args:
        lengths: int64 ``[2, I]``: detections and ground truths of each image.
    """
    table = np.zeros((lengths.shape[1], len(IMAGE_COLUMNS)), np.int64)
    columns = {"ID": np.arange(len(table)), "HAS_ID": 1, "DETECTIONS": lengths[0], "GROUND_TRUTHS": lengths[1]}
    for name, column in columns.items():
        table[:, IMAGE_COLUMNS.index(name)] = column
    return table


def chosen_of(found: Accumulated) -> Chosen | None:
    """Returns what accumulation took of an evaluation; None where it followed ``evalImgs``."""
    evaluation, arrays = found.evaluation, found.arrays
    if not isinstance(arrays, EvalDict) or arrays.chosen is None:
        return None
    p = part_of(found).params
    records, selection, limits, recalls = arrays.chosen
    return Chosen(
        records,
        selection,
        limits,
        recalls,
        len(p.iouThrs),
        summary_picks([float(t) for t in p.iouThrs], list(p.maxDets), list(p.areaRngLbl)),
        names_of_categories(evaluation.ground_truth, p) if p.useCats else (),
        list(evaluation.params.imgIds),
        evaluation.strict,
        plain_ids(p.catIds) if p.useCats else (),
    )


def resampled_evaluation(found: Accumulated) -> Callable[[], Resampled]:
    """Returns what the result of an evaluation has as ``state``: what was found stays, whatever is evaluated later."""
    if chosen_of(found) is None:
        return refusing(_EDITED)
    return partial(resampled_of, *chosen_and_groups(found))


def chosen_and_groups(found: Accumulated) -> tuple[Chosen, dict[str, NDArray[np.bool_]]]:
    """Returns what accumulation took of an evaluation, and which images are in the groups of CrowdPose, if it is that.

    Raises:
        InputError: accumulation followed ``evalImgs``.
    """
    chosen = chosen_of(found)
    if chosen is None:
        raise InputError(_EDITED)
    if found.evaluation.params.iouType != "keypoints_crowd":
        return chosen, {}
    from valor_gpu.coco.crowdpose import crowd_groups

    return chosen, crowd_groups(found.evaluation.ground_truth, part_of(found).params.imgIds)


def resampled_of(chosen: Chosen, groups: Mapping[str, NDArray[np.bool_]]) -> ResampledDetection:
    """Returns the images of an evaluation, to be drawn anew.

    Args:
        chosen: what accumulation took of it.
        groups: of images, bool ``[I]`` each by the name of the group; empty but for CrowdPose.
    """
    tables = [chosen.main_table()]
    if not groups:
        return chosen.resampled(tables)
    names = {f"map_crowding_{name}": np.flatnonzero(inside) for name, inside in groups.items()}
    parts = {f"images of {name}": [chosen.keys[k] for k in inside.tolist()] for name, inside in names.items()}
    one = len(chosen.limits) == 1 and (len(chosen.selection.categories) == 1 or not chosen.strict)
    if not one or chosen.selection.images is not None or not chosen.whole_axes:
        return chosen.resampled(tables, dict.fromkeys(names, _CROWDS))
    every = range(chosen.records.shape.thresholds)
    for name, inside in names.items():
        pick = Pick("precision", 0, chosen.limits[0], every)
        table = chosen.table({name: pick}, images=inside)
        tables.append(table if not chosen.strict else rounded(table))
    return chosen.resampled(tables, parts=parts)


def rounded(table: ReplicatedTable) -> ReplicatedTable:
    """Returns a table whose means have four digits, as xtcocotools has them."""
    finish = np.vectorize(lambda mean: round(float(mean), 4), otypes=[np.float64])
    return replace(table, finish=finish)
