"""The page of one row, and what people say of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from valor_gpu.evaluation.report.bounds import short, short_name
from valor_gpu.evaluation.report.cards import place_of
from valor_gpu.evaluation.report.rows import RowReader
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.evaluation.results.thresholds import Threshold, read_thresholds
from valor_gpu.store import Run, traces_of
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.rows.conditions import Wanted
from valor_gpu.web.rows.found_rows import select
from valor_gpu.web.rows.opinion_forms import keep_opinion, opinion_parts
from valor_gpu.web.rows.row_addresses import of_selection
from valor_gpu.web.rows.run_rows import WHOLE_TEXT, find_run, thresholds_of
from valor_gpu.web.rows.traces import judged_names, row_traces


def row(ask: Ask) -> Response:
    """A row with all of its texts, scores, replies and what people said."""
    run = find_run(ask)
    number = ask.path["number"]
    infos = evaluator_infos(run)
    facts = {each["name"]: each for each in sorted(infos, key=lambda each: place_of(each["kind"]))}
    limits = read_thresholds(thresholds_of(ask, run) or run.config.get("thresholds"), infos)
    reader = RowReader(run, facts, list(facts), limits, WHOLE_TEXT)
    view = next(reader.views([number]), None)
    if view is None:
        raise missing(f"Run {run.id} has no row {number}; it has {sum(run.counts().values()):,}.")
    places = {name: place for place, name in enumerate(facts)}
    scores = sorted(
        run.scores(first=number, last=number), key=lambda each: (places.get(each.evaluator, len(places)), each.repeat)
    )
    return page(
        ask,
        "row.html",
        run={"id": run.id, "name": short(run.name) or "Evaluation"},
        view=view,
        replies=[(each.evaluator, each.repeat, each.details) for each in scores],
        traces=row_traces(run, number, scores, ask.query.get("trace")),
        judged={short_name(name) for name in judged_names(run)},
        said=run.feedback(number, number),
        **opinion_parts(ask, infos),
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
        of_selection(ask, f"/runs/{run.id}/rows/{found.numbers[at]}", as_of=found.as_of)
        if at is not None and 0 <= at < len(found.numbers)
        else None
        for at in beside
    )
    return {
        "before": before,
        "following": following,
        "place": place,
        "n_found": len(found.numbers),
        "rows_path": of_selection(ask, f"/runs/{run.id}", as_of=found.as_of, open=str(number)) + f"#r{number}",
    }


def trace(ask: Ask) -> Response:
    """The traces of a row as JSON."""
    run = find_run(ask)
    found = [
        {"row": each.row, "evaluator": each.evaluator, "repeat": each.repeat, "content": each.content}
        for each in traces_of(run, ask.path["number"])
    ]
    return Response(json.dumps(found, indent=2), media_type="application/json")


def feedback(ask: Ask) -> Response:
    """Keeps what a person says of a row."""
    run = find_run(ask)
    keep_opinion(ask, run)
    back = ask.field("back")
    return see(back if back.startswith(f"/runs/{run.id}") else f"/runs/{run.id}/rows/{int(ask.field('row'))}")


ROUTES = [
    get("/runs/{run}/rows/{number:number}", row),
    get("/runs/{run}/rows/{number:number}/trace.json", trace),
    post("/runs/{run}/feedback", feedback),
]
