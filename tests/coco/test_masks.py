"""COCOeval of masks against pycocotools: arrays, matches and similarities, byte for byte."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testing.oracles import pycocotools
from tests.coco.comparison import OURS, THEIRS, Objects, Run, load, quietly, run, same_arrays, same_runs
from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.errors import InputError

DATA, EXAMPLES = Path(__file__).parents[1] / "data", Path(__file__).parents[2] / "examples/data"
HEIGHT, WIDTH = 40, 50

pytestmark = [
    pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu")),
    pytest.mark.filterwarnings("ignore:__array__ implementation"),  # of pycocotools' decode
]


def unpacked(name: str) -> Any:
    return json.loads(gzip.decompress(((DATA if (DATA / name).exists() else EXAMPLES) / name).read_bytes()))


def codec() -> Any:
    return pycocotools("mask")


def evaluator(side: Any, objects: Objects, kind: str = "segm", **options: Any) -> Any:
    truth = load(side, objects[0])
    return side.COCOeval(truth, quietly(truth.loadRes, copy.deepcopy(objects[1]))[0], kind, **options)


def check(objects: Objects, summarize: bool = True, **params: Any) -> tuple[Run, Run]:
    """Asserts that both leave the same, and returns (theirs, ours)."""
    theirs, ours = (run(evaluator(side, objects), summarize, **params) for side in (THEIRS, OURS))
    same_runs(theirs, ours)
    return theirs, ours


# ----------------------------------------------------------------------------------------------------------- real data


def real() -> Objects:
    return unpacked("instances_val2014_100_masks.json.gz"), unpacked("instances_val2014_fakesegm100_results.json.gz")


def test_the_example_of_the_coco_api() -> None:
    _, ours = check(real())
    expected = [0.320, 0.562, 0.299, 0.387, 0.310, 0.327, 0.268, 0.415, 0.417, 0.469, 0.377, 0.381]
    assert ours.e.stats.round(3).tolist() == expected
    assert ours.e.result().values["map"] == ours.e.stats[0]


def test_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("gt.json", "dt.json")]
    for path, objects in zip(paths, real()):
        path.write_text(json.dumps(objects))
    runs = []
    for side in (THEIRS, OURS):
        truth = quietly(side.COCO, str(paths[0]))[0]
        runs.append(run(side.COCOeval(truth, quietly(truth.loadRes, str(paths[1]))[0], "segm")))
    same_runs(*runs)


def test_masks_of_a_detector() -> None:
    """YOLACT: what it is sure of, a little changed, stands for the ground truth."""
    results = unpacked("yolact_resnet50_10_images.json.gz")
    images = {r["image_id"]: r["segmentation"]["size"] for r in results}
    rng, annotations = np.random.default_rng(0), []
    for result in results:
        if result["score"] > 0.4:
            mask = np.roll(codec().decode(result["segmentation"]), rng.integers(-3, 4, 2), (0, 1))
            rle = codec().encode(np.asfortranarray(mask))
            annotations.append({"id": len(annotations) + 1, "image_id": result["image_id"],
                                "category_id": result["category_id"], "iscrowd": int(rng.random() < 0.1),
                                "area": float(codec().area(rle)), "segmentation": rle})  # fmt: skip
    dataset = {
        "images": [{"id": i, "height": h, "width": w} for i, (h, w) in images.items()],
        "categories": [{"id": k} for k in sorted({a["category_id"] for a in annotations})],
        "annotations": annotations,
    }
    theirs, _ = check((dataset, results))
    assert 0.3 < theirs.e.stats[0] < 0.95


# -------------------------------------------------------------------------------------------------------- random scenes


def random_mask(rng: np.random.Generator, near: Any = None) -> Any:
    """uint8 ``[height, width]``: a rectangle or an ellipse, or one near to another; some are empty."""
    if near is not None:
        mask = np.roll(near, rng.integers(-4, 5, 2), (0, 1))
        return mask if rng.random() < 0.7 else mask & (rng.random(mask.shape) < 0.9)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    cy, cx, ry, rx = rng.uniform(0, HEIGHT), rng.uniform(0, WIDTH), *rng.uniform(0, 18, 2)
    mask = (abs(y - cy) < ry) & (abs(x - cx) < rx)
    if rng.random() < 0.5:
        mask &= ((y - cy) / (ry + 1e-9)) ** 2 + ((x - cx) / (rx + 1e-9)) ** 2 < 1
    return mask.astype(np.uint8)


def written(rng: np.random.Generator, mask: Any, image: dict[str, Any]) -> Any:
    """A mask as compressed counts or as polygons; some have another size than the image."""
    if rng.random() < 0.06:
        mask = mask[:-1]
    elif rng.random() < 0.2:
        rows, columns = np.nonzero(mask)
        if len(rows):
            x0, y0, x1, y1 = columns.min(), rows.min(), columns.max() + 0.5, rows.max() + 1
            return [[float(v) for v in (x0, y0, x1, y0, x1, y1, x0, y1)]]
    rle = codec().encode(np.asfortranarray(mask, np.uint8))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def random_objects(seed: int, images: int = 12, classes: int = 3, boxes: bool = False) -> Objects:
    rng = np.random.default_rng(seed)
    listed = [{"id": 3 + 7 * i, "height": HEIGHT, "width": WIDTH} for i in range(images)]
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for image in listed:
        masks = []
        for _ in range(rng.integers(0, 7)):
            label, crowd = int(rng.integers(1, classes + 1)), int(rng.random() < 0.15)
            masks.append((random_mask(rng), label))
            annotations.append({"id": len(annotations), "image_id": image["id"], "category_id": label,
                                "iscrowd": crowd, "area": float(rng.integers(0, 2000)) * 10,
                                "segmentation": written(rng, masks[-1][0], image)})  # fmt: skip
        for _ in range(rng.integers(0, 10)):
            near, label = masks[rng.integers(len(masks))] if masks and rng.random() < 0.8 else (None, 1)
            label = label if rng.random() < 0.9 else int(rng.integers(1, classes + 1))
            segmentation = written(rng, random_mask(rng, near), image)
            result = {"image_id": image["id"], "category_id": label, "score": round(float(rng.random()), 1)}
            if boxes or isinstance(segmentation, list):
                result["bbox"] = rng.uniform(1, 40, 4).tolist()
            results.append({**result, "segmentation": segmentation})
    if not boxes:  # pycocotools takes polygons only from results with boxes
        results = [{k: v for k, v in r.items() if k != "bbox"} for r in results if "bbox" not in r]
    categories = [{"id": k} for k in range(1, classes + 1)]
    if not results or not annotations:
        return random_objects(seed + 1000, images, classes, boxes)
    return {"images": listed, "categories": categories, "annotations": annotations}, results


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "class-agnostic": {"useCats": 0},
    "small limits": {"maxDets": [1, 2, 3]},
    "some images": {"imgIds": [3, 17, 24, 31]},
    "thresholds from below 0": {"iouThrs": np.array([-1.0, 0.0, 0.1, 0.5])},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("seed", seeds(2))
def test_random_scenes(seed: int, boxes: bool, name: str) -> None:
    params = SETTINGS[name]
    check(random_objects(seed, boxes=boxes), "useCats" not in params, **params)


def test_annotation_ids_that_repeat() -> None:
    truth, results = random_objects(5)
    for n, annotation in enumerate(truth["annotations"]):
        annotation["id"] = n // 3
    check((truth, results))


def test_results_that_are_boxes() -> None:
    """pycocotools takes the corners of a box for the mask of a result without one."""
    truth, results = random_objects(6, boxes=True)
    for result in results[::2]:
        del result["segmentation"]
    check((truth, results))


@pytest.mark.parametrize("kind", ["segm", "bbox"])
def test_cell_by_cell(kind: str) -> None:
    """A subclass that replaces a step is asked for every cell."""
    objects = random_objects(7, boxes=True)
    for annotation in objects[0]["annotations"]:
        annotation["bbox"] = [1, 2, 30, 20]

    def overridden(side: Any) -> Any:
        class Counting(side.COCOeval):  # type: ignore[name-defined,misc]
            def computeIoU(self, imgId: Any, catId: Any) -> Any:
                return super().computeIoU(imgId, catId)

        return Counting

    runs = []
    for side in (THEIRS, OURS):
        e = evaluator(side, objects, kind)
        runs.append(run(overridden(side)(e.cocoGt, e.cocoDt, kind)))
    theirs, ours = runs
    assert theirs.text == ours.text
    for name in ("precision", "recall", "scores"):
        assert theirs[name].tobytes() == ours[name].tobytes()
    for key, matrix in theirs.e.ious.items():
        assert np.asarray(matrix).tobytes() == np.asarray(ours.e.ious[key]).tobytes(), key


def test_the_similarities_of_one_cell() -> None:
    objects = real()
    theirs, ours = (evaluator(side, objects) for side in (THEIRS, OURS))
    quietly(theirs._prepare)
    quietly(ours._prepare)
    for image in theirs.params.imgIds[:20]:
        for category in theirs.params.catIds:
            expected, got = theirs.computeIoU(image, category), ours.computeIoU(image, category)
            if len(theirs._gts[image, category]) and len(theirs._dts[image, category]):
                assert expected.tobytes() == got.tobytes() and expected.shape == got.shape
    assert all(type(a["segmentation"]["counts"]) is bytes for a in ours._gts[image, 1])


# ---------------------------------------------------------------------------------------------------------- conventions


def test_masks_that_nobody_evaluates_may_be_wrong() -> None:
    truth, results = random_objects(8)
    there = {(r["image_id"], r["category_id"]) for r in results}
    lonely = next(a for a in truth["annotations"] if (a["image_id"], a["category_id"]) not in there)
    lonely["segmentation"] = {"size": [2, 2], "counts": "no run lengths"}
    run(evaluator(OURS, (truth, results)))
    paired = next(a for a in truth["annotations"] if (a["image_id"], a["category_id"]) in there)
    paired["segmentation"] = lonely["segmentation"]
    e = evaluator(OURS, (truth, results))
    with pytest.raises(InputError, match=rf"annotations\[\d+\].segmentation \(id {paired['id']}\)\.counts must"):
        quietly(e.evaluate)


def test_missing_masks() -> None:
    truth, results = random_objects(9)
    del truth["annotations"][3]["segmentation"]
    e = evaluator(OURS, (truth, results))
    with pytest.raises(InputError, match=r"annotations\[3\] must have segmentation but has only id, image_id"):
        quietly(e.evaluate)


def test_the_corrected_convention() -> None:
    """Without a quirk in the data both conventions give the same bits."""
    truth, results = random_objects(10)
    for n, annotation in enumerate(truth["annotations"], 1):
        annotation.update(id=n, area=annotation["area"] + 1)
    strict, corrected = (run(evaluator(OURS, (truth, results), convention=name)) for name in ("strict", "corrected"))
    assert strict.e.stats.tobytes() == corrected.e.stats.tobytes()
    truth["annotations"][0]["ignore"] = 1
    counted = [run(evaluator(OURS, (truth, results), convention=n)).e.evalImgs for n in ("strict", "corrected")]
    ignored = [sum(int(cell["gtIgnore"].sum()) for cell in cells if cell) for cells in counted]
    assert ignored[0] < ignored[1]


def test_no_torch_is_imported(tmp_path: Path) -> None:
    for path, objects in zip((tmp_path / "gt.json", tmp_path / "dt.json"), random_objects(11)):
        path.write_text(json.dumps(objects))
    code = f"""
