"""The library of evaluators: the list of all, built-in ones and those of the user's own."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.saved import evaluator_entries
from valor_gpu.web.prompts import FAMILIES
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, post, see
from valor_gpu.web.shelf import scale_words
from valor_gpu.web.uses import evaluator_uses

SOURCES = {"library": "your own", "builtin": "built in"}


def evaluators(ask: Ask) -> Response:
    """The list of evaluators, the user's own first."""
    everything = evaluator_entries(ask.studio.store)
    everything.sort(key=lambda entry: entry["source"] != "library")
    uses = evaluator_uses(ask)
    found = [_row(entry, len(uses.get(entry["name"], ()))) for entry in everything if _passes(entry, ask)]
    kinds = dict.fromkeys(entry["kind"] for entry in everything)
    deleted = ask.query.get("deleted", "")
    return page(
        ask,
        "evaluators.html",
        section="evaluators",
        rows=found,
        n_all=len(everything),
        n_own=sum(entry["source"] == "library" for entry in everything),
        kinds={kind: FAMILIES.get(kind, kind) for kind in kinds if kind},
        sources=SOURCES,
        deleted=deleted if deleted in {each.name for each in ask.studio.store.evaluators.list(deleted=True)} else "",
    )


def _passes(entry: dict[str, Any], ask: Ask) -> bool:
    words = f"{entry['name']} {entry['summary']} {entry['note']} {' '.join(entry['requires'])}".casefold()
    asked = {name: ask.query.get(name, "") for name in ("q", "kind", "source", "status")}
    return (
        all(word in words for word in asked["q"].casefold().split())
        and asked["kind"] in ("", entry["kind"])
        and asked["source"] in ("", entry["source"])
        and asked["status"] in ("", "ready" if entry["status"] == "ready" else "broken")
    )


def _row(entry: dict[str, Any], n_runs: int) -> dict[str, Any]:
    kind = FAMILIES.get(entry["kind"], str(entry["kind"]))
    return {**entry, "family": kind, "scale": scale_words(entry), "from": SOURCES[entry["source"]], "runs": n_runs}


def delete(ask: Ask) -> Response:
    """Takes an evaluator of the user's own out of the list; its versions stay."""
    ask.studio.store.evaluators.delete(_own(ask))
    return see("/evaluators", deleted=ask.path["name"])


def undo(ask: Ask) -> Response:
    """Puts an evaluator back into the list."""
    name = _own(ask)
    library = ask.studio.store.evaluators
    library.restore(name, library.get(name).number)
    return see(f"/evaluators/{name}")


def _own(ask: Ask) -> str:
    name = str(ask.path["name"])
    if not ask.studio.store.evaluators.versions(name):
        raise InputError(f"there is no evaluator {name!r} of your own")
    return name


ROUTES = [
    get("/evaluators", evaluators),
    post("/evaluators/{name}/delete", delete),
    post("/evaluators/{name}/undo", undo),
]
