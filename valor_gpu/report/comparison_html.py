"""The report of a comparison as one HTML file: the answer, numbers, classes, slices, tests and choices."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from valor_gpu.checks import check_type
from valor_gpu.comparison.compared_numbers import Compared, Family, compared, confidence_of, model_names, notes_of
from valor_gpu.comparison.comparison_markup import family_table, hypothesis_paragraphs, number_table
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.comparison.comparison_text import answer, difference_text
from valor_gpu.exports.files import write_text
from valor_gpu.exports.texts import choice_text
from valor_gpu.pages import numbers
from valor_gpu.pages.markup import Column, joined, name_of, page, section, table, tag, warning
from valor_gpu.pages.texts import Html
from valor_gpu.report.document import versions
from valor_gpu.report.titles import title, words_of

_STYLE = """
table.compared td.n, table.compared th.n { min-width: 4.6rem; }
details > .scroll { margin-top: var(--s2); }
section h3 { margin-top: var(--s2); }
.answer { font-size: var(--t3, 1.25rem); overflow-wrap: anywhere; }
"""
_LISTED = ("tests", "notes")
"""Choices that have a section of their own."""


def comparison_report(result: ComparisonResult, heading: str = "Is the second model better?") -> str:
    """Returns a page that a browser shows without a network and without a script, light and dark, also printed.

    It has the answer, the numbers of both models with the intervals of their differences on one scale, classes and
    slices with those that differ first, the tests with their null hypotheses, and the choices. Equal arguments give
    equal bytes.

    Args:
        result: of :func:`valor_gpu.stats.compare`.
        heading: of the page.

    Raises:
        InputTypeError: ``result`` is of another type.

    Example:
        >>> from valor_gpu.stats import compare
        >>> page = comparison_report(compare(old, new), "yolo-m, epoch 40 against 30")  # doctest: +SKIP
    """
    check_type("result", result, ComparisonResult)
    found = compared(result)
    parts = [("numbers", "Numbers", _number_section(found, result))]
    for place, family in enumerate(found.families):
        name = f"family-{place + 1}"
        parts.append((name, words_of(family.name), _family_section(name, family, result)))
    parts.append(("tests", "Tests", section("tests", "Tests", *hypothesis_paragraphs(result, found))))
    parts.append(("choices", "Choices", _choice_section(result)))
    made = f"Made by valor_gpu {versions()['valor_gpu']}. A middle dot is a number that does not exist."
    foot = tag("footer", made, class_="small dim")
    head = joined([_head(result, found, heading), *(warning(note) for note in notes_of(result))])
    return page(f"{heading} · comparison", "Comparison", parts, head, foot, _STYLE)


def write_comparison(path: str | os.PathLike[str], result: ComparisonResult, heading: str | None = None) -> None:
    """Writes :func:`comparison_report` to a file, in one step.

    Args:
        path: of the file.
        result: of :func:`valor_gpu.stats.compare`.
        heading: of the page; None: the names of the models.

    Raises:
        OSError: the file cannot be written; an older one stays as it is.
    """
    first, second = model_names(result)
    write_text(path, comparison_report(result, f"{second} against {first}" if heading is None else heading))


def _head(result: ComparisonResult, found: Compared, heading: str) -> Html:
    top = tag("div", tag("div", tag("h1", name_of(heading))), class_="head")
    facts: dict[str, str] = {name.replace("_", " "): f"{count:,}" for name, count in result.counts.items() if count}
    facts["metric"] = str(result.signature.get("of") or "")
    facts["replicates"] = f"{int(result.signature.get('replicates') or 0):,}"
    facts["confidence"] = f"{100 * confidence_of(result):g}%"
    first = found.headline
    if first is not None and not math.isnan(first.detectable):
        power = float(result.signature.get("power") or 0.8)
        facts[f"detectable with power {power:g}"] = numbers.number(first.detectable, first.decimals)
    said = tag("p", answer(result), class_="answer panel pad")
    return joined([top, said, _facts(facts)])


def _facts(facts: Mapping[str, str]) -> Html:
    shown = [tag("div", tag("dt", name), tag("dd", text)) for name, text in facts.items() if text]
    return tag("dl", *shown, class_="facts panel pad")


def _number_section(found: Compared, result: ComparisonResult) -> Html:
    if not found.numbers:
        return section("numbers", "Numbers", warning("Both models have no number in common."))
    named = ", ".join(
        f"{name} is {words}{f' ({of})' if of else ''}"
        for name in dict.fromkeys(row.name for row in found.numbers)
        for words, of in [title(name)]
        if words != name
    )
    notes = [tag("p", named, class_="small dim")] if named else []
    return section("numbers", "Numbers", number_table(found, result), *notes, note="differences are second less first")


def _family_section(name: str, family: Family, result: ComparisonResult) -> Html:
    parts: list[object] = []
    if family.different:
        first = family.different[0]
        parts.append(tag("p", f"Clearest: {difference_text(first)}.", class_="small"))
    parts.append(family_table(family, result))
    note = f"{family.summary}; {len(family.rows) - len(family.tested):,} not tested"
    return section(name, words_of(family.name), *parts, note=note)


def _choice_section(result: ComparisonResult) -> Html:
    rows = [(name, choice_text(value)) for name, value in result.signature.items() if name not in _LISTED]
    rows += [(name, text) for name, text in versions().items() if text]
    shown = table([Column("choice"), Column("value")], rows, "Choices and versions")
    return section("choices", "Choices", tag("details", tag("summary", "Choices and versions"), shown))
