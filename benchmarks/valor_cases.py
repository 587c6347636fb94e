"""The sizes of the benchmark of Valor's detection metrics, and their data: boxes at the scale of COCO val2017."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from testing.datasets import Array, BoxDataset, Case, make

FOUND_PER_IMAGE = 7.32  # as many as there are ground truths: the detections of the largest scores
_MOST = 40  # detections that are made for an image before those of all images are cut


@dataclass(frozen=True)
class ValorCase:
    """One size.

    Attributes:
        name: how the command line calls it.
        images: how many, and how many of the quick version.
        classes: 0 for the real ground truths of val2017, which has 80.
    """

    name: str
    images: int
    quick: int = 60
    classes: int = 0
    unit: ClassVar[str] = "images"
    number: ClassVar[str] = "map"

    def about(self, images: int) -> str:
        """The title of its column."""
        return f"{images:,} images"


CASES: Mapping[str, ValorCase] = {
    case.name: case for case in (ValorCase("valor-5k", 5_000), ValorCase("valor-20k", 20_000, classes=80))
}


class Boxes(NamedTuple):
    """One side of a dataset, rows grouped by image.

    Attributes:
        image: int64 ``[N]`` places of images, ascending.
        label: int64 ``[N]`` places of labels.
        box: float64 ``[N, 4]`` xyxy pixels.
        score: float64 ``[N]``; empty for ground truths.
    """

    image: Array
    label: Array
    box: Array
    score: Array


class Scene(NamedTuple):
    """A dataset: the number of images and of labels, and both sides."""

    images: int
    labels: int
    true: Boxes
    found: Boxes


def cached(name: str, size: int, seed: int, folder: Path) -> Path:
    """The file of a case, generated unless it is there."""
    path = folder / f"{name}_{size}_s{seed}_v1.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        case = CASES[name]
        made = make(Case(name, case.images, _MOST, classes=case.classes, per_image=7.27), size, seed)
        arrays = {f"{side}_{part}": array for side, boxes in _sides(made).items() for part, array in boxes.items()}
        np.savez(path, size=np.array([len(made.image_ids), len(made.category_ids)]), **arrays)
    return path


def load(path: Path) -> Scene:
    """The dataset that :func:`cached` wrote."""
    with np.load(path) as arrays:
        sides = (Boxes(*(arrays[f"{side}_{part}"] for part in Boxes._fields)) for side in ("true", "found"))
        return Scene(*arrays["size"].tolist(), *sides)


def _sides(made: BoxDataset) -> dict[str, dict[str, Array]]:
    """Valor has no crowds; of the detections of all images the best stay."""
    kept = np.argsort(-made.dt_score, kind="stable")[: round(FOUND_PER_IMAGE * len(made.image_ids))]
    rows = {"true": np.flatnonzero(~made.gt_crowd), "found": np.sort(kept)}
    columns = {
        "true": (made.gt_image, made.gt_category, _corners(made.gt_box), np.empty(0)),
        "found": (made.dt_image, made.dt_category, _corners(made.dt_box), made.dt_score),
    }
    return {
        side: {part: a[rows[side]] if len(a) else a for part, a in zip(Boxes._fields, columns[side])} for side in rows
    }


def _corners(box: Array) -> Array:
    return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], 1)
