"""Sections of the report about errors: confusions of classes and numbers of slices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from valor_gpu.analysis.confusion import ClassConfusion
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.markup import Column, folded_table, joined, name_of, section, table, tag
from valor_gpu.pages.texts import Html, visible
from valor_gpu.report.titles import title
from valor_gpu.result import Result

_MATRIX = 12
"""Classes of the matrix: those with most confusions."""
_PAIRS, _MOST_PAIRS = 12, 100


def confusion_section(found: ClassConfusion) -> Html:
    """The matrix of the classes that are confused most, and the pairs of classes by how often."""
    none = len(found.classes)
    wrong = found.truths != found.guesses
    errors = np.bincount(found.truths[wrong], found.counts[wrong], none + 1)
    errors += np.bincount(found.guesses[wrong], found.counts[wrong], none + 1)
    between = wrong & (found.truths < none) & (found.guesses < none)
    order = np.lexsort((np.arange(none), -errors[:none]))[:_MATRIX]
    chosen = [*sorted(order.tolist()), none]
    cells = {(t, g): n for t, g, n in zip(found.truths.tolist(), found.guesses.tolist(), found.counts.tolist())}
    totals = np.bincount(found.truths, found.counts, none + 1).tolist()
    truths = [_name(found.classes, place, "no object") for place in chosen]
    guesses = [_name(found.classes, place, "missed") for place in chosen]
    counts = [[cells.get((t, g), 0) for g in chosen] for t in chosen]
    pairs = np.flatnonzero(between)[np.argsort(-found.counts[between], kind="stable")]
    label = "Confusion matrix of the classes with most confusions"
    left = min(max(70, 7 * max(map(len, truths)) + 16), 150)
    wide = min(max(44, 7 * max(map(len, guesses)) + 6), 80)
    chart = charts.matrix(truths, guesses, counts, [totals[t] for t in chosen], label, wide, left)
    note = f"rows are truth, columns are detections, matched whatever the class at IoU {found.iou:g}"
    note += f" and scores from {found.score:.3g}; shade is the share of the row" if found.score > 0 else ""
    matrix = tag("div", tag("div", chart, class_="pad"), class_="scroll", role="region", tabindex="0", aria_label=label)
    shown = (
        [tag("p", f"The {_MATRIX} classes with most confusions, of {none:,}.", class_="small dim")]
        if none > _MATRIX
        else []
    )
    columns = [Column("truth"), Column("detected as"), Column("count", True), Column("of the truth", True)]
    rows = [
        (name_of(found.classes[found.truths[p]]), name_of(found.classes[found.guesses[p]]), f"{found.counts[p]:,}",
         numbers.percent(found.counts[p] / totals[found.truths[p]]))
        for p in pairs[:_MOST_PAIRS].tolist()
    ]  # fmt: skip
    if not rows:
        listed: list[object] = [tag("p", "No class is detected as another.", class_="small dim")]
    else:
        listed = [tag("h3", "Most confused pairs"), folded_table(columns, rows, "Most confused pairs", _PAIRS, "pairs")]
        if len(pairs) > _MOST_PAIRS:
            listed.append(tag("p", f"{len(pairs) - _MOST_PAIRS:,} rarer pairs are left out.", class_="small dim"))
    return section("confusion", "Confusions", matrix, *shown, *listed, note=note)


def _name(classes: Sequence[str], place: int, none: str) -> str:
    return none if place == len(classes) else visible(classes[place])


def slice_section(found: ColumnTable) -> Html:
    """The numbers of slices as they come, with a bar of the first one."""
    names = list(found)
    words = [title(name)[0] for name in names]
    return section("slices", "Slices", _slices(found, names, words))


def _slices(found: ColumnTable, names: Sequence[str], words: Sequence[str]) -> Html:
    rows = found.rows()
    numeric = [all(_is_number(row[name]) for row in rows) for name in names]
    columns = [Column(word, number) for word, number in zip(words, numeric)]
    lines = [[_cell(row[name]) for name in names] for row in rows]
    return folded_table(columns, lines, "Numbers of slices", 40, "slices")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _cell(value: object) -> object:
    if isinstance(value, float):
        return numbers.NOTHING if math.isnan(value) else numbers.number(value, 3)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else name_of(value)


KINDS = ("classification", "localization", "both", "duplicate", "background", "missed")
"""Kinds of errors in the order in which they are shown."""
_SPECIAL = ("false_positives", "false_negatives")
MEANT = {
    "classification": "right place, wrong class",
    "localization": "right class, wrong place",
    "both": "wrong class and wrong place",
    "duplicate": "a second box on an object",
    "background": "nothing is there",
    "missed": "an object that no box explains",
    "false_positives": "every wrong detection",
    "false_negatives": "every object that is not found",
}


def error_section(found: Result) -> Html:
    """The gain of AP of mending each kind of error."""
    most = max((_gain(found, kind) for kind in (*KINDS, *_SPECIAL) if _gain(found, kind) > 0), default=0.0)
    columns = [
        Column("kind of error"),
        Column("count", True),
        Column("AP gained", True),
        Column(tag("span", "AP gained", class_="vh")),
    ]
    rows = [_error_row(found, kind, most) for kind in (*KINDS, *_SPECIAL)]
    return section("errors", "Errors", table(columns, rows, "Gain of mending each kind of error"))


def _error_row(found: Result, kind: str, most: float) -> list[object]:
    gain = _gain(found, kind)
    words = joined([kind.replace("_", " "), tag("span", MEANT[kind], class_="under")])
    chart = charts.rate_bar(Estimate(max(gain, 0.0) / most), f"{kind} {gain:.3f}", 300) if gain == gain and most else ""
    return [words, numbers.count(found.counts.get(kind)), numbers.difference(gain, 3), chart]


def _gain(found: Result, kind: str) -> float:
    return float(found.values[kind])


def costs_of(found: Result) -> dict[str, str]:
    """Returns the kind of error that costs each class most, with its gain."""
    return {}


def common_threshold(found: Result) -> float:
    """Returns the threshold of all classes together; NaN where there is none."""
    return math.nan


def point_section(found: Result) -> Html:
    """The threshold of each class and what it gives."""
    return section("points", "Score thresholds")
