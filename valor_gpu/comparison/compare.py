"""compare: is one model better than another on the same data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.comparison.same_protocol import check_protocols
from valor_gpu.comparison.sides import Side, shared_sides, side_of
from valor_gpu.exports.signature import Signature
from valor_gpu.stats.comparisons import adjust_holm
from valor_gpu.stats.intervals import Bootstrap, Intervals
from valor_gpu.stats.paired_states import PairedNumber, paired_numbers
from valor_gpu.stats.units import Pairing, pair_units


def compare(
    first: Any,
    second: Any,
    *,
    replicates: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    clusters: Mapping[Any, Any] | Sequence[Any] | None = None,
) -> ComparisonResult:
    """Compares two models on the same data.

    A number is of the units that both models have it for: a row that failed for one of two is left out of both means,
    and counted as ``left_out_of_<number>``.

    Args:
        first: the model that is there: a result of this process, a metric, or the path of a state file.
        second: the model that may replace it; likewise.
        replicates: of the bootstrap.
        confidence: of the intervals.
        seed: of the draws.
        clusters: of the units, which are drawn as a whole; see :class:`valor_gpu.stats.Bootstrap`.

    Returns:
        Differences, second less first, with paired intervals and tests.

    Raises:
        InputError: the sides have other units, thresholds or protocols; it names the first difference.
    """
    sides = shared_sides(side_of(first, "first"), side_of(second, "second"))
    notes = [*sides[0].notes, *sides[1].notes, *check_protocols(sides[0].signature, sides[1].signature)]
    choices = Bootstrap(replicates, confidence, seed)
    states = sides[0].state, sides[1].state
    pairing = pair_units(states[0].identities(), states[1].identities(), clusters)
    numbers = paired_numbers((sides[0].values, sides[1].values), states, pairing, choices)
    return _made(sides[0], numbers, pairing, choices, notes)


def _made(
    side: Side, numbers: Mapping[str, PairedNumber], pairing: Pairing, choices: Bootstrap, notes: Sequence[str]
) -> ComparisonResult:
    adjusted = _adjusted(numbers)
    columns: dict[str, dict[str, float]] = {
        "first": {name: each.first for name, each in numbers.items()},
        "second": {name: each.second for name, each in numbers.items()},
        "difference": {name: each.difference for name, each in numbers.items()},
        "p": {name: each.p_value for name, each in numbers.items()},
        "p_adjusted": adjusted,
        "p_permutation": {name: each.p_permutation for name, each in numbers.items()},
        "detectable": dict.fromkeys(numbers, math.nan),
    }
    signature = Signature(
        {
            "metric": "compare",
            "of": side.signature.get("metric", ""),
            "replicates": choices.replicates,
            "confidence": choices.confidence,
            "seed": choices.seed,
            "tests": {name: f"{each.test}: {each.null}" for name, each in numbers.items()},
            "notes": list(notes),
        }
    )
    intervals = Intervals({f"difference/{name}": each.interval for name, each in numbers.items()})
    reasons = {f"p/{name}": each.interval.reason for name, each in numbers.items() if each.interval.reason}
    values = {name: _nested(column) for name, column in columns.items()}
    counts = {pairing.unit: pairing.drawn, **{f"left_out_of_{name}": count for name, count in side.left_out.items()}}
    return ComparisonResult(values, signature, counts, reasons, intervals=intervals)


def _adjusted(numbers: Mapping[str, PairedNumber]) -> dict[str, float]:
    """p-values adjusted over the classes of each number."""
    families: dict[str, list[str]] = {}
    for name in numbers:
        families.setdefault(name.partition("/")[0] if "/" in name else f"{name}/", []).append(name)
    found: dict[str, float] = {}
    for names in families.values():
        found |= dict(zip(names, adjust_holm([numbers[name].p_value for name in names])))
    return found


def _nested(column: Mapping[str, float]) -> dict[str, Any]:
    """Names with ``/`` as mappings."""
    found: dict[str, Any] = {}
    for name, value in column.items():
        *path, last = name.split("/", 1)
        (found.setdefault(path[0], {}) if path else found)[last] = value
    return found
