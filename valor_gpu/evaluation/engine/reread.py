"""Scores whose replies were read by an older grammar, read again before a run goes on. No torch."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.evaluation.engine.plan import Plan
from valor_gpu.evaluation.engine.scoring import with_baseline
from valor_gpu.evaluation.engine.work import OK, Work, stored_rows
from valor_gpu.evaluation.prompts.prompt_files import TemplateMetric
from valor_gpu.judge.metric import FailedJudgement, Question
from valor_gpu.judge.metrics.ratings import RatingMetric
from valor_gpu.judge.parse import GRAMMAR
from valor_gpu.judge.protocol import Judgement, Reply, Status, text_of
from valor_gpu.judge.requests import ways_to_send
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.store import Run, StoredScore
from valor_gpu.store.score_changes import withdraw_scores

REPLY = "reply"
"""Key of ``details`` that has the reply of a score, where it needs the grammar to be read."""
_AGAIN = "cancelled"  # a status that a resumed run asks again
_SHOWN = 5  # rows that a message names


class _NotKept(Exception):
    """The reply to a question is nowhere."""


@dataclass
class Reread:
    """Holds the outcome of reading replies again.

    Attributes:
        changed: scores that have another value now, or none, by evaluator.
        unknown: numbers of scores whose replies were not kept, by evaluator.
    """

    changed: dict[str, list[StoredScore]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def note(self) -> str:
        """Returns the words that the user is told; empty where every score holds."""
        found = []
        if self.changed:
            named = "; ".join(f"{name}: {_numbered(scores)}" for name, scores in self.changed.items())
            total = sum(map(len, self.changed.values()))
            found.append(f"scores that an older grammar read otherwise and that are made anew: {total} ({named})")
        if self.unknown:
            named = ", ".join(f"{name}: {count}" for name, count in self.unknown.items())
            found.append(
                "scores that an older grammar read, that stay, and whose replies were not kept:"
                f" {self.unknown.total()} ({named}); evaluate anew where they must be certain"
            )
        return "; ".join(found)


def _numbered(scores: list[StoredScore]) -> str:
    rows = sorted({score.row for score in scores})
    return f"{len(scores)} in rows {', '.join(map(str, rows[:_SHOWN]))}{', ...' if len(rows) > _SHOWN else ''}"


def kept_reply(tool: Any, text: str) -> dict[str, str]:
    """The part of a score's details that has its reply: empty for one that every grammar reads alike.

    Args:
        tool: the evaluator.
        text: the reply.

    Example:
        >>> kept_reply(RatingMetric("gpt_fluency"), '{"score": 4}'), kept_reply(RatingMetric("gpt_fluency"), "Score: 4")
        ({}, {'reply': 'Score: 4'})
    """
    if not _asks_once(tool):
        return {}
    try:
        plain = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        plain = False
    return {} if plain else {REPLY: text}


def _asks_once(tool: Any) -> bool:
    return isinstance(tool, (RatingMetric, TemplateMetric)) and tool.task == "qa"


def reread_scores(plan: Plan, run: Run, scheduler: Scheduler, tell: Callable[[str], None]) -> None:
    """Reads the replies of a run's scores again where an older grammar did, and withdraws values that do not hold.

    Args:
        plan: of the run; its judged evaluators are looked at.
        run: leased by this process.
        scheduler: with the file of replies.
        tell: gets what the user is to be told, before a value is withdrawn; not called where every score holds.
    """
    if run.config.get("grammar", 1) >= GRAMMAR:
        return
    with ThreadPoolExecutor(1) as thread:  # a loop may run in this one
        found: Reread = thread.submit(lambda: asyncio.run(_reread(plan, run, scheduler))).result()
    if note := found.note():
        tell(note)
    changed = [score for scores in found.changed.values() for score in scores]
    withdraw_scores(run, changed, _AGAIN, "an older grammar read the reply otherwise")


async def _reread(plan: Plan, run: Run, scheduler: Scheduler) -> Reread:
    found = Reread()
    tools = {each.name: each.tool for each in plan.judged}
    for work, score in _scores(run, tools):
        try:
            value = await _value(plan, work, tools[score.evaluator], score, scheduler)
        except _NotKept:
            found.unknown[score.evaluator] += 1
            continue
        if value != score.value:
            found.changed.setdefault(score.evaluator, []).append(score)
    return found


def _scores(run: Run, tools: Mapping[str, Any]) -> Iterator[tuple[Work, StoredScore]]:
    """The judged scores with a value, each with its row."""
    for work in stored_rows(run):
        if work.status != OK:
            continue
        for score in run.scores(first=work.number, last=work.number):
            if score.value is not None and score.evaluator in tools:
                yield work, score


def _cached(scheduler: Scheduler, question: Question, repeat: int) -> Reply:
    """The reply to a question, whatever parameters its request had to be sent without.

    Raises:
        _NotKept: the file of replies has none, or there is no file.
    """
    cache, identity = scheduler.cache, scheduler.judge.identity
    if cache is not None and identity is not None:
        for dropped in ways_to_send(identity, question.schema):
            if (reply := cache.get(scheduler.key(question, repeat, dropped))) is not None:
                return reply
    raise _NotKept


async def _value(plan: Plan, work: Work, tool: Any, score: StoredScore, scheduler: Scheduler) -> float | None:
    """The value that the kept replies give now; None when they give none.

    Raises:
        _NotKept: a reply is nowhere.
    """
    kept = (score.details or {}).get(REPLY)
    if isinstance(kept, str) and _asks_once(tool):
        try:
            return float(tool.read(kept))
        except Exception:  # whatever a reader makes of it, it is no value
            return None

    async def ask(question: Question) -> Any:
        reply = _cached(scheduler, question, score.repeat)
        try:
            return question.parse(reply if question.whole_reply else reply.text)
        except Exception as error:  # whatever a parser makes of it, it is no value
            raise FailedJudgement(Judgement(None, Status.PARSE_ERROR, reply, error=text_of(error))) from None

    if work.fields is None:
        with_baseline(plan, [work])
    try:
        return float(await tool.score(work.fields, ask))
    except _NotKept:
        raise
    except Exception:  # FailedJudgement, NotApplicable, or the metric's own code
        return None
