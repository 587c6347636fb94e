"""Evaluators for Detectron2 and MMDetection: their calls played by hand, and real ones where the packages are."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from testing.keypoint_scenes import random_keypoints
from testing.text_ids import renamed
from tests.integrations.scenes import Scene, coco_stats, make_scene
from valor_gpu.errors import InputError
from valor_gpu.integrations import detectron2, mmdet

IDS = (7, 3, 18)  # of categories 0, 1, 2 of the model
LABELS = {key: label for label, key in enumerate(IDS)}
NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl")


def with_masks(scene: Scene) -> Scene:
    """Each annotation has the polygon of its box."""
    for row in scene.annotations:
        x, y, w, h = row["bbox"]
        row["segmentation"] = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        row["iscrowd"] = 0  # polygons of a crowd are not COCO's
    scene.write()
    return scene


def detections(scene: Scene, image: int) -> dict[str, torch.Tensor]:
    """Corners near the annotations, in float32, with scores and labels of the model in an epoch."""
    draw = torch.Generator().manual_seed(image + 1000 * scene.epoch)
    rows = scene.of(image)
    boxes = torch.tensor([row["bbox"] for row in rows]).reshape(-1, 4)
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1) + 4 * torch.randn(len(rows), 4, generator=draw)
    labels = torch.tensor([LABELS[row["category_id"]] for row in rows], dtype=torch.int64)
    labels[::6] = (labels[::6] + 1) % 3
    return {"boxes": corners, "scores": torch.rand(len(rows), generator=draw), "labels": labels}


def masks(corners: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """What is inside of each box, ``[N, H, W]``."""
    x, y = torch.arange(width) + 0.5, torch.arange(height) + 0.5
    inside_x = (x > corners[:, :1]) & (x < corners[:, 2:3])
    return ((y > corners[:, 1:2]) & (y < corners[:, 3:]))[:, :, None] & inside_x[:, None, :]


def results(scene: Scene, exact: bool) -> list[dict[str, Any]]:
    """COCO results of all images; differences of corners in float64 (``exact``) or float32."""
    rows = []
    for image in scene.images:
        found = detections(scene, image["id"])
        corners = found["boxes"].double() if exact else found["boxes"]
        boxes = torch.cat([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1).double().tolist()
        for box, score, label in zip(boxes, found["scores"].tolist(), found["labels"].tolist()):
            rows.append({"image_id": image["id"], "category_id": IDS[label], "bbox": box, "score": score})
    return rows


def mask_results(scene: Scene) -> list[dict[str, Any]]:
    from pycocotools import mask as coder

    rows = []
    for image in scene.images:
        found = detections(scene, image["id"])
        dense = masks(found["boxes"], image["height"], image["width"]).byte().numpy()
        for each, score, label in zip(dense, found["scores"].tolist(), found["labels"].tolist()):
            code = coder.encode(each.T.copy(order="C").T)
            shape = {"segmentation": {"size": code["size"], "counts": code["counts"].decode()}}
            rows.append({"image_id": image["id"], "category_id": IDS[label], "score": score, **shape})
    return rows


def instances(scene: Scene, image: dict[str, Any]) -> SimpleNamespace:
    """Detectron2's ``Instances``, as far as they are read."""
    found = detections(scene, image["id"])
    return SimpleNamespace(
        pred_boxes=SimpleNamespace(tensor=found["boxes"]), scores=found["scores"], pred_classes=found["labels"],
        pred_masks=masks(found["boxes"], image["height"], image["width"]),
    )  # fmt: skip


def sample(scene: Scene, image: dict[str, Any]) -> dict[str, Any]:
    """MMDetection's data sample, as a dict."""
    found = detections(scene, image["id"])
    dense = masks(found["boxes"], image["height"], image["width"])
    pred = {"bboxes": found["boxes"], "scores": found["scores"], "labels": found["labels"], "masks": dense}
    return {"img_id": image["id"], "ori_shape": (image["height"], image["width"]), "pred_instances": pred}


def run_detectron2(evaluator: detectron2.CocoEvaluator, scene: Scene) -> dict[str, dict[str, float]]:
    evaluator.reset()
    for start in (0, 4):
        images = scene.images[start : start + 4]
        evaluator.process([{"image_id": i["id"]} for i in images], [{"instances": instances(scene, i)} for i in images])
    return evaluator.evaluate()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path, ids=IDS)


