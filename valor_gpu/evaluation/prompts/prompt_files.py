r"""Judged metrics out of prompt files: ``.prompty``, jinja2 templates, and texts. No torch.

Example:
    >>> from valor_gpu.judge import run_judge
    >>> polite = prompt_evaluator("Rate from 1 to 5 how polite this is, as JSON: {{ response }}", name="politeness")
    >>> sorted(polite.requires)
    ['answer']
    >>> run_judge([{"answer": "Please sit."}], [polite], lambda messages: '{"score": 4}').scores("politeness")
    [4.0]
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from valor_gpu.checks import check_choice, check_type, near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.prompts.prompty import PromptFile, read_prompt, scale_of
from valor_gpu.evaluation.rows._source_rows import plain_row
from valor_gpu.evaluation.rows.fields import field_of
from valor_gpu.judge.choices import read_choice
from valor_gpu.judge.json_text import find_object, with_keys
from valor_gpu.judge.metric import Ask, Question
from valor_gpu.judge.metrics.fields import JudgedTexts, Row, is_blank
from valor_gpu.judge.metrics.row_base import TASKS, RowMetric
from valor_gpu.judge.metrics.scores import JudgedScore, NoScore
from valor_gpu.judge.parse import NotApplicable, read_score

LOW, HIGH = 1.0, 5.0
"""The scale of a prompt that names none, that of Azure's quality metrics."""
_NUMBERS = ("int", "integer", "number", "float", "double")
_REASONS = ("reason", "explanation", "reasoning", "rationale", "justification", "chain_of_thought")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}")
_OF_TURN = {"question": "question", "answer": "answer", "context": "context", "history": "history"}
_LONGEST_REASON = 20_000  # characters


