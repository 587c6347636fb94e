"""What a run would ask and cost, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from valor_gpu.evaluation.engine.forecast import Forecast, forecast
from valor_gpu.evaluation.engine.plan import BASELINE_ANSWER, Plan
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.judge.protocol import Usage
from valor_gpu.store import StoredDataset
from valor_gpu.web.processes.readings import Reading
from valor_gpu.web.prompts import prompts_of
from valor_gpu.web.rows.traces import size_in_words
from valor_gpu.web.studio import Studio
from valor_gpu.web.wizard.choices import MEASURED
from valor_gpu.web.wizard.counting import counts_of
from valor_gpu.web.wizard.planning import Outlook

CHARACTERS = 4.0
"""Characters of a token, about: of English in the vocabularies of current models."""
REPLY = 80
"""Tokens of a judge's reply, about: one or two sentences of a reason, then a number."""
PACKED = 0.4
"""Bytes that a character of a row takes in the store as a part of a prompt, about: it is compressed there."""
KEPT = 150
"""Bytes that a prompt takes beside the texts of its row, about: all prompts of a metric share their other texts."""
_SAMPLE = 200


@dataclass(frozen=True)
class Estimate:
    """What a run would ask, before anything is spent.

    Attributes:
        rows: of the data; ``missing`` of them, by metric, lack a field.
        calls: of the judge, by metric.
        target_calls: of the target.
        tokens_in: of all calls of the judge, about.
        tokens_out: likewise of its replies.
        cost: None without prices.
        unreadable: rows that cannot be read.
        currency: of the cost, for people; may be empty.
        prompt_bytes: that the prompts would take in the store, about.
    """

    rows: int
    calls: Mapping[str, int]
    target_calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    missing: Mapping[str, int]
    unreadable: int
    currency: str = ""
    prompt_bytes: int = 0

    @property
    def all_calls(self) -> int:
        """Calls of the judge."""
        return sum(self.calls.values())

    @property
    def prompt_size(self) -> str:
        """Size of all prompts in the store, in words."""
        return size_in_words(self.prompt_bytes)


def estimate(outlook: Outlook, studio: Studio, dataset: StoredDataset | None) -> Estimate | Reading | None:
    """Counts the calls of a plan, by counts of its data that the store keeps.

    Args:
        outlook: with the plan.
        studio: whose store keeps the counts.
        dataset: of the plan.

    Returns:
        None while there is no plan; while a process counts the rows, how far it is.
    """
    plan = outlook.plan
    if plan is None or plan.source is None or dataset is None:
        return None
    config = plan.config
    given = (MEASURED if plan.has_target else frozenset()) | ({BASELINE_ANSWER} if plan.fills_baseline else set())
    counts = counts_of(studio, plan.source, plan.mapping, config.limit, dataset)
    if isinstance(counts, Reading):
        return counts
    expected = forecast(counts, plan.mapping, plan.evaluators, config.epochs, config.repeats, plan.has_target, given)
    characters, of_rows = (each * outlook.runs for each in _characters(plan, expected))
    tokens = round(characters / outlook.runs / CHARACTERS) * outlook.runs
    calls = {name: n * outlook.runs for name, n in expected.judge.items()}
    replies = REPLY * sum(calls.values())
    cost = None if plan.prices is None else plan.prices.cost(Usage(prompt=tokens, completion=replies))
    return Estimate(
        expected.rows, calls, expected.target * outlook.runs, tokens, replies, cost if calls else 0.0, expected.missing,
        counts.n_unreadable, "" if plan.prices is None else plan.prices.currency,
        round(of_rows * PACKED) + KEPT * sum(calls.values()),
    )  # fmt: skip


def _characters(plan: Plan, expected: Forecast) -> tuple[float, float]:
    """Characters of all prompts, about, by the first rows that can be read, and those that the rows are of them."""
    assert plan.source is not None
    rows = [plan.mapping.values(row.values) for row in islice(plan.source, _SAMPLE) if not row.error]
    total = of_rows = 0.0
    for each in plan.judged:
        info = EVALUATORS.get(each.name)
        prompts = [
            system + text for task, system, text in (prompts_of(info) if info else ()) if task == plan.config.task_type
        ]
        fixed = len(prompts[0]) if prompts else 2000
        texts = [sum(len(str(row.get(name) or "")) for name in each.requires) for row in rows]
        mean = sum(texts) / max(len(texts), 1)
        total += expected.judge[each.name] * (fixed + mean)
        of_rows += expected.judge[each.name] * mean
    return total, of_rows
