"""Trying an evaluator on one row that a form has: its fields, its judge and what it says."""

from __future__ import annotations

import json
from collections import abc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.evaluators.base import Evaluator, Outcome, evaluator
from valor_gpu.evaluation.evaluators.saved import FUNCTION, find_version, saved_evaluator
from valor_gpu.evaluation.evaluators.table import EvaluatorInfo
from valor_gpu.evaluation.judged import judged_metric, judged_outcome
from valor_gpu.evaluation.rows.mapping import Mapping
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge import Limits, run_judge
from valor_gpu.judge.metric import LLMMetric
from valor_gpu.store import Run, Store
from valor_gpu.web.registry import Registry, open_judge

LIMITS = Limits(timeout=60, transport_retries=1, longest_wait=5)
"""Of one row that somebody waits for: a server that does not answer is named soon."""
NO_CODE: dict[str, Any] = {
    "try_fields": [],
    "try_judged": False,
    "judges": [],
    "try_not": "It is code, which runs in the processes of evaluations and not in this server.",
}
_TEXTS = ("question", "answer", "baseline_answer")
"""Fields that are texts whatever they look like; others may be lists as JSON."""


@dataclass(frozen=True)
class Trial:
    """What an evaluator said of a row.

    Attributes:
        outcome: value, status and reason.
        high: end of the scale; None without a bound.
        reply: of the judge, as it came.
        seconds: that the judge took.
        tokens: of the prompt and of the reply.
    """

    outcome: Outcome
    high: float | None = None
    reply: str = ""
    seconds: float = 0.0
    tokens: tuple[int, int] | None = None


def make_evaluator(store: Store, name: str, info: EvaluatorInfo | None, number: int | None) -> Evaluator | LLMMetric:
    """The evaluator of a page.

    Raises:
        InputError: it cannot be made.
    """
    if info is not None:
        return judged_metric(name) if "judge" in info.needs else evaluator(name)
    return saved_evaluator(store, f"{name}@{number}")


def trial_parts(
    store: Store, registry: Registry | None, name: str, info: EvaluatorInfo | None, number: int | None
) -> dict[str, Any]:
    """What the form of a trial shows: fields, whether a judge is needed, and which ones there are; or why not."""
    none = {
        "try_fields": [],
        "try_judged": False,
        "judges": list(registry.judges) if registry is not None else [],
        "try_not": "",
    }
    if info is not None and "embed" in info.needs:
        return {**none, "try_not": "It needs embeddings, which a run is given by its configuration."}
    if info is None and find_version(store, f"{name}@{number}").content.get("kind") == FUNCTION:
        return NO_CODE
    try:
        made = make_evaluator(store, name, info, number)
    except (InputError, ImportError) as error:
        return {**none, "try_not": str(error)}
    needed: frozenset[str] = getattr(made, "requires", frozenset())
    shown: frozenset[str] = getattr(made, "fields", frozenset()) if "messages" not in needed else frozenset()
    fields = [(each, True) for each in sorted(needed)] + [(each, False) for each in sorted(shown - needed)]
    return {**none, "try_fields": fields, "try_judged": isinstance(made, LLMMetric)}


def try_on(made: Evaluator | LLMMetric, texts: abc.Mapping[str, str], registry: Registry | None, judge: str) -> Trial:
    """Scores one row.

    Args:
        made: the evaluator.
        texts: field to its text; empty ones are left out, and a list may be given as JSON.
        registry: of the server.
        judge: name of a registered judge, of a judged evaluator.

    Raises:
        InputError: a judge that is not registered or cannot be made; messages that are no JSON.
    """
    row = {name: _value(name, text) for name, text in texts.items() if text.strip()}
    if isinstance(made, Evaluator):
        return Trial(made.score_rows([row])[0], made.high)
    secrets = Secrets()
    run = run_judge([row], [made], open_judge(registry, judge, secrets), limits=LIMITS)
    found = run.judgements[made.name][0][0]
    outcome = judged_outcome(found)
    outcome = outcome._replace(reason=secrets.mask(outcome.reason))
    reply = "" if found.reply is None else secrets.mask(found.reply.text)
    return Trial(outcome, made.high, reply, run.seconds, (run.usage.prompt, run.usage.completion))


def _value(name: str, text: str) -> Any:
    if name in _TEXTS or (name != "messages" and not text.lstrip().startswith("[")):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if name != "messages":
            return text
        raise InputError(f"messages must be a list of messages as JSON but is none: {error}") from None
    return found


def stored_texts(run: Run, number: int, fields: Iterable[str]) -> dict[str, str] | None:
    """The fields of a stored row as texts for the form; None where the run has no such row."""
    row = next(iter(run.rows(numbers=[number])), None)
    if row is None:
        return None
    mapping = Mapping.from_dict(run.config.get("data_mapping") or {}, list(row.inputs))
    values = mapping.values(row.inputs, row.outputs)
    return {name: _shown(values.get(name)) for name in fields}


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def problem_of(error: Exception) -> str:
    """An error of a trial in words."""
    return str(error) if isinstance(error, (InputError, MissingExtraError)) else f"{type(error).__name__}: {error}"
