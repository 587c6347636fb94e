"""``valor-gpu eval resume``: what an interrupted run did not get to."""

from __future__ import annotations

import argparse

from valor_gpu.cli.eval.again import add_again_options, go_on
from valor_gpu.cli.options import input_path


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add_again_options(command)
    add = command.add_argument
    add("--data", type=input_path, metavar="FILE", help="the data again, where they came from standard input")
    add("--target", metavar="ADDRESS", help="what answers, where the run's own cannot be made again")
    add("--on-error", choices=("record", "raise"), help="as in valor-gpu eval run")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    return go_on(options, "resume_run", {"data": options.data, "target": options.target, "on_error": options.on_error})
