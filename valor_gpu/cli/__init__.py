"""The command ``valor-gpu``.

Exit status: 0 fine; 1 a gate of ``--fail-if`` holds or has no number, a number is below ``--fail-under``, a run stopped
early, or another failure; 2 the command line or the data cannot be used, and standard error says where; 130
interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn, TextIO

from valor_gpu._version import __version__
from valor_gpu.errors import InputError, ValorError

OK, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_ABOUT = "Evaluation metrics where the tensors already are."
_COMMANDS = {
    "detect": "average precision and recall of boxes, masks or keypoints, from COCO JSON files",
    "classify": "accuracy, F1, ROC AUC, calibration and more of a classifier, from one table",
    "segment": "IoU and accuracy of semantic segmentation, from folders of label maps",
    "panoptic": "panoptic, segmentation and recognition quality, from COCO panoptic files",
    "compare": "whether a model is better than another: intervals and tests of differences, gates for CI",
    "text": "F1, ROUGE, BLEU and other numbers of predicted texts beside reference texts",
    "verify": "recompute the numbers of a JSON or saved result from its inputs; name the first difference",
    "retrieval": "nDCG, AP, recall and other numbers of ranked documents, from judgements and runs (TREC, tables)",
    "eval": "evaluate a data set or what answers it, by computed metrics and judges; show and compare runs",
    "offline": "evaluate data in many files: a pool, torchrun or Ray; stops and goes on, the same bits",
    "store": "whether the file of runs is whole; what is whole of a damaged one, as a new file",
    "studio": "evaluations in a browser, served on this machine",
    "doctor": "versions, devices, and which kernel serves each op, and why",
}
"""Modules of this package, and what they are for."""
_NESTED = ("subcommand", "action")
"""What commands of commands are called in the options."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        argv: arguments, default: the arguments of the process.

    Returns:
        The exit status. A command line that argparse rejects, ``--help`` and ``--version`` raise SystemExit instead.
    """
    options = _parsed(sys.argv[1:] if argv is None else list(argv))
    try:
        with _any_character(sys.stdout):
            status = options.run(options)
    except InputError as error:
        return _complain(options.command, error, BAD_INPUT)
    except (ValorError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at exit
            return FAILURE
        return _complain(options.command, error, FAILURE)
    except MemoryError as error:
        return _complain(options.command, f"not enough memory: {error}".removesuffix(": "), FAILURE)
    except KeyboardInterrupt:
        return _complain(options.command, "interrupted", INTERRUPTED)
    return OK if status is None else int(status)


@contextlib.contextmanager
def _any_character(stream: TextIO | None) -> Iterator[None]:
    """Shows as escapes the characters that the encoding of ``stream`` lacks, as standard error does; flushes it."""
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    errors = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
        stream.flush()
    finally:
        with contextlib.suppress(OSError):  # of what could not be flushed, which has its own error
            stream.reconfigure(errors=errors)


def _complain(command: str, error: object, status: int) -> int:
    from valor_gpu.report.text import printable_lines

    print(printable_lines(f"valor-gpu {command}: error: {error}"), file=sys.stderr)
    return status


def _parsed(argv: list[str]) -> argparse.Namespace:
    """Returns the options of a command line; with ``--json``, ``given`` has those that decide the numbers.

    The parser of the command alone reads them where it understands them all: the whole one takes longer.
    """
    if argv and argv[0] in _COMMANDS:
        command = argparse.ArgumentParser(f"valor-gpu {argv[0]}", allow_abbrev=False, **_described(argv[0]))
        module = _add_options(argv[0], command)
        if hasattr(module, "check_arguments"):
            module.check_arguments(command, argv[1:])
        options, unknown = command.parse_known_args(argv[1:])
        if not unknown:
            if getattr(options, "json", None) is not None:
                from valor_gpu.cli.given import given_options

                options.given = given_options(command, argv[0], argv[1:])
            options.command = " ".join([argv[0], *(vars(options).get(name) or "" for name in _NESTED)]).rstrip()
            return options
        _reject(command, options, unknown)
    return parser().parse_args(argv)


def _reject(command: argparse.ArgumentParser, options: argparse.Namespace, unknown: Sequence[str]) -> NoReturn:
    """Ends the process with the usage of the command that was asked for, and its options that look alike."""
    from valor_gpu.checks import near_names

    for name in _NESTED:
        chosen = vars(options).get(name)
        nested = (each.choices for each in command._actions if isinstance(each.choices, Mapping))
        command = next((choices[chosen] for choices in nested if chosen in choices), command)
    flags = [flag for each in command._actions for flag in each.option_strings]
    option = unknown[0].partition("=")[0]
    near = near_names(option, flags) if option.startswith("--") else ""
    command.error(f"unrecognized arguments: {' '.join(unknown)}{near}")


def parser() -> argparse.ArgumentParser:
    """The whole command line; docs/cli.md is made from it."""
    whole = argparse.ArgumentParser("valor-gpu", description=_ABOUT, formatter_class=_Narrow)
    whole.add_argument("--version", action="version", version=f"valor_gpu {__version__}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="command")
    for name, about in _COMMANDS.items():
        _add_options(name, commands.add_parser(name, help=about, allow_abbrev=False, **_described(name)))
    whole.formatter_class = argparse.HelpFormatter
    return whole


def _described(name: str) -> dict[str, Any]:
    about = _COMMANDS[name]
    return {"description": f"{about[0].upper()}{about[1:]}.", "formatter_class": _Narrow}


def _add_options(name: str, command: argparse.ArgumentParser) -> ModuleType:
    module = importlib.import_module(f"valor_gpu.cli.{name}")
    module.add_options(command)
    command.formatter_class = argparse.HelpFormatter
    return module


class _Narrow(argparse.HelpFormatter):
    """While options are added. Help is as wide as the terminal, but to find out how wide that is loads shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)