def test_detectron2_has_the_bits_of_pycocotools_again_and_again(scene: Scene) -> None:
    evaluator = detectron2.CocoEvaluator(annotations=scene.file, labels=LABELS)
    for scene.epoch in range(2):
        expected = [100 * x for x in coco_stats(scene, results(scene, exact=False))[:6]]
        numbers = run_detectron2(evaluator, scene)["bbox"]
        assert [numbers[name] for name in NAMES] == expected
    assert expected[0] > 5
    assert numbers["AP"] == pytest.approx(sum(numbers[f"AP-kind {key}"] for key in IDS) / 3)
    assert evaluator.result is not None and evaluator.result.counts["images"] == 6


def test_masks_of_both(scene: Scene) -> None:
    with_masks(scene)
    numbers = run_detectron2(
        detectron2.CocoEvaluator(annotations=scene.file, labels=LABELS, tasks=("bbox", "segm")), scene
    )
    expected = coco_stats(scene, mask_results(scene), "segm")
    assert expected[0] > 0.05
    assert [numbers["segm"][name] for name in NAMES] == [100 * x for x in expected[:6]]
    metric = mmdet.CocoMetric(scene.file, metric=["bbox", "segm"])
    metric.dataset_meta = {"classes": [f"kind {key}" for key in IDS]}
    metric.process(None, [sample(scene, image) for image in scene.images])
    found = metric.evaluate(6)
    assert [found[f"coco/segm_mAP{end}"] for end in ("", "_50", "_75", "_s", "_m", "_l")] == expected[:6]


def test_mmdetection_has_the_bits_of_pycocotools(scene: Scene) -> None:
    metric = mmdet.CocoMetric(scene.file, classwise=True)
    metric.dataset_meta = {"classes": [f"kind {key}" for key in IDS]}
    for scene.epoch in range(2):
        expected = coco_stats(scene, results(scene, exact=True))[:6]
        twice = (*scene.images, scene.images[0])  # as a sampler pads
        metric.process(None, [sample(scene, image) for image in twice])
        found = metric.evaluate(6)
        assert [found[f"coco/bbox_mAP{end}"] for end in ("", "_50", "_75", "_s", "_m", "_l")] == expected
    assert found["coco/bbox_mAP"] == pytest.approx(sum(found[f"coco/kind {key}_precision"] for key in IDS) / 3)


def test_categories_that_the_model_does_not_know_are_left_out(scene: Scene) -> None:
    metric = mmdet.CocoMetric(scene.file)
    metric.dataset_meta = {"classes": ["kind 7", "kind 3"]}
    known = [s for s in map(lambda i: sample(scene, i), scene.images)]
    for each in known:
        rows = each["pred_instances"]["labels"] < 2
        each["pred_instances"] = {name: value[rows] for name, value in each["pred_instances"].items()}
    metric.process(None, known)
    kept = [row for row in results(scene, exact=True) if row["category_id"] != 18]
    scene.annotations = [row for row in scene.annotations if row["category_id"] != 18]
    scene.categories = scene.categories[:2]
    scene.write()
    assert metric.evaluate(6)["coco/bbox_mAP"] == coco_stats(scene, kept)[0]


KEYPOINT_NAMES = ("AP", "AP50", "AP75", "APm", "APl")


def people(folder: Path) -> tuple[Scene, list[dict[str, Any]]]:
    """Keypoints and boxes of people, and what Detectron2 makes of them: results in COCO's pixels, as float32."""
    data, results = random_keypoints(7, joints=5)
    for row in data["annotations"]:
        row["num_keypoints"] = sum(v > 0 for v in row["keypoints"][2::3])
    scene = Scene(folder / "people.json", data["images"], data["annotations"], data["categories"])
    scene.write()
    sizes = np.random.default_rng(0).uniform(5, 200, (len(results), 2)).astype(np.float32).tolist()
    for row, size in zip(results, sizes):
        points = np.array(row["keypoints"], np.float32).reshape(-1, 3)
        row.update(keypoints=points.reshape(-1).tolist(), score=float(np.float32(row["score"])), bbox=[0.0, 0.0, *size])
    return scene, results


