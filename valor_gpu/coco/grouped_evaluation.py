"""Numbers of many groups of images of a COCOeval or LVISEval, from its records. No torch import."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.layout import Layout, Side
from valor_gpu.coco.resampled_evaluation import Chosen, images_table
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick
from valor_gpu.reduce.grouped_detection import GroupNumbers, RecordTables, grouped_numbers, joined_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def fits(chosen: Chosen) -> bool:
    """Whether :func:`evaluation_numbers` computes the numbers of groups: the axes are as evaluated, in their order."""
    categories = list(chosen.selection.categories)
    ascend = all(first < second for first, second in itertools.pairwise(categories))
    named = not chosen.names or len(chosen.names) == len(categories)
    sorted_grid = chosen.strict or bool((np.diff(chosen.recalls) >= 0).all())
    whole = chosen.thresholds == chosen.records.shape.thresholds
    return ascend and named and sorted_grid and whole and bool(chosen.selection.areas and chosen.limits)


def evaluation_numbers(
    chosen: Chosen, layout: Layout, groups: Sequence[Ints], category_groups: Mapping[str, Sequence[int]] | None = None
) -> GroupNumbers:
    """Computes the numbers of groups, by the names that the result of the evaluation has.

    Args:
        chosen: what accumulation took, such that it :func:`fits`.
        layout: rows of the evaluation.
        groups: ascending positions, among the images that were taken, of the images of each group.
        category_groups: names of further means of ``map``, and positions of the categories that they are over.
    """
    parts = [mean_numbers(chosen, groups, category_groups)]
    if chosen.names:
        counted = {"ground_truths_per_class": layout.ground_truths, "detections_per_class": layout.detections}
        parts += [_counts(chosen, name, side, groups) for name, side in counted.items()]
    return joined_numbers(parts)


def mean_numbers(
    chosen: Chosen, groups: Sequence[Ints], category_groups: Mapping[str, Sequence[int]] | None = None
) -> GroupNumbers:
    """Computes what :func:`evaluation_numbers` does, without counts of rows."""
    picks = dict(chosen.picks_of_records())
    parts = [_means(chosen, groups, picks, chosen.selection.categories, _class_picks(chosen))]
    every = Pick("precision", chosen.selection.areas[0], chosen.limits[-1], range(chosen.thresholds))
    for name, places in (category_groups or {}).items():
        parts.append(_means(chosen, groups, {name: every}, [chosen.selection.categories[k] for k in places], {}))
    return _in_order(joined_numbers(parts), (*chosen.picks, *(category_groups or {})))


def _class_picks(chosen: Chosen) -> dict[str, Pick]:
    """Numbers of a category, over axes of the records."""
    if not chosen.names:
        return {}
    area, limit, every = chosen.selection.areas[0], chosen.limits[-1], chosen.picks["map"].thresholds
    precision = {f"{name}_per_class": chosen.picks[name].thresholds for name in ("map", "map_50", "map_75")}
    found = {name: Pick("precision", area, limit, thresholds) for name, thresholds in precision.items()}
    return {**found, "mar_per_class": Pick("recall", area, limit, every)}


def _means(
    chosen: Chosen, groups: Sequence[Ints], picks: Mapping[str, Pick], categories: Sequence[int],
    class_picks: Mapping[str, Pick],
) -> GroupNumbers:  # fmt: skip
    records, shape = chosen.records, chosen.records.shape
    taken = itertools.chain(picks.values(), class_picks.values())
    whole = all(pick.array == "recall" or pick.limit == shape.limits - 1 for pick in taken)
    choices = AccumulateChoices(
        shape, chosen.recalls, full=not whole, labels=np.array(categories, np.int64), images=chosen.images
    )
    tables = RecordTables(records.detections, records.ground_truths, images_table(records.lengths))
    return grouped_numbers(tables, groups, choices, picks, chosen.names, class_picks)


def _counts(chosen: Chosen, name: str, side: Side, groups: Sequence[Ints]) -> GroupNumbers:
    """Rows of each category in each group."""
    categories, count = list(chosen.selection.categories), len(side.lengths)
    wide = chosen.records.classes
    cells = np.repeat(np.arange(count, dtype=np.int64) * wide, side.lengths) + side.labels
    by_image = np.bincount(cells, minlength=count * wide).reshape(count, wide)[chosen.images]
    table = np.array([by_image[group].sum(0) for group in groups], np.float64).reshape(len(groups), wide)
    return GroupNumbers(tuple(f"{name}/{each}" for each in chosen.names), table[:, categories])


def _in_order(found: GroupNumbers, first: Iterable[str]) -> GroupNumbers:
    """The numbers with all of the ``first`` at the beginning: NaN where a mean does not exist."""
    names = [*first, *(name for name in found.names if name not in set(first))]
    places = {name: place for place, name in enumerate(found.names)}
    table = np.full((len(found), len(names)), np.nan)
    for place, name in enumerate(names):
        if name in places:
            table[:, place] = found.table[:, places[name]]
    return GroupNumbers(tuple(names), table)
