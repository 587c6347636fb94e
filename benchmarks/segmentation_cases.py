"""The works and sizes of the benchmark of segmentation, and their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from testing.segmentation_datasets import Maps, Shape, cached_maps, cached_pictures

FULL, SMALL = (1024, 2048), (128, 256)
SPACE = 40  # categories or classes that a quick case has at most


@dataclass(frozen=True)
class SegmentationCase:
    """One work at one scale.

    Attributes:
        name: how the command line calls it.
        path: key of ``WORKS`` and of the engines.
        classes: C.
        shape: height and width.
        images: how many, and how many of the quick version, whose maps are smaller.
        dtype: of the labels.
        kind: key of ``MAKERS``, or ``pictures``.
    """

    name: str
    path: str
    classes: int
    shape: Shape
    images: int
    quick: int = 2
    dtype: str = "uint8"
    kind: str = "regions"
    unit: ClassVar[str] = "images"
    number: ClassVar[str] = "value"

    def about(self, images: int) -> str:
        """The title of its column."""
        wide = "" if self.dtype == "uint8" or self.kind != "regions" else f", {self.dtype}"
        return f"{images:,} x {self.shape[0]} x {self.shape[1]}, {self.classes} classes{wide}"


CASES: Mapping[str, SegmentationCase] = {
    case.name: case
    for case in (
        SegmentationCase("maps-19", "label maps", 19, FULL, 30),
        SegmentationCase("maps-150", "label maps", 150, FULL, 30),
        SegmentationCase("maps-19-int64", "label maps", 19, FULL, 10, dtype="int64"),
        SegmentationCase("maps-150-int64", "label maps", 150, FULL, 10, dtype="int64"),
        SegmentationCase("maps-64", "label maps", 19, (64, 64), 1000),
        SegmentationCase("logits-19", "logits", 19, FULL, 4),
        SegmentationCase("logits-150", "logits", 150, (512, 1024), 4),
        SegmentationCase("mean-iou", "mean IoU", 19, (512, 1024), 10, dtype="int64"),
        SegmentationCase("panoptic", "panoptic quality", 15, (480, 640), 4, dtype="int64", kind="panoptic"),
        SegmentationCase("hausdorff", "Hausdorff distance", 4, (64, 64), 4, kind="blobs"),
        SegmentationCase("surface", "surface distances", 9, (512, 512), 20, kind="blobs"),
        SegmentationCase("folder", "PNG files", 19, (512, 1024), 500, quick=4, kind="pictures"),
    )
}


def cached(name: str, size: int, seed: int, folder: Path) -> Maps:
    """The data of a case; those of fewer images are small."""
    case = CASES[name]
    small = size < case.images
    shape = (min(case.shape[0], SMALL[0]), min(case.shape[1], SMALL[1])) if small else case.shape
    classes = min(case.classes, SPACE) if small else case.classes
    if case.kind == "pictures":
        return cached_pictures(shape, classes, size, seed, folder)
    choices = {"ignored": case.path != "mean IoU"} if case.kind == "regions" else {}
    return cached_maps(case.kind, shape, classes, size, seed, folder, dtype=case.dtype, **choices)
