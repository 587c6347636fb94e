"""What a judged metric is: its steps are coroutines over ``ask``, which puts one question and gives its value."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from valor_gpu.errors import InputError
from valor_gpu.judge.metric import Ask, LLMMetric, Question
from valor_gpu.judge.parse import NotApplicable
from valor_gpu.judge.protocol import Schema
from valor_gpu.text.judged.prompts import Field, Prompts, load_prompts
from valor_gpu.text.judged.reading import read_texts, read_verdicts, texts_schema, verdicts_schema
from valor_gpu.text.judged.rules import TextRow, text_rules


class Empty(NamedTuple):
    """An input without anything in it, and the value that the metric has then; None: there is no number."""

    what: str
    value: float | None


class PromptedMetric(LLMMetric):
    """Base class of the judged metrics of text: the questions are made from prompt files.

    Args:
        prompts: the user's own, see :func:`~valor_gpu.text.judged.prompts.load_prompts`.
        compat: None, or the release of Valor whose rules apply: ``valor-api``, ``valor-core``, ``valor-lite``.
        raise_on_empty: an empty input is an error before anything is asked; None: as ``compat`` has it.

    Attributes:
        name: as Valor has it.
        low, high: least and greatest possible value.
        higher_is_better: whether a higher value is a better text.
        steps: names of the prompts, in their order.
        needs: fields of :class:`~valor_gpu.text.judged.rules.TextRow` that must be there.

    Raises:
        InputError: a preset or a prompt that cannot be.
    """

    higher_is_better: ClassVar[bool] = True
    steps: ClassVar[tuple[str, ...]]
    needs: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        prompts: Prompts | str | os.PathLike[str] | None = None,
        compat: str | None = None,
        raise_on_empty: bool | None = None,
    ) -> None:
        rules = text_rules(compat)
        self.rules = rules if raise_on_empty is None else replace(rules, raise_on_empty=raise_on_empty)
        loaded = load_prompts(prompts)
        self.prompts = {step: loaded[step] for step in self.steps}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(prompt.id for prompt in self.prompts.values())})"

    def empty(self, row: TextRow) -> Empty | None:
        """The first input of a row that has nothing in it; None when all have."""
        return None

    def check(self, row: TextRow, where: str = "row 0") -> None:
        """Raise :class:`InputError` for a row that lacks an input; ``where`` names it."""
        for name in self.needs:
            if getattr(row, name) is None:
                raise InputError(f"{self.name} needs {name} but {where} has none")
        found = self.empty(row)
        if found is not None and self.rules.raise_on_empty:
            raise InputError(f"{self.name} needs {found.what} but {where} has none")

    async def score(self, row: TextRow, ask: Ask) -> float:
        """The number of a row.

        Raises:
            InputError: the row lacks an input.
            NotApplicable: there is no number.
            FailedJudgement: a question got no value.
        """
        self.check(row)
        found = self.empty(row)
        if found is None:
            return await self._score(row, ask)
        if found.value is None:
            raise NotApplicable(f"{self.name} is not defined without {found.what}")
        return found.value

    @abstractmethod
    async def _score(self, row: TextRow, ask: Ask) -> float:
        """The number of a row that has all inputs."""

    async def _ask(self, ask: Ask, step: str, parse: Callable[[str], Any], schema: Schema, **data: Field) -> Any:
        prompt = self.prompts[step]
        return await ask(Question(prompt.messages(**data), parse, schema, prompt.id))

    async def _texts(self, ask: Ask, step: str, key: str, **data: Field) -> list[str]:
        """A list of texts: statements, opinions, claims."""
        found: list[str] = await self._ask(
            ask, step, lambda reply: read_texts(reply, key, self.rules.replies), texts_schema(key), **data
        )
        return found

    async def _verdicts(self, ask: Ask, step: str, count: int, allowed: Sequence[str], **data: Field) -> list[bool]:
        """Whether each of ``count`` verdicts is yes."""
        found = await self._ask(
            ask,
            step,
            lambda reply: read_verdicts(reply, count, allowed, self.rules.replies),
            verdicts_schema(allowed),
            **data,
        )
        return [verdict == "yes" for verdict in found]


def share(verdicts: Sequence[bool]) -> float:
    """Share of the verdicts that are yes; there is at least one."""
    return sum(verdicts) / len(verdicts)
