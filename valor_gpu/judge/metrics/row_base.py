"""Judged metrics of rows: one question a row, or one a turn of a conversation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from valor_gpu.checks import check_choice, check_type
from valor_gpu.digests import content_hash
from valor_gpu.errors import InputError
from valor_gpu.judge.limits import FATAL
from valor_gpu.judge.metric import Ask, FailedJudgement, LLMMetric, Question
from valor_gpu.judge.metrics.conversation import read_conversation
from valor_gpu.judge.metrics.fields import MISSING_FIELD, JudgedTexts, Row, row_texts
from valor_gpu.judge.metrics.prompts import RATING, Field, OwnPrompts, Prompt, load_prompts
from valor_gpu.judge.metrics.scores import JudgedScore, NoScore, failed_score, mean_of_scored
from valor_gpu.judge.protocol import Judgement, Status

TASKS = ("qa", "chat")
_ENDS_ROW = FATAL | {Status.CANCELLED}  # a resumed run asks such a row again
_INPUTS: Mapping[str, str] = {  # input of a prompt: field
    "question": "question",
    "answer": "answer",
    "contexts": "context",
    "documents": "context",
    "correct_answers": "ground_truth",
}


class RowMetric(LLMMetric):
    """Base of the judged metrics over rows, which are mappings from canonical fields to their values.

    With ``task="chat"`` a row has ``messages``, and perhaps ``context``, which belongs to all of its turns: every turn
    is scored, and the row has the mean of the turns that have a score. Turns without one are counted and say why; what
    ends the run (a rejected key, a used-up account, a cancellation, a stop) leaves the row without a score, so that a
    resumed run asks it again.

    Attributes:
        name: key of the metric in results.
        low, high: least and greatest value.
        higher_is_better: whether a higher value is a better row.
        task: ``qa`` or ``chat``.
        fields: fields that the judge gets of a row or a turn.
        needed: those of ``fields`` without which a row or a turn has no score.
        requires: fields that a row must have: ``needed``, or ``messages``.
    """

    higher_is_better = True

    def __init__(self, name: str, task: str, fields: frozenset[str], needed: frozenset[str]) -> None:
        check_choice("task", task, TASKS)
        self.name, self.task, self.fields, self.needed = name, task, fields, needed
        self.requires = needed if task == "qa" else frozenset({"messages"})

    @property
    def identity(self) -> Any:
        """What the numbers depend on besides the judge, as JSON."""
        return [type(self).__name__, self.name, self.task, self.low, self.high]

    @property
    def version(self) -> str:
        """Hash of :attr:`identity`, 16 hexadecimal digits."""
        return content_hash(self.identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, task={self.task!r})"

    @abstractmethod
    async def score_texts(self, texts: JudgedTexts, ask: Ask) -> JudgedScore:
        """Scores one row or turn that has all that is needed.

        Raises:
            NotApplicable: the judge says that there is nothing to score.
            FailedJudgement: from ``ask``.
        """

    def level(self, value: float) -> str:
        """Name of the level that a value lies in; empty for metrics without levels."""
        return ""

    async def score(self, row: Row, ask: Ask) -> JudgedScore:
        """Scores a row.

        Raises:
            NoScore: the row lacks a field, or holds something else than text in it.
            NotApplicable: the judge says that there is nothing to score.
            FailedJudgement: the judge gave no score.
        """
        check_type("row", row, Mapping)
        try:
            if self.task == "chat":
                if row.get("messages") is None:
                    raise InputError("missing messages")
                context = row.get("context") if "context" in self.fields else None
                conversation = read_conversation(row["messages"], context)
            else:
                texts = row_texts(row, self.fields)
        except InputError as error:
            raise NoScore(str(error)) from None
        if self.task == "chat":
            return await self._score_turns(conversation.turns, conversation.notes, ask)
        if missing := texts.missing(self.needed):
            raise NoScore(f"missing {', '.join(missing)}")
        return await self.score_texts(texts, ask)

    async def _score_turns(self, turns: tuple[JudgedTexts, ...], notes: tuple[str, ...], ask: Ask) -> JudgedScore:
        scores, failures = [], []
        for turn in turns:
            score, failure = await self._score_turn(turn, ask)
            scores.append(score)
            failures += [failure] if failure is not None else []
        mean, count = mean_of_scored(score.value for score in scores)
        details: dict[str, Any] = {
            "turns": [_shown(number, score) for number, score in enumerate(scores, 1)],
            "n_turns": len(scores),
            "n_scored": count,
            "notes": list(notes),
        }
        if count:
            return JudgedScore(mean, level=self.level(mean), details=details)
        reasons = "; ".join(dict.fromkeys(score.reason for score in scores)) or "the assistant says nothing"
        reason = f"no turn has a score: {reasons}"
        if failures:  # the row has the judge's status, so that it counts among its failures
            found = JudgedScore(None, str(failures[0].status), reason, details=details)
            raise FailedJudgement(replace(failures[0], error=reason, details=found))
        statuses = {score.status for score in scores}
        raise NoScore(reason, statuses.pop() if len(statuses) == 1 else MISSING_FIELD, details)

    async def _score_turn(self, turn: JudgedTexts, ask: Ask) -> tuple[JudgedScore, Judgement | None]:
        """The score of a turn, and the judgement that failed if one did."""
        if missing := turn.missing(self.needed):
            return JudgedScore(None, MISSING_FIELD, f"missing {', '.join(missing)}"), None
        try:
            return await self.score_texts(turn, ask), None
        except FailedJudgement as failed:
            never_asked = failed.judgement.attempts == 0 and failed.judgement.reply is None  # the run has stopped
            if failed.judgement.status in _ENDS_ROW or never_asked:
                raise
            return failed_score(failed.judgement), failed.judgement


def _shown(number: int, score: JudgedScore) -> dict[str, Any]:
    """A turn as JSON."""
    shown = {"turn": number, "score": score.value, "status": score.status, "reason": score.reason}
    return {**shown, **({"level": score.level} if score.level else {}), **(score.details or {})}


class PromptMetric(RowMetric):
    """A row metric whose questions are made from a prompt file.

    Args:
        name: key of the metric in results.
        task: ``qa`` or ``chat``.
        step: name of the prompt.
        fields: fields that the judge gets.
        needed: those of them that must be there.
        prompts: the user's own in place of the package's, see :func:`valor_gpu.text.judged.load_prompts`.

    Attributes:
        prompt: the :class:`~valor_gpu.text.judged.Prompt`.

    Raises:
        InputError: no such task, or a prompt that does not show the inputs of its step.
    """

    def __init__(
        self,
        name: str,
        task: str,
        step: str,
        fields: frozenset[str],
        needed: frozenset[str],
        prompts: OwnPrompts = None,
    ) -> None:
        super().__init__(name, task, fields, needed)
        self.prompt: Prompt = load_prompts(prompts, RATING)[step]

    @property
    def identity(self) -> Any:
        """Name, scale, and the prompt's version and hash."""
        return [*super().identity, self.prompt.id]

    def question(self, texts: JudgedTexts, parse: Any, schema: Any, **more: Field) -> Question:
        """The question about ``texts``: every input of the prompt in a fence, by ``more`` or by its field."""
        data = {name: more[name] if name in more else _input(texts, name) for name in self.prompt.fields}
        return self.prompt.question(parse, schema, **data)


def _input(texts: JudgedTexts, name: str) -> Field:
    """What a prompt shows in the place ``name``; a text that is missing is shown as none."""
    if name == "earlier_messages":
        return [f"{role}: {text}" for role, text in texts.history]
    found: str | tuple[str, ...] = getattr(texts, _INPUTS[name])
    return found or ()
