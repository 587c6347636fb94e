"""The pictures of comparisons: differences with their intervals, one below the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu._frozen import replaced
from valor_gpu.checks import check_int
from valor_gpu.comparison.compared_numbers import Compared, compared, confidence_of, model_names
from valor_gpu.comparison.comparison_text import difference_text
from valor_gpu.drawing import GREY, GRID, Texts, axes_to_draw, say_empty, titled
from valor_gpu.errors import InputError
from valor_gpu.pages.comparison_table import ComparedNumber

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_data import ComparisonData


def forest_plot(
    result: ComparisonData,
    ax: Any = None,
    *,
    of: str | None = None,
    most: int = 40,
    source: str | None = None,
    resize: bool = False,
) -> Any:
    """Draws differences with their intervals; those that the test shows are dark.

    Args:
        result: of :func:`valor_gpu.stats.compare`.
        ax: matplotlib axes; None makes new ones with pyplot.
        of: a number of classes, such as ``map_per_class``; None: the numbers of the whole.
        most: lines at most, those that differ first.
        source: what was evaluated, for the title.
        resize: fit the figure of ``ax`` to the picture.

    Raises:
        InputError: the result has no such number, or ``most`` is below 1.
    """
    check_int("most", most, 1)
    rows = [row for row in _rows(compared(result), of) if row.has_interval]
    shown = rows[:most]
    ax = axes_to_draw(ax, (6.4, 1.4 + 0.26 * max(len(shown), 2)), resize)
    first = compared(result).headline
    details = [f"{100 * confidence_of(result):g}% intervals"]
    details += [f"{len(rows) - most:,} more"] if len(rows) > most else []
    titled(ax, "no number" if first is None else difference_text(first), details, source)
    return _drawn(ax, shown, " less ".join(reversed(model_names(result))))


def forest_plot_of_pairs(
    results: Mapping[str, ComparisonData],
    ax: Any = None,
    *,
    of: str | None = None,
    source: str | None = None,
    resize: bool = False,
) -> Any:
    """Draws the difference of each pair of models with its interval; those that the test shows are dark.

    Args:
        results: of :func:`valor_gpu.stats.compare`, of three models and more.
        ax: matplotlib axes; None makes new ones with pyplot.
        of: a number of the whole, such as ``map_50``; None: the first.
        source: what was evaluated, for the title.
        resize: fit the figure of ``ax`` to the picture.

    Raises:
        InputError: no pair has such a number.
    """
    pairs = {name: compared(each, over_pairs=True).numbers for name, each in results.items()}
    known = list(dict.fromkeys(row.name for numbers in pairs.values() for row in numbers))
    if of is not None and of not in known:
        raise InputError(
            f"of must be a number of the whole but is {of!r}; the pairs have {', '.join(known) or 'none'}: draw classes"
            " of one pair, comparisons[name].plot(of=...)"
        )
    number = of or next(iter(known), "")
    rows = [replaced(row, name=pair) for pair, numbers in pairs.items() for row in numbers if row.name == number]
    shown = [row for row in rows if row.has_interval]
    ax = axes_to_draw(ax, (6.4, 1.4 + 0.26 * max(len(shown), 2)), resize)
    confidence = confidence_of(next(iter(results.values())))
    details = [f"{100 * confidence:g}% intervals", "dark: p adjusted over the pairs shows a difference"]
    titled(ax, number or "no number", details, source)
    return _drawn(ax, shown, "first named less second")


def _drawn(ax: Any, shown: Sequence[ComparedNumber], label: str) -> Any:
    """Draws rows from the top down."""
    if not shown:
        say_empty(ax, "no difference has an interval")
        return ax
    for place, row in enumerate(shown):
        color = "black" if row.is_shown else GREY
        ax.plot([row.low, row.high], [place, place], color=color, linewidth=1.5, solid_capstyle="butt")
        ax.plot([row.difference], [place], "o", color=color, markersize=4)
    names = Texts.of([row.name for row in shown], limit=32)
    ax.set_yticks(range(len(shown)), names.texts, **names.font)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.axvline(0, color="0.35", linewidth=0.8)
    ax.grid(axis="x", **GRID)
    ax.set_axisbelow(True)
    reach = max(abs(end) for row in shown for end in (row.low, row.high) if math.isfinite(end)) or 1.0
    ax.set_xlim(-1.05 * reach, 1.05 * reach)
    ax.set_xlabel(label)
    return ax


def _rows(found: Compared, of: str | None) -> list[ComparedNumber]:
    if of is None:
        return list(found.numbers)
    for family in found.families:
        if family.name == of:
            return list(family.ordered)
    known = ", ".join(family.name for family in found.families) or "none"
    raise InputError(f"of must be a number of classes of this comparison but is {of!r}; it has {known}")
