"""The configuration of a run, as the store keeps it, and configuration files of commands. No torch.

A stored configuration is strict JSON without secrets: everything that a run depends on, by names, hashes and versions.

Example:
    >>> config = RunConfig(evaluation_name="capitals", data={"source": "rows.csv", "hash": "0c", "columns": ["id"]})
    >>> RunConfig.from_dict(config.to_dict()) == config
    True
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from valor_gpu._version import __version__
from valor_gpu.checks import check_type, keys_once, near_names
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.parse import GRAMMAR

__all__ = ["ARGUMENTS", "RunConfig", "load_config"]

VERSION = 1

ARGUMENTS = (
    "evaluation_name", "target", "data", "task_type", "metrics_list", "model_config", "data_mapping", "output_path",
    "tracking_uri", "evaluators", "judge", "embedding_config", "max_concurrency", "rpm", "tpm", "timeout", "cache",
    "resume", "repeats", "epochs", "thresholds", "metric_params", "params_grid", "baseline", "slice_by", "key", "limit",
    "prices", "max_cost", "store", "on_error", "seed", "tags", "keep_prompts", "progress",
)  # fmt: skip
"""Keyword arguments of :func:`valor_gpu.evaluate`, which are the keys of a configuration file."""

_NOT_IN_FILES = ("judge", "progress")  # objects of Python
_YAML = (".yaml", ".yml")
_AS_THEY_ARE = (
    "evaluation_name", "task_type", "repeats", "epochs", "thresholds", "slice_by", "key", "limit", "max_cost", "prices",
    "on_error", "seed", "cache", "output_path", "baseline", "keep_prompts",
)  # fmt: skip
_OF_TARGET = ("kind", "name", "version", "parameters", "masked")
_ONLY_TEXT = "${target}"  # what data_mapping cannot say: the only text that a target returns
_OF_CONNECTION = ("api_key_env", "azure_ad_token_env", "credential", "organization", "extra_headers")
"""Facts of the connection that a stored run keeps, by their names in configurations."""
_OF_REQUESTS = ("temperature", "max_tokens", "seed", "top_logprobs")


@dataclass(frozen=True)
class RunConfig:
    """Configuration of a run.

    Attributes:
        evaluation_name: of the run, for people.
        data: ``source`` (name of the file or kind of data), ``hash``, ``columns``, ``rows`` (their number, or
            None where that was not known at the start).
        task_type: ``qa`` or ``chat``.
        data_mapping: field to reference.
        target: how the target can be made again; None without one.
        evaluators: one mapping for each, with ``name``, ``summary_name``, ``kind``, ``version``, ``parameters``,
            ``requires``, ``low``, ``high`` (None: no bound), ``higher_is_better``, ``pooled``, ``needs_judge``,
            ``source`` (``builtin``, ``custom``, ``prompt``, ``library``) and ``origin`` (where it can be loaded from,
            or None).
        judge: identity of the judge, without its key; None without one.
        embedding: the model of embeddings; None without one.
        limits: ``max_concurrency``, ``rpm``, ``tpm``, ``timeout``.
        cache: file of the judge's replies.
        repeats: times that the judge is asked each question.
        epochs: times that the target answers each row.
        thresholds: evaluator to the least (for severities: the first bad) value, a number or the name of a level.
        metric_params: parameters of evaluators as they were given.
        slice_by: columns by whose values every number is given, too.
        key: column of the row keys; None for ``key``, ``id`` or a hash.
        limit: number of rows that are read; None for all.
        max_cost: the run stops when it has cost so much.
        prices: of a million tokens: ``prompt``, ``completion``, ``cached``.
        on_error: ``record`` or ``raise``.
        seed: of everything random.
        group: id that the runs of one grid share.
        parameters: of this run within its grid, given to the target with each row.
        baseline: id of the run that this one is compared with.
        output_path: folder of the files.
        keep_prompts: whether traces have prompts and requests.
        notes: what the user was told: warnings, and metrics that were left out with why.
        grammar: version of the rules by which judges' replies were read, see docs/judge.md.
        valor_gpu: version of the package.
        version: of this format.
    """

    evaluation_name: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    task_type: str = "qa"
    data_mapping: Mapping[str, str] = field(default_factory=dict)
    target: Mapping[str, Any] | None = None
    evaluators: tuple[Mapping[str, Any], ...] = ()
    judge: Mapping[str, Any] | None = None
    embedding: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    cache: str | None = None
    repeats: int = 1
    epochs: int = 1
    thresholds: Mapping[str, float | str] = field(default_factory=dict)
    metric_params: Mapping[str, Any] = field(default_factory=dict)
    slice_by: tuple[str, ...] = ()
    key: str | None = None
    limit: int | None = None
    max_cost: float | None = None
    prices: Mapping[str, Any] | None = None
    on_error: str = "record"
    seed: int = 0
    group: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    baseline: str | None = None
    output_path: str | None = None
    keep_prompts: bool = True
    notes: tuple[str, ...] = ()
    grammar: int = GRAMMAR
    valor_gpu: str = __version__
    version: int = VERSION

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as strict JSON values, ``version`` and ``valor_gpu`` first.

        Raises:
            InputError: something that JSON cannot express.
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        first = {"version": found.pop("version"), "valor_gpu": found.pop("valor_gpu")}
        try:
            kept: dict[str, Any] = json.loads(json.dumps({**first, **found}, allow_nan=False, default=_plain))
        except (TypeError, ValueError) as error:
            raise InputError(f"the configuration of a run must hold JSON values: {error}") from error
        return kept

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> RunConfig:
        """Makes a configuration from the mapping that :meth:`to_dict` returned.

        Raises:
            InputError: it is of a later version, or has keys that none has.
        """
        check_type("configuration", found, Mapping)
        version = found.get("version")
        if version != VERSION:
            raise InputError(f"configuration must be of version {VERSION} but is of version {version!r}")
        names = [each.name for each in fields(cls)]
        check_keys("configuration of a run", found, names)
        lists = {name: tuple(found[name]) for name in ("evaluators", "slice_by", "notes") if name in found}
        return cls(**{"grammar": 1, **found, **lists})  # runs before version 2 have none

    def evaluator(self, name: str) -> Mapping[str, Any]:
        """Returns the entry of an evaluator.

        Raises:
            InputError: the run has no such evaluator.
        """
        names = [each["name"] for each in self.evaluators]
        if name not in names:
            raise InputError(
                f"evaluator must be one of the run's, {', '.join(names) or 'none'}, but is {name!r}"
                f"{near_names(name, names)}"
            )
        return self.evaluators[names.index(name)]


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def check_keys(name: str, found: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises :class:`InputError` that names all unknown keys, each with known keys that look alike."""
    unknown = [str(key) for key in found if key not in known]
    if unknown:
        shown = ", ".join(f"{key!r}{near_names(key, known)}" for key in unknown)
        raise InputError(f"{name} must have the keys {', '.join(known)}, but has {shown}")


