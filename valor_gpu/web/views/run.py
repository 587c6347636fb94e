"""The page of a run: what it was made of, its numbers, its rows, and how to cancel and resume it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.responses import Response

from valor_gpu.errors import DamageError
from valor_gpu.evaluation.report.bounds import short, words
from valor_gpu.evaluation.report.cards import CAUSES, families, place_of, total_failures
from valor_gpu.evaluation.report.facts import run_facts
from valor_gpu.evaluation.results.common_errors import SHOWN
from valor_gpu.evaluation.results.summary import evaluator_infos, run_summary
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.pages import numbers
from valor_gpu.pages.charts import LEVELS
from valor_gpu.store import Run, StoredDataset
from valor_gpu.store.checksums import tell
from valor_gpu.store.progress import RunProgress, progress_of
from valor_gpu.store.runs import ENDED
from valor_gpu.store.saved import VISION
from valor_gpu.web.plain import plain_summary
from valor_gpu.web.processes import jobs
from valor_gpu.web.processes.live_run import POLL, REFRESH, live_parts, progress_now
from valor_gpu.web.render import address, page
from valor_gpu.web.routes import Ask, get, post, see
from valor_gpu.web.rows.conditions import TESTS, Wanted, whole
from valor_gpu.web.rows.opinion_forms import opinion_parts
from valor_gpu.web.rows.row_addresses import leads_on, of_selection
from valor_gpu.web.rows.run_rows import find_run, row_parts, thresholds_of
from valor_gpu.web.runs.figures import bar_link, drawing_of, facts_of_traces, failed_link, failure_groups
from valor_gpu.web.runs.saved_views import ROWS_VIEW, saved_views
from valor_gpu.web.runs.tags import about_parts, shown_tags
from valor_gpu.web.runs.tried import try_parts

FRESH = 4.0
"""Seconds for which the summary of a run that goes on is shown again."""
_CARDS, _CAUSES = 40, 12
"""Cards of a page, whose bars are links; causes of failures."""
_KEPT = 32
_SHOWN = {"metrics", "evaluators", "rows", "stopped", "passed"}
"""What the page reads of a summary; one that lacks any was given by other code, and is counted anew."""


def run(ask: Ask) -> Response:
    """The page of a run."""
    found = find_run(ask)
    if found.config.get("kind") in VISION:
        return see(f"/runs/{found.id}/vision")
    state = jobs.state_of(ask.studio.store, found)
    progress = progress_now(ask.studio.store, found) if state == "running" else None
    try:
        parts = _ended(ask, found, state) if progress is None else _going_on(ask, found, progress)
    except DamageError as error:
        parts = _uncounted(ask, found, error)
    facts, limits = parts.pop("about")
    if (moved := leads_on(ask, found, facts, limits)) is not None:
        return moved
    wanted = Wanted.read(ask.query, facts)
    follows = state == "running" and "still" not in ask.query
    return page(
        ask,
        "run.html",
        run=_head(found, state),
        cancelling=state == "running" and jobs.is_cancelling(ask.studio.store, found.id),
        is_target_only=bool(found.config.get("target")) and not found.config.get("evaluators"),
        levels=LEVELS,
        notes=[short(note, 2000) for note in found.config.get("notes") or ()],
        has_log=jobs.log_path(ask.studio.store, found.id).is_file(),
        poll=POLL if follows else None,
        refresh=REFRESH if follows and not ask.query.get("open") else None,
        tests=TESTS,
        wanted=wanted,
        label_path=of_selection(ask, f"/runs/{found.id}/label"),
        **try_parts(found, state),
        **about_parts(found),
        **opinion_parts(ask, evaluator_infos(found) if ask.query.get("open") else ()),
        views=saved_views(ask.studio.store, ROWS_VIEW, ask.query, facts),
        **row_parts(ask, found, facts, limits, wanted),
        **{"uncounted": "", **parts},
    )


def _uncounted(ask: Ask, found: Run, error: DamageError) -> dict[str, Any]:
    """What is shown of a run whose numbers cannot be counted, since a part of it is damaged: its rows alone."""
    tell(error, error.path)
    infos = evaluator_infos(found)
    return {
        "about": ({each["name"]: each for each in infos}, read_thresholds(found.config.get("thresholds"), infos)),
        **_NOTHING,
        "progress": None,
        "facts": [],
        "families": [],
        "card_pages": _card_pages(ask, 0, 0),
        "dataset": _kept_data(ask, found),
        "failed_link": failed_link(ask, {}),
        "uncounted": f"{error.place}: {error.what}",
    }


_NOTHING: Mapping[str, Any] = {
    **{"level": "", "failed": {}, "n_failed": 0, "n_scores": 0, "n_unanswered": 0, "causes": [], "more_causes": []},
    **{"stopped": None, "left": "", "passed": None},
}
"""Parts of the page that are counted when the run ends."""


def _going_on(ask: Ask, found: Run, progress: RunProgress) -> dict[str, Any]:
    """What is shown of a run that goes on, from what its process says of it: no score is counted."""
    infos, dataset = evaluator_infos(found), _kept_data(ask, found)
    limits = read_thresholds(found.config.get("thresholds"), infos)
    facts = {each["name"]: each for each in sorted(infos, key=lambda each: place_of(each["kind"]))}
    start, name = _first_card(ask, len(facts)), dataset.name if dataset else ""
    failed = {name: [status for status, n in (each.get("failed") or {}).items() if n]
              for name, each in progress.evaluators.items()}  # fmt: skip
    return {
        "about": (facts, limits),
        **live_parts(found, progress, list(facts.values())[start : start + _CARDS], limits, name, bar_link(ask)),
        "card_pages": _card_pages(ask, start, len(facts)),
        "dataset": dataset,
        **_NOTHING,
        "failed_link": failed_link(ask, failed),
    }


def _ended(ask: Ask, found: Run, state: str) -> dict[str, Any]:
    """What is shown of a run that nobody works on, from its summary."""
    thresholds = thresholds_of(ask, found)
    summary = summary_of(ask, found, state, thresholds)
    facts = dict(sorted(summary["evaluators"].items(), key=lambda each: place_of(each[1]["kind"])))
    in_order, start = {**summary, "evaluators": facts}, _first_card(ask, len(facts))
    cards, _ = families(found, in_order, _CARDS, drawing_of(ask, found), start)
    failed = total_failures(list(facts.values()))
    causes, dataset = failure_groups(ask, found, _CAUSES), _kept_data(ask, found)
    return {
        "about": (facts, read_thresholds(thresholds or found.config.get("thresholds"), evaluator_infos(found))),
        "progress": None,
        "facts": [*run_facts(found, summary, dataset.name if dataset else ""), *facts_of_traces(ask, found)],
        "dataset": dataset,
        "families": cards,
        "card_pages": _card_pages(ask, start, len(facts)),
        "level": _level(facts),
        "failed": {words(status): n for status, n in failed.items()},
        "n_failed": sum(failed.values()),
        "n_scores": sum(each["n_scores"] + sum(each["n_failed"].values()) for each in facts.values()),
        "n_unanswered": sum(summary["rows"]["failed"].values()),
        "causes": causes[:SHOWN],
        "more_causes": causes[SHOWN:_CAUSES],
        "stopped": _why_stopped(ask, found, state, summary),
        "left": _what_is_left(found, state),
        "passed": summary["passed"],
        "failed_link": failed_link(ask, {name: list(each["n_failed"])[:CAUSES] for name, each in facts.items()}),
    }


def _first_card(ask: Ask, n: int) -> int:
    """Evaluators before the first card of the page, as the address says."""
    start = whole(ask.query.get("cards", "")) or 0
    return start // _CARDS * _CARDS if start < n else 0


def _card_pages(ask: Ask, start: int, n: int) -> dict[str, Any]:
    """Which cards the page has, of how many, and the addresses of those before and behind."""

    def to(place: int) -> str:
        return address(ask, cards=str(place) if place else None) + "#cards"

    return {
        "n": n,
        "first": start + 1,
        "last": min(start + _CARDS, n),
        "before": to(start - _CARDS) if start else None,
        "after": to(start + _CARDS) if start + _CARDS < n else None,
    }


def _what_is_left(found: Run, state: str) -> str:
    """How far a run came that may go on; empty where that is not known."""
    progress = progress_of(found)
    if state not in ("stopped", "failed") or progress is None or progress.total_rows is None:
        return ""
    done = f"{progress.done_rows:,} of {numbers.rows(progress.total_rows)} are done"
    return f"{done}; Resume goes on with the others." if progress.done_rows < progress.total_rows else ""


def _why_stopped(ask: Ask, found: Run, state: str, summary: Mapping[str, Any]) -> str | None:
    """Why a run ended early; what is said of its last end means nothing while it goes on again."""
    if state == "stopped" != found.state:
        return jobs.why_gone(ask.studio.store, found.id)
    return summary["stopped"] if state in ENDED else None


def _head(found: Run, state: str) -> dict[str, Any]:
    return {
        "id": found.id,
        "name": short(found.name) or "Evaluation",
        "state": state,
        "can_start": state == "draft" and "task_type" in found.config,  # made, and then something kept it from starting
        "tags": shown_tags(found.tags),
        "started": datetime.fromtimestamp(found.created).strftime("%d %b %Y, %H:%M"),
    }


def _kept_data(ask: Ask, found: Run) -> StoredDataset | None:
    """The run's data set in the store's list, which has its name: uploads are kept under names of ours."""
    digest = (found.config.get("data") or {}).get("hash")
    return next((each for each in ask.studio.store.datasets.list() if each.hash == digest), None)


def _level(facts: Mapping[str, Any]) -> str:
    """The level that counts as a defect, where all severities have one."""
    given = {str(each.get("threshold")) for each in facts.values() if each["kind"] == "safety"}
    return given.pop() if len(given) == 1 else ""


def summary_of(ask: Ask, found: Run, state: str, thresholds: Mapping[str, float | str] | None) -> dict[str, Any]:
    """The summary: of a run that has ended as it was stored, with other thresholds counted once and kept.

    One that goes on again, or whose process was killed then, still has the summary of its last end, which counts
    fewer rows than there are.
    """
    ended = ask.studio.store.finished_at(found)
    kept = found.finished_summary if thresholds is None and ended is not None else None
    if kept is not None and plain_summary(kept).keys() >= _SHOWN:
        return kept
    memory: dict[Any, tuple[float, dict[str, Any]]] = ask.studio.memory.setdefault("summaries", {})
    key = (found.id, state, ended, tuple(sorted((thresholds or {}).items())))
    made, summary = memory.get(key, (0.0, {}))
    if not summary or (ended is None and time.monotonic() - made > FRESH):
        summary = run_summary(found, thresholds=thresholds)
        memory[key] = (time.monotonic(), summary)
        while len(memory) > _KEPT:
            memory.pop(next(iter(memory)), None)
    return summary


def threshold(ask: Ask) -> Response:
    """Leads to the page with another threshold; nothing is judged."""
    found = find_run(ask)
    return see(f"/runs/{found.id}", level=ask.field("level"))


def cancel(ask: Ask) -> Response:
    """Ends a run soon."""
    found = find_run(ask)
    jobs.cancel(ask.studio.store, found)
    return see(f"/runs/{found.id}")


def resume(ask: Ask) -> Response:
    """Resumes a run in a process of its own."""
    found = find_run(ask)
    jobs.start(ask.studio.store, found.id)
    return see(f"/runs/{found.id}")


ROUTES = [
    get("/runs/{run}", run),
    post("/runs/{run}/threshold", threshold),
    post("/runs/{run}/cancel", cancel),
    post("/runs/{run}/resume", resume),
]
