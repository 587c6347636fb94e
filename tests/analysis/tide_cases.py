"""Data of the tests of TIDE."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from testing.datasets import ROOT
from tests.coco.comparison import ids_untold
from valor_gpu.coco import COCO, LVIS, COCOeval, LVISEval, LVISResults
from valor_gpu.result import Result

HERE = Path(__file__).parent / "data"
EXAMPLES = Path(__file__).parents[2] / "examples" / "data"

Objects = list[dict[str, Any]]
Run = Callable[..., Result]


def read(name: str) -> Any:
    """The content of an example file."""
    data = (EXAMPLES / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def answers(name: str) -> Any:
    """The content of a file of other programs' numbers."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def yolact(crowds: bool = True, images: int | None = None) -> tuple[dict[str, Any], Objects]:
    """Detections of YOLACT on 100 images, with all 5,000 images of the truth if ``images`` is None."""
    truth, detections = read("val2017_real_boxes_gt.json.gz"), read("yolact_resnet50.json")
    found = {detection["image_id"] for detection in detections}
    kept = [image for image in truth["images"] if images is None or image["id"] in found]
    ids = {image["id"] for image in kept}
    annotations = [a for a in truth["annotations"] if a["image_id"] in ids and (crowds or not a["iscrowd"])]
    return {**truth, "images": kept, "annotations": annotations}, detections


def val2014(masks: bool = False) -> tuple[dict[str, Any], Objects]:
    """The example detections of val2014; scores tie."""
    if masks:
        return read("instances_val2014_100_masks.json.gz"), read("instances_val2014_fakesegm100_results.json.gz")
    return read("instances_val2014_100.json"), read("instances_val2014_fakebbox100_results.json")


def few(truth: dict[str, Any], detections: Objects, count: int) -> tuple[dict[str, Any], Objects]:
    """The first images of data."""
    images = truth["images"][:count]
    ids = {image["id"] for image in images}
    annotations = [a for a in truth["annotations"] if a["image_id"] in ids]
    return {**truth, "images": images, "annotations": annotations}, [d for d in detections if d["image_id"] in ids]


def evaluated(
    truth: dict[str, Any], detections: Objects, iou_type: str = "bbox", limit: int = 100, iou: float | None = None
) -> Result:
    """The result of a COCOeval."""
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = COCO()
        annotations = [{"area": a["bbox"][2] * a["bbox"][3], **a} for a in truth["annotations"]]
        dataset.dataset = {**truth, "annotations": annotations}
        dataset.createIndex()
        results = dataset.loadRes(detections) if detections else dataset.loadRes(np.zeros((0, 7)))
        evaluation = COCOeval(dataset, results, iou_type)
        evaluation.params.maxDets = [1, 10, limit]
        if iou is not None:
            evaluation.params.iouThrs = np.array([iou])
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.result()


def result_of_files() -> Result:
    """The result of the bundled files of 100 images, with the names of their files."""
    data = ROOT / "examples" / "data"
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(data / "instances_val2017_100.json"))
        evaluation = COCOeval(truth, truth.loadRes(str(data / "yolact_resnet50.json")), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.result()


def evaluated_lvis(truth: dict[str, Any], detections: Objects, limit: int = 300, iou: float | None = None) -> Result:
    """The result of an LVISEval."""
    with tempfile.TemporaryDirectory() as folder, ids_untold():
        path = Path(folder) / "truth.json"
        path.write_text(json.dumps(truth), encoding="utf-8")
        dataset = LVIS(str(path))
        evaluation = LVISEval(dataset, LVISResults(dataset, copy.deepcopy(detections), limit), "bbox")
        if iou is not None:
            evaluation.params.iou_thrs = np.array([iou])
        evaluation.run()
        return evaluation.result()


def random_data(seed: int, images: int = 12, classes: int = 4, grid: bool = True) -> tuple[dict[str, Any], Objects]:
    """Boxes near each other, of few classes, with ties of scores and of IoU, crowds, and images out of order."""
    rng = np.random.default_rng(seed)
    ids = (rng.permutation(images) + 1).tolist()
    truth: Objects = []
    detections: Objects = []

    def box() -> list[float]:
        values = np.concatenate([rng.integers(0, 6, 2) * 5, rng.integers(1, 5, 2) * 5]).astype(float)
        return (values if grid else values + rng.random(4)).tolist()

    for image in ids:
        for _ in range(rng.integers(0, 6)):
            own = box()
            truth.append({
                "id": len(truth) + 1, "image_id": image, "category_id": int(rng.integers(1, classes + 1)), "bbox": own,
                "area": own[2] * own[3], "iscrowd": int(rng.random() < 0.1),
            })  # fmt: skip
        for _ in range(rng.integers(0, 12)):
            near = [a["bbox"] for a in truth if a["image_id"] == image]
            copied = near and rng.random() < 0.5
            detections.append({
                "image_id": image, "category_id": int(rng.integers(1, classes + 1)),
                "bbox": near[rng.integers(len(near))] if copied else box(), "score": float(rng.integers(1, 9)) / 8,
            })  # fmt: skip
    categories = [{"id": n, "name": f"class {n}"} for n in range(1, classes + 2)]
    return {"images": [{"id": i, "width": 60, "height": 60} for i in ids], "categories": categories,
            "annotations": truth}, detections  # fmt: skip
