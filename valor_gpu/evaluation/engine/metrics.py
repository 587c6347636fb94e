"""The evaluators of a run: names, functions, objects and files become what scores rows. No torch.

Example:
    >>> from valor_gpu.evaluation.engine.metrics import resolve_evaluators
    >>> [f1] = resolve_evaluators(["f1_score"])
    >>> f1.name, f1.judged, sorted(f1.requires)
    ('f1_score', False, ['answer', 'ground_truth'])
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_type, near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.evaluation.evaluators.base import EVALUATORS, Evaluator, content_hash, evaluator
from valor_gpu.evaluation.evaluators.custom import custom_evaluator, source_of
from valor_gpu.evaluation.evaluators.objects import is_object_name, load_object, origin_of
from valor_gpu.judge.metric import LLMMetric, check_metric
from valor_gpu.judge.metrics.table import Rating

if TYPE_CHECKING:
    from valor_gpu.store import Store

DEFAULTS = {
    "qa": ("gpt_groundedness", "gpt_relevance", "gpt_coherence"),
    "chat": ("gpt_groundedness", "gpt_relevance", "gpt_retrieval_score"),
}
"""Metrics of a run that names none, by task; Azure's."""

PROMPT_FILES = (".prompty", ".jinja2", ".j2", ".md", ".txt")
_BUILTIN, _CUSTOM, _PROMPT, _LIBRARY = "builtin", "custom", "prompt", "library"


@dataclass(frozen=True)
class RunEvaluator:
    """An evaluator of a run.

    Attributes:
        tool: what scores: an :class:`Evaluator`, or an :class:`~valor_gpu.judge.LLMMetric` for what a judge decides.
        kind: of ``text``, ``corpus``, ``check``, ``quality``, ``safety``, ``pairwise``, ``custom``, ``prompt``.
        source: ``builtin``, ``custom``, ``prompt`` or ``library``.
        parameters: that it was made with, as JSON.
        origin: ``module:function``, a path or ``name@3``, by which another process can load it; None: none can.
    """

    tool: Evaluator | LLMMetric
    kind: str
    source: str
    parameters: Mapping[str, Any]
    origin: str | None = None

    @property
    def name(self) -> str:
        """Key of the metric in results."""
        return self.tool.name

    @property
    def judged(self) -> bool:
        """Whether a judge is asked."""
        return isinstance(self.tool, LLMMetric)

    @property
    def requires(self) -> frozenset[str]:
        """Fields that a row must have."""
        return frozenset(getattr(self.tool, "requires", ()))

    @property
    def version(self) -> str:
        """Hash of what the numbers depend on, 16 hexadecimal digits."""
        if isinstance(self.tool, Evaluator) and not _is_ours(self.tool):
            return content_hash([self.tool.version, source_of(type(self.tool))])
        return str(getattr(self.tool, "version", "")) or _hash_of(self.tool)

    def describe(self) -> dict[str, Any]:
        """What the configuration of a run says of it; see :class:`~valor_gpu.evaluation.config.RunConfig`."""
        low, high = self.tool.low, self.tool.high
        return {
            "name": self.name,
            "summary_name": getattr(self.tool, "summary_name", f"mean_{self.name}"),
            "kind": self.kind,
            "version": self.version,
            "parameters": dict(self.parameters),
            "requires": sorted(self.requires),
            "low": low if math.isfinite(low) else None,
            "high": high if high is not None and math.isfinite(high) else None,
            "higher_is_better": getattr(self.tool, "higher_is_better", True),
            "pooled": bool(getattr(self.tool, "pooled", False)),
            "needs_judge": self.judged,
            "source": self.source,
            "origin": self.origin,
        }


def _hash_of(metric: LLMMetric | Evaluator) -> str:
    """Version of a judged metric of the user's own: its identity, else its code."""
    identity = getattr(metric, "identity", None)
    code = identity if identity is not None else [source_of(metric), source_of(getattr(metric, "_question", None))]
    return content_hash([metric.name, metric.low, metric.high, code])


