"""``valor-gpu retrieval``: from judgements and ranked documents to nDCG, AP, recall and others."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.gates import add_fail_options, fail_status
from valor_gpu.cli.options import (
    STANDARD_INPUT,
    add_interval_options,
    add_report_options,
    bootstrap_of,
    check_outputs,
    input_files,
    input_path,
    names,
    output_path,
    paths_of,
    reports,
)
from valor_gpu.cli.query_slices import add_query_slice_options, check_query_slice_options, query_slices_of
from valor_gpu.cli.saving import add_state_option, check_state, save_state
from valor_gpu.cli.slices import show_slices
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.report.retrieval import QueryScores
    from valor_gpu.result import Result
    from valor_gpu.state_file import StateFile

MEASURES = ("nDCG@10", "AP", "RR", "P@10", "R@100", "Judged@10")
"""Measures of a command line that names none."""
_FORMS = "TREC lines, or .jsonl, .csv, .tsv (or .gz of these), .parquet; or -"


def add_options(retrieval: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = retrieval.add_argument
    add("--qrels", type=input_path, required=True, metavar="FILE",
        help=f"judgements: query, document and grade of relevance; below 0: unjudged. {_FORMS}")  # fmt: skip
    add("--run", type=input_path, nargs="+", action="extend", required=True, dest="runs", metavar="FILE",
        help="ranked documents: query, document and score, in the same forms; of several runs each is compared with the"
        " first")  # fmt: skip
    add("--names", type=names, metavar="NAME[,NAME...]",
        help="names of several runs; default: those of the files without suffix")  # fmt: skip
    add("--measures", nargs="+", action="extend", metavar="NAME",
        help="nDCG@10, AP, RR, P@5, R@100, Success@5, Rprec, ERR@20, RBP(p=0.8), Bpref, Judged@10, Holes@10 ..., named"
        f" as in ir-measures; P(rel=2)@5: grades from 2 on are relevant; default: {' '.join(MEASURES)}")  # fmt: skip
    add("--queries", choices=("qrels", "both"), default="qrels",
        help="qrels (default): all queries with judgements, 0 for those without documents, as trec_eval -c; both: those"
        " of judgements and run, as trec_eval without -c")  # fmt: skip
    add("--ties", choices=("document", "file"), default="document",
        help="documents of equal scores: by descending id, as trec_eval (document, default), or as in the"
        " file")  # fmt: skip
    add("--per-query", type=output_path, metavar="FILE",
        help="write a table with one line per query: CSV, or JSON lines where the name ends in .jsonl")  # fmt: skip
    add_query_slice_options(retrieval)
    add_interval_options(retrieval)
    add_state_option(retrieval)
    add_fail_options(retrieval)
    add_report_options(retrieval)
    retrieval.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from valor_gpu.progress import Progress

    _check(options)
    bootstrap, titles = bootstrap_of(options), _titles(options)
    others = {f"run_{number}": path for number, path in enumerate(options.runs[1:], 2)}
    hashes = input_files(options, qrels=options.qrels, run=options.runs[0], **others)
    with Progress(3 + len(titles), sys.stderr, enabled=not options.quiet) as progress:
        progress.step("reading judgements")
        from valor_gpu.report.retrieval import result_of_run, result_of_runs

        runs = _scored(options, titles, progress.step)
        choices = options.queries, options.ties
        progress.step("computing means")
        result = result_of_runs(runs, *choices) if len(runs) > 1 else result_of_run(runs[0], *choices)
        if bootstrap is not None:
            progress.rename("drawing queries anew")
            result = result.with_intervals(bootstrap)
        compared = _compared(options, runs)
        slices = query_slices_of(options, result, runs[0].queries, partial(_part, options, runs[0]), bootstrap)
        texts: list[str] = []
        documents: dict[str, Any] = {} if compared is None else {"comparison": compared.to_dict()}
        show_slices(slices, texts, documents)
        progress.step("writing")
        if hashes is not None:
            from valor_gpu.report.document import document
            from valor_gpu.report.files import write_json

            write_json(options.json, document("retrieval", result, hashes, "cpu", options=options.given, **documents))
        wrote = [f"wrote {path}" for path in (options.json, options.per_query) if path is not None]
        _write_queries(options, runs)
        wrote += save_state(options, partial(_state_of, options, runs, result))
    if reports(options):
        print("\n\n".join((_report(runs, result, compared, wrote), *texts)))
    return fail_status(options, result)


def _check(options: argparse.Namespace) -> None:
    """Raises for files and options that cannot be used, before any work."""
    inputs = [("--qrels", options.qrels), *(("--run", path) for path in options.runs)]
    for option, path in inputs:
        if path != STANDARD_INPUT and (os.path.isdir(path) or not os.path.exists(path)):
            got = "is a folder" if os.path.isdir(path) else "does not exist"
            raise InputError(f"{option} must be a file but {path} {got}")
    if [path for _, path in inputs].count(STANDARD_INPUT) > 1:
        raise InputError("--qrels and --run must have at most one standard input but have several")
    twice = next((path for path in options.runs if options.runs.count(path) > 1), None)
    if twice is not None:
        raise InputError(f"--run must be different files but {twice} is given twice")
    outputs = [("--json", options.json), ("--per-query", options.per_query)]
    check_outputs(outputs, paths_of(inputs))
    check_query_slice_options(options)
    check_state(options)
    if options.save_state is not None and len(options.runs) > 1:
        raise InputError(f"--save-state must go with one --run but {len(options.runs)} are given: save each by itself")


def _part(options: argparse.Namespace, scores: QueryScores, places: Any) -> Result:
    """The result of some of the queries."""
    from valor_gpu.report.retrieval import result_of_run

    return result_of_run(scores.of(places), options.queries, options.ties)


def _titles(options: argparse.Namespace) -> list[str]:
    """Names of the runs: those of the files where they differ, else the paths.

    Raises:
        InputError: ``--names`` are not as many as the runs, or not different.
    """
    if options.names is not None:
        found = list(options.names)
        if len(found) != len(options.runs) or len(set(found)) < len(found) or not all(found):
            raise InputError(
                f"--names must be {len(options.runs)} different names, one for each --run, but are {','.join(found)!r}"
            )
        return found
    stems = [os.path.basename(path).partition(".")[0] or path for path in options.runs]
    return stems if len(set(stems)) == len(stems) else list(options.runs)


def _scored(options: argparse.Namespace, titles: Sequence[str], step: Any) -> list[QueryScores]:
    """The scores of all runs."""
    from valor_gpu.inputs.ranked_lists import Judgements
    from valor_gpu.inputs.rankings import read_judgements, read_run
    from valor_gpu.report.retrieval import score_run
    from valor_gpu.retrieval.measures import parse_measures

    measures = parse_measures(options.measures or MEASURES)
    judgements = Judgements(read_judgements(options.qrels))
    if not judgements.queries:
        raise InputError(f"--qrels must have judgements but {options.qrels} has none")
    found = []
    for title, path in zip(titles, options.runs):
        step(f"scoring {title}")
        marked, ranked = options.save_state is not None, read_run(path)
        if not len(ranked):
            raise InputError(f"--run must have ranked documents but {path} has none")
        scores = score_run(title, judgements, ranked, measures, options.queries, options.ties, marked)
        if not scores.queries:
            raise InputError(f"--run must have documents of a query of {options.qrels} but {path} has none")
        found.append(scores)
    other = next((each for each in found if each.queries != found[0].queries), None)
    if other is not None:
        raise InputError(
            "--queries both must leave the same queries of all runs but those of"
            f" {found[0].name} and {other.name} differ: give --queries qrels"
        )
    return found


def _compared(options: argparse.Namespace, runs: Sequence[QueryScores]) -> Any:
    """The comparison of several runs, each with the first; None of one."""
    if len(runs) < 2:
        return None
    from valor_gpu.report.retrieval import result_of_run
    from valor_gpu.stats import compare

    given = {"replicates": options.intervals, "confidence": options.confidence, "seed": options.seed}
    choices = {name: value for name, value in given.items() if value is not None}
    if len(runs) > 2:
        choices["baseline"] = runs[0].name
    models = {each.name: result_of_run(each, options.queries, options.ties) for each in runs}
    return compare(models, **choices)


def _write_queries(options: argparse.Namespace, runs: Sequence[QueryScores]) -> None:
    if options.per_query is None:
        return
    from valor_gpu.report.files import text_output
    from valor_gpu.report.retrieval import write_queries

    with text_output(options.per_query) as stream:
        write_queries(stream, runs, str(options.per_query).lower().endswith((".jsonl", ".ndjson")))


def _state_of(options: argparse.Namespace, runs: Sequence[QueryScores], result: Result) -> StateFile:
    from valor_gpu.report.retrieval_state import retrieval_state

    return retrieval_state(runs[0], options.queries, options.ties, result)


def _report(runs: Sequence[QueryScores], result: Result, compared: Any, wrote: Sequence[str]) -> str:
    from valor_gpu.exports.intervals import interval_lines
    from valor_gpu.report.retrieval import count_line, runs_table, summary
    from valor_gpu.report.text import printable_lines

    if compared is None:
        tail = [count_line(runs[0]), *interval_lines(result.intervals), str(result.signature), *wrote]
        return "\n\n".join((summary(result), "\n".join(tail)))
    lines = [f"{run.name}: {count_line(run)}" for run in runs]
    tail = [*lines, *interval_lines(result.intervals), str(result.signature), *wrote]
    return "\n\n".join((runs_table(runs, result), printable_lines(str(compared)), "\n".join(tail)))
