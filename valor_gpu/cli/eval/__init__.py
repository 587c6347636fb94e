"""``valor-gpu eval``: evaluations of data sets, and the runs that they leave in the store."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Sequence
from typing import Any

from valor_gpu.cli.eval.options import KEY_REASON

_COMMANDS = {
    "run": "evaluate a data set, or what a target answers to it, by metrics of texts, checks and judges",
    "show": "numbers of a run, and the rows that failed",
    "list": "runs in the store, the newest first",
    "compare": "differences of two runs with intervals and p-values, row by row of the same key",
    "resume": "go on with a run that was interrupted, stopped at its cost, or has failed scores",
    "rescore": "add or renew scores of a run without calling its target again",
    "export": "write a run as one HTML page, CSV or JSON lines",
    "evaluators": "evaluators by name, built in or saved in the store, and their versions",
}
"""Modules of this package, and what they are for."""

_WORD = re.compile(r"--?[a-z-]+|[^-=: ]*")
"""What needs no closer look, which takes some milliseconds for its expressions."""
_KEY_OPTION = re.compile(r"--?[a-z-]*(api-?key|token|secret|password)s?")


def add_options(whole: argparse.ArgumentParser) -> None:
    """Adds the commands, each with its options and what runs it."""
    commands = whole.add_subparsers(dest="subcommand", required=True, metavar="command")
    for name, about in _COMMANDS.items():
        add_command(commands, name, about, f"valor_gpu.cli.eval.{name}")


def add_command(commands: Any, name: str, about: str, module: str) -> None:
    """Adds a command whose options a module knows."""
    described = {"description": f"{about[0].upper()}{about[1:]}.", "formatter_class": _Narrow}
    command = commands.add_parser(name, help=about, allow_abbrev=False, **described)
    importlib.import_module(module).add_options(command)
    command.formatter_class = argparse.HelpFormatter


class _Narrow(argparse.HelpFormatter):
    """While options are added; see :mod:`valor_gpu.cli`."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


def check_arguments(whole: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Ends the process with status 2 where an argument looks like a key; no message has its value."""
    for before, argument in zip(["", *arguments], arguments):
        option, equals, _ = argument.partition("=")
        if "--param" in (before, option):  # of metrics, such as a pattern that looks for keys in answers
            continue
        if _KEY_OPTION.fullmatch(option.lower().replace("_", "-")):
            whole.error(f"{option} is no option: {KEY_REASON}")
        if not _WORD.fullmatch(argument):
            from valor_gpu.evaluation.secrets import Secrets

            if Secrets().mask(argument) != argument:
                name = f"{option} has a value that" if equals and option.startswith("-") else "an argument"
                whole.error(f"{name} looks like an API key or password: {KEY_REASON}")
