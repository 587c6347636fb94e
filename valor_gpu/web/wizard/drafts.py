"""Drafts of evaluations: what forms have said so far, kept in the store so that it outlives a browser."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from valor_gpu.store import Store
from valor_gpu.web.routes import Ask, missing

KIND = "draft"
SCENARIOS = {
    "context": "Question and answer with context",
    "qa": "Question and answer without context",
    "chat": "Conversation",
}
_GONE = "There is no such draft. It may have been submitted: its run is in the list of evaluations."
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
        upload: id of an upload that is read and then becomes its data set; empty for none.
        mapping: field to reference; fields that are not here are found by their names.
        metrics: names.
        judge: name of a registered one.
        level: from which severities are defects.
        is_target_only: nothing is scored.
        settings: metric to its parameters, each with the text that was typed.
        passes: metric to the threshold that was typed.
        options: ``limit``, ``repeats``, ``epochs`` and ``max_cost`` as they were typed.
        slice_by: columns.
        baseline: id of a run.
        embedding: name of a registered model of embeddings.
        keep_prompts: whether the store keeps prompts and requests.
        lost: what a copied run had and forms cannot say, in words.
        saved: seconds since 1970; 0 for a draft that nobody has filled in.
        id: of the draft.
    """

    name: str = ""
    scenario: str = "context"
    target: str = ""
    variants: tuple[str, ...] = ()
    data: str = ""
    upload: str = ""
    mapping: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    judge: str = ""
    level: str = "Medium"
    is_target_only: bool = False
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    passes: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    slice_by: tuple[str, ...] = ()
    baseline: str = ""
    embedding: str = ""
    keep_prompts: bool = True
    lost: tuple[str, ...] = ()
    saved: float = 0.0
    id: str = ""

    @property
    def step(self) -> str:
        """The page of the wizard that has to be filled in next."""
        if not self.data:
            return "data"
        return "review" if self.metrics or self.is_target_only else "metrics"

    @property
    def task(self) -> str:
        """``qa`` or ``chat``."""
        return "chat" if self.scenario == "chat" else "qa"


def save(store: Store, draft: Draft, **changes: Any) -> Draft:
    """Keeps a draft with changes; a new one gets its id.

    Only what changes is written: another page of the same draft may be sent at the same time. One that has been
    submitted or discarded meanwhile does not come back.
    """
    changed = {"saved": time.time(), "id": draft.id or secrets.token_hex(6), **changes}
    found = replace(draft, **changed)
    if not draft.id:
        store.views.save(KIND, found.id, asdict(found))
        return found

    def make(kept: dict[str, Any] | None) -> dict[str, Any]:
        if kept is None:
            raise missing(_GONE)
        return {**kept, **{name: getattr(found, name) for name in changed}}

    store.views.change(KIND, draft.id, make)
    return found


def find_draft(ask: Ask) -> Draft:
    """The draft of the address; a page says so where there is none."""
    kept = ask.studio.store.views.get(KIND, ask.path["draft"])
    if kept is None:
        raise missing(_GONE)
    return _read(kept)


def drafts(store: Store) -> list[Draft]:
    """All drafts, the one that was saved last first."""
    kept = (store.views.get(KIND, name) for name in store.views.list(KIND))
    return sorted((_read(each) for each in kept if each is not None), key=lambda each: -each.saved)


def saved_ago(draft: Draft) -> str:
    """How long ago a draft was saved, in words."""
    ago = max(round(time.time() - draft.saved), 0)
    if ago < 60:
        return "just now"
    if ago < 5400:
        return f"{ago // 60} min ago"
    return time.strftime("on %d %b %Y, %H:%M", time.localtime(draft.saved))


def _read(kept: Mapping[str, Any]) -> Draft:
    known = {each.name for each in fields(Draft)}
    found: dict[str, Any] = {name: value for name, value in kept.items() if name in known}
    lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
    found |= lists
    return Draft(**found)
