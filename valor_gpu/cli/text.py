"""``valor-gpu text``: from predicted and reference texts to F1, ROUGE, BLEU and others."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from valor_gpu._frozen import replaced
from valor_gpu.cli.gates import add_fail_options, fail_status
from valor_gpu.cli.options import (
    TABLES,
    add_interval_options,
    add_param_option,
    add_report_options,
    bootstrap_of,
    check_outputs,
    input_files,
    input_path,
    metric_parameters,
    names,
    output_path,
    paths_of,
    reports,
)
from valor_gpu.cli.saving import add_state_option, check_state, save_state
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from valor_gpu.evaluation.evaluators.base import Evaluator
    from valor_gpu.evaluation.rows._source_rows import SourceRow
    from valor_gpu.report.texts import TextScores
    from valor_gpu.result import Result
    from valor_gpu.state_file import StateFile


def add_options(text: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = text.add_argument
    source = text.add_mutually_exclusive_group(required=True)
    source.add_argument("--predictions", type=input_path, metavar="FILE",
        help=f"predicted texts: one per line, or a table ({TABLES}); or -")  # fmt: skip
    source.add_argument("--prediction", metavar="TEXT", help="in place of --predictions: one text itself")
    truth = text.add_mutually_exclusive_group()
    truth.add_argument("--references", type=input_path, nargs="+", metavar="FILE",
        help="reference texts, in the same order: several files give several references of each row; default: the"
        " table of --predictions")  # fmt: skip
    truth.add_argument("--reference", action="append", metavar="TEXT",
        help="with --prediction: a reference text itself; again for several")  # fmt: skip
    add("--prediction-column", metavar="COLUMN",
        help="column of the predicted texts; default: the one named answer, prediction or response, or the only"
        " one")  # fmt: skip
    add("--reference-column", type=names, metavar="COLUMN[,COLUMN...]",
        help="columns of the reference texts; default: the one named ground_truth or reference, or the only"
        " one")  # fmt: skip
    add("--metrics", type=names, required=True, metavar="NAME[,NAME...]",
        help="f1_score, exact_match, rouge (rouge1, rouge2 and rougeL), rouge1 to rouge5, rougeL, bleu (mean of"
        " sentences and number of the corpus), gleu, meteor, chrf (of the corpus), wer (word_error_rate), cer"
        " (char_error_rate), corpus_bleu, valor_bleu ...: docs/evaluation/evaluators.md")  # fmt: skip
    add_param_option(text)
    add_interval_options(text)
    add("--cluster-column", metavar="COLUMN",
        help="of --intervals: column of the table of --predictions: rows of one cluster, such as answers to one"
        " question, are drawn together")  # fmt: skip
    add("--per-row", type=output_path, metavar="FILE",
        help="write a table (CSV) with one line per row: the number of each metric, or why there is none")  # fmt: skip
    add_state_option(text)
    add_fail_options(text)
    add_report_options(text)
    text.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from valor_gpu.exports.intervals import interval_lines
    from valor_gpu.progress import Progress
    from valor_gpu.report.texts import TextScores, count_line, summary, text_evaluators

    inputs = [("--predictions", options.predictions), *(("--references", path) for path in options.references or ())]
    check_outputs([("--json", options.json), ("--per-row", options.per_row)], paths_of(inputs))
    check_state(options)
    bootstrap = bootstrap_of(options)
    evaluators = text_evaluators(options.metrics, metric_parameters(options.param))
    scores = TextScores(evaluators, keep_rows=bootstrap is not None or options.save_state is not None)
    files = _files(options)
    clusters = _clusters(options)
    rows = _rows(options)
    hashes = input_files(options, **files)
    with Progress(2, sys.stderr, enabled=not options.quiet) as progress, _lines(options, scores.evaluators) as add_line:
        progress.step("scoring")
        for row, outcomes in scores.add_all(rows):
            add_line(row, outcomes)
            if row.number % 1000 == 0:
                progress.rename(f"scored {row.number:,} rows")
        progress.step("writing")
        result = scores.result()
        if bootstrap is not None:
            progress.rename("drawing rows anew")
            result = result.with_intervals(replaced(bootstrap, clusters=clusters))
    if hashes is not None:
        from valor_gpu.report.document import document
        from valor_gpu.report.files import write_json

        write_json(options.json, document("text", result, hashes, "cpu", options=options.given, **_more(scores)))
    saved = save_state(options, partial(_state_of, scores, result))
    _warn(options, scores.unreadable)
    if reports(options):
        wrote = [f"wrote {path}" for path in (options.json, options.per_row) if path is not None]
        lines = [count_line(scores), *interval_lines(result.intervals), str(result.signature), *wrote, *saved]
        print(summary(result), "\n".join(lines), sep="\n\n")
    return fail_status(options, result)


def _state_of(scores: TextScores, result: Result) -> StateFile:
    from valor_gpu.report.text_state import text_state

    return text_state(scores, result)


def _files(options: argparse.Namespace) -> dict[str, str]:
    """What each input is, and its path; raises where options do not go together."""
    columns = (("--prediction-column", options.prediction_column), ("--reference-column", options.reference_column))
    if options.prediction is not None:
        for option, value in (("--references", options.references), *columns):
            if value is not None:
                raise InputError(f"{option} must go with --predictions but --prediction is given: use --reference TEXT")
        if not options.reference:
            raise InputError("--prediction must have a --reference beside it but has none")
        return {}
    if options.reference is not None:
        raise InputError("--reference must go with --prediction but --predictions is given: use --references FILE")
    paths = options.references or [options.predictions]
    others = {f"references_{number}": path for number, path in enumerate(paths[1:], 2)}
    return {"predictions": options.predictions, "references": paths[0], **others}


def _clusters(options: argparse.Namespace) -> list[Any] | None:
    """The cluster of every row; None where rows stand alone.

    Raises:
        InputError: a row has no cluster, or there are no intervals or no table that could have the column.
    """
    column = options.cluster_column
    if column is None:
        return None
    if bootstrap_of(options) is None:
        raise InputError("--cluster-column needs --intervals N but that is missing: add it, for example 1000")
    if options.predictions in (None, "-"):
        raise InputError("--cluster-column must be a column of a file of --predictions but there is no file")
    from valor_gpu.evaluation.rows.fields import ANSWER
    from valor_gpu.evaluation.rows.text_files import open_column

    found: list[Any] = []
    for row in open_column("--cluster-column", options.predictions, column, ANSWER).rows:
        value = row.values.get(column)
        if value is None and not row.error:
            raise InputError(f"--cluster-column must have a cluster for every row but row {row.number} has none")
        found.append(("unreadable", row.number) if row.error else value)
    return found


def _rows(options: argparse.Namespace) -> Iterable[SourceRow]:
    from valor_gpu.evaluation.rows._source_rows import SourceRow
    from valor_gpu.evaluation.rows.fields import ANSWER, GROUND_TRUTH
    from valor_gpu.evaluation.rows.text_files import is_table, open_column, text_rows
    from valor_gpu.report.texts import direct_row

    if options.prediction is not None:
        return [SourceRow(1, direct_row(options.prediction, options.reference))]
    path, column, others = options.predictions, options.prediction_column, options.reference_column
    if options.references is None and not is_table(path) and others is None:
        raise InputError("--references must be given for --predictions of one text per line but is not")
    predictions = open_column("--predictions", path, column, ANSWER)
    columns = [(file, name) for file in options.references or [path] for name in others or (None,)]
    twice = next((pair for pair in columns if columns.count(pair) > 1), None)
    if twice is not None:
        raise InputError(f"--references must be different but {' '.join(filter(None, twice))} is given twice")
    references = [open_column("--references", file, name, GROUND_TRUTH) for file, name in columns]
    for reference in references:
        if (reference.path, reference.column) == (path, predictions.column):
            raise InputError(f"--references must be other texts than --predictions but both are {path}")
    return text_rows(predictions, references)


@contextlib.contextmanager
def _lines(options: argparse.Namespace, evaluators: Sequence[Evaluator]) -> Iterator[Callable[[SourceRow, Any], None]]:
    """What takes each row and its outcomes."""
    if options.per_row is None:
        yield lambda row, outcomes: None
        return
    from valor_gpu.report.files import text_output
    from valor_gpu.report.texts import RowTable

    with text_output(options.per_row) as stream:
        yield RowTable(stream, evaluators).add


def _more(scores: TextScores) -> dict[str, Any]:
    """Keys of this command alone."""
    return {
        "evaluators": {
            each.name: {"version": each.version, "parameters": each.parameters} for each in scores.evaluators
        },
        "failed": {name: dict(failed) for name, failed in scores.failed.items() if failed},
        "unreadable": scores.unreadable,
    }


def _warn(options: argparse.Namespace, unreadable: list[str]) -> None:
    from valor_gpu.report.text import failure_lines

    for line in failure_lines("unreadable", unreadable):
        print(f"valor-gpu {options.command}: {line}", file=sys.stderr)
