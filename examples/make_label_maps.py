"""Makes data/label_maps: semantic label maps out of the masks of objects, for ``valor-gpu segment``.

Ground truth: the masks of 100 images of COCO val2014, the largest painted first, as 12 supercategories and background;
crowds that nothing covers are 255, to be ignored. Predictions: the example results of cocoapi for these images
(``fakesegm100``), the lowest score painted first. Every second pixel of every second row is kept, and of the images the
first ``COUNT`` that have results. Needs Pillow; takes seconds.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from valor_gpu.coco import COCO

DATA = Path(__file__).parent / "data"
OUTPUT = DATA / "label_maps"
COUNT, STEP, IGNORED = 30, 2, 255
COLORS = np.random.default_rng(0).integers(60, 256, (256, 3), np.uint8)


def main() -> None:
    """Paint and write."""
    truth = COCO(str(DATA / "instances_val2014_100_masks.json.gz"))
    found = truth.loadRes(str(DATA / "instances_val2014_fakesegm100_results.json.gz"))
    groups = {category["id"]: category["supercategory"] for category in truth.loadCats(truth.getCatIds())}
    names = ["background", *dict.fromkeys(groups.values())]
    label = {category: names.index(group) for category, group in groups.items()}
    shutil.rmtree(OUTPUT, ignore_errors=True)
    for side in ("gt", "pred"):
        (OUTPUT / side).mkdir(parents=True)
    (OUTPUT / "names.txt").write_text("\n".join(names) + "\n")
    with_results = [image for image in truth.loadImgs(truth.getImgIds()) if found.getAnnIds(imgIds=image["id"])]
    for image in with_results[:COUNT]:
        size = image["height"], image["width"]
        objects = truth.loadAnns(truth.getAnnIds(imgIds=image["id"]))
        objects.sort(key=lambda one: (not one["iscrowd"], -one["area"]))
        results = sorted(found.loadAnns(found.getAnnIds(imgIds=image["id"])), key=lambda one: one["score"])
        for side, coco, ones in (("gt", truth, objects), ("pred", found, results)):
            labels = painted(coco, ones, label, size)
            picture = Image.frombytes("P" if side == "gt" else "L", labels.shape[::-1], labels.tobytes())
            if side == "gt":  # indices with colours, so that a viewer shows something
                picture.putpalette(COLORS.ravel().tolist())
            picture.save(OUTPUT / side / f"{image['id']:06}.png", optimize=True)


def painted(coco: COCO, objects: list[dict[str, Any]], label: dict[int, int], size: tuple[int, int]) -> Any:
    """The labels uint8 ``[H, W]`` of objects, later ones over earlier ones."""
    labels = np.zeros(size, np.uint8)
    for one in objects:
        labels[coco.annToMask(one).astype(bool)] = IGNORED if one["iscrowd"] else label[one["category_id"]]
    return labels[::STEP, ::STEP]


if __name__ == "__main__":
    main()
