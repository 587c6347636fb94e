"""What the commands of ``valor-gpu eval`` share: the store and its runs, judges, gates."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.options import add_param_option, check_outputs, count, input_path, paths_of, setting
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from valor_gpu.store import Run, Store

KEY_REASON = (
    "every user of the machine sees the command line, and the shell keeps it; put the key into an environment variable"
    " and give the name of that, --api-key-env NAME, or ${env:NAME} in an address"
)
_JUDGE = {
    "model": "model",
    "base_url": "base_url",
    "api_key_env": "api_key_env",
    "azure_endpoint": "azure_endpoint",
    "azure_deployment": "azure_deployment",
    "api_version": "api_version",
    "azure_ad_token_env": "azure_ad_token_env",
    "credential": "credential",
}
"""Options of the judge, by the key that they have in ``model_config``."""
_KINDS = (("model", "base_url"), ("azure_endpoint", "azure_deployment", "api_version"))
_REACHED_BY = ("api_key_env", "azure_ad_token_env", "credential")


def add_store_option(command: argparse._ActionsContainer) -> None:
    """Adds ``--store``."""
    command.add_argument("--store", type=input_path, metavar="FILE",
        help="file of runs; default: that of the environment variable VALOR_GPU_STORE, else valor_gpu/store.sqlite in"
        " the folder of the user's data")  # fmt: skip


def add_prompts_option(command: argparse._ActionsContainer) -> None:
    """Adds ``--no-prompts``."""
    command.add_argument("--no-prompts", dest="keep_prompts", action="store_false", default=None,
        help="keep no prompts and no requests in the store, only replies, tokens, seconds and retries")  # fmt: skip


def add_run_argument(command: argparse.ArgumentParser, default: str = "") -> None:
    """Adds the run that a command is about; ``default`` is what stands for none."""
    text = "id of the run, or its name: the newest of that name" + (f"; default: {default}" if default else "")
    command.add_argument("run_id", metavar="RUN", nargs="?" if default else None, help=text)


def existing_store(options: argparse.Namespace) -> Store:
    """The store of ``--store``; raises where there is none, since opening would make an empty one."""
    from valor_gpu.store import Store
    from valor_gpu.store.database import default_path

    path = default_path() if options.store is None else options.store
    if not os.path.exists(path):
        raise InputError(f"--store must be a file of runs but {path} does not exist: valor-gpu eval run makes it")
    return Store(path)


def found_run(store: Store, name: str) -> Run:
    """The run of an id or name; raises with names that look alike."""
    from valor_gpu.checks import near_names

    try:
        return store.run(name)
    except InputError as error:
        known = [word for head in store.heads() if not head.damage for word in (head.id, head.name)]
        raise InputError(f"{error}{near_names(name, known)}") from None


def add_judge_options(command: argparse.ArgumentParser) -> None:
    """Adds the options that say which language model judges."""
    add = command.add_argument_group("judge").add_argument
    add("--model", metavar="NAME", help="judge: model of OpenAI, or of the server at --base-url")
    add("--base-url", metavar="URL",
        help="judge: server that speaks OpenAI's chat completions, for example http://127.0.0.1:8000/v1")  # fmt: skip
    add("--api-key-env", type=variable, metavar="NAME",
        help="environment variable that holds the judge's key; default: OPENAI_API_KEY, of Azure AZURE_OPENAI_API_KEY;"
        " a server at --base-url needs none")  # fmt: skip
    add("--azure-endpoint", metavar="URL", help="judge: address of a resource of Azure OpenAI")
    add("--azure-deployment", metavar="NAME", help="judge: name of the deployment there")
    add("--api-version", metavar="DATE",
        help="judge: version of Azure's interface; default: OPENAI_API_VERSION, else 2024-10-21")  # fmt: skip
    add("--azure-ad-token-env", type=variable, metavar="NAME",
        help="environment variable that holds a token of Entra ID, in place of a key")  # fmt: skip
    add("--credential", choices=["default"],
        help="sign in to Azure by DefaultAzureCredential of azure-identity, in place of a key")  # fmt: skip
    add("--model-config", type=input_path, metavar="FILE",
        help="judge: JSON or YAML file with the same names, and temperature, max_tokens and others; options above"
        " replace what it says")  # fmt: skip
    add("--max-concurrency", type=count, metavar="N", help="requests to the judge at the same time")
    add("--rpm", type=positive, metavar="N", help="at most so many requests a minute")
    add("--tpm", type=positive, metavar="N", help="at most so many tokens a minute")
    add(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help="of a judge's reply: default 120; of a target's answer: default 600",
    )


def add_spending_options(command: argparse.ArgumentParser) -> None:
    """Adds what keeps a run from costing too much."""
    add = command.add_argument_group("cost").add_argument
    add("--cache", type=input_path, metavar="FILE", help="file of the judge's replies, which are not asked for again")
    add("--max-cost", type=positive, metavar="AMOUNT", help="stop when the run has cost so much; needs --price")
    add("--price", type=setting, action="append", default=[], metavar="NAME=AMOUNT",
        help="of a million tokens: prompt=0.15, completion=0.6, cached=0.08, currency=USD; again for each")  # fmt: skip


def add_metric_settings(command: argparse._ActionsContainer) -> None:
    """Adds parameters and thresholds of metrics."""
    add_param_option(command)
    add_threshold_option(command)


def add_threshold_option(command: argparse._ActionsContainer, where: str = "") -> None:
    """Adds ``--threshold``."""
    command.add_argument("--threshold", type=setting, action="append", default=[], metavar="METRIC=VALUE",
        help=f"{where}what a row must reach to pass; of severities the level that is a defect; again for"
        " several")  # fmt: skip


def limits_of(options: argparse.Namespace) -> dict[str, Any]:
    """The limits that are given, as arguments of ``evaluate``."""
    names = ("max_concurrency", "rpm", "tpm", "timeout")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def model_config_of(options: argparse.Namespace, configured: Any = None) -> dict[str, Any] | None:
    """The judge's configuration; None where nothing names a judge.

    Args:
        options: of the command line, which replace what files say.
        configured: ``model_config`` of a configuration file.
    """
    given = {key: getattr(options, name) for name, key in _JUDGE.items() if getattr(options, name) is not None}
    kinds = [[f"--{name.replace('_', '-')}" for name in kind if name in given] for kind in _KINDS]
    if all(kinds):
        raise InputError(f"{kinds[0][0]} must not go with {kinds[1][0]}: the first is for OpenAI's interface, the"
                         " second for Azure's")  # fmt: skip
    ways = [f"--{name.replace('_', '-')}" for name in _REACHED_BY if name in given]
    if len(ways) > 1:
        raise InputError(f"{ways[0]} must not go with {ways[1]}: give one way to reach the judge")
    base = configured or {}
    if options.model_config is not None:
        from valor_gpu.evaluation.config import read_mapping

        base = read_mapping(options.model_config)
    if given and not isinstance(base, Mapping):
        raise InputError(f"model_config must be a mapping but is {type(base).__name__}")
    for kind, other in zip(kinds, reversed(_KINDS)):
        if kind and base:  # a model of the one kind in place of one of the other
            base = {key: value for key, value in base.items() if key not in other}
    if ways:
        base = {key: value for key, value in base.items() if key not in (*_REACHED_BY, "api_key")}
    return {**base, **given} or None


def run_here() -> None:
    """Lets ``module:function`` name modules of the current folder, behind all that is installed."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


