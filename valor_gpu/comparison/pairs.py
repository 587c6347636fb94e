"""Numbers of several models under the same draws, and of each pair of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu.comparison.choices import Choices
from valor_gpu.comparison.sides import Side
from valor_gpu.exports.leaves import single_numbers
from valor_gpu.stats.paired_states import PairedNumber, Replicated, paired_methods, paired_numbers, replicated
from valor_gpu.stats.permuted_states import permuted
from valor_gpu.stats.units import Pairing, pair_all

Pairs = Sequence[tuple[int, int]]


def numbers_of_pairs(
    sides: Sequence[Side],
    pairs: Pairs,
    clusters: Mapping[Any, Any] | Sequence[Any] | None,
    choices: Choices,
) -> tuple[Pairing, list[dict[str, PairedNumber]]]:
    """Computes the differences of pairs of models; every model is drawn anew once.

    Args:
        sides: the models.
        pairs: places of the first and of the second model of each pair.
        clusters: of the units.
        choices: of the comparison.

    Returns:
        How the units were paired, and for each pair its numbers by leaf name.
    """
    states, values = [side.state for side in sides], [side.values for side in sides]
    single = {name for side in sides for name in single_numbers(side.result.values)}
    pairing = pair_all([state.identities() for state in states], clusters)
    methods = [paired_methods(each, state, choices.bootstrap).values() for each, state in zip(values, states)]
    needed = {method for each in methods for method in each}
    drawn = [replicated(state, codes, needed, choices.bootstrap) for state, codes in zip(states, pairing.codes)]
    values = [_known(each, single, model) for each, model in zip(values, drawn)]
    found = []
    for one, two in pairs:
        both = replace(pairing, codes=(pairing.codes[one], pairing.codes[two]))
        of = (values[one], values[two]), (states[one], states[two]), both
        numbers = paired_numbers(*of, choices.bootstrap, (drawn[one], drawn[two]))
        p_values = permuted(*of, numbers, choices.permutations, choices.bootstrap.seed)
        found.append({name: replace(each, p_permutation=p_values[name]) for name, each in numbers.items()})
    return pairing, found


def _known(values: Mapping[str, float], single: Collection[str], drawn: Replicated) -> dict[str, float]:
    """Numbers that stand alone, and those of mappings and arrays of which replicates have some."""
    sampled = {name for kind in drawn.kinds.values() for name in kind}
    held = {name.partition("/")[0] for name in sampled if "/" in name}
    return {
        name: value
        for name, value in values.items()
        if name in sampled or (name in single and ("/" not in name or name.partition("/")[0] in held))
    }
