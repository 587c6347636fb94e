"""``valor-gpu eval compare``: two runs, row by row of the same key."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from valor_gpu.cli.eval.gates import unfinished
from valor_gpu.cli.eval.options import add_store_option, check_files, existing_store, found_run, write_document
from valor_gpu.cli.eval.outcome import described_run
from valor_gpu.cli.gates import (
    add_gate_option,
    add_summary_options,
    decisions_of,
    is_standard_output_of,
    say_failed,
    summary_outputs,
    write_summaries,
)
from valor_gpu.cli.options import add_report_options, integer, names, reports

if TYPE_CHECKING:
    from valor_gpu.evaluation.results.comparison import Comparison


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = command.add_argument
    add("run_id", metavar="RUN", help="id or name of the run, the new one first: NEW OLD (compare takes OLD NEW)")
    add(
        "baseline",
        metavar="BASELINE",
        help="id or name of the run that it is compared with: differences are RUN minus it",
    )
    add("--metrics", type=names, metavar="NAME[,NAME...]", help="only these; default: all that both runs have")
    add("--cluster-column", metavar="COLUMN",
        help="column of the data, such as a document: rows of one value are drawn and swapped together")  # fmt: skip
    add("--seed", type=integer, metavar="N", help="of the bootstrap and the permutations")
    add_store_option(command)
    whose = "a number of the summary of RUN, a difference (delta_mean_f1_score) or its p-value over all metrics (Holm),"
    add_gate_option(command, whose, "delta_mean_f1_score<-0.02 and p_mean_f1_score<0.05")
    add_summary_options(command)
    add_report_options(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from valor_gpu.evaluation.results.comparison import compare_runs
    from valor_gpu.evaluation.results.comparison_files import comparison_markdown
    from valor_gpu.evaluation.results.gates import comparison_gates
    from valor_gpu.report.evaluation import run_summary_of

    start = time.monotonic()
    check_files(options, ("--json", options.json), *summary_outputs(options))
    with existing_store(options) as store:
        compared, baseline = found_run(store, options.run_id), found_run(store, options.baseline)
        more = {} if options.seed is None else {"seed": options.seed}
        comparison = compare_runs(
            compared, baseline, metrics=options.metrics, cluster_column=options.cluster_column, **more
        )
        summary = run_summary_of(compared)
        numbers, reason = comparison_gates(comparison, summary)
        decisions = decisions_of(options, numbers, reason)
        gates = [each.to_dict() for each in decisions]
        runs = {"run": described_run(compared), "baseline": described_run(baseline)}
        found = {**runs, "comparison": comparison.to_dict(), "summary": summary, "gates": gates}
        write_document(options, "eval compare", found)
        seconds = time.monotonic() - start
        wrote = write_summaries(
            options, decisions, numbers, seconds, lambda: comparison_markdown(comparison, decisions)
        )
        _print_report(options, comparison, wrote)
    failed: list[object] = [each for each in decisions if each.failed]
    return say_failed(options, failed + (unfinished([summary]) if options.fail_if else []))


def _print_report(options: argparse.Namespace, comparison: Comparison, wrote: list[str]) -> None:
    from valor_gpu.report.text import printable_lines

    if reports(options) and not is_standard_output_of(options, "markdown"):
        files = [] if options.json is None else [str(options.json)]
        lines = [f"wrote {path}" for path in files + wrote]
        print("\n".join([printable_lines(str(comparison)), *(["", *lines] if lines else [])]))