_FILES = {
    "CONFIG": "config", "--data": "data", "--model-config": "model_config", "--embedding-config": "embedding_config",
    "--cache": "cache", "--store": "store",
}  # fmt: skip
"""Files that a command reads, or goes on with."""


def check_files(options: argparse.Namespace, *outputs: str | tuple[str, Path | None]) -> None:
    """Raises where an output cannot be written, or would replace a file that the command needs.

    Args:
        options: of the command line.
        outputs: names of options without dashes, or options and their files; by default ``json``.
    """
    needed = paths_of([(option, getattr(options, name, None)) for option, name in _FILES.items()])
    files = [(f"--{each}", getattr(options, each)) if isinstance(each, str) else each for each in outputs or ("json",)]
    check_outputs(files, needed)


def write_document(options: argparse.Namespace, command: str, found: Mapping[str, Any]) -> bool:
    """Writes what ``--json`` asks for; returns whether that was standard output, which then has no report."""
    if options.json is None:
        return False
    from valor_gpu.report.document import document_head
    from valor_gpu.report.files import is_standard_output, write_json

    write_json(options.json, {**document_head(command), **found})
    return is_standard_output(options.json)


def variable(text: str) -> str:
    """The name of an environment variable; a message has no value, which may be a key."""
    if not text.isidentifier() or text.startswith(("sk_", "sk-")):
        raise argparse.ArgumentTypeError("must be the NAME of an environment variable, of letters, digits and _, not"
                                         f" the key itself: {KEY_REASON}")  # fmt: skip
    return text


def positive(text: str) -> float:
    """A finite number greater than 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number greater than 0 but got {text!r}")
    return number


def settings_of(option: str, given: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Settings ``name=value`` as a mapping; raises where a name comes twice."""
    found: dict[str, Any] = {}
    for name, value in given:
        if name in found:
            raise InputError(f"{option} must set {name} once but sets it twice")
        found[name] = value
    return found
