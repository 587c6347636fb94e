"""Functions, coroutine functions and objects with ``__call__`` as targets. No torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.base import content_hash
from valor_gpu.evaluation.evaluators.objects import code_hash, origin_of
from valor_gpu.evaluation.rows._source_rows import own_values
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets.base import Target
from valor_gpu.judge.calls import begin_call, describe_target
from valor_gpu.judge.held_loop import LoopUse
from valor_gpu.judge.protocol import in_thread, is_coroutine

FROM_HERE = "it is no function of a module: pass target= again"


class FunctionTarget(Target):
    """A function that is called with the columns that its parameters name.

    A coroutine function runs in the event loop, any other in a thread of its own, so that calls run side by side: a
    function that cannot bear that is run with ``max_concurrency=1``. A thread that is not done at the timeout goes on
    to its end; its answer is not waited for. A coroutine function that holds the loop cannot be interrupted: a call
    that holds it for longer than the timeout is one when it is done, and a warning says so once.

    Args:
        function: a function, a coroutine function or an object with ``__call__``. An attribute ``outputs``, a sequence
            of names, declares what every answer has.
        origin: the name that it was given by, ``module:function``.

    Raises:
        InputError: a function whose parameters cannot be given by name, or that does not take one of ``parameters``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        secrets: Secrets,
        timeout: float | None,
        parameters: Mapping[str, Any] | None = None,
        origin: str | None = None,
    ) -> None:
        if not callable(function):
            raise InputTypeError(
                f"target must be a function or an object with __call__ but got {type(function).__name__}"
            )
        name = getattr(function, "__name__", "") or type(function).__name__
        super().__init__(name, secrets, timeout, parameters)
        self.origin = origin or origin_of(function)
        self._function, self._is_async = function, is_coroutine(function)
        self.loop_use = LoopUse(f"target {name}")
        self.accepts, self.requires = _parameters_of(function)
        self.outputs = _declared(function)
        accepts = self.accepts
        for given in self.parameters if accepts is not None else ():
            if accepts is not None and given not in accepts:
                near = near_names(given, accepts)
                raise InputError(f"target {self.name} must take the parameter {given!r} but does not{near}")

    def _described(self) -> dict[str, Any]:
        """Name and version; ``origin`` is None for a function that another process cannot find."""
        masked = self._secrets.mask_json({"origin": self.origin, "parameters": self.parameters})
        return {"kind": "function", "name": self.name, **masked, "outputs": list(self.outputs)}

    @property
    def version(self) -> str:
        """Hash of name, code and parameters; of the name and parameters alone where the code cannot be read."""
        return content_hash([self.name, code_hash(self._function), self.parameters])

    async def _answer(self, arguments: dict[str, Any]) -> Any:
        function, given, arguments = self._function, arguments, own_values(arguments)
        describe_target(kind="function", name=self.name, origin=self.origin)
        call = begin_call(arguments=given)
        returned = function(**arguments) if self._is_async else await in_thread(lambda: function(**arguments))
        returned = await returned if inspect.isawaitable(returned) else returned
        call.gave(returned)
        return returned


def _parameters_of(function: Callable[..., Any]) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Names of the parameters, None where every one is taken, and of those that must be given."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise InputError(f"target must have parameters with names: {error}") from None
    accepts, requires, every = set(), set(), False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise InputError(f"target must take its parameters by name, but not so {name!r}")
        every |= parameter.kind is parameter.VAR_KEYWORD
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            accepts.add(name)
            if parameter.default is parameter.empty:
                requires.add(name)
    return None if every else frozenset(accepts), frozenset(requires)


def _declared(function: Any) -> tuple[str, ...]:
    outputs = getattr(function, "outputs", ())
    if (
        isinstance(outputs, str)
        or not isinstance(outputs, (tuple, list))
        or not all(isinstance(n, str) for n in outputs)
    ):
        return ()  # an attribute of another meaning
    return tuple(outputs)
