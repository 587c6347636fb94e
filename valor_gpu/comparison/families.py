"""Families of numbers that are tested together, and their adjusted p-values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from valor_gpu.stats.comparisons import (
    adjust_benjamini_hochberg,
    adjust_benjamini_yekutieli,
    adjust_holm,
    adjust_max_t,
)
from valor_gpu.stats.inversion import normal_deviate
from valor_gpu.stats.paired_states import PairedNumber

SLICES = "slices"
"""First part of the path of a number of a slice; the second is the slice, the third the number."""

Path = tuple[str, ...]
Numbers = Mapping[Path, PairedNumber]

_BY_P = {
    "holm": adjust_holm,
    "benjamini_hochberg": adjust_benjamini_hochberg,
    "benjamini_yekutieli": adjust_benjamini_yekutieli,
}


def path_of(name: str) -> Path:
    """Returns the path of a leaf name: the number, and the class if it is of one.

    Example:
        >>> path_of("map"), path_of("map_per_class/a/b")
        (('map',), ('map_per_class', 'a/b'))
    """
    return tuple(name.split("/", 1))


def family_of(path: Path) -> Path:
    """Returns what tells the family of a number: all classes of a number, all slices of a number, the number itself.

    Example:
        >>> family_of(("map",)), family_of(("map_per_class", "cat")), family_of((SLICES, "weather: rain", "map"))
        (('map',), ('map_per_class', ''), ('slices', 'map'))
    """
    if path[0] == SLICES:
        return SLICES, path[-1]
    return path if len(path) == 1 else (path[0], "")


def adjusted(pairs: Sequence[Numbers], adjust: str) -> list[dict[Path, float]]:
    """Adjusts p-values over the numbers of a family, of all pairs of models.

    Args:
        pairs: numbers of each pair.
        adjust: of :data:`valor_gpu.comparison.choices.ADJUSTMENTS`.

    Returns:
        By pair and path; never below the p-value itself, which a family of one keeps.
    """
    families: dict[Path, list[tuple[int, Path]]] = {}
    for place, numbers in enumerate(pairs):
        for path in numbers:
            families.setdefault(family_of(path), []).append((place, path))
    found: list[dict[Path, float]] = [{} for _ in pairs]
    for members in families.values():
        p_values = _adjusted([pairs[place][path] for place, path in members], adjust)
        for (place, path), p_value in zip(members, p_values):
            found[place][path] = p_value
    return found


def other_tests(pairs: Sequence[Numbers]) -> list[str]:
    """Returns the names of the tests, beside the bootstrap, of numbers that are tested together with others.

    Args:
        pairs: numbers of each pair.
    """
    sizes = Counter(family_of(path) for numbers in pairs for path in numbers)
    found = {
        each.test: None
        for numbers in pairs
        for path, each in numbers.items()
        if sizes[family_of(path)] > 1 and each.test != "bootstrap"
    }
    return list(found)


def adjust_p_values(p_values: Sequence[float], adjust: str) -> list[float]:
    """Adjusts p-values that come without replicates.

    Args:
        p_values: NaN where there is none.
        adjust: of :data:`valor_gpu.comparison.choices.ADJUSTMENTS` but ``max_t``.
    """
    return _BY_P[adjust](p_values)


def _adjusted(numbers: Sequence[PairedNumber], adjust: str) -> list[float]:
    p_values = [number.p_value for number in numbers]
    if len(numbers) == 1:
        return p_values
    if adjust in _BY_P:
        return adjust_p_values(p_values, adjust)
    count = max((len(number.deviations) for number in numbers if number.deviations is not None), default=1)
    lost = np.full(count, math.nan)
    deviations = np.stack([lost if number.deviations is None else number.deviations for number in numbers])
    found = adjust_max_t([_statistic(number) for number in numbers], deviations)
    return [max(one, p_value) for one, p_value in zip(found, p_values)]


def _statistic(number: PairedNumber) -> float:
    """The difference in standard errors; of a test that has none, those of a normal distribution."""
    if math.isnan(number.p_value) or not math.isnan(number.statistic):
        return math.nan if math.isnan(number.p_value) else number.statistic
    return normal_deviate(number.p_value)
