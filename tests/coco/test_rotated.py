"""Rotated boxes: as the metric over tensors, upright ones as boxes, files and objects, four corners, errors."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.coco.comparison import OURS, load, quietly, run, same, same_arrays
from tests.detection.test_rotated_mean_ap import evaluate, random_scene
from tests.fuzz import seeds
from valor_gpu.coco.torch_engine import TorchEngine
from valor_gpu.errors import InputError
from valor_gpu.inputs import coco as inputs
from valor_gpu.inputs.coco_rotated import read_rotated

EXAMPLES = Path(__file__).parents[2] / "examples/data"
REAL = ("instances_val2014_100.json", "instances_val2014_fakebbox100_results.json")
BOX = [50.0, 40.0, 20.0, 10.0, 30.0]
CORNERS = [[0.0, 0.0, 8.0, 0.0, 8.0, 4.0, 0.0, 4.0]]


def objects_of(scene):
    """The same scene as a dataset and results."""
    annotations, results = [], []
    for image, (found, true) in enumerate(zip(*scene)):
        for box, label, crowd in zip(true["boxes"].tolist(), true["labels"].tolist(), true["iscrowd"].tolist()):
            row = {"id": len(annotations) + 1, "image_id": image, "category_id": label, "bbox": box}
            annotations.append({**row, "area": box[2] * box[3], "iscrowd": crowd})
        for box, label, score in zip(*(found[key].tolist() for key in ("boxes", "labels", "scores"))):
            results.append({"image_id": image, "category_id": label, "bbox": box, "score": score})
    images = [{"id": i, "height": 300, "width": 300} for i in range(len(scene[0]))]
    categories = [{"id": k, "name": str(k)} for k in range(3)]
    return {"images": images, "categories": categories, "annotations": annotations}, results


def evaluator(objects, kind="rotated", **options):
    truth = load(OURS, objects[0])
    found = quietly(truth.loadRes, copy.deepcopy(objects[1]))[0]
    return OURS.COCOeval(truth, found, kind, **options)


def one(truth=None, found=None):
    """One ground truth and two detections of it; the second of ``found`` changed."""
    base = {"image_id": 1, "category_id": 1}
    annotation = {**base, "id": 7, "bbox": BOX, "area": 200.0, "iscrowd": 0, **(truth or {})}
    results = [{**base, "bbox": BOX, "score": 0.9}, {**base, "bbox": BOX, "score": 0.8, **(found or {})}]
    return {"images": [{"id": 1}], "categories": [{"id": 1, "name": "a"}], "annotations": [annotation]}, results


@pytest.mark.parametrize("seed", seeds(6))
def test_arrays_are_those_of_the_metric(seed):
    scene = random_scene(seed)
    expected = evaluate(scene, extended_summary=True)
    ours = run(evaluator(objects_of(scene)))
    for name in ("precision", "recall", "scores"):
        same(expected[name].numpy().astype(np.float64), np.asarray(ours[name]), name)
    assert np.isclose(ours.e.stats[0], float(expected["map"]))


def test_upright_boxes_give_what_boxes_give_on_real_data():
    truth, found = (json.loads((EXAMPLES / name).read_text()) for name in REAL)
    plain = run(evaluator((truth, found), "bbox"))
    for row in (*truth["annotations"], *found):
        x, y, w, h = row["bbox"]
        row["bbox"] = [x + w / 2, y + h / 2, w, h, 0.0]
    turned = run(evaluator((truth, found)))
    assert turned.text.replace("rotated", "bbox") == plain.text and plain.e.stats[0] > 0.2
    same_arrays(plain.e.eval, turned.e.eval)


@pytest.mark.parametrize("seed", seeds(2))
def test_files_objects_and_torch_agree_and_make_no_objects(seed, tmp_path, monkeypatch, device):
    objects = objects_of(random_scene(seed))
    paths = [tmp_path / name for name in ("truth.json", "found.json")]
    for path, value in zip(paths, objects):
        path.write_text(json.dumps(value, indent=seed % 2 or None))
    truth = quietly(OURS.COCO, paths[0])[0]
    found = quietly(truth.loadRes, str(paths[1]))[0]
    ours = run(OURS.COCOeval(truth, found, "rotated"))
    assert truth._dataset is None and found._dataset is None
    expected = run(evaluator(objects))
    same_arrays(expected.e.eval, ours.e.eval)
    assert found.anns[1]["area"] == objects[1][0]["bbox"][2] * objects[1][0]["bbox"][3]
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(device))
    same_arrays(expected.e.eval, run(evaluator(objects)).e.eval)


def test_single_cells_are_those_of_all_at_once():
    objects = objects_of(random_scene(3))
    whole = run(evaluator(objects))
    e = evaluator(objects)
    base = type(e)
    e.__class__ = type("Mine", (base,), {"evaluateImg": lambda self, *args: base.evaluateImg(self, *args)})
    cells = run(e)
    same_arrays(whole.e.eval, cells.e.eval)
    for key, values in whole.e.ious.items():
        np.testing.assert_array_equal(values, cells.e.ious[key])


def test_corners_in_bbox_and_as_the_only_polygon_agree():
    scene = random_scene(4, angles=False)
    truth, found = objects_of(scene)
    expected = run(evaluator((truth, found)))
    for key in ("bbox", "segmentation"):
        for row in (*truth["annotations"], *found):
            x, y, w, h = (row.get("was") or row["bbox"])[:4]
            row["was"] = [x, y, w, h]
            left, top, right, bottom = x - w / 2, y - h / 2, x + w / 2, y + h / 2
            corners = [left, top, right, top, right, bottom, left, bottom]
            row.update({"bbox": [left, top, w, h]} if key == "segmentation" else {})
            row[key] = corners if key == "bbox" else [corners]
        ours = run(evaluator((truth, found)))
        same(np.asarray(expected["precision"]), np.asarray(ours["precision"]), key)
    assert expected.e.stats[0] > 0.05


def test_sides_may_be_of_different_kinds():
    corners = [40, 35, 60, 35, 60, 45, 40, 45]
    objects = one({"bbox": corners}, {"bbox": [50, 40, 20, 10, 0]})
    objects[1][0]["bbox"] = [50, 40, 20, 10, 180.0]
    assert run(evaluator(objects)).e.stats[0] > 0.999


def test_the_last_of_equal_keys_counts(tmp_path):
    path = tmp_path / "truth.json"
    texts = ['[1,2,3,4],"bbox":[1,2,3,4,5]', '[1,2,3,4,5],"bbox":[1,2,3,4]', '[1,2,3,4,5],"bbox":null']
    rows = ",".join(f'{{"id":{n},"image_id":1,"category_id":1,"bbox":{text}}}' for n, text in enumerate(texts))
    path.write_text(f'{{"annotations":[{rows}]}}')
    read = inputs.read_ground_truth(path).annotations
    assert read.has("rotated").tolist() == [True, False, False]
    assert read.has("bbox").tolist() == [False, True, False]
    assert read_rotated(read, np.arange(1)).tolist() == [[1, 2, 3, 4, 5]] and np.isnan(read.bbox[0]).all()


NEED = r"must be 5 finite numbers \[centre x, centre y, width, height, angle in degrees\]"


@pytest.mark.parametrize("side", ["truth", "found"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": BOX[:4]}, r"\[{}\].bbox \(id {}\) " + NEED + r".* but got \[50.0, 40.0, 20.0, 10.0\]"),
        ({"bbox": [*BOX, 1.0]}, r"\[{}\].bbox must be 4 numbers .* but got \[50.0, .*, 1.0\]"),
        ({"bbox": [*BOX[:4], float("nan")]}, r"\[{}\].bbox \(id {}\) " + NEED + ".* but got .*nan"),
        ({"bbox": [50, 40, -20, 10, 0]}, r"\[{}\].bbox \(id {}\) " + NEED + ", sizes at least 0.*-20"),
        ({"bbox": [1e200, 0, 1e200, 1e200, float("inf")]}, r"\[{}\].bbox \(id {}\) " + NEED + ".* but got .*inf"),
        ({"bbox": None}, r"\[{}\] must have bbox"),
        ({"bbox": None, "segmentation": [CORNERS[0][:6]]}, r"\[{}\].bbox \(id {}\) .* but got segmentation \[\[0.0"),
        ({"bbox": BOX[:4], "segmentation": CORNERS * 2}, r"\[{}\].bbox \(id {}\) .* but got bbox .* and segmentation"),
    ],
)  # fmt: skip
def test_errors_name_the_annotation(side, change, message, tmp_path):
    objects = one(**{side: change})
    row, number = (0, 7) if side == "truth" else (1, 2)
    wanted = message.format(row, number)
    with pytest.raises(InputError, match=wanted):
        run(evaluator(objects))
    paths = [tmp_path / "truth.json", tmp_path / "found.json"]
    for path, value in zip(paths, objects):
        path.write_text(json.dumps(value))

    def from_files():
        truth = OURS.COCO(paths[0])
        run(OURS.COCOeval(truth, truth.loadRes(str(paths[1])), "rotated"))

    with pytest.raises(InputError, match=wanted):
        quietly(from_files)


def test_kinds_do_not_mix_and_corners_are_convex():
    with pytest.raises(InputError, match=r"\[1\].bbox \(id 2\) must be 5 .*, like results\[0\], but got \[0.0, 0.0, 8"):
        run(evaluator(one(found={"bbox": CORNERS[0]})))
    crossed = [0, 0, 8, 4, 8, 0, 0, 4]
    with pytest.raises(InputError, match=r"annotations\[0\].bbox \(id 7\) must be the corners of a convex .* but got"):
        run(evaluator(one({"bbox": crossed})))


@pytest.mark.parametrize("side", ["truth", "found"])
def test_boxes_must_still_be_boxes_where_boxes_are_evaluated(side):
    truth, found = one()
    rows = found if side == "truth" else truth["annotations"]
    for row in rows:
        row["bbox"] = BOX[:4]
    with pytest.raises(InputError, match=r"\[0\].bbox must be 4 numbers \[x, y, width, height\] but got \[50.0, 40.0,"):
        run(evaluator((truth, found), "bbox"))


def test_results_that_start_with_boxes_take_no_rotated_ones():
    truth, found = one()
    found[0]["bbox"] = BOX[:4]
    with pytest.raises(InputError, match=r"results\[1\].bbox must be 4 numbers .* but got \[50.0, 40.0, 20.0, 10.0, 3"):
        evaluator((truth, found))


def test_torch_is_not_imported(tmp_path):
    for name, value in zip(("truth.json", "found.json"), one()):
        (tmp_path / name).write_text(json.dumps(value))
    code = (
        "import sys; from valor_gpu.coco import COCO, COCOeval; truth = COCO('truth.json');"
        "e = COCOeval(truth, truth.loadRes('found.json'), 'rotated'); e.evaluate(); e.accumulate(); e.summarize();"
        "assert 'torch' not in sys.modules and e.stats[0] > 0.999"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
