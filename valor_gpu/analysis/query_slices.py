"""Numbers of slices of queries: by columns of a table, and by bins of them. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import replaced
from valor_gpu.analysis.image_names import id_text
from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.analysis.slice_columns import Dealt, check_bins, crossed, dealt
from valor_gpu.analysis.slices import Column, Slices, interval_choices, number_columns, tabled, wanted_numbers
from valor_gpu.checks import near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.inputs.value_tables import Columns, read_columns
from valor_gpu.result_data import ResultData
from valor_gpu.stats.intervals import Bootstrap

Ints = NDArray[np.int64]

ID_COLUMNS = ("query", "query_id", "qid")
"""Columns that may say which query a row is of; the first of them that a table has is used."""


class Queries(ImageNumbers):
    """Queries of a result in place of images.

    Args:
        metric: its name.
        ids: of the queries, in the order of their positions.
        part: gives the result of some queries, by their ascending positions.
    """

    def __init__(self, metric: str, ids: Sequence[Any], part: Callable[[Ints], ResultData]) -> None:
        self.metric, self.image_ids, self.images, self._part = metric, ids, len(ids), part

    def result_of(self, images: Ints) -> ResultData:
        """Computes the result of some queries; see :class:`ImageNumbers`."""
        return self._part(images)

    def reason_of(self, name: str, empty: bool) -> str:
        """Returns why a number of a slice does not exist; see :class:`ImageNumbers`."""
        return "no query has a score" if empty else "too few queries have a score"


def query_slices(
    queries: Queries,
    choices: Mapping[str, Any],
    table: Any,
    columns: Sequence[Column],
    bins: Mapping[str, Sequence[Any]] | None = None,
    intervals: int | Bootstrap | None = None,
    numbers: Sequence[str] | None = None,
) -> Slices:
    """Computes the numbers of slices of queries, each as a run on the queries of the slice alone.

    Args:
        queries: of the result.
        choices: of its signature.
        table: with a row for each query, which its first column of ``query``, ``query_id`` and ``qid`` names; rows of
            other queries are not looked at.
        columns: names of columns; a tuple of names is their crossing.
        bins: column to ascending edges.
        intervals: replicates of a bootstrap over the queries of each slice, or its choices.
        numbers: names of the numbers; None: all.

    Raises:
        InputError: a query has no row or two, or there is no such column or number.
    """
    wanted = [(column,) if isinstance(column, str) else tuple(column) for column in columns]
    names = list(dict.fromkeys(name for crossing in wanted for name in crossing))
    if not all(isinstance(name, str) for name in names):
        raise InputTypeError(f"columns must be names, or tuples of names, but are {columns!r}")
    parts = dealt_queries(queries, table, wanted, check_bins(bins, names))
    groups = [group for part in parts for group in part.groups]
    results = [queries.result_of(group) for group in groups]
    found = tabled([dict(numbers_of(result.values)) for result in results])
    kept = wanted_numbers(found.names, numbers)
    head = {
        "column": [part.column for part in parts for _ in part.values],
        "value": [value for part in parts for value in part.values],
        "queries": [len(group) for group in groups],
    }
    made = (
        None if intervals is None else [_intervals(*each, intervals, queries.images) for each in zip(results, groups)]
    )
    shown = {**choices, **({} if intervals is None else interval_choices(intervals))}
    return Slices({**head, **number_columns(queries, found, kept, made)}, shown, kept)


def dealt_queries(
    queries: Queries, table: Any, wanted: Sequence[tuple[str, ...]], edges: Mapping[str, Any]
) -> list[Dealt]:
    """Deals the queries out by each column and each crossing.

    Args:
        queries: of the result.
        table: see :func:`query_slices`.
        wanted: names of the columns of each.
        edges: of bins, by column.

    Raises:
        InputError: no column is named, one is unknown, or the table does not fit the queries.
    """
    if not wanted or not all(wanted):
        raise InputError("columns must name at least one column but none came")
    if table is None:
        raise InputError("table must have the columns of the queries but is None: their result knows none")
    names = list(dict.fromkeys(name for crossing in wanted for name in crossing))
    values = _joined(queries.image_ids or (), read_columns(table), names)
    single = {name: dealt(name, values[name], edges.get(name)) for name in names}
    return [
        single[crossing[0]] if len(crossing) == 1 else crossed([single[name] for name in crossing], queries.images)
        for crossing in wanted
    ]


def _joined(ids: Sequence[Any], columns: Columns, names: Sequence[str]) -> Columns:
    """Columns of a table, with the value of each query."""
    known = [each for each in columns if each not in ID_COLUMNS]
    for name in names:
        if name not in columns:
            raise InputError(
                f"columns must be among {', '.join(map(repr, known)) or 'none'}, which table has, but got {name!r}"
                f"{near_names(name, known)}"
            )
    by = next((name for name in ID_COLUMNS if name in columns), None)
    if by is None:
        raise InputError(
            "table must have a column 'query', 'query_id' or 'qid', which says of which query a row is, but has"
            f" {', '.join(map(repr, columns)) or 'none'}"
        )
    places: dict[str, int] = {}
    twice: dict[str, int] = {}
    for place, value in enumerate(columns[by]):
        if value is not None and places.setdefault(id_text(value), place) != place:
            twice[id_text(value)] = place
    texts = [id_text(each) for each in ids]
    lacking = [each for each, text in zip(ids, texts) if text not in places]
    if lacking:
        raise InputError(
            f"table must have a row for every query but {len(lacking)} of {len(ids)} are missing, the first is {by}"
            f" {lacking[0]!r}"
        )
    again = next((text for text in texts if text in twice), None)
    if again is not None:
        raise InputError(
            f"table must have one row for each query but {by} {again!r} is in rows {places[again]} and {twice[again]}"
        )
    return {name: [columns[name][places[text]] for text in texts] for name in names}


def _intervals(result: ResultData, group: Ints, intervals: int | Bootstrap, queries: int) -> Mapping[str, Any]:
    """Intervals of the numbers of a slice, from its queries alone."""
    chosen = Bootstrap.of(intervals)
    clusters: Any = chosen.clusters
    if clusters is not None and not isinstance(clusters, Mapping):
        if len(clusters) != queries:
            raise InputError(f"clusters must be one for each of {queries} queries but are {len(clusters)}")
        chosen = replaced(chosen, clusters=[clusters[place] for place in group.tolist()])
    if not any(math.isfinite(value) for value in dict(numbers_of(result.values)).values()):
        return {}
    return result.with_intervals(chosen).intervals
