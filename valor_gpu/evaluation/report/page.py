"""Puts the page together and writes it."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from valor_gpu._version import __version__
from valor_gpu.checks import check_type
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.report import bounds
from valor_gpu.evaluation.report.bounds import short, short_name
from valor_gpu.evaluation.report.cards import INTERVAL, families, headline, total_failures
from valor_gpu.evaluation.report.comparison import comparison_parts
from valor_gpu.evaluation.report.facts import run_facts
from valor_gpu.evaluation.report.rows import RowReader, chosen_rows
from valor_gpu.evaluation.results.comparison import compare_runs
from valor_gpu.evaluation.results.files import replaced_files
from valor_gpu.evaluation.results.summary import evaluator_infos, run_summary
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.pages import charts, numbers, stylesheet
from valor_gpu.pages.texts import Html, cut
from valor_gpu.store import Run, Store
from valor_gpu.store.edits import edits_of
from valor_gpu.store.groups import FailureGroup, failed_rows, failed_scores

if TYPE_CHECKING:
    import jinja2

_SLACK = 20_000  # bytes of titles of groups and links to rows, which come with the rows


def write_report(
    run: Run,
    file: str | os.PathLike[str],
    *,
    baseline: Run | None = None,
    thresholds: Mapping[str, float | str] | None = None,
) -> Path:
    """Writes a run as one HTML file: it needs no script, asks for no address, and is at most 5 MB whatever the run.

    The page has the configuration, a figure for every evaluator, slices, failures by cause, the worst rows with their
    texts and reasons, and the comparison with a baseline. What it leaves out is said with its count. Texts of data,
    target and judge are shown as text, never as markup; characters that steer a page or hide are named.

    Args:
        run: of a store, in any state.
        file: where the page is written; one that is there is replaced at once, when the page is complete.
        baseline: run that this one is compared with; by default the one that its configuration names, where the store
            still has it.
        thresholds: instead of those of the run; see :func:`~valor_gpu.evaluation.results.summary.run_summary`.

    Returns:
        The path of the file.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the file cannot be written.
    """
    check_type("run", run, Run)
    if baseline is not None:
        check_type("baseline", baseline, Run)
    path = Path(file)
    page = report_page(run, baseline, thresholds)
    with replaced_files({"report": path}) as files:
        files["report"].write(page)
    return path


def report_page(
    run: Run,
    baseline: Run | None = None,
    thresholds: Mapping[str, float | str] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> str:
    """The page of :func:`write_report` as text; ``summary`` is that of the run, where it is known already."""
    environment = _environment()
    style = stylesheet()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    summary = run_summary(run, thresholds=thresholds) if summary is None else summary
    context = {**_run_parts(run, baseline, summary), "style": Html(style), "style_hash": digest}
    template = environment.get_template("report.html")
    facts, total = summary["evaluators"], sum(run.counts().values())
    frame = template.render({**context, **_no_rows(facts, total)})
    left = min(bounds.ROW_BYTES, bounds.PAGE_BYTES - len(frame.encode()) - _SLACK)
    given = run.config.get("thresholds") if thresholds is None else thresholds
    reader = RowReader(run, facts, list(facts)[: bounds.COLUMNS], read_thresholds(given, evaluator_infos(run)))
    rows = _rows(reader, chosen_rows(run, facts, [cause.first_row for cause in context["causes"]]), left, environment)
    return template.render({**context, **_no_rows(facts, total), **rows, "more_rows": total - len(rows["shown"])})


def _environment() -> jinja2.Environment:
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError("jinja2", "eval", "report.html") from None
    return _made_environment()


@functools.cache
def _made_environment() -> jinja2.Environment:
    import jinja2

    from valor_gpu.pages.bytecode import TemplateBytecode

    found = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.PackageLoader("valor_gpu.evaluation.report", "."),
        bytecode_cache=TemplateBytecode(Path(__file__).parent, "page"),
    )
    found.globals.update(icon=charts.icon, nothing=numbers.NOTHING)
    found.filters.update(count=numbers.count, short=short, words=bounds.words)
    return found


def _run_parts(run: Run, baseline: Run | None, summary: Mapping[str, Any]) -> dict[str, Any]:
    """All of the page but its rows."""
    facts = summary["evaluators"]
    failed = total_failures(list(facts.values()))
    causes, more_causes = _causes(run)
    cards, more_evaluators = families(run, summary, bounds.EVALUATORS)
    config, more_config = cut(json.dumps(run.config, indent=2, ensure_ascii=False), bounds.CONFIG)
    notes = [short(note, bounds.CELL) for note in run.config.get("notes") or ()]
    return {
        "title": short(run.name) or "Evaluation",
        "run_id": run.id,
        "state": run.state,
        "facts": list(run_facts(run, summary)),
        "tags": [bounds.tag_words(*tag) for tag in list(run.tags.items())[: bounds.NOTES]],
        "note": cut(edits_of(run).note, bounds.CELL)[0],
        "stopped": short(summary["stopped"] or "", bounds.CELL),
        "notes": notes[: bounds.NOTES],
        "more_notes": max(len(notes) - bounds.NOTES, 0),
        "passed": _passed(summary["passed"]),
        "failed_scores": failed,
        "n_failed": sum(failed.values()),
        "n_scores": sum(each["n_scores"] + sum(each["n_failed"].values()) for each in facts.values()),
        "families": cards,
        "more_evaluators": more_evaluators,
        **_compared(run, baseline, facts),
        "slices": list(_slices(summary)),
        "more_slices": max(len(summary["slices"]) - bounds.SLICE_COLUMNS, 0),
        "causes": causes,
        "more_causes": more_causes,
        "config": config,
        "more_config": more_config,
        "version": __version__,
    }


def _compared(run: Run, baseline: Run | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison, or in words why there is none although a baseline is named."""
    named = run.config.get("baseline")
    if baseline is None and not named:
        return {"comparison": None, "no_comparison": ""}
    try:
        with contextlib.ExitStack() as stack:
            if baseline is None:
                baseline = stack.enter_context(Store(run._database.path)).run(str(named))
            return {"comparison": comparison_parts(compare_runs(run, baseline), facts), "no_comparison": ""}
    except InputError as error:
        return {"comparison": None, "no_comparison": short(error, bounds.CLIP)}


