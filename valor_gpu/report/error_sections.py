"""Sections of the report about errors: what each kind costs, confusions of classes, numbers of slices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from valor_gpu.analysis.confusion import ClassConfusion
from valor_gpu.analysis.slices import Slices
from valor_gpu.analysis.tide_result import DetectionErrors
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.markup import Column, folded_table, joined, name_of, section, table, tag
from valor_gpu.pages.texts import Html, visible
from valor_gpu.report.titles import title, words_of

_MATRIX = 10
"""Classes of the matrix: those with most confusions."""
_PAIRS, _MOST_PAIRS, _SLICES = 12, 100, 40


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


def slice_section(found: Slices) -> Html:
    """The numbers of slices as they come, with a bar of the first one."""
    rows, counted = found.rows(), [name for name in ("images", "ground_truths") if name in found]
    shown = found.numbers
    columns = [Column("slice"), *(Column(words_of(name), True) for name in counted)]
    columns += [Column(title(name)[0], True) for name in shown]
    columns[len(counted) + 1 : len(counted) + 1] = [Column(tag("span", f"{title(shown[0])[0]}, drawn", class_="vh"))]
    lines = [
        [joined([f"{row['column']}: ", name_of("none" if row["value"] is None else row["value"])]),
         *(f"{row[name]:,}" for name in counted), _drawn(row, shown[0]), *(_cell(row, name) for name in shown)]
        for row in rows
    ]  # fmt: skip
    return section("slices", "Slices", folded_table(columns, lines, "Numbers of slices", _SLICES, "slices"))


def _ends(row: Mapping[str, Any], name: str) -> tuple[float, ...]:
    ends = tuple(row.get(f"{name}_{end}", math.nan) for end in ("low", "high"))
    return () if any(map(math.isnan, ends)) else ends


def _drawn(row: Mapping[str, Any], name: str) -> object:
    value, ends = row[name], _ends(row, name)
    if not 0 <= value <= 1:
        return ""
    inside = [min(max(end, 0.0), 1.0) for end in ends]
    return charts.rate_bar(Estimate(value, *inside), f"{title(name)[0]} {value:.3f}", 160)


def _cell(row: Mapping[str, Any], name: str) -> Html:
    ends = _ends(row, name)
    under = numbers.span(ends[0], ends[1], 3) if ends else (row.get(f"{name}_reason") or "").partition(":")[0]
    return joined([numbers.number(row[name], 3), *([tag("span", under, class_="under")] if under else [])])


_KINDS = ("classification", "localization", "both", "duplicate", "background", "missed")
_MEANT = {
    "classification": "on an object of another class",
    "localization": "of the right class, but not close enough",
    "both": "of another class, and not close enough",
    "duplicate": "a second detection of an object",
    "background": "where nothing is",
    "missed": "objects that no detection is near",
    "false_positives": "all wrong detections",
    "false_negatives": "all objects that are not found",
}
"""Kinds of errors, those of the whole last, and what they are."""


def error_section(found: DetectionErrors) -> Html:
    """The gain of AP of mending each kind of error, at every pair of thresholds."""
    parts: list[object] = []
    for part in found.parts().values():
        signature, ap = part.signature, part.values["ap"]
        said = (
            f"AP {numbers.number(ap, 3)} at IoU {signature['iou']:g}; background up to IoU {signature['background']:g}"
        )
        parts += [tag("p", said, class_="small dim"), _error_table(part)]
    note = f"how much AP rises once a kind of error is mended (TIDE, protocol {found.signature['protocol']})"
    return section("errors", "Errors", *parts, note=note)


def _error_table(part: DetectionErrors) -> Html:
    gains = part.values["gains"]
    most = max((gain for gain in gains.values() if gain > 0), default=0.0)
    columns = [Column("kind of error"), Column("count", True), Column("AP gained", True)]
    columns += [Column(tag("span", "AP gained, drawn", class_="vh")), Column("of all gains", True)]
    shares = {row["kind"]: row["share"] for row in part.table().rows()}
    rows = []
    for kind, gain in gains.items():
        chart: object = part.reason(f"gains/{kind}") or ""
        if not math.isnan(gain):
            chart = charts.rate_bar(Estimate(max(gain, 0.0) / (most or 1.0)), f"{kind} {gain:+.3f}", 300)
        words = joined([kind.replace("_", " "), tag("span", _MEANT[kind], class_="under")])
        share = "" if math.isnan(shares[kind]) else numbers.percent(shares[kind])
        rows.append([words, f"{part.counts[kind]:,}", numbers.difference(gain, 3), chart, share])
    return table(columns, rows, "AP gained by mending each kind of error")


def costs_of(found: DetectionErrors) -> dict[str, str]:
    """Returns the kind of error that costs each class most, with its gain; none of classes without one."""
    gains = next(iter(found.parts().values())).values["gains_per_class"]
    costs = {}
    for name in next(iter(gains.values())):
        known = [(gains[kind][name], kind) for kind in _KINDS if gains[kind][name] > 0]
        if known:
            gain, kind = max(known, key=lambda each: each[0])
            costs[name] = f"{kind} {numbers.difference(gain, 3)}"
    return costs
