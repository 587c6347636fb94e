"""Clusters of units as the caller names them, as codes that no order of the units changes. Imports no torch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, InputTypeError

Ints = NDArray[np.int64]
Clusters = Mapping[Any, Any] | Sequence[Any] | NDArray[Any]
"""The cluster of every row, in their order; or row, from 0, to cluster."""
_MISSING = ("NAType", "NaTType")
"""What pandas has in a place without a value."""


def plain_clusters(given: Clusters) -> dict[Any, Hashable] | list[Hashable]:
    """Returns clusters as plain values: those of arrays and tensors are their numbers, of which equal ones are equal.

    Args:
        given: mapping of units to clusters, or the cluster of every unit: a sequence, an array, a tensor or a column of
            a table. A row of several values is a tuple.

    Raises:
        InputTypeError: ``given`` is one value.
        InputError: a cluster is None, NaN, or cannot be compared with others.

    Example:
        >>> plain_clusters(np.array([[1, 2], [1, 3]]))
        [(1, 2), (1, 3)]
    """
    if isinstance(given, Mapping):
        return dict(zip(given, _plain(given.values(), list(given))))
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise InputTypeError(f"clusters must be a mapping of units, or the cluster of every unit, but is {given!r}")
    values = given.tolist() if hasattr(given, "tolist") else list(given)
    return _plain(values, range(len(values)))


def _plain(values: Iterable[Any], units: Sequence[Any]) -> list[Hashable]:
    found = []
    for unit, value in zip(units, values):
        cluster = _hashable(value)
        if _missing(cluster):
            raise InputError(f"clusters must name the cluster of every unit but that of {unit!r} is {value!r}")
        found.append(cluster)
    return found


def _missing(cluster: Any) -> bool:
    """Whether it is None, NaN, or a tuple with one of them."""
    if isinstance(cluster, tuple):
        return any(map(_missing, cluster))
    return cluster is None or type(cluster).__name__ in _MISSING or bool(cluster != cluster)


def _hashable(value: Any) -> Hashable:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if not isinstance(value, Hashable):
        raise InputError(f"clusters must be hashable, such as numbers or texts, but one is {value!r}")
    return value


def codes_by_name(clusters: Sequence[Hashable]) -> Ints:
    """Returns the codes of the clusters of units, in the order of the clusters.

    Args:
        clusters: of every unit.

    Example:
        >>> codes_by_name(["b", "a", "b"]).tolist()
        [1, 0, 1]
    """
    codes = {cluster: code for code, cluster in enumerate(in_order(set(clusters)))}
    return np.array([codes[cluster] for cluster in clusters], np.int64)


def codes_of_rows(given: Clusters, rows: int) -> Ints:
    """Returns the codes of the clusters of rows.

    Args:
        given: the cluster of every row, or row number to cluster; see :func:`plain_clusters`.
        rows: how many there are.

    Raises:
        InputError: a row has no cluster, or there are more clusters than rows.

    Example:
        >>> codes_of_rows({0: "b", 1: "a"}, 2).tolist()
        [1, 0]
    """
    plain = plain_clusters(given)
    if isinstance(plain, Mapping):
        missing = next((row for row in range(rows) if row not in plain), None)
        if missing is not None:
            raise InputError(f"clusters must name that of each of {rows} rows but lacks row {missing}")
        plain = [plain[row] for row in range(rows)]
    if len(plain) != rows:
        raise InputError(f"clusters must have one for each of {rows} rows but has {len(plain)}")
    return codes_by_name(plain)


def codes_by_place(clusters: Sequence[Hashable], places: Sequence[int]) -> Ints:
    """Returns the codes of the clusters of units, ascending by the first place of each, then by the cluster.

    Units of one place are equal, so that it does not matter which of them has which of their clusters: their codes
    ascend.

    Args:
        clusters: of every unit.
        places: of the units, ascending.

    Example:
        >>> codes_by_place(["c", "b", "a", "b"], [0, 1, 1, 2]).tolist()
        [0, 1, 2, 2]
    """
    first: dict[Hashable, int] = {}
    for cluster, place in zip(clusters, places):
        first.setdefault(cluster, place)
    codes = {each: code for code, each in enumerate(sorted(in_order(first), key=first.__getitem__))}
    found = np.array([codes[cluster] for cluster in clusters], np.int64)
    return found[np.lexsort((found, np.asarray(places)))]


def in_order(clusters: Iterable[Hashable]) -> list[Any]:
    """Returns names in an order of their own; those that cannot be compared, by type and text.

    Args:
        clusters: names of clusters, or of units.

    Example:
        >>> in_order([10, 9]), in_order(["b", 2])
        ([9, 10], [2, 'b'])
    """
    different: list[Any] = list(clusters)
    try:
        return sorted(different)
    except TypeError:
        return sorted(different, key=lambda each: (type(each).__name__, repr(each)))
