"""``valor-gpu eval run --dry-run``: everything is checked, nothing is asked or stored."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.eval.options import run_here, write_document
from valor_gpu.cli.options import reports

if TYPE_CHECKING:
    from valor_gpu.evaluation.engine.forecast import Forecast
    from valor_gpu.evaluation.engine.plan import Plan
    from valor_gpu.store import Store

_FROM_RUN = frozenset({"seconds", "cost"})  # fields that a run measures of its target


def show_plan(options: argparse.Namespace, arguments: Mapping[str, Any]) -> int:
    """Shows what a run with these arguments would do; returns the exit status."""
    from dataclasses import replace

    from valor_gpu.cli import OK
    from valor_gpu.evaluation.engine.plan import make_plan
    from valor_gpu.evaluation.engine.settings import Settings

    run_here()
    settings = Settings(**{name: value for name, value in arguments.items() if name != "store"})
    with _store(arguments.get("store")) as store, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are the notes of the plan
        grid = settings.grid()
        first = settings if grid is None else replace(settings, params_grid=None, parameters=grid[0])
        plan = make_plan(first, store)
    expected, runs = _forecast(plan), 1 if grid is None else len(grid)
    found = _document(plan, expected, runs)
    alone = write_document(options, "eval run", found)
    if reports(options) and not alone:
        print(_text(plan, expected, runs))
    return OK


@contextlib.contextmanager
def _store(path: Any) -> Iterator[Store]:
    """The store, which evaluators and a baseline may come from; an empty one that does not stay where there is none."""
    from valor_gpu.store import Store
    from valor_gpu.store.database import default_path

    place = Path(default_path() if path is None else path)
    with tempfile.TemporaryDirectory() as folder, Store(place if place.exists() else Path(folder) / "none") as store:
        yield store


def _forecast(plan: Plan) -> Forecast:
    from valor_gpu.evaluation.engine.forecast import count_rows, forecast

    config, source = plan.config, plan.source
    assert source is not None  # of a run that begins
    given = (_FROM_RUN if plan.has_target else frozenset()) | ({"baseline_answer"} if plan.fills_baseline else set())
    counts = count_rows(source, plan.mapping, config.limit)
    return forecast(counts, plan.mapping, plan.evaluators, config.epochs, config.repeats, plan.has_target, given)


def _document(plan: Plan, expected: Forecast, runs: int) -> dict[str, Any]:
    return {"dry_run": True, "runs": runs, "config": plan.config.to_dict(), "expected": asdict(expected)}


def _text(plan: Plan, expected: Forecast, runs: int) -> str:
    from valor_gpu.report.evaluation import origin_text
    from valor_gpu.report.text import failure_lines, plural, printable, table

    config = plan.config
    head = [["data", f"{config.data['source']}, {plural(expected.rows, 'row')}"], ["task", config.task_type]]
    head += [["target", origin_text(config.target)], ["judge", origin_text(config.judge)]]
    head += [["embeddings", origin_text(config.embedding)]] if config.embedding else []
    fields = [[field, reference] for field, reference in config.data_mapping.items()]
    metrics = [
        [each.name, each.kind, ", ".join(sorted(each.requires)),
         f"{expected.judge[each.name]:,}" if each.judged else "", f"{expected.missing.get(each.name, 0):,}"]
        for each in plan.evaluators
    ]  # fmt: skip
    parts = [table(["run", ""], head, left=2), table(["field", "comes from"], fields, left=2)]
    parts.append(table(["metric", "kind", "needs", "requests", "rows without"], metrics, left=3) if metrics
                 else "no metrics: the target's answers are stored")  # fmt: skip
    lines = [printable(f"note: {note}") for note in config.notes]
    lines += failure_lines("unreadable", expected.unreadable)
    requests = [plural(expected.target, "request") + " to the target"] if plan.has_target else []
    requests += [f"{plural(sum(expected.judge.values()), 'request')} to the judge"] if plan.judged else []
    times = f", {plural(runs, 'time')} over (--grid)" if runs > 1 else ""
    lines.append(f"at most {' and '.join(requests)}{times}, repairs of replies and retries apart" if requests
                 else "no requests")  # fmt: skip
    return "\n\n".join([*parts, "\n".join(lines)])
