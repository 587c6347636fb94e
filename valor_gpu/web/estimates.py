"""What a run would ask and cost, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from valor_gpu.evaluation.engine.forecast import Forecast, forecast
from valor_gpu.evaluation.engine.plan import BASELINE_ANSWER, Plan
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.judge.protocol import Usage
from valor_gpu.store import Store
from valor_gpu.web.choices import MEASURED
from valor_gpu.web.counting import counts_of
from valor_gpu.web.planning import Outlook
from valor_gpu.web.prompts import prompts_of

CHARACTERS = 4.0
"""Characters of a token, about: of English in the vocabularies of current models."""
REPLY = 80
"""Tokens of a judge's reply, about: one or two sentences of a reason, then a number."""
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

    @property
    def all_calls(self) -> int:
        """Calls of the judge."""
        return sum(self.calls.values())


def estimate(outlook: Outlook, store: Store) -> Estimate | None:
    """Counts the calls of a plan, by counts of its data that the store keeps; None while there is no plan."""
    plan = outlook.plan
    if plan is None or plan.source is None:
        return None
    config = plan.config
    given = (MEASURED if plan.has_target else frozenset()) | ({BASELINE_ANSWER} if plan.fills_baseline else set())
    counts = counts_of(store, plan.source, plan.mapping, config.limit)
    expected = forecast(counts, plan.mapping, plan.evaluators, config.epochs, config.repeats, plan.has_target, given)
    tokens = _tokens(plan, expected) * outlook.runs
    calls = {name: n * outlook.runs for name, n in expected.judge.items()}
    replies = REPLY * sum(calls.values())
    cost = None if plan.prices is None else plan.prices.cost(Usage(prompt=tokens, completion=replies))
    return Estimate(
        expected.rows, calls, expected.target * outlook.runs, tokens, replies, cost if calls else 0.0, expected.missing,
        counts.n_unreadable, "" if plan.prices is None else plan.prices.currency,
    )  # fmt: skip


def _tokens(plan: Plan, expected: Forecast) -> int:
    """Tokens of all prompts, about: of the prompt itself and of the fields of the first rows that can be read."""
    assert plan.source is not None
    rows = [plan.mapping.values(row.values) for row in islice(plan.source, _SAMPLE) if not row.error]
    total = 0.0
    for each in plan.judged:
        info = EVALUATORS.get(each.name)
        prompts = [
            system + text for task, system, text in (prompts_of(info) if info else ()) if task == plan.config.task_type
        ]
        fixed = len(prompts[0]) if prompts else 2000
        texts = [sum(len(str(row.get(name) or "")) for name in each.requires) for row in rows]
        mean = sum(texts) / max(len(texts), 1)
        total += expected.judge[each.name] * (fixed + mean) / CHARACTERS
    return round(total)
