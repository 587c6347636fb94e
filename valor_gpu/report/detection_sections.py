"""Sections of the report of a detection result: its numbers, its classes and the choices behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.exports.intervals import choices_text, exists
from valor_gpu.exports.texts import choice_text, is_scalar
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.markup import Column, folded_table, joined, name_of, section, table, tag
from valor_gpu.pages.texts import Html, visible
from valor_gpu.report.titles import title
from valor_gpu.result import Result, ResultData
from valor_gpu.stats.intervals import Interval

MOST_CLASSES = 20
"""Classes that are seen before the others are unfolded, the worst first."""
_CLASS_NUMBERS = ("map_per_class", "map_50_per_class", "map_75_per_class", "mar_per_class")
_BAR = 200  # px


def head(result: Result, name: str) -> Html:
    """The title, and how much was compared."""
    kind = str(result.signature.get("metric", ""))
    counts = [(words.replace("_", " "), count) for words, count in result.counts.items() if count]
    first = [each for each in counts if each[0] in ("images", "ground truths", "detections")]
    facts = [tag("div", tag("dt", words), tag("dd", f"{count:,}")) for words, count in first]
    compared = result.signature.get("iou_type") or result.signature.get("box_format")
    facts += [
        tag("div", tag("dt", words), tag("dd", text))
        for words, text in (("metric", kind), ("compares", compared))
        if text
    ]
    top = tag("div", tag("div", tag("h1", name_of(name))), class_="head")
    return joined([top, tag("dl", *facts, class_="facts panel pad")])


def number_section(result: Result) -> Html:
    """A figure for every single number, with its interval or why it does not exist."""
    figures = [_figure(result, name, value) for name, value in result.values.items() if is_scalar(value)]
    first = next((name for name, each in result.intervals.items() if exists(each)), None)
    notes = (
        [tag("p", choices_text(result.intervals.choices, first), class_="small dim")]
        if result.intervals.choices
        else []
    )
    return section("numbers", "Numbers", tag("div", *figures, class_="figs narrow"), *notes)


def _figure(result: Result, name: str, value: Any) -> Html:
    number, (words, what) = float(value), title(name)
    between = between_of(result, name)
    if between and not exists(result.intervals[name]):
        between = f"no interval: {between}"
    value_line = (tag("span", numbers.number(number, 3), class_="big"), tag("span", between, class_="small dim"))
    parts: list[object] = [tag("h3", words, class_="name"), tag("p", what, class_="small faint")]
    parts.append(tag("p", *value_line, class_="spread"))
    if math.isnan(number):
        parts.append(tag("p", result.reason(name) or "does not exist", class_="small dim"))
    elif 0 <= number <= 1:
        parts.append(bar(number, result.intervals.get(name), f"{words} {number:.3f} {between}".rstrip(), 190))
    return tag("figure", *parts)


def between_of(result: ResultData, name: str, decimals: int = 3) -> str:
    """The ends of the interval of a number in words, why it has none, or nothing where intervals were not asked for."""
    interval = result.intervals.get(name)
    if interval is None or math.isnan(_number_at(result, name)):
        return ""
    if not exists(interval):
        return interval.reason.partition(":")[0] or "no interval"
    return numbers.span(interval.low, interval.high, decimals)


def _number_at(result: ResultData, name: str) -> float:
    value: Any = result.values
    for part in name.split("/", 1):
        value = value[part]
    return float(value)


def bar(value: float, interval: Interval | None, label: str, width: int = _BAR) -> Html:
    """A fraction as a bar, with its interval."""
    ends: tuple[float, ...] = ()
    if interval is not None and exists(interval):
        ends = (max(interval.low, 0.0), min(interval.high, 1.0))
    return charts.rate_bar(Estimate(value, *ends), visible(label), width)


def class_section(result: Result, costs: Mapping[str, str]) -> Html | None:
    """The classes, the worst first; None where the result has no numbers of classes.

    Args:
        result: of an evaluation.
        costs: of each class, the kind of error that costs most, in words; empty where unknown.
    """
    values, main = result.values, _CLASS_NUMBERS[0]
    if not isinstance(values.get(main), Mapping):
        return None
    shown = [name for name in _CLASS_NUMBERS if isinstance(values.get(name), Mapping)]
    counted = [name for name in ("ground_truths_per_class", "detections_per_class") if name in values]
    limit = (result.signature.get("max_detection_thresholds") or ("",))[-1]
    words = {
        "map_per_class": "AP",
        "map_50_per_class": "AP50",
        "map_75_per_class": "AP75",
        "mar_per_class": f"AR{limit}",
    }
    columns = [Column("class"), Column("AP", True), Column(tag("span", "AP from 0 to 1", class_="vh"))]
    columns += [Column(words[name], True) for name in shown[1:]]
    columns += [Column(name.removesuffix("_per_class").replace("_", " "), True) for name in counted]
    columns += [Column("costliest error")] if costs else []
    known = {name: value for name, value in values[main].items() if not math.isnan(value)}
    rows = []
    truths = values.get("ground_truths_per_class") or {}
    for name in sorted(known, key=lambda name: (known[name], -truths.get(name, 0), name)):
        cells = [name_of(name), _number_cell(result, f"{main}/{name}", known[name])]
        cells.append(bar(known[name], result.intervals.get(f"{main}/{name}"), f"AP of {name}: {known[name]:.3f}"))
        cells += [Html(numbers.number(values[column][name], 3)) for column in shown[1:]]
        cells += [Html(numbers.count(values[column][name])) for column in counted]
        rows.append([*cells, costs.get(name, "")] if costs else cells)
    absent = [name for name in values[main] if name not in known]
    parts = [folded_table(columns, rows, "Numbers of classes, the worst first", MOST_CLASSES, "classes", "even")]
    if absent:
        parts.append(_absent(absent))
    return section("classes", "Classes", *parts, note=f"{len(known):,} with an AP, the worst first")


def _number_cell(result: Result, name: str, value: float) -> Html:
    between = between_of(result, name)
    under = tag("span", between, class_="under") if between else ""
    return joined([numbers.number(value, 3), under])


def _absent(names: Sequence[str]) -> Html:
    """Names of classes without a number."""
    have = "class has" if len(names) == 1 else "classes have"
    said = f"{len(names):,} {have} no AP, for no ground truth of theirs counts"
    return tag("details", tag("summary", said), tag("p", joined(map(name_of, names), ", "), class_="small dim inside"))


def choice_section(result: Result, files: Mapping[str, Mapping[str, Any]], versions: Mapping[str, Any]) -> Html:
    """The signature, the counts, the files and the versions."""
    counts = [(name.replace("_", " "), f"{n:,}") for name, n in result.counts.items()]
    known = [(name, text) for name, text in versions.items() if text]
    parts = _named(
        "Signature", ("choice", "value"), [(name, choice_text(each)) for name, each in result.signature.items()]
    )
    parts += _named("Counts", ("count", "number"), counts)
    parts += _named("Files", ("file", "path", "bytes", "SHA-256"), list(_files(files))) if files else []
    parts += _named("Versions", ("program", "version"), known)
    folded = tag("details", tag("summary", "Signature, counts, files and versions"), *parts, class_="stack")
    return section("choices", "Choices", tag("p", str(result.signature), class_="small mono"), folded)


def _named(name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Html]:
    """A heading and a table of this name."""
    return [tag("h3", name), table([Column(each, each in ("bytes", "number")) for each in columns], rows, name)]


def _files(files: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    for name, each in files.items():
        size = each.get("bytes")
        yield (
            name.replace("_", " "), name_of(each.get("path", "")), numbers.NOTHING if size is None else f"{size:,}",
            tag("span", each.get("sha256") or numbers.NOTHING, class_="mono"),
        )  # fmt: skip
