"""The list of runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from valor_gpu.pages import numbers
from valor_gpu.web.book import Entry
from valor_gpu.web.processes.jobs import cancel, state_of
from valor_gpu.web.processes.live_run import POLL, REFRESH
from valor_gpu.web.processes.progress_words import progress_words
from valor_gpu.web.render import address, page
from valor_gpu.web.routes import Ask, get, post, see
from valor_gpu.web.rows.row_addresses import ALL, NAMED
from valor_gpu.web.rows.run_rows import find_run
from valor_gpu.web.runs.purging import UNDO
from valor_gpu.web.runs.run_filters import filtered_runs, head_of, metrics_by_use, names_in_words
from valor_gpu.web.runs.saved_views import RUNS_VIEW, saved_views
from valor_gpu.web.runs.tags import shown_tags
from valor_gpu.web.wizard.drafts import drafts, saved_ago

PAGE = 100
FIXED = {
    "headline": "Headline",
    "failed": "Failed",
    "cost": "Cost",
}
"""Columns that every kind of run has."""

_MOST_FIRST = 3
_DRAFTS = 5
_TAGS = 6
"""Tags of a run in the list."""


def runs(ask: Ask) -> Response:
    """The list, filtered, sorted and cut into pages."""
    book = ask.studio.book
    everything = book.entries()
    metrics = metrics_by_use(everything)
    if (moved := _short_address(ask, metrics)) is not None:
        return moved
    words, columns = names_in_words(everything, metrics), _columns(ask, metrics)
    found = _sorted(filtered_runs(everything, ask), ask.query.get("sort", ""))
    start = _whole(ask.query.get("from", "0"))
    shown = found[start : start + PAGE]
    running = any(each.head.state == "running" for each in shown)
    return page(
        ask,
        "runs.html",
        entries=[_row(each, words) for each in shown],
        total=len(found),
        everything=len(everything),
        start=start,
        following=start + PAGE if start + PAGE < len(found) else None,
        metrics=words,
        heads={name: head_of(name, words[name]) for name in columns if name in words},
        columns=columns,
        column_note=_column_note(ask, columns, metrics),
        fixed=FIXED,
        choices=[*FIXED.items(), *words.items()],
        datasets=sorted({each.data for each in everything if each.data}),
        states=Counter(each.head.state for each in everything),
        kinds=Counter(each.kind for each in everything),
        deleted=_undoable(ask),
        drafts=[(each, saved_ago(each)) for each in drafts(ask.studio.store) if each.saved][:_DRAFTS],
        views=saved_views(ask.studio.store, RUNS_VIEW, ask.query),
        poll=POLL if running and "still" not in ask.query else None,
        refresh=REFRESH,
        running=running,
    )


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _columns(ask: Ask, metrics: Sequence[str]) -> list[str]:
    chosen = ask.many("column")
    if not chosen:
        return ["headline", *metrics[:_MOST_FIRST], "failed", "cost"]
    if ALL in chosen:
        return ["headline", *metrics, "failed", "cost"]
    named = [name for name in metrics if name in chosen][:NAMED]
    return [name for name in ("headline", *named, "failed", "cost") if name in chosen]


def _short_address(ask: Ask, metrics: Sequence[str]) -> Response | None:
    """Leads on where the form has ticked all columns, or more than an address names; None where it has not."""
    chosen = ask.many("column")
    named = [name for name in metrics if name in chosen]
    if ALL in chosen or len(named) <= NAMED:
        return None
    if len(named) == len(metrics):
        return see(address(ask, column=ALL))
    kept = [name for name in chosen if name in FIXED or name in named[:NAMED]]
    return see(address(ask, column=kept, ticked=str(len(named))))


def _column_note(ask: Ask, columns: Sequence[str], metrics: Sequence[str]) -> tuple[str, str] | None:
    """Returns the number of metrics with a column, and the address with all; None where all have a column."""
    n = sum(name in metrics for name in columns)
    if n == len(metrics):
        return None
    ticked = ask.query.get("ticked", "")
    more = f" {ticked} were ticked; an address names {NAMED} at most." if ticked.isdecimal() and n == NAMED else ""
    return f"{n:,} of {numbers.count(len(metrics))} metrics have a column.{more}", address(ask, column=ALL, ticked=None)


def _sorted(entries: list[Entry], sort: str) -> list[Entry]:
    """Sorted by a column; runs without a value come last either way, equal ones stay newest first."""
    name, reverse = sort.removeprefix("-"), sort.startswith("-")
    if not name or name == "started":
        return entries[::-1] if sort == "started" else entries
    keyed = [(_sort_value(each, name), each) for each in entries]
    have = [pair for pair in keyed if pair[0] is not None]
    have.sort(key=lambda pair: pair[0], reverse=reverse)
    return [each for _, each in have] + [each for value, each in keyed if value is None]


def _sort_value(entry: Entry, name: str) -> Any:
    if name == "run":
        return entry.head.name.casefold()
    if name == "failed":
        return entry.n_failed
    if name == "cost":
        return entry.cost
    return entry.metrics.get(entry.headline or "" if name == "headline" else name)


def _row(entry: Entry, words: Mapping[str, str]) -> dict[str, Any]:
    head = entry.head
    have = {name: value for name, value in entry.metrics.items() if value is not None}
    cells = {name: numbers.number(value, entry.decimals(name)) for name, value in have.items()}
    headline = entry.headline
    return {
        "id": head.id,
        "name": head.name or "without a name",
        "about": entry.about,
        "state": head.state,
        "data": entry.data,
        "rows": entry.n_rows,
        "of_rows": entry.of_rows,
        "progress": None if entry.progress is None else progress_words(entry.progress),
        "headline": None if headline is None else (cells[headline], words[headline]),
        "cells": cells,
        "failed": entry.n_failed,
        "cost": None if entry.cost is None else numbers.cost(entry.cost, entry.currency),
        "started": entry.started,
        "tags": shown_tags(entry.tags, _TAGS),
        "stopped": entry.summary.get("stopped"),
        "can_compare": head.state in ("finished", "stopped"),
    }


def _undoable(ask: Ask) -> dict[str, Any] | None:
    uid = ask.query.get("deleted", "")
    for head in ask.studio.store.heads(deleted=True) if uid else ():
        if head.id == uid and head.deleted is not None and time.time() - head.deleted < UNDO:
            return {"id": uid, "name": head.name or "without a name"}
    return None


def delete(ask: Ask) -> Response:
    """Marks a run as deleted; it can be taken back for a minute. One that Studio works on is cancelled."""
    store = ask.studio.store
    run = find_run(ask)
    if state_of(store, run) == "running":
        cancel(store, run)
    run.delete()
    return see("/runs", deleted=run.id)


def undo(ask: Ask) -> Response:
    """Takes a deletion back."""
    find_run(ask).undelete()
    return see(f"/runs/{ask.path['run']}")


ROUTES = [get("/runs", runs), post("/runs/{run}/delete", delete), post("/runs/{run}/undo", undo)]
