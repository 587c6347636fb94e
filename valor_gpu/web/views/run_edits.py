"""Name, tags and note of a run, edited."""

from __future__ import annotations

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.store.edits import edit_run, edits_of
from valor_gpu.web.routes import Ask, post, see
from valor_gpu.web.rows.run_rows import find_run
from valor_gpu.web.runs.tags import is_unchanged, read_tags
from valor_gpu.web.security import looks_like_key


def edit(ask: Ask) -> Response:
    """Changes what people say of a run, as far as the form differs from what the run has."""
    run = find_run(ask)
    name, note = ask.field("name"), ask.field("note").replace("\r\n", "\n")
    for field, text in (("name", name), ("tags", ask.field("tags")), ("note", note)):
        if looks_like_key(text):
            raise InputError(f"the {field} of a run must not hold what looks like a key of a service; nothing was kept")
    tags = read_tags(ask.field("tags"), run.tags)
    edit_run(
        run,
        name=None if is_unchanged(name, run.name) else name,
        tags=None if tags == run.tags and list(tags) == list(run.tags) else tags,
        note=None if is_unchanged(note, edits_of(run).note, has_lines=True) else note,
        edited=_time(ask.field("edited")),
    )
    return see(f"/runs/{run.id}")


def _time(text: str) -> float | None:
    """When the run of a form had been edited; None where it never was."""
    try:
        return float(text) if text else None
    except ValueError:
        raise InputError("edited must be the time that the form was made with: read the page again") from None


ROUTES = [post("/runs/{run}/edit", edit)]
