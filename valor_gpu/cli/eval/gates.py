"""Gates of ``valor-gpu eval``: conditions on the numbers of a summary that decide the exit status."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.cli.gates import add_gate_option, decisions_of, say_failed


def add_summary_gate_option(command: argparse.ArgumentParser) -> None:
    """Adds ``--fail-if`` of the numbers of a summary."""
    add_gate_option(command, "a number of the summary", "mean_gpt_groundedness<4")


def gate_status(options: argparse.Namespace, summaries: Sequence[Mapping[str, Any]]) -> int:
    """Says on standard error which gates hold, or have no number; returns the exit status.

    Args:
        options: of the command line.
        summaries: of the runs, each of which is looked at.
    """
    from valor_gpu.cli import OK

    if not options.fail_if:
        return OK
    from valor_gpu.evaluation.results.gates import gate_numbers, gate_reason

    failed: list[Any] = []
    for summary in summaries:
        decisions = decisions_of(options, gate_numbers(summary), lambda name, of=summary: gate_reason(of, name))
        failed += [each for each in decisions if each.failed]
    return say_failed(options, [*failed, *unfinished(summaries)])


def unfinished(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a line for each run that was stopped before its last row."""
    stopped = [summary["stopped"] for summary in summaries if summary.get("stopped")]
    return [f"the run is not complete, and its numbers are of the rows that it reached: {why}" for why in stopped]
