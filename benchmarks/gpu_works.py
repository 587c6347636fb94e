"""Sizes of what a GPU check times: whole, quick, and for a dry run on the CPU. Nothing is made before a check needs it.

Importing this loads no library of the package: ``benchmarks.gpu_check`` builds them first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.checks import Later
from testing.datasets import CASES, BoxDataset, make


@dataclass(frozen=True)
class Work:
    """A dataset of boxes to be timed.

    Attributes:
        name: of the scene.
        scene: makes it.
        key: start of its keys in :data:`benchmarks.gpu_targets.TARGETS`, empty for no targets.
        batches: whether updates of 16 images are timed, and what one of them costs.
        repeats: runs of each.
    """

    name: str
    scene: Later[BoxDataset]
    key: str = ""
    batches: bool = False
    repeats: int = 20

    def keys(self, what: str) -> tuple[str, ...]:
        """Returns the keys of the targets of one of its works."""
        return (f"{self.key}, {what}",) if self.key else ()


def usual_works(device: torch.device, quick: bool) -> list[Work]:
    """Returns val2017 scale and Objects365 scale; with ``quick`` 500 images of the first alone, on the CPU 30."""

    def scene(case: str, images: int | None = None) -> Later[BoxDataset]:
        return Later(f"scene {case}", partial(make, CASES[case], images))

    if device.type == "cpu":
        return [Work("val2017, 30 images", scene("val2017", 30), batches=True, repeats=2)]
    if quick:
        return [Work("val2017, 500 images", scene("val2017", 500), batches=True, repeats=5)]
    return [
        Work("val2017 scale", scene("val2017"), "val2017", batches=True),
        Work("Objects365 scale", scene("objects365"), "Objects365", repeats=10),
    ]


@dataclass(frozen=True)
class Sizes:
    """What is timed beside datasets of boxes and scores of classes.

    Attributes:
        box_pairs: boxes of either side, all of whose pairs get an IoU.
        peer_images: images that torchmetrics' average precision gets.
        frame: height and width of a label map.
        classes: of label maps and logits.
        masks: how many, their height and width: to be packed, and to have boundaries.
        dense: images of dense masks in one update, and detections in each.
        op_images: images of the scene at which ops of masks are timed.
        checked: images of the comparisons of mask metrics with the CPU.
        replicates: of the images of a data set of boxes.
        numbers: rows of metrics of regression.
        documents: queries and documents of each: with torchmetrics beside, and without.
        repeats: runs of each.
    """

    box_pairs: tuple[int, int] = (4_000, 2_500)
    peer_images: int = 320
    frame: tuple[int, int] = (1024, 2048)
    classes: int = 19
    masks: tuple[int, int, int] = (100, 1080, 1920)
    dense: tuple[int, int] = (16, 100)
    op_images: int = 500
    checked: int = 10
    replicates: int = 1000
    numbers: int = 10_000_000
    documents: tuple[tuple[int, int], tuple[int, int]] = ((8_000, 40), (100_000, 100))
    repeats: int = 20


WHOLE = Sizes()
QUICK = Sizes(
    (2_000, 1_000), 64, masks=(20, 1080, 1920), dense=(16, 20), op_images=100, checked=3, numbers=1_000_000,
    documents=((500, 40), (10_000, 100)), repeats=5,
)  # fmt: skip
DRY = Sizes(
    (40, 30), 32, (96, 128), masks=(3, 40, 70), dense=(2, 4), op_images=8, checked=2, replicates=2, numbers=900,
    documents=((9, 7), (20, 30)), repeats=2,
)  # fmt: skip


def sizes_for(device: torch.device, quick: bool) -> Sizes:
    """Returns the sizes of a run; on the CPU those of a dry run."""
    return DRY if device.type == "cpu" else QUICK if quick else WHOLE
