"""Pages of data sets: the list, and one with its first rows and the runs that read it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from valor_gpu.evaluation.report.bounds import short
from valor_gpu.web.library.data_sets import data_sets, first_rows
from valor_gpu.web.library.uses import run_line
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing
from valor_gpu.web.wizard.proposals import plain_text

PAGE = 100
_RUNS, _COLUMNS, _CELL = 100, 12, 300


def datasets(ask: Ask) -> Response:
    """The list of data sets."""
    everything = list(data_sets(ask).values())
    words = ask.query.get("q", "").casefold().split()
    found = [
        each for each in everything if all(w in f"{each.name} {each.hash} {each.columns}".casefold() for w in words)
    ]
    text = ask.query.get("from", "0")
    start = int(text) if text.isdecimal() and len(text) < 10 else 0
    shown = found[start : start + PAGE]
    return page(
        ask,
        "datasets.html",
        section="datasets",
        found=[(each, [run_line(entry) for entry in each.uses[:1]]) for each in shown],
        start=start,
        total=len(found),
        n_all=len(everything),
        following=start + PAGE if start + PAGE < len(found) else None,
    )


def dataset(ask: Ask) -> Response:
    """A data set; a hash may be given by its first 8 digits or more."""
    asked, everything = ask.path["hash"], data_sets(ask)
    fitting = [digest for digest in everything if digest == asked or (len(asked) >= 8 and digest.startswith(asked))]
    if asked in everything:
        fitting = [asked]
    if len(fitting) != 1:
        said = "More than one data set begins" if fitting else "There is no data set whose hash begins"
        raise missing(f"{said} with {asked}; {len(everything)} are in the list of data sets.")
    found = everything[fitting[0]]
    rows, origin = first_rows(ask, found)
    columns = list(found.columns) or list(dict.fromkeys(name for row in rows for name in row))
    return page(
        ask,
        "dataset.html",
        section="datasets",
        found=found,
        columns=columns,
        shown=columns[:_COLUMNS],
        rows=[[_cell(row.get(name)) for name in columns[:_COLUMNS]] for row in rows],
        origin=origin,
        uses=[run_line(entry) for entry in found.uses[:_RUNS]],
        more_uses=max(len(found.uses) - _RUNS, 0),
    )


def _cell(value: Any) -> str:
    return short(plain_text(value), _CELL)


ROUTES = [get("/datasets", datasets), get("/datasets/{hash}", dataset)]
