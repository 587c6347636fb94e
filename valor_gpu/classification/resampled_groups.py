"""Counts of groups as the bootstrap asks them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from valor_gpu.classification.resampled_classes import rows_of
from valor_gpu.reduce.group_rates import CRITERIA, FALSE_ALARM, LONG, gap_of, group_rates, trials_of_rates
from valor_gpu.stats.cell_rows import CellRows
from valor_gpu.stats.counts import Counts, ResampledCounts
from valor_gpu.stats.resample import Codes, Floats

PARTS = ("tp", "fp", "tn", "fn")
_WORST = "the worse of two gaps: a replicate makes it larger than it is"


class _Groups(ResampledCounts):
    """Cells of groups, whose numbers are rates, ratios and differences of rates."""

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the least and the largest value that a number can have."""
        if name.endswith("_ratio"):
            return 0.0, math.inf
        return (-1.0, 1.0) if name.endswith("_difference") else (0.0, 1.0)


def resampled_parts(counts: Floats, rows: int, names: Sequence[str]) -> ResampledCounts:
    """Returns the fractions of the members of groups as the bootstrap asks them.

    Args:
        counts: ``[G, 4]``, in the order of :data:`PARTS`.
        rows: that they are of.
        names: of the groups.

    Raises:
        InputError: they are sums of weights.
    """
    wholes = counts.sum(1)
    trials = {
        f"group_{name}/{part}": (int(count), int(whole))
        for name, row, whole in zip(names, counts, wholes)
        for part, count in zip(PARTS, row)
    }

    def numbers(table: Floats) -> dict[str, float]:
        with np.errstate(invalid="ignore"):
            fractions = table / table.sum(1, keepdims=True)
        return dict(zip(trials, fractions.reshape(-1).tolist()))

    return _groups(counts, rows, numbers, proportions=trials)


def resampled_gaps(counts: Floats, rows: int, names: Sequence[str], criterion: str) -> ResampledCounts:
    """Returns rates of groups, and how far those of two are apart, as the bootstrap asks them.

    The two groups are those of the lowest and of the highest rate in the data: the least and the largest rate of each
    replicate would be further apart.

    Args:
        counts: ``[G, 4]``, in the order of :data:`PARTS`.
        rows: that they are of.
        names: of the groups.
        criterion: one of :data:`valor_gpu.reduce.group_rates.CRITERIA`.

    Raises:
        InputError: they are sums of weights.
    """
    rates, trials = group_rates(counts), trials_of_rates(counts)
    pairs = {rate: gap_of(rates[rate])[:2] for rate in CRITERIA[criterion].values()}
    shown = [*pairs, *([FALSE_ALARM] if criterion == "all" else [])]
    gaps = {LONG[short]: rate for short, rate in CRITERIA[criterion].items()}

    def numbers(table: Floats) -> dict[str, float]:
        drawn = group_rates(table)
        found = {f"{rate}/{name}": each for rate in shown for name, each in zip(names, drawn[rate].tolist())}
        for gap, rate in gaps.items():
            low, high = (float(drawn[rate][place]) for place in pairs[rate])
            found |= {f"{gap}_ratio": low / high if high > 0 else math.nan, f"{gap}_difference": high - low}
        return found

    fewest = {gap: int(min(trials[rate][1][place] for place in pairs[rate])) for gap, rate in gaps.items()}
    kinds = ("ratio", "difference")
    return _groups(
        counts,
        rows,
        numbers,
        supports={f"{gap}_{kind}": members for gap, members in fewest.items() for kind in kinds},
        refused={f"equalized_odds_{kind}": _WORST for kind in kinds} if criterion == "all" else {},
        proportions={
            f"{rate}/{name}": (int(part), int(whole))
            for rate in shown
            for name, part, whole in zip(names, *trials[rate])
        },
    )


def rows_of_groups(cells: ResampledCounts, codes: Codes) -> CellRows:
    """Returns the elements of groups one by one as the bootstrap asks them.

    Args:
        cells: of groups.
        codes: int64 ``[N]``, the cell of each element, or -1.
    """
    positive = np.array([True, False, False, True])  # of PARTS
    return CellRows(codes, [cells], [lambda kinds: kinds], lambda kinds: 2 * (kinds // 4) + positive[kinds % 4], False)


def _groups(
    counts: Floats, rows: int, numbers: Callable[[Floats], Mapping[str, float]], **choices: Any
) -> ResampledCounts:
    cells: Counts = rows_of(counts.reshape(1, -1), rows)
    made = "make the metric with keep_rows=True"
    return _Groups(cells, lambda table: numbers(table.reshape(counts.shape)), keeps=made, **choices)
