"""Two versions of an evaluator on the same stored rows: what they say of each, and what they differ by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.base import Evaluator, Outcome
from valor_gpu.evaluation.evaluators.saved import FUNCTION, find_version, saved_evaluator
from valor_gpu.evaluation.judged import judged_outcome
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.rows.mapping import Mapping
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge import run_judge
from valor_gpu.judge.metric import LLMMetric
from valor_gpu.stats.paired import PairedDifference, compare_paired
from valor_gpu.store import Run, Store
from valor_gpu.web.library.trials import LIMITS, NO_CODE
from valor_gpu.web.registry import Registry, open_judge

ROWS = 20


@dataclass(frozen=True)
class Pair:
    """What both versions say of a row.

    Attributes:
        number: of the row.
        text: of its answer, cut.
        old: outcome of the first version.
        new: of the second one.
    """

    number: int
    text: str
    old: Outcome
    new: Outcome

    @property
    def difference(self) -> float | None:
        """New minus old, where both have a value."""
        return None if self.old.value is None or self.new.value is None else self.new.value - self.old.value


@dataclass(frozen=True)
class VersionTrial:
    """What two versions say of the same rows.

    Attributes:
        pairs: a row each, in their order.
        compared: mean difference with its interval.
        tokens: of prompts and of replies, of both versions.
        high: end of the scale; None without a bound.
    """

    pairs: list[Pair]
    compared: PairedDifference
    tokens: tuple[int, int] = (0, 0)
    high: float | None = None

    def mean(self, side: str) -> float | None:
        """Mean of ``old`` or ``new`` over the rows where both have a value."""
        values = [float(getattr(each, side).value) for each in self.pairs if each.difference is not None]
        return math.fsum(values) / len(values) if values else None

    @property
    def n_changed(self) -> int:
        """Rows whose values differ."""
        return sum(bool(each.difference) for each in self.pairs)


def try_versions(
    store: Store, name: str, numbers: tuple[int, int], run: Run, registry: Registry | None, judge: str
) -> VersionTrial:
    """Scores the first rows of a run by two versions of an evaluator.

    Args:
        store: with the library.
        name: of the evaluator.
        numbers: of the versions, the old one first.
        run: whose answered rows are scored.
        registry: of the server.
        judge: name of a registered judge, of judged versions.

    Raises:
        InputError: a version of code or that cannot be made; a judge that is not registered; a run without rows.
    """
    for number in numbers:
        if find_version(store, f"{name}@{number}").content.get("kind") == FUNCTION:
            raise InputError(str(NO_CODE["try_not"]))
    made = [saved_evaluator(store, f"{name}@{number}", run.config.get("task_type")) for number in numbers]
    stored = run.rows(0, ROWS, status="ok")
    if not stored:
        raise InputError(f"run {run.id} has no answered row")
    mapping = Mapping.from_dict(run.config.get("data_mapping") or {}, list(stored[0].inputs))
    rows = [{**row.inputs, **mapping.values(row.inputs, row.outputs)} for row in stored]
    secrets, tokens = Secrets(), [0, 0]
    sides = [_outcomes(each, rows, registry, judge, secrets, tokens) for each in made]
    pairs = [
        Pair(row.number, short(str(fields.get("answer") or fields.get("messages") or ""), 200), old, new)
        for row, fields, old, new in zip(stored, rows, *sides)
    ]
    values = [[math.nan if each.value is None else each.value for each in side] for side in sides]
    return VersionTrial(pairs, compare_paired(*values), (tokens[0], tokens[1]), made[1].high)


def _outcomes(
    made: Evaluator | LLMMetric,
    rows: Sequence[dict[str, Any]],
    registry: Registry | None,
    judge: str,
    secrets: Secrets,
    tokens: list[int],
) -> list[Outcome]:
    if isinstance(made, Evaluator):
        return list(made.score_rows(rows))
    run = run_judge(rows, [made], open_judge(registry, judge, secrets), limits=LIMITS)
    tokens[0] += run.usage.prompt
    tokens[1] += run.usage.completion
    found = [judged_outcome(repeats[0]) for repeats in run.judgements[made.name]]
    return [each._replace(reason=secrets.mask(each.reason)) for each in found]
