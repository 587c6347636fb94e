"""The library of evaluators: names of the user's own whose versions never change. No torch.

A version is a built-in evaluator with parameters, a prompt, or a function of a module. Names and versions are kept in a
store; ``name`` is the newest version, ``name@3`` the third, ``name@1f2e3d4c`` that of a hash.

Example:
    >>> import tempfile
    >>> from valor_gpu.store import Store
    >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
    ...     first = save_evaluator(store, "same_text", "exact_match", parameters={"ignore_case": True})
    ...     second = save_evaluator(store, "same_text", "exact_match", parameters={"ignore_articles": True})
    ...     newest, old = saved_evaluator(store, "same_text"), saved_evaluator(store, "same_text@1")
    ...     print(old.score_rows([{"answer": "Yes", "ground_truth": "yes"}]), newest.name, second.number)
    [Outcome(value=1.0)] same_text 2
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.base import EVALUATORS, Evaluator, EvaluatorInfo, evaluator
from valor_gpu.evaluation.evaluators.custom import CustomEvaluator, custom_evaluator, source_of
from valor_gpu.evaluation.evaluators.objects import is_object_name, load_object, origin_of
from valor_gpu.evaluation.prompts.prompt_files import TemplateMetric, prompt_for
from valor_gpu.judge.metric import LLMMetric
from valor_gpu.store import Store
from valor_gpu.store.evaluators import EvaluatorVersion
from valor_gpu.store.values import json_text

BUILTIN, PROMPT, FUNCTION = "builtin", "prompt", "function"
_SCALE = ("low", "high", "higher_is_better")


def save_evaluator(
    store: Store,
    name: str,
    what: Any,
    note: str = "",
    *,
    parameters: Mapping[str, Any] | None = None,
) -> EvaluatorVersion:
    """Adds a version of an evaluator to the library, unless the newest one is the same.

    Args:
        store: that keeps it.
        name: of the user's own, by which runs name it: letters, digits, ``_``, ``.``, ``-``.
        what: the name of a built-in evaluator, or one that is made; a prompt file, by its path or as text, or a metric
            of one; ``module:function``, or a function of a module.
        note: what the version is, in words.
        parameters: of a built-in evaluator; of a prompt, the arguments of
            :func:`~valor_gpu.evaluation.prompts.prompt_files.prompt_evaluator`; of a function, ``low``, ``high`` and
            ``higher_is_better``.

    Returns:
        The newest version, with number, hash and content.

    Raises:
        InputError: a name that is none or that is taken by a built-in evaluator; what cannot be made; parameters that
            JSON cannot express; a function that no other process can find.
    """
    check_type("name", name, str)
    content = _content(what, dict(parameters or {}))
    json_text(f"parameters of evaluator {name!r}", content)
    check_content(name, content)
    return store.evaluators.save(name, content, note)


def saved_evaluator(store: Store, name: str, task: str | None = None) -> Evaluator | LLMMetric:
    """Makes an evaluator of the library; its name is that of the library.

    Args:
        store: that keeps it.
        name: ``name``, ``name@3`` or ``name@1f2e3d4c``.
        task: ``qa`` or ``chat``, for those that know both and were saved without one.

    Raises:
        InputError: there is no such evaluator or version; a function that is gone, or whose code is another now.
    """
    version = find_version(store, name)
    return _made(version.name, version.content, task)


def find_version(store: Store, name: str) -> EvaluatorVersion:
    """The version that ``name``, ``name@3`` or ``name@1f2e3d4c`` means.

    Raises:
        InputError: there is no such evaluator or version.
    """
    check_type("evaluator", name, str)
    plain, mark, version = name.partition("@")
    if mark and not version:
        raise InputError(f"evaluator must be named as name@3 but is {name!r}")
    if not mark:
        return store.evaluators.get(plain)
    # A hash may be of digits alone: the number of a version is shorter.
    return store.evaluators.get(plain, int(version) if version.isdecimal() and len(version) < 8 else version)


def pinned_name(store: Store, name: str) -> str:
    """The name with its version, ``name@3``, which means the same for ever."""
    version = find_version(store, name)
    return f"{version.name}@{version.number}"


def evaluator_entries(store: Store | None = None) -> list[dict[str, Any]]:
    """The built-in evaluators, then those of the library, as JSON for lists and pages.

    Returns:
        Of each ``name``, ``source`` (``builtin`` or ``library``), ``kind``, ``summary``, ``requires``, ``low``,
        ``high``, ``higher_is_better``, ``version`` (None for those of the package), ``note``, ``status`` (``ready``, or
        why it cannot be made now).
    """
    found = [evaluator_entry(info) for info in EVALUATORS.values()]
    return found + [evaluator_entry(version) for version in (store.evaluators.list() if store is not None else ())]


def evaluator_entry(what: EvaluatorInfo | EvaluatorVersion) -> dict[str, Any]:
    """One of :func:`evaluator_entries`: of a row of the table, or of a version of the library."""
    if isinstance(what, EvaluatorVersion):
        return _entry(what)
    return {
        "name": what.name,
        "source": BUILTIN,
        "kind": what.kind,
        "summary": what.summary,
        "requires": sorted(what.requires),
        "low": what.low,
        "high": what.high,
        "higher_is_better": what.higher_is_better,
        "version": None,
        "note": "",
        "status": "ready",
    }


def _entry(version: EvaluatorVersion) -> dict[str, Any]:
    content = version.content
    entry = {"name": version.name, "source": "library", "kind": content.get("kind"), "summary": _summary(content)}
    entry |= {"requires": [], "low": None, "high": None, "higher_is_better": None}
    entry |= {"version": version.number, "note": version.note, "status": "ready"}
    try:
        made = _made(version.name, content)
    except (InputError, ImportError) as error:
        return {**entry, "status": str(error)}
    return {
        **entry,
        "requires": sorted(getattr(made, "requires", ())),
        "low": made.low,
        "high": made.high,
        "higher_is_better": getattr(made, "higher_is_better", True),
    }


def _summary(content: Mapping[str, Any]) -> str:
    if content.get("kind") == BUILTIN:
        return (
            f"{content.get('evaluator')} with parameters of its own"
            if content.get("parameters")
            else str(content.get("evaluator"))
        )
    return str(content.get("description") or content.get("origin") or "")


def _content(what: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """What a version keeps."""
    if isinstance(what, TemplateMetric):
        if parameters:
            raise InputError("parameters must be given when the metric of a prompt is made, not when it is saved")
        return _prompt_content(what)
    if isinstance(what, Evaluator) and not isinstance(what, CustomEvaluator):
        return _builtin_content(what.info.name, {**what.parameters, **parameters})
    if isinstance(what, str) and what in EVALUATORS:
        return _builtin_content(what, parameters)
    if isinstance(what, os.PathLike) or (isinstance(what, str) and _is_prompt(what)):
        return _prompt_content(prompt_for(what, None, **{"name": "prompt", **parameters}))
    if isinstance(what, str) and is_object_name(what):
        return _function_content(load_object(what, "evaluator"), what, parameters)
    if callable(what) and not isinstance(what, (Evaluator, LLMMetric)):
        return _function_content(what, origin_of(what), parameters)
    shown = repr(what[:100]) if isinstance(what, str) else type(what).__name__
    raise InputTypeError(
        f"evaluator must be the name of a built-in one, a prompt file, 'module:function' or a function but got {shown}"
    )


def _is_prompt(text: str) -> bool:
    suffix = PurePath(text).suffix.lower() if "\n" not in text else ""
    return "\n" in text or "{{" in text or suffix in (".prompty", ".jinja2", ".jinja", ".j2", ".md", ".txt")


def _builtin_content(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(parameters.get("prompts"), (str, os.PathLike)):
        raise InputError("prompts must be a mapping of texts by name: the files of a folder may change")
    return {"kind": BUILTIN, "evaluator": name, "parameters": dict(parameters)}


def _prompt_content(metric: TemplateMetric) -> dict[str, Any]:
    said = {"task": metric.task} if metric.task != metric.file.rules.get("task", "qa") else {}
    return {
        "kind": PROMPT,
        "prompt": metric.file.text,
        "parameters": {**metric.options, **said},
        "description": metric.file.description,
    }


def _function_content(function: Any, origin: str | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    if origin is None:
        raise InputError("evaluator must be a function of a module, which other processes can find, but is none")
    for name in parameters:
        if name not in _SCALE:
            raise InputError(f"parameters of a function must be of {', '.join(_SCALE)} but have {name!r}")
    return {"kind": FUNCTION, "origin": origin, "parameters": dict(parameters), "source": source_of(function)}


def check_content(name: str, content: Mapping[str, Any]) -> None:
    """Raises where no evaluator can be made of a version's content.

    Raises:
        InputError: a name that is none or that is taken by a built-in evaluator; a content that is none.
    """
    if "@" in name:
        raise InputError(f"name must not have '@', behind which versions are named, but is {name!r}")
    if not isinstance(content.get("parameters") or {}, Mapping):
        raise InputError(f"parameters of evaluator {name!r} must be a mapping")
    _made(name, content)


def _made(name: str, content: Mapping[str, Any], task: str | None = None) -> Evaluator | LLMMetric:
    """The evaluator of a version."""
    kind, parameters = content.get("kind"), dict(content.get("parameters") or {})
    if kind == BUILTIN:
        return _made_builtin(name, str(content.get("evaluator")), parameters, task)
    if kind == PROMPT:
        text = str(content.get("prompt"))
        return prompt_for(text if "\n" in text else f"{text}\n", task, name=name, **parameters)
    if kind == FUNCTION:
        origin = str(content.get("origin"))
        function = load_object(origin, f"evaluator {name!r}")
        if source_of(function) != content.get("source"):
            raise InputError(
                f"evaluator {name!r} must have the code that was saved but {origin} has changed: save a new version"
            )
        return custom_evaluator(function, name, **parameters)
    raise InputError(f"evaluator {name!r} must be saved by save_evaluator but its kind is {kind!r}")


def _made_builtin(name: str, base: str, parameters: dict[str, Any], task: str | None) -> Evaluator | LLMMetric:
    custom_evaluator(_no_number, name)  # raises for a name that is none, or that is taken
    info = EVALUATORS.get(base)
    if info is not None and task is not None and "task" in info.parameters and task in info.tasks:
        parameters.setdefault("task", task)
    made: Evaluator | LLMMetric = evaluator(base, **parameters)
    made.name = name
    return made


def _no_number(answer: str) -> None:
    """Stands for an evaluator whose name alone is checked."""
