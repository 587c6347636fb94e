"""``--fail-if`` and ``--fail-under``, which decide the exit status; ``--junit`` and ``--markdown`` for CI servers."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.options import STANDARD_INPUT, output_path
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from valor_gpu.gates.decisions import Decision
    from valor_gpu.gates.grammar import Gate
    from valor_gpu.result import Result

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def add_fail_options(command: argparse.ArgumentParser) -> None:
    """Adds ``--fail-under`` and ``--fail-if`` of a command with one result; :func:`fail_status` reads them."""
    _add_fail_under_option(command)
    add_gate_option(command, "a number of the result (names as of --fail-under, and counts/images)", "map<0.37")


def add_gate_option(command: argparse.ArgumentParser, whose: str, example: str) -> None:
    """Adds ``--fail-if``.

    Args:
        command: that gets it.
        whose: numbers the gates are about.
        example: of a gate.
    """
    command.add_argument("--fail-if", type=_gate, action="append", default=[], metavar="GATE",
        help=f"exit status 1 if {whose} is so, or does not exist: \"{example}\"; conditions joined by and must all"
        " hold; again for alternatives")  # fmt: skip


def _gate(text: str) -> Gate:
    from valor_gpu.gates.grammar import parse_gate

    try:
        return parse_gate(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_summary_options(command: argparse.ArgumentParser) -> None:
    """Adds ``--junit``, ``--markdown`` and ``--step-summary``; :func:`write_summaries` reads them."""
    add = command.add_argument
    add("--junit", type=output_path, metavar="FILE",
        help="write JUnit XML with a test case for each gate, which CI servers show")  # fmt: skip
    add("--markdown", type=output_path, metavar="FILE",
        help="write a summary in Markdown, for a pull request; - prints it on standard output in place of the"
        " report")  # fmt: skip
    add("--step-summary", action="store_true",
        help=f"append that summary to the file of {_STEP_SUMMARY}, the page of a job of GitHub Actions")  # fmt: skip


def summary_outputs(options: argparse.Namespace) -> list[tuple[str, Path | None]]:
    """Returns the options of :func:`add_summary_options` and their files, for checks before any work.

    Raises:
        InputError: ``--step-summary`` without its environment variable, or two outputs on standard output.
    """
    from valor_gpu.report.files import is_standard_output

    if options.step_summary and not os.environ.get(_STEP_SUMMARY):
        raise InputError(f"--step-summary needs the environment variable {_STEP_SUMMARY} but it is not set: outside"
                         " GitHub Actions use --markdown FILE")  # fmt: skip
    printed = [name for name in ("json", "markdown") if is_standard_output_of(options, name)]
    if len(printed) > 1:
        raise InputError("--json and --markdown must not both be standard output but are: give one of them a file")
    for name in ("junit", "report"):
        if str(getattr(options, name, None)) == STANDARD_INPUT:
            raise InputError(f"--{name} must be a file but - is standard output")
    markdown = None if options.markdown is None or is_standard_output(options.markdown) else options.markdown
    page = output_path(os.environ[_STEP_SUMMARY]) if options.step_summary else None
    return [("--junit", options.junit), ("--markdown", markdown), (f"--step-summary ({_STEP_SUMMARY})", page)]


def is_standard_output_of(options: argparse.Namespace, name: str) -> bool:
    """Returns whether an option's file is standard output."""
    from valor_gpu.report.files import is_standard_output

    path = getattr(options, name, None)
    return path is not None and is_standard_output(path)


