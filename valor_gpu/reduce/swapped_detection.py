"""Records of two models on the same images, as one table of twice as many images. No torch import."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.reduce.matched_tables import Ints, MatchedTables, ReplicatedTable, on_host
from valor_gpu.stats.units import Units, pair_units

_DETECTIONS = IMAGE_COLUMNS.index("DETECTIONS")
_SCORE, _LABEL = slice(0, 8), slice(8, 12)  # bytes of a detection row
BUCKET = 12
"""Byte of a detection row: the first limit above its rank; 255 is that of padding."""


def interleaved(first: Units, second: Units) -> Ints:
    """Returns the order of the units of two models in which both stand side by side, the first model's before.

    Args:
        first: U units of one model.
        second: as many of the other.

    Returns:
        int64 ``[2U]``, places among the units of the first and then of the second model.

    Example:
        >>> from valor_gpu.stats.units import units_with_ids
        >>> interleaved(units_with_ids("images", [3, 5]), units_with_ids("images", [5, 3])).tolist()
        [0, 3, 1, 2]
    """
    codes = pair_units(first, second).codes
    return np.argsort(np.concatenate((2 * codes[0], 2 * codes[1] + 1)), kind="stable")


def swapped_table(first: ReplicatedTable, second: ReplicatedTable, order: Ints) -> ReplicatedTable:
    """Returns the table of both models, whose scores are ranks.

    Args:
        first: of one model.
        second: of the other, of the same numbers.
        order: int64 ``[2U]``, see :func:`interleaved`.
    """
    assert first.source is not None and second.source is not None
    sources = first.source, second.source
    half = len(order) // 2
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    own = (table.units if table.units is not None else np.arange(half) for table in (first, second))
    of_models = [place[model * half + units] for model, units in enumerate(own)]
    places = np.concatenate(of_models)
    by_place = np.argsort(places)
    kept = np.concatenate((sources[0].kept, len(sources[0].images) + sources[1].kept))[by_place]
    labels = np.union1d(sources[0].labels, sources[1].labels)
    choices = replace(sources[0].choices, images=kept, labels=labels)
    ground_truths, images = (
        np.concatenate([on_host(getattr(source, name)) for source in sources]) for name in ("ground_truths", "images")
    )
    ties = all(bool((each[1:] > each[:-1]).all()) for each in of_models)
    detections = np.concatenate([_ranked(source, ties) for source in sources])
    run, truths = sources[0].order(detections, ground_truths, images, choices)
    classes = _class_names(first, second, labels)
    source = MatchedTables(detections, ground_truths, images, kept, labels, choices, sources[0].order)
    units = None if first.units is None else places[by_place]
    return replace(first, run=run, truths=truths, classes=classes, units=units, source=source)


def _class_names(first: ReplicatedTable, second: ReplicatedTable, labels: Ints) -> list[str]:
    """Names of the labels of both; empty where there are no numbers of classes."""
    names: dict[int, str] = {}
    for table in (first, second):
        if table.classes and table.source is not None:
            names |= zip(table.source.labels.tolist(), table.classes)
    return [names[label] for label in labels.tolist()] if names else []


def _ranked(source: MatchedTables, ties: bool) -> NDArray[np.uint8]:
    """Detection rows whose scores are ranks among those that count.

    Without ties equal scores have the ranks of the order in which the model's own images break them, which is not the
    order of the images of both.
    """
    rows, images = on_host(source.detections), on_host(source.images)
    unit = np.full(len(images), -1)
    unit[source.kept] = np.arange(len(source.kept))
    of_rows = np.repeat(unit, images[:, _DETECTIONS])
    counting = (of_rows >= 0) & (rows[:, BUCKET] < source.choices.shape.limits)
    return ranked_rows(rows, counting, source.choices.agnostic, None if ties else of_rows)


def ranked_rows(
    rows: NDArray[np.uint8], counting: NDArray[np.bool_], agnostic: bool = False, units: Ints | None = None
) -> NDArray[np.uint8]:
    """Returns detection rows whose scores are ranks among those of their label, see :func:`rank_scores`.

    Args:
        rows: uint8 ``[D, 13 + 2B]``, see docs/design/001-detection-records.md.
        counting: bool ``[D]``, rows that are ranked; the others keep their scores.
        agnostic: rank the scores of all labels together.
        units: int64 ``[D]``, by which ties are broken, then by place; None: they stay ties.
    """
    found, chosen = rows.copy(), rows[counting]
    labels = np.zeros(len(chosen), np.int32) if agnostic else chosen[:, _LABEL].copy().view(np.int32)[:, 0]
    scores = chosen[:, _SCORE].copy().view(np.float64)[:, 0]
    ranks = rank_scores(scores, labels, None if units is None else units[counting])
    found[counting, _SCORE] = ranks[:, None].view(np.uint8)
    return found


def rank_scores(scores: NDArray[np.float64], groups: NDArray[Any], order: Ints | None = None) -> NDArray[np.float64]:
    """Replaces scores by ranks, which any increasing map of the scores leaves as they are.

    A rank is 2 less the share of the scores of its group that are at least as high: above 0, as scores that count must
    be for some metrics. Equal scores have equal ranks, and NaN stays NaN.

    Args:
        scores: float64 ``[N]``.
        groups: ``[N]``, such as labels.
        order: int64 ``[N]``: of equal scores the one with the smaller number ranks before, then the earlier; None:
            they have equal ranks.

    Example:
        >>> scores, labels = np.array([0.9, 0.5, 0.5, 0.1, 0.3]), np.array([0, 0, 0, 0, 1])
        >>> rank_scores(scores, labels).tolist(), rank_scores(scores, labels, np.array([3, 2, 1, 0, 0])).tolist()
        ([1.75, 1.25, 1.25, 1.0, 1.0], [1.75, 1.25, 1.5, 1.0, 1.0])
    """
    keys = (-scores, groups) if order is None else (order, -scores, groups)
    by_rank = np.lexsort(keys)
    sizes, at_least = _places_in_runs(groups[by_rank])
    if order is None:
        ties, place = _places_in_runs(groups[by_rank], scores[by_rank])
        at_least = at_least + ties - place
    found = np.empty(len(scores))
    found[by_rank] = 2 - at_least / sizes
    found[np.isnan(scores)] = np.nan
    return found


def _places_in_runs(*columns: NDArray[Any]) -> tuple[Ints, Ints]:
    """For each row the length of the run of equal rows that it is in, and its place there, from 1."""
    number = len(columns[0])
    begins = np.zeros(number, np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, number))
    return np.repeat(sizes, sizes), np.arange(1, number + 1) - np.repeat(starts, sizes)
