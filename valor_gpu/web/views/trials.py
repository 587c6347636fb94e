"""Evaluators tried: on one row of a form, and two versions on rows of a run. Nothing is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.web.errands import Errand
from valor_gpu.web.library.shelf import find_shelved, shelf_parts, version_line
from valor_gpu.web.library.trial_worker import trial_of, version_trial_of
from valor_gpu.web.library.trials import problem_of
from valor_gpu.web.library.version_trials import ROWS
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing, post, see
from valor_gpu.web.rows.run_rows import run_of_id
from valor_gpu.web.security import looks_like_key


def attempt(ask: Ask) -> Response:
    """Tries the evaluator on the row of the form; a judge that takes long leads to a page that waits for it."""
    found = find_shelved(ask, ask.field("version"))
    parts = shelf_parts(ask, found)
    if parts["try_not"]:
        raise InputError(f"{found.name} cannot be tried here: {parts['try_not']}")
    texts = {field: ask.field(f"f_{field}") for field, _ in parts["try_fields"]}
    if any(looks_like_key(text) for text in texts.values()):
        raise InputError("a field holds what looks like a key of a service, so it was sent to nobody")
    judge = ask.field("judge")
    job = {"kind": "row", "number": None if found.info is not None else parts["number"], "texts": texts, "judge": judge}
    work = _work(ask, found.name, job, trial_of)
    about = {"name": found.name, "version": ask.field("version"), "row": texts, "judge": judge}
    name = ask.studio.errands.start(work, about)
    errand = ask.studio.errands.get(name)
    if errand is not None and errand.wait():
        return _one_row(ask, errand, parts)
    return see(f"/evaluators/{found.name}/trial/{name}")


def _work(ask: Ask, name: str, job: dict[str, Any], read: Callable[[Any], Any]) -> Callable[[], Any]:
    """A trial in a process of its own."""
    studio = ask.studio
    judges = dict(studio.registry.judges) if studio.registry is not None else {}
    pool, whole = studio.trials, {**job, "name": name, "store": str(studio.store.path), "judges": judges}

    def work() -> Any:
        answer = pool.ask(whole)
        if "problem" in answer:
            raise InputError(answer["problem"])
        return read(answer["found"])

    return work


def trial(ask: Ask) -> Response:
    """The page of a trial: what it found, or that it still waits."""
    errand = _errand(ask)
    return _one_row(ask, errand, shelf_parts(ask, find_shelved(ask, errand.about["version"])))


def _errand(ask: Ask) -> Errand:
    found = ask.studio.errands.get(ask.path["trial"])
    if found is None or found.about["name"] != ask.path["name"]:
        raise missing("There is no such trial any more: the server keeps the last ones, until it ends. Try again.")
    return found


def _one_row(ask: Ask, errand: Errand, parts: dict[str, Any]) -> Response:
    if not errand.is_done:
        return page(
            ask, "evaluator_waits.html", section="evaluators", name=errand.about["name"], judge=errand.about["judge"]
        )
    problem = "" if errand.error is None else problem_of(errand.error)
    shown = {"found": errand.found, "problem": problem, "row": errand.about["row"], "judge": errand.about["judge"]}
    return page(ask, "evaluator.html", 400 if problem else 200, section="evaluators", trial=shown, **parts)


def attempt_versions(ask: Ask) -> Response:
    """Tries two versions on the first rows of a run."""
    old, new = (find_shelved(ask, ask.field(side)) for side in ("from", "to"))
    if old.version is None or new.version is None:
        raise missing(f"{new.name} is built in: it has one version.")
    numbers = old.version.number, new.version.number
    run = run_of_id(ask, ask.field("run"))
    judge = ask.field("judge")
    job = {"kind": "versions", "numbers": numbers, "run": run.id, "judge": judge}
    work = _work(ask, new.name, job, version_trial_of)
    about = {"name": new.name, "numbers": numbers, "run": {"id": run.id, "name": run.name}, "judge": judge}
    name = ask.studio.errands.start(work, about)
    return see(f"/evaluators/{new.name}/versions/trial/{name}")


def versions_trial(ask: Ask) -> Response:
    """What two versions say of the same rows."""
    errand = _errand(ask)
    waited = errand.wait() and errand.error is not None
    old, new = (find_shelved(ask, str(number)).version for number in errand.about["numbers"])
    assert old is not None
    assert new is not None
    return page(
        ask,
        "evaluator_trial.html",
        400 if waited else 200,
        section="evaluators",
        name=new.name,
        old=version_line(old),
        new=version_line(new),
        run=errand.about["run"],
        judge=errand.about["judge"],
        most=ROWS,
        waits=not errand.is_done,
        problem="" if errand.error is None else problem_of(errand.error),
        found=errand.found,
    )


ROUTES = [
    post("/evaluators/{name}/try", attempt),
    get("/evaluators/{name}/trial/{trial}", trial),
    post("/evaluators/{name}/versions/try", attempt_versions),
    get("/evaluators/{name}/versions/trial/{trial}", versions_trial),
]
