"""Records of two models on the same images, as one table of twice as many images. No torch import."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.match_batch import IMAGE_COLUMNS
from valor_gpu.reduce.resampled_detection import Ints, MatchedTables, ReplicatedTable, on_host
from valor_gpu.stats.units import Units, pair_units

_DETECTIONS = IMAGE_COLUMNS.index("DETECTIONS")
_SCORE, _LABEL, _BUCKET = slice(0, 8), slice(8, 12), 12  # bytes of a detection row


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
    places = np.concatenate([place[model * half + units] for model, units in enumerate(own)])
    by_place = np.argsort(places)
    kept = np.concatenate((sources[0].kept, len(sources[0].images) + sources[1].kept))[by_place]
    labels = np.union1d(sources[0].labels, sources[1].labels)
    choices = replace(sources[0].choices, images=kept, labels=labels)
    tables = [
        np.concatenate([on_host(getattr(source, name)) for source in sources]) for name in ("ground_truths", "images")
    ]
    detections = np.concatenate([_ranked(source) for source in sources])
    run, truths = sources[0].order(detections, *tables, choices)
    classes = _class_names(first, second, labels)
    source = MatchedTables(detections, *tables, kept, labels, choices, sources[0].order)
    units = None if first.units is None else places[by_place]
    return replace(first, run=run, truths=truths, classes=classes, units=units, source=source)


def _class_names(first: ReplicatedTable, second: ReplicatedTable, labels: Ints) -> list[str]:
    """Names of the labels of both; empty where there are no numbers of classes."""
    names: dict[int, str] = {}
    for table in (first, second):
        if table.classes and table.source is not None:
            names |= zip(table.source.labels.tolist(), table.classes)
    return [names[label] for label in labels.tolist()] if names else []


def _ranked(source: MatchedTables) -> NDArray[np.uint8]:
    """Detection rows whose scores are ranks among those of a label that count."""
    rows, images = on_host(source.detections).copy(), on_host(source.images)
    chosen = np.zeros(len(images), np.bool_)
    chosen[source.kept] = True
    counting = np.repeat(chosen, images[:, _DETECTIONS]) & (rows[:, _BUCKET] < source.choices.shape.limits)
    scores = rows[counting, _SCORE].view(np.float64)[:, 0]
    labels = rows[counting, _LABEL].view(np.int32)[:, 0]
    ranks = rank_scores(scores, np.zeros_like(labels) if source.choices.agnostic else labels)
    rows[counting, _SCORE] = ranks[:, None].view(np.uint8)
    return rows


def rank_scores(scores: NDArray[np.float64], groups: NDArray[Any]) -> NDArray[np.float64]:
    """Replaces scores by ranks, which any increasing map of the scores leaves as they are.

    A rank is 2 less the share of the scores of its group that are at least as high: above 0, as scores that count must
    be for some metrics. Equal scores have equal ranks, and NaN stays NaN.

    Args:
        scores: float64 ``[N]``.
        groups: ``[N]``, such as labels.

    Example:
        >>> rank_scores(np.array([0.9, 0.5, 0.5, 0.1, 0.3]), np.array([0, 0, 0, 0, 1])).tolist()
        [1.75, 1.25, 1.25, 1.0, 1.0]
    """
    order = np.lexsort((-scores, groups))
    ordered, of = scores[order], groups[order]
    begins = np.append(True, of[1:] != of[:-1])[: len(of)]
    starts, sizes = _runs(begins)
    ties, tied = _runs(begins | np.append(True, ordered[1:] != ordered[:-1])[: len(of)])
    at_least = np.repeat(ties + tied, tied) - np.repeat(starts, sizes)
    found = np.empty(len(scores))
    found[order] = 2 - at_least / np.repeat(sizes, sizes)
    found[np.isnan(scores)] = np.nan
    return found


def _runs(begins: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Where runs start, and their lengths."""
    starts = np.flatnonzero(begins)
    return starts, np.diff(np.append(starts, len(begins)))
