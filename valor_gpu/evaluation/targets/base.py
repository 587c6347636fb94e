"""What answers the questions of a data set: its answers, its failures and their time. No torch."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from valor_gpu.argument_docs import documented
from valor_gpu.checks import check_number, near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.base import content_hash
from valor_gpu.evaluation.rows._references import ColumnsError
from valor_gpu.evaluation.rows._source_rows import plain_row
from valor_gpu.evaluation.rows.columns import root_of, value_at
from valor_gpu.evaluation.rows.fields import ANSWER, MESSAGES, field_of, names_of
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.judge.held_loop import LoopUse, Steps, is_done
from valor_gpu.judge.metrics.messages import has_role
from valor_gpu.judge.protocol import JudgeError, Usage, describe
from valor_gpu.judge.returned import fields_in

OK, ERROR, TIMEOUT, FILTERED = "ok", "target_error", "timeout", "filtered"
RESERVED = ("_seconds", "_cost", "_usage")
"""Names of outputs under which a run keeps what an answer took."""
_COLUMN = re.compile(r"\s*(?:\$\{\s*data[.$](.{1,1000}?)\s*\}|([^${}]{1,1000}?))\s*", re.DOTALL)
_PATIENCE = 1.0  # seconds that a coroutine gets to end when it is cancelled


@dataclass(frozen=True)
class TargetAnswer:
    """What a target gave for one row.

    Attributes:
        outputs: name to value, strict JSON; empty where there is no answer.
        status: ``ok``, ``target_error``, ``timeout``, or ``filtered`` by the content filter of a model's server.
        error: why there is no answer, without secrets; empty where there is one.
        seconds: from the call to the answer. Of a reply of a server, those of the attempt that got it: waits for other
            rows and for a retry are no part of it.
        usage: tokens, where they are known.
        cost: of ``usage`` by the prices of the run, or what a function says; None where it is unknown.
    """

    outputs: Mapping[str, Any] = field(default_factory=dict)
    status: str = OK
    error: str = ""
    seconds: float = 0.0
    usage: Usage | None = None
    cost: float | None = None


class Target(ABC):
    """Base of targets.

    A subclass implements :meth:`_answer`; whatever that raises is the answer of its row alone.

    Attributes:
        name: shown in results.
        outputs: names that every answer has; empty where only answers tell.
        accepts: names of the parameters that the target takes; None where it takes all.
        requires: those of them that a row must have.
        tells_cost: whether answers may have a cost; False for a model without prices.
        loop_use: how long its calls held the event loop.
        version: hash of what decides the answers as far as it can be read: code, address, prompt, parameters.

    Args:
        name: shown in results.
        secrets: masked in messages, and in answers.
        timeout: seconds of an answer, waits and retries included; None for no limit.
        parameters: given to the target with every row, in place of columns of the same name.
    """

    outputs: tuple[str, ...] = ()
    accepts: frozenset[str] | None = None
    requires: frozenset[str] = frozenset()
    tells_cost: bool = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        documented(cls)

    def __init__(
        self, name: str, secrets: Secrets, timeout: float | None, parameters: Mapping[str, Any] | None = None
    ) -> None:
        if timeout is not None:
            check_number("timeout", timeout, 0.0)
            if not timeout > 0.0:
                raise InputError("timeout must be above 0 seconds but got 0")
        self.name, self.timeout = name, None if timeout is None or math.isinf(timeout) else float(timeout)
        self._secrets = secrets
        self._mapped: dict[str, str] = {}  # field to column
        self.parameters = plain_row("parameters", parameters or {})
        self.loop_use = LoopUse("")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def config(self) -> dict[str, Any]:
        """What :func:`target_from_config` makes the target of again, as JSON without secrets, and its version."""
        return {**self._described(), "version": self.version}

    @abstractmethod
    def _described(self) -> dict[str, Any]:
        """The configuration without the version."""

    @property
    def version(self) -> str:
        """16 hexadecimal digits."""
        return content_hash(self._described())

    @abstractmethod
    async def _answer(self, arguments: dict[str, Any]) -> Any:
        """What the target returns: a text, a mapping, messages, or a :class:`TargetAnswer`."""

    async def close(self) -> None:  # noqa: B027
        """Closes connections."""

    def map_columns(self, data_mapping: Mapping[str, str] | None, columns: Collection[str]) -> None:
        """Lets parameters that no column is named as be filled by what the data mapping says of their field.

        Args:
            data_mapping: field, or an alias, to ``${data.x}`` or the name of a column; others are not looked at.
            columns: of the data.
        """
        self._mapped = {}
        for name, reference in (data_mapping or {}).items():
            match = _COLUMN.fullmatch(reference) if isinstance(reference, str) and isinstance(name, str) else None
            column = "" if match is None else match[1] or match[2]
            if column in columns or root_of(column, columns) is not None:
                self._mapped[field_of(name) or name] = column

    def check_columns(self, columns: Collection[str]) -> None:
        """Raises :class:`InputError` unless the columns of the data, or the parameters, give all that is required."""
        there = {*columns, *self.parameters}
        missing = [name for name in sorted(self.requires) if self._source_of(name, there) is None]
        if missing:
            near = "".join(near_names(name, there) for name in missing[:1])
            shown = ", ".join(map(repr, sorted(columns)[:50]))
            named = ", ".join(map(repr, missing))
            raise ColumnsError(f"target {self.name} needs {named}, which no column gives{near}; columns: {shown}")

    def arguments_of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What the target gets of a row: the columns that it accepts, by their names or those of their field.

        A column without a value leaves the default of its parameter, and is None where there is none.
        """
        given = {**row, **self.parameters}
        if self.accepts is None:
            taken = {name: name for name in given}
        else:
            taken = {name: source for name in self.accepts if (source := self._source_of(name, given)) is not None}
        for name in self.requires - taken.keys():
            source = self._source_of(name, given)
            taken.update({} if source is None else {name: source})
        needed = self.requires if self.accepts is not None else given.keys() | self.requires
        values = {name: value_at(given, column) for name, column in taken.items()}
        return {name: value for name, value in values.items() if name in needed or value is not None}

    def _source_of(self, name: str, there: Collection[str]) -> str | None:
        """The column that fills a parameter: that of its name, the mapped one, or the only one of the same field."""
        if name in there:
            return name
        field_name = field_of(name)
        mapped = self._mapped.get(field_name or name)
        if mapped is not None and (mapped in there or root_of(mapped, there) is not None):
            return mapped
        named = [] if field_name is None else names_of(field_name, there)
        return named[0] if len(named) == 1 else None

    async def answer(self, arguments: Mapping[str, Any]) -> TargetAnswer:
        """The answer for a row, or why there is none. Only a cancellation, and Ctrl-C, raise.

        Args:
            arguments: the columns of the row by name; what the target does not accept is left out.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        steps = Steps(self._guarded(arguments), self.loop_use)
        task = steps.task()
        task.add_done_callback(_look_at)
        try:
            done = await is_done(task, steps, self.timeout)
        except asyncio.CancelledError:
            with contextlib.suppress(asyncio.CancelledError):
                await _cancel(task)
            raise
        if not done:
            await _cancel(task)
            answer = TargetAnswer(status=TIMEOUT, error=f"no answer within {self.timeout:g} s")
        elif task.cancelled():
            answer = TargetAnswer(status=ERROR, error="the target cancelled itself")
        else:
            answer = task.result()
            if self.timeout is not None and steps.held > self.timeout and answer.status == OK:
                error = f"no answer within {self.timeout:g} s: the call held the event loop for {steps.held:.3g} s"
                answer = TargetAnswer(status=TIMEOUT, error=error, seconds=answer.seconds)
        return answer if answer.seconds > 0.0 else replace(answer, seconds=loop.time() - start)

    async def _guarded(self, arguments: Mapping[str, Any]) -> TargetAnswer:
        """The answer, timed from the first step: before it, calls of other rows may have held the loop."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        answer = await self._caught(arguments)
        return answer if answer.seconds > 0.0 else replace(answer, seconds=loop.time() - start)

    async def _caught(self, arguments: Mapping[str, Any]) -> TargetAnswer:
        try:
            taken = self.arguments_of(arguments)
            if missing := sorted(self.requires - taken.keys()):
                return TargetAnswer(status=ERROR, error=f"the row has no {', '.join(missing)}")
            answer = answer_of(await self._answer(taken))
            return self._checked(answer)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except (InputError, JudgeError) as error:
            return TargetAnswer(status=ERROR, error=self._secrets.message(str(error)))
        except BaseException as error:  # of the user's code, exits included
            return TargetAnswer(status=ERROR, error=self._secrets.message(describe(error)))

    def _checked(self, answer: TargetAnswer) -> TargetAnswer:
        if answer.status != OK:
            return replace(answer, error=self._secrets.message(answer.error))
        if missing := [name for name in self.outputs if name not in answer.outputs]:
            raise InputError(f"the target must return {', '.join(missing)} but returned {_names(answer.outputs)}")
        return replace(answer, outputs=self._secrets.mask_data(answer.outputs))


