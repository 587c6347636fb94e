"""The engines that are measured on masks: from files, from dense masks in batches, and as pairwise IoU."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.baselines import (
    BATCH,
    OURS,
    Clock,
    Finish,
    Prepare,
    Run,
    Tool,
    classes,
    drop_in,
    evaluate,
    load_ours,
    load_pycocotools,
    load_torchvision,
    our_numbers,
)
from benchmarks.mask_cases import DENSE_ROUNDS
from benchmarks.verify import REFERENCE, STATS, Outcome
from testing.datasets import Array
from testing.mask_datasets import MaskFiles

_ULTRAFAST, _HOTCOCO = "ultrafast-pycocotools", "hotcoco"
SUM = "one int64 sum of the masks"
Items = tuple[list[Any], list[Any]]


# -------------------------------------------------------------------------------------------------------- dense masks


def _decoded(files: MaskFiles) -> Items:
    """All images as lists of dicts with bool masks ``[N, H, W]``."""
    import torch

    from valor_gpu.coco import COCO, mask

    truth = COCO(str(files.gt))
    found = truth.loadRes(str(files.dt))
    keys = sorted(truth.getImgIds())

    def stacked(coco: Any, rows: list[Any], image: Any) -> Any:
        shape = (0, image["height"], image["width"])
        parts = [mask.decode(coco.annToRLE(row)) for row in rows]
        return torch.from_numpy(np.stack(parts) if parts else np.zeros(shape, np.uint8)).bool()

    preds, target = [], []
    for key in keys:
        image = truth.imgs[key]
        own, rows = truth.imgToAnns[key], found.imgToAnns[key]
        labels = torch.tensor([row["category_id"] for row in rows], dtype=torch.int64)
        scores = torch.tensor([row["score"] for row in rows], dtype=torch.float32)
        preds.append({"masks": stacked(found, rows, image), "scores": scores, "labels": labels})
        area = torch.tensor([row["area"] for row in own], dtype=torch.float64)
        crowd = torch.tensor([row["iscrowd"] for row in own], dtype=torch.int64)
        labels = torch.tensor([row["category_id"] for row in own], dtype=torch.int64)
        target.append({"masks": stacked(truth, own, image), "labels": labels, "iscrowd": crowd, "area": area})
    return preds, target


def _batches(items: Items) -> list[Items]:
    """Batches of all rounds; every image of a round has an id of its own."""
    import torch

    preds, target = items
    out: list[Items] = []
    for round_ in range(DENSE_ROUNDS):
        own = [{**t, "image_id": torch.tensor([round_ * len(target) + i])} for i, t in enumerate(target)]
        out += [(preds[i : i + BATCH], own[i : i + BATCH]) for i in range(0, len(preds), BATCH)]
    return out


def _start_metric() -> Prepare:
    kind = importlib.import_module("valor_gpu.detection").MeanAveragePrecision

    def prepare(files: MaskFiles) -> Run:
        batches = _batches(_decoded(files))

        def run(clock: Clock) -> Finish:
            metric = kind(iou_type="segm")
            _update_and_compute(metric, batches, clock)

            def finish() -> Outcome:
                import torch

                thresholds, grid = torch.linspace(0.5, 0.95, 10).tolist(), torch.linspace(0, 1, 101).tolist()
                peer = kind(iou_type="segm", iou_thresholds=thresholds, rec_thresholds=grid, tie_order="arrival")
                _update_and_compute(peer, batches, Clock())
                return Outcome(our_numbers(metric), "", our_numbers(peer))

            return finish

        return run

    return prepare


def _update_and_compute(metric: Any, batches: list[Items], clock: Clock) -> Any:
    with clock.phase("update"):
        for preds, target in batches:
            metric.update(preds, target)
    with clock.phase("compute"):
        return metric.compute()


def _start_torchmetrics() -> Prepare:
    load_torchvision()
    kind = importlib.import_module("torchmetrics.detection").MeanAveragePrecision
    kind(iou_type="segm", backend="faster_coco_eval")  # raises here when the backend is not installed

    def prepare(files: MaskFiles) -> Run:
        batches = _batches(_decoded(files))

        def run(clock: Clock) -> Finish:
            metric = kind(iou_type="segm", backend="faster_coco_eval")
            metric.warn_on_many_detections = False
            values = _update_and_compute(metric, batches, clock)
            return lambda: Outcome([float(values[name]) for name in STATS])

        return run

    return prepare


def _start_encoding() -> Prepare:
    """What users of pycocotools do: encode each mask, then evaluate."""
    coco, evaluator = load_pycocotools()
    mask = importlib.import_module("pycocotools.mask")

    def prepare(files: MaskFiles) -> Run:
        batches = _batches(_decoded(files))
        heads = json.loads(files.gt.read_text())["categories"]

        def run(clock: Clock) -> Finish:
            with clock.phase("encode"):
                annotations, results, images = _encoded(mask, batches)
                truth = coco()
                truth.dataset = {"images": images, "categories": heads, "annotations": annotations}
                truth.createIndex()
                found = truth.loadRes(results)
            return evaluate(evaluator, truth, found, clock, "segm")

        return run

    return prepare


def _encoded(mask: Any, batches: list[Items]) -> tuple[list[Any], list[Any], list[Any]]:
    """COCO objects of dense masks."""
    annotations: list[Any] = []
    results: list[Any] = []
    images: list[Any] = []
    for preds, target in batches:
        for found, own in zip(preds, target):
            key = int(own["image_id"])
            height, width = found["masks"].shape[1:]
            images.append({"id": key, "height": height, "width": width})
            for m, label, crowd, area in zip(own["masks"], own["labels"], own["iscrowd"], own["area"]):
                rle = mask.encode(np.asfortranarray(m.numpy().view(np.uint8)))
                annotations.append({
                    "id": len(annotations) + 1, "image_id": key, "category_id": int(label), "iscrowd": int(crowd),
                    "area": float(area), "segmentation": rle, "bbox": mask.toBbox(rle).tolist(),
                })  # fmt: skip
            for m, label, score in zip(found["masks"], found["labels"], found["scores"]):
                rle = mask.encode(np.asfortranarray(m.numpy().view(np.uint8)))
                results.append({"image_id": key, "category_id": int(label), "score": float(score), "segmentation": rle})
    return annotations, results, images


def _start_sum() -> Prepare:
    import torch

    def prepare(files: MaskFiles) -> Run:
        masks = [item["masks"] for batch in _batches(_decoded(files)) for side in batch for item in side]

        def run(clock: Clock) -> Finish:
            total = 0
            for stack in masks:
                flat = stack.view(torch.uint8).reshape(-1)
                whole = flat[: flat.numel() // 8 * 8].view(torch.int64)
                total ^= int(whole.sum())
            return lambda: Outcome([float(total % 2)])

        return run

    return prepare


# ----------------------------------------------------------------------------------------------------------- mask IoU


def _start_iou(module: str) -> Callable[[], Prepare]:
    def start() -> Prepare:
        mask = importlib.import_module(module)

        def prepare(files: MaskFiles) -> Run:
            cells = _cells(files)
            return lambda clock: _all_ious(mask, cells)

        return prepare

    return start


def _all_ious(mask: Any, cells: list[tuple[list[Any], list[Any], list[int]]]) -> Finish:
    found = [mask.iou(*cell) for cell in cells]

    def finish() -> Outcome:
        flat: Array = np.concatenate([np.asarray(iou, np.float64).reshape(-1) for iou in found])
        return Outcome([float(flat.sum())], hashlib.sha1(flat.tobytes()).hexdigest()[:12])

    return finish


def _cells(files: MaskFiles) -> list[tuple[list[Any], list[Any], list[int]]]:
    """Detections, ground truths and crowd flags of each image and category that has both, as compressed run lengths."""
    from valor_gpu.coco import COCO

    truth = COCO(str(files.gt))
    cells: dict[tuple[int, int], tuple[list[Any], list[Any], list[int]]] = {}
    for row in truth.dataset["annotations"]:
        cell = cells.setdefault((row["image_id"], row["category_id"]), ([], [], []))
        cell[1].append(_bytes(truth.annToRLE(row)))
        cell[2].append(row["iscrowd"])
    for row in json.loads(files.dt.read_text()):
        if (key := (row["image_id"], row["category_id"])) in cells:
            cells[key][0].append(_bytes(row["segmentation"]))
    return [cell for cell in cells.values() if cell[0]]


def _bytes(rle: Any) -> Any:
    counts = rle["counts"]
    return {"size": list(rle["size"]), "counts": counts.encode() if isinstance(counts, str) else counts}


def _files(iou_type: str) -> tuple[Tool, ...]:
    """Engines from JSON files to AP."""
    return (
        Tool(OURS, OURS, "bits", drop_in(load_ours, iou_type)),
        Tool(_ULTRAFAST, _ULTRAFAST, "bits", drop_in(classes("ultrafast_pycocotools"), iou_type)),
        Tool(_HOTCOCO, _HOTCOCO, "bits", drop_in(classes("hotcoco"), iou_type)),
        Tool(
            *("faster-coco-eval", "faster-coco-eval", "rounding"),
            start=drop_in(classes("faster_coco_eval", "COCOeval_faster"), iou_type),
            slow=True,
        ),
        Tool(REFERENCE, REFERENCE, "bits", drop_in(load_pycocotools, iou_type), slow=True),
    )


TOOLS: dict[str, tuple[Tool, ...]] = {
    "segm files": _files("segm"),
    "keypoints files": _files("keypoints"),
    "dense masks": (
        Tool(OURS, OURS, "rounding", _start_metric),
        Tool("torchmetrics + faster-coco-eval", "torchmetrics", "float32 grids", _start_torchmetrics, slow=True),
        Tool(REFERENCE, REFERENCE, "rounding", _start_encoding, slow=True),
        Tool(SUM, "torch", "floor", _start_sum, floor=True),
    ),
    "mask IoU": (
        Tool(OURS, OURS, "bits", _start_iou("valor_gpu.coco.mask")),
        Tool(_ULTRAFAST, _ULTRAFAST, "bits", _start_iou("ultrafast_pycocotools.mask")),
        Tool(_HOTCOCO, _HOTCOCO, "bits", _start_iou("hotcoco.mask")),
        Tool(REFERENCE, REFERENCE, "bits", _start_iou("pycocotools.mask")),
    ),
}
"""All engines by path; ours first."""
