"""Targets out of what users give. No torch."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from typing import Any

from valor_gpu.argument_docs import arguments_of
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.connections import CONFIG_KEYS
from valor_gpu.evaluation.evaluators.objects import is_object_name, load_object
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets.base import Target
from valor_gpu.evaluation.targets.flows import check_address_of_flow, entry_of_flow
from valor_gpu.evaluation.targets.functions import FunctionTarget
from valor_gpu.evaluation.targets.http import HttpTarget
from valor_gpu.evaluation.targets.models import ModelTarget

_FORMS = "a function, 'module:function', the address of an endpoint, {'url': ...}, or {'model': ..., 'prompt': ...}"


def open_target(
    target: Any,
    *,
    secrets: Secrets,
    timeout: float | None = 600.0,
    prices: Any = None,
    parameters: Mapping[str, Any] | None = None,
    max_concurrency: int = 8,
) -> Target:
    """Makes a target.

    Args:
        target: a function, a coroutine function, an object with ``__call__`` or a class of such objects;
            ``"module:function"`` or ``"file.py:function"``; a folder with ``flow.flex.yaml``; an address of HTTP, or a
            mapping with ``url``, and perhaps ``headers``, ``body``, ``answer``; or a mapping with ``model`` or
            ``azure_deployment``, and perhaps ``prompt`` or ``prompt_file``.
        secrets: get the keys; masked in messages and answers.
        timeout: seconds of an answer; of one attempt of a request.
        prices: of tokens, as of :func:`~valor_gpu.evaluation.models.prices_of`.
        parameters: given with every row, in place of columns of the same name.
        max_concurrency: most requests in flight, of endpoints and models.

    Raises:
        InputError: what is no target, or cannot be run on this machine.

    Example:
        >>> open_target(lambda question: "Paris", secrets=Secrets())
        FunctionTarget('<lambda>')
    """
    options: dict[str, Any] = {"secrets": secrets, "timeout": timeout, "parameters": parameters}
    if isinstance(target, Target):
        if parameters:
            raise InputError("parameters must be given when a target is made, but the target is made already")
        return target
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    if isinstance(target, str):
        return _named(target, {**options, "prices": prices, "max_concurrency": max_concurrency})
    if isinstance(target, Mapping):
        return _mapped(target, {**options, "prices": prices, "max_concurrency": max_concurrency})
    if not callable(target):
        raise InputTypeError(f"target must be {_FORMS} but got {type(target).__name__}")
    return _function(target, **options)


def _function(target: Any, origin: str | None = None, **options: Any) -> Target:
    if not inspect.isclass(target):
        return FunctionTarget(target, origin=origin, **options)
    try:
        made = target()
    except TypeError as error:
        raise InputError(
            f"target {target.__name__} must be made without arguments, or given as an object: {error}"
        ) from error
    called: Any = made
    return FunctionTarget(called, origin=origin, **options)


def _named(target: str, options: Mapping[str, Any]) -> Target:
    check_address_of_flow(target)
    if re.match(r"https?://", target, re.IGNORECASE):
        return _mapped({"url": target}, options)
    functions = {name: options[name] for name in ("secrets", "timeout", "parameters")}
    entry = entry_of_flow(target)
    if entry is None and not is_object_name(target):
        raise InputError(f"target must be {_FORMS} but got {options['secrets'].message(target, 200)!r}")
    name = entry or target
    return _function(load_object(name), origin=name, **functions)


def _mapped(target: Mapping[str, Any], options: Mapping[str, Any]) -> Target:
    if "url" in target:
        return HttpTarget(target, **{name: value for name, value in options.items() if name != "prices"})
    if set(target) & set(CONFIG_KEYS):
        return ModelTarget(target, **options)
    raise InputError(f"target must be {_FORMS} but the mapping has {', '.join(map(str, target)) or 'nothing'}")


@arguments_of(open_target)
def target_from_config(
    config: Mapping[str, Any] | None,
    *,
    secrets: Secrets,
    timeout: float | None = 600.0,
    prices: Any = None,
    max_concurrency: int = 8,
) -> Target | None:
    """Makes the target of a run again, from what :meth:`Target.config` gave.

    Args:
        config: of the target; None for a run without one.

    Raises:
        InputError: a target that cannot be made again, since it was an object of its process or had a key by value; one
            whose version is another now.

    Example:
        >>> print(target_from_config(None, secrets=Secrets()))
        None
    """
    if config is None:
        return None
    options: dict[str, Any] = {"secrets": secrets, "timeout": timeout, "prices": prices}
    options["max_concurrency"] = max_concurrency
    name, parameters = config.get("name", ""), config.get("parameters") or {}
    if config.get("kind") == "function":
        if not config.get("origin"):
            raise InputError(f"target {name!r} cannot be made again, since it is no function of a module: pass target=")
        made = open_target(config["origin"], parameters=parameters, **options)
    else:
        if config.get("masked"):
            raise InputError(
                f"target {name!r} cannot be made again, since it had an object as credential or had a secret by value:"
                " pass target="
            )
        given = {key: value for key, value in config.items() if key not in ("kind", "version", "parameters", "masked")}
        made = open_target(given, parameters=parameters, **options)
    if config.get("version") and made.version != config["version"]:
        raise InputError(
            f"target {name!r} has changed since the run: its version was {config['version']}, is {made.version}"
        )
    return made
