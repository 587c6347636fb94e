"""``valor-gpu eval run``: from a data set, or a configuration file, to a run in the store."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

from valor_gpu.cli.eval.gates import add_summary_gate_option
from valor_gpu.cli.eval.options import (
    add_judge_options,
    add_metric_settings,
    add_prompts_option,
    add_spending_options,
    add_store_option,
    check_files,
    limits_of,
    model_config_of,
    settings_of,
)
from valor_gpu.cli.eval.outcome import evaluated
from valor_gpu.cli.options import (
    TABLES,
    add_report_options,
    count,
    input_path,
    integer,
    metric_parameters,
    names,
    setting,
)
from valor_gpu.errors import InputError

_PLAIN = {
    "data": "data", "evaluation_name": "name", "task_type": "task", "target": "target", "metrics_list": "metrics",
    "output_path": "output", "tracking_uri": "tracking_uri", "cache": "cache", "repeats": "repeats",
    "epochs": "epochs", "slice_by": "slice_by", "key": "key", "limit": "limit", "max_cost": "max_cost",
    "baseline": "baseline", "store": "store", "on_error": "on_error", "seed": "seed",
    "keep_prompts": "keep_prompts",
}  # fmt: skip
"""Arguments of ``evaluate`` to the options that have their values as they are."""
_MAPPINGS = {
    "data_mapping": "map", "thresholds": "threshold", "tags": "tag", "prices": "price", "params_grid": "grid",
}  # fmt: skip
"""Arguments that are mappings to the options that set one name of them at a time."""


_OTHERS = {
    "metric_params": "--param", "model_config": "--model, --azure-deployment or --model-config",
    "embedding_config": "--embedding-model or --embedding-config",
}  # fmt: skip


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = command.add_argument
    add("config", type=input_path, nargs="?", metavar="CONFIG",
        help="YAML or JSON file with arguments of valor_gpu.evaluate; options replace what it says")  # fmt: skip
    add("--data", type=input_path, metavar="FILE", help=f"table with one row per sample: {TABLES}; or -")
    add("--metrics", type=names, metavar="NAME[,NAME...]",
        help="metrics by name, evaluators saved in the store (name or name@3), functions (module:function), files of"
        " prompts (.prompty); default: gpt_groundedness, gpt_relevance, gpt_coherence, as far as the data has what"
        " they need")  # fmt: skip
    add("--map", type=mapped, action="append", default=[], metavar="FIELD=COLUMN",
        help="where a field comes from: a column, ${data.column} or ${target.output}; again for several")  # fmt: skip
    add("--target", metavar="ADDRESS", help="what answers the rows: module:function, or http(s)://...")
    add("--task", choices=("qa", "chat"), help="kind of rows; default: by the columns")
    _add_metric_options(command)
    add_judge_options(command)
    add_spending_options(command)
    _add_run_options(command)
    add("--dry-run", action="store_true",
        help="check everything and show what the run would do: mapping, metrics, what is left out and why, rows and"
        " requests; nothing is asked or stored")  # fmt: skip
    add_summary_gate_option(command)
    add_report_options(command)
    command.set_defaults(run=run)


def _add_metric_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("metrics")
    add = group.add_argument
    add_metric_settings(group)
    add("--embedding-config", type=input_path, metavar="FILE",
        help="model of embeddings: JSON or YAML file with the names of --model-config")  # fmt: skip
    add("--embedding-model", metavar="NAME", help="model of embeddings at --base-url or OpenAI")
    add("--repeats", type=count, metavar="N", help="how often the judge rates each row: default 1")
    add("--epochs", type=count, metavar="N", help="how often the target answers each row: default 1")
    add("--grid", type=setting, action="append", default=[], metavar="NAME=LIST",
        help="values of a parameter of the target, as a JSON list, for example temperature=[0,1]: one run for each"
        " combination")  # fmt: skip
    add("--slice-by", type=names, metavar="COLUMN[,COLUMN...]", help="give every number for each value of these, too")


def _add_run_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("run")
    add = group.add_argument
    add("--name", metavar="TEXT", help="name of the run; default: the time")
    add("--key", metavar="COLUMN", help="column that names the rows; default: key, id, or a hash of the inputs")
    add("--limit", type=count, metavar="N", help="only the first rows")
    add("--baseline", metavar="RUN", help="run to compare with, and whose answers preference rates against")
    add("--on-error", choices=("record", "raise"),
        help="record (default): a row that fails has a reason, the others go on; raise: stop at the first")  # fmt: skip
    add("--output", type=input_path, metavar="DIR", help="also write eval_results.jsonl, metrics.json and others there")
    add("--tracking-uri", metavar="URI", help="also log the run to MLflow (extra mlflow)")
    add_store_option(group)
    add_prompts_option(group)
    add("--tag", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="tag of the run; again for several")  # fmt: skip
    add("--seed", type=integer, metavar="N", help="of everything random: default 0")


def mapped(text: str) -> tuple[str, str]:
    """A field and its reference: ``field=reference``."""
    field, equals, reference = text.partition("=")
    if not equals or not field.strip() or not reference.strip():
        raise argparse.ArgumentTypeError(f"must be FIELD=COLUMN but got {text!r}")
    return field.strip(), reference.strip()


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of :func:`valor_gpu.evaluate` that file and options say."""
    found: dict[str, Any] = {}
    if options.config is not None:
        from valor_gpu.evaluation.config import load_config

        found = load_config(options.config)
    given = {argument: getattr(options, name) for argument, name in _PLAIN.items()}
    found |= {argument: list(v) if isinstance(v, tuple) else v for argument, v in given.items() if v is not None}
    for argument, name in _MAPPINGS.items():
        said = settings_of(f"--{name}", getattr(options, name))
        if said:
            found[argument] = {**_mapping(argument, found.get(argument)), **said}
    if options.param:
        params = _mapping("metric_params", found.get("metric_params"))
        given_params = metric_parameters(options.param)
        found["metric_params"] = {**params, **{n: {**params.get(n, {}), **p} for n, p in given_params.items()}}
    found |= limits_of(options)
    model = model_config_of(options, found.get("model_config"))
    embedding = _embedding(options, found.get("embedding_config"))
    found |= {} if model is None else {"model_config": model}
    found |= {} if embedding is None else {"embedding_config": embedding}
    if found.get("data") is None:
        raise InputError("--data must be given, or data in a configuration file, but neither is")
    return found


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise InputError(f"{name} must be a mapping for options to add to it but is {type(value).__name__}")
    return value or {}


