"""``valor-gpu compare``: whether a model is better than another, from state files or stored runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.compare_options import add_choice_options, check_options, choices_of
from valor_gpu.cli.gates import (
    add_gate_option,
    add_summary_options,
    decisions_of,
    is_standard_output_of,
    say_failed,
    summary_outputs,
    write_summaries,
)
from valor_gpu.cli.options import (
    STANDARD_INPUT,
    add_report_options,
    check_outputs,
    input_path,
    output_path,
    paths_of,
    reports,
)
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.comparison import ComparisonResult
    from valor_gpu.comparison.comparisons import Comparisons
    from valor_gpu.comparison.sides import Side
    from valor_gpu.gates.decisions import Decision
    from valor_gpu.store import Run, Store


def add_options(compare: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = compare.add_argument
    add("models", nargs="+", metavar="MODEL",
        help="state file of --save-state or save_state(), the model that is there first: OLD NEW; with --store also the"
        " id or name of a run. Differences are the second less the first (eval compare takes NEW OLD); of three and"
        " more, all pairs")  # fmt: skip
    add("--names", metavar="NAME,NAME,...",
        help="names of the models; default: those of the files without suffix, or of the runs")  # fmt: skip
    add("--baseline", metavar="NAME",
        help="name of a model: compare each other one with it; default: of two the first, of more each with every one"
        " before it")  # fmt: skip
    add("--store", nargs="?", const="", metavar="FILE",
        help="file of runs, or without FILE that of VALOR_GPU_STORE or of the user: MODEL may be the id or name of a"
        " run")  # fmt: skip
    add_choice_options(compare)
    whose = "a number of the last model, a difference (delta_map) or its p-value, of classes and slices adjusted,"
    add_gate_option(compare, whose, "delta_map<-0.003 and p_map<0.05")
    add_summary_options(compare)
    add("--report", type=output_path, metavar="FILE", help="write the whole comparison as one HTML page")
    add_report_options(compare)
    compare.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from valor_gpu.progress import Progress

    start = time.monotonic()
    _check(options)
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress(4, sys.stderr, enabled=not options.quiet))
        progress.step("loading libraries")
        from valor_gpu.gates.subjects import subject_of
        from valor_gpu.stats import compare

        progress.step("reading the models")
        models = dict(_models(options, stack))
        progress.step("comparing")
        found = compare(models, **choices_of(options, list(models.values())))
        numbers, reason = subject_of(found)
        decisions = decisions_of(options, numbers, reason)
        progress.step("writing")
        seconds = time.monotonic() - start
        wrote = write_summaries(options, decisions, numbers, seconds, lambda: _markdown(found, decisions))
        wrote += _write(options, list(models), found, decisions)
    if reports(options) and not is_standard_output_of(options, "markdown"):
        print(_text(found), *(f"wrote {path}" for path in wrote), sep="\n")
    return say_failed(options, [each for each in decisions if each.failed])


def _check(options: argparse.Namespace) -> None:
    """Raises for models, options and files that cannot be used, before any work."""
    if len(options.models) < 2:
        raise InputError(f"MODEL must be given at least twice but is given once: {options.models[0]}")
    for path in options.models:
        if path == STANDARD_INPUT:
            raise InputError("MODEL must be a file but - is standard input")
        if options.store is None and not os.path.isfile(path):
            if os.path.exists(path) and not os.path.isdir(path):
                raise InputError(f"MODEL must be a regular file but {path} is a pipe or a device: save it as a file")
            got = "is a folder" if os.path.isdir(path) else "does not exist"
            raise InputError(f"MODEL must be a state file but {path} {got}: --store FILE is for runs of a store")
    check_options(options)
    inputs = [("MODEL", path) for path in options.models]
    inputs += [(option, path) for option, path in _files(options) if path]
    outputs = [*summary_outputs(options), ("--report", options.report), ("--json", options.json)]
    check_outputs(outputs, paths_of(inputs))


def _files(options: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    """Files that the command reads beside the models."""
    yield "--cluster-file", options.cluster_file
    yield "--images-table", options.images_table
    yield "--store", options.store


def _models(options: argparse.Namespace, stack: contextlib.ExitStack) -> Iterator[tuple[str, Side | Run]]:
    """Names of the models and what they are: runs of texts, or sides.

    Raises:
        InputError: a name comes twice, or a model is neither a file nor a run.
    """
    store = None if options.store is None else stack.enter_context(_opened(options.store))
    given = [_given(store, model) for model in options.models]
    names = [name for name, _ in given] if options.names is None else _names(options)
    from valor_gpu.comparison.sides import side_of, text_run

    for name, (_, each) in zip(_distinct(names, options.models), given):
        yield name, text_run(each) or side_of(each, name)


def _names(options: argparse.Namespace) -> list[str]:
    found = [name.strip() for name in options.names.split(",")]
    if len(found) != len(options.models) or len(set(found)) < len(found) or not all(found):
        raise InputError(
            f"--names must be {len(options.models)} different names with commas between them, one for each MODEL, but"
            f" got {options.names!r}"
        )
    return found


def _distinct(names: Sequence[str], models: Sequence[str]) -> list[str]:
    """The names, where they differ; else what was given, with its place where that is no different either."""
    if len(set(names)) == len(names):
        return list(names)
    if len(set(models)) == len(models):
        return list(models)
    return [f"{name} ({place})" for place, name in enumerate(names, 1)]


def _opened(path: str) -> Store:
    from valor_gpu.store import Store
    from valor_gpu.store.database import default_path

    whole = path or str(default_path())
    if not os.path.isfile(whole):
        got = "is none" if os.path.exists(whole) else "does not exist"
        raise InputError(f"--store must be a file of runs but {whole} {got}")
    return Store(whole)


def _given(store: Store | None, model: str) -> tuple[str, Any]:
    """The name of a model, and its run, or the path of its file."""
    if store is not None:
        try:
            run = store.run(model)
            return run.name, run
        except InputError:
            if not os.path.isfile(model):
                from valor_gpu.checks import near_names

                known = [word for head in store.heads() if not head.damage for word in (head.id, head.name)]
                raise InputError(
                    f"MODEL must be a run of {store.path} or a state file but {model!r} is neither"
                    f"{near_names(model, known)}"
                ) from None
    name = os.path.basename(model)
    return name.partition(".")[0] or name, input_path(model)


def _write(
    options: argparse.Namespace,
    names: Sequence[str],
    found: ComparisonResult | Comparisons,
    decisions: Sequence[Decision],
) -> list[str]:
    """Writes ``--json`` and ``--report``; returns the paths."""
    written = []
    if options.report is not None:
        from valor_gpu.report.comparison_html import write_comparison

        write_comparison(options.report, found)
        written.append(str(options.report))
    if options.json is not None:
        from valor_gpu.report.files import write_json

        write_json(options.json, _document(options, names, found, decisions))
        written.append(str(options.json))
    return written


def _document(
    options: argparse.Namespace,
    names: Sequence[str],
    found: ComparisonResult | Comparisons,
    decisions: Sequence[Decision],
) -> dict[str, Any]:
    from valor_gpu.inputs.files import sha256_of
    from valor_gpu.report.document import document_head
    from valor_gpu.result import Result

    models = []
    for name, model in zip(names, options.models):
        size, digest = sha256_of(model) if os.path.isfile(model) else (None, None)
        models.append({"name": name, "given": model, "bytes": size, "sha256": digest})
    gates = [each.to_dict() for each in decisions]
    numbers = found.to_dict() if isinstance(found, Result) else {"comparisons": found.to_dict()}
    return {**document_head("compare"), "models": models, "gates": gates, **numbers}


def _text(found: ComparisonResult | Comparisons) -> str:
    from valor_gpu.report.text import printable_lines

    return printable_lines(str(found))


def _markdown(found: ComparisonResult | Comparisons, decisions: Sequence[Decision]) -> str:
    """The gates and the numbers as Markdown; of several models one pair after the other."""
    from valor_gpu.comparison.comparison_markdown import markdown, markdown_of_pairs
    from valor_gpu.result import Result

    return markdown(found, decisions) if isinstance(found, Result) else markdown_of_pairs(found, decisions)
