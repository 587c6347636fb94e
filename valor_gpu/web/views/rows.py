"""The page of one row, and what people say of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.report.rows import RowReader
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.evaluation.results.thresholds import Threshold, read_thresholds
from valor_gpu.store import Feedback, Run
from valor_gpu.web.conditions import Wanted
from valor_gpu.web.found_rows import select
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.row_addresses import of_selection
from valor_gpu.web.run_rows import author, find_run, thresholds_of
from valor_gpu.web.security import looks_like_key

NOTE = 4000
"""Characters of a note."""


def row(ask: Ask) -> Response:
    """A row with all of its texts, scores, replies and what people said."""
    run = find_run(ask)
    number = ask.path["number"]
    infos = evaluator_infos(run)
    facts = {each["name"]: each for each in infos}
    limits = read_thresholds(thresholds_of(ask, run) or run.config.get("thresholds"), infos)
    reader = RowReader(run, facts, list(facts), limits)
    view = next(reader.views([number]), None)
    if view is None:
        raise missing(f"Run {run.id} has no row {number}; it has {sum(run.counts().values()):,}.")
    return page(
        ask,
        "row.html",
        run={"id": run.id, "name": short(run.name) or "Evaluation"},
        view=view,
        replies=[(each.evaluator, each.repeat, each.details) for each in run.scores(first=number, last=number)],
        said=run.feedback(number, number),
        choices=[(name, short(name)) for name in facts],
        author=author(),
        **_beside(ask, run, number, facts, limits),
    )


def _beside(
    ask: Ask, run: Run, number: int, facts: Mapping[str, dict[str, Any]], limits: Mapping[str, Threshold]
) -> dict[str, Any]:
    """Addresses of the rows before and behind this one among those that the address asks for, and its place."""
    found = select(ask.studio, run, Wanted.read(ask.query, facts), facts, limits)
    place = found.place(number)
    beside = [None, None] if place is None else [place - 1, place + 1]
    before, following = (
        of_selection(ask, f"/runs/{run.id}/rows/{found.numbers[at]}")
        if at is not None and 0 <= at < len(found.numbers)
        else None
        for at in beside
    )
    return {
        "before": before,
        "following": following,
        "place": place,
        "n_found": len(found.numbers),
        "rows_path": of_selection(ask, f"/runs/{run.id}", open=str(number)) + f"#r{number}",
    }


def feedback(ask: Ask) -> Response:
    """Keeps what a person says of a row."""
    run = find_run(ask)
    note, number = ask.field("note"), ask.field("row")
    if looks_like_key(note):
        raise InputError("the note holds what looks like a key of a service, so it was not kept")
    if not number.isdecimal() or len(number) > 15:
        raise InputError(f"row must be the number of a row but is {number[:100]!r}")
    if len(note) > NOTE:
        raise InputError(f"a note may have {NOTE:,} characters but has {len(note):,}; nothing was kept")
    name = ask.field("evaluator")
    value, passed = _score(ask.field("value"), _scale(run, name)), {"1": True, "0": False}.get(ask.field("passed"))
    if value is None and passed is None and not note:
        raise InputError("give a score, a verdict or a note; nothing was kept")
    said = Feedback(int(number), name, author(), value, passed, note)
    run.add_feedback(_with_before(said, run.feedback(said.row, said.row)))
    back = ask.field("back")
    return see(back if back.startswith(f"/runs/{run.id}") else f"/runs/{run.id}/rows/{number}")


def _with_before(said: Feedback, before: list[Feedback]) -> Feedback:
    """Feedback with what the same person said of the same score before, where the form leaves a part empty."""
    for each in before:
        if (each.evaluator, each.author) == (said.evaluator, said.author):
            value = each.value if said.value is None else said.value
            passed = each.passed if said.passed is None else said.passed
            return replace(said, value=value, passed=passed, note=said.note or each.note)
    return said


def _scale(run: Run, name: str) -> tuple[float, float]:
    """Ends of the scale of an evaluator, infinite where there is none; of the row as a whole too."""
    infos = {each["name"]: each for each in evaluator_infos(run)}
    if name and name not in infos:
        raise InputError(f"evaluator must be one of the run but is {name[:100]!r}; nothing was kept")
    low, high = (infos.get(name, {}).get(end) for end in ("low", "high"))
    return -math.inf if low is None else low, math.inf if high is None else high


def _score(text: str, scale: tuple[float, float]) -> float | None:
    if not text:
        return None
    try:
        found = float(text.replace(",", "."))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"your score must be a number but is {text[:100]!r}; nothing was kept")
    if not scale[0] <= found <= scale[1]:
        raise InputError(f"your score must be from {scale[0]:g} to {scale[1]:g} but is {found:g}; nothing was kept")
    return found


ROUTES = [get("/runs/{run}/rows/{number:number}", row), post("/runs/{run}/feedback", feedback)]
