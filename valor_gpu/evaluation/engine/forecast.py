"""What a run would ask: its rows and requests counted before it begins. No torch.

Example:
    >>> from valor_gpu.evaluation.rows.data import open_data
    >>> from valor_gpu.evaluation.rows.mapping import resolve_mapping
    >>> from valor_gpu.evaluation.engine.metrics import resolve_evaluators
    >>> source = open_data([{"answer": "4", "question": "2 + 2?"}, {"answer": None, "question": "3 + 3?"}])
    >>> mapping = resolve_mapping(None, source.columns)
    >>> forecast(source, mapping, resolve_evaluators(["gpt_coherence"]), None, 1, 3, has_target=False).judge
    {'gpt_coherence': 3}
"""

from __future__ import annotations

from collections.abc import Mapping as Fields
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from valor_gpu.evaluation.engine.metrics import RunEvaluator
from valor_gpu.evaluation.evaluators.base import missing_fields
from valor_gpu.evaluation.rows.data import DataSource
from valor_gpu.evaluation.rows.fields import MESSAGES
from valor_gpu.evaluation.rows.mapping import Mapping

_ORDERS = {"pairwise": 2}  # requests for a judgement: two answers are shown in both orders


@dataclass
class Forecast:
    """Numbers of a run to come.

    Attributes:
        rows: of the data, within the limit.
        unreadable: rows that cannot be read, with the first errors.
        target: requests to the target.
        judge: requests to the judge, by evaluator; without repairs of replies and retries. With a target at most so
            many, since it may fail.
        missing: rows that lack a field, by evaluator; with a target those whose columns lack one.
    """

    rows: int = 0
    unreadable: list[str] = field(default_factory=list)
    target: int = 0
    judge: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)


def forecast(
    source: DataSource,
    mapping: Mapping,
    evaluators: Sequence[RunEvaluator],
    limit: int | None,
    epochs: int,
    repeats: int,
    has_target: bool,
    given: frozenset[str] = frozenset(),
) -> Forecast:
    """Reads the data once and counts.

    Args:
        source: the data.
        mapping: where fields come from.
        evaluators: of the run.
        limit: number of rows; None for all.
        epochs: times that the target answers.
        repeats: times that the judge is asked.
        has_target: whether answers come from a target.
        given: fields that the run itself gives.
    """
    found = Forecast(judge={each.name: 0 for each in evaluators if each.judged})
    own = {name for name, source_ in mapping.sources.items() if has_target and source_.root != "data"} | given
    for row in islice(source, limit):
        found.rows += 1
        if row.error:
            found.unreadable.append(row.error)
            continue
        found.target += epochs if has_target else 0
        fields = mapping.values(row.values)
        for each in evaluators:
            if missing_fields(fields, each.requires - own):
                found.missing[each.name] = found.missing.get(each.name, 0) + 1
            elif each.judged:
                found.judge[each.name] += _requests(each, fields) * repeats * epochs
    return found


def _requests(each: RunEvaluator, fields: Fields[str, Any]) -> int:
    """Requests of one judgement: of a conversation one for each turn of the assistant."""
    turns = _turns(fields.get(MESSAGES)) if MESSAGES in each.requires else 1
    return turns * _ORDERS.get(each.kind, 1)


def _turns(messages: Any) -> int:
    from valor_gpu.evaluation.judged.conversation import read_conversation

    try:
        return len(read_conversation(messages).turns)
    except ValueError:
        return 0
