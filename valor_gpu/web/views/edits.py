"""New evaluators out of old ones: clone a prompt, edit it as a new version, try it on one row. Code is never edited."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.evaluation.prompts.prompt_copy import prompt_copy
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.security import looks_like_key
from valor_gpu.web.shelf import Shelved, find_shelved, shelf_parts
from valor_gpu.web.trials import make_evaluator, problem_of, try_on

_NOTE = 500


def clone(ask: Ask) -> Response:
    """The form that names a new evaluator."""
    return _clone_form(ask, _clonable(ask), "", ask.query.get("task", ""), "")


def _clone_form(ask: Ask, found: Shelved, name: str, task: str, problem: str) -> Response:
    tasks = sorted(found.info.tasks, reverse=True) if found.info is not None else []
    return page(
        ask,
        "evaluator_clone.html",
        400 if problem else 200,
        section="evaluators",
        name=found.name,
        version=None if found.version is None else found.version.number,
        wanted=name or f"{found.name}_2",
        tasks=tasks,
        task=task if task in tasks else "qa",
        problem=problem,
    )


def _clonable(ask: Ask, which: str = "") -> Shelved:
    found = find_shelved(ask, which or ask.query.get("version", ""))
    if not found.can_clone:
        raise missing(f"{found.name} has no single prompt that could be cloned; it is changed by code alone.")
    return found


def make_clone(ask: Ask) -> Response:
    """Makes a new evaluator of a prompt and leads to the form that edits it."""
    found = _clonable(ask, ask.field("version"))
    name, task = ask.field("name"), ask.field("task", "qa")
    store = ask.studio.store
    if looks_like_key(name):
        raise InputError("the name holds what looks like a key of a service, so it was not kept")
    if name in {each.name for each in store.evaluators.list() + store.evaluators.list(deleted=True)}:
        return _clone_form(ask, found, name, task, f"There is an evaluator {name} already; nothing was changed.")
    try:
        if found.version is None:
            text, options = prompt_copy(found.name, task), {}
            note = f"cloned from {found.name}"
        else:
            text, options = found.files[0].text, found.parameters
            note = f"cloned from {found.name} version {found.version.number}"
        save_evaluator(store, name, _as_text(text), note, parameters=options)
    except (InputError, MissingExtraError) as error:
        return _clone_form(ask, found, name, task, str(error))
    return see(f"/evaluators/{name}/edit")


def _as_text(prompt: str) -> str:
    """The prompt so that it is no name of a file: with a line's end."""
    return prompt if "\n" in prompt else f"{prompt}\n"


def edit(ask: Ask) -> Response:
    """The form that makes a new version."""
    found = _editable(ask, ask.query.get("version", ""))
    return _edit_form(ask, found, found.files[0].text, "", "")


def _editable(ask: Ask, which: str = "") -> Shelved:
    found = find_shelved(ask, which)
    if not found.is_prompt:
        words = "is built in: clone it" if found.info is not None else "is no prompt: it is changed by code alone"
        raise missing(f"{found.name} {words}.")
    return found


def _edit_form(ask: Ask, found: Shelved, text: str, note: str, problem: str) -> Response:
    return page(
        ask,
        "evaluator_edit.html",
        400 if problem else 200,
        section="evaluators",
        name=found.name,
        newest=found.versions[0].number,
        text=text,
        note=note,
        parameters=found.parameters,
        problem=problem,
    )


def save(ask: Ask) -> Response:
    """Keeps a new version, unless the prompt cannot be one."""
    found = _editable(ask)
    text, note = _lines(ask), ask.field("note")[:_NOTE]
    if looks_like_key(text) or looks_like_key(note):
        raise InputError("the prompt or its note holds what looks like a key of a service, so nothing was kept")
    newest = found.versions[0]
    if ask.field("base") != str(newest.number):
        return _edit_form(
            ask, found, text, note, f"Version {newest.number} was made meanwhile. Look at it, then save again."
        )
    try:
        made = save_evaluator(ask.studio.store, found.name, text, note, parameters=found.parameters)
    except (InputError, MissingExtraError) as error:
        return _edit_form(ask, found, text, note, str(error))
    if made.number == newest.number:
        return _edit_form(ask, found, text, note, f"The prompt is that of version {newest.number}; nothing to keep.")
    return see(f"/evaluators/{found.name}")


def _lines(ask: Ask) -> str:
    """The prompt with plain ends of lines: forms send carriage returns."""
    return _as_text(ask.field("prompt").replace("\r\n", "\n").replace("\r", "\n") + "\n")


def attempt(ask: Ask) -> Response:
    """The page with what the evaluator says of one row; nothing is kept."""
    found = find_shelved(ask, ask.field("version"))
    parts = shelf_parts(ask, found)
    if parts["try_not"]:
        raise InputError(f"{found.name} cannot be tried here: {parts['try_not']}")
    texts = {field: ask.field(f"f_{field}") for field, _ in parts["try_fields"]}
    if any(looks_like_key(text) for text in texts.values()):
        raise InputError("a field holds what looks like a key of a service, so it was sent to nobody")
    trial: Any
    try:
        made = make_evaluator(ask.studio.store, found.name, found.info, parts["number"])
        trial, problem = try_on(made, texts, ask.studio.registry, ask.field("judge")), ""
    except Exception as error:  # whatever a judge or a template raises belongs on the page
        trial, problem = None, problem_of(error)
    return page(
        ask,
        "evaluator.html",
        400 if problem else 200,
        section="evaluators",
        trial={"found": trial, "problem": problem, "row": texts, "judge": ask.field("judge")},
        **parts,
    )


ROUTES = [
    get("/evaluators/{name}/clone", clone),
    post("/evaluators/{name}/clone", make_clone),
    get("/evaluators/{name}/edit", edit),
    post("/evaluators/{name}/edit", save),
    post("/evaluators/{name}/try", attempt),
]
