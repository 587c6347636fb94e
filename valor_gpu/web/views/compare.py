"""Runs beside a baseline: what differs in their settings, their numbers and their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from starlette.responses import Response

from valor_gpu.errors import InputError
from valor_gpu.evaluation.report.bounds import short
from valor_gpu.evaluation.report.compared_metrics import compared_metrics, scales_of
from valor_gpu.evaluation.report.rows import shown_text
from valor_gpu.evaluation.results.comparison import Comparison, compare_runs
from valor_gpu.evaluation.results.config_difference import config_leaves
from valor_gpu.evaluation.results.metric_comparison import MetricComparison
from valor_gpu.evaluation.rows.fields import ANSWER, QUESTION
from valor_gpu.pages import numbers
from valor_gpu.pages.comparison_table import comparison_table
from valor_gpu.pages.diff import word_diff
from valor_gpu.store import Run, StoredRow
from valor_gpu.web.book import Entry
from valor_gpu.web.plain import plain_config
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, missing
from valor_gpu.web.vision_compare import vision_numbers
from valor_gpu.web.vision_tests import vision_tests

MOST = 6
ROWS = 20
_KEPT = 24
_METRICS = 100
_LETTERS = "ABCDEF"


def compare(ask: Ask) -> Response:
    """The page of a comparison, or the choice of what to compare."""
    book = ask.studio.book
    entries = {each.head.id: each for each in book.entries()}
    wanted = list(dict.fromkeys(uid for text in ask.many("runs") for uid in text.split(",")))
    for uid in wanted:
        if uid not in entries:
            raise missing(f"There is no run {uid} in this store. It may have been deleted.")
    if len(wanted) > MOST:
        raise InputError(f"at most {MOST} runs can be compared at once, and {len(wanted)} were chosen")
    if len(wanted) < 2:
        return _choice(ask, entries, wanted)
    oldest = min(wanted, key=lambda uid: entries[uid].head.created)
    base = ask.query.get("baseline", "") if ask.query.get("baseline") in wanted else oldest
    order = [base, *(uid for uid in wanted if uid != base)]
    return _comparison(ask, [entries[uid] for uid in order])


def _choice(ask: Ask, entries: dict[str, Entry], wanted: Sequence[str]) -> Response:
    chosen = entries[wanted[0]] if wanted else None
    others = [each for each in entries.values() if each.head.state in ("finished", "stopped") and each is not chosen]
    if chosen is not None:
        others.sort(key=lambda each: each.head.dataset != chosen.head.dataset)
    same = {each.head.id for each in others if chosen and chosen.head.dataset == each.head.dataset != ""}
    rows = [(each.head.id, each.head.name or each.head.id, _where(each), each.head.id in same) for each in others[:100]]
    name = None if chosen is None else (chosen.head.id, chosen.head.name or chosen.head.id)
    return page(ask, "compare_choice.html", chosen=name, others=rows, more=max(len(others) - 100, 0))


def _where(entry: Entry) -> str:
    """What tells runs of one name apart: what was evaluated, on which data, and when."""
    return " · ".join(part for part in (entry.about, entry.data, entry.started) if part)


def _comparison(ask: Ask, entries: Sequence[Entry]) -> Response:
    runs = [ask.studio.store.run(each.head.id) for each in entries]
    for run in runs:
        run.config = plain_config(run.config)
    letters = dict(zip([run.id for run in runs], _LETTERS))
    shown = [{"id": run.id, "letter": letters[run.id], "name": short(run.name) or run.id} for run in runs]
    whole = vision_numbers(runs)
    marks = {each.head.id: (each.head.state, each.head.finished) for each in entries}
    tests = [] if whole is None else vision_tests(ask.studio, runs, letters, marks)
    everything = "all" in ask.query
    if whole is not None and not all(run.config.get("evaluators") for run in runs):
        why = "At least one of these results was saved without its images, so there is nothing to join."
        return page(ask, "compare_numbers.html", runs=shown, whole=whole, tests=tests, why=why,
                    settings=_settings(runs, (), everything))  # fmt: skip
    found = [_compared(ask, run, runs[0], entries) for run in runs[1:]]
    metric = ask.query.get("metric") or None
    shared = list(dict.fromkeys(name for each in found for name in each.metrics))
    if metric not in shared:
        metric = None
    return page(
        ask,
        "compare.html",
        runs=shown,
        whole=whole,
        tests=tests,
        what=_what(runs[0]) if whole is not None else "rows",
        settings=_settings(
            runs, {name for each in found for names in each.only_in.values() for name in names}, everything
        ),
        tables=[_table(each, letters, everything) for each in found],
        rows=_rows(found, metric, everything, letters),
        found=[{"letter": letters[each.run.id], "n": each.n, "differ": each.n_different(metric)} for each in found],
        jailbreak=[(letters[each.run.id], each.jailbreak) for each in found if each.jailbreak is not None],
        warnings=[(letters[each.run.id], text) for each in found for text in each.warnings],
        only=[(letters[each.run.id], each.only_in) for each in found if any(each.only_in.values())],
        metric=metric,
        shared=shared,
        everything=everything,
        most=ROWS,
    )


def _what(run: Run) -> str:
    """What the rows of a saved result are."""
    return "samples" if run.config.get("kind") == "classification" else "images"


def _compared(ask: Ask, run: Run, baseline: Run, entries: Sequence[Entry]) -> Comparison:
    """The comparison of two runs; one of runs that have ended is kept."""
    marks = {each.head.id: (each.head.state, each.head.finished) for each in entries}
    memory: dict[Any, Comparison] = ask.studio.memory.setdefault("comparisons", {})
    key = (run.id, marks[run.id], baseline.id, marks[baseline.id])
    if key in memory:
        return memory[key]
    found = compare_runs(run, baseline)
    if all(ended is not None for _, ended in (marks[run.id], marks[baseline.id])):
        memory[key] = found
        while len(memory) > _KEPT:
            memory.pop(next(iter(memory)), None)
    return found


def _settings(runs: Sequence[Run], absent: Collection[str], everything: bool) -> dict[str, Any]:
    """A table of settings and tags: a column each, the baseline first. Equal ones are counted.

    Args:
        runs: the baseline first.
        absent: metrics that some run lacks, which is said below the metrics.
        everything: whether equal ones are shown, too.
    """
    leaves = [dict(config_leaves(run.config)) | {f"tag {key}": text for key, text in run.tags.items()} for run in runs]
    lines, equal = [], 0
    for name in sorted({name for each in leaves for name in each}):
        values = [each.get(name) for each in leaves]
        is_equal = all(value == values[0] for value in values)
        equal += is_equal
        if is_equal and not everything:
            continue
        if not is_equal and name.partition(".")[0] in _OF_METRICS and name.partition(".")[2] in absent:
            continue
        lines.append((name, [_setting(value) for value in values]))
    return {"lines": lines, "equal": equal, "all": everything}


_OF_METRICS = ("evaluators", "thresholds")


def _setting(value: Any) -> str:
    return numbers.NOTHING if value is None else short(value)


def _table(found: Comparison, letters: dict[str, str], everything: bool) -> dict[str, Any]:
    """The metrics in which a run differs from the baseline, others counted."""
    metrics = list(found.metrics.values())
    shown = [each for each in metrics if everything or _differs(each)]
    infos = {each["name"]: each for each in found.run.config.get("evaluators") or ()}
    letter, base = letters[found.run.id], letters[found.baseline.id]
    rows = compared_metrics(shown, lambda each: each.name, scales_of(infos), found.confidence)
    label = f"Differences of {letter} from {base}"
    table = comparison_table(
        rows,
        label,
        names=(base, letter),
        heading="metric",
        p_name="p, Holm",
        confidence=found.confidence,
        most=_METRICS,
    )
    return {"letter": letter, "table": table if rows else None, "hidden": len(metrics) - len(shown)}


def _differs(found: MetricComparison) -> bool:
    return found.n_higher + found.n_lower > 0 or found.n_missing > 0 or found.n == 0


def _is_small(found: MetricComparison) -> bool:
    return max(abs(found.run or 0), abs(found.baseline or 0)) <= 1


def _rows(
    found: Sequence[Comparison], metric: str | None, everything: bool, letters: dict[str, str]
) -> list[dict[str, Any]]:
    """Rows that changed most in any of the runs, each with its numbers and texts in all of them."""
    lines: dict[str, dict[str, Any]] = {}
    for place, each in enumerate(found):
        for row in each.rows(metric, limit=ROWS, only_different=not everything):
            line = lines.setdefault(row["key"], {"key": row["key"], "sides": [None] * len(found), **_base(each, row)})
            line["sides"][place] = _side(each, row, line["answer"], metric, letters)
    return list(lines.values())[:ROWS]


def _base(found: Comparison, row: dict[str, Any]) -> dict[str, Any]:
    kept = StoredRow(1, row["key"], row["baseline_inputs"], row["baseline_outputs"])
    mapping = found.baseline.config.get("data_mapping") or {}
    question = shown_text(kept, QUESTION, mapping) or row["key"]
    return {"question": question, "answer": shown_text(kept, ANSWER, mapping), "number": (row["numbers"] or [None])[0]}


def _side(
    found: Comparison, row: dict[str, Any], base: str, metric: str | None, letters: dict[str, str]
) -> dict[str, Any]:
    kept = StoredRow(1, row["key"], row["inputs"], row["outputs"])
    answer = shown_text(kept, ANSWER, found.run.config.get("data_mapping") or {})
    changed = {name: each for name, each in row["metrics"].items() if each["difference"] and metric in (None, name)}
    return {
        "letter": letters[found.run.id],
        "run": found.run.id,
        "row": (row["numbers"] or [None])[0],
        "text": word_diff(base, answer) if answer != base else None,
        "changes": [
            (
                name,
                *_change(each, 3 if name in found.metrics and _is_small(found.metrics[name]) else 2),
            )
            for name, each in list(changed.items())[:8]
        ],
    }


def _change(found: dict[str, float | None], decimals: int) -> tuple[str, str, str]:
    numbers_of = numbers.number(found["baseline"], decimals), numbers.number(found["run"], decimals)
    return (*numbers_of, numbers.difference(found["difference"], decimals))


ROUTES = [get("/compare", compare)]
