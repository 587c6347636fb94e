"""A result as a few lines of text, and as a table of HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.evaluation.results.common_errors import error_lines
from valor_gpu.evaluation.results.spending import attempts_in_words
from valor_gpu.store.runs import Run
from valor_gpu.store.saved import VISION

_HEADER = ("metric", "value", "95% interval", "n", "no score", "pass or defect rate")


def result_text(run: Run, summary: Mapping[str, Any]) -> str:
    """Lines with every metric, how many rows stand behind it, and what is missing."""
    if run.config.get("kind") in VISION:
        numbers = [(name, shown(value)) for name, value in summary["metrics"].items()]
        return "\n".join([*headlines(run, summary), "", *aligned([_HEADER[:2], *numbers])])
    lines = [*headlines(run, summary), "", *aligned([_HEADER, *metric_cells(summary)])]
    return "\n".join([*lines, *_reasons(run, summary)])


def result_html(run: Run, summary: Mapping[str, Any]) -> str:
    """The same as HTML without scripts or styles; every text is escaped."""
    cells = metric_cells(summary)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in _HEADER)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in cells)
    texts = "".join(f"<p>{html.escape(line)}</p>" for line in headlines(run, summary))
    notes = "".join(f"<p>{html.escape(line)}</p>" for line in _reasons(run, summary))
    return f"<div>{texts}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"


def headlines(run: Run, summary: Mapping[str, Any]) -> list[str]:
    """What a run was and what became of its rows."""
    rows = summary["rows"]
    failed = ", ".join(f"{n} {status}" for status, n in rows["failed"].items())
    answered = f", {rows['ok']} with an answer" if run.config.get("target") else ""  # else answers are columns
    stopped = f" ({summary['stopped']})" if summary.get("stopped") else ""
    lines = [
        f"{run.name}, run {run.id}: {run.state}{stopped}",
        f"{'unknown' if rows['n'] is None else rows['n']} rows{answered}" + (f", failed: {failed}" if failed else ""),
    ]
    spent = []
    if summary["usage"]["total"]:
        spent.append(f"{summary['usage']['total']:,} tokens")
    if summary["cost"] is not None:
        currency = (run.config.get("prices") or {}).get("currency", "")
        spent.append(f"cost {summary['cost']:.4g} {currency}".rstrip() + _replaced(summary))
    if summary["seconds"] is not None:
        spent.append(f"{summary['seconds']:.1f} s")
    return [*lines, ", ".join(spent)] if spent else lines


def _replaced(summary: Mapping[str, Any]) -> str:
    """The part of the cost that failed attempts took which were replaced."""
    replaced = summary.get("replaced") or {}
    if not replaced.get("n") or replaced["cost"] is None:
        return ""
    return f" ({replaced['cost']:.4g} of it for {attempts_in_words(replaced['n'])})"


def metric_cells(summary: Mapping[str, Any]) -> list[list[str]]:
    """A row of texts for every metric."""
    return [_cells(each) for each in summary["evaluators"].values()]


def _cells(each: Mapping[str, Any]) -> list[str]:
    value = each["value"] if each["pooled"] else each["mean"]
    lacking = each["n_without_score"] + each["n_not_judged"]
    return [
        each["summary_name"],
        shown(value),
        "" if each["interval"] is None else f"{shown(each['interval'][0])} to {shown(each['interval'][1])}",
        str(each["n"]),
        str(lacking) if lacking else "",
        next(
            (
                f"{name.replace('_', ' ')} {percent(each[name])}"
                for name in ("pass_rate", "defect_rate")
                if name in each
            ),
            "",
        ),
    ]


def _reasons(run: Run, summary: Mapping[str, Any]) -> list[str]:
    """Why numbers are missing, how many scores are, and the most frequent errors."""
    lines: list[str] = []
    for name, each in summary["evaluators"].items():
        why = each["reasons"]
        lines += [f"{name} has no value: {why[what]}" for what in ("mean", "value") if what in why]
        if each["n_failed"]:
            failed = ", ".join(f"{n} {status}" for status, n in each["n_failed"].items())
            lines.append(f"{name}, scores without a value: {failed}")
        spread = each["repeats"]["judge_deviation"] if "repeats" in each else None
        if spread is not None:
            lines.append(f"{name}: repeats of a row differ by a standard deviation of {shown(spread)}")
    if errors := error_lines(run):
        lines += ["most frequent errors:", *(f"  {line}" for line in errors)]
    return ["", *lines] if lines else []


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns stand below one another, the first one to the left."""
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = [
        "  ".join(f"{text:<{w}}" if i == 0 else f"{text:>{w}}" for i, (text, w) in enumerate(zip(row, widths)))
        for row in table
    ]
    return [line.rstrip() for line in lines]


def shown(value: float | None) -> str:
    """A number with four digits that matter; a dash for None."""
    return "-" if value is None else f"{value:.4g}"


def percent(value: float | None) -> str:
    """A fraction as a percentage."""
    return "-" if value is None else f"{100 * value:.1f}%"
