"""Search for slices with low numbers: found on one half of the images, tested on the other. Imports no torch."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.image_columns import BUILT_IN
from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.analysis.slice_columns import Dealt, check_bins, crossed
from valor_gpu.analysis.slices import clusters_of, dealt_columns, tabled, wanted_numbers
from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.stats.clusters import plain_clusters
from valor_gpu.stats.comparisons import adjust_benjamini_yekutieli
from valor_gpu.stats.draws import Draws

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_ENOUGH = 20
"""Sets at most as good as a slice after which no more are drawn: its p-value is then known to about a fifth."""
_BATCH = 40
"""Sets whose numbers are computed at a time."""


@frozen
class Search:
    """Choices of a search; see :meth:`valor_gpu.result.Result.worst_slices`.

    Raises:
        InputError: one is out of its range.
    """

    number: str | None = None
    least: int = 20
    candidates: int = 10
    level: float = 0.05
    permutations: int = 2000
    seed: int = 0
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        check_int("least", self.least, 2)
        check_int("candidates", self.candidates, 1)
        check_int("permutations", self.permutations, 1)
        check_int("seed", self.seed, 0)
        check_number("level", self.level, 0, 1)
        check_type("number", self.number, (str, type(None)))
        check_type("higher_is_better", self.higher_is_better, bool)
        if not 0 < self.level < 1:
            raise InputError(f"level must be above 0 and below 1 but got {self.level}")
        # The lowest p-value is 1 / (permutations + 1); the adjustment multiplies it by c (1 + 1/2 + ... + 1/c).
        if self.candidates > self.permutations:
            raise InputError(
                f"candidates must be at most permutations, which are {self.permutations}, but are {self.candidates}"
            )
        factor = self.candidates * sum(1 / rank for rank in range(1, self.candidates + 1))
        if self.permutations + 1 < factor / self.level:
            least = min(factor / self.level, sys.float_info.max)
            raise InputError(
                f"permutations must be at least {math.ceil(least) - 1} to confirm one of"
                f" {self.candidates} candidates at level {self.level:g} but got {self.permutations}"
            )


@frozen
class Candidate:
    """A slice that may be chosen.

    Attributes:
        column: name, or names.
        value: label.
        inside: bool ``[I]``.
    """

    column: str
    value: str | None
    inside: Bools


class Numbers:
    """One number of groups of images; larger is better.

    Args:
        analysis: of the result.
        search: of which number, and which sign it has.
    """

    def __init__(self, analysis: ImageNumbers, search: Search) -> None:
        self._analysis, self._sign = analysis, 1.0 if search.higher_is_better else -1.0
        known = tabled(analysis.numbers_of([np.arange(analysis.images)])).names
        wanted = wanted_numbers(known, None if search.number is None else [search.number])
        if search.number is not None and wanted != [search.number]:
            raise InputError(f"number must be one number but {search.number!r} stands for {len(wanted)}")
        self.name = wanted[0] if wanted else ""

    def of(self, groups: Sequence[Bools]) -> list[float]:
        """Returns the number of each group, NaN where it does not exist."""
        if not self.name:  # of a result without classes
            return [math.nan] * len(groups)
        found = tabled(self._analysis.numbers_of([np.flatnonzero(group) for group in groups]))
        if self.name not in found.names:  # as of a class that none of these images has
            return [math.nan] * len(groups)
        return (self._sign * found.column(self.name)).tolist()  # type: ignore[no-any-return]

    def shown(self, value: float) -> float:
        """Returns a number with the sign that it has in results."""
        return self._sign * value


def worst_slices(
    analysis: ImageNumbers,
    table: Any,
    columns: Sequence[str],
    bins: Mapping[str, Sequence[Any]] | None = None,
    clusters: Any = None,
    **choices: Any,
) -> ColumnTable:
    """Searches for slices with low numbers; see :meth:`valor_gpu.result.Result.worst_slices`.

    Args:
        analysis: of the result.
        table: of columns, or the name of a column that the result knows.
        columns: names.
        bins: edges by column.
        clusters: of the images, None: each stands alone.
        choices: of :class:`Search`.
    """
    search = Search(**choices)
    if isinstance(table, str) and table in BUILT_IN:
        table, columns = None, (table, *columns)
    for name in columns:
        if not isinstance(name, str):
            raise InputTypeError(f"columns must be names, since their crossings are searched too, but one is {name!r}")
    parts = dealt_columns(analysis, table, [(name,) for name in columns], check_bins(bins, columns))
    codes = _codes(analysis, clusters)
    half = Draws(analysis.images, 1, seed=search.seed, kind="half", clusters=codes).array()[:, 0] > 0
    numbers = Numbers(analysis, search)
    chosen = _chosen(list(_candidates(parts, half, search.least)), half, numbers, search.candidates)
    rows = [_tested(each, ~half, numbers, codes, (search, place)) for place, each in enumerate(chosen)]
    return _table(rows, numbers, search, {} if clusters is None else {"clusters": int(codes.max(initial=-1)) + 1})


def _codes(analysis: ImageNumbers, clusters: Any) -> Ints:
    """The cluster of each image; without clusters each image is one."""
    if clusters is None:
        return np.arange(analysis.images)
    given = clusters_of(analysis, plain_clusters(clusters), np.arange(analysis.images))
    names = list(given.values()) if isinstance(given, Mapping) else given
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(name, len(codes)) for name in names], np.int64)


# -------------------------------------------------------------------------------------------------------------- search


def _candidates(parts: Sequence[Dealt], half: Bools, least: int) -> Iterator[Candidate]:
    """Yields values and combinations of two that have enough images inside and outside, in both halves, each once."""
    seen = set()
    crossings = (crossed(pair, len(half)) for pair in itertools.combinations(parts, 2))
    for part in itertools.chain(parts, crossings):
        for value, group in zip(part.values, part.groups):
            if len(group) < 2 * least:
                continue
            inside = np.zeros(len(half), np.bool_)
            inside[group] = True
            enough = all((side & part_of).sum() >= least for side in (inside, ~inside) for part_of in (half, ~half))
            if enough and (key := inside.tobytes()) not in seen:
                seen.add(key)
                yield Candidate(part.column, value, inside)


def _chosen(candidates: Sequence[Candidate], half: Bools, numbers: Numbers, most: int) -> list[tuple[Candidate, float]]:
    """The candidates that lie furthest below all images of the half, and their numbers on it.

    A difference counts by the square root of the images that it is taken over: small slices vary more.
    """
    whole, *found = numbers.of([half, *(each.inside & half for each in candidates)])
    distances = [(value - whole) * math.sqrt((each.inside & half).sum()) for each, value in zip(candidates, found)]
    order = sorted((place for place, d in enumerate(distances) if d < 0), key=distances.__getitem__)
    return [(candidates[place], found[place]) for place in order[:most]]


# ---------------------------------------------------------------------------------------------------------------- tests


def _tested(
    chosen: tuple[Candidate, float], half: Bools, numbers: Numbers, codes: Ints, asked: tuple[Search, int]
) -> dict[str, Any]:
    """A row of the table, with the p-value on the half that took no part in the search."""
    (candidate, discovery), (search, place) = chosen, asked
    inside, outside = candidate.inside & half, ~candidate.inside & half
    value, rest = numbers.of([inside, outside])
    rng = np.random.default_rng([search.seed, place])
    p_value = math.nan if math.isnan(value) else _p_value(value, _sets(inside, half, codes, rng), numbers, search)
    return {
        "column": candidate.column,
        "value": candidate.value,
        "images": int(candidate.inside.sum()),
        "discovery": numbers.shown(discovery),
        "confirmation": numbers.shown(value),
        "rest": numbers.shown(rest),
        "difference": numbers.shown(value - rest),
        "p_value": p_value,
    }


def _sets(inside: Bools, half: Bools, codes: Ints, rng: np.random.Generator) -> Iterator[Bools]:
    """Yields random sets of as many units as lie inside; units are the parts of clusters inside and outside."""
    images = np.flatnonzero(half)
    keys, units = np.unique(codes[images] * 2 + inside[images], return_inverse=True)
    number = int((keys % 2).sum())
    while True:
        drawn = np.zeros(len(keys), np.bool_)
        drawn[rng.choice(len(keys), number, replace=False)] = True
        found = np.zeros(len(half), np.bool_)
        found[images] = drawn[units.reshape(-1)]
        yield found


def _p_value(value: float, sets: Iterator[Bools], numbers: Numbers, search: Search) -> float:
    """The share of random sets whose number is at most that of the slice; the slice itself counts as one of them."""
    low = drawn = 0
    while drawn < search.permutations:
        batch = list(itertools.islice(sets, min(_BATCH, search.permutations - drawn)))
        for found in numbers.of(batch):
            drawn += 1
            low += not found > value  # a set without a number counts against the slice
            if low == _ENOUGH:
                return low / drawn
    return (low + 1) / (drawn + 1)


def _table(rows: Sequence[Mapping[str, Any]], numbers: Numbers, search: Search, more: Mapping[str, Any]) -> ColumnTable:
    rows = sorted(rows, key=lambda row: (math.isnan(row["p_value"]), row["p_value"]))
    names = ("column", "value", "images", "discovery", "confirmation", "rest", "difference", "p_value")
    columns = {name: [row[name] for row in rows] for name in names}
    adjusted = adjust_benjamini_yekutieli(columns["p_value"])
    columns |= {"adjusted_p_value": adjusted, "confirmed": [value <= search.level for value in adjusted]}
    floats = {name: np.array(columns[name], np.float64) for name in (*names[3:], "adjusted_p_value")}
    choices = {
        "number": numbers.name, "least": search.least, "candidates": search.candidates, "level": search.level,
        "permutations": search.permutations, "seed": search.seed, "adjusted": "Benjamini-Yekutieli", **more,
    }  # fmt: skip
    return ColumnTable({**columns, **floats}, choices)
