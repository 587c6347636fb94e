"""``valor-gpu detect``: from COCO files to average precision."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from valor_gpu.cli.clusters import add_image_interval_options, by_ids, image_bootstrap_of
from valor_gpu.cli.detect_analysis import Answers, add_analysis_options, analysis_is_asked, answers, check_analysis
from valor_gpu.cli.gates import add_fail_options, fail_status
from valor_gpu.cli.options import (
    add_report_options,
    check_paths,
    count,
    device,
    input_files,
    input_path,
    output_path,
    reports,
    score,
    sigmas,
)
from valor_gpu.cli.saving import add_store_options, check_store, save_result, save_state
from valor_gpu.cli.slices import add_slice_options, check_slice_options, show_slices, slices_of
from valor_gpu.errors import InputError
from valor_gpu.report.text import plural

if TYPE_CHECKING:
    from valor_gpu.inputs.text_ids import Id
    from valor_gpu.progress import Progress
    from valor_gpu.report.document import Inputs
    from valor_gpu.result import Result
    from valor_gpu.stats.intervals import Bootstrap


_FIELDS: dict[str, tuple[str, ...]] = {
    "bbox": ("bbox",),
    "segm": ("segmentation",),
    "boundary": ("segmentation",),
    "rotated": ("bbox",),
    "keypoints": ("num_keypoints", "keypoints"),
}
"""Types of comparison, and the fields of annotations that they need."""
_MEANT = {
    **dict.fromkeys(("box", "boxes", "bboxes"), "bbox"),
    **dict.fromkeys(("mask", "masks", "seg", "segmentation", "instance"), "segm"),
    **dict.fromkeys(("keypoint", "kpt", "kpts", "pose", "oks"), "keypoints"),
}
"""What some call a type, and its name here."""
_PROTOCOLS = {"coco": tuple(_FIELDS), "lvis": ("bbox", "segm"), "crowdpose": ("keypoints",)}
"""Protocols, and the types that they have, the default first."""
_PROTOCOL_FIELDS: dict[str, tuple[str, ...]] = {
    "coco": (),
    "lvis": ("neg_category_ids", "not_exhaustive_category_ids", "frequency"),
    "crowdpose": ("crowdIndex",),
}
"""Fields of images and categories that protocols need."""


def add_options(detect: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = detect.add_argument
    add("--gt", type=input_path, required=True, metavar="FILE",
        help="ground truth: COCO JSON (or .gz, or -) with images, annotations and categories")  # fmt: skip
    add("--dt", type=input_path, required=True, metavar="FILE",
        help="detections: JSON array (or .gz, or -) of objects with image_id, category_id, score, and bbox,"
        " segmentation or keypoints")  # fmt: skip
    add("--iou-type", type=_iou_type, choices=tuple(_FIELDS), metavar="TYPE",
        help="what is compared: bbox (default), segm (masks), boundary (the smaller of the IoU of masks and of their"
        " boundaries), rotated (boxes [centre x, centre y, width, height, degrees counterclockwise], or four corners)"
        " or keypoints (default of crowdpose)")  # fmt: skip
    add("--protocol", choices=tuple(_PROTOCOLS), default="coco",
        help="coco (default); lvis: federated, for bbox and segm; crowdpose: for keypoints")  # fmt: skip
    add("--sigmas", type=sigmas, metavar="S,S,...",
        help="of keypoints: the tolerance of each, relative to the scale of an object; default: those of the protocol,"
        " 17 of coco, 14 of crowdpose")  # fmt: skip
    add("--device", type=device, default="cpu", help="where to match and accumulate: cpu (default), cuda or cuda:N")
    add("--convention", choices=("strict", "corrected"), default="strict",
        help="strict (default): as pycocotools, or lvis-api, to the last bit; corrected: without their quirks, such as"
        " ids that are 0 or repeat; also takes files without area, iscrowd or num_keypoints")  # fmt: skip
    add("--per-class", action="store_true", help="also print one line per class")
    _add_pictures(detect)
    add_store_options(detect)
    add("--store-score", type=score, metavar="S",
        help="with --store: leave detections below this score out of the images, their F1 and the confusion matrix;"
        " default: 0.25. AP takes all")  # fmt: skip
    add_image_interval_options(detect)
    add_slice_options(detect, "; crowding, image_size, size and aspect_ratio need no table")
    add_analysis_options(detect)
    add_fail_options(detect)
    add_report_options(detect)
    detect.set_defaults(run=run)


def _add_pictures(detect: argparse.ArgumentParser) -> None:
    """Adds the options of pictures."""
    add = detect.add_argument
    add("--plot", type=output_path, metavar="FILE", help="draw precision over recall as .png, .svg, .pdf, ...")
    add("--overlay", type=output_path, metavar="DIR",
        help="draw the images with most errors at IoU 0.5 (OKS 0.5 for keypoints) as pictures in this folder, which is"
        " made where it is not there: what is correct, wrong and missed")  # fmt: skip
    add("--overlay-count", type=count, metavar="N", help="how many of these images at most: default 10")
    add("--overlay-score", type=score, metavar="S",
        help="leave detections below this score out of the pictures: default, none")  # fmt: skip
    add("--images", type=input_path, metavar="DIR",
        help="folder of the photos that --overlay and --report draw on, by the file_name of the images in --gt; an"
        " image whose photo is not there is drawn on a plain canvas, with a warning; with --store, of what Studio"
        " shows")  # fmt: skip


def _iou_type(text: str) -> str:
    """A type of comparison; one that has another name here is an error that tells it."""
    meant = _MEANT.get(text.lower())
    if meant is not None:
        raise argparse.ArgumentTypeError(f"must be {', '.join(_FIELDS)} but got {text}: {meant} is meant")
    return text


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from valor_gpu.progress import Progress

    _check_choices(options)
    pictures = [] if options.plot is None else [options.plot]
    check_paths({"--gt": options.gt, "--dt": options.dt}, options.json, pictures)
    _check_overlay(options)
    check_analysis(options)
    check_slice_options(options)
    check_store(options)
    bootstrap = image_bootstrap_of(options)
    inputs = input_files(options, ground_truths=options.gt, detections=options.dt)
    try:
        steps = 5 + (options.overlay is not None) + (bootstrap is not None) + analysis_is_asked(options)
        steps += options.by is not None
        with Progress(steps, sys.stderr, enabled=not options.quiet) as progress:
            evaluated = _evaluate(options, progress)
            notes = _draw(options, evaluated, progress)
            result = _result(options, evaluated, bootstrap, progress)
            slices = slices_of(options, result, bootstrap, progress)
            found = answers(options, result, inputs, progress, slices, bootstrap)
            show_slices(slices, found.texts, found.documents)
            progress.step("writing")
            notes = _write(options, evaluated, result, inputs, found) + notes
        report = _report(options, evaluated, result, notes, found.texts) if reports(options) else ""
    except InputError as error:
        raise _explained(options, error) from None
    _warn(options, evaluated, result)
    if report:
        print(report)
    return fail_status(options, result)


def _result(
    options: argparse.Namespace, evaluated: _Coco | _Lvis, bootstrap: Bootstrap | None, progress: Progress
) -> Result:
    """The numbers, where something shows them, and their intervals, if they are asked for."""
    files = any(
        each is not None for each in (options.json, options.plot, options.store, options.save_state)
    ) or analysis_is_asked(options)
    gates = options.fail_under or options.fail_if
    wanted = options.per_class or files or gates or options.by or bootstrap
    result = evaluated.result(with_values=bool(wanted))
    if bootstrap is None:
        return result
    progress.step(f"drawing the images {plural(bootstrap.replicates, 'time')} anew")
    return result.with_intervals(by_ids(bootstrap, evaluated.image_ids()))


def _check_choices(options: argparse.Namespace) -> None:
    """Raises for options that do not go together; sets the type that the protocol starts from."""
    types = _PROTOCOLS[options.protocol]
    options.iou_type_given = options.iou_type is not None
    options.iou_type = options.iou_type or types[0]
    if options.iou_type not in types:
        raise InputError(
            f"--iou-type must be {' or '.join(types)} with --protocol {options.protocol} but got {options.iou_type}"
        )
    if options.sigmas is not None and options.iou_type != "keypoints":
        raise InputError(f"--sigmas must go with --iou-type keypoints but got {options.iou_type}")


def _check_overlay(options: argparse.Namespace) -> None:
    asked = (options.overlay, options.overlay_count, options.overlay_score, options.images)
    if asked != (None,) * len(asked):
        from valor_gpu.cli.overlay import check_overlay

        check_overlay(options)


def _explained(options: argparse.Namespace, error: InputError) -> InputError:
    """The error, and the option that asks for what is lacking."""
    from valor_gpu.coco.doubtful_values import WAY_OUT
    from valor_gpu.report import detection

    if _first_byte(options.gt) == b"[" and _first_byte(options.dt) == b"{":
        return InputError(f"{error}: did you swap --gt and --dt?")
    if WAY_OUT in str(error):
        return InputError(str(error).replace(WAY_OUT, detection.WAY_OUT))
    if str(error).startswith("params.kpt_oks_sigmas"):
        return InputError(str(error).replace("params.kpt_oks_sigmas", "--sigmas", 1))
    need, _, got = str(error).partition(" but ")
    asked = {"iou-type": (options.iou_type, _FIELDS), "protocol": (options.protocol, _PROTOCOL_FIELDS)}
    for option, (choice, fields) in asked.items():
        lacking = [name for name in fields[choice] if name in need]
        if lacking and ("must have" in need or got.lower() == "got none"):
            return InputError(f"{error}: --{option} {choice} needs {lacking[0]}")
    return error


def _first_byte(path: str) -> bytes:
    """The first byte of a JSON file that is not space; nothing of what can be read only once."""
    from valor_gpu.inputs.files import InputFile

    file = InputFile(path)
    if file.is_stream:
        return b""
    with file.open() as opened:
        return opened.read(64).removeprefix(codecs.BOM_UTF8).lstrip()[:1]


def _evaluate(options: argparse.Namespace, progress: Progress) -> _Coco | _Lvis:
    with contextlib.redirect_stdout(io.StringIO()):  # the messages of pycocotools
        progress.step("loading libraries")
        from valor_gpu.coco.engine import engine_on

        engine_on(options.device)
        progress.step(f"reading {os.path.basename(options.gt)} and {os.path.basename(options.dt)}")
        evaluated = _Lvis(options) if options.protocol == "lvis" else _Coco(options)
        progress.step(f"matching {plural(evaluated.images, 'image')}")
        evaluated.evaluation.evaluate()
        progress.step("accumulating")
        evaluated.evaluation.accumulate()
    return evaluated


class _Coco:
    """An evaluation by pycocotools' protocol, or CrowdPose's."""

    def __init__(self, options: argparse.Namespace) -> None:
        from valor_gpu.coco import COCO, COCOeval

        ground_truths = COCO(options.gt)
        detections = ground_truths.loadRes(options.dt)
        kind = "keypoints_crowd" if options.protocol == "crowdpose" else options.iou_type
        chosen = {"device": options.device, "convention": options.convention}
        self.evaluation = COCOeval(ground_truths, detections, kind, **chosen)
        self.evaluation._warns = False  # of what the report tells
        if options.sigmas is not None:
            self.evaluation.params.kpt_oks_sigmas = options.sigmas
        self.columns = ground_truths.columns, detections.columns
        self.images = len(self.evaluation.params.imgIds)

    def result(self, with_values: bool) -> Result:
        """Its numbers."""
        return self.evaluation.result(with_values)

    def image_ids(self) -> list[Id]:
        """Ids of the images that are evaluated."""
        return list(self.evaluation.params.imgIds)

    def summary(self) -> str:
        """The lines of its protocol."""
        return str(self.evaluation)

    def category_ids(self) -> dict[str, Id]:
        """Category id by the name that results give it."""
        from valor_gpu.coco.annotation_sets import category_ids

        return category_ids(self.evaluation.cocoGt, self.evaluation.params)


class _Lvis:
    """An evaluation by the protocol of LVIS."""

    def __init__(self, options: argparse.Namespace) -> None:
        from valor_gpu.coco import LVISEval

        self.evaluation = LVISEval(options.gt, options.dt, options.iou_type, options.device, options.convention)
        self.evaluation._warns = False  # of what the report tells
        self.columns = self.evaluation.lvis_gt.columns, self.evaluation.lvis_dt.columns
        self.images = len(self.evaluation.params.img_ids)

    def result(self, with_values: bool) -> Result:
        """Its numbers."""
        self.evaluation.summarize()
        return self.evaluation.result()

    def image_ids(self) -> list[Id]:
        """Ids of the images that are evaluated."""
        return list(self.evaluation.params.img_ids)

    def summary(self) -> str:
        """The lines of its protocol."""
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self.evaluation.print_results()
        return text.getvalue().rstrip("\n")

    def category_ids(self) -> dict[str, Id]:
        """Category id by the name that results give it."""
        from valor_gpu.coco.federated_evaluation import lvis_names

        ids = self.evaluation.params.cat_ids
        return dict(zip(lvis_names(self.columns[0], ids), ids))


def _write(
    options: argparse.Namespace, evaluated: _Coco | _Lvis, result: Result, inputs: Inputs | None, found: Answers
) -> list[str]:
    if options.json is not None and inputs is not None:
        from valor_gpu.report.document import document
        from valor_gpu.report.files import write_json

        more = {"categories": evaluated.category_ids(), **found.documents}
        write_json(options.json, document("detect", result, inputs, options.device, options=options.given, **more))
    if options.plot is not None:
        from valor_gpu.report.files import draw_picture

        draw_picture(options.plot, result, source=os.path.basename(options.dt))
    notes = [f"wrote {path}" for path in (options.json, options.plot) if path is not None] + found.notes
    make = partial(evaluated.evaluation._state_file, result)
    notes += save_state(options, make)
    if options.store is None:
        return notes
    if isinstance(evaluated, _Lvis):
        return notes + save_result(options, result, options.dt, options.gt, state=make)
    above = {} if options.store_score is None else {"score_threshold": options.store_score}
    return notes + save_result(options, evaluated.evaluation, options.dt, options.gt, numbers=result, **above)


def _draw(options: argparse.Namespace, evaluated: _Coco | _Lvis, progress: Progress) -> list[str]:
    if options.overlay is None:
        return []
    from valor_gpu.cli.overlay import draw_overlay

    progress.step("drawing the worst images")
    return draw_overlay(options, evaluated.evaluation)


def _warn(options: argparse.Namespace, evaluated: _Coco | _Lvis, result: Result) -> None:
    from valor_gpu.report.detection import doubts, doubts_of_type

    given = options.iou_type if options.iou_type_given else None
    of_type = doubts_of_type(evaluated.columns[1], result.signature, given)
    for text in (*of_type, *doubts(*evaluated.columns, result, options.gt)):
        print(f"valor-gpu {options.command}: warning: {text}", file=sys.stderr)


def _report(
    options: argparse.Namespace, evaluated: _Coco | _Lvis, result: Result, notes: list[str], texts: list[str]
) -> str:
    """The numbers of the protocol, the classes if asked for, counts and choices."""
    from valor_gpu.report.detection import class_table, count_line, interval_table

    parts = [evaluated.summary()]
    if result.intervals:
        parts.append(interval_table(result))
    if options.per_class:
        parts.append(class_table(result))
    parts += texts
    parts.append("\n".join([count_line(result), str(result.signature), *notes]))
    return "\n\n".join(parts)
