"""Drafts of evaluations: what forms have said so far, kept in the store so that it outlives a browser."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from valor_gpu.store import Run, Store
from valor_gpu.web.registry import Registry
from valor_gpu.web.routes import Ask, missing

KIND = "draft"
SCENARIOS = {
    "context": "Question and answer with context",
    "qa": "Question and answer without context",
    "chat": "Conversation",
}
FIELDS = {
    "context": ("question", "answer", "context", "ground_truth"),
    "qa": ("question", "answer", "ground_truth"),
    "chat": ("messages",),
}
"""Fields that a scenario maps."""


@dataclass(frozen=True)
class Draft:
    """What was said of an evaluation.

    Attributes:
        name: of the evaluation; may be empty.
        scenario: of :data:`SCENARIOS`.
        target: name of a registered one; empty for answers that the data have.
        variants: names of those of the target, a run for each.
        data: hash of a data set of the store.
        mapping: field to reference; fields that are not here are found by their names.
        metrics: names.
        judge: name of a registered one.
        level: from which severities are defects.
        is_target_only: nothing is scored.
        saved: seconds since 1970; 0 for a draft that nobody has filled in.
        id: of the draft.
    """

    name: str = ""
    scenario: str = "context"
    target: str = ""
    variants: tuple[str, ...] = ()
    data: str = ""
    mapping: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    judge: str = ""
    level: str = "Medium"
    is_target_only: bool = False
    saved: float = 0.0
    id: str = ""

    @property
    def task(self) -> str:
        """``qa`` or ``chat``."""
        return "chat" if self.scenario == "chat" else "qa"


def save(store: Store, draft: Draft, **changes: Any) -> Draft:
    """Keeps a draft with changes; a new one gets its id."""
    found = replace(draft, **{"saved": time.time(), "id": draft.id or secrets.token_hex(6), **changes})
    store.views.save(KIND, found.id, asdict(found))
    return found


def find_draft(ask: Ask) -> Draft:
    """The draft of the address; a page says so where there is none."""
    kept = ask.studio.store.views.get(KIND, ask.path["draft"])
    if kept is None:
        raise missing("There is no such draft. It may have been submitted: its run is in the list of evaluations.")
    return _read(kept)


def drafts(store: Store) -> list[Draft]:
    """All drafts, the one that was saved last first."""
    kept = (store.views.get(KIND, name) for name in store.views.list(KIND))
    return sorted((_read(each) for each in kept if each is not None), key=lambda each: -each.saved)


def _read(kept: Mapping[str, Any]) -> Draft:
    known = {each.name for each in fields(Draft)}
    found: dict[str, Any] = {name: value for name, value in kept.items() if name in known}
    lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
    found |= lists
    return Draft(**found)


def draft_of_run(run: Run, registry: Registry) -> Draft:
    """A draft that says what a run was made of, as far as forms can say it."""
    config = run.config
    metrics = [each["name"] for each in config["evaluators"] if each["source"] != "prompt"]
    target, judge = config.get("target") or {}, config.get("judge") or {}
    fields_ = config.get("data_mapping") or {}
    scenario = "chat" if config["task_type"] == "chat" else "context" if "context" in fields_ else "qa"
    name = _target_of(target, registry)
    sets = registry.targets[name]["variants"] if name else {}
    levels = [value for value in (config.get("thresholds") or {}).values() if isinstance(value, str)]
    return Draft(
        name=f"{run.name} (copy)"[:200],
        scenario=scenario,
        target=name,
        variants=tuple(each for each, said in sets.items() if said == config.get("parameters")),
        data=str((config.get("data") or {}).get("hash", "")),
        mapping={name: text for name, text in fields_.items() if text != "${target}"},
        metrics=tuple(str(each) for each in metrics if each),
        judge=next((name for name, said in registry.judges.items() if _is_judge(said, judge)), ""),
        level=levels[0] if levels else "Medium",
        is_target_only=bool(target) and not metrics,
    )


def _target_of(config: Mapping[str, Any], registry: Registry) -> str:
    """The registered target that a run asked."""
    for name, said in registry.targets.items():
        use = said["use"]
        same = use == config.get("origin") if isinstance(use, str) else False
        address = use if isinstance(use, str) else use.get("url")
        if config and (same or (address is not None and address == config.get("url"))):
            return name
        if isinstance(use, Mapping) and "model" in use and use["model"] == config.get("model"):
            return name
    return ""


def _is_judge(said: Mapping[str, Any], judge: Mapping[str, Any]) -> bool:
    model = said.get("model") or said.get("azure_deployment")
    address = str(said.get("base_url") or said.get("azure_endpoint") or "").rstrip("/")
    return bool(judge) and model == judge.get("model") and address in ("", str(judge.get("base_url", "")).rstrip("/"))