def answer_of(returned: Any) -> TargetAnswer:
    """The answer that a returned object is.

    A text is the output ``answer``, a list of messages the output ``messages``; a mapping is outputs by name, and so
    are the fields of a dataclass, a pydantic model and a named tuple.

    Raises:
        InputError: something else, or a value that JSON cannot express.

    Example:
        >>> answer_of("Paris").outputs, answer_of({"answer": "Paris", "context": ["a", "b"]}).outputs
        ({'answer': 'Paris'}, {'answer': 'Paris', 'context': ['a', 'b']})
    """
    if isinstance(returned, TargetAnswer):
        return replace(returned, outputs=plain_row("the answer", returned.outputs))
    if isinstance(returned, str):
        return TargetAnswer({ANSWER: returned})
    if is_chat(returned):
        returned = {MESSAGES: list(returned)}
    if not isinstance(returned, Mapping) and (found := fields_in(returned)) is not None:
        returned = found
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise InputTypeError(f"the target must return a text or a dict of outputs but returned {kind}")
    if not returned:
        raise InputError("the target must return outputs but returned an empty dict")
    if taken := [name for name in RESERVED if name in returned]:
        raise InputError(f"the target must return other names than {', '.join(taken)}, which a run keeps for itself")
    return TargetAnswer(plain_row("the answer", returned))


def is_chat(value: Any) -> bool:
    """Whether a value is a list of messages, each a mapping with a role."""
    return isinstance(value, (list, tuple)) and bool(value) and all(map(has_role, value))


def _names(outputs: Mapping[str, Any]) -> str:
    return ", ".join(list(outputs)[:20]) or "nothing"


def _look_at(task: asyncio.Future[Any]) -> None:
    """Takes note of how a task ended, so that nothing about it is written to the log."""
    if not task.cancelled():
        task.exception()


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancels a task; one that goes on nevertheless is left to itself."""
    task.cancel()
    await asyncio.wait([task], timeout=_PATIENCE)
