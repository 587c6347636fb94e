"""Base class of the judged metrics of text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.judge.metric import Ask, LLMMetric, Question
from valor_gpu.judge.metrics.prompts import Field, OwnPrompts, load_prompts
from valor_gpu.judge.metrics.reading import YES_NO, read_texts, read_verdicts, texts_schema, verdicts_schema
from valor_gpu.judge.metrics.rules import TextRow, text_rules
from valor_gpu.judge.parse import NotApplicable
from valor_gpu.judge.protocol import Schema


class Empty(NamedTuple):
    """An input without anything in it, and the value that the metric has then; None: there is no number."""

    what: str
    value: float | None


async def _known(value: float) -> float:
    return value


class PromptedMetric(LLMMetric):
    """Base class of the judged metrics of text: the questions are made from prompt files.

    Args:
        prompts: the user's own, see :func:`~valor_gpu.text.judged.load_prompts`.
        compat: None, or the release of Valor whose rules apply: ``valor-api``, ``valor-core``, ``valor-lite``.
        raise_on_empty: an empty input is an error before anything is asked; None: as ``compat`` has it.

    Attributes:
        name: as Valor has it.
        low, high: least and greatest possible value.
        higher_is_better: whether a higher value is a better text.
        steps: names of the prompts, in their order.
        needs: fields of :class:`~valor_gpu.text.judged.TextRow` that must be there.
        without: the field that may be empty, and the value that the metric has then.
        allowed: verdicts that the judge may give.

    Raises:
        InputError: a preset or a prompt that cannot be.
    """

    higher_is_better: ClassVar[bool] = True
    steps: ClassVar[tuple[str, ...]]
    needs: ClassVar[tuple[str, ...]]
    without: ClassVar[Empty | None] = None
    allowed: ClassVar[tuple[str, ...]] = YES_NO

    def __init__(
        self,
        prompts: OwnPrompts = None,
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
        return self.without if self.without is not None and not getattr(row, self.without.what) else None

    def check(self, row: TextRow, where: str = "row 0") -> None:
        """Raises :class:`InputError` for a row that lacks an input; ``where`` names it."""
        check_type(where, row, TextRow)
        for name in self.needs:
            if getattr(row, name) is None:
                raise InputError(f"{self.name} needs {name} but {where} has none")
        found = self.empty(row)
        if found is not None and self.rules.raise_on_empty:
            raise InputError(f"{self.name} needs {found.what} but {where} has none")

    def value_without_asking(self, row: TextRow) -> float | None:
        """The value of a row that has nothing to judge; None when the judge is to be asked.

        Raises:
            InputError: the row lacks an input.
            NotApplicable: there is no number.
        """
        self.check(row)
        found = self.empty(row)
        if found is not None and found.value is None:
            raise NotApplicable(f"{self.name} is not defined without {found.what}")
        return None if found is None else found.value

    def score(self, row: TextRow, ask: Ask) -> Coroutine[Any, Any, float]:
        """Returns the coroutine that computes the value of a row.

        Raises:
            InputError: the row lacks an input.
            NotApplicable: the row has no number.
            FailedJudgement: from ``ask``.
        """
        value = self.value_without_asking(row)
        return self._asked(row, ask) if value is None else _known(value)

    async def _asked(self, row: TextRow, ask: Ask) -> float:
        """Computes the value of a row that has something to judge."""
        raise NotImplementedError(f"{type(self).__name__} must define _asked or score")

    def question(self, step: str, parse: Callable[[str], Any], schema: Schema, **data: Field) -> Question:
        """Question of one step.

        Args:
            step: name of the prompt, one of ``steps``.
            parse: makes a value of the reply.
            schema: JSON schema of the reply.
            **data: inputs that the prompt shows.
        """
        return self.prompts[step].question(parse, schema, **data)

    def texts_question(self, step: str, key: str, **data: Field) -> Question:
        """Question whose value is a list of texts (statements, opinions, claims) under ``key`` of a JSON object."""
        return self.question(step, lambda reply: read_texts(reply, key, self.rules.replies), texts_schema(key), **data)

    def verdicts_question(self, step: str, count: int, allowed: Sequence[str], **data: Field) -> Question:
        """Question whose value is, for each of ``count`` things, whether its verdict (one of ``allowed``) is yes."""

        def parse(reply: str) -> list[bool]:
            return [verdict == "yes" for verdict in read_verdicts(reply, count, allowed, self.rules.replies)]

        return self.question(step, parse, verdicts_schema(allowed), **data)

    def _texts(self, ask: Ask, key: str, **data: Field) -> Awaitable[list[str]]:
        """Asks the first question, whose value is a list of texts."""
        return ask(self.texts_question(self.steps[0], key, **data))

    def _verdicts(self, ask: Ask, of: str, **data: Field) -> Awaitable[list[bool]]:
        """Asks the last question: whether the verdict on each of the texts ``data[of]`` is yes."""
        return ask(self.verdicts_question(self.steps[-1], len(data[of]), self.allowed, **data))

    async def _share(self, ask: Ask, of: str, **data: Field) -> float:
        """Asks the last question and computes the share of the verdicts that are yes; there is at least one."""
        verdicts = await self._verdicts(ask, of, **data)
        return sum(verdicts) / len(verdicts)
