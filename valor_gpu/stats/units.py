"""Units of two states of the bootstrap, paired: the images, or rows, that two models were evaluated on. No torch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import codes_by_place, in_order, plain_clusters

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
        truths: ``[U]`` or ``[U, T]`` of any dtype with equality, equal where the truths are; None: they are not known.
        truth: name of what ``truths`` has, for messages.
        parts: by name what belongs to the truth of all units together, such as the categories of ``map_rare``.
        classes: names of classes by what tells them apart, such as ids; classes of both states need the same names.
    """

    unit: str
    ids: Sequence[Hashable] | None
    arrival: Ints | None
    arrived: int
    ranks: Ints
    truths: NDArray[Any] | None = None
    truth: str = "ground truth"
    parts: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)
    classes: Mapping[Hashable, str] = field(default_factory=dict)


@frozen
class Pairing:
    """Units of two and more states, paired.

    Attributes:
        codes: for each state int64 ``[U]``: which of the drawn things each of its units belongs to, for
            :class:`valor_gpu.stats.draws.Draws`.
        drawn: units, or clusters, that are drawn.
        unit: name of what is drawn, in the plural.
        units: units.
        doubt: why pairs may be wrong; empty where ids or ground truths tell that they are right.
    """

    codes: tuple[Ints, ...]
    drawn: int
    unit: str
    units: int
    doubt: str = ""


def units_with_ids(unit: str, ids: Sequence[Hashable], truths: NDArray[Any] | None = None) -> Units:
    """Returns units that are paired by their ids.

    Args:
        unit: name of the units in the plural.
        ids: ``[U]``, in the order in which the state takes codes.
        truths: see :class:`Units`.

    Example:
        >>> units_with_ids("images", [7, 10, 9]).ranks.tolist()
        [0, 2, 1]
    """
    ranks = {each: rank for rank, each in enumerate(in_order(ids))}
    return Units(unit, ids, None, len(ids), np.array([ranks[each] for each in ids], np.int64), truths)


def pair_units(first: Units, second: Units, clusters: Mapping[Any, Any] | Sequence[Any] | None = None) -> Pairing:
    """Pairs the units of two states, so that each is drawn for both at once.

    Pairs are in the order of what they hold in both states. Units of a state that hold the same are not told apart:
    their codes ascend, whichever of them is in which pair. So the bits of every sum are those of any order of the rows.

    Args:
        first: of one state.
        second: of the other.
        clusters: by id, or of every unit in the order of ascending ids, or of arrival where units have none.

    Raises:
        InputError: the units differ, in number, ids or truths, or cannot be told apart; it names the first difference.

    Example:
        >>> a = Units("rows", None, np.array([2, 0, 1]), 3, np.array([0, 1, 2]))  # the last row holds the least
        >>> b = Units("rows", None, np.array([0, 1, 2]), 3, np.array([0, 0, 1]))
        >>> [codes.tolist() for codes in pair_units(a, b).codes]
        [[0, 1, 2], [1, 2, 0]]
    """
    return pair_all((first, second), clusters)


def pair_all(
    units: Sequence[Units], clusters: Mapping[Any, Any] | Sequence[Any] | None = None, names: Sequence[str] = ()
) -> Pairing:
    """Pairs the units of two and more states; see :func:`pair_units`.

    Args:
        units: of each state.
        clusters: of the units.
        names: of the states, for messages; empty: ``the first``, and each other ``the second``.
    """
    first = units[0]
    called = names or ["the first", *["the second"] * (len(units) - 1)]
    others = (_places_in(other, first, (called[0], name)) for other, name in zip(units[1:], called[1:]))
    places = [np.arange(len(first.ranks)), *others]
    ids = None if any(side.ids is None for side in units) else list(first.ids or ())
    ranks = [side.ranks[place] for side, place in zip(units, places)]
    order = np.lexsort(ranks[::-1])
    drawn, unit = len(order), first.unit
    codes = np.empty(drawn, np.int64)
    codes[order] = np.arange(drawn)
    if clusters is not None:
        named = _cluster_of(clusters, ids, first, places[0])
        joint = dense_ranks(np.stack(ranks, 1)[order]).tolist()
        codes[order] = codes_by_place([named[pair] for pair in order.tolist()], joint)
        drawn, unit = int(codes.max(initial=-1)) + 1, "clusters"
    sides = (_in_order_of_units(codes, place, side.ranks) for place, side in zip(places, units))
    return Pairing(tuple(sides), drawn, unit, len(order), _doubt(units))


def _doubt(units: Sequence[Units]) -> str:
    """Why pairs may be wrong: units without ids are paired by arrival, and their truths are not known."""
    named, known = (all(getattr(side, part) is not None for side in units) for part in ("ids", "truths"))
    if named or known:
        return ""
    return (
        f"{units[0].unit} are paired by the order in which they came, and the metric keeps nothing that tells whether"
        " all models had the same order"
    )


def _places_in(other: Units, first: Units, names: tuple[str, str]) -> Ints:
    """The unit of another state that each unit of the first is paired with."""
    if first.unit != other.unit:
        raise InputError(f"both sides must be of the same units but are of {first.unit} and of {other.unit}")
    places, ids = _matched(first, other, names)
    _check_truths(first, other, places, ids)
    _check_classes(first, other, names)
    _check_parts(first, other)
    found = np.empty(len(places[0]), np.int64)
    found[places[0]] = places[1]
    return found


