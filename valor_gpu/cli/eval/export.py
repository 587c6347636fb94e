"""``valor-gpu eval export``: a run as files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from valor_gpu.cli.eval.options import add_run_argument, add_store_option, check_files, existing_store, found_run
from valor_gpu.cli.options import output_path
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from valor_gpu.store import Run


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = command.add_argument
    add_run_argument(command)
    add("--html", type=output_path, metavar="FILE", help="one page with distributions, failures and a table of rows")
    add("--csv", type=output_path, metavar="FILE", help="a table with one line per row; or -")
    add("--jsonl", type=output_path, metavar="FILE", help="one JSON object per row; or -")
    add("--baseline", metavar="RUN", help="run that the page compares with; default: that of the run itself")
    add_store_option(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    wanted = {name: getattr(options, name) for name in ("html", "csv", "jsonl") if getattr(options, name) is not None}
    if not wanted:
        raise InputError("--html, --csv or --jsonl must be given but none is")
    if options.baseline is not None and "html" not in wanted:
        raise InputError("--baseline must go with --html but that is not given")
    check_files(options, *wanted)
    from valor_gpu.report.files import file_for, is_standard_output

    with existing_store(options) as store:
        exported = found_run(store, options.run_id)
        baseline = None if options.baseline is None else found_run(store, options.baseline)
        told = []
        for name, path in wanted.items():
            with file_for(path) as file:
                rows = _written(name, exported, file, baseline)
            told.append(f"wrote {path}{rows}")
    if not any(is_standard_output(path) for path in wanted.values()):
        print("\n".join(told))


def _written(name: str, run: Run, file: Path, baseline: Run | None) -> str:
    """Writes a run in one form; returns how many rows it has, as the end of a line."""
    if name == "html":
        from valor_gpu.evaluation.report import write_report

        write_report(run, file, baseline=baseline)
        return ""
    from valor_gpu.evaluation.results.exports import export_csv, export_jsonl
    from valor_gpu.report.text import plural

    return f": {plural((export_csv if name == 'csv' else export_jsonl)(run, file), 'row')}"
