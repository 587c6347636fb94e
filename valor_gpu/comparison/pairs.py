"""Numbers of several models under the same draws, and of each pair of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu._frozen import frozen
from valor_gpu.comparison.choices import Choices
from valor_gpu.comparison.sides import Side, shared_sides
from valor_gpu.exports.leaves import single_numbers
from valor_gpu.stats.paired_states import Codes, PairedNumber, Replicated, paired_methods, paired_numbers, replicated
from valor_gpu.stats.permuted_states import permuted
from valor_gpu.stats.units import Pairing, pair_all

Pairs = Sequence[tuple[int, int]]


@frozen
class Pair:
    """Two models under the same draws.

    Attributes:
        sides: the models, with the numbers of the units that both have.
        pairing: of their units.
        numbers: differences by leaf name.
    """

    sides: tuple[Side, Side]
    pairing: Pairing
    numbers: Mapping[str, PairedNumber]


def numbers_of_pairs(
    sides: Sequence[Side],
    pairs: Pairs,
    clusters: Mapping[Any, Any] | Sequence[Any] | None,
    choices: Choices,
) -> list[Pair]:
    """Computes the differences of pairs of models; a model is drawn anew once, however many pairs it is in.

    Where a model lacks a number for some units, those that a pair has in common are drawn for this pair alone.

    Args:
        sides: the models.
        pairs: places of the first and of the second model of each pair.
        clusters: of the units.
        choices: of the comparison.
    """
    joint: Pairing | None = None
    drawn: dict[int, Replicated] = {}
    found = []
    for places in pairs:
        both = shared_sides(sides[places[0]], sides[places[1]])
        whole = all(side.state is sides[place].state for side, place in zip(both, places))
        if not whole:
            pairing = _paired(both, clusters)
            found.append(_pair(both, pairing, choices, tuple(map(_drawing(choices), both, pairing.codes))))
            continue
        joint = joint or _paired(sides, clusters)
        for place in places:
            if place not in drawn:
                drawn[place] = _drawing(choices)(sides[place], joint.codes[place])
        pairing = replace(joint, codes=tuple(joint.codes[place] for place in places))
        found.append(_pair(both, pairing, choices, tuple(drawn[place] for place in places)))
    return found


def _paired(sides: Sequence[Side], clusters: Mapping[Any, Any] | Sequence[Any] | None) -> Pairing:
    return pair_all([side.state.identities() for side in sides], clusters, [side.called for side in sides])


def _drawing(choices: Choices) -> Callable[[Side, Codes], Replicated]:
    """Draws a model anew."""

    def draw(side: Side, codes: Codes) -> Replicated:
        methods = paired_methods(side.values, side.state, choices.bootstrap).values()
        return replicated(side.state, codes, methods, choices.bootstrap)

    return draw


def _pair(both: tuple[Side, Side], pairing: Pairing, choices: Choices, drawn: tuple[Replicated, ...]) -> Pair:
    single = {name for side in both for name in single_numbers(side.result.values)}
    refused = {name for side in both for name in side.state.refused()}
    values = [_known(side.values, single, refused, each) for side, each in zip(both, drawn)]
    of = (values[0], values[1]), (both[0].state, both[1].state), pairing
    numbers = paired_numbers(*of, choices.bootstrap, (drawn[0], drawn[1]))
    p_values = permuted(*of, numbers, choices.permutations, choices.bootstrap.seed)
    return Pair(both, pairing, {name: replace(each, p_permutation=p_values[name]) for name, each in numbers.items()})


def _known(
    values: Mapping[str, float], single: Collection[str], refused: Collection[str], drawn: Replicated
) -> dict[str, float]:
    """Numbers that replicates have, or refuse with a reason, and all numbers of mappings of which they have some."""
    sampled = {name for kind in drawn.kinds.values() for name in kind}.union(refused)
    held = {name.partition("/")[0] for name in sampled if "/" in name}
    return {
        name: value
        for name, value in values.items()
        if not sampled or name in sampled or (name in single and "/" in name and name.partition("/")[0] in held)
    }
