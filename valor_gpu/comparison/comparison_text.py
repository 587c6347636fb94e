"""Comparisons as text: the answer first, then the numbers, what the data could show, and what was tested."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from valor_gpu.comparison.compared_numbers import (
    Compared,
    Family,
    compared,
    confidence_of,
    hypotheses_of,
    model_names,
    notes_of,
)
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import ComparedNumber
from valor_gpu.pages.texts import visible
from valor_gpu.stats.paired_states import PERMUTATION_NULL

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_data import ComparisonData

_NAMED, _NUMBERS = 5, 14
"""Classes and numbers that the text names; tables have all."""
_NAMES = {"delong": "DeLong", "mcnemar": "McNemar", "mcnemar_clusters": "McNemar with clusters"}
"""Tests with the names of people."""


def answer(result: ComparisonData) -> str:
    """Returns the answer on one line: the first difference, its interval and p-value, and how many classes differ."""
    return first_line(compared(result))


def comparison_text(result: ComparisonData) -> str:
    """Returns the text of a comparison."""
    found = compared(result)
    lines = [first_line(found)]
    if found.numbers:
        lines += ["", *_table(found.numbers, result), ""]
    for family in found.told:
        lines.append(_family_line(family, result))
        if family.plural == "slices":
            lines += ["", *_table(family.rows, result, "adjusted p"), ""]
    return "\n".join([*lines, *ending(result, found)])


def comparisons_text(results: Mapping[str, ComparisonData]) -> str:
    """Returns the text of several comparisons: a line for each, and what was drawn and tested.

    P-values are those that are adjusted over all pairs.
    """
    wide = max((len(visible(name)) for name in results), default=0)
    shown = {f"{visible(name):<{wide}}  ": (each, compared(each, True)) for name, each in results.items()}
    lines = [f"{name}{first_line(found)}" for name, (_, found) in shown.items()]
    lines += [f"{name}{line}" for name, (each, found) in shown.items() for line in power_lines(each, found)]
    lines += dict.fromkeys(line for each, found in shown.values() for line in _basis(each, found))
    lines += [f"p adjusted over pairs by {_adjustment(each)}" for each in list(results.values())[-1:]]
    return "\n".join(lines)


def ending(result: ComparisonData, found: Compared) -> Iterator[str]:
    """Yields the last lines: what the data could show, what was drawn, what the tests are of, and notes."""
    first = found.headline
    if first is not None and not math.isnan(first.detectable):
        power = float(result.signature.get("power") or 0.8)
        size = plain_number(first.detectable, first.decimals)
        yield f"these data can show a difference of {visible(first.name)} of {size} or more, with power {power:g}"
    yield from power_lines(result, found)
    yield from _reason_lines(found)
    yield from _basis(result, found)


def _reason_lines(found: Compared) -> Iterator[str]:
    """Why numbers beside the first, which says so itself, have no interval."""
    named: dict[str, list[str]] = {}
    for row in found.numbers[1:]:
        if not row.has_interval and row.note:
            named.setdefault(row.note, []).append(row.name)
    yield from (f"no interval of {_listed(names)}: {visible(reason)}" for reason, names in named.items())


def _basis(result: ComparisonData, found: Compared) -> Iterator[str]:
    """What was drawn, what the tests are of, and notes."""
    yield ", ".join(drawn(result))
    yield from hypothesis_lines(result, found)
    yield from (f"note: {visible(note)}" for note in notes_of(result))


def power_lines(result: ComparisonData, found: Compared) -> Iterator[str]:
    """Yields what was asked about power: how much data a difference takes, and the power for the one that was seen."""
    first = found.headline
    if first is None:
        return
    needed = result.values.get("units_needed", {}).get(first.name, math.nan)
    if not math.isnan(needed):
        unit = next((name for name in result.counts), "units")
        smallest = result.signature.get("smallest_difference")
        yield f"a difference of {smallest:g} takes {int(needed):,} {unit}"
    observed = result.values.get("observed_power", {}).get(first.name, math.nan)
    if not math.isnan(observed):
        yield f"power for the difference that was seen: {observed:.2f}"


def _adjustment(result: ComparisonData) -> str:
    words = {"max_t": "maxT", "holm": "Holm", "benjamini_hochberg": "Benjamini-Hochberg"}
    words["benjamini_yekutieli"] = "Benjamini-Yekutieli"
    chosen = str(result.signature.get("adjust") or "")
    return words.get(chosen, chosen)


def drawn(result: ComparisonData) -> Iterator[str]:
    """Yields what was drawn, and how often."""
    signature = result.signature
    yield from (_counted(visible(name.replace("_", " ")), count) for name, count in result.counts.items() if count)
    yield f"{int(signature.get('replicates') or 0):,} replicates"
    if signature.get("permutations"):
        permutations = int(signature["permutations"])
        yield f"{permutations:,} permutations (smallest p {1 / (permutations + 1):.2g})"
    yield f"{100 * confidence_of(result):g}% intervals"
    yield f"seed {signature.get('seed')}"


def _counted(plural: str, count: int) -> str:
    """A count with its unit, which loses its last letter where the count is 1."""
    return f"{count:,} {plural[:-1] if count == 1 and plural.endswith('s') else plural}"


def hypothesis_lines(result: ComparisonData, found: Compared) -> Iterator[str]:
    """Yields each test with the hypothesis that it tests."""
    untested = {row.name for row in found.numbers if math.isnan(row.p_value)}
    untested |= {family.name for family in found.families if not family.tested}
    of_all = {test: [name for name in names if name not in untested] for test, names in hypotheses_of(result).items()}
    tests = {test: names for test, names in of_all.items() if names}
    for test, named in tests.items():
        method, _, null = test.partition(": ")
        of = "" if len(tests) == 1 else f" of {_listed(named)}"
        yield f"p{of}: {_NAMES.get(method, method.replace('_', ' '))}; null hypothesis: {null or 'not said'}"
    if any(not math.isnan(row.p_permutation) for row in found.numbers):
        yield f"permutation p: null hypothesis: {PERMUTATION_NULL}"


def plain_number(value: float, decimals: int, sign: bool = False) -> str:
    """A number in ASCII.

    Example:
        >>> plain_number(-0.0061, 3), plain_number(0.0061, 3, sign=True), plain_number(float("nan"), 3)
        ('-0.006', '+0.006', '-')
    """
    text = (numbers.difference if sign else numbers.number)(value, decimals)
    return text.replace(numbers.MINUS, "-").replace(numbers.NOTHING, "-")


def difference_text(row: ComparedNumber) -> str:
    """A difference with its interval and p-value.

    Example:
        >>> print(difference_text(ComparedNumber("map", 0.340, 0.346, 0.006, 0.001, 0.011, 0.021)))
        map +0.006 (0.001 to 0.011), p 0.021
    """
    name = visible(row.name)
    if math.isnan(row.difference):
        return f"{name}: no difference: {row.note or 'a model has no number'}"
    text = f"{name} {plain_number(row.difference, row.decimals, sign=True)}"
    if row.has_interval:
        text += f" ({plain_number(row.low, row.decimals)} to {plain_number(row.high, row.decimals)})"
    elif row.note:
        text += f", no interval: {visible(row.note)}"
    return text if math.isnan(row.p_value) else f"{text}, {p_text(row.p_value)}"


def nested_text(family: Family, row: ComparedNumber) -> str:
    """A difference of a class or a slice; the name of a class that is a number gets a word.

    Example:
        >>> print(nested_text(Family("f1_per_class", "classes", ()), ComparedNumber("3", 0.5, 0.6, 0.1)))
        class 3 +0.100
    """
    return (
        f"class {difference_text(row)}" if family.plural == "classes" and row.name.isdigit() else difference_text(row)
    )


def p_text(value: float) -> str:
    """A p-value with its letter.

    Example:
        >>> p_text(0.021), p_text(0.0002)
        ('p 0.021', 'p < 0.001')
    """
    return f"p {numbers.p_value(value)}"


def first_line(found: Compared) -> str:
    """The answer on one line."""
    family = found.headline_family
    if found.headline is None:
        return "no number can be compared" if family is None else f"{family.name}: {family.summary}"
    return difference_text(found.headline) + ("" if family is None else f"; {family.summary}")


def _family_line(family: Family, result: ComparisonData) -> str:
    different, untested = family.different, len(family.rows) - len(family.tested)
    parts = [family.summary if family.tested else f"{len(family.rows):,} {family.plural}, none of them tested"]
    if different:
        named = "; ".join(nested_text(family, row) for row in different[:_NAMED])
        more = len(different) - _NAMED
        parts[0] += f": {named}{f'; and {more:,} more' if more > 0 else ''}"
    if untested and family.tested:
        parts.append(f"{untested:,} not tested{_shared_reason(family)}")
    elif untested:
        parts[0] += _shared_reason(family)
    if _adjustment(result) and family.tested:
        parts.append(f"p adjusted by {_adjustment(result)}")
    return f"{visible(family.name)}: {'; '.join(parts)}"


def _shared_reason(family: Family) -> str:
    """The reason that most untested rows have, without its numbers."""
    reasons = [row.note.partition(":")[0] for row in family.rows if math.isnan(row.p_value) and row.note]
    if not reasons:
        return ""
    most = max(dict.fromkeys(reasons), key=reasons.count)
    return f": {most}" if len(set(reasons)) == 1 else f": mostly {most}"


def _table(rows: Sequence[ComparedNumber], result: ComparisonData, p_name: str = "p") -> list[str]:
    """Aligned columns; those that nothing fills are left out."""
    columns: dict[str, list[str]] = {"": [visible(row.name) for row in rows]}
    for name, attribute in zip(model_names(result), ("first", "second")):
        columns[visible(name)] = [plain_number(getattr(row, attribute), row.decimals) for row in rows]
    columns["difference"] = [plain_number(row.difference, row.decimals, sign=True) for row in rows]
    columns["interval"] = [_between(row) for row in rows]
    columns[p_name] = [_p_cell(row.p_value) for row in rows]
    if any(not math.isnan(row.p_permutation) for row in rows):
        columns["permutation p"] = [_p_cell(row.p_permutation) for row in rows]
    if any(not math.isnan(row.detectable) for row in rows):
        columns["detectable"] = [plain_number(row.detectable, row.decimals) for row in rows]
    shown = {name: cells[:_NUMBERS] for name, cells in columns.items()}
    wide = [max(map(len, (name, *cells))) for name, cells in shown.items()]
    lines = [list(shown), *zip(*shown.values())]
    left = len(rows) - _NUMBERS
    aligned = [_aligned(line, wide) for line in lines]
    return [*aligned, *([f"and {left:,} more, which table() has"] if left > 0 else [])]


def _aligned(cells: Sequence[str], wide: Sequence[int]) -> str:
    """Cells, the first flush left, the others flush right."""
    first, *others = (f"{cell:{'>' if place else '<'}{width}}" for place, (cell, width) in enumerate(zip(cells, wide)))
    return "  ".join([first, *others]).rstrip()


def _between(row: ComparedNumber) -> str:
    if not row.has_interval:
        return "-"
    return f"{plain_number(row.low, row.decimals)} to {plain_number(row.high, row.decimals)}"


def _p_cell(value: float) -> str:
    return "-" if math.isnan(value) else numbers.p_value(value)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(visible, names[:_NAMED]))
    return shown + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
