"""``valor-gpu eval show``: the numbers of a run, and what failed."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.eval.gates import add_summary_gate_option, gate_status
from valor_gpu.cli.eval.options import (
    add_run_argument,
    add_store_option,
    add_threshold_option,
    check_files,
    existing_store,
    found_run,
    settings_of,
    write_document,
)
from valor_gpu.cli.eval.outcome import resume_command, run_document
from valor_gpu.cli.options import add_report_options, count, reports
from valor_gpu.errors import DamageError, InputError

if TYPE_CHECKING:
    from valor_gpu.store import Run, Store


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add_run_argument(command, "the newest run")
    add_store_option(command)
    command.add_argument("--failures", type=count, nargs="?", const=20, metavar="N",
        help="also list rows that failed or have a metric without a score, and why; at most N: default 20")  # fmt: skip
    add_threshold_option(command, "in place of those of the run: ")
    add_summary_gate_option(command)
    add_report_options(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from valor_gpu.report.evaluation import failure_table, run_summary_of, run_text

    check_files(options)
    with existing_store(options) as store:
        shown = _run(store, options.run_id)
        summary = run_summary_of(shown, settings_of("--threshold", options.threshold) or None)
        status = gate_status(options, [summary])
        failures = _failures(shown, options.failures)
        more = {} if failures is None else {"failures": failures}
        write_document(options, "eval show", {**run_document(shown, summary), **more})
        if reports(options):
            parts = [run_text(shown, summary, _note(options, store, shown))]
            if failures is not None:
                parts.append(failure_table(failures) if failures else "nothing failed")
            parts += [f"wrote {options.json}"] if options.json is not None else []
            print("\n\n".join(parts))
    return status


def _note(options: argparse.Namespace, store: Store, run: Run) -> str:
    """Who works on a run that has not ended, or how it goes on."""
    if run.state == "running" and (owner := store.owner(run)) is not None:
        return f"{owner} works on it: these are the numbers so far"
    return "" if run.state in ("draft", "finished") else f"go on with: {resume_command(options, run.id)}"


def _run(store: Store, name: str | None) -> Run:
    if name is not None:
        return found_run(store, name)
    heads = store.heads()
    if not heads:
        raise InputError(f"RUN must be a run but the store {store.path} has none")
    if heads[0].damage:
        raise DamageError(f"run {heads[0].id}, the newest one", heads[0].damage, str(store.path))
    return store.run(heads[0].id)


def _failures(run: Run, limit: int | None) -> list[dict[str, Any]] | None:
    """The first rows and scores that failed; None where they are not asked for."""
    if limit is None:
        return None
    from valor_gpu.evaluation.results.failures import Failures

    return list(islice(Failures(run), limit))
