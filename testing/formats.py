"""A dataset in the formats that engines take: JSON files, objects, N x 7 arrays, lists of tensors, padded tensors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np

from testing.datasets import ROOT, Array, BoxDataset, Case, make

if TYPE_CHECKING:
    import torch

FOLDER = ROOT / "bench_data"
VERSION = 2  # of the generator: part of the names of cached files
_COMPACT = (",", ":")


class Files(NamedTuple):
    """Where a dataset lies on disk."""

    arrays: Path
    gt: Path
    dt: Path


def cached(case: Case, images: int | None = None, seed: int = 0, folder: Path = FOLDER) -> Files:
    """Generate a dataset unless its files are there; returns where they are."""
    name = f"{case.name}_{images or case.images}_s{seed}_v{VERSION}"
    files = Files(*(folder / f"{name}{ending}" for ending in (".npz", "_gt.json", "_dt.json")))
    if not all(path.exists() for path in files):
        folder.mkdir(parents=True, exist_ok=True)
        scene = make(case, images, seed)
        write_gt(scene, files.gt)
        write_dt(scene, files.dt)
        np.savez(files.arrays, **vars(scene))
    return files


def load(files: Files) -> BoxDataset:
    """The dataset that :func:`cached` wrote."""
    with np.load(files.arrays) as arrays:
        return BoxDataset(**arrays)


def write_gt(scene: BoxDataset, path: Path) -> None:
    """Write the ground truths as a COCO instances file."""
    with path.open("w") as file:
        heads = {"images": image_objects(scene), "categories": category_objects(scene)}
        file.write(json.dumps(heads, separators=_COMPACT)[:-1] + ',"annotations":')
        _write_rows(file, gt_objects(scene))
        file.write("}")


def write_dt(scene: BoxDataset, path: Path) -> None:
    """Write the detections as a COCO results file."""
    columns = (
        scene.image_ids[scene.dt_image].tolist(),
        scene.category_ids[scene.dt_category].tolist(),
        scene.dt_box.tolist(),
        scene.dt_score.tolist(),
    )
    with path.open("w") as file:
        _write_rows(file, (dict(zip(("image_id", "category_id", "bbox", "score"), row)) for row in zip(*columns)))


def _write_rows(file: TextIO, rows: Iterable[dict[str, Any]]) -> None:
    """A JSON array, a row at a time so that a million rows need no memory."""
    encode = json.JSONEncoder(separators=_COMPACT).encode
    separator = "["
    for row in rows:
        file.write(separator + encode(row))
        separator = ","
    file.write("]" if separator == "," else "[]")


def image_objects(scene: BoxDataset) -> list[dict[str, Any]]:
    """COCO image objects."""
    return [
        {"id": key, "width": int(width), "height": int(height), "file_name": f"{key:012d}.jpg"}
        for key, (width, height) in zip(scene.image_ids.tolist(), scene.sizes)
    ]


def category_objects(scene: BoxDataset) -> list[dict[str, Any]]:
    """COCO category objects."""
    return [{"id": key, "name": f"category {key}"} for key in scene.category_ids.tolist()]


def gt_objects(scene: BoxDataset, first: int = 0, last: int | None = None) -> Iterator[dict[str, Any]]:
    """COCO annotation objects of the ground truths ``first`` to ``last``; ids count from 1."""
    rows = slice(first, last)
    columns = (
        range(first + 1, len(scene.gt_image) + 1),
        scene.image_ids[scene.gt_image[rows]].tolist(),
        scene.category_ids[scene.gt_category[rows]].tolist(),
        scene.gt_box[rows].tolist(),
        scene.gt_area[rows].tolist(),
        scene.gt_crowd[rows].astype(int).tolist(),
    )
    names = ("id", "image_id", "category_id", "bbox", "area", "iscrowd")
    return (dict(zip(names, row)) for row in zip(*columns))


def dataset(scene: BoxDataset) -> dict[str, Any]:
    """The COCO dataset object of the ground truths."""
    heads = {"images": image_objects(scene), "categories": category_objects(scene)}
    return {**heads, "annotations": list(gt_objects(scene))}


def results_array(scene: BoxDataset, rows: slice = slice(None)) -> Array:
    """float64 ``[D, 7]``: image id, x, y, width, height, score, category id."""
    keys = scene.image_ids[scene.dt_image[rows]]
    names = scene.category_ids[scene.dt_category[rows]]
    return np.column_stack([keys, scene.dt_box[rows], scene.dt_score[rows], names]).astype(np.float64)


def row_ends(scene: BoxDataset) -> tuple[Array, Array]:
    """int64 ``[I + 1]``: where the ground truths, and the detections, of each image begin and end."""
    places = np.arange(len(scene.image_ids) + 1)
    return np.searchsorted(scene.gt_image, places), np.searchsorted(scene.dt_image, places)


# ------------------------------------------------------------------------------------------------------------ tensors


def through_float32(scene: BoxDataset) -> BoxDataset:
    """The dataset as a model would have put it in float32 xyxy tensors, back in float64 xywh.

    Engines that take arrays get this one beside :func:`tensors`, so that all of them see the same numbers.
    """
    boxes = {}
    for name in ("gt_box", "dt_box"):
        corners = _corners(getattr(scene, name))
        boxes[name] = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1).astype(np.float64)
    return BoxDataset(**{**vars(scene), **boxes, "dt_score": scene.dt_score.astype(np.float32).astype(np.float64)})


def _corners(box: Array) -> Array:
    """float32 ``[N, 4]`` xyxy of xywh boxes."""
    return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], 1).astype(np.float32)


class Columns(NamedTuple):
    """A dataset as float32 and int64 columns on a device; rows of all images one after another."""

    boxes: torch.Tensor
    scores: torch.Tensor
    labels: torch.Tensor
    gt_boxes: torch.Tensor
    gt_labels: torch.Tensor
    crowd: torch.Tensor
    image_ids: torch.Tensor


def columns(scene: BoxDataset, device: torch.device | str = "cpu") -> Columns:
    """Tensors of all rows on ``device``."""
    import torch

    def put(array: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    return Columns(
        put(_corners(scene.dt_box)),
        put(scene.dt_score.astype(np.float32)),
        put(scene.category_ids[scene.dt_category].astype(np.int64)),
        put(_corners(scene.gt_box)),
        put(scene.category_ids[scene.gt_category].astype(np.int64)),
        put(scene.gt_crowd.astype(np.int64)),
        put(scene.image_ids.astype(np.int64)),
    )


def image_tensors(scene: BoxDataset, device: torch.device | str = "cpu") -> tuple[list[Any], list[Any]]:
    """One dict of tensors per image on each side, as a model and a data loader hand them out (own memory each)."""
    whole = columns(scene, device)
    gt_ends, dt_ends = (ends.tolist() for ends in row_ends(scene))
    preds, target = [], []
    for i in range(len(scene.image_ids)):
        found = slice(dt_ends[i], dt_ends[i + 1])
        objects = slice(gt_ends[i], gt_ends[i + 1])
        own = {"boxes": whole.boxes[found], "scores": whole.scores[found], "labels": whole.labels[found]}
        preds.append({name: rows.clone() for name, rows in own.items()})
        own = {"boxes": whole.gt_boxes[objects], "labels": whole.gt_labels[objects], "iscrowd": whole.crowd[objects]}
        own["image_id"] = whole.image_ids[i : i + 1]
        target.append({name: rows.clone() for name, rows in own.items()})
    return preds, target


def padded_tensors(scene: BoxDataset, device: torch.device | str = "cpu") -> tuple[dict[str, Any], dict[str, Any]]:
    """One dict of tensors ``[I, N, ...]`` on each side, with ``counts [I]``."""
    import torch

    whole = columns(scene, device)
    gt_ends, dt_ends = row_ends(scene)

    def pad(rows: torch.Tensor, ends: Array) -> torch.Tensor:
        counts = np.diff(ends)
        slots = torch.from_numpy(np.arange(int(counts.max(initial=0))) < counts[:, None]).to(device)
        out = rows.new_zeros((*slots.shape, *rows.shape[1:]))
        out[slots] = rows
        return out

    found = {"boxes": whole.boxes, "scores": whole.scores, "labels": whole.labels}
    ground_truths = {"boxes": whole.gt_boxes, "labels": whole.gt_labels, "iscrowd": whole.crowd}
    preds = {name: pad(rows, dt_ends) for name, rows in found.items()}
    target = {name: pad(rows, gt_ends) for name, rows in ground_truths.items()}
    preds["counts"], target["counts"] = (torch.from_numpy(np.diff(ends)).to(device) for ends in (dt_ends, gt_ends))
    target["image_id"] = whole.image_ids
    return preds, target
