"""Runs beside a baseline: what differs in their settings, their numbers and their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.responses import Response, StreamingResponse

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.results.comparison_files import group_markdown, joined_csv
from valor_gpu.evaluation.results.config_difference import config_leaves
from valor_gpu.pages import numbers
from valor_gpu.store import Run
from valor_gpu.web.book import Entry
from valor_gpu.web.comparison.background import ComparedRuns, Mark, compared_runs
from valor_gpu.web.comparison.metrics import grouped_warnings, jailbreak_rates, n_hidden, pair_table, runs_table
from valor_gpu.web.comparison.rows import Asked, compared_rows
from valor_gpu.web.plain import plain_config
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, see
from valor_gpu.web.vision.baseline import vision_numbers
from valor_gpu.web.vision.baseline_tests import vision_tests

MOST = 6
_LETTERS = "ABCDEF"
_COLUMNS = 200
_DIGITS = 12
"""Of the hash of a data set that are shown, as on the page of a run."""


def compare(ask: Ask) -> Response:
    """The page of a comparison, or the choice of what to compare."""
    entries = {each.head.id: each for each in ask.studio.book.entries()}
    wanted = _wanted(ask, entries)
    if len(wanted) < 2:
        return _choice(ask, entries, wanted)
    return _comparison(ask, _ordered(ask, entries, wanted))


def _wanted(ask: Ask, entries: Mapping[str, Entry]) -> list[str]:
    """Ids of the runs of the address."""
    wanted = list(dict.fromkeys(uid for text in ask.many("runs") for uid in text.split(",")))
    for uid in wanted:
        if uid not in entries:
            raise missing(f"There is no run {uid} in this store. It may have been deleted.")
    if len(wanted) > MOST:
        raise InputError(f"at most {MOST} runs can be compared at once, and {len(wanted)} were chosen")
    return wanted


def _ordered(ask: Ask, entries: Mapping[str, Entry], wanted: Sequence[str]) -> list[Entry]:
    """Entries of the runs, the baseline first."""
    oldest = min(wanted, key=lambda uid: entries[uid].head.created)
    base = ask.query.get("baseline", "") if ask.query.get("baseline") in wanted else oldest
    return [entries[uid] for uid in [base, *(uid for uid in wanted if uid != base)]]


def _choice(ask: Ask, entries: dict[str, Entry], wanted: Sequence[str]) -> Response:
    chosen = entries[wanted[0]] if wanted else None
    others = [each for each in entries.values() if each.head.state in ("finished", "stopped") and each is not chosen]
    if chosen is not None:
        others.sort(key=lambda each: each.head.dataset != chosen.head.dataset)
    same = {each.head.id for each in others if chosen and chosen.head.dataset == each.head.dataset != ""}
    rows = [(each.head.id, each.head.name or each.head.id, _where(each), each.head.id in same) for each in others[:100]]
    name = None if chosen is None else (chosen.head.id, chosen.head.name or chosen.head.id)
    return page(ask, "compare_choice.html", chosen=name, others=rows, more=max(len(others) - 100, 0))


def _where(entry: Entry) -> str:
    """What tells runs of one name apart: what was evaluated, on which data, and when."""
    return " · ".join(part for part in (entry.about, entry.data, entry.started) if part)


def _runs(ask: Ask, entries: Sequence[Entry]) -> tuple[list[Run], dict[str, Mark]]:
    """The runs, and what changes when one of them does."""
    runs = [ask.studio.store.run(each.head.id) for each in entries]
    for run in runs:
        run.config = plain_config(run.config)
    return runs, {each.head.id: (each.head.state, each.head.finished) for each in entries}


def _comparison(ask: Ask, entries: Sequence[Entry]) -> Response:
    runs, marks = _runs(ask, entries)
    letters = list(_LETTERS[: len(runs)])
    shown = [{"id": run.id, "letter": letter, "name": short(run.name) or run.id} for run, letter in zip(runs, letters)]
    whole = vision_numbers(runs)
    tests = [] if whole is None else vision_tests(ask.studio, runs, dict(zip(marks, letters)), marks)
    everything = "all" in ask.query
    common: dict[str, Any] = {"runs": shown, "whole": whole, "tests": tests, "everything": everything}
    if whole is not None and not all(run.config.get("evaluators") for run in runs):
        why = "At least one of these results was saved without its images, so there is nothing to join."
        return page(ask, "compare_numbers.html", **common, why=why, settings=_settings(ask, runs, (), everything))
    column = ask.query.get("cluster") or None
    problem = ""
    try:
        compared, waits = compared_runs(ask.studio, runs, marks, column)
    except InputError as error:
        if column is None:
            raise
        compared, waits, problem = ComparedRuns(runs[0], runs[1:], column), False, str(error)
    found = compared.found
    absent = {name for each in found for names in each.only_in.values() for name in names}
    return page(
        ask,
        "compare.html",
        **common,
        what=_what(runs[0]) if whole is not None else "rows",
        settings=_settings(ask, runs, absent, everything),
        columns=_columns(runs[1]),
        column=column,
        problem=problem,
        waits=waits,
        tested=compared.is_tested,
        **_numbers(compared, letters, everything, "jailbreak" in ask.query),
        **_rows(ask, compared, letters),
    )


def _what(run: Run) -> str:
    """What the rows of a saved result are."""
    return "samples" if run.config.get("kind") == "classification" else "images"


def _columns(run: Run) -> list[str]:
    """Columns of the data that may say which rows belong together."""
    first = next(iter(run.rows(limit=1)), None)
    return [] if first is None else list(first.inputs)[:_COLUMNS]


def _numbers(compared: ComparedRuns, letters: Sequence[str], everything: bool, is_asked: bool) -> dict[str, Any]:
    """What the template shows of metrics."""
    found, others = compared.found, letters[1:]
    pair = pair_table(found[0], letters, everything) if len(found) == 1 else None
    table = runs_table(found, others, compared.best, everything) if len(found) > 1 else []
    return {
        "found": [{"letter": letter, "n": each.n} for letter, each in zip(others, found)],
        "pair": pair,
        "table": table,
        "confidence": f"{100 * found[0].confidence:g}%" if found else "",
        "hidden": 0 if everything else n_hidden(found),
        "warnings": grouped_warnings(found, others, compared.asked),
        "only": [(letter, each.only_in) for letter, each in zip(others, found) if any(each.only_in.values())],
        "jailbreak": jailbreak_rates(found, others, is_asked),
        "markdown": group_markdown(found) if compared.is_tested else "",
    }


def _rows(ask: Ask, compared: ComparedRuns, letters: Sequence[str]) -> dict[str, Any]:
    """What the template shows of rows."""
    shared = list(dict.fromkeys(name for each in compared.found for name in each.metrics))
    asked = Asked.read(ask.query, shared, letters)
    differ = [each.n_different(asked.metric if asked.metric in each.metrics else None) for each in compared.found]
    rows, why = None, ""
    if compared.found:
        try:
            rows = compared_rows(compared, asked, letters)
        except InputError as error:
            why = str(error)
    return {"asked": asked, "shared": shared, "rows": rows, "no_rows": why, "differ": differ}


def _settings(ask: Ask, runs: Sequence[Run], absent: Collection[str], everything: bool) -> dict[str, Any]:
    """A table of settings and tags: a column each, the baseline first. Equal ones are counted.

    Data sets are shown as on the page of a run: an upload by the name that it had, and the first digits of the hash.

    Args:
        ask: whose store has the names of data sets.
        runs: the baseline first.
        absent: metrics that some run lacks, which is said below the metrics.
        everything: whether equal ones are shown, too.
    """
    names = {each.hash: each.name for each in ask.studio.store.datasets.list()}
    leaves = [
        dict(config_leaves(_with_names(run.config, names))) | {f"tag {key}": text for key, text in run.tags.items()}
        for run in runs
    ]
    lines, equal = [], 0
    for name in sorted({name for each in leaves for name in each}):
        values = [each.get(name) for each in leaves]
        is_equal = all(value == values[0] for value in values)
        equal += is_equal
        if is_equal and not everything:
            continue
        if not is_equal and name.partition(".")[0] in _OF_METRICS and name.partition(".")[2] in absent:
            continue
        lines.append((name, [_setting(value, _DIGITS if name == "data.hash" else 300) for value in values]))
    return {"lines": lines, "equal": equal, "all": everything}


def _with_names(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a run with the name of its data set where the store has one."""
    data = config.get("data")
    if not isinstance(data, Mapping) or (name := names.get(str(data.get("hash")))) is None:
        return dict(config)
    return {**config, "data": {**data, "source": name}}


