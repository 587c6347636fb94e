"""Which runs used an evaluator or a data set, read from their configurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from valor_gpu.web.book import Entry
from valor_gpu.web.routes import Ask


def entries(ask: Ask) -> list[Entry]:
    """All runs that are not deleted and can be read, the newest first."""
    return [each for each in ask.studio.book.entries() if not each.is_lost]


def evaluator_uses(ask: Ask) -> dict[str, list[tuple[Entry, str]]]:
    """Evaluator to the runs that used it, each with the version (``3`` of the library; empty for others).

    Evaluators of code go by their ``module:function``.
    """
    found: dict[str, list[tuple[Entry, str]]] = {}
    for entry in entries(ask):
        for name, version in dict.fromkeys(_evaluators(entry)):
            found.setdefault(name, []).append((entry, version))
    return found


def _evaluators(entry: Entry) -> Iterator[tuple[str, str]]:
    for each in entry.config.get("evaluators") or ():
        if not isinstance(each, dict):
            continue
        if each.get("source") == "library":
            name, _, version = str(each.get("origin") or each.get("name")).partition("@")
            yield name, version
        elif each.get("source") == "custom" and each.get("origin"):
            yield str(each["origin"]), ""
        elif each.get("source", "builtin") == "builtin":
            yield str(each.get("name")), ""


def dataset_uses(ask: Ask) -> dict[str, list[Entry]]:
    """Hash of a data set to the runs that read it."""
    found: dict[str, list[Entry]] = {}
    for entry in entries(ask):
        if digest := dataset_of(entry):
            found.setdefault(digest, []).append(entry)
    return found


def dataset_of(entry: Entry) -> str:
    """The hash of a run's data; empty where it has none."""
    data: Any = entry.config.get("data")
    said = data.get("hash") if isinstance(data, dict) else None
    return entry.head.dataset or str(said or "")


def run_line(entry: Entry) -> dict[str, Any]:
    """What a list of runs that used something shows of one."""
    return {"id": entry.head.id, "name": entry.head.name or "without a name", "state": entry.head.state}
