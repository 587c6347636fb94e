"""``valor-gpu segment``: from folders of label maps to intersection over union."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from valor_gpu.cli.clusters import add_image_interval_options, image_bootstrap_of
from valor_gpu.cli.gates import add_fail_options, fail_status
from valor_gpu.cli.options import (
    add_report_options,
    check_not_read,
    check_outputs,
    count,
    input_path,
    integer,
    output_path,
    reports,
)
from valor_gpu.cli.saving import add_store_options, check_store, save_result, save_state
from valor_gpu.cli.segment_overlay import WorstImages, check_overlay, draw_overlay, photo_name, worst_images
from valor_gpu.cli.slices import add_slice_options, check_slice_options, show_slices, slices_of
from valor_gpu.errors import InputError
from valor_gpu.report.text import plural

if TYPE_CHECKING:
    from valor_gpu.inputs.label_map_pairs import Pairing, Side
    from valor_gpu.progress import Progress
    from valor_gpu.result import Result
    from valor_gpu.segmentation.label_map_folders import ImageCounts, Totals
    from valor_gpu.state_file import StateFile
    from valor_gpu.store.saved import SavedImage

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # malloc.h of glibc
_LISTED = 10
"""How many images that failed standard error lists."""


def add_options(segment: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    add = segment.add_argument
    add("--gt", type=input_path, required=True, metavar="DIR",
        help="ground truth: folder of label maps, .png (grey or palette, 1 to 16 bits; needs Pillow, the extra"
        " images), .npy or .npz, nested folders too; or one file")  # fmt: skip
    add("--pred", type=input_path, required=True, metavar="DIR",
        help="predictions: likewise, of the same names whatever the ending; .npy and .npz may also hold logits"
        " [classes, height, width]")  # fmt: skip
    add("--num-classes", type=count, metavar="N", help="how many classes; default: as many as --names has")
    add("--names", metavar="NAME[,NAME...] or FILE",
        help="names of the classes 0, 1 ..., or a text file with one per line; default: the numbers")  # fmt: skip
    add("--ignore", type=integer, metavar="VALUE",
        help="leave out pixels whose ground truth is VALUE, whatever their prediction, for example 255")  # fmt: skip
    add("--gt-suffix", default="", metavar="TEXT",
        help="end of the names of ground truths before the ending, no part of what is paired, for example"
        " _gtFine_labelIds; other files are left out")  # fmt: skip
    add("--pred-suffix", default="", metavar="TEXT", help="the same of predictions")
    add("--flat", action="store_true", help="pair files by their names alone, whatever nested folder they are in")
    add("--gt-key", metavar="KEY", help="array to read of .npz ground truths; default: the only one")
    add("--pred-key", metavar="KEY", help="array to read of .npz predictions; default: the only one")
    add("--allow-missing", action="store_true", help="leave out files without a partner, and count them")
    add("--skip-bad", action="store_true",
        help="leave out images that cannot be read or do not fit, and count them; without it they are listed and the"
        " exit status is 2")  # fmt: skip
    add("--per-class", action="store_true", help="also print one line per class")
    add("--per-image", type=output_path, metavar="FILE",
        help="write a table (CSV) with one line per image: its numbers, IoU and pixels of each class, or why it"
        " failed")  # fmt: skip
    add("--overlay", type=output_path, metavar="DIR",
        help="draw the images with the lowest mIOU as pictures in this folder, which is made where it is not there:"
        " ground truth, prediction and errors")  # fmt: skip
    add("--overlay-count", type=count, metavar="N", help="how many of these images at most: default 10")
    add("--images", type=input_path, metavar="DIR",
        help="folder of the photos to draw on, .jpg or .png, by the names of the label maps; an image whose photo is"
        " not there, damaged or of another size is drawn on a plain canvas, with a warning")  # fmt: skip
    add("--images-suffix", metavar="TEXT", help="end of the names of photos, as --gt-suffix, for example _leftImg8bit")
    add_store_options(segment)
    add("--threads", type=count, metavar="N", help="how many threads read and count; default: one per CPU")
    for add_more in (add_image_interval_options, add_slice_options, add_fail_options, add_report_options):
        add_more(segment)
    segment.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from valor_gpu.progress import Progress

    outputs = [("--json", options.json), ("--per-image", options.per_image)]
    check_outputs(outputs)
    check_not_read(outputs, [("--gt", options.gt), ("--pred", options.pred), ("--images", options.images)])
    check_overlay(options)
    check_store(options)
    check_slice_options(options)
    intervals = image_bootstrap_of(options)
    names = _class_names(options)
    sides, pairing = _paired(options)
    worst = worst_images(options)
    with Progress(len(pairing.pairs) + 2, sys.stderr, enabled=not options.quiet) as progress:
        saved: list[SavedImage] | None = None if options.store is None else []
        totals = _evaluate(options, names, pairing, (worst, saved), progress)
        _check_failures(options, totals)
        doubts = totals.doubts()
        progress.step("drawing the worst images" if worst else "writing")
        result = totals.result(_counts_of_files(pairing), intervals)
        texts: list[str] = []
        documents: dict[str, Any] = {"warnings": doubts}
        show_slices(slices_of(options, result, intervals), texts, documents)
        _write_json(options, result, totals, pairing, documents)  # before the pictures: an error of one costs no number
        notes = _save(options, result, totals, saved, doubts)
        pictures = [*(draw_overlay(options, worst, totals) if worst else []), *notes]
    missing = pairing.describe_missing(sides)
    for text in (missing and f"{missing}; left out", *doubts):
        _warn(options, text)
    if reports(options):
        print(_report(options, result, texts, pictures))
    return fail_status(options, result)


# ----------------------------------------------------------------------------------------------------- before the work


def _class_names(options: argparse.Namespace) -> list[str]:
    """Names of the classes, all different."""
    if options.names is None:
        if options.num_classes is None:
            raise InputError("--num-classes or --names must be given but neither is")
        return [str(number) for number in range(options.num_classes)]
    if os.path.isfile(options.names):
        with open(options.names, encoding="utf-8-sig", errors="surrogateescape") as file:
            names = [line.strip() for line in file if line.strip()]
    elif "," not in options.names and (os.sep in options.names or options.names.endswith((".txt", ".csv"))):
        raise InputError(f"--names must be names or a text file but the file {options.names} does not exist")
    else:
        names = [name.strip() for name in options.names.split(",")]
    if options.num_classes not in (None, len(names)):
        raise InputError(f"--names must have {options.num_classes} names, as --num-classes says, but has {len(names)}")
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice or "" in names:
        raise InputError(f"--names must be different but {f'has {twice[0]!r} twice' if twice else 'one is empty'}")
    return names


def _paired(options: argparse.Namespace) -> tuple[tuple[Side, Side], Pairing]:
    """The folders and the pairs of their files; raises where these cannot be evaluated."""
    from valor_gpu.inputs.label_map_pairs import Side, hint_at_names, pair_files

    sides = Side(options.gt, options.gt_suffix, "--gt"), Side(options.pred, options.pred_suffix, "--pred")
    if os.path.realpath(options.gt) == os.path.realpath(options.pred) and options.gt_suffix == options.pred_suffix:
        raise InputError(f"--pred must have other files than --gt but both are {options.gt}")
    pairing = pair_files(*sides, flat=options.flat)
    missing = pairing.describe_missing(sides)
    if not pairing.pairs:
        hint = hint_at_names(pairing, options.flat)
        raise InputError(f"--gt and --pred must have files of the same names but have none: {missing}{hint}")
    if missing and not options.allow_missing:
        raise InputError(f"{missing}; --allow-missing leaves them out")
    return sides, pairing


def _counts_of_files(pairing: Pairing) -> dict[str, int]:
    return {
        "ground_truths_without_prediction": len(pairing.without_prediction),
        "predictions_without_ground_truth": len(pairing.without_ground_truth),
        "other_files": pairing.other_files,
    }


# ------------------------------------------------------------------------------------------------------------ the work


def _keep_memory() -> None:
    """Lets malloc reuse what an image leaves behind.

    By default glibc gives blocks of megabytes back to the system and takes them again, filled with zeros, for the next
    image: a third of the time of the whole command.
    """
    import ctypes

    change = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if change is not None:
        for parameter, size in ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 256 << 20)):
            change(parameter, size)


def _evaluate(
    options: argparse.Namespace,
    names: list[str],
    pairing: Pairing,
    kept: tuple[WorstImages | None, list[SavedImage] | None],
    progress: Progress,
) -> Totals:
    from valor_gpu.inputs.label_map_files import LabelMapReader
    from valor_gpu.native import threads
    from valor_gpu.segmentation.label_map_folders import Task, Totals, count_images, saved_image

    worst, saved = kept
    readers = (
        LabelMapReader(options.gt_key, False, "--gt-key"),
        LabelMapReader(options.pred_key, True, "--pred-key"),
    )
    workers = min(options.threads or threads(), len(pairing.pairs))
    task = Task(len(names), options.ignore, readers, workers, hashed=options.json is not None or saved is not None)
    _keep_memory()
    keep_images = bool(options.intervals or options.by or options.save_state) or saved is not None
    totals, many = Totals(names, task, keep_images), plural(len(pairing.pairs), "image")
    with _image_lines(options, names) as add_line:
        progress.step(f"counting {many}")
        for done, image in enumerate(count_images(pairing.pairs, task), 1):
            numbers = totals.add(image)
            add_line(image, numbers)
            if worst and numbers:
                worst.add(image, numbers["miou"])
            if saved is not None and numbers:
                saved.append(saved_image(image, numbers, photo_name(options, image.pair.name)))
            progress.step(f"counted {done:,} of {many}")
    return totals


@contextlib.contextmanager
def _image_lines(options: argparse.Namespace, names: list[str]) -> Iterator[Callable[[ImageCounts, Any], None]]:
    """What takes each image and its numbers."""
    if options.per_image is None:
        yield lambda image, numbers: None
        return
    from valor_gpu.report.files import text_output
    from valor_gpu.report.segmentation import ImageTable

    with text_output(options.per_image) as stream:
        yield ImageTable(stream, names).add


def _check_failures(options: argparse.Namespace, totals: Totals) -> None:
    """Lists the images that failed; raises unless they are to be left out and others are left."""
    from valor_gpu.report.segmentation import failures, hint_at_labels

    if not totals.failed:
        return
    for reason in failures(totals.failed, _LISTED):
        print(f"valor-gpu {options.command}: failed: {reason}", file=sys.stderr)
    count = len(totals.failed)
    text = f"{count:,} of {plural(totals.images + count, 'image')} failed"
    hint = hint_at_labels(totals)
    if options.skip_bad and totals.images:
        _warn(options, f"{text}; left out{hint}")
        return
    raise InputError(text + (hint or ("" if options.skip_bad else "; --skip-bad leaves them out")))


def _write_json(
    options: argparse.Namespace, result: Result, totals: Totals, pairing: Pairing, documents: dict[str, Any]
) -> None:
    if options.json is None:
        return
    from valor_gpu.report.document import document
    from valor_gpu.report.files import write_json
    from valor_gpu.report.segmentation import FolderInputs

    inputs = FolderInputs({"ground_truths": options.gt, "predictions": options.pred}, totals)
    more = {
        "options": options.given,
        "classes": list(totals.names),
        "failed": [{"image": image.pair.name, "error": image.error} for image in totals.failed],
        "without_prediction": pairing.without_prediction,
        "without_ground_truth": pairing.without_ground_truth,
        **documents,
    }
    write_json(options.json, document("segment", result, inputs, "cpu", **more))


def _save(
    options: argparse.Namespace, result: Result, totals: Totals, saved: list[SavedImage] | None, doubts: list[str]
) -> list[str]:
    """Keeps the result where ``--store`` and ``--save-state`` ask for it."""
    make = partial(_state_of, totals, result)
    notes = save_state(options, make)
    if saved is None:
        return notes
    from valor_gpu.segmentation.label_map_folders import label_maps_run

    run = label_maps_run(result, saved, doubts)
    return notes + save_result(options, run, options.pred, options.gt, totals.digests()[0][1], make)


def _state_of(totals: Totals, result: Result) -> StateFile:
    from valor_gpu.segmentation.folder_states import label_map_state

    return label_map_state(totals, result)


def _warn(options: argparse.Namespace, text: str) -> None:
    if text:
        print(f"valor-gpu {options.command}: warning: {text}", file=sys.stderr)


def _report(options: argparse.Namespace, result: Result, texts: list[str], pictures: list[str]) -> str:
    from valor_gpu.exports.intervals import interval_lines
    from valor_gpu.report.segmentation import class_table, count_line, summary

    notes = [f"wrote {path}" for path in (options.json, options.per_image) if path is not None]
    parts = [summary(result), *([class_table(result)] if options.per_class else []), *texts]
    lines = [count_line(result), *interval_lines(result.intervals), str(result.signature), *notes, *pictures]
    return "\n\n".join([*parts, "\n".join(lines)])
