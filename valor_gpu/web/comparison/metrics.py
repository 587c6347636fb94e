"""What the page of a comparison says of metrics: one table of several runs, what stands against comparing, rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu.evaluation.report.bounds import short_name
from valor_gpu.evaluation.report.compared_metrics import compared_metrics, scales_of
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.results.metric_comparison import MetricComparison
from valor_gpu.evaluation.results.run_pairs import NOT_TESTED
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import ComparedNumber, comparison_table
from valor_gpu.pages.texts import Html

_METRICS = 100


def pair_table(found: Comparison, letters: Sequence[str], everything: bool) -> Html | None:
    """The table of a run beside the baseline; None where no metric differs.

    Args:
        found: of both.
        letters: of the baseline and the run.
        everything: whether metrics without any difference are shown, too.
    """
    rows = _numbers(found, everything)
    if not rows:
        return None
    return comparison_table(
        list(rows.values()),
        f"Differences of {letters[1]} from {letters[0]}",
        names=(letters[0], letters[1]),
        heading="metric",
        p_name="p, Holm",
        confidence=found.confidence,
        most=_METRICS,
    )


def runs_table(
    found: Sequence[Comparison], letters: Sequence[str], best: Mapping[str, int], everything: bool
) -> list[dict[str, Any]]:
    """Lines of the table of several runs beside a baseline: a metric each.

    Args:
        found: with one baseline.
        letters: of their runs.
        best: name of a metric to its best run, 0 for the baseline.
        everything: whether metrics without any difference in any run are shown, too.

    Returns:
        ``name``, ``base`` (numbers of the baseline over the pairs of each run, with the letters of the runs),
        ``base_is_best``, and ``cells``: of each run ``value``, ``difference``, ``between``, ``p``, ``reading``,
        ``kind``, ``note``, ``rows`` and ``best``; None where it lacks the metric.
    """
    tables = [_numbers(each, True) for each in found]
    names = dict.fromkeys(name for each in found for name in each.metrics)
    shown = [name for name in names if everything or any(_differs(each.metrics.get(name)) for each in found)]
    lines = []
    for name in shown:
        rows = [table.get(name) for table in tables]
        bases: dict[str, list[str]] = {}
        for letter, row in zip(letters, rows):
            if row is not None:
                bases.setdefault(numbers.number(row.first, row.decimals), []).append(letter)
        lines.append(
            {
                "name": short_name(name),
                "base": [(number, ", ".join(of)) for number, of in bases.items()],
                "base_is_best": best.get(name) == 0,
                "cells": [
                    None if row is None else _cell(row, best.get(name) == place) for place, row in enumerate(rows, 1)
                ],
            }
        )
    return lines


def _cell(row: ComparedNumber, is_best: bool) -> dict[str, Any]:
    return {
        "value": numbers.number(row.second, row.decimals),
        "difference": numbers.difference(row.difference, row.decimals),
        "between": row.between if row.has_interval else "",
        "p": numbers.p_value(row.p_value),
        "reading": row.reading,
        "is_shown": row.is_shown,
        "note": row.note,
        "rows": row.rows,
        "best": is_best,
    }


def n_hidden(found: Sequence[Comparison]) -> int:
    """How many metrics differ in no row of any run."""
    names = {name for each in found for name in each.metrics}
    return sum(not any(_differs(each.metrics.get(name)) for each in found) for name in names)


def _numbers(found: Comparison, everything: bool) -> dict[str, ComparedNumber]:
    metrics = [each for each in found.metrics.values() if everything or _differs(each)]
    infos = {each["name"]: each for each in found.run.config.get("evaluators") or ()}
    rows = compared_metrics(metrics, lambda each: each.name, scales_of(infos), found.confidence)
    return {each.name: _untested(row) if each.reason == NOT_TESTED else row for each, row in zip(metrics, rows)}


def _untested(row: ComparedNumber) -> ComparedNumber:
    """The row of a metric whose test is still to come."""
    notes = [note for note in row.note.split("; ") if note != NOT_TESTED]
    return replace(row, reading="being tested", note="; ".join(notes))


def _differs(found: MetricComparison | None) -> bool:
    return found is not None and (found.n_higher + found.n_lower > 0 or found.n_missing > 0 or found.n == 0)


def grouped_warnings(
    found: Sequence[Comparison], letters: Sequence[str], more: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """What stands against comparing, each text once.

    Args:
        found: with one baseline.
        letters: of their runs.
        more: a text about each run; empty for none.

    Returns:
        ``text`` and ``of``: letter of a run and its metrics, none where the text is about the whole run. Runs with the
        same metrics stand together.
    """
    whose: dict[str, dict[str, list[str]]] = {}
    for letter, each in zip(letters, found):
        metrics = [metric for metric in each.metrics.values() if metric.warning]
        for text in each.warnings[: len(each.warnings) - len(metrics)]:
            whose.setdefault(text, {})[letter] = []
        for metric in metrics:
            whose.setdefault(metric.warning, {}).setdefault(letter, []).append(short_name(metric.name))
    for letter, text in zip(letters, more):
        if text:
            whose.setdefault(text, {})[letter] = []
    return [{"text": text, "of": _together(of)} for text, of in whose.items()]


def _together(of: Mapping[str, Iterable[str]]) -> list[tuple[str, list[str]]]:
    """Letters that have the same metrics, and these."""
    found: dict[tuple[str, ...], list[str]] = {}
    for letter, metrics in of.items():
        found.setdefault(tuple(metrics), []).append(letter)
    return [(", ".join(letters), list(metrics)) for metrics, letters in found.items()]


def jailbreak_rates(found: Sequence[Comparison], letters: Sequence[str], is_asked: bool) -> dict[str, Any] | None:
    """Jailbreak defect rates of runs; None where no run has severities that the baseline has, too.

    Args:
        found: with one baseline.
        letters: of their runs.
        is_asked: whether the rates of all runs are asked for; else of those that were run as a test against the
            baseline, by ``evaluate(baseline=)``.

    Returns:
        ``rates``: letter, rate, and the severities that are not comparable; ``is_asked``.
    """
    able = [(letter, each) for letter, each in zip(letters, found) if each.jailbreak is not None]
    if not able:
        return None
    shown = [(letter, each) for letter, each in able if is_asked or _is_test(each)]
    return {"rates": [(letter, each.jailbreak, _doubtful(each)) for letter, each in shown], "is_asked": is_asked}


def _is_test(found: Comparison) -> bool:
    """Whether a run names the baseline in its configuration."""
    return found.run.config.get("baseline") == found.baseline.id


def _doubtful(found: Comparison) -> list[str]:
    infos = {name: pair.info for name, pair in found._pairs.items()}
    return [
        short_name(name) for name, each in found.metrics.items() if each.warning and infos[name]["kind"] == "safety"
    ]
