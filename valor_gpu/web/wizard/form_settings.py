"""Settings that forms take beside the choice of metrics: parameters, thresholds, and how the rows are run.

A draft keeps texts, as they were typed; here they become arguments, or say what is wrong with them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from valor_gpu.checks import keys_once
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.text.tokens import TOKENIZERS
from valor_gpu.web.registry import Registry
from valor_gpu.web.routes import Ask
from valor_gpu.web.security import looks_like_key
from valor_gpu.web.wizard.drafts import Draft

LONGEST = 20_000
"""Characters of one setting."""

_KINDS = {
    **dict.fromkeys(
        ("ignore_case", "ignore_punctuation", "ignore_numbers", "ignore_articles", "ignore_white_space", "full",
         "round_fractions"), "yes or no"),
    **dict.fromkeys(("alpha", "beta", "gamma", "timeout", "least", "most", "k", "rel"), "number"),
    **dict.fromkeys(("ground_truth_label_min", "ground_truth_label_max"), "number"),
    **dict.fromkeys(("wordnet", "punkt"), "folder"),
    "mode": "choice", "unit": "choice", "tokenizer": "choice", "gain": "choice", "texts": "lines",
    "schema": "json", "pattern": "text",
}  # fmt: skip
"""Parameters that forms can set. Prompts are changed in the library, the task is the scenario's, the model of
embeddings is one of the whole run."""
_OPTIONS = {
    "mode": ("any", "all"),
    "unit": ("characters", "words"),
    "tokenizer": tuple(TOKENIZERS),
    "gain": ("exponential", "linear"),
}
_YES_NO = {"yes": True, "no": False}
_RUN = {"limit": int, "repeats": int, "epochs": int, "max_cost": float}
RUN_OPTIONS = tuple(_RUN)
"""Numbers of the whole run."""
_REQUIRED = {"regex": ("pattern",), "meteor": ("wordnet",)}


@dataclass
class FormSettings:
    """Arguments that settings mean.

    Attributes:
        params: of metrics, as ``metric_params``.
        thresholds: as of evaluate().
        options: further arguments.
        problems: name of a form's field to what is wrong with it.
    """

    params: dict[str, dict[str, Any]] = field(default_factory=dict)
    thresholds: dict[str, float | str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def read_settings(draft: Draft, registry: Registry) -> FormSettings:
    """Reads the settings of a draft; what cannot be read is a problem and no argument."""
    found = FormSettings()
    chosen = () if draft.is_target_only else draft.metrics
    for name in chosen:
        _read_metric(found, name, draft, registry)
    for name, kind in _RUN.items():
        if name != "epochs" or draft.target:
            _read(found, f"run-{name}", draft.options.get(name, ""), _positive(kind), found.options, name)
    if draft.slice_by:
        found.options["slice_by"] = list(draft.slice_by)
    if draft.baseline:
        found.options["baseline"] = draft.baseline
    if any("embed" in EVALUATORS[name].needs for name in chosen if name in EVALUATORS):
        _embedding(found, draft, registry)
    return found


def _read_metric(found: FormSettings, name: str, draft: Draft, registry: Registry) -> None:
    typed = draft.settings.get(name, {})
    for parameter in _REQUIRED.get(name, ()):
        if parameter not in typed:
            found.problems[f"set-{name}-{parameter}"] = f"{name} needs it."
    params: dict[str, Any] = {}
    for parameter, text in typed.items():
        _read(found, f"set-{name}-{parameter}", text, partial(parameter_of, parameter, registry=registry), params,
              parameter)  # fmt: skip
    if params:
        found.params[name] = params
    info = EVALUATORS.get(name)
    if info is not None and info.kind == "safety":
        found.thresholds[name] = draft.level
    else:
        _read(found, f"pass-{name}", draft.passes.get(name, ""), _number, found.thresholds, name)


def _read(
    found: FormSettings, place: str, text: str, read: Callable[[str], Any], into: dict[str, Any], name: str
) -> None:
    """Puts the value of a text into a mapping, unless the text is empty or a problem."""
    if not text.strip():
        return
    try:
        into[name] = read(text)
    except (ValueError, RecursionError) as error:
        found.problems[place] = str(error)


def _embedding(found: FormSettings, draft: Draft, registry: Registry) -> None:
    if draft.embedding in registry.embeddings:
        found.options["embedding_config"] = dict(registry.embeddings[draft.embedding])
    else:
        found.problems["run-embedding"] = "Choose a model of embeddings: ada_similarity needs one."


def parameter_of(parameter: str, text: str, registry: Registry) -> Any:
    """The value of a parameter as it was typed.

    Raises:
        InputError: it cannot be read, or is none of those that can be chosen.

    Example:
        >>> parameter_of("least", "2.5", Registry()), parameter_of("full", "yes", Registry())
        (2.5, True)
    """
    kind = _KINDS.get(parameter)
    if kind == "number":
        return _number(text)
    if kind == "yes or no":
        return _chosen(_YES_NO, text)
    if kind == "choice":
        return _chosen({each: each for each in _OPTIONS[parameter]}, text)
    if kind == "folder":
        return _chosen(registry.folders, text)
    if kind == "lines":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if kind == "json":
        return _json(text)
    return text


def _chosen(options: Mapping[str, Any], text: str) -> Any:
    if text not in options:
        raise InputError(f"must be one of {', '.join(options) or '(none registered)'} but is {text!r:.100}")
    return options[text]


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"must be a number but is {text!r:.60}")
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def _positive(kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = _number(text)
        if not value > 0 or (kind is int and not isinstance(value, int)):
            raise InputError(f"must be {'a whole number' if kind is int else 'a number'} above 0 but is {text!r:.60}")
        return value

    return read


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=keys_once)
    except json.JSONDecodeError as error:
        raise InputError(f"must be JSON, and line {error.lineno}, column {error.colno} is none: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"must be JSON that can be read but is not: {error}") from None


def text_of(parameter: str, value: Any, registry: Registry) -> str:
    """How a parameter is typed; "" where forms cannot say it."""
    kind = _KINDS.get(parameter)
    if kind == "folder":
        return next((name for name, path in registry.folders.items() if path == str(value)), "")
    if kind == "lines":
        return "\n".join([value] if isinstance(value, str) else map(str, value))
    if kind == "json":
        return json.dumps(value)
    if kind == "yes or no":
        return "yes" if value else "no"
    return "" if kind is None else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Field:
    """A field of a form.

    Attributes:
        name: of the field.
        label: for people.
        kind: ``text``, ``number``, ``lines``, ``json`` or ``choice``.
        text: as it was typed.
        options: of a choice.
        about: what it means.
    """

    name: str
    label: str
    kind: str
    text: str
    options: tuple[str, ...] = ()
    about: str = ""


def can_set(name: str) -> list[str]:
    """Parameters of a built-in evaluator that forms can set."""
    return [each for each in EVALUATORS[name].parameters if each in _KINDS] if name in EVALUATORS else []


def parameter_fields(name: str, typed: Mapping[str, str], registry: Registry) -> list[Field]:
    """The parameters of a built-in evaluator, with what was typed."""
    info = EVALUATORS.get(name)
    return [
        _field(f"set-{name}-{parameter}", parameter, typed.get(parameter, ""), about, registry)
        for parameter, about in (info.parameters if info else {}).items()
        if parameter in _KINDS and (_KINDS[parameter] != "folder" or registry.folders)
    ]


def metric_fields(name: str, draft: Draft, registry: Registry) -> list[Field]:
    """The settings of a metric; none for one that has neither parameters nor a threshold of its own."""
    info = EVALUATORS.get(name)
    found = parameter_fields(name, draft.settings.get(name, {}), registry)
    if info is None or (info.kind != "safety" and info.higher_is_better is not None):
        lower = info is not None and info.higher_is_better is False
        about = "rows at or below it pass" if lower else "rows at or above it pass"
        text = draft.passes.get(name, "")
        found.append(Field(f"pass-{name}", "passes " + ("up to" if lower else "from"), "number", text, (), about))
    return found


def _field(name: str, parameter: str, text: str, about: str, registry: Registry) -> Field:
    kind = _KINDS[parameter]
    options = {"yes or no": tuple(_YES_NO), "folder": tuple(registry.folders)}.get(kind, _OPTIONS.get(parameter, ()))
    return Field(name, parameter.replace("_", " "), "choice" if options else kind, text, options, about)


def run_fields(draft: Draft) -> list[Field]:
    """The numbers of the whole run."""
    about = {
        "limit": ("Rows at most", "the first ones; empty for all"),
        "repeats": ("Judge each row", "times; empty for once"),
        "epochs": ("Ask the target", "times a row; empty for once"),
        "max_cost": ("Stop at cost", "in the currency of the prices, which the judge must have"),
    }
    return [
        Field(f"run-{name}", words, "number", draft.options.get(name, ""), (), more)
        for name, (words, more) in about.items()
        if name != "epochs" or draft.target
    ]


def taken(ask: Ask, draft: Draft, registry: Registry, columns: Collection[str]) -> tuple[dict[str, Any], str]:
    """What a form says of settings, as changes of a draft, and what was refused.

    Args:
        ask: with the form. Fields that it does not have stay as they were.
        draft: as it was.
        registry: with what can be chosen.
        columns: of the data.
    """
    if ask.field("settings") != "yes":
        return {}, ""
    names = dict.fromkeys((*EVALUATORS, *draft.metrics))
    refused = ""
    settings = {name: dict(texts) for name, texts in draft.settings.items()}
    passes, options = dict(draft.passes), dict(draft.options)
    places = [(name, each.name) for name in names for each in metric_fields(name, draft, registry)]
    for metric, place in [*places, *(("", each.name) for each in run_fields(draft))]:
        for text in ask.fields(place):
            if len(text) > LONGEST or looks_like_key(text):
                refused = "A setting looks like a key of a service, or is longer than 20,000 signs, and was not kept."
            elif place.startswith("set-"):
                settings.setdefault(metric, {})[place.removeprefix(f"set-{metric}-")] = text
            elif place.startswith("pass-"):
                passes[metric] = text
            else:
                options[place.removeprefix("run-")] = text
    embedding = ask.field("run-embedding")
    return {
        "settings": {name: some for name, texts in settings.items() if (some := _typed(texts))},
        "passes": _typed(passes),
        "options": _typed(options),
        "slice_by": tuple(each for each in ask.fields("run-slice") if each in columns),
        "baseline": ask.field("run-baseline")[:100],
        "embedding": embedding if embedding in registry.embeddings else "",
    }, refused


def _typed(texts: Mapping[str, str]) -> dict[str, str]:
    """Texts without the empty ones."""
    return {name: text for name, text in texts.items() if text.strip()}