_OF_METRICS = ("evaluators", "thresholds")


def _setting(value: Any, most: int) -> str:
    return numbers.NOTHING if value is None else short(value, most)


def _file(ask: Ask) -> ComparedRuns | None:
    """The comparison of the address with its tests; None while it is being made."""
    entries = {each.head.id: each for each in ask.studio.book.entries()}
    wanted = _wanted(ask, entries)
    if len(wanted) < 2:
        raise InputError(f"a comparison needs at least 2 runs, and {len(wanted)} was chosen")
    runs, marks = _runs(ask, _ordered(ask, entries, wanted))
    compared, waits = compared_runs(ask.studio, runs, marks, ask.query.get("cluster") or None)
    return None if waits else compared


def markdown(ask: Ask) -> Response:
    """A comparison as Markdown for a pull request."""
    compared = _file(ask)
    if compared is None:
        return _back(ask)
    headers = {"content-disposition": 'attachment; filename="comparison.md"'}
    return Response(group_markdown(compared.found), media_type="text/markdown; charset=utf-8", headers=headers)


def rows_csv(ask: Ask) -> Response:
    """The joined rows of a comparison as csv."""
    compared = _file(ask)
    if compared is None:
        return _back(ask)
    parts = joined_csv(compared.found, _LETTERS)
    headers = {"content-disposition": 'attachment; filename="comparison.csv"'}
    return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers=headers)


def _back(ask: Ask) -> Response:
    """Leads to the page, which waits for the comparison."""
    kept = {name: ask.query[name] for name in ("baseline", "cluster") if name in ask.query}
    return see("/compare", runs=",".join(ask.many("runs")), **kept)


ROUTES = [get("/compare", compare), get("/compare/comparison.md", markdown), get("/compare/comparison.csv", rows_csv)]
