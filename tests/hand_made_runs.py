"""Runs of an evaluation, written into a store by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from valor_gpu.evaluation.evaluators.base import EVALUATORS
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.runs import Run


def evaluator_config(name: str, **more: Any) -> dict[str, Any]:
    """An entry of ``run.config["evaluators"]``."""
    info = EVALUATORS.get(name)
    pooled = info is not None and info.kind == "corpus"
    found = {
        "name": name,
        "summary_name": name if pooled else f"mean_{name}",
        "kind": info.kind if info else "custom",
        "version": "1",
        "parameters": {},
        "low": info.low if info else 0.0,
        "high": info.high if info else 1.0,
        "higher_is_better": info.higher_is_better if info else True,
        "pooled": pooled,
        "needs_judge": info is not None and "judge" in info.needs,
        "source": "builtin" if info else "custom",
    }
    return {**found, **more}


def make_run(
    store: Store,
    evaluators: Iterable[str | Mapping[str, Any]],
    rows: Iterable[StoredRow],
    scores: Iterable[StoredScore],
    name: str = "capitals",
    state: str = "finished",
    **config: Any,
) -> Run:
    """A run of these rows and scores."""
    described = [evaluator_config(each) if isinstance(each, str) else dict(each) for each in evaluators]
    whole = {
        "version": 1,
        "evaluation_name": name,
        "task_type": "qa",
        "data": {"source": "capitals.jsonl", "hash": "d1", "columns": ["question"], "rows": None},
        "evaluators": described,
        "target": None,
        "judge": {"kind": "openai", "model": "m"},
        "repeats": 1,
        "epochs": 1,
        "thresholds": {},
        "slice_by": [],
        **config,
    }
    run = store.create_run(name, whole)
    run.add_rows(rows)
    run.add_scores(scores)
    if state != "draft":
        run.finish(state, {})
    return run


def make_rows(n: int, **columns: Any) -> list[StoredRow]:
    """Rows 1 to n; a column is a list of n values."""
    return [
        StoredRow(i + 1, f"k{i + 1}", {"question": f"q{i + 1}", **{name: of[i] for name, of in columns.items()}})
        for i in range(n)
    ]


def make_scores(name: str, values: Iterable[Any], repeat: int = 0, first: int = 1) -> list[StoredScore]:
    """Scores of the rows from ``first``; a text instead of a number is the status of a failure, None is no score."""
    return [
        StoredScore(row, name, repeat, None, value, f"why {row}")
        if isinstance(value, str)
        else StoredScore(row, name, repeat, float(value), reason=f"because {row}")
        for row, value in enumerate(values, first)
        if value is not None
    ]