def resolve_evaluators(
    metrics: Iterable[Any] | Mapping[str, Any],
    task_type: str = "qa",
    metric_params: Mapping[str, Mapping[str, Any]] | None = None,
    embed: Callable[..., Any] | None = None,
    store: Store | None = None,
) -> tuple[RunEvaluator, ...]:
    """Makes the evaluators of a run.

    Args:
        metrics: names of the table of evaluators, functions and classes (also as ``module:function``), evaluators and
            judged metrics as objects, files of prompts, ``name`` or ``name@3`` of the library of ``store``; a mapping,
            or pairs of name and entry, give functions their names.
        task_type: ``qa`` or ``chat``.
        metric_params: name of an evaluator to its parameters.
        embed: gives the embeddings of texts.
        store: whose library has the user's evaluators.

    Raises:
        InputError: names that nothing has, names that come twice, parameters that an evaluator does not take. The
            message has all of them.
    """
    named = metrics.items() if isinstance(metrics, Mapping) else map(_named, _listed(metrics))
    resolver = _Resolver(task_type, dict(metric_params or {}), embed, store)
    found: list[RunEvaluator] = []
    problems: list[InputError] = []
    for name, given in named:
        each = resolver.try_resolve(given, name)
        if isinstance(each, InputError):
            problems.append(each)
        else:
            found.append(each)
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    wrong = [f"metric {name!r} must be named once but is named {names.count(name)} times" for name in twice]
    wrong += [] if problems else resolver.unused(names)
    problems += map(InputError, wrong)
    if problems:
        raise problems[0] if len(problems) == 1 else InputError("metrics:\n  " + "\n  ".join(map(str, problems)))
    return tuple(found)


def _listed(metrics: Any) -> list[Any]:
    if isinstance(metrics, (str, bytes)) or not isinstance(metrics, Iterable):
        raise InputTypeError(f"metrics_list must be a list but got {type(metrics).__name__}")
    return list(metrics)


def _named(given: Any) -> tuple[str | None, Any]:
    """Name, where there is one, and entry."""
    return given if isinstance(given, tuple) and len(given) == 2 else (None, given)


class _Resolver:
    def __init__(
        self, task: str, params: dict[str, Mapping[str, Any]], embed: Callable[..., Any] | None, store: Store | None
    ) -> None:
        self._task, self._params, self._embed, self._store = task, params, embed, store

    def try_resolve(self, given: Any, name: str | None) -> RunEvaluator | InputError:
        """The evaluator that a user's entry means, or what is wrong with it."""
        try:
            return self.resolve(given, name)
        except InputError as error:
            return error

    def resolve(self, given: Any, name: str | None) -> RunEvaluator:
        """The evaluator that a user's entry means."""
        if isinstance(given, str):
            found = self._named(given, name)
        elif isinstance(given, (Evaluator, LLMMetric)):
            found = self._with_its_own_parameters(_object(given))
        elif callable(given):
            found = _function(given, name, self._params_of(name or str(getattr(given, "__name__", ""))))
        else:
            raise InputTypeError(
                f"a metric must be a name, a function, an evaluator or a judged metric but got {type(given).__name__}"
            )
        if name is not None and name != found.name:
            raise InputError(f"evaluator {found.name!r} must go by its own name but is called {name!r}")
        return found

    def _params_of(self, name: str) -> dict[str, Any]:
        params = self._params.get(name, {})
        check_type(f"metric_params[{name!r}]", params, Mapping)
        return dict(params)

    def _with_its_own_parameters(self, found: RunEvaluator) -> RunEvaluator:
        if found.name in self._params:
            raise InputError(f"metric_params must not have {found.name!r}, which has been made with its parameters")
        return found

    def _named(self, name: str, title: str | None) -> RunEvaluator:
        if name in EVALUATORS:
            return self._builtin(name)
        if PurePath(name).suffix.lower() in PROMPT_FILES:
            return self._prompt(name)
        if is_object_name(name):
            function = load_object(name, "metric")
            return _function(function, title, self._params_of(title or str(getattr(function, "__name__", ""))), name)
        saved = [] if self._store is None else [each.name for each in self._store.evaluators.list()]
        base, version, _ = name.partition("@")
        deleted = [] if self._store is None else [each.name for each in self._store.evaluators.list(deleted=True)]
        # A version that is named is there for good: a run that used it can go on.
        if self._store is not None and base in (saved + deleted if version else saved):
            from valor_gpu.evaluation.evaluators import saved as library

            pinned = library.pinned_name(self._store, name)
            tool = library.saved_evaluator(self._store, pinned, self._task)
            return self._with_its_own_parameters(_object(tool, _LIBRARY, pinned))
        known = [*EVALUATORS, *saved]
        if base in deleted:
            restore = f"valor-gpu eval evaluators restore {base}"
            raise InputError(f"metric {name!r} is deleted from the store: {restore} brings it back")
        near = near_names(name, known) or f"; there are {', '.join(known)}"
        raise InputError(f"metric {name!r} is none{near}")

    def _builtin(self, name: str) -> RunEvaluator:
        info, given = EVALUATORS[name], self._params_of(name)
        params = dict(given)
        if self._task not in info.tasks:
            fitting = [each for each, row in EVALUATORS.items() if self._task in row.tasks]
            raise InputError(
                f"metric {name!r} scores no rows of task_type {self._task!r}; metrics that do: {', '.join(fitting)}"
            )
        if "task" in info.parameters:
            params.setdefault("task", self._task)
        if "embed" in info.needs and self._embed is not None:
            params.setdefault("embed", self._embed)
        if "embed" in info.needs and "embed" not in params:
            raise InputError(f"metric {name!r} needs a model of embeddings: give embedding_config")
        if "wordnet" in info.needs and "wordnet" not in params:
            raise InputError(
                f"metric {name!r} needs a WordNet 3 database: give metric_params={{{name!r}: {{'wordnet': FOLDER}}}}"
            )
        try:
            return RunEvaluator(evaluator(name, **params), info.kind, _BUILTIN, _plain(given))
        except TypeError as error:
            raise InputError(f"metric {name!r} must get parameters that it takes: {error}") from error

    def _prompt(self, path: str) -> RunEvaluator:
        from valor_gpu.evaluation.prompts.prompt_files import prompt_for

        metric = prompt_for(path, self._task)
        params = self._params_of(metric.name)
        if params:
            metric = prompt_for(path, self._task, **params)
        return RunEvaluator(metric, "prompt", _PROMPT, _plain(params), path)

    def unused(self, names: Collection[str]) -> list[str]:
        """Problems of parameters for evaluators that the run has not."""
        return [
            f"metric_params has {name!r}, which is no metric of this run{near_names(name, names)}"
            for name in self._params
            if name not in names
        ]


