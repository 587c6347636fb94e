"""The page of one row, and what people say of rows."""

from __future__ import annotations

import math

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.report.rows import RowReader
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.store import Feedback, Run
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.run_rows import author, find_run
from valor_gpu.web.security import looks_like_key


def row(ask: Ask) -> Response:
    """A row with all of its texts, scores, replies and what people said."""
    run = find_run(ask)
    number = ask.path["number"]
    infos = evaluator_infos(run)
    facts = {each["name"]: each for each in infos}
    reader = RowReader(run, facts, list(facts), read_thresholds(run.config.get("thresholds"), infos))
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
        before=_beside(run, number, -1),
        following=_beside(run, number, 1),
    )


def _beside(run: Run, number: int, step: int) -> int | None:
    """The next row, or the one before where it has the number before."""
    if step > 0:
        found = run.rows(number, 1)
        return found[0].number if found else None
    return number - 1 if number > 1 and run.row_statuses([number - 1]) else None


def feedback(ask: Ask) -> Response:
    """Keeps what a person says of a row."""
    run = find_run(ask)
    note, number = ask.field("note"), ask.field("row")
    if looks_like_key(note):
        raise InputError("the note holds what looks like a key of a service, so it was not kept")
    if not number.isdecimal() or len(number) > 15:
        raise InputError(f"row must be the number of a row but is {number[:100]!r}")
    value, passed = _score(ask.field("value")), {"1": True, "0": False}.get(ask.field("passed"))
    if value is None and passed is None and not note:
        raise InputError("give a score, a verdict or a note; nothing was kept")
    run.add_feedback(Feedback(int(number), ask.field("evaluator"), author(), value, passed, note))
    back = ask.field("back")
    return see(back if back.startswith(f"/runs/{run.id}") else f"/runs/{run.id}/rows/{number}")


def _score(text: str) -> float | None:
    if not text:
        return None
    try:
        found = float(text.replace(",", "."))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"your score must be a number but is {text!r}; nothing was kept")
    return found


ROUTES = [get("/runs/{run}/rows/{number:number}", row), post("/runs/{run}/feedback", feedback)]
