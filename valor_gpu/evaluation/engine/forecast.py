"""What a run would ask: its rows and requests counted before it begins. No torch.

Example:
    >>> from valor_gpu.evaluation.rows.data import open_data
    >>> from valor_gpu.evaluation.rows.mapping import resolve_mapping
    >>> from valor_gpu.evaluation.engine.metrics import resolve_evaluators
    >>> source = open_data([{"answer": "4", "question": "2 + 2?"}, {"answer": None, "question": "3 + 3?"}])
    >>> mapping = resolve_mapping(None, source.columns)
    >>> counts = count_rows(source, mapping, None)
    >>> forecast(counts, mapping, resolve_evaluators(["gpt_coherence"]), 1, 3, has_target=False).judge
    {'gpt_coherence': 3}
"""

from __future__ import annotations

from collections.abc import Mapping as Fields
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from valor_gpu.evaluation.engine.metrics import RunEvaluator
from valor_gpu.evaluation.rows.data import DataSource
from valor_gpu.evaluation.rows.fields import MESSAGES
from valor_gpu.evaluation.rows.mapping import Mapping
from valor_gpu.judge.metrics.fields import is_blank_field

_ORDERS = {"pairwise": 2}  # requests for a judgement: two answers are shown in both orders


@dataclass
class Forecast:
    """Numbers of a run to come.

    Attributes:
        rows: of the data, within the limit.
        unreadable: errors of rows that cannot be read.
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


@dataclass
class RowCounts:
    """What counting needs to know of the rows of a data set under one mapping, whatever the evaluators.

    Attributes:
        rows: of the data, within the limit.
        n_unreadable: of them, rows that cannot be read.
        errors: of these; all of them, or the first where they come out of a store.
        lacking: fields that a row has no value for, and those with a text that shows nothing, which only judged metrics
            take for missing; with how many rows these are, and how many turns of the assistant they have.
    """

    rows: int = 0
    n_unreadable: int = 0
    errors: list[str] = field(default_factory=list)
    lacking: dict[tuple[frozenset[str], frozenset[str]], tuple[int, int]] = field(default_factory=dict)

    def to_dict(self, most_errors: int) -> dict[str, Any]:
        """The counts as JSON, with the first errors."""
        lacking = [[sorted(none), sorted(blank), *counts] for (none, blank), counts in self.lacking.items()]
        return {"rows": self.rows, "n_unreadable": self.n_unreadable, "errors": self.errors[:most_errors],
                "lacking": lacking}  # fmt: skip

    @classmethod
    def from_dict(cls, kept: Fields[str, Any]) -> RowCounts:
        """The counts that :meth:`to_dict` gave."""
        lacking = {(frozenset(none), frozenset(blank)): tuple(counts) for none, blank, *counts in kept["lacking"]}
        return cls(kept["rows"], kept["n_unreadable"], list(kept["errors"]), lacking)


def count_rows(source: DataSource, mapping: Mapping, limit: int | None, most_errors: int | None = None) -> RowCounts:
    """Reads the data once and counts.

    Args:
        source: the data.
        mapping: where fields come from.
        limit: number of rows; None for all.
        most_errors: of rows that cannot be read, that are kept; None for all.
    """
    found = RowCounts()
    for row in islice(source, limit):
        found.rows += 1
        if row.error:
            found.n_unreadable += 1
            if most_errors is None or len(found.errors) < most_errors:
                found.errors.append(row.error)
            continue
        fields = mapping.values(row.values)
        lacking = frozenset(name for name, value in fields.items() if value is None)
        blank = frozenset(name for name, value in fields.items() if value is not None and is_blank_field(name, value))
        turns = _turns(fields[MESSAGES]) if MESSAGES in fields and MESSAGES not in lacking else 0
        rows, all_turns = found.lacking.get((lacking, blank), (0, 0))
        found.lacking[lacking, blank] = rows + 1, all_turns + turns
    return found


def forecast(
    counts: RowCounts,
    mapping: Mapping,
    evaluators: Sequence[RunEvaluator],
    epochs: int,
    repeats: int,
    has_target: bool,
    given: frozenset[str] = frozenset(),
) -> Forecast:
    """Counts what a run asks; the data are not read.

    Args:
        counts: of the data, under the mapping.
        mapping: where fields come from.
        evaluators: of the run.
        epochs: times that the target answers.
        repeats: times that the judge is asked.
        has_target: whether answers come from a target.
        given: fields that the run itself gives.
    """
    found = Forecast(counts.rows, counts.errors, judge={each.name: 0 for each in evaluators if each.judged})
    own = {name for name, source_ in mapping.sources.items() if has_target and source_.root != "data"} | given
    for (lacking, blank), (rows, turns) in counts.lacking.items():
        found.target += rows * epochs if has_target else 0
        for each in evaluators:
            absent = lacking | blank if each.judged else lacking
            if any(name in absent or name not in mapping.sources for name in each.requires - own):
                found.missing[each.name] = found.missing.get(each.name, 0) + rows
            elif each.judged:  # of a conversation a request for each turn of the assistant
                asked = turns if MESSAGES in each.requires else rows
                found.judge[each.name] += asked * _ORDERS.get(each.kind, 1) * repeats * epochs
    return found


def _turns(messages: Any) -> int:
    from valor_gpu.judge.metrics.conversation import read_conversation

    try:
        return len(read_conversation(messages).turns)
    except ValueError:
        return 0
