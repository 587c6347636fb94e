"""What forms may choose: targets, judges and evaluators of code, named by a file when the server is started.

Example of such a file::

    targets:
      shop: shop.bot:answer
      model:
        use: {model: small, base_url: "http://127.0.0.1:8000/v1", prompt: "{{ question }}"}
        about: the small model with the plain prompt
        variants: {cold: {temperature: 0}, warm: {temperature: 0.7}}
    judges:
      local: {model: large, base_url: "http://127.0.0.1:8000/v1", api_key_env: JUDGE_KEY,
              prices: {prompt: 0.15, completion: 0.6}}
    evaluators:
      cites_rule: shop.checks:cites_rule
    embeddings:
      small: {model: bge-small, base_url: "http://127.0.0.1:8001/v1"}
    folders:
      wordnet 3: /usr/share/wordnet
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.config import read_mapping
from valor_gpu.evaluation.connections import CONFIG_KEYS, VALUE_KEYS
from valor_gpu.evaluation.evaluators.objects import is_object_name, load_object
from valor_gpu.evaluation.models import judge_from_config, prices_of
from valor_gpu.evaluation.secrets import Secrets, has_reference, is_secret_name, names_secret
from valor_gpu.judge.protocol import Judge
from valor_gpu.web.model_names import MODELS, model_of
from valor_gpu.web.security import looks_like_key

KINDS = ("targets", "judges", "evaluators", "embeddings", "folders")
_TARGET_KEYS = ("use", "variants", "about")
_OF_EMBEDDING = ("model", "base_url", "azure_endpoint", "azure_deployment", "api_version", "api_key_env",
                 "azure_ad_token_env", "credential", "organization", "extra_headers", "dimensions")  # fmt: skip


@dataclass(frozen=True)
class Registry:
    """What forms choose among, by name.

    Attributes:
        targets: each with ``use`` (as the argument ``target`` of :func:`valor_gpu.evaluate`), ``variants`` (name to
            parameters, perhaps none) and ``about``.
        judges: configurations as of ``model_config``, perhaps with ``prices``; without keys.
        evaluators: name to ``module:function``.
        embeddings: configurations of models of embeddings, as of ``embedding_config``; without keys.
        folders: name to the absolute path of a folder on this machine that metrics read, such as a WordNet database.
    """

    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    evaluators: Mapping[str, str] = field(default_factory=dict)
    embeddings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)


def load_registry(path: str | os.PathLike[str]) -> Registry:
    """Reads a registry from a file in YAML or JSON.

    Raises:
        InputError: no such file, or entries that cannot be; the message names all of them.
    """
    return read_registry(read_mapping(path), os.fspath(path))


def read_registry(found: Mapping[str, Any], name: str = "registry") -> Registry:
    """The registry of a mapping with ``targets``, ``judges``, ``evaluators``, ``embeddings`` and ``folders``.

    Args:
        found: what a file holds.
        name: of the file, for messages.

    Raises:
        InputError: entries that cannot be; the message names all of them.

    Example:
        >>> registry = read_registry({"evaluators": {"as_json": "json:dumps"}})
        >>> registry.evaluators, registry.judges
        ({'as_json': 'json:dumps'}, {})
    """
    unknown = [str(key) for key in found if key not in KINDS]
    problems = [f"{key!r:.80} is none of {', '.join(KINDS)}{near_names(key, KINDS)}" for key in unknown]
    readers = (_target, _judge, _evaluator, _embedding, _folder)
    parts = [_part(found.get(kind), kind, reader, problems) for kind, reader in zip(KINDS, readers)]
    if problems:
        raise InputError(
            f"{name} must have entries that can be used, but:" + "".join(f"\n  {each}" for each in problems)
        )
    return Registry(*parts)


def _part(entries: Any, kind: str, read: Callable[[Any], Any], problems: list[str]) -> dict[str, Any]:
    """The entries of a part that can be; what is wrong with the others goes to ``problems``."""
    if not isinstance(entries, Mapping | None):
        problems.append(f"{kind} must be a mapping of names but is {type(entries).__name__}")
        return {}
    made = {}
    for name, entry in (entries or {}).items():
        found, problem = _read(name, entry, read)
        if problem:
            problems.append(f"{kind}.{name!s:.80}: {problem}")
        else:
            made[name] = found
    return made


def _read(name: Any, entry: Any, read: Callable[[Any], Any]) -> tuple[Any, str]:
    """An entry, and what is wrong with it."""
    try:
        if not isinstance(name, str) or not name.strip() or len(name) > 100:
            raise InputError("a name must be a text of 1 to 100 characters")
        _check_secrets(entry)
        return read(entry), ""
    except InputError as error:
        return None, str(error)


def _check_secrets(entry: Any) -> None:
    for name, text in named_texts(entry):
        named = is_secret_name(name) and not (has_reference(text) or names_secret(name, text))
        if named or looks_like_key(text):
            raise InputError(
                f"{name or 'it'} has a secret by value: name an environment variable by 'api_key_env' or"
                " 'azure_ad_token_env', or write ${env:NAME} in a header or an address"
            )


def named_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields every text of a JSON value behind the name that it goes by."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from named_texts(each, str(key))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from named_texts(each, name)


def _target(entry: Any) -> dict[str, Any]:
    said = dict(entry) if isinstance(entry, Mapping) and "use" in entry else {"use": entry}
    for key in said:
        if key not in _TARGET_KEYS:
            raise InputError(f"{key!r} is none of {', '.join(_TARGET_KEYS)}{near_names(key, _TARGET_KEYS)}")
    variants, about = said.get("variants") or {}, said.get("about") or ""
    if not isinstance(about, str):
        raise InputError(f"about must be a text but is {type(about).__name__}")
    if not isinstance(variants, Mapping) or not all(
        isinstance(name, str) and isinstance(each, Mapping) and each for name, each in variants.items()
    ):
        raise InputError("variants must have names, each with a mapping of parameters")
    _check_use(said["use"])
    return {"use": said["use"], "variants": {name: dict(each) for name, each in variants.items()}, "about": about}


def _check_use(use: Any) -> None:
    if isinstance(use, str) and is_object_name(use):
        load_object(use)
    elif isinstance(use, str) and use.startswith(("http://", "https://")):
        pass
    elif not (isinstance(use, Mapping) and ("url" in use or set(use) & set(MODELS))):
        raise InputError("it must be 'module:function', an address, or a mapping with 'url' or 'model'")


def _judge(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise InputError(f"it must be a mapping with 'model' but is {type(entry).__name__}")
    known = (*(each for each in CONFIG_KEYS if each not in VALUE_KEYS), "prices")
    for key in entry:
        if key not in known:
            raise InputError(f"{str(key)!r:.80} is none of {', '.join(known)}{near_names(str(key), known)}")
    prices_of(entry.get("prices"), _named_model(entry))
    return dict(entry)


def _named_model(entry: Mapping[str, Any]) -> str:
    model = model_of(entry)
    if not model:
        raise InputError("it must name the model by 'model' or 'azure_deployment'")
    return model


def _evaluator(entry: Any) -> str:
    if not isinstance(entry, str) or not is_object_name(entry):
        raise InputError("it must be 'module:function' or 'file.py:function'")
    load_object(entry, "evaluator")
    return entry


def _embedding(entry: Any) -> dict[str, Any]:
    """A model that the process of a run can open again from the run's configuration."""
    if not isinstance(entry, Mapping):
        raise InputError(f"it must be a mapping with 'model' but is {type(entry).__name__}")
    for key in entry:
        if key not in _OF_EMBEDDING:
            raise InputError(
                f"{str(key)!r:.80} is none of {', '.join(_OF_EMBEDDING)}{near_names(str(key), _OF_EMBEDDING)}"
            )
    _named_model(entry)
    return dict(entry)


def _folder(entry: Any) -> str:
    if not isinstance(entry, str) or not os.path.isdir(entry):
        raise InputError(f"it must be a folder that exists but is {str(entry)!r:.200}")
    return os.path.abspath(entry)


def open_judge(registry: Registry | None, name: str, secrets: Secrets) -> Judge:
    """The judge of a name.

    Args:
        registry: of the server; None without any.
        name: of a judge.
        secrets: gets its key.

    Raises:
        InputError: no such name, or a judge that cannot be made, because the variable of its key is not set, say.
    """
    judges = {} if registry is None else registry.judges
    if name not in judges:
        raise InputError(f"judge must be a registered one of {', '.join(judges) or '(none)'} but is {name!r}")
    said = {key: value for key, value in judges[name].items() if key != "prices"}
    return judge_from_config(said, secrets=secrets, name=f"judge {name}")
