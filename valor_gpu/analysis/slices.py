"""Numbers of slices of the images: by columns of a table, by bins, and by what the result knows. Imports no torch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import replaced
from valor_gpu.analysis.image_columns import BUILT_IN, IMAGE_COLUMNS, LARGEST, OBJECT_COLUMNS, known_column
from valor_gpu.analysis.image_names import id_text
from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.analysis.rows import Rows
from valor_gpu.analysis.slice_columns import (
    Dealt,
    bin_label,
    check_bins,
    crossed,
    dealt,
    joined_columns,
    read_edges,
)
from valor_gpu.checks import near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.texts import value_text
from valor_gpu.inputs.value_tables import Columns, read_columns
from valor_gpu.reduce.grouped_detection import GroupNumbers
from valor_gpu.stats.intervals import Bootstrap, Interval

Ints = NDArray[np.int64]
Column = str | Sequence[str]

_SHOWN = 4
"""Numbers that the text of slices shows; the table has all."""
_USUAL = ("map", "map_50", "map_75", "mar_100")
"""Those that it shows where there are such."""
_NO_INTERVAL = Interval(reason="the metric gives none of this number")


class Slices(ColumnTable):
    """Numbers of slices: a row per slice.

    Columns: ``column`` and ``value``, which name the slice; ``images``, and of detection ``ground_truths`` that count,
    or ``queries``;
    the numbers by their names in the result, NaN where one does not exist. With intervals ``map_low`` and ``map_high``
    follow ``map``. ``map_reason`` follows where a slice lacks the number or its interval.

    Attributes:
        numbers: names of the numbers.
    """

    def __init__(self, columns: Mapping[str, Any], choices: Mapping[str, Any], numbers: Sequence[str]) -> None:
        super().__init__(columns, choices)
        self.numbers = list(numbers)

    def __str__(self) -> str:
        return self.text()

    def text(self, elsewhere: str = "the table") -> str:
        """Returns the slices as lines, with few of the numbers.

        Args:
            elsewhere: what has all of them.
        """
        usual = [name for name in _USUAL if name in self.numbers]
        shown = list(dict.fromkeys((*usual, *self.numbers)))[:_SHOWN]
        counts = [name for name in ("images", "queries", "ground_truths") if name in self.columns]
        lines = [[self._label(row), *(f"{row[name]:,}" for name in counts), *(_cell(row, name) for name in shown)]
                 for row in self.rows()]  # fmt: skip
        header = ["slice", *(name.replace("_", " ") for name in counts), *shown]
        widths = [max(map(len, column)) for column in zip(header, *lines)]
        text = [_line(line, widths) for line in (header, *lines)]
        more = len(self.numbers) - len(shown)
        return "\n".join([*text, *([f"{more} more numbers are in {elsewhere}"] if more else [])])

    def _label(self, row: Mapping[str, Any]) -> str:
        return f"{row['column']}: {'none' if row['value'] is None else row['value']}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell flush left, the others flush right."""
    first, *others = (f"{cell:{'>' if place else '<'}{wide}}" for place, (cell, wide) in enumerate(zip(cells, widths)))
    return "  ".join([first, *others]).rstrip()


def _cell(row: Mapping[str, Any], name: str) -> str:
    if math.isnan(row[name]):
        return "-"
    low, high = (row.get(f"{name}_{end}", math.nan) for end in ("low", "high"))
    bounds = "" if math.isnan(low) or math.isnan(high) else f" ({value_text(low)} to {value_text(high)})"
    return value_text(row[name]) + bounds


