"""Comparisons as markup: the parts that notebooks, reports and Studio share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from valor_gpu.comparison.compared_numbers import Compared, Family, compared, confidence_of, model_names, notes_of
from valor_gpu.comparison.comparison_text import answer, drawn, hypothesis_lines
from valor_gpu.exports.html import notebook_element
from valor_gpu.pages.comparison_table import comparison_table
from valor_gpu.pages.markup import joined, tag
from valor_gpu.pages.texts import Html

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_result import ComparisonResult

MOST_CLASSES = 20
"""Classes that are seen before the others are unfolded."""


def comparison_element(result: ComparisonResult) -> str:
    """Returns a comparison as one element for notebooks, with its style; there is no script."""
    found = compared(result)
    families = [
        tag("details", tag("summary", f"{family.name}: {family.summary}"), family_table(family, result))
        for family in found.families
    ]
    notes = [tag("p", line) for line in (", ".join(drawn(result)), *hypothesis_lines(result, found), *notes_of(result))]
    parts = [tag("p", tag("b", answer(result))), number_table(found, result), *families, *notes]
    return notebook_element(joined(parts))


def number_table(found: Compared, result: ComparisonResult) -> Html:
    """The numbers of the whole."""
    label, confidence = "Numbers of both models", confidence_of(result)
    return comparison_table(found.numbers, label, names=model_names(result), confidence=confidence)


def family_table(family: Family, result: ComparisonResult) -> Html:
    """The numbers of classes or slices, those that differ first."""
    return comparison_table(
        family.ordered,
        f"{family.name} of both models",
        names=model_names(result),
        heading="class" if family.plural == "classes" else "slice",
        p_name="adjusted p",
        confidence=confidence_of(result),
        most=MOST_CLASSES,
        rest=family.plural,
    )


def hypothesis_paragraphs(result: ComparisonResult, found: Compared) -> Iterator[Html]:
    """Yields what was drawn, and each test with its null hypothesis."""
    for line in (", ".join(drawn(result)), *hypothesis_lines(result, found)):
        yield tag("p", line, class_="small dim")
