"""Units of two states of the bootstrap, paired: the images, or rows, that two models were evaluated on. No torch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import plain_clusters

Ints = NDArray[np.int64]


@frozen
class Units:
    """Identity of the units of a state, in the order in which the state takes codes of clusters.

    Units with ids are paired by their ids; others by the place at which they arrived.

    Attributes:
        unit: name of the units in the plural.
        ids: ``[U]`` ids; None: units have none.
        arrival: int64 ``[U]``, the place of each among all that arrived, those of the first rank first; None: unknown.
        arrived: how many arrived, among them those that are no unit, such as ignored rows.
        ranks: int64 ``[U]``, equal where the units hold the same, ascending in an order that no order of updates
            changes.
        truths: ``[U]`` of any dtype with equality, equal where the truths are; None: they are not known.
    """

    unit: str
    ids: Sequence[Hashable] | None
    arrival: Ints | None
    arrived: int
    ranks: Ints
    truths: NDArray[Any] | None = None


@frozen
class Pairing:
    """Units of two states, paired.

    Attributes:
        codes: for each state int64 ``[U]``: which of the drawn things each of its units belongs to, for
            :class:`valor_gpu.stats.draws.Draws`.
        drawn: units, or clusters, that are drawn.
        unit: name of what is drawn, in the plural.
        units: units.
    """

    codes: tuple[Ints, Ints]
    drawn: int
    unit: str
    units: int


def units_with_ids(unit: str, ids: Sequence[Hashable], truths: NDArray[Any] | None = None) -> Units:
    """Returns units that are paired by their ids.

    Args:
        unit: name of the units in the plural.
        ids: ``[U]``, in the order in which the state takes codes.
        truths: see :class:`Units`.

    Example:
        >>> units_with_ids("images", [7, 10, "a", 9]).ranks.tolist()
        [0, 2, 3, 1]
    """
    ranks = np.empty(len(ids), np.int64)
    ranks[sorted(range(len(ids)), key=lambda place: ascending(ids[place]))] = np.arange(len(ids))
    return Units(unit, ids, None, len(ids), ranks, truths)


def ascending(each: Any) -> tuple[int, Any]:
    """Returns the key that sorts ids: numbers by value, then everything else by its text.

    Example:
        >>> sorted(["b", 10, "a", 9], key=ascending)
        [9, 10, 'a', 'b']
    """
    return (0, each) if isinstance(each, (int, float, np.number)) else (1, str(each))


def pair_units(first: Units, second: Units, clusters: Mapping[Any, Any] | Sequence[Any] | None = None) -> Pairing:
    """Pairs the units of two states, so that each is drawn for both at once.

    Args:
        first: of one state.
        second: of the other.
        clusters: by id, or of every unit in the order of ascending ids, or of arrival where units have none.

    Raises:
        InputError: the units differ, in number, ids or truths, or cannot be told apart; it names the first difference.
    """
    keys = tuple(_keys(side, other) for side, other in ((first, second), (second, first)))
    _check_equal(first, second, keys)
    order = _joint_order(first, second, keys)
    place = {key: number for number, key in enumerate(order)}
    drawn, unit = len(order), first.unit
    if clusters is not None:
        named = _cluster_of(clusters, order, first)
        codes: dict[Hashable, int] = {}
        place = {key: codes.setdefault(named[key], len(codes)) for key in order}
        drawn, unit = len(codes), "clusters"
    codes_of = tuple(np.array([place[key] for key in side], np.int64) for side in keys)
    return Pairing((codes_of[0], codes_of[1]), drawn, unit, len(order))


def _keys(side: Units, other: Units) -> list[Hashable]:
    """What the units are paired by."""
    if side.ids is not None and other.ids is not None:
        return list(side.ids)
    if side.arrival is None or other.arrival is None:
        raise InputError(
            f"the {side.unit} of both sides must be told apart but have no ids: give every image of target an image_id"
        )
    return list(side.arrival.tolist())


def _check_equal(first: Units, second: Units, keys: tuple[list[Hashable], ...]) -> None:
    unit = first.unit
    if unit != second.unit:
        raise InputError(f"both sides must be of the same units but are of {unit} and of {second.unit}")
    for name, mine, other in (("second", keys[0], keys[1]), ("first", keys[1], keys[0])):
        there = set(other)
        lacking = [key for key in mine if key not in there]
        if lacking:
            raise InputError(
                f"both sides must have the same {unit} but {len(lacking):,} of {len(mine):,} are missing from the"
                f" {name}, such as {lacking[0]!r}"
            )
    if first.truths is not None and second.truths is not None:
        truths = dict(zip(keys[1], second.truths.tolist()))
        for key, truth in zip(keys[0], first.truths.tolist()):
            if truths[key] != truth:
                raise InputError(f"both sides must have the same ground truth but that of {key!r} differs")


def _joint_order(first: Units, second: Units, keys: tuple[list[Hashable], ...]) -> list[Hashable]:
    """Keys of the units in an order that depends on what they hold alone."""
    if first.ids is not None and second.ids is not None:
        return [key for _, key in sorted(zip(first.ranks.tolist(), keys[0]), key=lambda pair: pair[0])]
    ranks = dict(zip(keys[1], second.ranks.tolist()))
    return [key for _, _, key in sorted((rank, ranks[key], key) for rank, key in zip(first.ranks.tolist(), keys[0]))]


def _cluster_of(
    clusters: Mapping[Any, Any] | Sequence[Any], order: Sequence[Hashable], side: Units
) -> Mapping[Any, Hashable]:
    """Cluster by key."""
    plain = plain_clusters(clusters)
    if isinstance(plain, Mapping):
        lacking = [key for key in order if key not in plain]
        if lacking:
            raise InputError(f"clusters must name every one of the {side.unit} but lack {lacking[0]!r}")
        return plain
    expected = len(order) if side.ids is not None else side.arrived
    if len(plain) != expected:
        raise InputError(f"clusters must be one for each of {expected:,} {side.unit} but are {len(plain):,}")
    return dict(zip(sorted(order, key=ascending) if side.ids is not None else range(expected), plain))
