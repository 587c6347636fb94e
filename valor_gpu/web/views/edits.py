"""New evaluators out of old ones: clone a prompt, edit it as a new version, or its parameters. Code is never edited."""

from __future__ import annotations

from starlette.responses import Response

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.evaluation.prompts.prompt_copy import prompt_copy
from valor_gpu.web.library.shelf import Shelved, find_shelved
from valor_gpu.web.registry import Registry
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.security import looks_like_key
from valor_gpu.web.wizard.form_settings import parameter_fields, parameter_of, text_of

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
    if found.tuned:
        registry = _registry(ask)
        typed = {key: text_of(key, value, registry) for key, value in found.parameters.items()}
        return _parameter_form(ask, found, typed, "", "")
    return _edit_form(ask, found, found.files[0].text, "", "")


def _registry(ask: Ask) -> Registry:
    found = ask.studio.registry
    return found if isinstance(found, Registry) else Registry()


def _parameter_form(
    ask: Ask, found: Shelved, typed: dict[str, str], note: str, problem: str, problems: dict[str, str] | None = None
) -> Response:
    fields = parameter_fields(found.tuned, typed, _registry(ask))
    shown = {each.name.removeprefix(f"set-{found.tuned}-") for each in fields}
    return page(
        ask,
        "evaluator_parameters.html",
        400 if problem else 200,
        section="evaluators",
        name=found.name,
        base=found.tuned,
        newest=found.versions[0].number,
        fields=fields,
        others={key: value for key, value in found.parameters.items() if key not in shown},
        note=note,
        problem=problem,
        problems=problems or {},
    )


def _save_parameters(ask: Ask, found: Shelved, note: str) -> Response:
    """Keeps a new version of a built-in evaluator with parameters."""
    registry, newest = _registry(ask), found.versions[0]
    fields = parameter_fields(found.tuned, {}, registry)
    names = [each.name.removeprefix(f"set-{found.tuned}-") for each in fields]
    typed = {name: text for name in names for text in ask.fields(f"set-{found.tuned}-{name}") if text.strip()}
    parameters, problems = {key: each for key, each in found.parameters.items() if key not in names}, {}
    for name, text in typed.items():
        if looks_like_key(text):
            raise InputError("a parameter holds what looks like a key of a service, so nothing was kept")
        try:
            parameters[name] = parameter_of(name, text, registry)
        except (ValueError, RecursionError) as error:
            problems[f"set-{found.tuned}-{name}"] = str(error)
    if problems:
        return _parameter_form(ask, found, typed, note, "A parameter cannot be read.", problems)
    if ask.field("base") != str(newest.number):
        return _parameter_form(
            ask, found, typed, note, f"Version {newest.number} was made meanwhile. Look at it first."
        )
    try:
        made = save_evaluator(ask.studio.store, found.name, found.tuned, note, parameters=parameters)
    except (ValueError, TypeError, ImportError) as error:
        return _parameter_form(ask, found, typed, note, str(error))
    if made.number == newest.number:
        return _parameter_form(
            ask, found, typed, note, f"The parameters are those of version {newest.number}; nothing to keep."
        )
    return see(f"/evaluators/{found.name}")


def _editable(ask: Ask, which: str = "") -> Shelved:
    found = find_shelved(ask, which)
    if not found.can_edit:
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
    if found.tuned:
        return _save_parameters(ask, found, note)
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


ROUTES = [
    get("/evaluators/{name}/clone", clone),
    post("/evaluators/{name}/clone", make_clone),
    get("/evaluators/{name}/edit", edit),
    post("/evaluators/{name}/edit", save),
]
