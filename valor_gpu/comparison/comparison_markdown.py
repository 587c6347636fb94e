"""Comparisons as Markdown for pull requests: the verdict first, then a table of numbers, and of classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from valor_gpu.comparison.compared_numbers import Family, compared, confidence_of, model_names
from valor_gpu.comparison.comparison_text import answer, ending, plain_number
from valor_gpu.gates.decisions import Decision
from valor_gpu.gates.markdown import LIMIT, markdown_code, markdown_summary, markdown_text
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import ComparedNumber
from valor_gpu.pages.texts import visible

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_result import ComparisonResult


def markdown(result: ComparisonResult, decisions: Sequence[Decision] = (), title: str = "", limit: int = LIMIT) -> str:
    """Returns a comparison as Markdown of GitHub.

    Args:
        result: of :func:`valor_gpu.stats.compare`.
        decisions: of the gates, which the first line counts; empty: the first line is the answer.
        title: before the verdict; empty: the names of the models.
        limit: bytes of UTF-8 at most. Classes that do not fit are left out, and a line says how many.
    """
    found = compared(result)
    first, second = model_names(result)
    head = markdown_summary(title or f"{second} against {first}", decisions) if decisions else ""
    parts = [head.rstrip(), markdown_text(answer(result))] if decisions else [f"### {markdown_text(answer(result))}"]
    if found.numbers:
        parts.append("\n".join([*_heads(found.numbers, result, "number", "p"), *_lines(found.numbers)]))
    notes = "\n".join(f"- {markdown_text(line)}" for line in ending(result, found))
    left = limit - sum(len(f"{part}\n\n".encode()) for part in [*parts, notes])
    for family in found.families:
        if not family.tested:
            continue
        table = _folded(family, result, left)
        left -= len(f"{table}\n\n".encode())
        parts.append(table)
    return "\n\n".join([*parts, notes]) + "\n"


def _folded(family: Family, result: ComparisonResult, limit: int) -> str:
    """A table that opens, those that differ first, of at most ``limit`` bytes."""
    rows = family.ordered
    heading = "class" if family.plural == "classes" else "slice"
    head = f"<details><summary>{markdown_code(visible(family.name))}: {family.summary}</summary>\n"
    table = [head, *_heads(rows, result, heading, "adjusted p")]
    tail = "\n</details>"
    left = limit - sum(len(f"{line}\n".encode()) for line in [*table, _rest(len(rows), family), tail])
    for place, line in enumerate(_lines(rows)):
        left -= len(f"{line}\n".encode())
        if left < 0:
            table.append(_rest(len(rows) - place, family))
            break
        table.append(line)
    return "\n".join([*table, tail])


def _rest(count: int, family: Family) -> str:
    return f"\nand {count:,} more {family.plural}"


def _heads(rows: Sequence[ComparedNumber], result: ComparisonResult, heading: str, p_name: str) -> list[str]:
    first, second = map(markdown_text, model_names(result))
    heads = [heading, first, second, "difference", f"{100 * confidence_of(result):g}% interval", p_name]
    heads += ["permutation p"] * _has(rows, "p_permutation") + ["detectable"] * _has(rows, "detectable")
    return [f"| {' | '.join(heads)} | reading |", f"| --- |{' ---: |' * (len(heads) - 1)} --- |"]


def _lines(rows: Sequence[ComparedNumber]) -> Iterator[str]:
    has_permutation, has_detectable = _has(rows, "p_permutation"), _has(rows, "detectable")
    for row in rows:
        cells = [markdown_code(visible(row.name)), *(plain_number(n, row.decimals) for n in (row.first, row.second))]
        cells += [plain_number(row.difference, row.decimals, sign=True), _between(row), _p_cell(row.p_value)]
        cells += [_p_cell(row.p_permutation)] if has_permutation else []
        cells += [plain_number(row.detectable, row.decimals)] if has_detectable else []
        yield f"| {' | '.join(cells)} | {row.reading} |"


def _has(rows: Sequence[ComparedNumber], attribute: str) -> bool:
    """Whether some row has this number."""
    return any(not math.isnan(getattr(row, attribute)) for row in rows)


def _between(row: ComparedNumber) -> str:
    ends = (plain_number(end, row.decimals, sign=True) for end in (row.low, row.high))
    return " to ".join(ends) if row.has_interval else "-"


def _p_cell(value: float) -> str:
    return "-" if math.isnan(value) else markdown_text(numbers.p_value(value))
