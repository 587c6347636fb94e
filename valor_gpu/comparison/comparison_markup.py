"""Comparisons as markup: the parts that notebooks, reports and Studio share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from valor_gpu.comparison.compared_numbers import Compared, Family, compared, confidence_of, model_names, notes_of
from valor_gpu.comparison.comparison_text import drawn, first_line, hypothesis_lines, power_lines
from valor_gpu.exports.html import notebook_element
from valor_gpu.pages.comparison_table import comparison_table
from valor_gpu.pages.markup import joined, tag
from valor_gpu.pages.texts import Html

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_data import ComparisonData

MOST_CLASSES = 20
"""Classes that are seen before the others are unfolded; of those that are not tested none, unless all are."""


def comparison_element(result: ComparisonData) -> str:
    """Returns a comparison as one element for notebooks, with its style; there is no script."""
    return notebook_element(_parts(result, compared(result)))


def comparisons_element(results: Mapping[str, ComparisonData]) -> str:
    """Returns comparisons of several models as one element: the answer of each, which opens."""
    folded = [
        tag("details", tag("summary", f"{name}: {first_line(found)}"), _parts(result, found))
        for name, result in results.items()
        for found in [compared(result, over_pairs=True)]
    ]
    return notebook_element(joined(folded))


def _parts(result: ComparisonData, found: Compared) -> Html:
    families = [
        tag("details", tag("summary", f"{family.name}: {family.summary}"), family_table(family, result))
        for family in found.families
    ]
    lines = (*power_lines(result, found), ", ".join(drawn(result)), *hypothesis_lines(result, found), *notes_of(result))
    notes = [tag("p", line) for line in lines]
    return joined([tag("p", tag("b", first_line(found))), number_table(found, result), *families, *notes])


def number_table(found: Compared, result: ComparisonData, names: tuple[str, str] | None = None) -> Html:
    """The numbers of the whole; ``names`` of the models, where a page has its own."""
    named = names or model_names(result)
    label = f"Numbers of {' and '.join(named)}"
    return comparison_table(found.numbers, label, names=named, confidence=confidence_of(result))


def family_table(family: Family, result: ComparisonData, names: tuple[str, str] | None = None) -> Html:
    """The numbers of classes or slices, those that differ first."""
    named = names or model_names(result)
    return comparison_table(
        family.ordered,
        f"{family.name} of {' and '.join(named)}",
        names=named,
        heading="class" if family.plural == "classes" else "slice",
        p_name="adjusted p",
        confidence=confidence_of(result),
        most=min(MOST_CLASSES, len(family.tested)) or MOST_CLASSES,
        rest=family.plural,
    )


def hypothesis_paragraphs(result: ComparisonData, found: Compared) -> Iterator[Html]:
    """Yields what was drawn, and each test with its null hypothesis."""
    for line in (", ".join(drawn(result)), *hypothesis_lines(result, found)):
        yield tag("p", line, class_="small dim")
