"""The tables of a saved result: headline numbers, classes, confusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.exports.intervals import choices_text
from valor_gpu.pages import charts, numbers
from valor_gpu.pages.charts import Estimate
from valor_gpu.pages.texts import visible
from valor_gpu.report.titles import title

_HEADLINES = 12
_CLASSES = 100
_MATRIX, _MATRIX_ALL = 10, 40
_PAIRS = 10
_WIDTH = 230

_COUNTS = ("ground_truths", "detections", "samples", "true_pixels", "predicted_pixels", "images", "support")


def headline(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of the numbers of the whole, with their intervals where there are any, and why one is missing."""
    metrics: Mapping[str, float | None] = summary.get("metrics") or {}
    intervals, choices = summary.get("intervals") or {}, summary.get("interval_choices") or {}
    reasons, without = summary.get("reasons") or {}, summary.get("interval_reasons") or {}
    confidence = f"{100 * (choices.get('confidence') or 0.95):g}%"
    figures = []
    for name, value in list(metrics.items())[:_HEADLINES]:
        words, what = title(name)
        ends = intervals.get(name)
        between, chart = f"{confidence} interval {numbers.span(ends[0], ends[1], 3)}" if ends else "", ""
        if value is not None and 0 <= value <= 1:
            label = f"{words} {value:.3f}{', ' + between if between else ''}"
            chart = charts.interval(Estimate(value, *(ends or ())), (0.0, 1.0), label, zero=None, width=130)
        figures.append(
            {
                "metric": name,
                "name": short(words),
                "what": what,
                "value": numbers.number(value, 3),
                "chart": chart,
                "between": between or short(_why_not(name, value, reasons, without)),
            }
        )
    rest = [
        (title(name)[0], _with_ends(numbers.number(value, 3), intervals.get(name)))
        for name, value in list(metrics.items())[_HEADLINES:]
    ]
    first = next((name for name in metrics if intervals.get(name)), None)
    return {
        "figures": figures,
        "rest": rest[:200],
        "n": (summary.get("rows") or {}).get("n"),
        "has_intervals": bool(intervals or choices),
        "choices": short(choices_text(choices, first), 300) if choices else "",
    }


def _why_not(name: str, value: float | None, reasons: Mapping[str, str], without: Mapping[str, str]) -> str:
    """Why a number does not exist, or has no interval."""
    if value is None:
        return reasons.get(name) or ""
    return f"no interval: {without[name]}" if without.get(name) else ""


def _with_ends(text: str, ends: Sequence[float] | None) -> str:
    return f"{text} ({numbers.span(ends[0], ends[1], 3)})" if ends else text