def decisions_of(
    options: argparse.Namespace, numbers: Mapping[str, float | None], reason: Callable[[str], str | None]
) -> list[Decision]:
    """Returns the decisions of ``--fail-if``.

    Raises:
        InputError: a gate names no number.
    """
    if not options.fail_if:
        return []
    from valor_gpu.gates.decisions import decide

    with _named():
        return decide(numbers, options.fail_if, reason, fail_if=True)


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Names the option in what is wrong with its value."""
    try:
        yield
    except InputError as error:
        raise InputError(f"--fail-if: {error}") from None


def say_failed(options: argparse.Namespace, failed: Sequence[object]) -> int:
    """Says on standard error which gates failed; returns the exit status."""
    from valor_gpu.cli import FAILURE, OK

    if not failed:
        return OK
    from valor_gpu.report.text import printable_lines

    for each in failed:
        print(printable_lines(f"valor-gpu {options.command}: failed: {each}"), file=sys.stderr)
    return FAILURE


def fail_status(options: argparse.Namespace, result: Result) -> int:
    """Says on standard error which of :func:`add_fail_options` failed; returns the exit status.

    Raises:
        InputError: the result has no number of a name.
    """
    decisions: list[Decision] = []
    if options.fail_if:
        from valor_gpu.gates.subjects import subject_of

        decisions = decisions_of(options, *subject_of(result))
    status = _fail_under_status(options, result)
    return say_failed(options, [each for each in decisions if each.failed]) or status


def _add_fail_under_option(command: argparse.ArgumentParser) -> None:
    """Adds ``--fail-under``."""
    command.add_argument("--fail-under", type=_least, action="append", default=[], metavar="NUMBER=VALUE",
        help="exit status 1 if a number of the result is below VALUE, or does not exist: map=0.37; names are those of"
        " values in --json, parts joined by /, with --intervals also map_low; again for several")  # fmt: skip


def _least(text: str) -> tuple[str, float]:
    """A name and the least value of its number; names of classes may hold ``=``."""
    name, _, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not name.strip() or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be NUMBER=VALUE, such as map=0.37, but got {text!r}")
    return name.strip(), number


def _fail_under_status(options: argparse.Namespace, result: Result) -> int:
    """Says on standard error which numbers are below their least value, or do not exist; returns the exit status.

    Raises:
        InputError: the result has no number of a name.
    """
    from valor_gpu.cli import FAILURE, OK

    if not options.fail_under:
        return OK
    numbers, failed = result.scalars(), []
    # Numbers have all their digits: the AP of perfect detections is below 1 by its last bit, as in pycocotools.
    for name, least in options.fail_under:
        if name not in numbers:
            from valor_gpu.checks import near_names

            raise InputError(f"--fail-under needs a number of the result but got {name}{near_names(name, numbers)}")
        value = numbers[name]
        if math.isnan(value):
            reason = result.reason(name)
            failed.append(f"{name} must be at least {least!r} but does not exist{f': {reason}' if reason else ''}")
        elif value < least:
            failed.append(f"{name} must be at least {least!r} but is {value!r}")
    for line in failed:
        print(f"valor-gpu {options.command}: failed: {line}", file=sys.stderr)
    return FAILURE if failed else OK


def write_summaries(
    options: argparse.Namespace,
    decisions: Sequence[Decision],
    numbers: Mapping[str, float | None],
    seconds: float,
    markdown: Callable[[], str],
) -> list[str]:
    """Writes what :func:`add_summary_options` ask for; returns the paths.

    Args:
        options: of the command.
        decisions: of the gates.
        numbers: that gates can name; those of no class, and those that gates name, become properties in JUnit XML.
        seconds: wall time of the command.
        markdown: makes the summary.
    """
    from valor_gpu.report.files import write_file

    written = []
    if options.junit is not None:
        from valor_gpu.gates.junit import junit_xml

        named = {name for each in decisions for name in each.gate.names}
        shown: dict[str, Any] = {name: each for name, each in numbers.items() if "/" not in name or name in named}
        write_file(options.junit, junit_xml(f"valor-gpu {options.command}", decisions, shown, seconds).encode())
        written.append(options.junit)
    if options.markdown is not None or options.step_summary:
        text = markdown()
        if options.step_summary:
            with open(os.environ[_STEP_SUMMARY], "a", encoding="utf-8") as file:
                file.write(text)
        if options.markdown is not None and is_standard_output_of(options, "markdown"):
            print(text, end="")
        elif options.markdown is not None:
            write_file(options.markdown, text.encode())
            written.append(options.markdown)
    return [str(path) for path in written]