def dense_ranks(rows: NDArray[np.integer[Any]]) -> Ints:
    """Returns the ranks of rows that are in order: equal rows have the same.

    Args:
        rows: integers ``[U, K]``.

    Example:
        >>> dense_ranks(np.array([[1, 2], [1, 2], [3, 0]])).tolist()
        [0, 0, 1]
    """
    if not len(rows):
        return np.zeros(0, np.int64)
    return np.concatenate(([0], np.cumsum((rows[1:] != rows[:-1]).any(1))))


def _in_order_of_units(codes: Ints, places: Ints, ranks: Ints) -> Ints:
    """Codes of pairs as those of the units of a state; those of units of one rank ascend."""
    of_units, found = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
    of_units[places] = codes
    found[np.argsort(ranks, kind="stable")] = of_units[np.lexsort((of_units, ranks))]
    return found


def _matched(first: Units, second: Units, names: tuple[str, str]) -> tuple[tuple[Ints, Ints], list[Hashable] | None]:
    """For each state the place of the unit of every pair, and the ids of the pairs; None: they have none."""
    if first.ids is not None and second.ids is not None:
        mine, other = ({key: place for place, key in enumerate(side.ids or ())} for side in (first, second))
        _check_same(first.unit, list(mine), list(other), names)
        return (np.arange(len(mine)), np.array([other[key] for key in mine], np.int64)), list(mine)
    if first.arrival is None or second.arrival is None:
        raise InputError(
            f"the {first.unit} of both sides must be told apart but have no ids: give every image of target an image_id"
        )
    if first.arrived != second.arrived:
        raise InputError(
            f"both sides must have the same {first.unit} but {first.arrived:,} came to {names[0]} and"
            f" {second.arrived:,} to {names[1]}"
        )
    places = np.argsort(first.arrival), np.argsort(second.arrival)
    keys = first.arrival[places[0]]
    if not np.array_equal(keys, second.arrival[places[1]]):
        _check_same(first.unit, keys.tolist(), second.arrival[places[1]].tolist(), names)
    return places, None


def _check_same(unit: str, first: Sequence[Hashable], second: Sequence[Hashable], names: tuple[str, str]) -> None:
    for name, mine, other in ((names[1], first, second), (names[0], second, first)):
        there = set(other)
        lacking = [key for key in mine if key not in there]
        if lacking:
            raise InputError(
                f"both sides must have the same {unit} but {len(lacking):,} of {len(mine):,} are missing from"
                f" {name}, such as {lacking[0]!r}"
            )


def _check_truths(first: Units, second: Units, places: tuple[Ints, Ints], ids: list[Hashable] | None) -> None:
    if first.truths is None or second.truths is None:
        return
    mine, other = first.truths[places[0]], second.truths[places[1]]
    if mine.shape != other.shape:
        shapes = " and ".join(str(list(side.shape)) for side in (mine, other))
        raise InputError(f"both sides must have the same {first.truth} but theirs have the shapes {shapes}")
    differs = (mine != other).any(tuple(range(1, mine.ndim)))
    if differs.any():
        place = int(differs.argmax())
        key = repr(ids[place]) if ids is not None else f"{_arrival(first)[places[0][place]]} (counted from 0)"
        raise InputError(f"both sides must have the same {first.truth} but that of {first.unit[:-1]} {key} differs")


def _check_parts(first: Units, second: Units) -> None:
    for name in dict.fromkeys((*first.parts, *second.parts)):
        mine, other = (set(side.parts.get(name, ())) for side in (first, second))
        if mine != other:
            raise InputError(
                f"both sides must have the same {name} but {in_order(mine ^ other)[0]!r} is of one of them alone"
            )


def _check_classes(first: Units, second: Units, names: tuple[str, str]) -> None:
    for key, mine in first.classes.items():
        other = second.classes.get(key, mine)
        if mine != other:
            raise InputError(
                f"both sides must have the same class names but {mine!r} of {names[0]} is {other!r} of {names[1]}"
            )


def _arrival(side: Units) -> Ints:
    assert side.arrival is not None
    return side.arrival


def _cluster_of(
    clusters: Mapping[Any, Any] | Sequence[Any], ids: list[Hashable] | None, side: Units, places: Ints
) -> list[Hashable]:
    """Cluster of each pair."""
    plain = plain_clusters(clusters)
    keys: list[Any] = _arrival(side)[places].tolist() if ids is None else ids
    if isinstance(plain, Mapping):
        lacking = [key for key in keys if key not in plain]
        if lacking:
            raise InputError(f"clusters must name every one of the {side.unit} but lack {in_order(lacking)[0]!r}")
        return [plain[key] for key in keys]
    expected = side.arrived if ids is None else len(keys)
    if len(plain) != expected:
        raise InputError(f"clusters must be one for each of {expected:,} {side.unit} but are {len(plain):,}")
    named = plain if ids is None else dict(zip(in_order(keys), plain))
    return [named[key] for key in keys]
