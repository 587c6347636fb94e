"""``valor-gpu eval list``: the runs of a store."""

from __future__ import annotations

import argparse

from valor_gpu.cli.eval.options import add_store_option, check_files, existing_store, write_document
from valor_gpu.cli.options import JSON_HELP, count, output_path


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add_store_option(command)
    command.add_argument("--limit", type=count, default=20, metavar="N", help="how many at most: default 20")
    command.add_argument("--state", choices=("draft", "running", "finished", "stopped", "failed"), help="only these")
    command.add_argument("--json", type=output_path, metavar="FILE", help=JSON_HELP)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from valor_gpu.cli.eval.outcome import described_run
    from valor_gpu.errors import check_command
    from valor_gpu.report.evaluation import run_table
    from valor_gpu.report.text import plural, printable
    from valor_gpu.store import RunHead

    damaged: list[RunHead] = []
    check_files(options)
    with existing_store(options) as store:
        runs = store.runs(options.limit + 1, state=options.state, damaged=damaged)
        shown = runs[: options.limit]
        found = [{**described_run(each), "summary": each.finished_summary} for each in shown]
        lost = [{"id": each.id, "name": each.name, "damage": each.damage} for each in damaged]
        if write_document(options, "eval list", {"store": str(store.path), "runs": found, "damaged": lost}):
            return
        print(run_table(shown) if shown else f"no {'whole ' if damaged else ''}runs in {store.path}")
        for each in damaged:
            print(f"\nrun {printable(each.id)} ({printable(each.name)}) is damaged: {printable(each.damage)}")
        if damaged:
            print(f"{check_command(store.path)} lists every damaged place")
        if len(runs) > len(shown):
            print(f"\nmore than {plural(len(shown), 'run')}: --limit shows more")