def arguments_of(config: RunConfig) -> dict[str, Any]:
    """Returns keyword arguments of :func:`valor_gpu.evaluate` for another run like a stored one.

    Args:
        config: of the run, of its store or of ``config`` in its file ``run.json``.

    Raises:
        InputError: something that was an object of its process, or that had a secret by value; the message names it.

    Example:
        >>> config = RunConfig(evaluation_name="capitals", data={"source": "rows.csv"}, limit=5)
        >>> found = arguments_of(config)
        >>> found["data"], found["limit"], found["metrics_list"]
        ('rows.csv', 5, [])
    """
    found: dict[str, Any] = {name: getattr(config, name) for name in _AS_THEY_ARE}
    found |= {name: config.limits.get(name) for name in ("max_concurrency", "rpm", "tpm", "timeout")}
    found["data"] = config.data.get("source")
    found["data_mapping"] = {field: text for field, text in config.data_mapping.items() if text != _ONLY_TEXT}
    found["metrics_list"] = [_metric(each) for each in config.evaluators if each["source"] != "custom"]
    own = {each["name"]: _metric(each) for each in config.evaluators if each["source"] == "custom"}
    found["evaluators"] = own or None
    found["metric_params"] = dict(config.metric_params)
    if config.judge is not None:
        found["model_config"] = model_config_of(config.judge)
    if config.embedding is not None:
        found["embedding_config"] = embedding_config_of(config.embedding)
    if config.target is not None:
        found["target"] = _target(config.target)
    if config.parameters:
        found["params_grid"] = [dict(config.parameters)]
    return {name: value for name, value in found.items() if value is not None}


def _metric(described: Mapping[str, Any]) -> str:
    name = str(described["name"])
    if described["source"] == "builtin":
        return name
    if described.get("origin") is None:
        raise InputError(f"evaluator {name!r} must be named module:function to be made again, but was an object")
    return str(described["origin"])


def _target(config: Mapping[str, Any]) -> Any:
    if config.get("kind") == "function":
        if not config.get("origin"):
            raise InputError(f"target {config.get('name')!r} must be named module:function to be made again")
        return config["origin"]
    if config.get("masked"):
        raise InputError(f"target {config.get('name')!r} must be given again, since it had a secret by value")
    return {name: value for name, value in config.items() if name not in _OF_TARGET}


