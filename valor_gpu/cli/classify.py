"""``valor-gpu classify``: from a table to the numbers of a classifier."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from valor_gpu.checks import check_device
from valor_gpu.cli.gates import add_fail_options, fail_status
from valor_gpu.cli.options import (
    TABLES,
    add_interval_options,
    add_report_options,
    bootstrap_of,
    check_paths,
    device,
    input_files,
    input_path,
    names,
    output_paths,
    reports,
    thresholds,
)
from valor_gpu.cli.saving import add_store_options, check_store, save_result, save_state
from valor_gpu.errors import InputError
from valor_gpu.report.text import plural

if TYPE_CHECKING:
    from pathlib import Path

    from valor_gpu.inputs.predictions import Predictions
    from valor_gpu.report.classify import Evaluated
    from valor_gpu.state_file import StateFile


def add_options(classify: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = classify.add_argument
    add("--data", type=input_path, required=True, metavar="FILE",
        help=f"table with one row per sample: {TABLES}, .npz; or -")  # fmt: skip
    add("--target", required=True, metavar="COLUMN", help="true class, by name")
    source = classify.add_mutually_exclusive_group(required=True)
    source.add_argument("--scores", type=names, metavar="COLUMN[,COLUMN...]",
        help="probabilities or logits: one column per class, of lists, or of the second class")  # fmt: skip
    source.add_argument("--scores-prefix", metavar="PREFIX",
        help="in place of --scores: every column whose name is PREFIX and the name of a class")  # fmt: skip
    source.add_argument("--pred", metavar="COLUMN", help="in place of scores: predicted class, by name")
    add("--labels", type=names, metavar="NAME[,NAME...]",
        help="names of the classes in the order of the scores; default: names of columns, or 0, 1 ...")  # fmt: skip
    add("--ignore", metavar="NAME", help="leave out the rows whose target is NAME")
    add("--weight", metavar="COLUMN", help="weight of each sample")
    add("--average", choices=("macro", "micro", "weighted"), default="macro",
        help="mean over classes: unweighted (macro, default), pooled (micro), by samples (weighted)")  # fmt: skip
    add("--thresholds", type=thresholds, metavar="N",
        help="compute ROC AUC, average precision and curves at N thresholds from 0 to 1; default: exact")  # fmt: skip
    add("--device", type=device, default="cpu", help="where to count: cpu (default), cuda or cuda:N")
    add("--per-class", action="store_true", help="also print one line per class")
    add("--plot", type=output_paths, default=[], metavar="FILE[,FILE...]",
        help="draw pictures: names end in roc, pr, confusion or reliability, as in digits_roc.png")  # fmt: skip
    add("--normalize", choices=("true", "pred", "all"),
        help="confusion picture: show fractions of the true class, predicted class or all samples")  # fmt: skip
    add_interval_options(classify)
    add("--cluster-column", metavar="COLUMN",
        help="rows of one cluster, such as a patient, are drawn together by --intervals")  # fmt: skip
    add_store_options(classify)
    add_fail_options(classify)
    add_report_options(classify)
    classify.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from valor_gpu.progress import Progress

    check_paths({"--data": options.data}, options.json, options.plot)
    pictures = {path: _picture_of(path, options) for path in options.plot}
    if options.normalize and "confusion" not in pictures.values():
        raise InputError("--normalize needs a --plot whose name ends in confusion")
    bootstrap = bootstrap_of(options)
    if options.cluster_column is not None and bootstrap is None:
        raise InputError("--cluster-column needs --intervals N but that is missing: add it, for example 1000")
    check_store(options)
    inputs = input_files(options, data=options.data)
    with Progress(4, sys.stderr, enabled=not options.quiet) as progress:
        progress.step("loading libraries")
        from valor_gpu.report.classify import evaluate, with_intervals
        from valor_gpu.report.document import document
        from valor_gpu.report.files import draw_picture, write_json

        if options.device != "cpu":
            check_device(options.device)
        progress.step(f"reading {os.path.basename(options.data)}")
        predictions = _read(options)
        progress.step(f"counting {plural(len(predictions.target), 'sample')}")
        parts = {*pictures.values(), *({"pr"} if options.store is not None and options.pred is None else ())}
        evaluated = evaluate(predictions, options.average, options.thresholds, options.device, parts)
        if bootstrap is not None:
            progress.rename("drawing rows anew")
            evaluated = with_intervals(evaluated, predictions, bootstrap)
        progress.step("writing")
        if inputs is not None:
            more = {"options": options.given, "classes": list(evaluated.names)}
            write_json(options.json, document("classify", evaluated.result, inputs, options.device, **more))
        for path, picture in pictures.items():
            matrix = {"normalize": options.normalize} if picture == "confusion" else {}
            drawn = {"names": evaluated.names, "source": os.path.basename(options.data), **matrix}
            draw_picture(path, evaluated.picture(picture), **drawn)
        saved = _save(options, evaluated, predictions)
    if reports(options):
        written = [f"wrote {path}" for path in [*([] if options.json is None else [options.json]), *pictures]]
        print(_classify_report(options, evaluated, [*written, *saved]))
    return fail_status(options, evaluated.result)


def _save(options: argparse.Namespace, evaluated: Evaluated, predictions: Predictions) -> list[str]:
    """Keeps the result where ``--store`` and ``--save-state`` ask for it."""
    make = partial(_state_of, options, evaluated, predictions)
    notes = save_state(options, make)
    if options.store is None:
        return notes
    from hashlib import sha256

    from valor_gpu.report.classify import samples_run

    truth = sha256(repr(predictions.names).encode() + predictions.target.tobytes()).hexdigest()
    run = samples_run(evaluated, predictions)
    return notes + save_result(options, run, options.data, options.data, truth, make)


def _state_of(options: argparse.Namespace, evaluated: Evaluated, predictions: Predictions) -> StateFile:
    from valor_gpu.report.classify_state import classify_state

    return classify_state(predictions, options.average, options.thresholds, evaluated.result)


def _classify_report(options: argparse.Namespace, evaluated: Evaluated, notes: Sequence[str]) -> str:
    from valor_gpu.report.classify import class_table, count_line, summary

    tail = [count_line(evaluated.result), str(evaluated.result.signature), *notes]
    parts = [summary(evaluated), *([class_table(evaluated)] if options.per_class else []), "\n".join(tail)]
    return "\n\n".join(parts)


def _picture_of(path: Path, options: argparse.Namespace) -> str:
    """What the name of a picture asks for."""
    from valor_gpu.report.classify import OF_SCORES, PICTURES

    picture = re.split(r"[-_. ]", path.stem)[-1].lower()
    if picture not in PICTURES:
        raise InputError(f"--plot needs names that end in {', '.join(PICTURES)}, as in digits_roc.png, but got {path}")
    if options.pred is not None and picture in OF_SCORES:
        raise InputError(f"--plot {path} needs --scores or --scores-prefix, not --pred")
    return picture


def _read(options: argparse.Namespace) -> Predictions:
    from valor_gpu.inputs.predictions import Columns, read_predictions

    columns = Columns(
        options.target,
        options.scores or (),
        options.scores_prefix,
        options.pred,
        options.weight,
        options.cluster_column,
    )
    return read_predictions(options.data, columns, options.labels, options.ignore)