def class_table(summary: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
    """The table of classes, sorted as the address says.

    Returns:
        ``columns`` (name and words), ``lines`` (name, cells, chart), ``bar`` (the column that is drawn), ``total``.
    """
    table: Mapping[str, Mapping[str, float | None]] = summary.get("classes") or {}
    counts = [name for name in table if name in _COUNTS]
    columns = [*counts, *(name for name in table if name not in _COUNTS)]
    bar = rate_column(table)
    names = list(dict.fromkeys(name for column in table.values() for name in column))
    key, reverse = query.get("sort", "").removeprefix("-"), query.get("sort", "").startswith("-")
    if key == "name":
        names.sort(key=str.casefold, reverse=reverse)
    elif key in table:
        have = [name for name in names if table[key].get(name) is not None]
        have.sort(key=lambda name: table[key][name] or 0.0, reverse=reverse)
        names = have + [name for name in names if table[key].get(name) is None]
    shown = names if "classes" in query else names[:_CLASSES]
    intervals = summary.get("class_intervals") or {}
    return {
        "columns": [(name, title(name)[0]) for name in columns],
        "bar": None if bar is None else title(bar)[0],
        "lines": [_class_line(table, columns, bar, name, intervals) for name in shown],
        "total": len(names),
        "has_bounds": bool(intervals),
    }


def rate_column(table: Mapping[str, Mapping[str, float | None]]) -> str | None:
    """The first number of classes that lies from 0 to 1: what is drawn, and compared."""
    return next((name for name, column in table.items() if name not in _COUNTS and _is_rate(column)), None)


def _is_rate(column: Mapping[str, float | None]) -> bool:
    have = [value for value in column.values() if value is not None]
    return bool(have) and all(0 <= value <= 1 for value in have)


def _class_line(
    table: Mapping[str, Mapping[str, float | None]],
    columns: list[str],
    bar: str | None,
    name: str,
    intervals: Mapping[str, Mapping[str, Sequence[float]]],
) -> dict[str, Any]:
    cells = []
    for column in columns:
        value = table[column].get(name)
        whole = column in _COUNTS or (column in ("tp", "fp", "fn", "tn") and isinstance(value, (int, float)))
        text = numbers.number(value, 0 if whole and value == round(value or 0) else 3)
        cells.append(_with_ends(text, (intervals.get(column) or {}).get(name)))
    chart: Any = ""
    if bar is not None and (drawn := table[bar].get(name)) is not None:
        ends = (intervals.get(bar) or {}).get(name) or ()
        label = f"{title(bar)[0]} of {visible(name)}: {_with_ends(f'{drawn:.3f}', ends)}"
        inside = [min(max(end, 0.0), 1.0) for end in ends]
        chart = charts.rate_bar(Estimate(drawn, *inside), label, width=_WIDTH)
    return {"name": short(name), "id": name, "cells": cells, "chart": chart}


def confusions(summary: Mapping[str, Any], everything: bool) -> dict[str, Any] | None:
    """The confusion matrix of the classes that are confused most, and the largest confusions as a table."""
    found = summary.get("matrix")
    if not found:
        return None
    names: list[str] = found["names"]
    cells = {(i, j): n for i, j, n in found["counts"]}
    totals, errors = [0.0] * len(names), [0.0] * len(names)
    for (i, j), n in cells.items():
        totals[i] += n
        if i != j:
            errors[i] += n
            errors[j] += n
    background = set(found.get("background") or ())
    order = sorted((i for i in range(len(names)) if i not in background), key=lambda i: -errors[i])
    most = _MATRIX_ALL if everything else _MATRIX
    chosen = [*sorted(order[:most]), *sorted(background)]
    truths = [_truth(found, i) for i in chosen]
    guesses = [_guess(found, j) for j in chosen]
    counts = [[cells.get((i, j), 0) for j in chosen] for i in chosen]
    wrong = sorted(((n, i, j) for (i, j), n in cells.items() if i != j), key=lambda each: (-each[0], *each[1:]))
    label = "confusion matrix; the largest confusions: " + "; ".join(
        f"{_truth(found, i)} as {_guess(found, j)} {numbers.number(n, 0)}" for n, i, j in wrong[:5]
    )
    pairs = [
        (_truth(found, i), _guess(found, j), numbers.number(n, 0), numbers.percent(n / totals[i]))
        for n, i, j in wrong[:_PAIRS]
    ]
    left = min(max(32, 7 * max(map(len, truths)) + 16), 150)
    cell = min(max(44, 7 * max(map(len, guesses)) + 6), 80)
    return {
        "chart": charts.matrix(truths, guesses, counts, [totals[i] for i in chosen], label, cell, left),
        "pairs": pairs,
        "note": short(found.get("note", ""), 300),
        "total": len(names) - len(background),
        "shown": min(most, len(order)),
        "most": _MATRIX_ALL,
        "all": everything,
    }


def _truth(found: Mapping[str, Any], place: int) -> str:
    return "no object" if place in (found.get("background") or ()) else short(visible(found["names"][place]))


def _guess(found: Mapping[str, Any], place: int) -> str:
    return "missed" if place in (found.get("background") or ()) else short(visible(found["names"][place]))
