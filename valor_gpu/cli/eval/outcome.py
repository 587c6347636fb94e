"""What follows an evaluation: warnings as lines, the report, gates, and how to go on after Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.eval.gates import gate_status
from valor_gpu.cli.eval.options import run_here, write_document
from valor_gpu.cli.options import reports
from valor_gpu.errors import InputError, ValorError
from valor_gpu.progress import CLEAR
from valor_gpu.report.text import printable_lines
from valor_gpu.store.tries import last_try

if TYPE_CHECKING:
    from valor_gpu.store import Run


def described_run(run: Run) -> dict[str, Any]:
    """A run as JSON, with its configuration."""
    return {
        "id": run.id, "name": run.name, "state": run.state, "created": run.created, "tags": run.tags,
        "config": run.config,
    }  # fmt: skip


def run_document(run: Run, summary: Mapping[str, Any]) -> dict[str, Any]:
    """A run, its numbers and its errors, the most frequent first, as JSON."""
    from valor_gpu.evaluation.results.common_errors import common_errors
    from valor_gpu.store.serving import run_address

    found = {"run": described_run(run), "summary": dict(summary), "studio_url": run_address(run)}
    return {**found, "errors": [asdict(each) for each in common_errors(run)]}


def evaluated(options: argparse.Namespace, start: Callable[..., Any]) -> int:
    """Evaluates, reports and returns the exit status.

    Args:
        options: of the command line.
        start: evaluates; takes ``progress``.
    """
    from valor_gpu.cli import BAD_INPUT, FAILURE, INTERRUPTED
    from valor_gpu.report.evaluation import failed_line, grid_table, run_summary_of, run_text

    gc.enable()  # the process of a command begins without, and requests make cycles
    run_here()
    with _warnings_as_lines(options):
        try:
            found = start(progress=sys.stderr.isatty() and not options.quiet)
        except (KeyboardInterrupt, ValorError) as error:
            result = getattr(error, "result", None)  # of the run as far as it came
            if isinstance(error, ValorError):
                if result is None:
                    raise
                _say(options, f"error: {error}")
                _say_how_to_go_on(options, result)
                return BAD_INPUT if isinstance(error, InputError) else FAILURE
            _say(options, "interrupted" if result is not None else "interrupted: nothing was stored")
            _say_how_to_go_on(options, result)
            return INTERRUPTED
    results = found if isinstance(found, list) else [found]
    runs = [result.run for result in results]
    summaries = [run_summary_of(run) for run in runs]
    documents = [run_document(run, summary) for run, summary in zip(runs, summaries)]
    alone = write_document(options, options.command, documents[0] if found is not results else {"runs": documents})
    if reports(options) and not alone:
        texts = [run_text(run, summary) for run, summary in zip(runs, summaries)]
        if found is results:
            texts.append(grid_table(runs, summaries))
        print("\n\n".join([*texts, *([f"wrote {options.json}"] if options.json is not None else [])]))
    for run, summary in zip(runs, summaries):
        if failed := failed_line(summary):
            _say(options, f"warning: {failed}: valor-gpu eval show {run.id}{_store(options)} --failures")
    status = gate_status(options, summaries)
    for result, summary in zip(results, summaries):
        if summary.get("stopped") or last_try(result.run):  # evaluate() warns of it
            _say_how_to_go_on(options, result)
            status = status or FAILURE
    return status


def _say_how_to_go_on(options: argparse.Namespace, result: Any) -> None:
    if result is not None:
        _say(options, f"go on with: {resume_command(options, result.run_id)}")


def resume_command(options: argparse.Namespace, run_id: str) -> str:
    """Returns the command by which a run goes on."""
    return f"valor-gpu eval resume {run_id}{_store(options)}"


def _store(options: argparse.Namespace) -> str:
    """Returns the option by which a command finds the store of the run."""
    if options.store is None:
        return ""
    from shlex import quote  # here, since few commands need it

    return f" --store {quote(options.store)}"


def _say(options: argparse.Namespace, text: str) -> None:
    begin = CLEAR if sys.stderr.isatty() else ""  # the line of a run that goes on may stand there
    print(begin + printable_lines(f"valor-gpu {options.command}: {text}"), file=sys.stderr)


@contextlib.contextmanager
def _warnings_as_lines(options: argparse.Namespace) -> Iterator[None]:
    """Shows what is meant for users as the command shows its own warnings, and others as ever."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if category is UserWarning:
                _say(options, f"warning: {message}")
            else:
                shown(message, category, *place, **more)

        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