import sys
from valor_gpu.coco import COCO, COCOeval
gt = COCO({str(tmp_path / "gt.json")!r})
for kind in ["segm", "boundary"]:
    e = COCOeval(gt, gt.loadRes({str(tmp_path / "dt.json")!r}), kind)
    e.evaluate(); e.accumulate(); e.summarize()
assert len(e.evalImgs) and len(e.ious)
print([m for m in ("torch", "pycocotools") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_parts_of_images_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from valor_gpu.coco.engine import NumpyEngine

    objects = random_objects(12, images=30)
    whole = run(evaluator(OURS, objects))
    for rows in (1, 7):
        monkeypatch.setattr(NumpyEngine, "masks_at_once", rows)
        same_runs(whole, run(evaluator(OURS, objects)))


@pytest.mark.parametrize("kind", ["segm", "boundary"])
def test_torch_gives_what_numpy_gives(kind: str, monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    from valor_gpu.coco.torch_engine import TorchEngine

    objects = random_objects(13)
    numpy = run(evaluator(OURS, objects, kind))
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(device))
    torches = run(evaluator(OURS, objects, kind))
    assert isinstance(torches.e._records.engine, TorchEngine)
    found, expected = torches.e.result().to_dict(), numpy.e.result().to_dict()
    assert found.pop("provenance") != expected.pop("provenance") and found == expected
    same_runs(numpy, torches) if device.type == "cpu" else same_arrays(numpy.e.eval, torches.e.eval)


def test_results_tell_of_masks_alone() -> None:
    e = run(evaluator(OURS, random_objects(13))).e
    assert e.result().signature["iou_type"] == "segm" and "detections_of_negative_size" not in e.result().counts


# ---------------------------------------------------------------------------------------------------------- boundaries


def boundary(rle: dict[str, Any], ratio: float = 0.02) -> dict[str, Any]:
    """A mask without its erosion by 3 x 3 pixels, as often as the part of the diagonal says."""
    mask = codec().decode(rle)
    inside = np.pad(mask, 1)
    for _ in range(max(1, round(ratio * float(np.hypot(*mask.shape))))):
        core = np.pad(inside[1:-1, 1:-1], 1)
        height, width = mask.shape
        shifted = [core[y : y + height, x : x + width] for y in range(3) for x in range(3)]
        inside = np.pad(np.min(shifted, 0), 1)
    return codec().encode(np.asfortranarray(mask - inside[1:-1, 1:-1]))


def boundary_evaluator(truth: Any, found: Any, ratio: float) -> Any:
    """pycocotools with the similarity of Cheng et al. 2021."""

    class BoundaryReference(THEIRS.COCOeval):  # type: ignore[name-defined,misc]
        def computeIoU(self, imgId: Any, catId: Any) -> Any:
            values = super().computeIoU(imgId, catId)
            truths, found = self._gts[imgId, catId], self._dts[imgId, catId]
            if len(values) == 0:
                return values
            order = np.argsort([-d["score"] for d in found], kind="mergesort")[: self.params.maxDets[-1]]
            crowd = [int(t["iscrowd"]) for t in truths]
            sides = [[boundary(a["segmentation"], ratio) for a in s] for s in ([found[i] for i in order], truths)]
            around = codec().iou(*sides, crowd)
            return np.where(np.array(crowd, bool), values, np.minimum(values, around))

    return BoundaryReference(truth, found, "segm")


@pytest.mark.parametrize(("seed", "ratio"), [(0, 0.02), (1, 0.02), (2, 0.1)])
def test_boundaries(seed: int, ratio: float) -> None:
    objects = random_objects(seed)
    e = evaluator(THEIRS, objects)
    reference = boundary_evaluator(e.cocoGt, e.cocoDt, ratio)
    theirs, ours = run(reference), run(evaluator(OURS, objects, "boundary"), boundary_dilation_ratio=ratio)
    for name in ("precision", "recall", "scores"):
        assert theirs[name].tobytes() == ours[name].tobytes()
    for key, matrix in theirs.e.ious.items():
        assert np.array_equal(np.asarray(matrix), np.asarray(ours.e.ious[key])), key
    plain = run(evaluator(OURS, objects))
    assert ours.e.stats[0] < plain.e.stats[0]
    image, category = next(key for key, matrix in theirs.e.ious.items() if len(matrix))
    assert np.array_equal(ours.e.computeIoU(image, category), theirs.e.ious[image, category])


@pytest.mark.parametrize("kind", ["bbox", "segm", "boundary"])
def test_masks_of_another_size_are_counted(kind: str) -> None:
    def mask(height: int, width: int) -> dict[str, Any]:
        return {"size": [height, width], "counts": [0, height * width]}

    # Image, category and size: of image 1 the sizes differ, of image 2 all are alike, those of category 9 meet nothing.
    places = [(1, 7, (6, 8)), (1, 7, (8, 6)), (2, 7, (6, 8)), (2, 9, (1, 1)), (3, 7, (6, 8)), (3, 7, (8, 6))]
    common = [{"image_id": i, "category_id": k, "segmentation": mask(*size)} for i, k, size in places]
    found = [{**c, "score": 0.5, "bbox": [0, 0, 6, 6]} for c in common]
    truths = [
        {**c, "id": n, "iscrowd": 0, "area": 48, "bbox": [0, 0, 6, 6]} for n, c in enumerate(common[2:5:2] * 2, 1)
    ]
    truths[2] = {**truths[2], "segmentation": mask(6, 8), "image_id": 1}
    images = [{"id": i, "height": 6, "width": 8} for i in (1, 2, 3, 4)]
    data = {"images": images, "annotations": truths, "categories": [{"id": 7}, {"id": 9}]}
    counts = run(evaluator(OURS, (data, found), kind)).e.result().counts
    assert counts.get("detections_of_other_size") == (None if kind == "bbox" else 2)
    truths.append({**truths[0], "id": 9, "segmentation": mask(8, 6)})  # now no detection of image 2 has every size
    assert run(evaluator(OURS, (data, found), kind)).e.result().counts.get("detections_of_other_size") == (
        None if kind == "bbox" else 3
    )
