"""The report of a comparison as one HTML file: the answer, numbers, classes, slices, tests and choices."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.comparison.compared_numbers import Compared, Family, compared, confidence_of, model_names, notes_of
from valor_gpu.comparison.comparison_data import MODELS
from valor_gpu.comparison.comparison_markup import family_table, hypothesis_paragraphs, number_table
from valor_gpu.comparison.comparison_result import ComparisonResult
from valor_gpu.comparison.comparison_text import answer, first_line, nested_text, power_lines
from valor_gpu.comparison.comparisons import Comparisons
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
_FACTS = ("ground_truth", "predictions", "hashed", "version", "device", "dtype", "world_size", "deviations")
"""What is shown of the provenance of a model."""


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
        parts.append((name, _heading(family), _family_section(name, family, result)))
    parts.append(("tests", "Tests", section("tests", "Tests", *hypothesis_paragraphs(result, found))))
    parts.append(("choices", "Choices", _choice_section(result)))
    return page(f"{heading} · comparison", "Comparison", parts, _head(result, found, heading), _foot(), _STYLE)


def comparisons_report(results: Comparisons, heading: str = "Which model is best?") -> str:
    """Returns the page of several models: a section for each pair, with p-values that are adjusted over the pairs.

    Args:
        results: of :func:`valor_gpu.stats.compare`.
        heading: of the page.
    """
    pairs = [(name, each, compared(each, over_pairs=True)) for name, each in results.items()]
    answers = [(name_of(name), first_line(found)) for name, _, found in pairs]
    summary = table([Column("pair"), Column("answer")], answers, "Answers")
    parts = [("answers", "Answers", section("answers", "Answers", summary, note="p adjusted over the pairs"))]
    for place, (name, each, found) in enumerate(pairs):
        families = [
            tag("details", tag("summary", f"{_heading(family)}: {family.summary}"), family_table(family, each))
            for family in found.families
        ]
        shown = (
            *_power(each, found),
            number_table(found, each),
            *families,
            *hypothesis_paragraphs(each, found),
            *_notes(each),
            _provenance(each),
        )
        parts.append((f"pair-{place + 1}", name, section(f"pair-{place + 1}", name, *shown)))
    top = tag("div", tag("div", tag("h1", name_of(heading))), class_="head")
    return page(f"{heading} · comparison", "Comparison", parts, top, _foot(), _STYLE)


def write_comparison(
    path: str | os.PathLike[str], result: ComparisonResult | Comparisons, heading: str | None = None
) -> None:
    """Writes :func:`comparison_report`, or of several models :func:`comparisons_report`, to a file, in one step.

    Args:
        path: of the file.
        result: of :func:`valor_gpu.stats.compare`.
        heading: of the page; None: the names of the models.

    Raises:
        OSError: the file cannot be written; an older one stays as it is.
    """
    if isinstance(result, Comparisons):
        write_text(path, comparisons_report(result, ", ".join(result) if heading is None else heading))
        return
    first, second = model_names(result)
    write_text(path, comparison_report(result, f"{second} against {first}" if heading is None else heading))


def _foot() -> Html:
    made = f"Made by valor_gpu {versions()['valor_gpu']}. A middle dot is a number that does not exist."
    return tag("footer", made, class_="small dim")


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
    return joined([top, said, *_power(result, found), _facts(facts)])


def _power(result: ComparisonResult, found: Compared) -> Iterator[Html]:
    """What was asked about power."""
    yield from (tag("p", f"{line[0].upper()}{line[1:]}.", class_="small") for line in power_lines(result, found))


def _notes(result: ComparisonResult) -> Iterator[Html]:
    yield from (tag("p", f"Note: {note}", class_="small dim") for note in notes_of(result))


def _heading(family: Family) -> str:
    """The heading of classes, whose name says so, or of slices."""
    return f"{words_of(family.name)}{' by slice' if family.plural == 'slices' else ''}"


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
    notes = [*([tag("p", named, class_="small dim")] if named else []), *_notes(result)]
    return section("numbers", "Numbers", number_table(found, result), *notes, note="differences are second less first")


def _family_section(name: str, family: Family, result: ComparisonResult) -> Html:
    parts: list[object] = []
    if family.different:
        first = family.different[0]
        parts.append(tag("p", f"Clearest: {nested_text(family, first)}.", class_="small"))
    parts.append(family_table(family, result))
    note = f"{family.summary}; {len(family.rows) - len(family.tested):,} not tested"
    return section(name, _heading(family), *parts, note=note)


def _choice_section(result: ComparisonResult) -> Html:
    rows = [(name, choice_text(value)) for name, value in result.signature.items() if name not in _LISTED]
    rows += [(name, text) for name, text in versions().items() if text]
    shown = table([Column("choice"), Column("value")], rows, "Choices and versions")
    folded = tag("details", tag("summary", "Choices and versions"), shown)
    return section("choices", "Choices", folded, _provenance(result))


def _provenance(result: ComparisonResult) -> Html:
    """Data, device and version of both models."""
    found, said = result.provenance, "Data, device and version of both models"
    sides = [found.get(model, {}) for model in MODELS]
    rows = [(name.replace("_", " "), *(_fact(side, name) for side in sides)) for name in _FACTS]
    shown = table([Column("of"), *map(Column, model_names(result))], rows, said)
    return tag("details", tag("summary", said), shown)


def _fact(provenance: Mapping[str, Any], name: str) -> str:
    """A fact of the provenance of a model, or why it is not known."""
    value = provenance.get(name)
    if value is None:
        return str(provenance.get("reasons", {}).get(name, "unknown"))
    return choice_text(value) or "none"
