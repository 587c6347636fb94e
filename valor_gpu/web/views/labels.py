"""The page on which a person labels one row after the other."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.report.bounds import short, short_name
from valor_gpu.evaluation.report.cards import people_lines, place_of
from valor_gpu.evaluation.report.rows import RowReader
from valor_gpu.evaluation.results.people import people_agreement
from valor_gpu.evaluation.results.summary import evaluator_infos, run_summary
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.store import Run
from valor_gpu.store.label_queues import keep_label, label_queues
from valor_gpu.store.saved import VISION
from valor_gpu.web.processes import jobs
from valor_gpu.web.render import address, page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.rows.label_rows import RANDOM, Queue, read_queue
from valor_gpu.web.rows.opinion_forms import WHOLE, WHOLE_ROW, form_of, in_words, just_said, keep_opinion
from valor_gpu.web.rows.row_addresses import SELECTION
from valor_gpu.web.rows.run_rows import WHOLE_TEXT, author, find_run
from valor_gpu.web.rows.traces import judged_names

ORDER_WORDS = {
    "random": "at random",
    "lowest": "lowest score first",
    "highest": "highest score first",
    "rows": "in the order of the run",
}


def label(ask: Ask) -> Response:
    """One row of the queue, with a form; at the end how far the labels agree with the evaluator."""
    run = find_run(ask)
    if run.config.get("kind") in VISION:
        raise missing(f"Rows of run {run.id} are images of a saved result, which are not labelled here.")
    infos = evaluator_infos(run)
    names = [str(each["name"]) for each in infos]
    if not ask.query.get("seed") and (ask.query.get("order") or RANDOM) == RANDOM:
        return see(address(ask, seed=str(_seed_of(ask, run, names))))
    queue = read_queue(ask, run, infos, author())
    number = _row(ask, queue)
    return page(
        ask,
        "label.html",
        run={"id": run.id, "name": short(run.name) or "Evaluation"},
        queue=queue,
        design=queue.design,
        grows=queue.design.order == RANDOM and jobs.state_of(ask.studio.store, run) == "running",
        words=short_name(queue.design.evaluator) or WHOLE_ROW,
        about=_about(queue.design.evaluator),
        evaluators=[*((name, short_name(name)) for name in names), (WHOLE, WHOLE_ROW)],
        orders=ORDER_WORDS,
        kept=[(name, text) for name, text in ask.query.multi_items() if name in SELECTION and text],
        queue_query=urlencode([(name, text) for name, text in ask.query.multi_items() if name != "row" and text]),
        number=number,
        **(_row_parts(ask, run, infos, queue, number) if number is not None else _end_parts(ask, run, queue)),
    )


def _about(evaluator: str) -> dict[str, str] | None:
    """Returns the question of a built-in evaluator and the good end of its scale; None for other evaluators."""
    known = EVALUATORS.get(evaluator)
    if known is None:
        return None
    better = {True: "higher is better", False: "lower is better", None: "neither end is better"}
    return {"what": known.summary, "better": better[known.higher_is_better]}


def _seed_of(ask: Ask, run: Run, names: list[str]) -> int:
    """The seed of the last random queue of this evaluator, so that it goes on; a new one otherwise."""
    asked = ask.query.get("of", "")
    evaluator = "" if asked == WHOLE else asked or next(iter(names), "")
    known = [each.seed for each in label_queues(ask.studio.store, run)
             if (each.evaluator, each.author, each.order) == (evaluator, author(), RANDOM)]  # fmt: skip
    return known[-1] if known and known[-1] is not None else secrets.randbelow(1_000_000)


def _row(ask: Ask, queue: Queue) -> int | None:
    """The row of the address, else the first one without a label; None at the end."""
    asked = ask.query.get("row", "")
    if asked.isdecimal() and len(asked) < 16 and int(asked) in queue.places:
        return int(asked)
    return queue.after(None)


def _row_parts(ask: Ask, run: Run, infos: list[dict[str, Any]], queue: Queue, number: int) -> dict[str, Any]:
    facts = {each["name"]: each for each in sorted(infos, key=lambda each: place_of(each["kind"]))}
    evaluator = queue.design.evaluator
    limits = read_thresholds(run.config.get("thresholds"), infos)
    reader = RowReader(run, facts, list(facts), limits, WHOLE_TEXT)
    said = run.feedback(number, number)
    form = form_of(infos, evaluator, said)
    return {
        "view": next(reader.views([number])),
        "judged": {short_name(name) for name in judged_names(run)},
        "form": form,
        "mine": in_words(form["mine"]) if form["mine"] is not None else "",
        "revealed": number in queue.labelled or not queue.design.hidden,
        "told": just_said(ask, 0),
        "place": queue.places[number] + 1,
        "skip": queue.after(number),
        "back": queue.before(number),
    }


def _end_parts(ask: Ask, run: Run, queue: Queue) -> dict[str, Any]:
    """What the last page shows: how far people agree with the evaluator."""
    lines: list[str] = []
    if queue.design.evaluator and queue.labelled:
        found = people_agreement(run, _facts(run))
        lines = people_lines(found.get(queue.design.evaluator))
    return {"view": None, "told": just_said(ask, 0), "lines": lines, "back": next(reversed(queue.numbers), None)}


def _facts(run: Run) -> Mapping[str, Any]:
    kept = run.finished_summary or {}
    found = kept.get("evaluators") if run.state == "finished" else None
    return found if isinstance(found, Mapping) else run_summary(run)["evaluators"]


def keep(ask: Ask) -> Response:
    """Keeps a label, with how its row was drawn, and leads to the next row."""
    run = find_run(ask)
    infos = evaluator_infos(run)
    queue = read_queue(ask, run, infos, author())
    if ask.field("evaluator") != queue.design.evaluator:
        raise InputError("evaluator must be that of the queue: read the page again; nothing was kept")
    if not ask.field("value") and ask.field("passed") not in ("0", "1"):
        raise InputError("give a score or a verdict, or skip the row; nothing was kept")
    said = keep_opinion(ask, run, tell_at=0)
    assert said is not None  # a form with a score or a verdict keeps it
    keep_label(ask.studio.store, run, queue.design, said.row)
    following = queue.after(said.row)
    return see(address(ask, row=None if following is None else str(following)))


ROUTES = [get("/runs/{run}/label", label), post("/runs/{run}/label", keep)]
