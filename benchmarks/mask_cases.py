"""The works and sizes of the benchmark of masks, and their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from testing import keypoint_datasets, mask_datasets
from testing.mask_datasets import MASK_CASES, MaskFiles

DENSE_ROUNDS = 20  # dense masks of all images come so often, under new ids: what is decoded fits in memory


@dataclass(frozen=True)
class MaskCase:
    """One work at one scale.

    Attributes:
        name: how the command line calls it.
        work: key of ``WORKS``.
        scale: key of ``MASK_CASES``.
        images: how many, and how many of the quick version.
    """

    name: str
    work: str
    scale: str
    images: int
    quick: int
    unit: ClassVar[str] = "images"
    number: ClassVar[str] = "map"


CASES: Mapping[str, MaskCase] = {
    case.name: case
    for case in (
        MaskCase("segm-val2017", "segm files", "val2017", 5_000, 60),
        MaskCase("segm-lvis", "segm files", "lvis", 1_000, 20),
        MaskCase("dense", "dense masks", "val2017", 500, 40),
        MaskCase("keypoints", "keypoints files", "val2017", 5_000, 60),
        MaskCase("mask-iou", "mask IoU", "val2017", 500, 30),
    )
}


def cached(name: str, size: int, seed: int, folder: Path) -> MaskFiles:
    """The files of a case; dense masks are decoded from fewer images, which come several times."""
    case = CASES[name]
    if case.work == "keypoints files":
        return keypoint_datasets.cached(size, seed, folder)
    images = size // DENSE_ROUNDS if case.work == "dense masks" else size
    return mask_datasets.cached(MASK_CASES[case.scale], images, seed, folder)