class TemplateMetric(RowMetric):
    """A judged metric whose question is a template; :func:`prompt_evaluator` makes it.

    Attributes:
        file: the prompt and what its front matter says.
        variables: variable of the template to the field of the row that fills it.
        notes: what the prompt's file says and nothing reads.
        options: what :func:`prompt_evaluator` was given beside the prompt, for the library.
    """

    def __init__(
        self, name: str, file: PromptFile, task: str, variables: Mapping[str, str], options: Mapping[str, Any]
    ) -> None:
        self.file, self.variables = file, dict(variables)
        self.options = plain_row("a prompt", {key: value for key, value in options.items() if value is not None})
        needed = frozenset(field for variable, field in variables.items() if variable not in file.defaults)
        if task == "chat":
            self._check_turn(variables)
            needed -= {"history"}  # the first turn has none
        super().__init__(name, task, frozenset(variables.values()), needed)
        rules = {**file.rules, **self.options}
        self.choices = _choices(rules.get("choices"))
        self.low, self.high = _scale(rules.get("scale"), self.choices)
        better = rules.get("higher_is_better", True)
        check_type("higher_is_better", better, bool)
        self.higher_is_better = better
        self.whole = self.low == int(self.low) and self.high == int(self.high) and not rules.get("fractions", False)
        self.key = _score_key(file.outputs)
        self.notes = file.notes

    @staticmethod
    def _check_turn(variables: Mapping[str, str]) -> None:
        for variable, field in variables.items():
            if field not in _OF_TURN:
                raise InputError(f"a prompt for turns of a chat must show {', '.join(_OF_TURN)} but shows {variable!r}")

    @property
    def prompt(self) -> str:
        """The text of the file."""
        return self.file.text

    @property
    def identity(self) -> Any:
        """Name, scale, the whole text of the file, and the options."""
        return [*super().identity, self.file.text, self.variables, self.choices, self.whole, self.key]

    async def score(self, row: Row, ask: Ask) -> JudgedScore:
        """Scores a row.

        Raises:
            NoScore: the row lacks a field.
            NotApplicable: the judge says that there is nothing to score.
            FailedJudgement: the judge gave no score.
        """
        if self.task == "chat":
            return await super().score(row, ask)
        check_type("row", row, Mapping)
        if missing := sorted(field for field in self.needed if _is_missing(row.get(field))):
            raise NoScore(f"missing {', '.join(missing)}")
        values = {variable: row.get(field) for variable, field in self.variables.items()}
        return await self._score_values(values, ask)

    async def score_texts(self, texts: JudgedTexts, ask: Ask) -> JudgedScore:
        """Scores a turn of a conversation."""
        values: dict[str, Any] = {variable: getattr(texts, field) for variable, field in self.variables.items()}
        for variable, value in values.items():
            if self.variables[variable] == "history":
                values[variable] = "\n".join(f"{role}: {text}" for role, text in value)
            elif isinstance(value, tuple):
                values[variable] = "\n\n".join(value)
        return await self._score_values(values, ask)

    async def _score_values(self, values: Mapping[str, Any], ask: Ask) -> JudgedScore:
        filled = {name: self.file.defaults.get(name) if _is_missing(value) else value for name, value in values.items()}
        messages = self.file.template.messages(plain_row("the row", filled))
        found: JudgedScore = await ask(Question(messages, self.read, prompt=self.version))
        return found

    def read(self, reply: str) -> JudgedScore:
        """Reads the judge's reply.

        Raises:
            ParseError: it has no score on the scale.
            NotApplicable: it says that there is nothing to score.
        """
        key, found = self._object(reply)
        reason = next((found[name] for name in _REASONS if isinstance(found.get(name), str)), "")
        value, level = self._read_choice(reply, key) if self.choices else (self._read_number(reply, key), "")
        rest = {name: said for name, said in found.items() if name not in (key, "status", *_REASONS)}
        details = {"fields": plain_row("the reply", rest)} if rest else None
        return JudgedScore(value, reason=reason[:_LONGEST_REASON], level=level, details=details)

    def _object(self, reply: str) -> tuple[str, Mapping[str, Any]]:
        """The key of the score and the object; an object of one key has its score there, whatever it is called."""
        found = find_object(reply, self.key) or find_object(reply) or {}
        key = next(iter(found)) if len(found) == 1 else self.key
        return key, with_keys(found, _REASONS)

    def _read_number(self, reply: str, key: str) -> float:
        flags = (self.low, self.high) == (0.0, 1.0)
        return read_score(reply, self.low, self.high, {key: _REASONS}, whole=self.whole, flags=flags).value

    def _read_choice(self, reply: str, key: str) -> tuple[float, str]:
        found = read_choice(reply, key, tuple(self.choices))
        if found.value is None:
            raise NotApplicable(f"the judge did not score: {found.reason}")
        return self.choices[found.value], found.value


def prompt_evaluator(
    prompt: str | os.PathLike[str],
    *,
    name: str | None = None,
    scale: Any = None,
    choices: Mapping[str, float] | None = None,
    higher_is_better: bool | None = None,
    variables: Mapping[str, str] | None = None,
    task: str | None = None,
    fractions: bool | None = None,
) -> TemplateMetric:
    """Makes a judged metric of a prompt.

    A variable of the template is filled with the field of its name or of an alias (``response`` gets ``answer``); a row
    without one has no score, unless the front matter gives the input a ``default``. The score is the key ``score`` of a
    JSON object, or the only output of the front matter that is a number, or a rating in words such as ``Score: 4``.
    Further keys of the object are kept beside it, ``reason`` or ``explanation`` is the reason.

    Args:
        prompt: a file ``.prompty``, with a front matter, or one with a template alone; or the text itself.
        name: of the metric; None for that of the front matter, else of the file. It must not be one of the table of
            evaluators.
        scale: least and greatest score; None for ``scale`` of the front matter, else 1 and 5.
        choices: what the judge may answer in place of numbers, each with its score, ``{"pass": 1, "fail": 0}``.
        higher_is_better: None for what the front matter says, else True.
        variables: variable to the field, or column, that fills it, where it is not the one of its name.
        task: ``qa`` or, for a score of each turn, ``chat``; None for what the front matter says, else ``qa``.
        fractions: whether a score may lie between whole numbers.

    Raises:
        InputError: a file that cannot be read; a prompt that is none, or that shows nothing of the row; a name that is
            none.
        MissingExtraError: without jinja2 or pyyaml.
    """
    file = read_prompt(prompt)
    title = _name(file.name if name is None else name, made=name is None)
    if not file.template.variables:
        raise InputError(f"prompt {title!r} must show something of the row, as {{{{answer}}}}, but shows nothing")
    for unknown in (each for each in variables or () if each not in file.template.variables):
        near = near_names(unknown, file.template.variables)
        raise InputError(f"variables must be those of the prompt but it has no {unknown!r}{near}")
    fields = {each: _field(each, variables or {}) for each in sorted(file.template.variables)}
    chosen = task if task is not None else file.rules.get("task", "qa")
    check_choice("task", chosen, TASKS)
    options = {"scale": scale, "choices": choices, "higher_is_better": higher_is_better, "variables": variables}
    options["fractions"] = fractions
    return TemplateMetric(title, file, chosen, fields, options)


