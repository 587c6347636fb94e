"""What the page says of each evaluator: a number, its interval, its n, what failed, and a chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.report.bounds import short, short_name, words
from valor_gpu.evaluation.report.distributions import Drawing, distribution
from valor_gpu.evaluation.results.people import PeopleAgreement, people_agreement
from valor_gpu.pages import numbers
from valor_gpu.pages.texts import Html
from valor_gpu.stats.agreement import Agreement
from valor_gpu.store import Run

FAMILIES = {
    "quality": "Quality",
    "safety": "Risk and safety",
    "pairwise": "Preference",
    "text": "Text comparison",
    "corpus": "Text comparison, all rows together",
    "check": "Checks",
    "retrieval": "Retrieval",
}
CUSTOM = "Custom"
_PLACES = {kind: place for place, kind in enumerate(FAMILIES)}
INTERVAL = "95% interval"
CAUSES = 20
"""Statuses of failed scores that a card names."""


@dataclass(frozen=True)
class Card:
    """An evaluator on the page; every attribute is text that is ready to be shown.

    Attributes:
        name: of the evaluator.
        what: it measures.
        value: the number.
        unit: what stands beside it: the scale, or the count of rows.
        between: its interval.
        chart: or None.
        scored: how many rows it rests on.
        failed: failures, each a count and a cause.
        lines: further numbers.
        left: how many rows have no score yet, of a run that has not come to its end; empty otherwise.
        whole_name: of the evaluator, as scores have it; ``name`` may be cut.
    """

    name: str
    what: str
    value: str
    unit: str
    between: str
    chart: Html | None
    scored: str
    failed: list[str]
    lines: list[str] = field(default_factory=list)
    left: str = ""
    whole_name: str = ""


def place_of(kind: Any) -> int:
    """The place of a kind of evaluators among the others: quality and safety come before what is computed."""
    return _PLACES.get(kind, len(_PLACES))


def families(
    run: Run, summary: Mapping[str, Any], most: int, drawing: Drawing | None = None, start: int = 0
) -> tuple[list[tuple[str, str, list[Card]]], int]:
    """The cards of a run by family: title, class of the figures, cards; and how many evaluators are left out.

    Args:
        run: the run.
        summary: of the run.
        most: at most so many cards.
        drawing: where charts read their counts and lead; by default the run, without links.
        start: evaluators before the first card.
    """
    evaluators = summary["evaluators"]
    shown = dict(list(evaluators.items())[start : start + most])
    severities = [facts["levels"].values() for facts in shown.values() if facts["kind"] == "safety"]
    scale = max((n for counts in severities for n in list(counts)[1:]), default=0)
    cards = []
    people = people_agreement(run, shown)
    is_whole = run.state == "finished"
    for name, facts in shown.items():
        card = _card(drawing or Drawing.of(run), name, facts, scale, is_whole)
        card.lines.extend(people_lines(people.get(name)))
        cards.append((str(facts["kind"]), card))
    return in_families(cards), len(evaluators) - len(shown)


def in_families(cards: Sequence[tuple[str, Card]]) -> list[tuple[str, str, list[Card]]]:
    """Cards by family: title, class of the figures, cards.

    Args:
        cards: each with the kind of its evaluator.
    """
    found: dict[str, list[Card]] = {}
    for kind, card in cards:
        found.setdefault(FAMILIES.get(kind, CUSTOM), []).append(card)
    order = [*dict.fromkeys(FAMILIES.values()), CUSTOM]
    return [
        (title, "severities" if title == FAMILIES["safety"] else "", found[title]) for title in order if title in found
    ]


def _card(drawing: Drawing, name: str, facts: Mapping[str, Any], scale: int, is_whole: bool) -> Card:
    value, unit, between = headline(facts)
    chart, beyond = distribution(drawing, name, facts, scale)
    lines = _lines(facts)
    if beyond:
        lines.append(f"{beyond:,} scores lie beyond the scale and are not drawn")
    known = EVALUATORS.get(name)
    scored = f"{facts['n']:,} scored"
    if facts["n_scores"] != facts["n"]:
        scored += f", {facts['n_scores']:,} scores"
    failed, left = failures(facts), f"{facts['n_not_judged']:,} not judged" if facts.get("n_not_judged") else ""
    if left and is_whole:
        failed, left = [*failed, left], ""
    what = known.summary if known else ""
    return Card(short_name(name), what, value, unit, between, chart, scored, failed, lines, left, name)


def headline(facts: Mapping[str, Any]) -> tuple[str, str, str]:
    """The number of an evaluator, what stands beside it, and its interval."""
    if facts["kind"] == "safety":
        rate, between = facts.get("defect_rate"), facts.get("defect_rate_interval")
        unit = f"defects, {facts.get('n_defects', 0):,} of {facts['n']:,} rows"
        return numbers.percent(rate), unit, _between(numbers.percent_span(*between) if between else "")
    decimals = numbers.decimals_of(facts["low"], facts["high"])
    unit = "" if facts["high"] is None else f"of {facts['high']:g}"
    if facts["pooled"]:
        return numbers.number(facts.get("value"), 3), unit, ""
    between = facts.get("interval")
    said = numbers.span(between[0], between[1], decimals) if between else ""
    return numbers.number(facts["mean"], decimals), unit, _between(said)


def _between(said: str) -> str:
    return f"{INTERVAL} {said}" if said else "no interval"


def _lines(facts: Mapping[str, Any]) -> list[str]:
    found = []
    if facts.get("pass_rate") is not None:
        between = facts.get("pass_rate_interval")
        said = f", 95% interval {numbers.percent_span(*between)}" if between else ""
        limit = f"{facts['direction']} {facts['threshold']:g}".replace(">=", "≥").replace("<=", "≤")
        found.append(
            f"{numbers.percent(facts['pass_rate'])} pass{said}: {facts['n_passed']:,} of {facts['n']:,} rows {limit}"
        )
    if facts["kind"] == "safety":
        found.append(f"defect from {facts.get('threshold')}; mean severity {numbers.number(facts['mean'])}")
    repeats = facts.get("repeats")
    if repeats and repeats.get("judge_deviation") is not None:
        found.append(
            f"judged {repeats['most']} times: the judge deviates by {numbers.number(repeats['judge_deviation'])}"
        )
    return found + _reasons(facts.get("reasons", {}))


def _reasons(reasons: Mapping[str, str]) -> list[str]:
    """Why numbers do not exist; those of one reason stand in one line.

    Example:
        >>> _reasons({"mean": "no row has a score", "standard_error": "no row has a score"})
        ['mean, standard error: no row has a score']
    """
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(short(reason, 200), []).append(name.replace("_", " "))
    return [f"{', '.join(found)}: {reason}" for reason, found in names.items()]


def people_lines(found: PeopleAgreement | None) -> list[str]:
    """Lines that say how far people agree with an evaluator."""
    if found is None:
        return []
    who = "one person" if found.n_people == 1 else f"{found.n_people:,} people"
    parts = [(f"scores of {who}", found.scores), (f"verdicts of {who}", found.verdicts)]
    return [_kappa(what, each) for what, each in parts if each is not None]


def _kappa(what: str, found: Agreement) -> str:
    missing = f", {found.n_missing:,} more of rows without a score" if found.n_missing else ""
    n = f"n = {found.n:,}{missing}, {found.n_equal:,} equal"
    if math.isnan(found.kappa):
        return f"agreement with {what}: no kappa, {found.reason} ({n})"
    said = found.reason if math.isnan(found.low) else f"{INTERVAL} {numbers.span(found.low, found.high, 2)}"
    return f"agreement with {what}: weighted kappa {numbers.number(found.kappa, 2)}, {said} ({n})"


def failures(facts: Mapping[str, Any]) -> list[str]:
    """Scores without a value, by cause."""
    return [f"{n:,} {words(status)}" for status, n in list(facts["n_failed"].items())[:CAUSES]]


def total_failures(evaluators: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Scores without a value over all evaluators, by status."""
    found: dict[str, int] = {}
    for facts in evaluators:
        for status, n in facts["n_failed"].items():
            found[status] = found.get(status, 0) + n
    return found