def _embedding(options: argparse.Namespace, configured: Any) -> Any:
    if options.embedding_config is not None:
        from valor_gpu.evaluation.config import read_mapping

        configured = read_mapping(options.embedding_config)
    if options.embedding_model is None:
        return configured
    found = {**_mapping("embedding_config", configured), "model": options.embedding_model}
    for name in ("base_url", "api_key_env", "azure_ad_token_env", "credential"):
        if getattr(options, name) is not None:
            found.setdefault(name, getattr(options, name))
    return found


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    check_files(options)
    arguments = arguments_of(options)

    def start(**more: Any) -> Any:
        from valor_gpu.evaluation.run import evaluate

        return evaluate(**arguments, **more)

    try:
        if not options.dry_run:
            return evaluated(options, start)
        from valor_gpu.cli.eval.dry_run import show_plan

        return show_plan(options, arguments)
    except InputError as error:
        raise InputError(f"{error}{_options_named(options, str(error))}") from None


def _options_named(options: argparse.Namespace, message: str) -> str:
    """The options of the arguments that a message names, for who gave no file with arguments."""
    if options.config is not None:
        return ""
    known = {**{name: f"--{option}".replace("_", "-") for name, option in {**_PLAIN, **_MAPPINGS}.items()}, **_OTHERS}
    found = {name: option for name, option in known.items() if "_" in name and re.search(rf"\b{name}\b", message)}
    return f" ({', '.join(f'{name}: {option}' for name, option in found.items())})" if found else ""
