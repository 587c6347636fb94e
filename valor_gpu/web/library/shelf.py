"""Evaluators as their pages show them: built-in ones, and those of the library with their versions."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.saved import BUILTIN, FUNCTION, PROMPT, evaluator_entry
from valor_gpu.evaluation.evaluators.table import EVALUATORS, EvaluatorInfo
from valor_gpu.evaluation.prompts.prompt_copy import can_copy
from valor_gpu.store.evaluators import EvaluatorVersion
from valor_gpu.web.library.trials import NO_CODE, trial_parts
from valor_gpu.web.library.uses import entries, evaluator_uses, run_line
from valor_gpu.web.prompts import FAMILIES, TASK_WORDS, prompts_of
from valor_gpu.web.routes import Ask, missing
from valor_gpu.web.wizard.form_settings import can_set

_RUNS = 50
REGISTERED = "registered"


@dataclass(frozen=True)
class File:
    """A file of an evaluator.

    Attributes:
        name: by which it is downloaded.
        text: its content.
        task: what it is asked about, in words, where the evaluator has prompts for several tasks.
    """

    name: str
    text: str
    task: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode(errors="surrogatepass"))

    @property
    def hash(self) -> str:
        """First digits of the SHA-256."""
        return hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True)
class Shelved:
    """An evaluator.

    Attributes:
        entry: as of :func:`~valor_gpu.evaluation.evaluators.saved.evaluator_entries`.
        info: of a built-in one.
        version: of the library's, the one that is shown.
        versions: of the library's, the newest first.
        is_deleted: whether it is out of the list.
        files: prompts.
        parameters: name to meaning (built in) or value.
    """

    entry: dict[str, Any]
    info: EvaluatorInfo | None = None
    version: EvaluatorVersion | None = None
    versions: tuple[EvaluatorVersion, ...] = ()
    is_deleted: bool = False
    files: tuple[File, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """By which runs name it."""
        return str(self.entry["name"])

    @property
    def is_prompt(self) -> bool:
        """Whether it is a prompt of the library, which can be edited."""
        return self.version is not None and self.version.content.get("kind") == PROMPT

    @property
    def tuned(self) -> str:
        """The built-in evaluator that a version of the library has with parameters of its own; else empty."""
        content = {} if self.version is None else self.version.content
        return str(content.get("evaluator")) if content.get("kind") == BUILTIN else ""

    @property
    def can_edit(self) -> bool:
        """Whether forms make new versions of it."""
        return self.is_prompt or bool(can_set(self.tuned))

    @property
    def can_clone(self) -> bool:
        """Whether its prompt can become an evaluator of its own."""
        return self.is_prompt or (self.info is not None and can_copy(self.info.name))


def find_shelved(ask: Ask, which: str = "") -> Shelved:
    """The evaluator of the address; a page says so where there is none.

    Args:
        ask: what was asked.
        which: number of a version of the library; the newest by default.
    """
    name, library = ask.path["name"], ask.studio.store.evaluators
    if name in EVALUATORS:
        return _builtin(EVALUATORS[name])
    if name in (code := registered_code(ask)):
        return Shelved(code[name])
    try:
        versions = library.versions(name)
    except InputError:
        known = [*EVALUATORS, *(version.name for version in library.list())]
        raise missing(f"There is no evaluator {name}{near_names(name, known)}.") from None
    return _of_library(ask, versions, _chosen(versions, which))


def registered_code(ask: Ask) -> dict[str, dict[str, Any]]:
    """Evaluators of code that were registered when the server was started, as entries by name."""
    registry = ask.studio.registry
    blank: dict[str, Any] = {
        "requires": [],
        "low": None,
        "high": None,
        "higher_is_better": None,
        "version": None,
        "note": "",
    }
    return {
        name: {**blank, "name": name, "source": REGISTERED, "kind": FUNCTION, "summary": origin, "status": "ready"}
        for name, origin in (registry.evaluators.items() if registry is not None else ())
    }


def _chosen(versions: tuple[EvaluatorVersion, ...], which: str) -> EvaluatorVersion:
    if not which:
        return versions[-1]
    if not which.isdecimal() or len(which) > 9 or not 0 < int(which) <= len(versions):
        raise missing(f"There is no version {which}; there are 1 to {len(versions)}.")
    return versions[int(which) - 1]


def _builtin(info: EvaluatorInfo) -> Shelved:
    files = tuple(
        File(f"{info.name}_{task}_{place}.md", f"{system}\n\n{text}", TASK_WORDS[task] if len(info.tasks) > 1 else "")
        for place, (task, system, text) in enumerate(prompts_of(info), 1)
    )
    return Shelved(evaluator_entry(info), info, files=files, parameters=dict(info.parameters))


def _of_library(ask: Ask, versions: tuple[EvaluatorVersion, ...], version: EvaluatorVersion) -> Shelved:
    deleted = {each.name for each in ask.studio.store.evaluators.list(deleted=True)}
    content = version.content
    files = (File(f"{version.name}.prompty", str(content.get("prompt", ""))),) if content.get("kind") == PROMPT else ()
    return Shelved(
        evaluator_entry(version),
        version=version,
        versions=versions[::-1],
        is_deleted=version.name in deleted,
        files=files,
        parameters=dict(content.get("parameters") or {}),
    )


def scale_words(entry: dict[str, Any]) -> str:
    """The scale of an entry."""
    low, high = ("no bound" if end is None or math.isinf(end) else f"{end:g}" for end in (entry["low"], entry["high"]))
    return "" if entry["low"] is None else f"{low} to {high}"


def better_words(entry: dict[str, Any]) -> str:
    """Which end of the scale is good."""
    words = {True: "higher is better", False: "lower is better", None: "neither end is better"}
    return words[entry["higher_is_better"]]


def version_line(version: EvaluatorVersion) -> dict[str, Any]:
    """What the table of versions shows of one."""
    when = datetime.fromtimestamp(version.created).strftime("%d %b %Y, %H:%M")
    return {"number": version.number, "hash": version.hash[:12], "when": when, "note": version.note}


def shelf_parts(ask: Ask, found: Shelved) -> dict[str, Any]:
    """What pages of an evaluator show of it."""
    is_code = found.entry["source"] == REGISTERED
    uses = evaluator_uses(ask).get(found.entry["summary"] if is_code else found.name, [])
    number = None if found.version is None else found.version.number
    content = {} if found.version is None else found.version.content
    return {
        "name": found.name,
        "entry": found.entry,
        "family": FAMILIES.get(found.entry["kind"], str(found.entry["kind"])),
        "scale": scale_words(found.entry),
        "better": better_words(found.entry),
        "tasks": sorted(found.info.tasks) if found.info is not None and found.can_clone else [],
        "shown": None if found.version is None else version_line(found.version),
        "newest": found.versions[0].number if found.versions else None,
        "versions": [version_line(version) for version in found.versions],
        "files": found.files,
        "parameters": found.parameters,
        "is_builtin": found.info is not None,
        "can_edit": found.can_edit,
        "is_deleted": found.is_deleted,
        "can_clone": found.can_clone,
        "needs": sorted(found.info.needs) if found.info is not None else [],
        "base": content.get("evaluator", ""),
        "origin": content.get("origin", "") if content.get("kind") == FUNCTION else found.entry["summary"] * is_code,
        "uses": [(run_line(entry), version) for entry, version in uses[:_RUNS]],
        "more_uses": max(len(uses) - _RUNS, 0),
        "n_uses": len(uses),
        "number": number,
        "is_code": is_code,
        "rows_of": [run_line(entry) for entry in entries(ask) if entry.kind == "answers"][:_RUNS],
        **(NO_CODE if is_code else trial_parts(ask.studio.store, ask.studio.registry, found.name, found.info, number)),
    }
