"""``--overlay`` of ``valor-gpu segment``: which images are the worst, and their pictures."""

from __future__ import annotations

import argparse
import heapq
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from valor_gpu.cli.options import is_inside
from valor_gpu.cli.overlay import COUNT, check_picture_folders, overlay_is_given, warn_of_missing, warn_of_unusable
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.report.label_map_overlay import LabelMaps
    from valor_gpu.segmentation.label_map_folders import ImageCounts, Task, Totals

_NAME_BYTES = 200  # of the 255 that file systems allow, with room for a rank, an ending and what a part file adds
_PHOTOS = (".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG")


def check_overlay(options: argparse.Namespace) -> None:
    """Raises for what cannot work: options without ``--overlay``, folders, no matplotlib."""
    if not overlay_is_given(options, "images", "images_suffix", "overlay_count"):
        return
    check_picture_folders(options)
    for option, folder in (("--gt", options.gt), ("--pred", options.pred)):
        if is_inside(options.overlay, folder):
            raise InputError(
                f"--overlay must lie outside of {option}, whose files are read, but {options.overlay} is in {folder}"
            )


class WorstImages:
    """The images with an error whose mIOU is lowest.

    Args:
        limit: how many.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, int, ImageCounts]] = []  # the best of them first
        self._seen = 0

    def add(self, image: ImageCounts, miou: float) -> None:
        """Takes an image into account; of images with equal mIOU the first are worse."""
        self._seen += 1
        if not image.wrong or math.isnan(miou):
            return
        heapq.heappush(self._heap, (-miou, -self._seen, image))
        if len(self._heap) > self._limit:
            heapq.heappop(self._heap)

    def images(self) -> list[tuple[ImageCounts, float]]:
        """The images and their mIOU, the worst first."""
        return [(image, -miou) for miou, _, image in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]


def worst_images(options: argparse.Namespace) -> WorstImages | None:
    """What collects the images to draw, None without ``--overlay``."""
    return None if options.overlay is None else WorstImages(options.overlay_count or COUNT)


def draw_overlay(options: argparse.Namespace, worst: WorstImages, totals: Totals) -> list[str]:
    """Draws the worst images, warns of photos that are not there, and returns what to say of the files."""
    from valor_gpu.report.label_map_overlay import class_colors, draw_label_maps
    from valor_gpu.report.photos import photo_problem

    images = worst.images()
    if not images:
        return [f"no picture in {options.overlay}: no image has an error"]
    pixels = sum(image.counts[1] + image.counts[2] for image, _ in images if image.counts is not None)
    colors = class_colors(totals.names, pixels.tolist())  # type: ignore[union-attr]
    options.overlay.mkdir(parents=True, exist_ok=True)
    drawn, missing = [], []
    problems: list[str] = []
    for rank, (image, miou) in enumerate(images, 1):
        photo = _photo(options, image.pair.name)
        if photo is not None and not photo.is_file():
            missing.append(photo)
            photo = None
        maps = _label_maps(image, miou, totals.task, photo)
        problem = photo_problem(photo, maps.truth.shape)
        if problem:
            problems.append(problem)
            maps = maps._replace(photo=None)
        drawn.append(options.overlay / f"{rank:03}_{_file_name(image.pair.name)}.png")
        draw_label_maps(drawn[-1], maps, totals.names, colors)
    warn_of_missing(options, missing)
    warn_of_unusable(options, problems)
    return [f"wrote {path}" for path in drawn]


def _file_name(name: str) -> str:
    """The name of an image with its folders in one part, of a long one the end."""
    cut = os.fsencode(name.replace("/", "_"))[-_NAME_BYTES:]
    while cut and cut[0] & 0xC0 == 0x80:  # the rest of a character of UTF-8 whose first byte is cut off
        cut = cut[1:]
    return os.fsdecode(cut)


def _photo(options: argparse.Namespace, name: str) -> Path | None:
    """The photo of an image: the first of its possible names that is there, else the first."""
    if options.images is None:
        return None
    stem = f"{name}{options.images_suffix or ''}"
    possible: Sequence[Path] = [Path(options.images, stem + ending) for ending in _PHOTOS]
    return next((path for path in possible if path.is_file()), possible[0])


def photo_name(options: argparse.Namespace, name: str) -> str:
    """The name of an image's photo in ``--images``, or its own."""
    photo = _photo(options, name)
    return name if photo is None else photo.relative_to(options.images).as_posix()


def _label_maps(image: ImageCounts, miou: float, task: Task, photo: Path | None) -> LabelMaps:
    """Reads an image once more."""
    import numpy as np

    from valor_gpu.reduce.regions import region_value
    from valor_gpu.report.label_map_overlay import LabelMaps
    from valor_gpu.segmentation.label_map_folders import read_pair

    truth, found = read_pair(image.pair, task)
    found = found.argmax(0) if found.ndim == 3 else found
    counted = np.ones(truth.shape, bool) if task.ignore_index is None else truth != task.ignore_index
    known = image.pixels - image.ignored
    headline = f"mIOU {miou:.3f}, {1 - image.wrong / known:.1%} of {known:,} pixels right"
    headline += f" ({image.ignored:,} more ignored)" if image.ignored else ""
    assert image.counts is not None
    return LabelMaps(
        truth, found, counted, image.pair.name, headline, region_value("iou", image.counts, None).tolist(), photo
    )
