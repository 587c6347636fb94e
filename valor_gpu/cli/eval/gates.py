"""``--fail-if``: conditions on the numbers of a summary that decide the exit status."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.evaluation.results.gates import Gate


def add_gate_option(command: argparse.ArgumentParser, whose: str = "") -> None:
    """Adds ``--fail-if``."""
    command.add_argument("--fail-if", action="append", default=[], metavar="CONDITION",
        help=f"exit status 1 if a number of the summary{whose and ' '}{whose} is so, or does not exist:"
        ' "mean_gpt_groundedness<4"; again for several')  # fmt: skip


def parsed_gates(options: argparse.Namespace) -> list[Gate]:
    """The conditions of ``--fail-if``."""
    if not options.fail_if:
        return []
    from valor_gpu.evaluation.results.gates import parse_gate

    with _named():
        return [parse_gate(text) for text in options.fail_if]


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Names the option in what is wrong with its value."""
    try:
        yield
    except InputError as error:
        raise InputError(f"--fail-if: {error}") from None


def gate_status(options: argparse.Namespace, gates: Sequence[Gate], summaries: Sequence[Mapping[str, Any]]) -> int:
    """Says on standard error which conditions hold, or have no number; returns the exit status.

    Args:
        options: of the command line.
        gates: conditions of ``--fail-if``.
        summaries: of the runs, each of which is looked at.
    """
    from valor_gpu.cli import FAILURE, OK

    if not gates:
        return OK
    from valor_gpu.evaluation.results.gates import failing_gates

    with _named():
        failed: list[Any] = [each for summary in summaries for each in failing_gates(summary, gates, fail_if=True)]
    unfinished = [summary["stopped"] for summary in summaries if summary.get("stopped")]
    failed += [f"the run is not complete, and its numbers are of the rows that it reached: {why}" for why in unfinished]
    for each in failed:
        print(f"valor-gpu {options.command}: failed: {each}", file=sys.stderr)
    return FAILURE if failed else OK
