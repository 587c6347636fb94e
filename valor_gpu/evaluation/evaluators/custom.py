"""Evaluators of the user's own: functions, coroutine functions, and objects of classes with ``__call__``. No torch.

A function gets the fields that its parameters name and returns a number, True or False, a mapping, or None for no
number. Of a mapping ``value`` or ``score`` is the number; without them the only number is, and several are metrics of
their own. What it raises on a row is the outcome of that row alone.

Example:
    >>> from valor_gpu.evaluation.evaluators.custom import custom_evaluator
    >>> def brevity(answer, question=""):
    ...     return 1 / len(answer.split())
    >>> custom_evaluator(brevity).score_rows([{"answer": "two words"}, {"answer": ""}])[1]
    Outcome(value=None, status='evaluator_error', reason='ZeroDivisionError: division by zero')
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import math
import re
import threading
import tokenize
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from numbers import Real
from typing import Any

from valor_gpu.checks import check_number
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators._watched import Worker
from valor_gpu.evaluation.evaluators.base import (
    EVALUATOR_ERROR,
    OK,
    TIMEOUT,
    UNDEFINED,
    Evaluator,
    Outcome,
    Portion,
    Row,
    content_hash,
    number_outcome,
)
from valor_gpu.evaluation.evaluators.table import EVALUATORS, EvaluatorInfo
from valor_gpu.evaluation.rows._source_rows import own_values
from valor_gpu.evaluation.rows.fields import field_of
from valor_gpu.judge.held_loop import LoopUse, Steps, is_done, notices_of
from valor_gpu.judge.protocol import describe
from valor_gpu.judge.threads import interrupts_here, result_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_CONCURRENT = 32  # coroutines of a portion that run at once
_MOST_LATE = 5  # rows one after the other that take too long, each of which leaves a thread behind
_LONGEST = 2000  # characters of a message
_OUTCOME = ("value", "reason", "level")
_WORDS = ("reason", "level")
MOST_PARTS = 100
"""Numbers that an evaluator may return under keys of its own."""
TIMEOUT_SECONDS = 300.0
"""Time of a row, unless another one is given."""


class CustomEvaluator(Evaluator):
    """An evaluator of the user's own; :func:`custom_evaluator` makes it.

    Attributes:
        is_lambda: no other process can import the function, so that a run with it is resumed by this process alone and
            the library of evaluators does not save it.
        hashes_code: the version covers the code; False where the source cannot be read (compiled code, a function typed
            into ``python -c``): such a version is a hash of name and parameters alone.

    Args:
        info: name, fields and scale.
        call: takes keyword arguments.
        fields: parameter to the field that fills it.
        takes_all: whether it gets every other field, too.
        source: of the code, or an empty text where it cannot be read.
        parameters: what the code depends on beside the row; JSON.
        timeout: seconds of a row; None: any time, in the caller's thread.
    """

    def __init__(
        self,
        info: EvaluatorInfo,
        call: Callable[..., Any],
        fields: Mapping[str, str],
        source: str,
        parameters: Mapping[str, Any],
        timeout: float | None = TIMEOUT_SECONDS,
        takes_all: bool = False,
    ) -> None:
        super().__init__(info, {**parameters, "code": content_hash(source)})
        self._call, self._fields, self._timeout, self._takes_all = call, fields, timeout, takes_all
        self._late = 0  # rows in a row
        self.loop_use = LoopUse(f"evaluator {info.name}")
        self.is_lambda = getattr(call, "__name__", "") == "<lambda>"
        self.hashes_code = bool(source)

    def score_complete(self, portion: Portion, complete: Sequence[int]) -> list[Outcome]:
        """Calls the function for each row; coroutines of a portion run side by side, 32 at once."""
        rows = [self._arguments(portion.rows[i]) for i in complete]
        if _is_async(self._call):
            found: list[Outcome] = _run(self._score_together(rows))
            for notice in notices_of(self):
                warnings.warn(notice, UserWarning, stacklevel=2)
            return found
        return [self._score(row) for row in rows] if self._timeout is None else self._watched(rows, self._timeout)

    def _arguments(self, row: Row) -> dict[str, Any]:
        """Fields by parameter; lists and mappings are copies, for functions that change them."""
        fields = dict(self._fields)
        if self._takes_all:  # a field that a parameter has under another name is not given twice
            fields |= {str(name): name for name in row if name not in {*fields, *fields.values()}}
        return own_values({name: row[field] for name, field in fields.items() if row.get(field) is not None})

    def _score(self, arguments: Mapping[str, Any]) -> Outcome:
        try:
            return self._outcome(self._call(**arguments))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            return _failed(error)

    def _watched(self, rows: Sequence[Mapping[str, Any]], timeout: float) -> list[Outcome]:
        """Outcomes of rows, each within its time."""
        found: list[Outcome] = []
        while len(found) < len(rows) and self._late < _MOST_LATE:
            done = Worker(self._score, rows[len(found) :], timeout).results()
            self._late = 0 if done else self._late
            found += done
            if len(found) < len(rows):
                self._late += 1
                found.append(_too_late(timeout))
        reason = f"not called: {_MOST_LATE} rows one after the other took more than {timeout:g} s"
        return found + [Outcome(None, TIMEOUT, reason)] * (len(rows) - len(found))

    async def _score_together(self, rows: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        limit = asyncio.Semaphore(_CONCURRENT)

        async def score(arguments: Mapping[str, Any]) -> Outcome:
            async with limit:
                steps = Steps(self._attempt(arguments), self.loop_use)
                attempt = steps.task()
                done = await is_done(attempt, steps, self._timeout)
                attempt.cancel()  # nothing to one that is done
                return attempt.result() if done else _too_late(self._timeout)

        return list(await asyncio.gather(*map(score, rows)))

    async def _attempt(self, arguments: Mapping[str, Any]) -> Outcome:
        try:
            return self._outcome(await self._call(**arguments))
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            return _failed(error)

    def _outcome(self, returned: Any) -> Outcome:
        """The outcome that a returned object means."""
        if isinstance(returned, Outcome):
            if returned.value is None and returned.status != OK:
                return Outcome(None, str(returned.status), str(returned.reason))
            returned = {**(returned.details or {}), **{key: getattr(returned, key) for key in _OUTCOME}}
        if not isinstance(returned, Mapping):
            return self._number(returned)
        key = next((each for each in ("value", "score") if each in returned), None)
        if key is None:
            return self._parts({str(name): value for name, value in returned.items()})
        rest = {str(name): value for name, value in returned.items() if name != key}
        more: dict[str, Any] = {name: str(rest.pop(name)) for name in _WORDS if rest.get(name) is not None}
        return self._number(returned[key], **more, details=_json(rest))

    def _parts(self, returned: Mapping[str, Any]) -> Outcome:
        """The outcome of a mapping with numbers under keys of its own."""
        numbers = [name for name, value in returned.items() if _is_number(value)]
        if not numbers:
            if empty := [name for name, value in returned.items() if value is None]:
                return Outcome(
                    None, UNDEFINED, f"the evaluator returned None as {', '.join(map(repr, empty))}"[:_LONGEST]
                )
            raise InputError(
                f"a mapping must have a number, under 'value', 'score' or a key of its own, but has {list(returned)}"[
                    :_LONGEST
                ]
            )
        if len(numbers) > MOST_PARTS:
            raise InputError(f"a mapping must have at most {MOST_PARTS} numbers but has {len(numbers)}")
        parts = {name: self._part(name, numbers, returned) for name in numbers}
        if len(parts) == 1:
            [(name, only)] = parts.items()
            return only._replace(details={name: only.value, **(only.details or {})}, parts=parts)
        shown = ", ".join(f"{name} = {_shown(each)}" for name, each in parts.items())
        return Outcome(None, UNDEFINED, f"several numbers, each a metric of its own: {shown}"[:_LONGEST], parts=parts)

    def _part(self, name: str, numbers: Sequence[str], returned: Mapping[str, Any]) -> Outcome:
        """The outcome of one number; keys that begin with another number's name are details of that one alone."""
        mine = {
            key: value
            for key, value in returned.items()
            if key not in numbers
            and (key.startswith(f"{name}_") or not key.startswith(tuple(f"{n}_" for n in numbers)))
        }
        more: dict[str, Any] = {}
        for word in _WORDS:
            kept = [mine.pop(key) for key in (f"{name}_{word}", word) if mine.get(key) is not None]
            more |= {word: str(kept[0])} if kept else {}
        try:
            return self._number(returned[name], **more, details=_json(mine))
        except InputError as error:
            return _failed(error)

    def _number(self, returned: Any, **more: Any) -> Outcome:
        """The outcome of a number, or of None."""
        if getattr(returned, "ndim", None) == 0 and hasattr(returned, "item"):
            returned = returned.item()  # a number of numpy or torch
        if returned is None:
            return Outcome(None, UNDEFINED, more.pop("reason", "") or "the evaluator returned None", **more)
        if inspect.isawaitable(returned):
            getattr(returned, "close", lambda: None)()
            raise InputTypeError("it returned something to await: make it an async function")
        if not isinstance(returned, Real | Decimal):
            raise InputTypeError(f"it must return a number or None but returned {type(returned).__name__}")
        value = float(returned)
        if value < self.low or value > (math.inf if self.high is None else self.high):
            raise InputError(f"its value must be in [{self.low:g}, {self.high}] but is {value:g}")
        return number_outcome(value, **more) if math.isfinite(value) else number_outcome(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal) or (getattr(value, "ndim", None) == 0 and hasattr(value, "item"))


