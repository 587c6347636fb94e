"""The table of a comparison: numbers of two models, their differences, intervals and tests; one for all pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from valor_gpu._frozen import frozen
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.markup import Column, folded_table, joined, name_of, tag
from valor_gpu.pages.texts import Html, visible

NOT_SHOWN = "not shown"
"""Reading of a difference that chance could make."""
_KINDS = {"higher": "better", "lower": "better", "better": "better", "worse": "worse"}


@frozen
class ComparedNumber:
    """A number of two models, as tables show it. NaN: does not exist, or was not asked for.

    Attributes:
        name: in words.
        first: of the first model.
        second: of the second model.
        difference: second less first.
        low: lower end of the interval of the difference.
        high: upper end.
        p_value: of the test that decides, adjusted where there are several classes.
        reading: ``higher``, ``lower``, ``better``, ``worse``, ``equal``, ``not shown`` or ``not tested``.
        p_permutation: of the permutation test.
        detectable: the smallest difference that the data show with the chosen power.
        rows: rows, or images, that the number is of, in words; empty: all.
        note: why a number does not exist.
        decimals: of the numbers.
        reach: how far from 0 the axis of its interval goes; NaN: as far as all rows need.
    """

    name: str
    first: float
    second: float
    difference: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    reading: str = NOT_SHOWN
    p_permutation: float = math.nan
    detectable: float = math.nan
    rows: str = ""
    note: str = ""
    decimals: int = 3
    reach: float = math.nan

    @property
    def has_interval(self) -> bool:
        """Whether the difference has an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def is_shown(self) -> bool:
        """Whether the test shows a difference."""
        return self.reading in _KINDS

    @property
    def between(self) -> str:
        """The interval in words, each end with its sign.

        Example:
            >>> ComparedNumber("AP", 0.340, 0.346, 0.006, 0.001, 0.011).between
            '+0.001 to +0.011'
        """
        if not self.has_interval:
            return numbers.NOTHING
        return " to ".join(numbers.difference(end, self.decimals) for end in (self.low, self.high))


def comparison_table(
    rows: Sequence[ComparedNumber],
    label: str,
    *,
    names: tuple[str, str] = ("first", "second"),
    heading: str = "number",
    p_name: str = "p",
    confidence: float = 0.95,
    most: int = 20,
    rest: str = "numbers",
) -> Html:
    """Returns the table of a comparison, with the intervals drawn beside each other.

    A column that nothing fills is left out.

    Args:
        rows: from top to bottom.
        label: what the table says, for those who hear the page.
        names: of the models.
        heading: of the first column.
        p_name: heading of the p-values.
        confidence: of the intervals.
        most: rows that are seen before the others are unfolded.
        rest: what the others are, in the plural.
    """
    common = _reach(rows)
    columns: list[tuple[Column, Callable[[ComparedNumber], object]]] = [
        (Column(heading), _named),
        (Column(name_of(names[0]), True), lambda row: numbers.number(row.first, row.decimals)),
        (Column(name_of(names[1]), True), lambda row: numbers.number(row.second, row.decimals)),
        (Column("difference", True), lambda row: tag("b", numbers.difference(row.difference, row.decimals))),
        (Column(f"{100 * confidence:g}% interval"), lambda row: tag("span", row.between, class_="nw small")),
        (Column("less · more"), lambda row: _chart(row, common, confidence)),
        (Column(p_name, True), lambda row: numbers.p_value(row.p_value)),
        *_optional_columns(rows),
    ]
    lines = [[cell(row) for _, cell in columns] for row in rows]
    return folded_table([column for column, _ in columns], lines, label, most, rest, "compared")


def _optional_columns(rows: Sequence[ComparedNumber]) -> Iterator[tuple[Column, Callable[[ComparedNumber], object]]]:
    """Columns that some row fills."""
    if any(not math.isnan(row.p_permutation) for row in rows):
        yield Column("permutation p", True), lambda row: numbers.p_value(row.p_permutation)
    if any(not math.isnan(row.detectable) for row in rows):
        yield Column("detectable", True), lambda row: numbers.number(row.detectable, row.decimals)
    yield Column("reading"), _reading
    if any(row.rows for row in rows):
        yield Column("pairs", True), lambda row: tag("span", row.rows, class_="nw small dim")


def _named(row: ComparedNumber) -> Html:
    return joined([name_of(row.name), tag("span", row.note, class_="under") if row.note else ""])


def _reading(row: ComparedNumber) -> Html:
    if not row.is_shown:
        return tag("span", row.reading, class_="faint nw")
    return tag("b", row.reading, class_="bad") if row.reading == "worse" else tag("b", row.reading)


def _reach(rows: Sequence[ComparedNumber]) -> float:
    """The largest end of all rows."""
    ends = [abs(end) for row in rows for end in (row.low, row.high, row.difference) if math.isfinite(end)]
    return max(ends, default=0.0)


def _chart(row: ComparedNumber, common: float, confidence: float) -> Html:
    """The interval on an axis from minus to plus its reach."""
    if not row.has_interval or not math.isfinite(row.difference):
        return tag("span", numbers.NOTHING, class_="faint")
    shown = numbers.difference(row.difference, row.decimals)
    label = f"{visible(row.name)}: difference {shown}, {100 * confidence:g}% interval {row.between}, {row.reading}"
    reach = (common if math.isnan(row.reach) else row.reach) or 1.0
    kind = _KINDS.get(row.reading, "unclear")
    return charts.interval(Estimate(row.difference, row.low, row.high), (-reach, reach), label, kind)
