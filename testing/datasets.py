"""Seeded datasets at the scale of COCO val2017, Objects365 and LVIS: ground truths, and what a model might detect.

Ground truths are the real boxes of val2017, or resampled from them. A detection is a hit (seen with a probability that
grows with the object's size, moved by a log-normal error), a leftover duplicate, the same box under another class, a
member of a crowd, or background; scores follow the IoU, and about 30 % of them are rounded to 3 decimals, so that ties
occur. Same case, size and seed: same bits.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Random = np.random.Generator

ROOT = Path(__file__).parents[1]
REAL_BOXES = ROOT / "examples" / "data" / "val2017_real_boxes_gt.json.gz"
_IMAGE_SIZES = np.array([[640, 480], [640, 427], [512, 768], [1024, 683], [768, 512]], float)


@dataclass(frozen=True)
class Case:
    """The scale of a dataset.

    Attributes:
        name: how the command line calls it.
        images: number of images.
        limit: most detections per image; a few candidates more are made, so that most images reach it.
        classes: number of classes, 0 for the real val2017 ground truths.
        per_image: mean ground truths per image; like the next two fields, unused with the real ones.
        zipf: exponent of the class frequencies.
        palette: distinct classes drawn for an image.
        quick_images: images of the small version.
    """

    name: str
    images: int
    limit: int
    classes: int = 0
    per_image: float = 0.0
    zipf: float = 1.1
    palette: int = 5
    quick_images: int = 200
    unit: ClassVar[str] = "images"
    number: ClassVar[str] = "map"


CASES = {
    case.name: case
    for case in (
        Case("val2017", 5_000, 100),
        Case("objects365", 80_000, 20, classes=365, per_image=15.6, quick_images=600),
        Case("lvis", 5_000, 300, classes=1_203, per_image=12.35, zipf=1.05, palette=4, quick_images=100),
    )
}


class GroundTruths(NamedTuple):
    """Ground truths by image: ids ``[I]``, sizes ``[I, 2]``, category ids ``[K]``; then positions, not ids, ``[G]``."""

    image_ids: Array
    sizes: Array
    category_ids: Array
    image: Array
    category: Array
    box: Array
    crowd: Array


class Found(NamedTuple):
    """Detections of one kind: positions of image and category ``[D]``, xywh boxes ``[D, 4]``, scores ``[D]``."""

    image: Array
    category: Array
    box: Array
    score: Array


@dataclass(frozen=True)
class BoxDataset:
    """Ground truths and detections, rows grouped by ascending image id, detections of an image by descending score.

    Attributes:
        image_ids: int64 ``[I]`` ascending.
        sizes: float64 ``[I, 2]`` width and height, pixels.
        category_ids: int64 ``[K]`` ascending.
        gt_image: int64 ``[G]`` positions in ``image_ids``; like ``dt_image`` ``[D]``.
        gt_category: int64 ``[G]`` positions in ``category_ids``; like ``dt_category`` ``[D]``.
        gt_box: float64 ``[G, 4]`` xywh pixels, 2 decimals; like ``dt_box`` ``[D, 4]``.
        gt_crowd: bool ``[G]``.
        dt_score: float64 ``[D]``, 6 decimals.
    """

    image_ids: Array
    sizes: Array
    category_ids: Array
    gt_image: Array
    gt_category: Array
    gt_box: Array
    gt_crowd: Array
    dt_image: Array
    dt_category: Array
    dt_box: Array
    dt_score: Array

    @property
    def gt_area(self) -> Array:
        """float64 ``[G]``, square pixels: of the boxes, as there are no masks."""
        return np.asarray(self.gt_box[:, 2] * self.gt_box[:, 3])


def make(case: Case, images: int | None = None, seed: int = 0) -> BoxDataset:
    """Generate a dataset; ``images`` replaces the number of the case."""
    rng = np.random.default_rng(seed)
    count = images or case.images
    gts = _resampled(rng, _real(), case, count) if case.classes else _subset(rng, _real(), count)
    found = _found(rng, gts, case.limit)
    return BoxDataset(*gts[:3], *gts[3:], *found)


# ------------------------------------------------------------------------------------------------------ ground truths


def _real() -> GroundTruths:
    """All 36,781 boxes of val2017; see examples/data/NOTICE.md for source and licence."""
    with gzip.open(REAL_BOXES) as file:
        data = json.load(file)
    images, rows = data["images"], data["annotations"]
    image_ids = np.array([image["id"] for image in images])
    category_ids = np.sort([category["id"] for category in data["categories"]])
    image = np.searchsorted(image_ids, [row["image_id"] for row in rows])
    order = np.argsort(image, kind="stable")
    return GroundTruths(
        image_ids,
        np.array([[image["width"], image["height"]] for image in images], float),
        category_ids,
        image[order],
        np.searchsorted(category_ids, [row["category_id"] for row in rows])[order],
        np.array([row["bbox"] for row in rows], float)[order],
        np.array([row["iscrowd"] for row in rows], bool)[order],
    )


def _subset(rng: Random, real: GroundTruths, images: int) -> GroundTruths:
    """Some images with all their ground truths."""
    if images >= len(real.image_ids):
        return real
    kept = np.sort(rng.permutation(len(real.image_ids))[:images])
    rows = np.isin(real.image, kept)
    image = np.searchsorted(kept, real.image[rows])
    parts = (column[rows] for column in (real.category, real.box, real.crowd))
    return GroundTruths(real.image_ids[kept], real.sizes[kept], real.category_ids, image, *parts)


def _resampled(rng: Random, real: GroundTruths, case: Case, images: int) -> GroundTruths:
    """Real boxes, relative to their image, moved and scaled a little into new images with Zipf class frequencies."""
    relative = (real.box / np.tile(real.sizes[real.image], 2))[~real.crowd]
    sizes = _IMAGE_SIZES[rng.integers(0, len(_IMAGE_SIZES), images)]
    dispersion = 1.3  # of the counts of val2017
    counts = rng.negative_binomial(dispersion, dispersion / (dispersion + case.per_image), images).clip(0, 120)
    image = np.repeat(np.arange(images), counts)
    box = relative[rng.integers(0, len(relative), len(image))]
    box[:, 2:] = (box[:, 2:] * np.exp(rng.normal(0, 0.15, (len(image), 2)))).clip(max=1)
    box[:, :2] = (box[:, :2] + rng.normal(0, 0.08, (len(image), 2))).clip(0, 1 - box[:, 2:])
    box = np.round(box * np.tile(sizes[image], 2), 2)
    box[:, 2:] = box[:, 2:].clip(1)
    frequency = rng.permutation(1 / np.arange(1, case.classes + 1) ** case.zipf)
    palettes = rng.choice(case.classes, (images, case.palette), p=frequency / frequency.sum())
    category = palettes[image, rng.integers(0, case.palette, len(image))]
    crowd = rng.random(len(image)) < 0.01
    return GroundTruths(np.arange(1, images + 1), sizes, np.arange(1, case.classes + 1), image, category, box, crowd)


# --------------------------------------------------------------------------------------------------------- detections


class _Confusion:
    """Fixed random groups of classes that a model takes for one another."""

    def __init__(self, rng: Random, classes: int) -> None:
        self._rng = rng
        self._group = rng.integers(0, max(2, classes // 7), classes)
        self._members = np.argsort(self._group, kind="stable")
        self._size = np.bincount(self._group)
        self._first = np.cumsum(self._size) - self._size

    def other(self, category: Array, share: float = 1.0) -> Array:
        """A random class of the same group for ``share`` of the rows."""
        group = self._group[category]
        pick = self._first[group] + (self._rng.random(len(category)) * self._size[group]).astype(int)
        return np.where(self._rng.random(len(category)) < share, self._members[pick], category)


def _found(rng: Random, gts: GroundTruths, limit: int) -> Found:
    """All kinds of detections, cut to the best ``limit`` of each image."""
    confusion = _Confusion(rng, len(gts.category_ids))
    objects = np.flatnonzero(~gts.crowd)
    side = np.sqrt(gts.box[objects, 2] * gts.box[objects, 3])
    seen = objects[rng.random(len(objects)) < _logistic(1.4 * np.log(side / 18) + 1)]
    hits = _hits(rng, gts, seen, confusion)
    kinds = [hits, *_repeats(rng, gts, seen, hits, confusion), _crowd_members(rng, gts)]
    have = np.bincount(np.concatenate([kind.image for kind in kinds]), minlength=len(gts.image_ids))
    kinds.append(_background(rng, gts, (limit + rng.integers(0, 12, len(have)) - have).clip(0)))
    return _best(rng, Found(*map(np.concatenate, zip(*kinds))), gts.sizes, limit)


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _moved(rng: Random, box: Array, sigma: Array) -> Array:
    """Boxes whose centre moves by ``sigma`` of their size and whose size changes by that factor."""
    centre = box[:, :2] + box[:, 2:] / 2 + rng.normal(size=(len(box), 2)) * sigma[:, None] * box[:, 2:]
    size = box[:, 2:] * np.exp(rng.normal(size=(len(box), 2)) * sigma[:, None])
    return np.concatenate([centre - size / 2, size], 1)


def _iou(first: Array, second: Array) -> Array:
    """IoU of each row of xywh boxes with the same row."""
    low = np.maximum(first[:, :2], second[:, :2])
    high = np.minimum(first[:, :2] + first[:, 2:], second[:, :2] + second[:, 2:])
    inside = (high - low).clip(0).prod(1)
    return np.asarray(inside / (first[:, 2:].prod(1) + second[:, 2:].prod(1) - inside))


def _hits(rng: Random, gts: GroundTruths, seen: Array, confusion: _Confusion) -> Found:
    """One detection of every object seen, the better placed the larger, 10 % under a confused class."""
    side = np.sqrt(gts.box[seen, 2:].prod(1))
    sigma = np.exp(rng.normal(np.log(0.045), 0.6, len(seen))) * (1 + 6 / side)
    box = _moved(rng, gts.box[seen], sigma)
    category = confusion.other(gts.category[seen], 0.1)
    logit = 3.6 * (_iou(box, gts.box[seen]) - 0.62) + 0.55 * np.log(side / 40) + rng.normal(0, 1.15, len(seen))
    score = _logistic(logit - 1.2 * (category != gts.category[seen]))
    return Found(gts.image[seen], category, box, score)


def _repeats(rng: Random, gts: GroundTruths, seen: Array, hits: Found, confusion: _Confusion) -> tuple[Found, Found]:
    """Leftover duplicates of hits, and hits reported once more under another class."""
    twice = np.repeat(np.arange(len(seen)), rng.poisson(0.9, len(seen)).clip(max=3))
    sigma = np.exp(rng.normal(np.log(0.17), 0.45, len(twice)))
    duplicates = Found(
        hits.image[twice],
        confusion.other(hits.category[twice], 0.35),
        _moved(rng, gts.box[seen[twice]], sigma),
        hits.score[twice] * rng.beta(1.2, 5, len(twice)),
    )
    again = np.flatnonzero(rng.random(len(seen)) < 0.45)
    renamed = Found(
        hits.image[again],
        confusion.other(hits.category[again]),
        _moved(rng, hits.box[again], np.full(len(again), 0.01)),
        hits.score[again] * rng.beta(0.9, 9, len(again)),
    )
    return duplicates, renamed


def _crowd_members(rng: Random, gts: GroundTruths) -> Found:
    """Smaller boxes inside crowd regions."""
    crowds = np.flatnonzero(gts.crowd)
    rows = np.repeat(crowds, rng.poisson(8, len(crowds)))
    region = gts.box[rows]
    size = region[:, 2:] * np.exp(rng.normal(np.log(0.22), 0.4, (len(rows), 2))).clip(max=1)
    corner = region[:, :2] + rng.random((len(rows), 2)) * (region[:, 2:] - size)
    box = np.concatenate([corner, size], 1)
    return Found(gts.image[rows], gts.category[rows], box, rng.beta(1.1, 3, len(rows)))


def _background(rng: Random, gts: GroundTruths, counts: Array) -> Found:
    """Boxes of the data's own sizes, 35 % of them around some object of the image; ``counts`` per image."""
    image = np.repeat(np.arange(len(counts)), counts)
    size = gts.box[rng.integers(0, len(gts.box), len(image)), 2:] * np.exp(rng.normal(0, 0.35, (len(image), 2)))
    size = np.minimum(size, 0.98 * gts.sizes[image])
    corner = rng.random((len(image), 2)) * (gts.sizes[image] - size)
    frequency = np.bincount(gts.category, minlength=len(gts.category_ids)) ** 0.7 + 0.5
    category = rng.choice(len(frequency), len(image), p=frequency / frequency.sum())
    objects = np.bincount(gts.image, minlength=len(counts))
    first = np.cumsum(objects) - objects
    near = np.flatnonzero((objects[image] > 0) & (rng.random(len(image)) < 0.35))
    chosen = first[image[near]] + (rng.random(len(near)) * objects[image[near]]).astype(int)
    spread = gts.box[chosen, 2:] * (0.5 + rng.normal(0, 0.35, (len(near), 2)))
    corner[near] = gts.box[chosen, :2] + spread - size[near] / 2
    category[near] = np.where(rng.random(len(near)) < 0.4, gts.category[chosen], category[near])
    score = np.exp(rng.normal(-4.1, 1.15, len(image))).clip(max=0.97)
    return Found(image, category, np.concatenate([corner, size], 1), score)


