"""Comparisons as Markdown for pull requests: the verdict first, then a table of numbers, and of classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from valor_gpu.comparison.compared_numbers import Family, compared, confidence_of, model_names
from valor_gpu.comparison.comparison_text import ending, first_line, plain_number
from valor_gpu.gates.decisions import Decision
from valor_gpu.gates.markdown import LIMIT, markdown_code, markdown_summary, markdown_text
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import ComparedNumber
from valor_gpu.pages.texts import visible

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_result import ComparisonResult
    from valor_gpu.comparison.comparisons import Comparisons


def markdown(
    result: ComparisonResult,
    decisions: Sequence[Decision] = (),
    title: str = "",
    limit: int = LIMIT,
    over_pairs: bool = False,
) -> str:
    """Returns a comparison as Markdown of GitHub.

    Args:
        result: of :func:`valor_gpu.stats.compare`.
        decisions: of the gates, which the first line counts; empty: the first line is the answer.
        title: before the verdict, or of a pair of several models before the answer; empty: the names of the models.
        limit: bytes of UTF-8 at most. Classes that do not fit are left out, and a line says how many.
        over_pairs: the pair is one of several, below whose heading it stands: p-values are adjusted over the pairs.
    """
    found = compared(result, over_pairs)
    first, second = model_names(result)
    said = markdown_text(first_line(found))
    if decisions:
        parts = [markdown_summary(title or f"{second} against {first}", decisions).rstrip(), said]
    else:
        parts = [f"#### {markdown_code(title)}: {said}" if over_pairs else f"### {said}"]
    if found.numbers:
        p_name = "adjusted p" if over_pairs else "p"
        parts.append("\n".join([*_heads(found.numbers, result, "number", p_name), *_lines(found.numbers)]))
    notes = "\n".join(f"- {markdown_text(line)}" for line in ending(result, found))
    left = limit - sum(len(f"{part}\n\n".encode()) for part in [*parts, notes])
    for family in found.families:
        if not family.tested:
            continue
        table = _folded(family, result, left)
        left -= len(f"{table}\n\n".encode())
        parts.append(table)
    return "\n\n".join([*parts, notes]) + "\n"


def markdown_of_pairs(results: Comparisons, decisions: Sequence[Decision] = (), limit: int = LIMIT) -> str:
    """Returns comparisons of several models as Markdown: the gates, the answer of each pair, then its numbers.

    Args:
        results: of :func:`valor_gpu.stats.compare`.
        decisions: of the gates; empty: the heading names no gate.
        limit: bytes of UTF-8 at most.
    """
    title = f"{len(results)} pairs of models"
    head = markdown_summary(title, decisions) if decisions else f"### {title}\n"
    answers = (
        f"- {markdown_code(name)}: {markdown_text(first_line(compared(each, True)))}" for name, each in results.items()
    )
    parts = [head, "\n".join([*answers, ""])]
    left = (limit - sum(len(f"{part}\n".encode()) for part in parts)) // len(results)
    return "\n".join(
        [*parts, *(markdown(each, title=name, limit=left - 1, over_pairs=True) for name, each in results.items())]
    )


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
