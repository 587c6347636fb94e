"""``valor-gpu eval rescore``: scores by other metrics, or again, of answers that a run has."""

from __future__ import annotations

import argparse

from valor_gpu.cli.eval.again import add_again_options, go_on
from valor_gpu.cli.eval.options import add_metric_settings, settings_of
from valor_gpu.cli.options import metric_parameters, names


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add_again_options(command)
    command.add_argument("--metrics", type=names, required=True, metavar="NAME[,NAME...]",
        help="what scores the stored answers, as in valor-gpu eval run")  # fmt: skip
    add_metric_settings(command)
    command.add_argument("--baseline", metavar="RUN", help="run whose answers preference rates against")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    arguments = {
        "metrics_list": list(options.metrics),
        "metric_params": metric_parameters(options.param) or None,
        "thresholds": settings_of("--threshold", options.threshold) or None,
        "baseline": options.baseline,
    }
    return go_on(options, "rescore_run", arguments)
