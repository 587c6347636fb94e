"""Tables of evaluators: what is built in, and what a store has."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from valor_gpu.report.text import table

if TYPE_CHECKING:
    from valor_gpu.evaluation.evaluators.table import EvaluatorInfo
    from valor_gpu.store import EvaluatorVersion

_NEEDS = {"judge": "a judge", "embed": "a model of embeddings", "wordnet": "WordNet"}


def evaluator_table(infos: Iterable[EvaluatorInfo]) -> str:
    """One line per evaluator: kind, scale, the fields and what else it needs, what it measures."""
    rows = [
        [
            info.name,
            info.kind,
            scale_text(info.low, info.high, info.higher_is_better),
            ", ".join([*sorted(info.requires), *(_NEEDS.get(need, need) for need in sorted(info.needs))]),
            info.summary,
        ]
        for info in infos
    ]
    return table(["evaluator", "kind", "scale", "needs", "measures"], rows, left=5)


def scale_text(low: float | None, high: float | None, higher_is_better: bool | None) -> str:
    """Ends of a scale, and which of them is better.

    Example:
        >>> scale_text(0.0, 7.0, False), scale_text(0.0, None, None)
        ('0 to 7, lower is better', 'from 0')
    """
    ends = f"from {low:g}" if high is None and low is not None else f"{_end(low)} to {_end(high)}"
    return ends + ("" if higher_is_better in (None, True) else ", lower is better")


def _end(number: float | None) -> str:
    return "any" if number is None else f"{number:g}"


def evaluator_text(info: EvaluatorInfo) -> str:
    """All about one evaluator."""
    better = {True: "higher is better", False: "lower is better", None: "neither end is better"}
    needs = ", ".join(_NEEDS.get(need, need) for need in sorted(info.needs))
    rows = [
        ["measures", info.summary],
        ["kind", info.kind],
        ["scale", f"{scale_text(info.low, info.high, None)}, {better[info.higher_is_better]}"],
        ["fields", ", ".join(sorted(info.requires))],
        ["also needs", needs or "nothing"],
        ["tasks", ", ".join(sorted(info.tasks))],
        *([f"--param {info.name}.{name}=", text] for name, text in info.parameters.items()),
    ]
    return table([info.name, ""], rows, left=2)


def library_table(versions: Sequence[EvaluatorVersion]) -> str:
    """One line per evaluator of a store: its newest version."""
    rows = [[each.name, str(each.number), each.hash[:16], day_text(each.created), each.note] for each in versions]
    return table(["saved evaluator", "version", "hash", "saved", "note"], rows, left=5)


def day_text(seconds: float) -> str:
    """A time since 1970 as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
