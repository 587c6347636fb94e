"""The rows of a run on its page: which columns, which rows, which one is open, and what people said of it."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.report.rows import RowReader
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.pages.numbers import count
from valor_gpu.store import Feedback, Run
from valor_gpu.store.records import OK
from valor_gpu.web.found_rows import Wanted, find_rows
from valor_gpu.web.plain import plain_config
from valor_gpu.web.routes import Ask, missing

_COLUMNS = 6
"""Evaluators with a column until other ones are chosen."""

Facts = Mapping[str, Mapping[str, Any]]


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


def row_parts(ask: Ask, run: Run, facts: Facts, limits: Mapping[str, Threshold], wanted: Wanted) -> dict[str, Any]:
    """What the template of rows needs."""
    chosen = [name for name in facts if name in ask.many("column")]
    columns = chosen or list(facts)[:_COLUMNS]
    found = find_rows(run, wanted)
    reader = RowReader(run, facts, columns, limits)
    opened = ask.query.get("open", "")
    numbers = list(found.numbers)
    views = list(reader.views(numbers))
    people = _people(run, numbers)
    counts = run.counts()
    return {
        "columns": columns,
        "choices": [(name, short(name)) for name in facts],
        "rows": views,
        "people": people,
        "opened": int(opened) if opened.isdecimal() and len(opened) < 16 else None,
        "following": found.following,
        "how": found.how,
        "scanned": found.scanned,
        "statuses": counts,
        "n_rows": sum(counts.values()),
        "order_note": _order_note(run, facts, wanted, sum(counts.values()) - counts[OK]),
    }


def _order_note(run: Run, facts: Facts, wanted: Wanted, n_failed: int) -> str:
    """What the order of the rows leaves out or goes by, where that cannot be seen."""
    if not wanted.order:
        return ""
    if wanted.text:
        return "Rows that hold a text come in the order of their numbers."
    without = n_failed + int(facts[wanted.order].get("n_not_judged") or 0)
    notes = []
    if without and not wanted.test:
        notes.append(f"{count(without)} rows have no score of {short(wanted.order)} and are not in this order.")
    if run.config.get("repeats") not in (None, 1):
        notes.append("Order and bounds go by the first repeat of a score, and the table shows means.")
    return " ".join(notes)


def _people(run: Run, numbers: list[int]) -> dict[int, list[Feedback]]:
    found: dict[int, list[Feedback]] = {}
    for number in numbers:
        if said := run.feedback(number, number):
            found[number] = said
    return found
