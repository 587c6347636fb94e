"""Whether a registered judge answers: asked about a row of ours, never one of the user."""

from __future__ import annotations

import math
from dataclasses import dataclass

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.evaluation.judged import judged_metric, judged_outcome
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge import Limits, run_judge
from valor_gpu.web.registry import Registry, open_judge

_ROW = {"question": "What is the capital of France?", "answer": "The capital of France is Paris."}
_LIMITS = Limits(timeout=30, transport_retries=0, longest_wait=2)


@dataclass(frozen=True)
class Connection:
    """What a test of a judge found.

    Attributes:
        is_good: whether it rated the row.
        text: for people, without secrets.
    """

    is_good: bool
    text: str


def connection_of(registry: Registry, name: str) -> Connection:
    """Asks a judge to rate one row."""
    if not name:
        return Connection(False, "Choose a judge first.")
    secrets = Secrets()
    try:
        judge = open_judge(registry, name, secrets)
        run = run_judge([_ROW], [judged_metric("gpt_coherence")], judge, limits=_LIMITS)
    except (InputError, MissingExtraError) as error:
        return Connection(False, secrets.message(str(error)))
    [[found]] = next(iter(run.judgements.values()))
    outcome = judged_outcome(found)
    if outcome.value is None or math.isnan(outcome.value):
        return Connection(False, secrets.message(f"No rating: {outcome.status}. {outcome.reason}", 500))
    return Connection(True, f"Answered in {run.seconds:.1f} s with a rating of {outcome.value:g} from 1 to 5.")
