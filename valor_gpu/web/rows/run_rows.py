"""The rows of a run on its page: which columns, which rows, which one is open, and what people said of it."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short, short_name
from valor_gpu.evaluation.report.rows import DamagedRow, RowReader
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.pages.charts import LEVELS
from valor_gpu.pages.numbers import count
from valor_gpu.store import Feedback, Run
from valor_gpu.store.checksums import tell
from valor_gpu.web.plain import plain_config
from valor_gpu.web.render import address
from valor_gpu.web.routes import Ask, missing
from valor_gpu.web.rows.conditions import Wanted, whole
from valor_gpu.web.rows.found_rows import PAGE, Selection, counts_of, select
from valor_gpu.web.rows.row_addresses import ALL, chosen_columns, of_selection, without
from valor_gpu.web.rows.traces import judged_names

Facts = Mapping[str, Mapping[str, Any]]
WHOLE_TEXT = 100_000
"""Characters of one text on the page of its row and in the label queue: who judges a row has to see all of it."""


def find_run(ask: Ask) -> Run:
    """The run of the address; a page says so where there is none."""
    return run_of_id(ask, ask.path["run"])


def run_of_id(ask: Ask, name: str) -> Run:
    """The run of an id; a page says so where there is none."""
    try:
        found: Run | None = ask.studio.store.run(name)
    except InputError:
        found = None
    if found is None or found.id != name:  # the store takes names, too
        raise missing(f"There is no run {name} in this store. It may have been deleted and purged.")
    found.config = plain_config(found.config)
    return found


def author() -> str:
    """The name under which a person's words are kept: that of the user of this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return "me"


def thresholds_of(ask: Ask, run: Run) -> dict[str, float | str] | None:
    """Thresholds of the address, None without: a level for all severities, beside those of the run."""
    level = ask.query.get("level", "")
    if level not in LEVELS:
        return None
    safety = {each["name"]: level for each in evaluator_infos(run) if each["kind"] == "safety"}
    return {**(run.config.get("thresholds") or {}), **safety}


def row_parts(ask: Ask, run: Run, facts: Facts, limits: Mapping[str, Threshold], wanted: Wanted) -> dict[str, Any]:
    """What the template of rows needs."""
    columns = chosen_columns(ask.many("column"), list(facts))
    found = select(ask.studio, run, wanted, facts, limits)
    opened = whole(ask.query.get("open", ""))
    at = found.start(wanted.at)
    if opened is not None and "at" not in ask.query and (place := found.place(opened)) is not None:
        at = place // PAGE * PAGE  # a link to an open row shows it, wherever it is
    numbers = found.page(at)
    counts = counts_of(ask.studio, run)
    return {
        "columns": columns,
        "every_column": "" if len(columns) == len(facts) else address(ask, column=ALL) + "#rows",
        "choices": [(name, short_name(name)) for name in facts],
        **_views(run, RowReader(run, facts, columns, limits), numbers),
        "opened": opened,
        "how": found.how,
        "statuses": counts,
        "n_rows": sum(counts.values()),
        "n_found": len(found.numbers),
        "at": at,
        "page_rows": PAGE,
        **_time_parts(ask, found, wanted, lambda: select(ask.studio, run, replace(wanted, as_of=""), facts, limits)),
        "chips": _chips(ask, wanted),
        "all_rows": address(ask, **{"q": None, "if": None, "status": None, "at": None, "open": None}),
        "not_found": _not_found(ask, found),
        "so_far": ask.studio.store.finished_at(run) is None,
        "order_chip": _order_chip(ask, wanted),
        "order_note": _order_note(run, found, wanted),
        "row_path": lambda number: of_selection(ask, f"/runs/{run.id}/rows/{number}", as_of=found.as_of),
        "judged": {short_name(name) for name in judged_names(run)},
    }


def _views(run: Run, reader: RowReader, numbers: list[int]) -> dict[str, Any]:
    """Returns the rows of a page, and what people said of those that are whole, by their numbers."""
    views = list(reader.views_and_damages(numbers))
    damaged = {each.number: each.damage for each in views if isinstance(each, DamagedRow)}
    for error in damaged.values():
        tell(error, error.path)
    return {
        "rows": views,
        "damaged": {number: f"{error.place}: {error.what}" for number, error in damaged.items()},
        "people": _people(run, [number for number in numbers if number not in damaged]),
    }


def _time_parts(ask: Ask, found: Selection, wanted: Wanted, now: Callable[[], Selection]) -> dict[str, Any]:
    """Returns the age of the list of a run that goes on, and the changes since, for the template."""
    parts: dict[str, Any] = {"as_of": found.as_of or None, "taken": "", "n_newer": 0, "newest": "", "is_lost": False}
    if not wanted.as_of:
        return parts
    if found.as_of != wanted.as_of:
        return {**parts, "is_lost": True}
    newest = now()
    if np.array_equal(newest.numbers, found.numbers):
        return parts
    first = next(iter(found.page(found.start(wanted.at))), None)
    place = None if first is None else newest.place(first)
    at = str(place // PAGE * PAGE) if place is not None and place >= PAGE else None
    return {
        **parts,
        "taken": found.taken,
        "n_newer": found.newer(newest),
        "newest": address(ask, at=at, as_of=None, open=None),
    }


def _chips(ask: Ask, wanted: Wanted) -> list[tuple[str, str]]:
    """What leaves rows out, in words, each with the address without it."""
    found = [(f"“{short(wanted.text)}”", address(ask, q=None, at=None, open=None))] if wanted.text else []
    found += [(each.words, without(ask, wanted, each)) for each in wanted.conditions]
    if wanted.status:
        words = f"answer {short(wanted.status).replace('_', ' ')}"
        found.append((words, address(ask, status=None, at=None, open=None)))
    return found


def _order_chip(ask: Ask, wanted: Wanted) -> tuple[str, str] | None:
    """The order in words with the address without it; None for that of the rows' numbers."""
    if not wanted.order:
        return None
    words = f"{short_name(wanted.order)}, {'highest' if wanted.descending else 'lowest'} first"
    return words, address(ask, sort=None, at=None, open=None)


def _not_found(ask: Ask, found: Selection) -> str:
    """Why the row or place that was looked for is not shown; empty where none was."""
    number = whole(ask.query.get("to", ""))
    if number is None:
        return f"{short(ask.query['to'])} is not the number of a row." if ask.query.get("to") else ""
    if ask.query.get("by") == "place":
        return f"Place {count(number)} is not among the {count(len(found.numbers))} places of these rows."
    return f"Row {count(number)} is not among these rows."


def _order_note(run: Run, found: Selection, wanted: Wanted) -> str:
    """What stands at the end of an order, and what repeats count as, where that cannot be seen."""
    notes = []
    if found.n_failed or found.n_unscored:
        parts = ((found.n_failed, "whose score failed"), (found.n_unscored, "without a score"))
        said = " and ".join(f"{count(n)} {what}" for n, what in parts if n)
        notes.append(f"Rows come by {short_name(wanted.order)}; {said} stand at the end.")
    if run.config.get("repeats") not in (None, 1) and (wanted.order or wanted.conditions):
        notes.append("Order and conditions go by the mean of a row's repeats.")
    return " ".join(notes)


def _people(run: Run, numbers: list[int]) -> dict[int, list[Feedback]]:
    found: dict[int, list[Feedback]] = {}
    for number in numbers:
        if said := run.feedback(number, number):
            found[number] = said
    return found
