"""The page of one row, and what people say of rows."""

from __future__ import annotations

from starlette.responses import Response

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.report.rows import RowReader
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.store import Run
from valor_gpu.web.opinion_forms import keep_opinion, opinion_parts
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.run_rows import find_run


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
        **opinion_parts(ask, infos),
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
    keep_opinion(ask, run)
    back = ask.field("back")
    return see(back if back.startswith(f"/runs/{run.id}") else f"/runs/{run.id}/rows/{int(ask.field('row'))}")


ROUTES = [get("/runs/{run}/rows/{number:number}", row), post("/runs/{run}/feedback", feedback)]
