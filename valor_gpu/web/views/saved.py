"""Forms that save, rename and delete views of rows and of runs."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.responses import RedirectResponse, Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.cards import place_of
from valor_gpu.evaluation.results.summary import evaluator_infos
from valor_gpu.web.routes import Ask, missing, post
from valor_gpu.web.rows.row_addresses import PLACES, with_named_columns
from valor_gpu.web.rows.run_rows import run_of_id
from valor_gpu.web.runs.saved_views import ROWS_VIEW, RUNS_VIEW, parts_of, rename, save

_KINDS = {"rows": ROWS_VIEW, "runs": RUNS_VIEW}


def change(ask: Ask) -> Response:
    """Keeps the page's view under a name, or renames or deletes one, and leads back to the page."""
    kind = _KINDS.get(ask.path["kind"])
    if kind is None:
        raise missing(f"There are views of {' and '.join(_KINDS)} alone.")
    name, query, action = ask.field("name"), ask.field("query"), ask.field("action", "save")
    store = ask.studio.store
    if action == "save":
        save(store, kind, name, with_named_columns(query, _evaluators(ask)) if quote(PLACES) in query else query)
    elif action == "rename":
        rename(store, kind, name, ask.field("new"))
    elif action == "delete":
        store.views.delete(kind, name)
    else:
        raise InputError(f"action must be save, rename or delete but is {action[:80]!r}")
    return RedirectResponse(_back(ask, kind, query), status_code=303)


def _evaluators(ask: Ask) -> list[str]:
    """Evaluators of the run whose page the form was on, in the order of that page."""
    infos = evaluator_infos(run_of_id(ask, ask.field("run")))
    return [str(each["name"]) for each in sorted(infos, key=lambda each: place_of(each["kind"]))]


def _back(ask: Ask, kind: str, query: str) -> str:
    """The page that the form was on: a run's rows, or the list of runs."""
    text = urlencode(parts_of(kind, query))
    run = ask.field("run")
    path = f"/runs/{quote(run, safe='')}" if kind == ROWS_VIEW and run else "/runs"
    return f"{path}{'?' if text else ''}{text}{'#rows' if kind == ROWS_VIEW else ''}"


ROUTES = [post("/views/{kind}", change)]
