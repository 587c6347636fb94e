"""Makes a ComparisonResult of the numbers of two models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.comparison.choices import Choices
from valor_gpu.comparison.comparison_data import MODELS
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.comparison.families import Numbers, Path
from valor_gpu.comparison.sides import Side
from valor_gpu.exports.signature import Signature
from valor_gpu.stats.intervals import Intervals
from valor_gpu.stats.paired_states import PairedNumber
from valor_gpu.stats.power import detectable_difference, power_of, units_needed
from valor_gpu.stats.units import Pairing

_OBSERVED = (
    "observed power follows from the p-value alone and says nothing of a difference that would matter: give"
    " smallest_difference for that"
)
"""Source: Hoenig and Heisey, "The abuse of power" (2001)."""
_NO_PERMUTATION = "no permutation was made"
_NO_SWAP = "the states of these models cannot be joined, or too many permutations lack the number"


def built(
    sides: tuple[Side, Side],
    numbers: Numbers,
    p_adjusted: Mapping[Path, float],
    pairing: Pairing,
    choices: Choices,
    notes: Sequence[str],
    drawn_of: Mapping[str, int],
) -> ComparisonResult:
    """Returns the result of a pair of models.

    Args:
        sides: the models.
        numbers: by path.
        p_adjusted: by path.
        pairing: of the units.
        choices: of the comparison.
        notes: on differences between the sides that do not matter.
        drawn_of: units, or clusters, that are drawn of each slice.
    """
    columns = _columns(numbers, p_adjusted, pairing, choices, drawn_of)
    bootstrap = choices.bootstrap
    signature = Signature(
        {
            "metric": "compare",
            "of": sides[0].signature.get("metric", ""),
            "names": [side.name for side in sides],
            "replicates": bootstrap.replicates,
            "permutations": choices.permutations,
            "confidence": bootstrap.confidence,
            "seed": bootstrap.seed,
            "adjust": choices.adjust,
            "power": choices.power,
            **({} if choices.smallest_difference is None else {"smallest_difference": choices.smallest_difference}),
            "tests": tests_of(numbers),
            "notes": [*notes, *([_OBSERVED] if choices.observed_power else [])],
        }
    )
    intervals = Intervals(
        {f"difference/{'/'.join(path)}": each.interval for path, each in numbers.items()},
        {
            "replicates": bootstrap.replicates,
            "confidence": bootstrap.confidence,
            "seed": bootstrap.seed,
            "target": bootstrap.target,
            "unit": pairing.unit,
            "units": pairing.drawn,
        },
    )
    return ComparisonResult(
        {name: _nested(column) for name, column in columns.items()},
        signature,
        _counts(sides, pairing),
        _reasons(columns, numbers, sides, choices),
        provenance=lambda: dict(zip(MODELS, (side.result.provenance for side in sides))),
        intervals=intervals,
    )


def _counts(sides: tuple[Side, Side], pairing: Pairing) -> dict[str, int]:
    """What was drawn, units of clusters, and units that numbers leave out."""
    units = {sides[0].state.unit: pairing.units} if pairing.unit == "clusters" else {}
    left = {f"left_out_of_{name}": count for name, count in sides[0].left_out.items()}
    return {pairing.unit: pairing.drawn, **units, **left}


def tests_of(numbers: Numbers) -> dict[str, str]:
    """Returns the test and the hypothesis of each number; where all in a mapping share them, of the mapping."""
    groups: dict[str, dict[str, str]] = {}
    for path, each in numbers.items():
        groups.setdefault(path[0], {})["/".join(path)] = f"{each.test}: {each.null}"
    found: dict[str, str] = {}
    for group, tests in groups.items():
        shared = set(tests.values())
        found |= {group: shared.pop()} if len(shared) == 1 else tests
    return found


def _columns(
    numbers: Numbers,
    p_adjusted: Mapping[Path, float],
    pairing: Pairing,
    choices: Choices,
    drawn_of: Mapping[str, int],
) -> dict[str, dict[Path, float]]:
    confidence, smallest = choices.bootstrap.confidence, choices.smallest_difference
    detectable = {path: _detectable(each, confidence, choices.power) for path, each in numbers.items()}
    columns = {
        "first": {path: each.first for path, each in numbers.items()},
        "second": {path: each.second for path, each in numbers.items()},
        "difference": {path: each.difference for path, each in numbers.items()},
        "p": {path: each.p_value for path, each in numbers.items()},
        "p_adjusted": dict(p_adjusted),
        "p_permutation": {path: each.p_permutation for path, each in numbers.items()},
        "detectable": detectable,
    }
    if smallest is not None:
        columns["units_needed"] = {
            path: units_needed(drawn_of.get(path[1], 0) if len(path) == 3 else pairing.drawn, each, smallest)
            for path, each in detectable.items()
        }
    if choices.observed_power:
        columns["observed_power"] = {
            path: power_of(each.difference, each.spread, confidence) for path, each in numbers.items()
        }
    return columns


def _detectable(number: PairedNumber, confidence: float, power: float) -> float:
    return detectable_difference(number.spread, confidence, power)


def _reasons(
    columns: Mapping[str, Mapping[Path, float]], numbers: Numbers, sides: tuple[Side, Side], choices: Choices
) -> dict[str, str]:
    """Why a number of a column does not exist."""
    found: dict[str, str] = {}
    permutation = _NO_SWAP if choices.permutations else _NO_PERMUTATION
    for column, values in columns.items():
        for path, value in values.items():
            if not math.isnan(value):
                continue
            name, number = "/".join(path), numbers[path]
            reason = number.interval.reason
            if column in ("first", "second"):
                reason = sides[column == "second"].result.reason(name) or "the number does not exist"
            elif column == "p_permutation" and not math.isnan(number.difference):
                reason = permutation
            found[f"{column}/{name}"] = reason or "there is no standard error"
    return found


def _nested(column: Mapping[Path, float]) -> dict[str, Any]:
    """Paths as mappings."""
    found: dict[str, Any] = {}
    for path, value in column.items():
        place = found
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return found
