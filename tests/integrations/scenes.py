"""Random annotated images as a COCO file, and pycocotools' numbers of results on them."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch


@dataclass
class Scene:
    """A COCO dataset whose category ids are 0, 1 and 2 unless they are changed."""

    file: Path
    images: list[dict[str, Any]]
    annotations: list[dict[str, Any]]
    categories: list[dict[str, Any]]
    epoch: int = 0

    def of(self, image: int) -> list[dict[str, Any]]:
        """The annotations of an image."""
        return [row for row in self.annotations if row["image_id"] == image]

    @staticmethod
    def centres(boxes: list[list[float]], image: dict[str, Any]) -> torch.Tensor:
        """x, y, width, height in pixels as centres and sizes in fractions."""
        rows = torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4)
        scale = torch.tensor([image["width"], image["height"]], dtype=torch.float64)
        return torch.cat([(rows[:, :2] + rows[:, 2:] / 2) / scale, rows[:, 2:] / scale], 1)

    def write(self) -> None:
        """Writes the file."""
        parts = {"images": self.images, "annotations": self.annotations, "categories": self.categories}
        self.file.write_text(json.dumps(parts))


def make_scene(folder: Path, seed: int = 0, ids: tuple[int, ...] = (0, 1, 2)) -> Scene:
    """Six images, one of them empty, with boxes of all sizes and some crowds."""
    draw = np.random.default_rng(seed)
    images = [{"id": 11 * i + 3, "width": 400 + 40 * i, "height": 300, "file_name": f"{i}.jpg"} for i in range(6)]
    annotations = []
    for image in images[:5]:
        for _ in range(7):
            size = draw.uniform(0.04, 0.4, 2) * (image["width"], image["height"])
            corner = draw.uniform(0, 1, 2) * ((image["width"], image["height"]) - size)
            box = [float(round(x, 2)) for x in (*corner, *size)]
            annotations.append({
                "id": len(annotations) + 1, "image_id": image["id"], "category_id": int(draw.choice(ids)), "bbox": box,
                "area": box[2] * box[3] * 0.7, "iscrowd": int(draw.random() < 0.15),
            })  # fmt: skip
    categories = [{"id": key, "name": f"kind {key}"} for key in ids]
    scene = Scene(folder / "instances.json", images, annotations, categories)
    scene.write()
    return scene


def coco_stats(
    scene: Scene, results: list[dict[str, Any]], iou_type: str = "bbox", sigmas: Sequence[float] = ()
) -> list[float]:
    """The numbers of pycocotools."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(scene.file))
        evaluation = COCOeval(truth, truth.loadRes(results), iou_type)
        if sigmas:
            evaluation.params.kpt_oks_sigmas = np.array(sigmas)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(x) for x in evaluation.stats]
