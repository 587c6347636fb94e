"""Counts behind the figures of a run's page, read once of a finished run, and where their bars lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from valor_gpu.evaluation.report.distributions import Drawing
from valor_gpu.store import Histogram, Run
from valor_gpu.store.groups import FailureGroup, failed_rows, failed_scores
from valor_gpu.store.records import OK
from valor_gpu.web.render import address
from valor_gpu.web.routes import Ask
from valor_gpu.web.rows.conditions import Condition
from valor_gpu.web.rows.found_rows import kept
from valor_gpu.web.rows.traces import trace_facts


def drawing_of(ask: Ask, run: Run) -> Drawing:
    """Charts of a run's page: a bar leads to its rows, beside the conditions on other evaluators."""

    def counts(name: str, edges: Sequence[float]) -> Histogram:
        question = "histogram", name, tuple(edges)
        found: Histogram = kept(ask.studio, run, question, lambda: run.histogram(name, edges), _size)
        return found

    return Drawing(counts, bar_link(ask))


def bar_link(ask: Ask) -> Callable[[str, float, float], str]:
    """Makes the address of the rows behind a bar: those whose score of an evaluator lies between two ends."""

    def link(name: str, low: float, high: float) -> str:
        return rows_with(ask, Condition(name, "between", low, high))

    return link


def rows_with(ask: Ask, condition: Condition, **more: str) -> str:
    """The address of this page with a condition instead of others on the same evaluator."""
    left = [text for text in ask.query.getlist("if") if text and text.rsplit(":", 2)[0] != condition.metric]
    return address(ask, **{"if": [*left, condition.text], "at": None, "open": None, **more}) + "#rows"


def failed_link(ask: Ask, statuses: Mapping[str, Sequence[str]]) -> Callable[[str, int], str]:
    """Makes the address of the rows behind a cause on a card.

    Args:
        ask: for the page.
        statuses: of failed scores of each evaluator, in the order of its card.

    Returns:
        A function of an evaluator and the place of the cause: failed scores by status, then rows without a score.
    """

    def link(name: str, place: int) -> str:
        known = statuses.get(name, ())
        if place < len(known):
            return rows_with(ask, Condition(name, "failed", status=known[place]))
        return rows_with(ask, Condition(name, "unscored"), status=OK)

    return link


def failure_groups(ask: Ask, run: Run, most: int) -> list[FailureGroup]:
    """Failures of rows and of scores by cause, the most frequent ones first."""

    def find() -> list[FailureGroup]:
        found = [*failed_rows(run, most)[0], *failed_scores(run, most)[0]]
        return sorted(found, key=lambda each: -each.n)

    groups: list[FailureGroup] = kept(ask.studio, run, ("failures", most), find, len)
    return groups


def facts_of_traces(ask: Ask, run: Run) -> list[tuple[str, str]]:
    """What the page of a run says about its traces, as pairs of name and text."""
    found: list[tuple[str, str]] = kept(ask.studio, run, "traces", lambda: trace_facts(run), len)
    return found


def _size(found: Histogram) -> int:
    return 100 * len(found.counts)
