"""Sides of a comparison, cut into slices of their images, or of their queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.analysis.query_slices import dealt_queries
from valor_gpu.analysis.slices import clusters_of, dealt_columns
from valor_gpu.comparison.sides import Side, side_of
from valor_gpu.errors import InputError
from valor_gpu.result_analysis import Analysed

By = str | Sequence[str | Sequence[str]] | Mapping[str, Sequence[Any] | None]
Slice = tuple[list[Side], Any]
"""A side of each model on the images of the slice, and the clusters of these images."""


def slices_of(sides: Sequence[Side], table: Any, by: By, clusters: Any) -> dict[str, Slice]:
    """Returns the sides of every slice by its name, such as ``weather: rain``.

    Args:
        sides: the models.
        table: see :meth:`valor_gpu.result.Result.by`; None: the result knows the columns.
        by: a column, or several; a mapping of columns has their ascending edges, None for the values themselves.
        clusters: of the images, or None.

    Raises:
        InputError: a model has other slices, or knows too little of its images.
    """
    columns, edges = _columns_of(by)
    found: dict[str, Slice] = {}
    for place, side in enumerate(sides):
        if not isinstance(side.result, Analysed):  # an answer, such as that of olrp()
            raise InputError(f"by must be None for results of {side.signature['metric']}, which know no images")
        queries = vars(side.result).get("_parts")
        analysis = side.result._asked("by", None) if queries is None else queries
        for part in (dealt_columns if queries is None else dealt_queries)(analysis, table, columns, edges):
            for value, group in zip(part.values, part.groups):
                name = f"{part.column}: {'none' if value is None else value}"
                if place == 0:
                    found[name] = [], None if clusters is None else clusters_of(analysis, clusters, group)
                if name not in found:
                    raise InputError(f"all models must have the same slices but only {side.name} has {name!r}")
                found[name][0].append(side_of(analysis.result_of(group), side.name))
    lacking = next((name for name, (mine, _) in found.items() if len(mine) < len(sides)), None)
    if lacking is not None:
        raise InputError(f"all models must have the same slices but one has no images of {lacking!r}")
    return found


def _columns_of(by: By) -> tuple[list[tuple[str, ...]], dict[str, Any]]:
    """Names of the columns, each as a crossing of one or more, and edges by column."""
    from valor_gpu.analysis.slice_columns import check_bins

    if isinstance(by, str):
        return [(by,)], {}
    columns = [(name,) if isinstance(name, str) else tuple(name) for name in by]
    bins = {name: edges for name, edges in by.items() if edges is not None} if isinstance(by, Mapping) else {}
    return columns, dict(check_bins(bins, [name for names in columns for name in names]))
