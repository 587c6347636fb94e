"""``valor-gpu eval compare``: two runs, row by row of the same key."""

from __future__ import annotations

import argparse

from valor_gpu.cli.eval.gates import add_gate_option, gate_status, parsed_gates
from valor_gpu.cli.eval.options import add_store_option, check_files, existing_store, found_run, write_document
from valor_gpu.cli.eval.outcome import described_run
from valor_gpu.cli.options import add_report_options, integer, names, reports


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = command.add_argument
    add("run_id", metavar="RUN", help="id or name of the run")
    add(
        "baseline",
        metavar="BASELINE",
        help="id or name of the run that it is compared with: differences are RUN minus it",
    )
    add("--metrics", type=names, metavar="NAME[,NAME...]", help="only these; default: all that both runs have")
    add("--seed", type=integer, metavar="N", help="of the bootstrap and the permutations")
    add_store_option(command)
    add_gate_option(command, "of RUN, or a difference (delta_mean_f1_score),")
    add_report_options(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from valor_gpu.evaluation.results.comparison import compare_runs
    from valor_gpu.report.evaluation import run_summary_of
    from valor_gpu.report.text import printable_lines

    check_files(options)
    gates = parsed_gates(options)
    with existing_store(options) as store:
        compared, baseline = found_run(store, options.run_id), found_run(store, options.baseline)
        more = {} if options.seed is None else {"seed": options.seed}
        comparison = compare_runs(compared, baseline, metrics=options.metrics, **more)
        summary = run_summary_of(compared)
        deltas = {f"delta_{each.summary_name}": each.difference for each in comparison.metrics.values()}
        status = gate_status(options, gates, [{**summary, "metrics": {**summary["metrics"], **deltas}}])
        runs = {"run": described_run(compared), "baseline": described_run(baseline)}
        write_document(options, "eval compare", {**runs, "comparison": comparison.to_dict(), "summary": summary})
        if reports(options):
            wrote = [f"\nwrote {options.json}"] if options.json is not None else []
            print("\n".join([printable_lines(str(comparison)), *wrote]))
    return status
