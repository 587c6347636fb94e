"""The part of the page that compares the run with a baseline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.report.bounds import CLIP, DIFFERENCES, NAME, NOTES, short, short_name
from valor_gpu.evaluation.report.compared_metrics import compared_metrics, scales_of
from valor_gpu.evaluation.report.rows import row_title
from valor_gpu.evaluation.results.comparison import Comparison
from valor_gpu.evaluation.results.metric_comparison import MetricComparison
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import comparison_table
from valor_gpu.pages.texts import Html
from valor_gpu.store import StoredRow

MOST_ROWS = 20
MOST_CHANGES = 8


def comparison_parts(found: Comparison, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the parts of a comparison that the template shows.

    Args:
        found: the comparison.
        facts: summary of the run's evaluators.
    """
    metrics = list(found.metrics.values())
    shown = metrics[:DIFFERENCES]
    changed = found.n_different()
    rows = found.rows(limit=MOST_ROWS) if found.metrics else []
    jailbreak = found.to_dict()["jailbreak"]
    return {
        "baseline": short(found.baseline.name) or found.baseline.id,
        "baseline_id": found.baseline.id,
        "joined": f"{found.n:,} shared rows, {changed:,} differ; {found.n_run_only:,} only in this run, "
        f"{found.n_baseline_only:,} only in the baseline",
        "table": _table(shown, facts, found.confidence),
        "more": len(metrics) - len(shown),
        "warnings": [short(text, CLIP) for text in found.warnings[:NOTES]],
        "settings": [_setting(each) for each in found.differences[:NOTES]],
        "more_settings": max(len(found.differences) - NOTES, 0),
        "only_in": [
            f"only in {where}: {', '.join(short_name(name) for name in names[:NOTES])}"
            for where, names in (("this run", found.only_in["run"]), ("the baseline", found.only_in["baseline"]))
            if names
        ],
        "jailbreak": _jailbreak(jailbreak),
        "rows": [_row(row, facts, found.run.config.get("data_mapping") or {}) for row in rows],
        "more_rows": max(changed - len(rows), 0),
    }


def _table(
    metrics: Sequence[MetricComparison], facts: Mapping[str, Mapping[str, Any]], confidence: float
) -> Html | None:
    if not metrics:
        return None
    return comparison_table(
        compared_metrics(metrics, lambda each: each.summary_name, scales_of(facts), confidence),
        "Differences from the baseline",
        names=("baseline", "this run"),
        heading="metric",
        p_name="p, Holm",
        confidence=confidence,
        most=DIFFERENCES,
    )


def _setting(found: Mapping[str, Any]) -> tuple[str, str, str]:
    return short(found["name"]), _value(found["baseline"]), _value(found["run"])


def _value(value: Any) -> str:
    return "none" if value is None else short(value if isinstance(value, str) else json.dumps(value), NAME)


def _jailbreak(found: Mapping[str, Any] | None) -> str:
    if found is None or found["rate"] is None:
        return ""
    between = f", 95% interval {numbers.percent_span(*found['interval'])}" if found["interval"] else ""
    return f"{numbers.percent(found['rate'])}: {found['n_worse']:,} of {found['n']:,} rows{between}"


def _row(
    found: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]], mapping: Mapping[str, str]
) -> dict[str, Any]:
    row = StoredRow(1, found["key"], found["inputs"])
    changes = list(_changes(found["metrics"], facts))
    return {
        "number": found["numbers"][0] if found["numbers"] else 0,
        "key": short(found["key"]),
        "title": row_title(row, mapping),
        "changes": changes[:MOST_CHANGES],
        "more": max(len(changes) - MOST_CHANGES, 0),
    }


def _changes(metrics: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    for name, each in metrics.items():
        if each["run"] == each["baseline"]:
            continue
        known = facts.get(name, {})
        decimals = numbers.decimals_of(known.get("low"), known.get("high"))
        yield (
            short_name(name),
            numbers.number(each["baseline"], decimals),
            numbers.number(each["run"], decimals),
            numbers.difference(each["difference"], decimals),
        )