def prompt_for(prompt: str | os.PathLike[str], task: str | None, **parameters: Any) -> TemplateMetric:
    """The metric of a prompt in a run: that of turns in a chat, unless the prompt says ``task`` or shows other fields.

    Args:
        prompt: as of :func:`prompt_evaluator`.
        task: of the run.
        parameters: of :func:`prompt_evaluator`.

    Raises:
        InputError: as of :func:`prompt_evaluator`, or parameters that it does not have.
    """
    known = ("name", "scale", "choices", "higher_is_better", "variables", "task", "fractions")
    for name in parameters:
        if name not in known:
            raise InputError(f"parameters of a prompt must be of {', '.join(known[1:])} but have {name!r}")
    made = prompt_evaluator(prompt, **parameters)
    of_turn = made.fields <= _OF_TURN.keys() and "task" not in parameters and "task" not in made.file.rules
    return prompt_evaluator(prompt, **parameters, task=task) if task == "chat" and of_turn else made


def _name(text: Any, made: bool) -> str:
    """A metric's name; one of a front matter or a file becomes one by underscores."""
    found = re.sub(r"[^A-Za-z0-9_.-]+", "_", str(text).strip()).strip("_") if made else text
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise InputError(f"name must be letters, digits, '_', '.' and '-' but is {text!r}: give the evaluator a name")
    if found in EVALUATORS:
        raise InputError(f"name must differ from those of the table of evaluators but is {found!r}")
    return found


def _field(variable: str, variables: Mapping[str, str]) -> str:
    """The field that fills a variable."""
    given = variables.get(variable, variable)
    check_type(f"variables[{variable!r}]", given, str)
    plain = re.sub(r"^\$\{(?:data|target|run\.outputs)[.$](.+)\}$", r"\1", given)
    return field_of(plain) or plain


def _choices(given: Any) -> dict[str, float]:
    if given is None:
        return {}
    check_type("choices", given, Mapping)
    names = [str(name).casefold() for name in given]
    if len(given) < 2 or len(set(names)) < len(names):
        raise InputError(f"choices must be two or more names that differ but are {list(given)}")
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
            raise InputError(f"choices[{name!r}] must be a number but is {value!r}")
    return {str(name): float(value) for name, value in given.items()}


def _scale(given: Any, choices: Mapping[str, float]) -> tuple[float, float]:
    if given is not None:
        low, high = scale_of(given, "scale")
        if any(not low <= value <= high for value in choices.values()):
            raise InputError(f"choices must have scores on the scale {low:g} to {high:g} but have {dict(choices)}")
        return low, high
    if choices:
        if len(set(choices.values())) < 2:
            raise InputError(f"choices must have scores that differ but have {dict(choices)}")
        return min(choices.values()), max(choices.values())
    return LOW, HIGH


def _score_key(outputs: Mapping[str, str]) -> str:
    numbers = [name for name, kind in outputs.items() if kind.lower() in _NUMBERS]
    return numbers[0] if len(numbers) == 1 and "score" not in outputs else "score"


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, str) and is_blank(value))
        or (isinstance(value, (list, tuple)) and not value)
    )
