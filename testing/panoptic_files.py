"""COCO panoptic files: predictions made from a ground truth by seeded changes, and small files made by hand.

``python -m testing.panoptic_files`` writes the predictions of examples/data anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "data"
GROUND_TRUTH = EXAMPLES / "panoptic_examples.json"
PREDICTIONS = EXAMPLES / "panoptic_examples_predictions.json"

Segment = dict[str, Any]


def read_ids(path: Path) -> NDArray[np.int64]:
    """Ids ``[H, W]`` of a PNG."""
    with Image.open(path) as image:
        pixels = np.asarray(image, np.int64)
    return pixels[..., 0] + 256 * pixels[..., 1] + 65536 * pixels[..., 2]


def write_ids(path: Path, ids: NDArray[Any]) -> None:
    """Writes ids ``[H, W]`` as a PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.stack([ids & 255, ids >> 8 & 255, ids >> 16 & 255], -1).astype(np.uint8)
    Image.fromarray(pixels, "RGB").save(path, optimize=True)


def segment(number: int, category: int, **more: Any) -> Segment:
    """An entry of ``segments_info``."""
    return {"id": number, "category_id": category, "iscrowd": 0, **more}


def changed(
    rng: np.random.Generator, ids: NDArray[np.int64], categories: Mapping[int, int], known: list[int]
) -> tuple[NDArray[np.int64], dict[int, int]]:
    """A prediction that shifts a segmentation, and merges, splits, recategorises and voids some of its segments.

    Args:
        rng: what is done with each segment.
        ids: ``[H, W]``.
        categories: of each id.
        known: categories to choose from.

    Returns:
        Ids ``[H, W]`` of new segments, and their categories.
    """
    ids = np.roll(ids, rng.integers(-3, 4, 2), (0, 1))
    found = np.zeros_like(ids)
    names: dict[int, int] = {}
    columns = np.arange(ids.shape[1])
    for number in np.unique(ids[ids > 0]).tolist():
        pixels, step = ids == number, rng.integers(0, 10)
        category = known[int(rng.integers(len(known)))] if step == 0 else categories[number]
        if step == 1:
            continue  # void
        same = [old for old, kind in names.items() if kind == category]
        new = same[-1] if step == 2 and same else int(rng.integers(1, 2**24))
        found[pixels], names[new] = new, category
        if step == 3:  # from some column on it is another segment
            right = pixels & (columns > np.quantile(np.nonzero(pixels)[1], rng.random()))
            found[right], names[new + 1] = new + 1, category
    present = set(np.unique(found).tolist())
    return found, {number: category for number, category in names.items() if number in present}


def make_predictions(ground_truth: Path, predictions: Path, seed: int) -> None:
    """Writes predictions of all images of a ground truth.

    Args:
        ground_truth: the JSON, beside its folder.
        predictions: the JSON to write, beside its folder.
        seed: of the changes.
    """
    whole = json.loads(ground_truth.read_text())
    known = [category["id"] for category in whole["categories"]]
    rng = np.random.default_rng(seed)
    annotations = []
    for annotation in whole["annotations"]:
        categories = {s["id"]: s["category_id"] for s in annotation["segments_info"]}
        ids = read_ids(ground_truth.with_suffix("") / annotation["file_name"])
        found, names = changed(rng, ids, categories, known)
        write_ids(predictions.with_suffix("") / annotation["file_name"], found)
        segments = [{"id": number, "category_id": names[number]} for number in sorted(names)]
        entry = {name: annotation[name] for name in ("image_id", "file_name")}
        annotations.append({**entry, "segments_info": segments})
    predictions.write_text(json.dumps({"annotations": annotations}, separators=(",", ":")) + "\n")


class Files:
    """A ground truth and predictions of small images, to be spoilt in one place.

    Args:
        folder: where to.

    Attributes:
        gt: content of the JSON of the ground truth.
        pred: content of the JSON of predictions.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        categories = [
            {"id": 1, "name": "cat", "isthing": 1},
            {"id": 2, "name": "dog", "isthing": 1},
            {"id": 9, "name": "sky", "isthing": 0},
        ]
        self.gt: dict[str, Any] = {"categories": categories, "annotations": [], "images": []}
        self.pred: dict[str, Any] = {"annotations": []}

    def add(self, image: int | str, target: Any, segments: list[Segment], preds: Any, predicted: list[Segment]) -> None:
        """Adds an image: ids of both sides ``[H, W]``, and their segments."""
        for side, ids, listed in ((self.gt, target, segments), (self.pred, preds, predicted)):
            side["annotations"].append({"image_id": image, "file_name": f"{image}.png", "segments_info": listed})
            write_ids(self.folder / ("gt" if side is self.gt else "pred") / f"{image}.png", np.array(ids))

    def write(self) -> list[str]:
        """Writes the JSON files; returns the arguments of the command."""
        for name, side in (("gt", self.gt), ("pred", self.pred)):
            (self.folder / f"{name}.json").write_text(json.dumps(side))
        return ["--gt", str(self.folder / "gt.json"), "--pred", str(self.folder / "pred.json")]


if __name__ == "__main__":
    make_predictions(GROUND_TRUTH, PREDICTIONS, 2)