def slices(
    analysis: ImageNumbers,
    table: Any,
    columns: Sequence[Column],
    bins: Mapping[str, Sequence[Any]] | None = None,
    intervals: int | Bootstrap | None = None,
    numbers: Sequence[str] | None = None,
) -> Slices:
    """Computes the numbers of slices; see :meth:`valor_gpu.result.Result.by`.

    Args:
        analysis: of the result.
        table: of columns, or the name of a column that the result knows.
        columns: names; a tuple of names is their crossing.
        bins: edges by column.
        intervals: replicates of a bootstrap over the images of each slice, or its choices.
        numbers: names of the numbers; None: those that are no numbers of classes.
    """
    if isinstance(table, str) and table in BUILT_IN:
        table, columns = None, (table, *columns)
    elif isinstance(table, str) and not columns and not os.path.exists(table):
        raise InputError(
            f"table must be a table, the path of a file, or one of {', '.join(map(repr, BUILT_IN))} but got {table!r}"
            f"{near_names(table, BUILT_IN)}"
        )
    wanted = [(column,) if isinstance(column, str) else _names_of(column) for column in columns]
    edges = check_bins(bins, [name for names in wanted for name in names])
    read = None if table is None else read_columns(table)
    if any(_of_objects(names, read) for names in wanted):
        return _joined([
            object_slices(analysis, names[0], edges, intervals, numbers) if _of_objects(names, read)
            else _image_slices(analysis, read, [names], edges, intervals, numbers)
            for names in wanted
        ])  # fmt: skip
    return _image_slices(analysis, read, wanted, edges, intervals, numbers)


def _of_objects(names: Sequence[str], read: Columns | None) -> bool:
    """Returns whether slices are of objects, by an attribute whose name no column of the table has."""
    return len(names) == 1 and names[0] in OBJECT_COLUMNS and (read is None or names[0] not in read)


def _image_slices(
    analysis: ImageNumbers,
    read: Columns | None,
    wanted: Sequence[tuple[str, ...]],
    edges: Mapping[str, Any],
    intervals: int | Bootstrap | None,
    numbers: Sequence[str] | None,
) -> Slices:
    parts = dealt_columns(analysis, read, wanted, edges)
    groups = [group for part in parts for group in part.groups]
    found = tabled(analysis.numbers_of(groups))
    names = wanted_numbers(found.names, numbers)
    head = {
        "column": [part.column for part in parts for _ in part.values],
        "value": [value for part in parts for value in part.values],
        **counts_of(analysis, groups),
    }
    made = [_intervals(analysis, group, intervals) for group in groups] if intervals is not None else None
    choices = {**_signature_of(analysis), **({} if intervals is None else interval_choices(intervals))}
    return Slices({**head, **number_columns(analysis, found, names, made)}, choices, names)


def _joined(parts: Sequence[Slices]) -> Slices:
    """Slices one after the other; a number that some of them lack is NaN there, with a reason."""
    if len(parts) == 1:
        return parts[0]
    numbers = list(dict.fromkeys(name for part in parts for name in part.numbers))
    counts = [name for name in ("images", "ground_truths") if all(name in part.columns for part in parts)]
    columns: dict[str, Any] = {
        name: [value for part in parts for value in part.columns[name]] for name in ("column", "value", *counts)
    }
    for name in numbers:
        values, reasons = zip(*(_values_and_reasons(part, name) for part in parts))
        columns[name] = np.concatenate(values)
        if any(any(each) for each in reasons):
            columns[f"{name}_reason"] = [reason for each in reasons for reason in each]
    return Slices(columns, parts[0].choices, numbers)


def _values_and_reasons(part: Slices, name: str) -> tuple[Any, Sequence[str | None]]:
    if name not in part.columns:
        return np.full(len(part), math.nan), ["not of slices of objects"] * len(part)
    return part.columns[name], part.columns.get(f"{name}_reason", [None] * len(part))


def _names_of(crossing: Any) -> tuple[str, ...]:
    if isinstance(crossing, (tuple, list)) and all(isinstance(name, str) for name in crossing):
        return tuple(crossing)
    raise InputTypeError(f"columns must be names, or tuples of names, but one is {crossing!r}")


