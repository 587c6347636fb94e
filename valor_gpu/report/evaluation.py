"""Tables of runs for a terminal: their numbers, what they were made of, slices and failures. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.evaluation.results.latency import latency_in_words
from valor_gpu.evaluation.results.result_text import result_text, shown
from valor_gpu.report.evaluators import day_text
from valor_gpu.report.text import plural, printable, printable_lines, table
from valor_gpu.store.serving import run_address

if TYPE_CHECKING:
    from valor_gpu.store import Run

Summary = Mapping[str, Any]
"""What :func:`valor_gpu.evaluation.results.summary.run_summary` gives."""

_WIDE = 60
"""Characters of a cell of texts that a table shows."""


def run_summary_of(run: Run, thresholds: Mapping[str, Any] | None = None) -> Summary:
    """The summary that the run ended with; of one that has not ended, or with other thresholds, counted now."""
    kept = run.finished_summary
    if thresholds is None and kept is not None and run.state != "running" and "metrics" in kept:
        return kept
    from valor_gpu.evaluation.results.summary import run_summary  # loads numpy, which a finished run needs not

    return run_summary(run, thresholds=thresholds)


def run_text(run: Run, summary: Summary, note: str = "") -> str:
    """The whole report of a run: its numbers, slices, what it was made of, and a note at its end."""
    calls = [f"time of a call: {each}" for each in latency_in_words(summary.get("latency") or {})]
    made = "\n".join([*config_lines(run), *calls])
    parts = [printable_lines(result_text(run, summary)), *slice_tables(summary), made, note]
    return "\n\n".join(part for part in parts if part)


def config_lines(run: Run) -> Iterator[str]:
    """What a run was made of, and what its user was told."""
    config = run.config
    said = {
        "begun": day_text(run.created),
        "data": str((config.get("data") or {}).get("source", "")),
        "target": origin_text(config.get("target")),
        "judge": origin_text(config.get("judge")),
        "baseline": str(config.get("baseline") or ""),
        "tags": ", ".join(f"{name}={value}" for name, value in run.tags.items()),
        "files": str(config.get("output_path") or ""),
        "studio": run_address(run) or "",
    }
    yield from (printable(f"{name}: {value}") for name, value in said.items() if value)
    yield from (printable(f"note: {note}") for note in config.get("notes", ()))


def origin_text(config: Mapping[str, Any] | None) -> str:
    """How a configuration names a target, a judge or a model, in a few words."""
    if not config:
        return ""
    what, where = (
        next((str(config[name]) for name in names if config.get(name)), "")
        for names in (("model", "azure_deployment", "origin", "url", "name", "kind"), ("base_url", "endpoint"))
    )
    return f"{what} at {where}" if where and where != what else what


def failed_line(summary: Summary) -> str:
    """How many rows have no answer and how many scores no value; empty where there is none."""
    rows = sum(summary["rows"]["failed"].values())
    scores = sum(sum(each["n_failed"].values()) for each in summary["evaluators"].values())
    parts = [f"{plural(rows, 'row')} of {summary['rows']['n']:,} without an answer"] if rows else []
    parts += [f"{plural(scores, 'score')} without a value"] if scores else []
    return ", ".join(parts)


def slice_tables(summary: Summary) -> Iterator[str]:
    """One table per column of slices: every metric for every value, and how many rows there are."""
    for column, found in summary["slices"].items():
        slices = found["slices"]
        names = list(dict.fromkeys(name for each in slices for name in each["evaluators"]))
        rows = [
            [cell_text(each["value"]), f"{each['n']:,}", *(_number_in(each["evaluators"].get(name)) for name in names)]
            for each in slices
        ]
        if rows:
            yield table([column, "rows", *names], rows)
        if found.get("reason"):
            yield printable(f"{column}: {found['reason']}")


def _number_in(found: Mapping[str, Any] | None) -> str:
    return "" if found is None else shown(found.get("value", found.get("mean")))


def run_table(runs: Iterable[Run]) -> str:
    """One line per run: id, when, state, name, rows and numbers."""
    lines = []
    for run in runs:
        kept = (run.finished_summary or {}) if run.state != "running" else {}  # else it is of an end before it went on
        numbers = ", ".join(f"{name} {shown(value)}" for name, value in (kept.get("metrics") or {}).items())
        count = (kept.get("rows") or {}).get("n")
        rows = "" if count is None else f"{count:,}"
        lines.append([run.id, day_text(run.created), run.state, cut(run.name), rows, cut(numbers, 100)])
    return table(["run", "begun", "state", "name", "rows", "numbers"], lines, left=6)


def grid_table(runs: Sequence[Run], summaries: Sequence[Summary]) -> str:
    """One line per run of a grid: its parameters and numbers."""
    names = list(dict.fromkeys(name for run in runs for name in run.config.get("parameters", {})))
    numbers = list(dict.fromkeys(name for summary in summaries for name in summary["metrics"]))
    lines = [
        [
            run.id,
            *(cell_text(run.config["parameters"].get(name)) for name in names),
            *(shown(summary["metrics"].get(name)) for name in numbers),
        ]
        for run, summary in zip(runs, summaries)
    ]
    return table(["run", *names, *numbers], lines, left=1 + len(names))


def failure_table(failures: Sequence[Mapping[str, Any]]) -> str:
    """Rows and scores that failed: number and key of the row, evaluator, status and why.

    Args:
        failures: entries of :class:`valor_gpu.evaluation.results.failures.Failures`.
    """
    lines = [
        [str(each["number"]), cut(each["key"]), each["evaluator"] or "", each["status"], cut(each["error"], 200)]
        for each in failures
    ]
    return table(["row", "key", "evaluator", "status", "why"], lines, left=5)


def cell_text(value: Any) -> str:
    """A value of a column as a text of one line."""
    return "(none)" if value is None else cut(value if isinstance(value, str) else str(value))


def cut(text: str, width: int = _WIDE) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"
