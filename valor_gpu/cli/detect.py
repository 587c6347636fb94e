"""``valor-gpu detect``: from COCO files to average precision."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

from valor_gpu.cli.options import (
    JSON_HELP,
    QUIET_HELP,
    check_paths,
    device,
    input_files,
    input_path,
    output_path,
    reports,
)
from valor_gpu.errors import InputError
from valor_gpu.report.text import plural

if TYPE_CHECKING:
    from pathlib import Path

    from valor_gpu.coco import COCOeval
    from valor_gpu.report.document import Inputs
    from valor_gpu.report.progress import Progress
    from valor_gpu.result import Result


def add_options(detect: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = detect.add_argument
    add("--gt", type=input_path, required=True, metavar="FILE",
        help="ground truth: COCO JSON (or .gz, or -) with images, annotations and categories")  # fmt: skip
    add("--dt", type=input_path, required=True, metavar="FILE",
        help="detections: JSON array (or .gz, or -) of objects with image_id, category_id, bbox, score")  # fmt: skip
    add("--device", type=device, default="cpu", help="where to match and accumulate: cpu (default), cuda or cuda:N")
    add("--convention", choices=("strict", "corrected"), default="strict",
        help="strict (default): as pycocotools to the last bit; corrected: without its quirks")  # fmt: skip
    add("--per-class", action="store_true", help="also print one line per class")
    add("--plot", type=output_path, metavar="FILE", help="draw precision over recall as .png, .svg, .pdf, ...")
    add("--json", type=output_path, metavar="FILE", help=JSON_HELP)
    add("--quiet", action="store_true", help=QUIET_HELP)
    detect.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from valor_gpu.report.progress import Progress

    pictures = [] if options.plot is None else [options.plot]
    check_paths({"--gt": options.gt, "--dt": options.dt}, options.json, pictures)
    inputs = input_files(options, ground_truths=options.gt, detections=options.dt)
    with Progress(5, sys.stderr, enabled=not options.quiet) as progress:
        try:
            evaluator = _evaluate(options, progress)
        except InputError as error:
            if _first_byte(options.gt) == b"[" and _first_byte(options.dt) == b"{":
                raise InputError(f"{error}: did you swap --gt and --dt?") from None
            raise
        progress.step("writing")
        wanted = options.per_class or options.json is not None or options.plot is not None
        result = evaluator.result(with_values=wanted)
        written = _write(options, evaluator, result, inputs)
    _warn(options, evaluator, result)
    if reports(options):
        print(_report(options, evaluator, result, written))


def _first_byte(path: str) -> bytes:
    """The first byte of a JSON file that is not space; nothing of what can be read only once."""
    from valor_gpu.inputs.files import InputFile

    file = InputFile(path)
    if file.is_stream:
        return b""
    with file.open() as opened:
        return opened.read(64).lstrip()[:1]


def _evaluate(options: argparse.Namespace, progress: Progress) -> COCOeval:
    from valor_gpu.coco import COCO, COCOeval

    with contextlib.redirect_stdout(io.StringIO()):  # the messages of pycocotools
        progress.step("loading libraries")
        from valor_gpu.coco.engine import engine_on

        engine_on(options.device)
        progress.step(f"reading {os.path.basename(options.gt)} and {os.path.basename(options.dt)}")
        ground_truths = COCO(options.gt)
        detections = ground_truths.loadRes(options.dt)
        evaluator = COCOeval(ground_truths, detections, "bbox", device=options.device, convention=options.convention)
        progress.step(f"matching {plural(len(evaluator.params.imgIds), 'image')}")
        evaluator.evaluate()
        progress.step("accumulating")
        evaluator.accumulate()
    return evaluator


def _write(options: argparse.Namespace, evaluator: COCOeval, result: Result, inputs: Inputs | None) -> list[Path]:
    if inputs is not None:
        from valor_gpu.coco.evaluation_result import category_ids
        from valor_gpu.report.document import document
        from valor_gpu.report.files import write_json

        categories = category_ids(evaluator.cocoGt, evaluator.params)
        write_json(options.json, document("detect", result, inputs, options.device, categories=categories))
    if options.plot is not None:
        from valor_gpu.report.files import draw_picture

        draw_picture(options.plot, result, source=os.path.basename(options.dt))
    return [path for path in (options.json, options.plot) if path is not None]


def _warn(options: argparse.Namespace, evaluator: COCOeval, result: Result) -> None:
    from valor_gpu.report.detection import doubts

    for text in doubts(evaluator.cocoGt, evaluator.cocoDt, result, options.gt):
        print(f"valor-gpu {options.command}: warning: {text}", file=sys.stderr)


def _report(options: argparse.Namespace, evaluator: COCOeval, result: Result, written: list[Path]) -> str:
    """The twelve numbers, the classes if asked for, counts and choices."""
    from valor_gpu.report.detection import class_table, count_line

    parts = [str(evaluator)]
    if options.per_class:
        parts.append(class_table(result))
    parts.append("\n".join([count_line(result), str(result.signature), *(f"wrote {path}" for path in written)]))
    return "\n\n".join(parts)
