"""The metrics of the wizard's table: which can be ticked, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import ValorError
from valor_gpu.evaluation.engine.metrics import RunEvaluator, resolve_evaluators
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.store import Store
from valor_gpu.web.drafts import Draft
from valor_gpu.web.planning import Outlook
from valor_gpu.web.registry import Registry

MEASURED = frozenset({"seconds", "cost"})
"""Fields that a run with a target gives by itself."""


@dataclass(frozen=True)
class Choice:
    """A metric of the wizard's table.

    Attributes:
        name: of the metric.
        family: ``quality``, ``safety`` or ``own``.
        about: what it measures.
        requires: fields.
        scale: in words.
        off: why it cannot be ticked; empty if it can.
        made: the evaluator; None where it cannot be made.
    """

    name: str
    family: str
    about: str
    requires: tuple[str, ...]
    scale: str
    off: str
    made: RunEvaluator | None


def choices(draft: Draft, outlook: Outlook, registry: Registry, store: Store) -> list[Choice]:
    """All metrics, those that the mapped columns do not allow with why."""
    own = [(each.name, "own", f"{each.name}@{each.number}", each.note) for each in store.evaluators.list()]
    code = [(name, "own", (name, text), text) for name, text in registry.evaluators.items()]
    table = [
        (name, "safety" if info.kind == "safety" else "quality", name, info.summary)
        for name, info in EVALUATORS.items()
    ]
    return [_choice(draft, outlook, store, *each) for each in (*table, *own, *code)]


def _choice(draft: Draft, outlook: Outlook, store: Store, name: str, family: str, entry: Any, about: str) -> Choice:
    info = EVALUATORS.get(name)
    if info is not None and draft.task not in info.tasks:
        return Choice(
            name, family, about, tuple(sorted(info.requires)), "", "Scores questions and answers alone.", None
        )
    if info is not None and info.needs & {"embed", "wordnet"}:
        what = "a model of embeddings" if "embed" in info.needs else "a WordNet database"
        return Choice(
            name, family, about, tuple(sorted(info.requires)), "", f"Needs {what}, which code alone can give.", None
        )
    try:
        [made] = resolve_evaluators([entry], draft.task, None, None, store)
    except (ValorError, ImportError) as error:
        return Choice(name, family, about, (), "", str(error), None)
    off = ""
    given = MEASURED if draft.target else frozenset()
    if outlook.fields is None:
        off = "Choose data first."
    elif not draft.target and made.requires & MEASURED - set(outlook.fields.sources):
        off = "Needs a target, whose answers are measured."
    elif lacking := outlook.fields.missing(made.requires - given):
        off = f"{', '.join(lacking)} is not mapped." if len(lacking) == 1 else f"{', '.join(lacking)} are not mapped."
    described = made.describe()
    low, high = described["low"], described["high"]
    scale = "" if low is None else f"{low:g} to {'no bound' if high is None else format(high, 'g')}"
    return Choice(name, family, about, tuple(sorted(made.requires)), scale, off, made)
