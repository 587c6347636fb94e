"""Scores of rows: the fields that evaluators see, the computed ones, and how all of them are kept. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.engine.parts import Parts
from valor_gpu.evaluation.engine.plan import BASELINE_ANSWER, Plan
from valor_gpu.evaluation.engine.work import OK, PORTION, Work
from valor_gpu.evaluation.evaluators.base import EVALUATOR_ERROR, Evaluator, Outcome, score_portion
from valor_gpu.evaluation.rows.fields import names_of
from valor_gpu.evaluation.rows.mapping import Mapping as Fields
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.store import Run, StoredRow, StoredScore, StoredTrace
from valor_gpu.store.traces import TraceBase

LONGEST_PORTION = 1 << 24  # characters
_MEASURED = {"_seconds": "seconds", "_cost": "cost"}


def row_fields(plan: Plan, work: Work) -> dict[str, Any]:
    """What evaluators see of a row: fields, what was measured, and for the user's own all columns and outputs."""
    outputs = work.outputs if plan.has_target else {}
    fields = plan.mapping.values(work.inputs, outputs)
    measured = {name: outputs.get(kept) for kept, name in _MEASURED.items()} if outputs else {}
    if plan.sees_fields_alone:
        return {**fields, **measured}
    returned = {name: value for name, value in outputs.items() if name not in ("_seconds", "_cost", "_usage")}
    return {**work.inputs, **returned, **measured, **fields}


def with_baseline(plan: Plan, works: Sequence[Work]) -> None:
    """Makes the fields of rows, with the answers that the baseline has under their keys."""
    found: Mapping[str, StoredRow] = {}
    if plan.fills_baseline and plan.baseline is not None:
        keys = {key for work in works for key in (work.key, _first_key(work, plan))}
        found = {row.key: row for row in plan.baseline.rows(keys=sorted(keys))}
    for work in works:
        fields = row_fields(plan, work)
        if plan.fills_baseline:
            row = found.get(work.key, found.get(_first_key(work, plan)))
            fields[BASELINE_ANSWER] = None if row is None else _answer_of(row, plan)
        work.fields = fields


def _first_key(work: Work, plan: Plan) -> str:
    """Key of the row's first epoch: the baseline may have fewer epochs."""
    epoch = (work.number - 1) % plan.config.epochs + 1
    return work.key if epoch == 1 else work.key.removesuffix(f"@{epoch}")


def _answer_of(row: StoredRow, plan: Plan) -> Any:
    """The answer of a baseline's row: by its own mapping, as far as that is known, else by this run's."""
    mapping = Fields.from_dict(plan.baseline.config.get("data_mapping", {})) if plan.baseline else plan.mapping
    values = mapping.values(row.inputs, row.outputs)
    if values.get("answer") is not None:
        return values["answer"]
    named = names_of("answer", row.outputs) or names_of("answer", row.inputs)
    return {**row.inputs, **row.outputs}.get(named[0]) if len(named) == 1 else None


def score_computed(plan: Plan, works: Sequence[Work], parts: Parts) -> list[StoredScore]:
    """Scores of a portion of rows by the evaluators that compute; several where one returns several numbers."""
    tools = [each.tool for each in plan.computed if isinstance(each.tool, Evaluator)]
    works = [work for work in works if work.status == OK and any(parts.is_open(tool.name, work.done) for tool in tools)]
    tools = [tool for tool in tools if any(parts.is_open(tool.name, work.done) for work in works)]
    if not tools or not works:
        return []
    rows = [work.fields if work.fields is not None else row_fields(plan, work) for work in works]
    return [
        _score(work.number, part, each, plan.services.secrets)
        for name, outcomes in score_portion(tools, rows).items()
        for work, outcome in zip(works, outcomes)
        for part, each in parts.outcomes(name, outcome).items()
        if (part, 0) not in work.done
    ]


def _score(number: int, name: str, outcome: Outcome, secrets: Secrets) -> StoredScore:
    reason = (secrets.message if outcome.value is None else secrets.mask_known)(outcome.reason)
    details = secrets.mask_data(outcome.details)
    return StoredScore(number, name, 0, outcome.value, outcome.status, reason, outcome.level, details)


def keep_scores(
    run: Run, scores: Sequence[StoredScore], traces: Sequence[StoredTrace | TraceBase] = ()
) -> Sequence[StoredScore]:
    """Keeps scores and their traces in one transaction; one that the store cannot hold becomes a failure of its row.

    Returns:
        The scores as they are kept.
    """
    if not scores:
        return scores
    try:
        run.add_scores(scores, traces)
    except InputError:
        scores = [_storable(score) for score in scores]
        run.add_scores(scores, traces)
    return scores


def _storable(score: StoredScore) -> StoredScore:
    try:
        score.bound(0)
    except InputError as error:
        reason = f"the score cannot be stored: {error}"
        return replace(score, value=None, status=EVALUATOR_ERROR, reason=reason, level="", details=None)
    return score


def keep_rows(run: Run, works: Iterable[Work], traces: Sequence[StoredTrace | TraceBase] = ()) -> list[StoredRow]:
    """Keeps the rows that are not in the store and their traces, in one transaction, and returns the rows."""
    new = [work for work in works if not work.stored]
    rows = [work.row() for work in new]
    if rows:
        run.add_rows(rows, traces)
    for work in new:
        work.stored = True
    return rows


def size_of(work: Work) -> int:
    """Characters of a row's texts."""
    found = sum(len(value) for value in work.inputs.values() if isinstance(value, str))
    return found + sum(len(value) for value in work.outputs.values() if isinstance(value, str))


def portions(works: Iterable[Work]) -> Iterable[list[Work]]:
    """Rows in lists of at most :data:`PORTION`, fewer where their texts are long."""
    portion: list[Work] = []
    size = 0
    for work in works:
        portion.append(work)
        size += size_of(work)
        if len(portion) >= PORTION or size >= LONGEST_PORTION:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
