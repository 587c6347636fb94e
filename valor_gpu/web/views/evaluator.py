"""The page of an evaluator: what it asks, its parameters and files, its versions and what differs between two."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.pages.diff import line_diff
from valor_gpu.web.library.shelf import Shelved, find_shelved, shelf_parts, version_line
from valor_gpu.web.library.trials import stored_texts
from valor_gpu.web.library.version_trials import ROWS
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see


def evaluator(ask: Ask) -> Response:
    """The page of an evaluator, at its newest version or at ``?version=``."""
    found = find_shelved(ask, ask.query.get("version", ""))
    parts = shelf_parts(ask, found)
    if parts["try_fields"]:
        ask.studio.trials.prepare()
    return page(ask, "evaluator.html", section="evaluators", trial=_filled(ask, parts), **parts)


def _filled(ask: Ask, parts: dict[str, Any]) -> dict[str, Any] | None:
    """The form of a trial filled from a stored row, ``?run=`` and ``?row=``."""
    uid, number = ask.query.get("run", ""), ask.query.get("row", "")
    if not uid:
        return None
    empty = {field: "" for field, _ in parts["try_fields"]}
    blank = {"found": None, "row": empty, "judge": ""}
    if uid not in {each["id"] for each in parts["rows_of"]} or not number.isdecimal() or len(number) > 15:
        return {**blank, "problem": "Choose one of the runs and the number of a row."}
    texts = stored_texts(ask.studio.store.run(uid), int(number), empty)
    if texts is None:
        return {**blank, "problem": f"The run has no row {number}."}
    return {**blank, "row": texts, "problem": ""}


def versions(ask: Ask) -> Response:
    """What differs between two versions, ``?from=`` and ``?to=``; the newest two by default."""
    found = _own(ask)
    new = ask.query.get("to", "") or str(found.versions[0].number)
    old = ask.query.get("from", "") or str(max(int(new) - 1 if new.isdecimal() else 1, 1))
    first, second = find_shelved(ask, old), find_shelved(ask, new)
    assert first.version is not None and second.version is not None
    parts = shelf_parts(ask, second)
    text = ask.studio.store.evaluators.diff(found.name, first.version.number, second.version.number)
    return page(
        ask,
        "evaluator_versions.html",
        section="evaluators",
        name=found.name,
        versions=[version_line(version) for version in found.versions],
        newest=found.versions[0].number,
        old=version_line(first.version),
        new=version_line(second.version),
        difference=line_diff(text) if text else None,
        rows_of=parts["rows_of"],
        try_not=parts["try_not"],
        try_judged=parts["try_judged"],
        judges=parts["judges"],
        most=ROWS,
    )


def restore(ask: Ask) -> Response:
    """Makes an old version the newest one again, under a new number."""
    found = _own(ask)
    number = ask.field("version")
    if not number.isdecimal() or len(number) > 9:
        raise InputError(f"version must be the number of a version but is {number!r}")
    made = ask.studio.store.evaluators.restore(found.name, int(number))
    return see(f"/evaluators/{found.name}", version=str(made.number))


def _own(ask: Ask) -> Shelved:
    found = find_shelved(ask)
    if found.version is None:
        raise missing(f"{found.name} is built in: it has the one version of the installed package.")
    return found


def file(ask: Ask) -> Response:
    """A file of an evaluator, as text."""
    found = find_shelved(ask, ask.query.get("version", ""))
    wanted = ask.query.get("name", "")
    for each in found.files:
        if each.name == wanted:
            headers = {"content-disposition": f'attachment; filename="{each.name}"'}
            return Response(each.text.encode(errors="replace"), media_type="text/plain", headers=headers)
    raise missing(
        f"Evaluator {found.name} has no file {wanted}; it has {', '.join(f.name for f in found.files) or 'none'}."
    )


ROUTES = [
    get("/evaluators/{name}/versions", versions),
    get("/evaluators/{name}/diff", versions),
    get("/evaluators/{name}/file", file),
    get("/evaluators/{name}", evaluator),
    post("/evaluators/{name}/restore", restore),
]