def _object(tool: Any, source: str = _CUSTOM, origin: str | None = None) -> RunEvaluator:
    if isinstance(tool, Evaluator):
        builtin = tool.name in EVALUATORS and source == _CUSTOM and _is_ours(tool)
        if tool.pooled and not builtin:
            raise InputError(
                f"evaluator {tool.name!r} must not be pooled: summaries and comparisons pool those of the table alone"
            )
        return RunEvaluator(tool, tool.info.kind, _BUILTIN if builtin else source, _plain(tool.parameters), origin)
    metric = check_metric(tool)
    info = EVALUATORS.get(metric.name)
    ours = info is not None and type(metric).__module__.startswith("valor_gpu.judge.metrics.")
    kind = info.kind if info is not None and ours else _judged_kind(metric)
    return RunEvaluator(metric, kind, _BUILTIN if ours else source, {}, origin)


def _is_ours(tool: Evaluator) -> bool:
    """Whether an evaluator is of this package: its version says which code it has."""
    return type(tool).__module__.startswith("valor_gpu.")


def _judged_kind(metric: LLMMetric) -> str:
    """Kind of a judged metric that goes by another name than those of the table."""
    rating = getattr(metric, "rating", None)
    if isinstance(rating, Rating):
        return "safety" if rating.is_safety else "quality"
    return "prompt" if hasattr(metric, "prompt") else "custom"


def _function(
    function: Any, name: str | None, parameters: Mapping[str, Any], origin: str | None = None
) -> RunEvaluator:
    if isinstance(function, (Evaluator, LLMMetric)):
        return _object(function, origin=origin)
    tool = custom_evaluator(function, name, parameters=parameters)
    return RunEvaluator(tool, "custom", _CUSTOM, _plain(tool.parameters), origin or origin_of(function))


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON; what is none as its text."""
    kept: dict[str, Any] = json.loads(json.dumps(parameters, default=str))
    return kept


def default_names(task_type: str) -> Sequence[str]:
    """Names of the metrics of a run that names none."""
    return DEFAULTS[task_type]
