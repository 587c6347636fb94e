"""The metrics of the wizard's table: which can be ticked, and why not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import ValorError
from valor_gpu.evaluation.engine.metrics import resolve_evaluators
from valor_gpu.evaluation.engine.plan import BASELINE_ANSWER
from valor_gpu.evaluation.evaluators.saved import evaluator_entry
from valor_gpu.evaluation.evaluators.table import EVALUATORS, EvaluatorInfo
from valor_gpu.store import Store
from valor_gpu.web.registry import Registry
from valor_gpu.web.wizard.drafts import Draft
from valor_gpu.web.wizard.planning import Outlook

MEASURED = frozenset({"seconds", "cost"})
"""Fields that a run with a target gives by itself."""
_ALWAYS = ("gpt_coherence", "gpt_fluency")
SUGGESTED = {
    "context": ("gpt_groundedness", "gpt_relevance", *_ALWAYS, "gpt_similarity", "f1_score"),
    "qa": (*_ALWAYS, "gpt_similarity", "f1_score"),
    "chat": ("gpt_groundedness", "gpt_relevance", "gpt_retrieval_score", *_ALWAYS),
}
"""Metrics of quality that a scenario begins with; the others are grouped below them."""
_MESSAGES = frozenset({"messages"})
"""What a metric of conversations reads, whatever it asks of a question and an answer."""
_GROUPS = {"text": "Text comparison", "corpus": "Text comparison", "check": "Checks", "retrieval": "Retrieval"}
_JUDGED = "More that a judge rates"


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
        group: title of the metrics it stands with; empty for those that come first.
    """

    name: str
    family: str
    about: str
    requires: tuple[str, ...]
    scale: str
    off: str
    group: str = ""


def choices(draft: Draft, outlook: Outlook, registry: Registry, store: Store) -> list[Choice]:
    """All metrics, those that the mapped columns do not allow with why."""
    own = [
        (each.name, f"{each.name}@{each.number}", evaluator_entry(each)["summary"]) for each in store.evaluators.list()
    ]
    code = [(name, (name, text), text) for name, text in registry.evaluators.items()]
    return [
        *(_builtin(draft, outlook, registry, info) for info in EVALUATORS.values()),
        *(_own(draft, outlook, store, *each) for each in (*own, *code)),
    ]


def _builtin(draft: Draft, outlook: Outlook, registry: Registry, info: EvaluatorInfo) -> Choice:
    low, high = info.low, info.high
    family = "safety" if info.kind == "safety" else "quality"
    requires = _MESSAGES if draft.task == "chat" and "chat" in info.tasks else info.requires
    off = _off(draft, outlook, requires)
    if draft.task not in info.tasks:
        off = "Scores questions and answers alone."
    elif "embed" in info.needs and not registry.embeddings:
        off = "Needs a model of embeddings: register one under embeddings."
    elif "wordnet" in info.needs and not registry.folders:
        off = "Needs a WordNet database: register its folder under folders."
    is_first = family == "safety" or info.name in SUGGESTED[draft.scenario]
    group = "" if is_first else _GROUPS.get(info.kind, _JUDGED)
    return Choice(info.name, family, info.summary, tuple(sorted(requires)), _scale(low, high), off, group)


def _own(draft: Draft, outlook: Outlook, store: Store, name: str, entry: Any, about: str) -> Choice:
    try:
        [made] = resolve_evaluators([entry], draft.task, None, None, store)
    except (ValorError, ImportError) as error:
        return Choice(name, "own", about, (), "", str(error))
    described = made.describe()
    off = _off(draft, outlook, made.requires)
    return Choice(name, "own", about, tuple(sorted(made.requires)), _scale(described["low"], described["high"]), off)


def _off(draft: Draft, outlook: Outlook, requires: frozenset[str]) -> str:
    """Why the data do not allow a metric; empty if they do."""
    given = MEASURED if draft.target else frozenset()
    if draft.baseline:
        given |= {BASELINE_ANSWER}
    if outlook.fields is None:
        return "Choose data first."
    if not draft.target and requires & MEASURED - set(outlook.fields.sources):
        return "Needs a target, whose answers are measured."
    if "cost" in requires and not outlook.tells_cost:
        return "Needs prices of the target: no answer has a cost without them."
    lacking = outlook.fields.missing(requires - given)
    if BASELINE_ANSWER in lacking:
        return "Needs a baseline run, or a column baseline_answer. Choose a baseline below."
    if lacking:
        return f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not mapped."
    return ""


def _scale(low: float | None, high: float | None) -> str:
    """The range of the values in words."""
    if low is None or not math.isfinite(low):
        return ""
    return f"{low:g} to {'no bound' if high is None or not math.isfinite(high) else format(high, 'g')}"
