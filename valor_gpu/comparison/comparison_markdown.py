"""Comparisons as Markdown for pull requests: the verdict first, then a table of numbers and one of classes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.comparison.compared_numbers import Compared, Family, compared, confidence_of, model_names
from valor_gpu.comparison.comparison_text import answer, ending, plain_number
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import ComparedNumber
from valor_gpu.pages.texts import escape, visible

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_result import ComparisonResult

MOST_ROWS = 100
"""Classes of a table; those that are left out are counted."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")
_CALLS = re.compile(r"(@|#|:(?=//))")
"""What GitHub turns into a mention or a link, also where a backslash stands before it."""


def markdown(result: ComparisonResult, gates: Sequence[Any] = (), most: int = MOST_ROWS) -> str:
    """Returns a comparison as Markdown of GitHub.

    Args:
        result: of :func:`valor_gpu.stats.compare`.
        gates: texts of the gates that hold, the first of which is the verdict; empty: none was asked for, or none
            holds.
        most: rows of the table of classes.
    """
    found = compared(result)
    parts = [f"**{_verdict(found, gates)}**", escaped(answer(result))]
    parts += [f"- failed: {_code(str(gate))}" for gate in gates]
    if found.numbers:
        parts.append("\n".join(_table(found.numbers, result, "number", "p")))
    parts += ["\n".join(_folded(family, result, most)) for family in found.families if family.tested]
    parts.append("  \n".join(f"<sub>{escaped(line)}</sub>" for line in ending(result, found)))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    r"""Text of others, in which nothing is markup, on one line.

    Example:
        >>> print(escaped("a|b <c> @team\nx"))
        a\|b \<c\> @&#8203;team x
    """
    return _CALLS.sub(r"\1&#8203;", _SPECIAL.sub(r"\\\1", " ".join(visible(text).split())))


def _verdict(found: Compared, gates: Sequence[Any]) -> str:
    if gates:
        return f"Failed: {len(gates):,} gate{'s' if len(gates) > 1 else ''}"
    first = found.headline
    if first is None or math.isnan(first.p_value):
        return "Not tested"
    if first.is_shown:
        return f"{escaped(first.name)} is {first.reading}"
    return f"No difference of {escaped(first.name)} shown"


def _code(text: str) -> str:
    """Text within backquotes, more of them than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    inner = " ".join(visible(text).split())
    return f"{fence} {inner} {fence}" if "`" in inner else f"{fence}{inner}{fence}"


def _folded(family: Family, result: ComparisonResult, most: int) -> Iterator[str]:
    """A table that opens; those that differ come first."""
    rows = family.ordered
    heading = "class" if family.plural == "classes" else "slice"
    yield f"<details><summary>{escape(visible(family.name))}: {family.summary}</summary>\n"
    yield from _table(rows[:most], result, heading, "adjusted p")
    if len(rows) > most:
        yield f"\nand {len(rows) - most:,} more {family.plural}"
    yield "\n</details>"


def _table(rows: Sequence[ComparedNumber], result: ComparisonResult, heading: str, p_name: str) -> Iterator[str]:
    has_permutation = any(not math.isnan(row.p_permutation) for row in rows)
    has_detectable = any(not math.isnan(row.detectable) for row in rows)
    heads = [heading, *map(escaped, model_names(result)), "difference", f"{100 * confidence_of(result):g}% interval"]
    heads += [p_name, *["permutation p"] * has_permutation, *["detectable"] * has_detectable, "reading"]
    yield f"| {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * (len(heads) - 2)} --- |"
    for row in rows:
        cells = [escaped(row.name), *(plain_number(each, row.decimals) for each in (row.first, row.second))]
        cells += [plain_number(row.difference, row.decimals, sign=True), _between(row), _p_cell(row.p_value)]
        cells += [_p_cell(row.p_permutation)] if has_permutation else []
        cells += [plain_number(row.detectable, row.decimals)] if has_detectable else []
        yield f"| {' | '.join([*cells, row.reading])} |"


def _between(row: ComparedNumber) -> str:
    ends = (plain_number(end, row.decimals, sign=True) for end in (row.low, row.high))
    return " to ".join(ends) if row.has_interval else "-"


def _p_cell(value: float) -> str:
    return "-" if math.isnan(value) else numbers.p_value(value).replace("<", "&lt;")