def _json(details: dict[str, Any]) -> dict[str, Any] | None:
    json.dumps(details, allow_nan=False)  # details are stored as strict JSON
    return details or None


def _shown(part: Outcome) -> str:
    return part.status if part.value is None else f"{part.value:g}"


def _failed(error: BaseException) -> Outcome:
    return Outcome(None, EVALUATOR_ERROR, describe(error)[:_LONGEST])


def _too_late(timeout: float | None) -> Outcome:
    return Outcome(None, TIMEOUT, f"the evaluator needed more than {timeout:g} s")


def custom_evaluator(
    function: Callable[..., Any],
    name: str | None = None,
    low: float = -math.inf,
    high: float = math.inf,
    higher_is_better: bool | None = True,
    parameters: Mapping[str, Any] | None = None,
    timeout: float | None = TIMEOUT_SECONDS,
) -> CustomEvaluator:
    """Makes an evaluator of a function, a coroutine function, an object with ``__call__`` or a class of such objects.

    A parameter is filled with the field of its name or of an alias (``response`` gets ``answer``). Those without a
    default are required: a row without one is not given to the function. Those with a default are given where the row
    has them; a parameter ``**fields``, whatever its name, gets every other field of the row.

    Numbers that it returns as ``{"words": 7, "signs": 31}`` are metrics of their own in a run, ``<name>.words`` and
    ``<name>.signs``; a mapping with one number is that number.

    A lambda needs ``name``, since it has none, and stays in its process: see ``is_lambda``.

    Args:
        function: what scores a row. A class is called without arguments, once.
        name: of the metric; None for that of the function. It must not be one of ``EVALUATORS``.
        low: least value; a value outside the scale is an error of its row.
        high: largest value.
        higher_is_better: None where neither is.
        parameters: what the function depends on beside the row, such as what an object was made with; JSON. They go
            into the version with the code.
        timeout: seconds of a row. A plain function runs in a thread of its own: one that is not done in time goes on
            there, nobody waits for it, and the next row is scored; after five such rows one after the other it is not
            called any more. A coroutine function is cancelled, unless it keeps its event loop from that. None: rows
            take any time, in the caller's thread.

    Raises:
        InputTypeError: ``function`` cannot be called.
        InputError: a name that is none, or that is taken; parameters that fields cannot fill.
    """
    if not callable(function):
        raise InputTypeError(f"evaluator must be a function, a class or an object but got {type(function).__name__}")
    title = _own_name(function) if name is None else name
    if not isinstance(title, str) or not _NAME.fullmatch(title):
        raise InputError(f"name must be letters, digits, '_', '.' and '-' but is {title!r}: give the evaluator a name")
    if title in EVALUATORS:
        raise InputError(
            f"name must differ from those of the table of evaluators but is {title!r}: give another one, as in"
            f" evaluators={{'my_{title}': ...}}"
        )
    check_number("low", low)
    check_number("high", high, low)
    if timeout is not None:
        check_number("timeout", timeout, 0.001, 86_400)
    call = _instance(function) if inspect.isclass(function) else function
    required, fields, takes_all = _fields_of(call)
    top = None if high == math.inf else high
    summary = (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")
    info = EvaluatorInfo(title, "custom", "", required, low, top, summary, higher_is_better)
    return CustomEvaluator(info, call, fields, source_of(function), parameters or {}, timeout, takes_all)


def _own_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "") or type(function).__name__


