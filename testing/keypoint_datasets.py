"""People with 17 joints at the scale of val2017: the real boxes of people, joints drawn in them, and detections.

A person has joints that are visible, hidden or not annotated; a detection of :mod:`testing.datasets` that overlaps a
person has that person's joints, moved as its box is and a little besides, any other joints of its own. All joints are
synthetic. Same size and seed: same bits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from testing.datasets import CASES, Array, BoxDataset, Random, make
from testing.formats import image_objects
from testing.mask_datasets import FOLDER, MaskFiles, owners

JOINTS, LIMIT = 17, 20
VERSION = 1  # of the generator: part of the names of cached files
_NAMES = [f"joint {i}" for i in range(JOINTS)]


def cached(images: int, seed: int = 0, folder: Path = FOLDER) -> MaskFiles:
    """Generate COCO JSON unless it is there; returns where it is."""
    files = MaskFiles(*(folder / f"keypoints_{images}_s{seed}_v{VERSION}_{side}.json" for side in ("gt", "dt")))
    if not all(path.exists() for path in files):
        folder.mkdir(parents=True, exist_ok=True)
        rng, scene = np.random.default_rng(seed + 2), _people(make(CASES["val2017"], images, seed))
        joints, seen = _joints(rng, scene.gt_box), rng.choice(3, (len(scene.gt_box), JOINTS), p=(0.35, 0.15, 0.5))
        seen[scene.gt_crowd | (rng.random(len(seen)) < 0.3)] = 0  # small people are often not annotated
        files.gt.write_text(json.dumps(_dataset(scene, joints, seen), separators=(",", ":")))
        files.dt.write_text(json.dumps(_results(scene, _found(rng, scene, joints)), separators=(",", ":")))
    return files


def _people(scene: BoxDataset) -> BoxDataset:
    """Ground truths and detections of category 1, at most 20 detections per image."""
    person = int(np.searchsorted(scene.category_ids, 1))
    own, found = scene.gt_category == person, scene.dt_category == person
    image = scene.dt_image[found]
    within = np.arange(len(image)) - np.searchsorted(image, image) < LIMIT
    rows = {name: array[own] for name, array in vars(scene).items() if name.startswith("gt_")}
    rows |= {name: array[found][within] for name, array in vars(scene).items() if name.startswith("dt_")}
    return BoxDataset(**{**vars(scene), **rows, "category_ids": np.array([1])})


def _joints(rng: Random, box: Array) -> Array:
    """float64 ``[N, 17, 2]``: places in boxes."""
    places = rng.beta(2, 2, (len(box), JOINTS, 2))
    return np.asarray(box[:, None, :2] + places * box[:, None, 2:])


def _found(rng: Random, scene: BoxDataset, joints: Array) -> Array:
    """float64 ``[D, 17, 2]``: joints of detections."""
    owner, box = owners(scene), scene.dt_box
    own = scene.gt_box[owner]
    relative = (joints[owner] - own[:, None, :2]) / own[:, None, 2:]
    noise = rng.normal(0, 0.03, relative.shape) * np.exp(rng.normal(0, 0.6, (len(box), 1, 1)))
    moved = box[:, None, :2] + (relative + noise) * box[:, None, 2:]
    return np.where((owner >= 0)[:, None, None], moved, _joints(rng, box))


def _flat(joints: Array, seen: Array) -> list[list[float]]:
    rows = np.concatenate([np.round(joints, 1) * (seen > 0)[..., None], seen[..., None]], 2)
    return [row.reshape(-1).tolist() for row in rows]


def _dataset(scene: BoxDataset, joints: Array, seen: Array) -> dict[str, Any]:
    """The COCO dataset object."""
    columns = zip(
        scene.image_ids[scene.gt_image].tolist(), scene.gt_box.tolist(), np.round(0.6 * scene.gt_area, 2).tolist(),
        scene.gt_crowd.astype(int).tolist(), _flat(joints, seen), (seen > 0).sum(1).tolist(),
    )  # fmt: skip
    annotations = [
        {"id": n, "image_id": image, "category_id": 1, "bbox": box, "area": area, "iscrowd": crowd, "keypoints": points,
         "num_keypoints": count}
        for n, (image, box, area, crowd, points, count) in enumerate(columns, 1)
    ]  # fmt: skip
    person = {"id": 1, "name": "person", "keypoints": _NAMES, "skeleton": []}
    return {"images": image_objects(scene), "categories": [person], "annotations": annotations}


def _results(scene: BoxDataset, joints: Array) -> list[dict[str, Any]]:
    """COCO result objects."""
    points = _flat(joints, np.ones(joints.shape[:2], int))
    columns = zip(scene.image_ids[scene.dt_image].tolist(), points, scene.dt_score.tolist())
    return [{"image_id": i, "category_id": 1, "keypoints": p, "score": s} for i, p, s in columns]