def dealt_columns(
    analysis: ImageNumbers, table: Any, wanted: Sequence[tuple[str, ...]], edges: Mapping[str, Any]
) -> list[Dealt]:
    """Deals the images out by each column and each crossing.

    Args:
        analysis: of the result.
        table: of columns; None: the result knows them all.
        wanted: names of the columns of each.
        edges: of bins, by column.

    Raises:
        InputError: no column is named, one is unknown, or the table does not fit the images.
    """
    if not wanted or not all(wanted):
        raise InputError("columns must name at least one column but none came")
    names = list(dict.fromkeys(name for names in wanted for name in names))
    read = None if table is None else read_columns(table)
    if read is None:
        _check_known(names)
    own = [name for name in names if read is None or (name in IMAGE_COLUMNS and name not in read)]
    values: dict[str, Sequence[Any]] = {name: known_column(analysis, name) for name in own}
    edges = {**{name: IMAGE_COLUMNS[name] for name in own}, **edges}
    if read is not None:
        values |= joined_columns(analysis, read, [name for name in names if name not in own])
    single = {name: dealt(name, values[name], edges.get(name)) for name in names}
    return [
        single[names[0]] if len(names) == 1 else crossed([single[name] for name in names], analysis.images)
        for names in wanted
    ]


def _check_known(names: Sequence[str]) -> None:
    for name in names:
        if name not in BUILT_IN:
            raise InputError(
                f"columns must be among {', '.join(map(repr, BUILT_IN))} without a table but got {name!r}"
                f"{near_names(name, BUILT_IN)}"
            )
        if name in OBJECT_COLUMNS:
            raise InputError(
                f"columns must be of images but {name!r} is of objects: ask for it by itself, by({name!r})"
            )


def tabled(found: Sequence[Mapping[str, float]]) -> GroupNumbers:
    """Returns the numbers of groups as a table; a number that a group lacks is NaN."""
    if isinstance(found, GroupNumbers):
        return found
    names = tuple(dict.fromkeys(name for each in found for name in each))
    rows = [[each.get(name, math.nan) for name in names] for each in found]
    return GroupNumbers(names, np.array(rows, np.float64).reshape(len(found), len(names)))


def wanted_numbers(known: Sequence[str], numbers: Sequence[str] | None) -> list[str]:
    """Returns the names of the numbers that are wanted, in their order.

    Args:
        known: names of all numbers.
        numbers: names, or names of mappings, such as ``map_per_class``; None: all that are no numbers of classes.

    Raises:
        InputError: there is no such number.
    """
    if numbers is None:
        return [name for name in known if "/" not in name] or list(known)
    if isinstance(numbers, (str, bytes)):
        raise InputTypeError(f"numbers must be a list of names but is the text {numbers!r}")
    if not isinstance(numbers, Iterable) or getattr(numbers, "shape", None) == ():
        raise InputTypeError(f"numbers must be a list of names but is {numbers!r}")
    names: list[str] = []
    for name in numbers:
        nested = [each for each in known if each.startswith(f"{name}/")]
        if name not in known and not nested:
            shown = [each for each in known if "/" not in each] or known
            raise InputError(
                f"numbers must be among {', '.join(map(repr, shown))} and those of classes but got {name!r}"
                f"{near_names(name, known)}"
            )
        names += [name] if name in known else nested
    return names


def counts_of(analysis: ImageNumbers, groups: Sequence[Ints]) -> dict[str, list[int]]:
    """Returns how many images each group has, and of detection how many ground truths that count."""
    counts = {"images": [len(group) for group in groups]}
    rows = getattr(analysis, "rows", None)
    if isinstance(rows, Rows):
        by_image = np.bincount(rows.gt_images[rows.gt_counts], minlength=analysis.images)
        counts["ground_truths"] = [int(by_image[group].sum()) for group in groups]
    return counts


def number_columns(
    analysis: ImageNumbers, found: GroupNumbers, names: Sequence[str], made: Sequence[Mapping[str, Interval]] | None
) -> dict[str, Any]:
    """Returns the columns of numbers of slices, with ends of intervals and reasons, see :class:`Slices`."""
    columns: dict[str, Any] = {}
    empty = np.isnan(found.table[:, 0]).tolist() if names else []
    for name in names:
        values = columns[name] = found.column(name)
        missing = np.flatnonzero(np.isnan(values)).tolist()
        known = {none: analysis.reason_of(name, none) for none in (False, True)} if missing else {}
        reasons = {place: known[empty[place]] for place in missing}
        if made is not None:
            ends = [each.get(name, _NO_INTERVAL) for each in made]
            columns[f"{name}_low"] = np.array([interval.low for interval in ends])
            columns[f"{name}_high"] = np.array([interval.high for interval in ends])
            without = {place: each.reason for place, each in enumerate(ends) if math.isnan(each.low)}
            reasons = {place: f"no interval: {reason}" for place, reason in without.items()} | reasons
        if reasons:
            columns[f"{name}_reason"] = [reasons.get(place) for place in range(len(values))]
    return columns


