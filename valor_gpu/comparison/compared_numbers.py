"""What texts, tables and pages show of a comparison: its numbers in words, and which of them differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu._frozen import frozen
from valor_gpu.pages.comparison_table import NOT_SHOWN, ComparedNumber

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_data import ComparisonData

_DECIMALS = (3, 6)
"""Fewest and most decimals."""

_SINGULAR = {"classes": "class", "slices": "slice"}


@frozen
class Family:
    """Numbers that are tested together: those of the classes, or the slices, of a number.

    Attributes:
        name: of the number.
        plural: what the rows are, such as ``classes``.
        rows: in the order of the result; their names are those of classes or slices.
    """

    name: str
    plural: str
    rows: tuple[ComparedNumber, ...]

    @property
    def tested(self) -> tuple[ComparedNumber, ...]:
        """Rows that have a p-value."""
        return tuple(row for row in self.rows if not math.isnan(row.p_value))

    @property
    def different(self) -> tuple[ComparedNumber, ...]:
        """Rows that differ, the smallest p-value first."""
        found = [row for row in self.tested if row.is_shown]
        return tuple(sorted(found, key=lambda row: (row.p_value, -abs(row.difference))))

    @property
    def ordered(self) -> tuple[ComparedNumber, ...]:
        """All rows: those that differ first, then by the size of the difference, untested ones last."""
        return tuple(sorted(self.rows, key=_order))

    @property
    def summary(self) -> str:
        """How many differ, of how many; where some are not tested, of how many that are.

        Example:
            >>> Family("map_per_class", "classes", (ComparedNumber("cat", 0.5, 0.6, 0.1, p_value=0.3),)).summary
            '0 of 1 class differs'
        """
        different, tested = len(self.different), len(self.tested)
        plural = self.plural if tested != 1 else _SINGULAR[self.plural]
        said = "" if tested == len(self.rows) else "tested "
        return f"{different:,} of {tested:,} {said}{plural} differ{'s' if 1 in (different, tested) else ''}"


@frozen
class Compared:
    """What a comparison says.

    Attributes:
        numbers: of the whole, in the order of the metric.
        families: of classes and slices.
    """

    numbers: tuple[ComparedNumber, ...]
    families: tuple[Family, ...]

    @property
    def headline(self) -> ComparedNumber | None:
        """The first number."""
        return self.numbers[0] if self.numbers else None

    @property
    def headline_family(self) -> Family | None:
        """The family of the first number, or the first family in which something was tested."""
        tested = [family for family in self.families if family.tested]
        name = self.headline.name if self.headline else ""
        own = [family for family in tested if family.plural == "classes" and family.name.startswith(name)]
        return next(iter(own or tested), None)

    @property
    def told(self) -> tuple[Family, ...]:
        """Families of the text: those of classes, and the slices of the first number."""
        name = self.headline.name if self.headline else ""
        return tuple(family for family in self.families if family.plural == "classes" or family.name == name)


def compared(result: ComparisonData, over_pairs: bool = False) -> Compared:
    """Returns the numbers of a comparison as tables show them.

    Args:
        result: of two models.
        over_pairs: p-values of the whole are those that are adjusted over all pairs of several models.
    """
    rows = result.table().rows()
    error = 1 - confidence_of(result)
    whole = [row for row in rows if row["class"] is None and not row.get("slice")]
    decimals = _decimals(whole or rows)
    families: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("slice"):
            families.setdefault((row["name"], "slices"), []).append(row)
        elif row["class"] is not None:
            families.setdefault((row["name"], "classes"), []).append(row)
    return Compared(
        tuple(_number(row, row["name"], row["p_adjusted" if over_pairs else "p"], error, decimals) for row in whole),
        tuple(
            Family(name, plural, tuple(_nested(row, plural, error, decimals) for row in found))
            for (name, plural), found in families.items()
        ),
    )


def confidence_of(result: ComparisonData) -> float:
    """The confidence of the intervals."""
    return float(result.signature.get("confidence") or 0.95)


def model_names(result: ComparisonData) -> tuple[str, str]:
    """The names of the models, for headings."""
    first, second = result.signature.get("names") or ("first", "second")
    return str(first), str(second)


def notes_of(result: ComparisonData) -> list[str]:
    """Notes on what may differ between the sides."""
    return [str(note) for note in result.signature.get("notes") or ()]


def hypotheses_of(result: ComparisonData) -> dict[str, list[str]]:
    """Each test with its null hypothesis, and the numbers that it is of; of classes the number stands once."""
    found: dict[str, list[str]] = {}
    for name, test in (result.signature.get("tests") or {}).items():
        named = found.setdefault(str(test), [])
        number = str(name).partition("/")[0]
        if number not in named:
            named.append(number)
    return found


def _nested(row: Mapping[str, Any], plural: str, error: float, decimals: int) -> ComparedNumber:
    name = str(row["class"] if plural == "classes" else row["slice"])
    return _number(row, name, row["p_adjusted"], error, decimals)


def _number(row: Mapping[str, Any], name: str, p_value: float, error: float, decimals: int) -> ComparedNumber:
    return ComparedNumber(
        name,
        row["first"],
        row["second"],
        row["difference"],
        row["low"],
        row["high"],
        p_value,
        _reading(row["difference"], p_value, error),
        row["p_permutation"],
        row["detectable"],
        note=row["reason"] or "",
        decimals=min(decimals, _most_decimals(row)),
    )


def _most_decimals(row: Mapping[str, Any]) -> int:
    """Fewer decimals of large numbers, such as counts."""
    size = max((abs(row[name]) for name in ("first", "second") if not math.isnan(row[name])), default=0.0)
    return 1 if size >= 100 else 2 if size >= 10 else _DECIMALS[1]


def _reading(difference: float, p_value: float, error: float) -> str:
    if math.isnan(p_value):
        return "equal" if difference == 0 else "not tested"
    if p_value > error or difference == 0:
        return NOT_SHOWN
    return "higher" if difference > 0 else "lower"


def _order(row: ComparedNumber) -> tuple[Any, ...]:
    unknown = math.isnan(row.p_value)
    return not row.is_shown, unknown, 0.0 if math.isnan(row.difference) else -abs(row.difference)


def _decimals(rows: Sequence[Mapping[str, Any]]) -> int:
    """Decimals that show the interval of the first number with two digits."""
    width = next(_widths(rows), 0.0)
    least, most = _DECIMALS
    return min(max(1 - math.floor(math.log10(width)), least), most) if width else least


def _widths(rows: Iterable[Mapping[str, Any]]) -> Iterator[float]:
    return (row["high"] - row["low"] for row in rows if row["high"] > row["low"])