def posed(rows: list[dict[str, Any]]) -> SimpleNamespace:
    """``Instances`` of a model of keypoints, in continuous coordinates."""
    points = torch.tensor([row["keypoints"] for row in rows]).reshape(len(rows), -1, 3)
    points[..., :2] += 0.5
    return SimpleNamespace(
        pred_boxes=SimpleNamespace(tensor=torch.tensor([row["bbox"] for row in rows]).reshape(-1, 4)),
        scores=torch.tensor([row["score"] for row in rows]), pred_keypoints=points,
        pred_classes=torch.zeros(len(rows), dtype=torch.int64),
    )  # fmt: skip


@pytest.mark.parametrize("tasks", [("keypoints",), ("bbox", "keypoints")])
def test_keypoints_of_detectron2(tasks: tuple[str, ...], tmp_path: Path) -> None:
    scene, results = people(tmp_path)
    sigmas = [0.03, 0.05, 0.05, 0.08, 0.1]
    evaluator = detectron2.CocoEvaluator(annotations=scene.file, tasks=tasks, labels={1: 0}, kpt_oks_sigmas=sigmas)
    given = [posed([row for row in results if row["image_id"] == image["id"]]) for image in scene.images]
    before = given[0].pred_keypoints.clone()
    bad = posed(results[:1])
    bad.pred_keypoints[0, 0, 0] = float("nan")
    with pytest.raises(InputError, match=r"preds\[0\]\['keypoints'\]\[0\] must be finite"):
        evaluator.process([{"image_id": results[0]["image_id"]}], [{"instances": bad}])  # nothing of it stays
    evaluator.process([{"image_id": image["id"]} for image in scene.images], [{"instances": each} for each in given])
    assert torch.equal(given[0].pred_keypoints, before)
    numbers = evaluator.evaluate()
    expected = coco_stats(scene, copy.deepcopy(results), "keypoints", sigmas)
    assert expected[0] > 0.01 and numbers.keys() == set(tasks)
    assert numbers["keypoints"] == {name: 100 * stat for name, stat in zip(KEYPOINT_NAMES, expected)}
    assert evaluator.keypoint_result is not None and evaluator.result is not None
    assert evaluator.keypoint_result.counts["images"] == evaluator.result.counts["images"] == len(scene.images)
    if "bbox" in tasks:
        boxes = [{**row, "keypoints": None} for row in results]
        assert [numbers["bbox"][name] for name in NAMES[:3]] == [100 * x for x in coco_stats(scene, boxes)[:3]]


def test_images_without_predictions_are_told(scene: Scene) -> None:
    evaluator = detectron2.CocoEvaluator(annotations=scene.file, labels=LABELS)
    scene.images = scene.images[:5]
    with pytest.warns(UserWarning, match=r"1 of 6 images of .* have no predictions and do not count"):
        run_detectron2(evaluator, scene)


def test_bad_input_is_named(scene: Scene) -> None:
    with pytest.raises(InputError, match="dataset_name or annotations must be given, and not both"):
        detectron2.CocoEvaluator()
    with pytest.raises(InputError, match=r"must have the categories of the model but lacks \[5\]"):
        detectron2.CocoEvaluator(annotations=scene.file, labels={5: 0})
    with pytest.raises(InputError, match="tasks must be"):
        detectron2.CocoEvaluator(annotations=scene.file, tasks=("poses",))
    with pytest.raises(InputError, match=r"annotations\[0\].keypoints must be"):
        detectron2.CocoEvaluator(annotations=scene.file, tasks=("keypoints",))
    with pytest.raises(InputError, match="metric must be one of 'bbox', 'segm' but got 'keypoints'"):
        mmdet.CocoMetric(scene.file, metric=["bbox", "keypoints"])
    evaluator = detectron2.CocoEvaluator(annotations=scene.file, labels=LABELS)
    with pytest.raises(InputError, match=r"image_id must be that of an image of .* but is 999"):
        evaluator.process([{"image_id": 999}], [{"instances": instances(scene, scene.images[0])}])
    wrong = instances(scene, scene.images[0])
    wrong.pred_classes[2] = 3
    with pytest.raises(InputError, match="labels must be classes of the model but one is 3"):
        evaluator.process([{"image_id": 3}], [{"instances": wrong}])
    metric = mmdet.CocoMetric(scene.file)
    with pytest.raises(InputError, match="dataset_meta must have the classes of the model but has none"):
        metric.evaluate(6)
    metric.dataset_meta = {"classes": ("kind 7", "zebra")}
    with pytest.raises(InputError, match=r"must have every class of the model but lacks \['zebra'\]"):
        metric.evaluate(6)


