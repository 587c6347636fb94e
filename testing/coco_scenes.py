"""pycocotools on the scenes of the op tests: datasets, the reference's arrays, and the same images as op inputs."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import numpy as np
import torch

from testing.oracles import pycocotools
from testing.scenes import Scene, random_scene

FIRST_ID, ID_STEP = 3, 7


def dataset(scene: Scene, first_annotation: int = 1) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """COCO ground truth and results of a scene; image i has id 3 + 7 i, label k is category 3 k + 1."""
    images = [{"id": FIRST_ID + ID_STEP * i, "width": 300, "height": 300} for i in range(len(scene.labels))]
    names = {int(label) for labels in (*scene.labels, *scene.gt_labels) for label in labels}
    gts: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for image, i in zip(images, range(len(scene.labels))):
        columns = (scene.gt_boxes[i], scene.gt_labels[i], scene.crowds[i], scene.areas[i])
        for box, label, crowd, area in zip(*(column.tolist() for column in columns)):
            gts.append({"id": first_annotation + len(gts), "image_id": image["id"], "category_id": 3 * label + 1,
                           "bbox": box, "area": area, "iscrowd": crowd})  # fmt: skip
        columns = (scene.boxes[i], scene.scores[i], scene.labels[i])
        for box, score, label in zip(*(column.tolist() for column in columns)):
            results.append({"image_id": image["id"], "category_id": 3 * label + 1, "bbox": box, "score": score})
    categories = [{"id": 3 * name + 1, "name": str(name)} for name in sorted(names)]
    return {"images": images, "categories": categories, "annotations": gts, "info": {}}, results


def evaluated(ground_truth: dict[str, Any], results: list[dict[str, Any]], **params: Any) -> Any:
    """pycocotools after evaluate, accumulate and, where the parameters allow it, summarize."""
    with contextlib.redirect_stdout(io.StringIO()):
        coco = pycocotools("coco").COCO()
        coco.dataset = copy.deepcopy(ground_truth)
        coco.createIndex()
        evaluator = pycocotools("cocoeval").COCOeval(coco, coco.loadRes(copy.deepcopy(results)), "bbox")
        for name, value in params.items():
            setattr(evaluator.params, name, value)
        evaluator.evaluate()
        evaluator.accumulate()
        if len(evaluator.params.maxDets) >= 3 and evaluator.params.useCats:
            evaluator.summarize()
    return evaluator


def scored_scene(seed: int, **options: Any) -> Scene:
    """A random scene with at least one detection and one ground truth, as pycocotools needs."""
    rng = np.random.default_rng(seed)
    while True:
        scene = random_scene(rng, **options)
        if sum(map(len, scene.labels)) and sum(map(len, scene.gt_labels)):
            return scene


def flags(scene: Scene, first_annotation: int = 1) -> list[torch.Tensor]:
    """Flags of the ground truths of a scene; annotation ids count up over the images from ``first_annotation``."""
    out, at = [], first_annotation
    for crowd in scene.crowds:
        ids = torch.arange(at, at + len(crowd))
        out.append(crowd + 4 * (ids == 0))
        at += len(crowd)
    return out