def _passed(found: Mapping[str, Any] | None) -> dict[str, str] | None:
    if found is None:
        return None
    between = found["interval"]
    return {
        "rate": numbers.percent(found["rate"]),
        "rows": f"{found['n_passed']:,} of {found['n']:,} rows",
        "between": numbers.percent_span(*between) if between else "",
        "undecided": f"{found['n_undecided']:,}" if found["n_undecided"] else "",
    }


def _slices(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A table for each column: its values down, evaluators across."""
    names = list(summary["evaluators"])
    shown = names[: bounds.SLICE_EVALUATORS]
    for column, found in list(summary["slices"].items())[: bounds.SLICE_COLUMNS]:
        slices = found["slices"]
        yield {
            "column": short(column),
            "reason": short(found.get("reason") or "", bounds.CELL),
            "names": [short_name(name) for name in shown],
            "more_names": len(names) - len(shown),
            "lines": [_slice(each, summary["evaluators"], shown) for each in slices[: bounds.SLICES]],
            "more": max(len(slices) - bounds.SLICES, 0),
        }


def _slice(found: Mapping[str, Any], whole: Mapping[str, Any], shown: Sequence[str]) -> dict[str, Any]:
    value = found["value"]
    cells = []
    for name in shown:
        fixed = {key: whole[name][key] for key in ("kind", "pooled", "low", "high")}
        each = {**fixed, **found["evaluators"][name]}
        number, _, between = headline(each)
        said = between.removeprefix(INTERVAL).strip() if between.startswith(INTERVAL) else ""
        cells.append((number, f"{said + '; ' if said else ''}{each['n']:,}"))
    named = "no value" if value is None else short(value if isinstance(value, str) else json.dumps(value))
    return {"value": named, "n": found["n"], "cells": cells}


def _causes(run: Run) -> tuple[list[FailureGroup], int]:
    rows, more_rows = failed_rows(run, bounds.FAILURES)
    scores, more_scores = failed_scores(run, bounds.FAILURES)
    return [*rows, *scores], more_rows + more_scores


def _no_rows(facts: Mapping[str, Any], total: int) -> dict[str, Any]:
    """The part with the rows where there is none."""
    columns = [short_name(name) for name in list(facts)[: bounds.COLUMNS]]
    more = {"n_rows": total, "more_rows": total, "more_columns": len(facts) - len(columns)}
    return {"columns": columns, "groups": [], "shown": frozenset(), "full": False, **more}


def _rows(
    reader: RowReader, wanted: Sequence[tuple[str, list[int]]], left: int, environment: jinja2.Environment
) -> dict[str, Any]:
    """The rows as markup, as many as fit into ``left`` bytes."""
    macro = environment.get_template("rows.html").module.row  # type: ignore[attr-defined]
    groups: list[tuple[str, list[Html]]] = []
    shown: set[int] = set()
    full = False
    for title, chosen in wanted:
        groups.append((title, []))
        for view in reader.views(chosen):
            part = str(macro(view, len(view.cells)))
            size = len(part.encode())
            if size > left:  # a later row may be smaller
                full = True
                continue
            left -= size
            groups[-1][1].append(Html(part))
            shown.add(view.number)
    return {"groups": [group for group in groups if group[1]], "shown": shown, "full": full}