def _best(rng: Random, found: Found, sizes: Array, limit: int) -> Found:
    """Cut to the image and to ``limit`` detections per image; round as files do."""
    edge = sizes[found.image]
    low = found.box[:, :2].clip(0, edge - 1)
    high = (found.box[:, :2] + found.box[:, 2:]).clip(low + 1, edge)
    score = found.score.clip(1e-3, 0.999)
    coarse = rng.random(len(score)) < 0.3
    score = np.where(coarse, np.round(score, 3), np.round(score.astype(np.float32).astype(float), 6)).clip(1e-3)
    order = _by_image_and_score(found.image, score)
    image = found.image[order]
    order = order[np.arange(len(image)) - np.searchsorted(image, image) < limit]
    box = np.round(np.concatenate([low, high - low], 1), 2)
    return Found(found.image[order], found.category[order], box[order], score[order])


def _by_image_and_score(image: Array, score: Array) -> Array:
    """Rows by image, then descending score, then position. Scores have 6 decimals and lie in (0, 1).

    One word for each row makes the order total, so that numpy's vectorised sort, which is not stable, will do: a fifth
    of the time of ``numpy.lexsort``.
    """
    rows = max(len(image), 1).bit_length()
    assert rows + 20 + int(image.max(initial=0)).bit_length() < 64, "image, score and position need one word"
    words = (image << 20 | (1 << 20) - np.rint(score * 1e6).astype(np.int64)) << rows | np.arange(len(image))
    words.sort()
    return np.asarray(words & (1 << rows) - 1)
