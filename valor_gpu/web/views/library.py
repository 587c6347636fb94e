"""The library of evaluators: the list of all, built-in ones and those of the user's own."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from valor_gpu.checks import keys_once
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.exchange import Imported, export_library, import_library
from valor_gpu.evaluation.evaluators.saved import evaluator_entries
from valor_gpu.web.library.shelf import REGISTERED, registered_code, scale_words
from valor_gpu.web.library.uses import evaluator_uses
from valor_gpu.web.prompts import FAMILIES
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, post, see
from valor_gpu.web.security import looks_like_key

SOURCES = {"library": "your own", REGISTERED: "registered code", "builtin": "built in"}


FILE_BYTES = 32 << 20


def evaluators(ask: Ask) -> Response:
    """The list of evaluators, the user's own first."""
    return _list(ask, None)


def _list(ask: Ask, imported: Imported | None) -> Response:
    everything = [*evaluator_entries(ask.studio.store), *registered_code(ask).values()]
    everything.sort(key=lambda entry: list(SOURCES).index(entry["source"]))
    uses = evaluator_uses(ask)
    found = [_row(entry, len(uses.get(_used_as(entry), ()))) for entry in everything if _passes(entry, ask)]
    kinds = dict.fromkeys(entry["kind"] for entry in everything)
    deleted = ask.query.get("deleted", "")
    gone = sorted(each.name for each in ask.studio.store.evaluators.list(deleted=True))
    return page(
        ask,
        "evaluators.html",
        section="evaluators",
        rows=found,
        n_all=len(everything),
        n_own=sum(entry["source"] == "library" for entry in everything),
        kinds={kind: FAMILIES.get(kind, kind) for kind in kinds if kind},
        sources=SOURCES,
        imported=imported,
        deleted=deleted if deleted in gone else "",
        gone=gone,
    )


def _used_as(entry: dict[str, Any]) -> str:
    return str(entry["summary" if entry["source"] == REGISTERED else "name"])


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


def export(ask: Ask) -> Response:
    """The library as a file."""
    text = json.dumps(export_library(ask.studio.store), indent=1, ensure_ascii=True)
    headers = {"content-disposition": 'attachment; filename="evaluators.json"'}
    return Response(text, media_type="application/json", headers=headers)


def take_in(ask: Ask) -> Response:
    """Adds the evaluators of a file, and says what became of each."""
    upload = ask.upload("file")
    if upload is None:
        raise InputError("choose a file of evaluators; nothing was changed")
    read = upload.file.read(FILE_BYTES + 1)
    if len(read) > FILE_BYTES:
        raise InputError(f"a file of evaluators may have {FILE_BYTES >> 20} MB; nothing was changed")
    try:
        text = read.decode("utf-8-sig")
        data = json.loads(text, object_pairs_hook=keys_once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the file must be JSON but is none: {error}; nothing was changed") from None
    if looks_like_key(text):
        raise InputError("the file holds what looks like a key of a service, so nothing of it was kept")
    return _list(ask, import_library(ask.studio.store, data))


def _own(ask: Ask) -> str:
    name = str(ask.path["name"])
    if not ask.studio.store.evaluators.versions(name):
        raise InputError(f"there is no evaluator {name!r} of your own")
    return name


ROUTES = [
    get("/evaluators", evaluators),
    get("/evaluators/library/export.json", export),
    post("/evaluators", take_in, FILE_BYTES + (1 << 20)),
    post("/evaluators/{name}/delete", delete),
    post("/evaluators/{name}/undo", undo),
]
