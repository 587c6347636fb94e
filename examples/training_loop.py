"""Average precision inside a training loop, on the bundled data: a "model" that looks up its detections."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from valor_gpu import Result
from valor_gpu.detection import MeanAveragePrecision

DATA = Path(__file__).parent / "data"
Batch = tuple[list[int], list[dict[str, Any]]]


def validate(model: Callable[[Any], Any], loader: Iterable[Batch], device: str) -> Result:
    """Validate as a training script would: these ten lines go into it."""
    metric = MeanAveragePrecision(box_format="xywh").to(device)
    for images, targets in loader:
        with torch.no_grad():
            predictions = model(images)  # one dict per image: boxes [N, 4], scores [N], labels [N]
        metric.update(predictions, targets)  # matches at once; the state has 23 bytes per detection
    result = metric.result()
    print(result)  # the numbers, what they were counted on, the choices behind them
    # result.log(wandb, prefix="val/")  # or mlflow, a SummaryWriter, a LightningModule, a logger of Lightning
    return result


def by_image(file: str) -> tuple[list[int], dict[int, list[dict[str, Any]]]]:
    """Image ids and the annotations of each image in a COCO file, or the results of each."""
    content = json.loads((DATA / file).read_text())
    annotations = content["annotations"] if isinstance(content, dict) else content
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for annotation in annotations:
        groups[annotation["image_id"]].append(annotation)
    ids = [image["id"] for image in content["images"]] if isinstance(content, dict) else list(groups)
    return ids, groups


def column(rows: list[dict[str, Any]], key: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """One key of every row as a tensor."""
    return torch.tensor([row[key] for row in rows], dtype=dtype).reshape(len(rows), *shape)


def batches(ids: list[int], targets: dict[int, list[dict[str, Any]]], size: int) -> Iterator[Batch]:
    """What a data loader gives: images (here their ids) and targets."""
    for start in range(0, len(ids), size):
        chosen = ids[start : start + size]
        yield (
            chosen,
            [
                {
                    "boxes": column(targets[i], "bbox", torch.float64, 4),
                    "labels": column(targets[i], "category_id", torch.int64),
                    "area": column(targets[i], "area", torch.float64),
                    "iscrowd": column(targets[i], "iscrowd", torch.int64),
                    "image_id": i,
                }
                for i in chosen
            ],
        )


def main() -> None:
    """Validate the looked-up detections."""
    ids, targets = by_image("instances_val2014_100.json")
    _, detections = by_image("instances_val2014_fakebbox100_results.json")

    def model(images: list[int]) -> list[dict[str, torch.Tensor]]:
        return [
            {
                "boxes": column(detections[i], "bbox", torch.float64, 4),
                "scores": column(detections[i], "score", torch.float64),
                "labels": column(detections[i], "category_id", torch.int64),
            }
            for i in images
        ]

    validate(model, batches(ids, targets, 16), "cpu")


if __name__ == "__main__":
    main()