def _instance(kind: type) -> Callable[..., Any]:
    try:
        made = kind()
    except TypeError as error:
        raise InputError(
            f"evaluator {kind.__name__} must be made without arguments, or given as an object: {error}"
        ) from error
    if not callable(made):
        raise InputTypeError(f"objects of evaluator {kind.__name__} must have a method __call__")
    made_call: Callable[..., Any] = made
    return made_call


def _fields_of(call: Callable[..., Any]) -> tuple[frozenset[str], dict[str, str], bool]:
    """Required fields, the field of each parameter, and whether every other field is taken, too."""
    try:
        signature = inspect.signature(call)
    except ValueError as error:
        raise InputError(f"evaluator must have parameters with names: {error}") from None
    fields, required, every = {}, set(), False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise InputError(f"evaluator must take its parameters by name, but not so {name!r}")
        every |= parameter.kind is parameter.VAR_KEYWORD
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fields[name] = field_of(name) or name
            if parameter.default is parameter.empty:
                required.add(fields[name])
    if not fields and not every:
        raise InputError("evaluator must have a parameter, named as a field, but has none")
    return frozenset(required), fields, every


def source_of(function: Any) -> str:
    """The code, for its hash; of an object that of its class, of a ``functools.partial`` with the values that it binds.

    Of a value that is not JSON the type counts. Variables of enclosing functions do not: they may change at any time.
    """
    if isinstance(function, functools.partial):
        inner = source_of(function.func)
        return inner and inner + _values_of([function.args, function.keywords])
    named = inspect.isclass(function) or inspect.isroutine(function)
    try:
        return inspect.getsource(function if named else type(function))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # the last two: a file that is not the code's
        return ""


def _values_of(values: list[Any]) -> str:
    try:
        return json.dumps(values, sort_keys=True, default=lambda value: type(value).__name__)
    except (TypeError, ValueError):  # keys that are no texts
        return ""


def _is_async(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _run(coroutine: Coroutine[Any, Any, list[Outcome]]) -> list[Outcome]:
    """Runs a coroutine to its end; in a thread of its own where this one has a loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    thread = ThreadPoolExecutor(1)
    try:
        with interrupts_here():
            return result_of(thread.submit(asyncio.run, coroutine))
    finally:
        thread.shutdown(wait=False)  # after Ctrl-C nobody waits for the coroutine
