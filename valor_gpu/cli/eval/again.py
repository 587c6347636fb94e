"""What ``resume`` and ``rescore`` share: a run of the store that goes on."""

from __future__ import annotations

import argparse
from typing import Any

from valor_gpu.cli.eval.gates import add_summary_gate_option
from valor_gpu.cli.eval.options import (
    add_judge_options,
    add_prompts_option,
    add_run_argument,
    add_spending_options,
    add_store_option,
    check_files,
    existing_store,
    found_run,
    limits_of,
    model_config_of,
    settings_of,
)
from valor_gpu.cli.eval.outcome import evaluated
from valor_gpu.cli.options import add_report_options


def add_again_options(command: argparse.ArgumentParser) -> None:
    """Adds the run, the store, the judge, gates and the report."""
    add_run_argument(command)
    add_store_option(command)
    add_prompts_option(command)
    add_judge_options(command)
    add_spending_options(command)
    add_summary_gate_option(command)
    add_report_options(command)


def go_on(options: argparse.Namespace, function: str, arguments: dict[str, Any]) -> int:
    """Calls a function of :mod:`valor_gpu.evaluation.resume` with the store and the id of the run; returns the status.

    Args:
        options: of the command line.
        function: name of the function.
        arguments: of it beside those of the judge; None is left out.
    """
    check_files(options)
    spending = {"cache": options.cache, "max_cost": options.max_cost, "keep_prompts": options.keep_prompts}
    given = {
        **arguments,
        **spending,
        "prices": settings_of("--price", options.price) or None,
        "model_config": model_config_of(options),
        **limits_of(options),
    }
    with existing_store(options) as store:
        run_id = found_run(store, options.run_id).id

        def start(**more: Any) -> Any:
            from valor_gpu.evaluation import resume

            known = {name: value for name, value in given.items() if value is not None}
            return getattr(resume, function)(store, run_id, **known, **more)

        return evaluated(options, start)