def _signature_of(analysis: ImageNumbers) -> dict[str, Any]:
    return dict(getattr(analysis, "choices", {"metric": analysis.metric}))


def object_slices(
    analysis: ImageNumbers,
    attribute: str,
    bins: Mapping[str, Sequence[Any]],
    intervals: int | Bootstrap | None,
    numbers: Sequence[str] | None,
) -> Slices:
    """Computes the numbers of the objects in each bin of an attribute; see :meth:`valor_gpu.result.Result.by`.

    Args:
        analysis: of the result.
        attribute: of :data:`valor_gpu.analysis.image_columns.OBJECT_COLUMNS`.
        bins: edges by attribute.
        intervals: must be None.
        numbers: names; None: all that are no numbers of classes.
    """
    if intervals is not None:
        raise InputError(f"intervals must be None with {attribute!r}, whose slices are of objects, not of images")
    edges = read_edges(attribute, bins.get(attribute, OBJECT_COLUMNS[attribute]))
    labels = [bin_label(place, edges) for place in range(len(edges) + 1)]
    pairs = list(pairwise((0.0, *edges, LARGEST)))
    found = tabled(analysis.numbers_of_objects(attribute, pairs))
    names = wanted_numbers(found.names, numbers)
    head: dict[str, Any] = {
        "column": [attribute] * len(labels),
        "value": labels,
        "images": [analysis.images] * len(labels),
    }
    counting = analysis.counting_objects(attribute, pairs)
    if counting is not None:
        head["ground_truths"] = list(counting)
    return Slices({**head, **number_columns(analysis, found, names, None)}, _signature_of(analysis), names)


# ----------------------------------------------------------------------------------------------------------- intervals


def interval_choices(intervals: int | Bootstrap) -> dict[str, Any]:
    """Returns what a signature says of intervals."""
    chosen = Bootstrap.of(intervals)
    return {"replicates": chosen.replicates, "confidence": chosen.confidence, "seed": chosen.seed}


def _intervals(analysis: ImageNumbers, group: Ints, intervals: int | Bootstrap) -> Mapping[str, Interval]:
    """Intervals of the numbers of a slice, from its images alone."""
    chosen = Bootstrap.of(intervals)
    if chosen.clusters is not None:
        chosen = replaced(chosen, clusters=clusters_of(analysis, chosen.clusters, group))
    return analysis.result_of(group).with_intervals(chosen).intervals


def clusters_of(analysis: ImageNumbers, clusters: Any, group: Ints) -> Any:
    """Returns the clusters of some images, in the form in which they came.

    Args:
        analysis: of the result.
        clusters: id to cluster, or the cluster of each image.
        group: positions of images.

    Raises:
        InputError: images have no ids but clusters are by id, or their number is another.
    """
    if not isinstance(clusters, Mapping):
        if len(clusters) != analysis.images:
            raise InputError(f"clusters must be one for each of {analysis.images} images but are {len(clusters)}")
        return [clusters[place] for place in group.tolist()]
    if analysis.image_ids is None:
        raise InputError("clusters must be a sequence with the cluster of every image, since images have no ids")
    known = {id_text(key): cluster for key, cluster in clusters.items()}
    ids = [analysis.image_ids[place] for place in group.tolist()]
    lacking = [key for key in ids if id_text(key) not in known]
    if lacking:
        raise InputError(f"clusters must name every image but {len(lacking)} are missing, the first is {lacking[0]!r}")
    return {key: known[id_text(key)] for key in ids}
