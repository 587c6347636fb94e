"""The library of evaluators as one JSON file, and back. No torch.

A version is known by the hash of its content, which is checked; nothing that a store has is overwritten, and no code
comes in: functions are added by who registers them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.evaluators.saved import BUILTIN, FUNCTION, check_content
from valor_gpu.store import Store
from valor_gpu.store.evaluators import EvaluatorVersion, content_hash

FORMAT = "valor_gpu evaluators"
_VERSION = 1


@dataclass
class Imported:
    """What became of the evaluators of a file.

    Attributes:
        added: name to the number of versions that are new.
        unchanged: names of which the store had everything.
        refused: name (or place in the file) to the reason; nothing of it was kept.
    """

    added: dict[str, int] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def export_library(store: Store) -> dict[str, Any]:
    """The evaluators of a store with all of their versions, as JSON; deleted ones are left out.

    Example:
        >>> import tempfile
        >>> from valor_gpu.evaluation import save_evaluator
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Store(folder + "/a.sqlite") as store:
        ...         _ = save_evaluator(store, "same_text", "exact_match", parameters={"ignore_case": True})
        ...         kept = export_library(store)
        ...     with Store(folder + "/b.sqlite") as store:
        ...         print(import_library(store, kept).added, import_library(store, kept).unchanged)
        {'same_text': 1} ['same_text']
    """
    found = [
        {"name": newest.name, "versions": [_said(version) for version in store.evaluators.versions(newest.name)]}
        for newest in store.evaluators.list()
    ]
    return {"format": FORMAT, "version": _VERSION, "evaluators": found}


def _said(version: EvaluatorVersion) -> dict[str, Any]:
    return {name: getattr(version, name) for name in ("number", "hash", "note", "created", "content")}


def import_library(store: Store, data: Any) -> Imported:
    """Adds the evaluators of a file that a store lacks.

    An evaluator of the same name must have the versions of the file as its first ones, or the other way round: then
    what is missing is added behind them. Otherwise it is refused, and the others are taken all the same.

    Args:
        store: that gets them.
        data: what :func:`export_library` gave.

    Raises:
        InputError: something else than such a file; nothing was kept.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT or not isinstance(data.get("evaluators"), list):
        raise InputError("the file must be one of evaluators, as their page exports them, but is something else")
    if data.get("version") != _VERSION:
        raise InputError(f"the file must have version {_VERSION} but has {data.get('version')!r}")
    done = Imported()
    for place, each in enumerate(data["evaluators"], 1):
        name = each.get("name") if isinstance(each, Mapping) else None
        shown = name if isinstance(name, str) and name else f"evaluator {place} of the file"
        try:
            _take(store, shown, each, done)
        except (InputError, MissingExtraError) as error:
            done.refused[shown] = str(error)
    return done


def _take(store: Store, name: str, each: Any, done: Imported) -> None:
    versions = _checked(name, each)
    here = _hashes(store, name)
    shared = min(len(here), len(versions))
    if here[:shared] != [hashed for hashed, _, _ in versions[:shared]]:
        raise InputError("an evaluator of this name is here with other versions: rename one of them")
    rest = versions[shared:]
    for _, content, note in rest:
        store.evaluators.save(name, content, note)
    if rest:
        done.added[name] = len(rest)
    else:
        done.unchanged.append(name)


def _hashes(store: Store, name: str) -> list[str]:
    try:
        return [version.hash for version in store.evaluators.versions(name)]
    except InputError:
        return []


def _checked(name: str, each: Any) -> list[tuple[str, dict[str, Any], str]]:
    """Hash, content and note of each version of the file, all of them checked."""
    listed = each.get("versions") if isinstance(each, Mapping) else None
    if not isinstance(each.get("name") if isinstance(each, Mapping) else None, str):
        raise InputError("it has no name")
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise InputError("it has no versions")
    found: list[tuple[str, dict[str, Any], str]] = []
    for place, version in enumerate(listed, 1):
        content = version.get("content") if isinstance(version, Mapping) else None
        if not isinstance(content, Mapping):
            raise InputError(f"version {place} has no content")
        hashed, note = content_hash(content), version.get("note", "")
        if version.get("number") != place or version.get("hash") != hashed:
            raise InputError(f"version {place} has another content than its number and hash say")
        if found and found[-1][0] == hashed:
            raise InputError(f"version {place} has the content of the one before")
        _check(name, dict(content), note, place)
        found.append((hashed, dict(content), note))
    return found


def _check(name: str, content: dict[str, Any], note: Any, place: int) -> None:
    if not isinstance(note, str):
        raise InputError(f"version {place} has a note that is no text")
    if content.get("kind") == FUNCTION:
        raise InputError("it is code, which comes in by registering it and not by a file")
    parameters = content.get("parameters")
    if (
        content.get("kind") == BUILTIN
        and isinstance(parameters, Mapping)
        and isinstance(parameters.get("prompts"), str)
    ):
        raise InputError("its prompts are named by a folder, and not in the file")
    check_content(name, content)
