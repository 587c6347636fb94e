"""Datasets of :mod:`testing.datasets` with masks: polygons as ground truths, run-length strings as detections.

Shapes are the real polygons of the bundled COCO annotations. Each ground truth takes one of its category with about
the proportions of its box, a crowd many small ones; a detection takes the shape of the ground truth that it overlaps
most, a little larger or smaller and with a wavy outline, or some shape of its category where it overlaps none. Same
case, size and seed: same bits.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from testing.datasets import CASES, ROOT, Array, BoxDataset, Case, Random, make
from testing.formats import category_objects, image_objects
from valor_gpu.ops.polygons.cpu import rasterise
from valor_gpu.ops.runs.cpu import encode_strings
from valor_gpu.ops.runs.op import Runs

FOLDER = ROOT / "bench_data"
VERSION = 1  # of the generator: part of the names of cached files
POLYGONS = ROOT / "examples" / "data" / "instances_val2014_100_masks.json.gz"
MASK_CASES = {
    "val2017": CASES["val2017"],
    "lvis": Case("lvis", 1_000, 300, classes=1_203, per_image=12.35, zipf=1.05, palette=4, quick_images=40),
}
_CROWD_SHAPES = 14  # rings of a crowd
_OVERLAP = 0.3  # IoU of boxes from which a detection takes the shape of a ground truth


class Shapes(NamedTuple):
    """Polygons of the unit square, by category: V vertices, R rings, N shapes.

    Attributes:
        vertices: float64 ``[V, 2]``.
        rings: int64 ``[R + 1]``, first vertices.
        shapes: int64 ``[N + 1]``, first rings.
        category: int64 ``[N]``.
        aspect: float64 ``[N]``, logarithm of width over height in the image that it comes from.
    """

    vertices: Array
    rings: Array
    shapes: Array
    category: Array
    aspect: Array


class Outlines(NamedTuple):
    """Polygons in pixels: vertices ``[V, 2]``, first vertices of rings, first rings of masks."""

    vertices: Array
    rings: Array
    masks: Array


@dataclass(frozen=True)
class MaskDataset:
    """Boxes with masks.

    Attributes:
        boxes: image, category, box, score of every row.
        outlines: of ground truths, crowds included.
        gt_runs: run lengths of the ground truths.
        dt_runs: run lengths of the detections.
    """

    boxes: BoxDataset
    outlines: Outlines
    gt_runs: Runs
    dt_runs: Runs


class MaskFiles(NamedTuple):
    """Where a dataset lies on disk, as COCO JSON."""

    gt: Path
    dt: Path


@cache
def shapes() -> Shapes:
    """The real polygons, each in its own box."""
    parts, rings, firsts, category, aspect = [], [0], [0], [], []
    for row in json.loads(gzip.decompress(POLYGONS.read_bytes()))["annotations"]:
        if row["iscrowd"]:
            continue
        own = [np.array(ring, float).reshape(-1, 2) for ring in row["segmentation"]]
        low = np.min([ring.min(0) for ring in own], 0)
        extent = np.max([ring.max(0) for ring in own], 0) - low
        if extent.min() <= 0:
            continue
        parts += [(ring - low) / extent for ring in own]
        rings += [rings[-1] + n for n in np.cumsum([len(ring) for ring in own])]
        firsts.append(firsts[-1] + len(own))
        category.append(row["category_id"])
        aspect.append(np.log(extent[0] / extent[1]))
    return Shapes(np.concatenate(parts), np.array(rings), np.array(firsts), np.array(category), np.array(aspect))


def make_masks(case: Case, images: int | None = None, seed: int = 0) -> MaskDataset:
    """Generate a dataset; ``images`` replaces the number of the case."""
    scene = make(case, images, seed)
    rng = np.random.default_rng(seed + 1)
    sizes = scene.sizes[:, ::-1].astype(np.int32)  # height, width
    chosen = _choose(rng, scene.category_ids[scene.gt_category], scene.gt_box)
    outlines = _crowded(rng, scene, _placed(scene.gt_box, chosen, scene.sizes[scene.gt_image]), chosen)
    owner = owners(scene)
    found = np.where(owner >= 0, chosen[owner], _choose(rng, scene.category_ids[scene.dt_category], scene.dt_box))
    drawn = _wavy(rng, _placed(scene.dt_box, found, None), scene.dt_box, scene.sizes[scene.dt_image])
    gt_runs = rasterise(*outlines, sizes[scene.gt_image])
    return MaskDataset(scene, outlines, gt_runs, rasterise(*drawn, sizes[scene.dt_image]))


def _choose(rng: Random, category: Array, box: Array) -> Array:
    """A shape for each box: of eight random ones of its category, or of any, that with the nearest proportions."""
    bank = shapes()
    order = np.argsort(bank.category, kind="stable")
    first = np.searchsorted(bank.category[order], category)
    count = np.searchsorted(bank.category[order], category, side="right") - first
    anything = count < 3
    first, count = np.where(anything, 0, first), np.where(anything, len(order), count)
    drawn = order[first[:, None] + (rng.random((len(box), 8)) * count[:, None]).astype(int)]
    away = np.abs(bank.aspect[drawn] - np.log(box[:, 2] / box[:, 3])[:, None])
    return np.asarray(np.take_along_axis(drawn, away.argmin(1)[:, None], 1)[:, 0])


def _spans(firsts: Array, chosen: Array) -> tuple[Array, Array]:
    """Positions of the parts of ``chosen``, one after another, and where each begins among them."""
    lengths = firsts[chosen + 1] - firsts[chosen]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return np.arange(ends[-1]) + np.repeat(firsts[chosen] - ends[:-1], lengths), ends


def _placed(box: Array, chosen: Array, sizes: Array | None) -> Outlines:
    """Shapes moved into boxes, cut to the image where ``sizes`` are given."""
    bank = shapes()
    ring, masks = _spans(bank.shapes, chosen)
    vertex, rings = _spans(bank.rings, ring)
    owner = np.repeat(np.repeat(np.arange(len(box)), np.diff(masks)), np.diff(rings))
    vertices = bank.vertices[vertex] * box[owner, 2:] + box[owner, :2]
    if sizes is not None:
        vertices = np.round(vertices.clip(0, sizes[owner]), 2)
    return Outlines(vertices, rings, masks)


def _crowded(rng: Random, scene: BoxDataset, outlines: Outlines, chosen: Array) -> Outlines:
    """The outlines with those of crowds replaced by many small shapes."""
    crowds = np.flatnonzero(scene.gt_crowd)
    rows = np.repeat(crowds, _CROWD_SHAPES)
    size = scene.gt_box[rows, 2:] * 0.28
    corner = scene.gt_box[rows, :2] + rng.random((len(rows), 2)) * (scene.gt_box[rows, 2:] - size)
    small = _placed(np.concatenate([corner, size], 1), chosen[rows], scene.sizes[scene.gt_image[rows]])
    masks = np.diff(outlines.masks)
    counts = np.add.reduceat(np.diff(small.masks), np.arange(0, len(rows), _CROWD_SHAPES)) if len(rows) else []
    # Rings of both, in an order that puts those of a mask side by side.
    of_rings = np.repeat(np.arange(len(masks)), masks)
    kept = np.flatnonzero(~scene.gt_crowd[of_rings])
    of_small = np.repeat(rows, np.diff(small.masks))
    ring = np.concatenate((kept, len(of_rings) + np.arange(len(of_small))))
    ring = ring[np.argsort(np.concatenate((of_rings[kept], of_small)), kind="stable")]
    both = np.concatenate((outlines.rings[:-1], outlines.rings[-1] + small.rings))
    vertex, rings = _spans(both, ring)
    masks[crowds] = counts
    vertices = np.concatenate((outlines.vertices, small.vertices))[vertex]
    return Outlines(vertices, rings, np.concatenate(([0], np.cumsum(masks))))


def owners(scene: BoxDataset) -> Array:
    """int64 ``[D]``: the ground truth, of any class and no crowd, that a detection overlaps most; or -1."""
    places = np.arange(len(scene.image_ids) + 1)
    firsts, ends = np.searchsorted(scene.gt_image, places), np.searchsorted(scene.dt_image, places)
    owner = np.full(len(scene.dt_image), -1)
    for i in range(len(scene.image_ids)):
        own = slice(firsts[i], firsts[i + 1])
        found = slice(ends[i], ends[i + 1])
        if firsts[i] == firsts[i + 1] or ends[i] == ends[i + 1]:
            continue
        iou = _box_iou(scene.dt_box[found], scene.gt_box[own]) * ~scene.gt_crowd[own]
        best = iou.argmax(1)
        owner[found] = np.where(iou.max(1) >= _OVERLAP, firsts[i] + best, -1)
    return owner


def _box_iou(first: Array, second: Array) -> Array:
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum((first[:, :2] + first[:, 2:])[:, None], (second[:, :2] + second[:, 2:])[None])
    shared = (high - low).clip(0).prod(2)
    return np.asarray(shared / (first[:, 2:].prod(1)[:, None] + second[:, 2:].prod(1) - shared))


def _wavy(rng: Random, outlines: Outlines, box: Array, sizes: Array) -> Outlines:
    """Outlines a little larger or smaller, with waves of 1.5 % of the box, cut to the image."""
    of_rings = np.repeat(np.arange(len(box)), np.diff(outlines.masks))
    lengths = np.diff(outlines.rings)
    owner = np.repeat(of_rings, lengths)
    angle = 2 * np.pi * (np.arange(len(owner)) - np.repeat(outlines.rings[:-1], lengths)) / np.repeat(lengths, lengths)
    middle = box[:, :2] + box[:, 2:] / 2
    scale = 1 + rng.normal(-0.01, 0.03, len(box))
    wave = np.zeros((len(owner), 2))
    for harmonic in range(1, 5):
        wave += rng.normal(size=(len(box), 2))[owner] * np.sin(harmonic * angle + harmonic)[:, None]
    moved = (outlines.vertices - middle[owner]) * scale[owner, None] + middle[owner] + 0.0075 * wave * box[owner, 2:]
    return outlines._replace(vertices=moved.clip(0, sizes[owner]))


# -------------------------------------------------------------------------------------------------------------- files


def cached(case: Case, images: int | None = None, seed: int = 0, folder: Path = FOLDER) -> MaskFiles:
    """Generate a dataset unless its files are there; returns where they are."""
    name = f"masks_{case.name}_{images or case.images}_s{seed}_v{VERSION}"
    files = MaskFiles(*(folder / f"{name}{ending}" for ending in ("_gt.json", "_dt.json")))
    if not all(path.exists() for path in files):
        folder.mkdir(parents=True, exist_ok=True)
        made = make_masks(case, images, seed)
        files.gt.write_text(json.dumps(gt_dataset(made), separators=(",", ":")))
        files.dt.write_text(json.dumps(dt_results(made), separators=(",", ":")))
    return files


def gt_dataset(made: MaskDataset) -> dict[str, Any]:
    """The COCO dataset object: polygons, and uncompressed run lengths of crowds."""
    scene, outlines = made.boxes, made.outlines
    area = _areas(outlines)
    annotations = []
    for row in range(len(scene.gt_box)):
        image = int(scene.gt_image[row])
        annotations.append({
            "id": row + 1, "image_id": int(scene.image_ids[image]),
            "category_id": int(scene.category_ids[scene.gt_category[row]]), "bbox": scene.gt_box[row].tolist(),
            "area": round(float(area[row]), 4), "iscrowd": int(scene.gt_crowd[row]),
            "segmentation": _runs_object(made.gt_runs, row) if scene.gt_crowd[row] else _polygons(outlines, row),
        })  # fmt: skip
    return {"images": image_objects(scene), "categories": category_objects(scene), "annotations": annotations}


def _polygons(outlines: Outlines, row: int) -> list[list[float]]:
    ends = outlines.rings[outlines.masks[row] : outlines.masks[row + 1] + 1].tolist()
    return [outlines.vertices[a:b].reshape(-1).tolist() for a, b in pairwise(ends)]


def _runs_object(runs: Runs, row: int) -> dict[str, Any]:
    counts = runs.counts[runs.offsets[row] : runs.offsets[row + 1]]
    return {"size": runs.sizes[row].tolist(), "counts": counts.tolist()}


def _areas(outlines: Outlines) -> Array:
    """float64 ``[N]``: the areas of rings summed, as COCO states them."""
    x, y = outlines.vertices.T
    following = np.arange(1, len(x) + 1)
    following[outlines.rings[1:] - 1] = outlines.rings[:-1]
    twice = np.add.reduceat(x * y[following] - y * x[following], outlines.rings[:-1])
    return np.asarray(np.add.reduceat(np.abs(twice) / 2, outlines.masks[:-1]))


def dt_results(made: MaskDataset) -> list[dict[str, Any]]:
    """COCO result objects: boxes and run-length strings."""
    scene = made.boxes
    text, offsets = encode_strings(made.dt_runs)
    strings = text.tobytes().decode("ascii")
    columns = (
        scene.image_ids[scene.dt_image].tolist(), scene.category_ids[scene.dt_category].tolist(),
        scene.dt_box.tolist(), scene.dt_score.tolist(), made.dt_runs.sizes.tolist(),
        (strings[a:b] for a, b in zip(offsets.tolist(), offsets[1:].tolist())),
    )  # fmt: skip
    return [
        {"image_id": i, "category_id": c, "bbox": b, "score": s, "segmentation": {"size": size, "counts": counts}}
        for i, c, b, s, size, counts in zip(*columns)
    ]