def model_config_of(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the ``model_config`` that makes a judge of a stored identity.

    Raises:
        InputError: the judge was an object of its process, or had its key, token or credential by value.
    """
    kind = identity.get("kind")
    if kind not in ("openai", "azure"):
        raise InputError(
            f"judge must be given again, since it was an object of its process: {without_connection(identity)}"
        )
    _check_stored("model_config", identity)
    asked = dict(identity.get("parameters") or {})
    config: dict[str, Any] = {name: asked.pop(name) for name in _OF_REQUESTS if name in asked}
    asked.pop("logprobs", None)
    for name in ("temperature", "max_tokens"):
        config.setdefault(name, None)
    config |= {"extra": asked} if asked else {}
    config |= {"response_format": identity["response_format"]} if "response_format" in identity else {}
    config |= {name: identity[name] for name in _OF_CONNECTION if name in identity}
    if kind == "azure":
        config |= _azure_of(identity)
    else:
        config |= {"model": identity["model"], "base_url": identity["base_url"]}
    return {**config, "api_type": kind}


def embedding_config_of(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the ``embedding_config`` that makes an embedder of a stored identity.

    Raises:
        InputError: it was an object of its process, or had its key, token or credential by value.
    """
    kind = identity.get("kind")
    # A stored run of an earlier release may have Azure's without a version, which is not enough to ask again.
    if kind != "OpenAIEmbedder" and not (kind == "AzureEmbedder" and "api_version" in identity):
        raise InputError(f"embedding_config must be given again, since it cannot be made again from {dict(identity)}")
    _check_stored("embedding_config", identity)
    names = ("dimensions", *_OF_CONNECTION)
    config = {name: identity[name] for name in names if identity.get(name) is not None}
    if kind == "AzureEmbedder":
        return {**_azure_of(identity), **config}
    return {"model": identity["model"], "base_url": identity["base_url"], **config}


def _azure_of(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that name the deployment of a stored identity."""
    version = identity.get("api_version")
    named = {} if version is None else {"api_version": version}
    return {"azure_endpoint": identity["base_url"], "azure_deployment": identity["model"], **named}


def _check_stored(name: str, identity: Mapping[str, Any]) -> None:
    """Raises if a stored identity lacks a secret that was given by value."""
    if identity.get("key_by_value"):
        what = f"credential, {identity['credential']}," if "credential" in identity else "key"
        what = what if "extra_headers" not in identity else f"{what} or a header"
        raise InputError(f"{name} must be given again, since its {what} was given by value and is not stored")


def without_connection(identity: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns an identity without its connection, which may differ when a run is resumed."""
    return {name: value for name, value in (identity or {}).items() if name not in (*_OF_CONNECTION, "key_by_value")}


def load_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a configuration file: the keyword arguments of :func:`valor_gpu.evaluate`.

    Args:
        path: a file in YAML (``.yaml``, ``.yml``; extra ``eval``) or JSON (any other name); also the ``run.json`` of a
            run, which then is made again. Paths in it are relative to the current folder. Keys of services are named,
            ``api_key_env: OPENAI_API_KEY``, and not written into it.

    Returns:
        Keyword arguments; objects of Python, such as functions, are named as ``module:function``.

    Raises:
        InputError: there is no such file, it is no mapping, or it has keys that are no argument.
        MissingExtraError: YAML without the package pyyaml.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "capitals.json"
        ...     _ = file.write_text('{"data": "rows.csv", "metrics_list": ["f1_score"]}')
        ...     load_config(file)
        {'data': 'rows.csv', 'metrics_list': ['f1_score']}
    """
    found = read_mapping(path)
    if "config" in found and "run_id" in found:  # run.json, which a run has written
        return arguments_of(RunConfig.from_dict(found["config"]))
    check_keys(os.fspath(path), found, [argument for argument in ARGUMENTS if argument not in _NOT_IN_FILES])
    return found


def read_mapping(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a mapping out of a file in YAML or JSON, as :func:`load_config` does, whatever its keys.

    Raises:
        InputError: there is no such file, it is no mapping, or a key is in it twice.
        MissingExtraError: YAML without the package pyyaml.
    """
    name = os.fspath(path)
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"configuration must be a file of UTF-8 that can be read but {name}: {error}") from None
    found = _yaml(name, text) if Path(name).suffix.lower() in _YAML else _json(name, text)
    if not isinstance(found, Mapping):
        raise InputError(f"{name} must hold a mapping of arguments but holds {type(found).__name__}")
    return dict(found)


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=keys_once, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} must be JSON (YAML has the ending .yaml): {error}") from None


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text:.40} is no number of JSON that float64 has")
    return value


def _yaml(name: str, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("pyyaml", "eval", "configuration in YAML") from None
    try:
        check_keys_once(name, yaml.compose(text, Loader=yaml.SafeLoader))
        return yaml.safe_load(text)
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2024-13-45
        raise InputError(f"{name} must be YAML: {error}") from None


def check_keys_once(name: str, root: Any) -> None:
    """Raises if a mapping of a YAML document has a key twice, since the loader would drop the first.

    Args:
        name: of the document, for the message.
        root: its node.

    Raises:
        InputError: it has.
    """
    nodes, seen = [root], set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))  # an alias is the node that it names
        pairs = [each for each in node.value if isinstance(each, tuple)]
        try:
            keys_once([(key.value, value) for key, value in pairs if isinstance(key.value, str)])
        except ValueError as error:
            raise InputError(f"{name} must have each key once but {error}") from None
        nodes += [each[1] if isinstance(each, tuple) else each for each in node.value]
