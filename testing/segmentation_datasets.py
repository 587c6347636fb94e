"""Label maps like those of streets, masks of blobs and panoptic maps, for benchmarks. Same arguments: same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from testing.datasets import ROOT, Array, Random

FOLDER = ROOT / "bench_data"
VERSION = 1  # of the generator: part of the names of cached files
IGNORED = 255
DISTINCT = 10  # label maps that are made of one dataset; more images are these again
_CELL, _WAVE = 32, 6  # pixels: of a region, and by how much its outline sways
_SHIFT, _WRONG = 3, 0.06  # of predictions: columns, and the share of 8 x 8 blocks whose pixels are any class
_THINGS = 10  # categories with instances; those from here on have none

Shape = tuple[int, int]


class Maps(NamedTuple):
    """One dataset on disk.

    Attributes:
        truth: file of all distinct maps, ``[K, H, W]`` or ``[K, H, W, 2]``, or folder of images.
        preds: likewise.
        classes: C.
        images: how many; image i is map i modulo K.
        dtype: of the labels that engines get.
    """

    truth: Path
    preds: Path
    classes: int
    images: int
    dtype: str = "uint8"


def waves(shape: Shape, cell: int, rng: Random) -> tuple[Array, Array]:
    """Row and column of the cell of each pixel, of a grid with swaying lines."""
    y, x = np.arange(shape[0])[:, None], np.arange(shape[1])[None]
    first, second = rng.random(2) * 6
    rows = (y + (_WAVE * np.sin(x / 23 + first)).astype(np.int64) + _WAVE) // cell
    columns = (x + (_WAVE * np.sin(y / 17 + second)).astype(np.int64) + _WAVE) // cell
    return rows, columns


def label_maps(shape: Shape, classes: int, count: int, seed: int, ignored: bool = True) -> tuple[Array, Array]:
    """Truth and predictions, uint8 ``[count, H, W]``: regions of about 32 pixels, seven pixels in eight right."""
    rng = np.random.default_rng(seed)
    truth = np.empty((count, *shape), np.uint8)
    preds = np.empty_like(truth)
    for own, found in zip(truth, preds):
        rows, columns = waves(shape, _CELL, rng)
        own[:] = rng.integers(0, classes, (rows.max() + 1, columns.max() + 1), np.uint8)[rows, columns]
        found[:] = np.roll(own, _SHIFT, 1)
        blocks = rng.random((-(-shape[0] // 8), -(-shape[1] // 8))) < _WRONG
        wrong = np.kron(blocks, np.ones((8, 8), np.bool_))[: shape[0], : shape[1]]
        found[wrong] = rng.integers(0, classes, int(wrong.sum()), np.uint8)
        if ignored:
            own[: shape[0] // 25] = IGNORED
    return truth, preds


def blobs(shape: Shape, classes: int, count: int, seed: int) -> tuple[Array, Array]:
    """Truth and predictions, uint8 ``[count, H, W]``: one ellipse of every class but 0, moved by a pixel or a few."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(classes - 1)))
    step = np.array(shape) // side
    y, x = np.arange(shape[0])[:, None], np.arange(shape[1])[None]

    def drawn(centres: Array, radii: Array) -> Array:
        out = np.zeros(shape, np.uint8)
        for label in range(1, classes):
            (cy, cx), (ry, rx) = centres[label], radii[label]
            out[((y - cy) / ry) ** 2 + ((x - cx) / rx) ** 2 <= 1] = label
        return out

    sides: tuple[list[Array], list[Array]] = ([], [])
    for _ in range(count):
        places = np.array([((label - 1) // side, (label - 1) % side) for label in range(classes)])
        centres = (places + 0.5) * step + rng.normal(0, 0.03, (classes, 2)) * step
        radii = step * rng.uniform(0.2, 0.4, (classes, 2))
        sides[0].append(drawn(centres, radii))
        sides[1].append(drawn(centres + rng.normal(0, 0.03, (classes, 2)) * step, radii * rng.uniform(0.9, 1.1)))
    return np.stack(sides[0]), np.stack(sides[1])


def panoptic_maps(shape: Shape, categories: int, count: int, seed: int) -> tuple[Array, Array]:
    """Truth and predictions, int64 ``[count, H, W, 2]`` of category and instance; one segment in six is wrong."""
    rng = np.random.default_rng(seed)
    sides: tuple[list[Array], list[Array]] = ([], [])
    for _ in range(count):
        rows, columns = waves(shape, 3 * _CELL, rng)
        cells = rng.integers(0, categories, (rows.max() + 1, columns.max() + 1))
        wrong = np.where(rng.random(cells.shape) < 1 / 6, rng.integers(0, categories, cells.shape), cells)
        for side, (own, shift) in enumerate(((cells, 0), (wrong, _SHIFT))):
            category = np.roll(own[rows, columns], shift, 1)
            instance = np.roll(rows * cells.shape[1] + columns + 1, shift, 1)
            sides[side].append(np.stack([category, np.where(category < _THINGS, instance, 0)], -1))
    return np.stack(sides[0]), np.stack(sides[1])


def things_and_stuffs(categories: int) -> tuple[set[int], set[int]]:
    """The categories of :func:`panoptic_maps` with instances, and those without."""
    return set(range(min(_THINGS, categories))), set(range(_THINGS, categories))


MAKERS = {"regions": label_maps, "blobs": blobs, "panoptic": panoptic_maps}


def cached_maps(
    kind: str, shape: Shape, classes: int, images: int, seed: int = 0, folder: Path = FOLDER, **choices: Any
) -> Maps:
    """The files of a dataset, made where they are not there yet.

    Args:
        kind: key of ``MAKERS``.
        choices: ``ignored`` of :func:`label_maps`, ``dtype`` of :class:`Maps`.
    """
    dtype = choices.pop("dtype", "uint8")
    count = min(images, DISTINCT)
    marks = "".join(f"_{name}{value}" for name, value in choices.items())
    name = f"{kind}{VERSION}_{shape[0]}x{shape[1]}_{classes}_{count}_{seed}{marks}"
    paths = folder / f"{name}_truth.npy", folder / f"{name}_preds.npy"
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        for path, maps in zip(paths, MAKERS[kind](shape, classes, count, seed, **choices)):
            np.save(path, maps)
    return Maps(*paths, classes, images, dtype)


def cached_pictures(shape: Shape, classes: int, images: int, seed: int = 0, folder: Path = FOLDER) -> Maps:
    """Folders of grey PNG files, one for each image; all of them differ."""
    from PIL import Image

    whole = folder / f"pictures{VERSION}_{shape[0]}x{shape[1]}_{classes}_{images}_{seed}"
    sides = whole / "truth", whole / "preds"
    if not (whole / "done").exists():
        for side in sides:
            side.mkdir(parents=True, exist_ok=True)
        for first in range(0, images, DISTINCT):
            made = label_maps(shape, classes, min(DISTINCT, images - first), seed + first)
            for side, maps in zip(sides, made):
                for i, labels in enumerate(maps):
                    Image.fromarray(labels).save(side / f"{first + i:05d}.png")
        (whole / "done").touch()
    return Maps(*sides, classes, images)
