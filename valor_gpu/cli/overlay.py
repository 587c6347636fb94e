"""``--overlay`` of ``valor-gpu detect``: its checks before any work, and the pictures."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from valor_gpu.errors import InputError
from valor_gpu.report.text import plural

if TYPE_CHECKING:
    from valor_gpu.coco import COCOeval, LVISEval

COUNT = 10
IOU_THRESHOLD = 0.5


def check_overlay(options: argparse.Namespace) -> None:
    """Raises for what cannot work: other options, folders, no matplotlib."""
    if not overlay_is_given(options, "images", "overlay_count", "overlay_score"):
        return
    check_picture_folders(options)


def overlay_is_given(options: argparse.Namespace, *others: str) -> bool:
    """Whether there is ``--overlay``; raises where there is not but others of its options."""
    given = [name for name in others if getattr(options, name) is not None]
    if options.store is not None or getattr(options, "report", None) is not None:  # which show the photos, too
        given = [name for name in given if not name.startswith("images")]
    if options.overlay is None and given:
        raise InputError(f"--overlay must be given with --{given[0].replace('_', '-')} but is not")
    return options.overlay is not None


def check_picture_folders(options: argparse.Namespace) -> None:
    """Raises for folders of pictures and photos that cannot work, or where matplotlib is not installed."""
    _check_folder(options.overlay)
    if options.images is not None:
        if not os.path.isdir(options.images):
            got = "is a file" if os.path.exists(options.images) else "does not exist"
            raise InputError(f"--images must be a folder but {options.images} {got}")
        if os.path.realpath(options.images) == os.path.realpath(options.overlay):
            raise InputError(f"--overlay must be another folder than --images but both are {options.images}")
    from valor_gpu.result import require_matplotlib

    require_matplotlib("--overlay")


def _check_folder(folder: Path) -> None:
    """Raises unless files can be written into the folder, which may have to be made."""
    there = Path(os.path.abspath(folder))
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise InputError(f"--overlay must be a folder but {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--overlay must be a writable folder but {there} is not writable")


def draw_overlay(options: argparse.Namespace, evaluation: COCOeval | LVISEval) -> list[str]:
    """Draws the worst images, warns of photos that are not there, and returns what to say of the files."""
    from valor_gpu.report.overlay import draw_worst_images

    missing: list[Path] = []
    unusable: list[str] = []
    photos = None if options.images is None else Path(options.images)
    count = COUNT if options.overlay_count is None else options.overlay_count
    lowest = -math.inf if options.overlay_score is None else options.overlay_score
    drawn = draw_worst_images(
        evaluation, options.overlay, count, photos, IOU_THRESHOLD, lowest, missing.append, unusable.append
    )
    warn_of_missing(options, missing)
    warn_of_unusable(options, unusable)
    return [f"wrote {path}" for path in drawn] or [f"no picture in {options.overlay}: no image has an error"]


def warn_of_missing(options: argparse.Namespace, photos: Sequence[Path]) -> None:
    """Says which photos are not there."""
    if photos:
        are = "is" if len(photos) == 1 else "are"
        print(
            f"valor-gpu {options.command}: warning: {plural(len(photos), 'photo')} {are} not there, drawn on a plain"
            f" canvas instead: {photos[0]}{' and others' if len(photos) > 1 else ''}",
            file=sys.stderr,
        )


def warn_of_unusable(options: argparse.Namespace, problems: Sequence[str]) -> None:
    """Says which photos are damaged or of another size, by the reasons."""
    if problems:
        print(
            f"valor-gpu {options.command}: warning: {plural(len(problems), 'photo')} cannot be used, drawn on a plain"
            f" canvas instead: {problems[0]}{', and others' if len(problems) > 1 else ''}",
            file=sys.stderr,
        )
