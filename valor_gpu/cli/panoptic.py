"""``valor-gpu panoptic``: from COCO panoptic files to panoptic quality."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.clusters import add_image_interval_options, image_bootstrap_of
from valor_gpu.cli.gates import add_fail_options, fail_status
from valor_gpu.cli.options import (
    add_report_options,
    check_not_read,
    check_paths,
    count,
    input_files,
    input_path,
    output_path,
    reports,
)
from valor_gpu.cli.saving import add_store_options, check_store, save_result, save_state
from valor_gpu.cli.slices import add_slice_options, check_slice_options, show_slices, slices_of
from valor_gpu.errors import InputError
from valor_gpu.report.text import plural

if TYPE_CHECKING:
    from valor_gpu.progress import Progress
    from valor_gpu.report.document import Inputs
    from valor_gpu.result import Result
    from valor_gpu.segmentation.coco_panoptic import PanopticEvaluation
    from valor_gpu.state_file import StateFile


def add_options(panoptic: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = panoptic.add_argument
    add(
        "--gt",
        type=input_path,
        required=True,
        metavar="FILE",
        help="ground truth: COCO panoptic JSON (or .gz) with annotations, their segments_info, and categories",
    )
    add(
        "--pred",
        type=input_path,
        required=True,
        metavar="FILE",
        help="predictions: JSON (or .gz) with annotations and their segments_info, one for each image of --gt",
    )
    add(
        "--gt-dir",
        type=input_path,
        metavar="DIR",
        help="folder of the PNG of --gt, which need Pillow, the extra images; default: its path without .json",
    )
    add(
        "--pred-dir",
        type=input_path,
        metavar="DIR",
        help="folder of the PNG of --pred; default: its path without .json",
    )
    add("--per-class", action="store_true", help="also print one line per class with a segment that counts")
    add("--per-image", type=output_path, metavar="FILE", help="write a table (CSV) with one line per image")
    add("--threads", type=count, metavar="N", help="how many images are read at the same time; default: one per CPU")
    add_store_options(panoptic, images=True)
    add_image_interval_options(panoptic)
    add_slice_options(panoptic)
    add_fail_options(panoptic)
    add_report_options(panoptic)
    panoptic.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from valor_gpu.progress import Progress

    folders = _folder(options, "gt"), _folder(options, "pred")
    check_paths({"--gt": options.gt, "--pred": options.pred}, options.json, [])
    _check_folders(options, folders)
    check_not_read(
        [("--json", options.json), ("--per-image", options.per_image)],
        [("--gt-dir", folders[0]), ("--pred-dir", folders[1]), ("--images", options.images)],
    )
    check_store(options)
    check_slice_options(options)
    intervals = image_bootstrap_of(options)
    inputs = input_files(options, ground_truths=options.gt, predictions=options.pred)
    with Progress(4, sys.stderr, enabled=not options.quiet) as progress:
        evaluated = _evaluate(options, folders, progress)
        progress.step("writing")
        result = evaluated.result(intervals)
        texts: list[str] = []
        documents: dict[str, Any] = {}
        show_slices(slices_of(options, result, intervals), texts, documents)
        notes = _write(options, (evaluated, result), folders, inputs, documents)
    _warn(options, result)
    if reports(options):
        print(_report(options, evaluated, result, texts, notes))
    return fail_status(options, result)


def _folder(options: argparse.Namespace, side: str) -> str:
    """The folder of a side; panopticapi's default is the path of the JSON without its ending."""
    given: str | None = getattr(options, f"{side}_dir")
    path: str = getattr(options, side)
    return path.removesuffix(".gz").removesuffix(".json") if given is None else given


def _check_folders(options: argparse.Namespace, folders: tuple[str, str]) -> None:
    for side, folder in zip(("gt", "pred"), folders):
        if not os.path.isdir(folder):
            got = "is a file" if os.path.exists(folder) else "does not exist"
            raise InputError(f"--{side}-dir must be the folder of the PNG of --{side} but {folder} {got}")
    if options.per_image is not None:
        from valor_gpu.report.files import check_output

        check_output("--per-image", options.per_image)
        others = {"--gt": options.gt, "--pred": options.pred, "--json": options.json}
        for option, other in others.items():
            if other is not None and os.path.realpath(other) == os.path.realpath(options.per_image):
                raise InputError(f"--per-image must be another file than {option} but both are {other}")


def _evaluate(options: argparse.Namespace, folders: tuple[str, str], progress: Progress) -> PanopticEvaluation:
    progress.step("loading libraries")
    from valor_gpu import native
    from valor_gpu.inputs.panoptic_files import read_panoptic_json
    from valor_gpu.segmentation.coco_panoptic import evaluate_files

    progress.step(f"reading {os.path.basename(options.gt)} and {os.path.basename(options.pred)}")
    ground_truth, predictions = (read_panoptic_json(options.gt, True), read_panoptic_json(options.pred, False))
    images = len(ground_truth.annotations)
    progress.step(f"counting {plural(images, 'image')}")

    def report(done: int) -> None:
        progress.rename(f"counting image {done:,} of {images:,}")

    return evaluate_files(ground_truth, predictions, folders, options.threads or native.threads(), report)


def _write(
    options: argparse.Namespace,
    found: tuple[PanopticEvaluation, Result],
    folders: tuple[str, str],
    inputs: Inputs | None,
    documents: dict[str, Any],
) -> list[str]:
    evaluated, result = found
    if inputs is not None:
        from valor_gpu.report.document import document
        from valor_gpu.report.files import write_json

        named = {"folders": evaluated.folders(folders), "categories": evaluated.names()}
        more = {"options": options.given, **named, **documents}
        write_json(options.json, document("panoptic", result, inputs, "cpu", **more))
    if options.per_image is not None:
        from valor_gpu.report.files import write_file
        from valor_gpu.report.panoptic import image_table

        write_file(options.per_image, image_table(evaluated.rows()).encode())
    make = partial(_state_of, evaluated, result)
    notes = [f"wrote {path}" for path in (options.json, options.per_image) if path is not None]
    notes += save_state(options, make)
    if options.store is None:
        return notes
    return notes + save_result(options, evaluated.to_run(result), options.pred, options.gt, state=make)


def _state_of(evaluated: PanopticEvaluation, result: Result) -> StateFile:
    from valor_gpu.segmentation.folder_states import panoptic_state

    return panoptic_state(evaluated, result)


def _warn(options: argparse.Namespace, result: Result) -> None:
    from valor_gpu.report.panoptic import doubts

    for text in doubts(result, options.gt, options.pred):
        print(f"valor-gpu {options.command}: warning: {text}", file=sys.stderr)


def _report(
    options: argparse.Namespace, evaluated: PanopticEvaluation, result: Result, texts: list[str], notes: list[str]
) -> str:
    from valor_gpu.exports.intervals import interval_lines
    from valor_gpu.report.panoptic import class_table, count_line, summary

    parts = [summary(result, [category.is_thing for category in evaluated.ground_truth.categories])]
    if options.per_class:
        parts.append(class_table(result))
    parts += texts
    parts.append("\n".join([count_line(result), *interval_lines(result.intervals), str(result.signature), *notes]))
    return "\n\n".join(parts)