def test_a_data_set_of_the_catalogue(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "mine": SimpleNamespace(json_file=str(scene.file), thing_dataset_id_to_contiguous_id=LABELS),
        "bare": SimpleNamespace(),
    }
    if importlib.util.find_spec("detectron2") is None:
        with pytest.raises(ImportError, match="CocoEvaluator needs detectron2: see detectron2"):
            detectron2.CocoEvaluator("mine")
    monkeypatch.setattr(detectron2, "trainer_type", lambda *names: known)
    assert run_detectron2(detectron2.CocoEvaluator("mine"), scene)["bbox"]["AP"] > 5
    with pytest.raises(InputError, match="'bare' has no json_file; give annotations="):
        detectron2.CocoEvaluator("bare")


@pytest.mark.skipif(importlib.util.find_spec("mmdet") is None, reason="mmdet is not installed")
@pytest.mark.filterwarnings("ignore")  # its own
def test_mmengine_runs_it_beside_the_metric_of_mmdetection(scene: Scene) -> None:
    from mmdet.evaluation import CocoMetric
    from mmengine.evaluator import Evaluator

    own = {"type": "valor_gpu.integrations.mmdet.CocoMetric", "ann_file": str(scene.file), "prefix": "own"}
    evaluator = Evaluator([CocoMetric(str(scene.file), classwise=False), own])
    evaluator.dataset_meta = {"classes": tuple(f"kind {key}" for key in IDS)}
    for start in (0, 4):
        evaluator.process([sample(scene, image) for image in scene.images[start : start + 4]])
    found = evaluator.evaluate(6)
    names = [f"bbox_mAP{end}" for end in ("", "_50", "_75", "_s", "_m", "_l")]
    assert found["coco/bbox_mAP"] > 0.05
    assert [round(found[f"own/{name}"], 3) for name in names] == [found[f"coco/{name}"] for name in names]
    assert "mmdet" in sys.modules


def test_ids_that_are_texts(scene: Scene) -> None:
    expected = coco_stats(scene, rows := results(scene, exact=False))[:6]
    found = [instances(scene, image) for image in scene.images]
    samples = [sample(scene, image) for image in scene.images]
    data = {"images": scene.images, "annotations": scene.annotations, "categories": scene.categories}
    data, rows = renamed((data, rows), 0)
    keys = {each["name"]: each["id"] for each in data["categories"]}
    scene.images, scene.annotations, scene.categories = data["images"], data["annotations"], data["categories"]
    scene.write()
    assert coco_stats(scene, rows)[:6] != [0.0] * 6  # pycocotools takes them, in another order of images
    labels = {keys[f"kind {key}"]: label for label, key in enumerate(IDS)}
    evaluator = detectron2.CocoEvaluator(annotations=scene.file, labels=labels)
    evaluator.process([{"image_id": i["id"]} for i in scene.images], [{"instances": each} for each in found])
    numbers = evaluator.evaluate()["bbox"]
    assert [numbers[name] for name in NAMES] == [100 * x for x in coco_stats(scene, rows)[:6]]
    assert {f"AP-kind {key}" for key in IDS} < set(numbers) and expected[0] > 0
    metric = mmdet.CocoMetric(scene.file, classwise=True)
    metric.dataset_meta = {"classes": [f"kind {key}" for key in IDS]}
    for each, image in zip(samples, scene.images):
        each["img_id"] = image["id"]
    metric.process(None, samples)
    assert metric.evaluate(6)["coco/bbox_mAP"] > 0
    with pytest.raises(InputError, match=r"image_id must be that of an image of .* but is 'nowhere'"):
        evaluator.process([{"image_id": "nowhere"}], [{"instances": found[0]}])
