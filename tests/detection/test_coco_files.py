"""COCO files from a metric and to it: pycocotools and torchmetrics read the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics.detection import MeanAveragePrecision as TorchmetricsMAP

from testing.oracles import pycocotools
from testing.scenes import random_scene
from testing.text_ids import renamed
from tests.coco.comparison import OURS, evaluator, random_objects, run
from tests.coco.test_doubtful_ids import objects_with
from tests.contract_boxes import boxes_batch, drawn_batch
from valor_gpu.detection import MeanAveragePrecision, coco_targets
from valor_gpu.errors import InputError

STATS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100", "mar_small",
         "mar_medium", "mar_large")  # fmt: skip


def batches(ids: bool) -> list[Any]:
    """Real scenes with crowds and areas of their own."""
    made = []
    for seed in (1, 2):
        scene = random_scene(np.random.default_rng(seed), images=5)
        preds = [dict(boxes=b, scores=s, labels=k) for b, s, k in zip(scene.boxes, scene.scores, scene.labels)]
        columns = zip(scene.gt_boxes, scene.gt_labels, scene.crowds, scene.areas)
        target: list[dict[str, Any]] = [dict(boxes=b, labels=k, iscrowd=c, area=a) for b, k, c, a in columns]
        for i, item in enumerate(target if ids else ()):
            item["image_id"] = 100 * seed + i
        made.append((preds, target))
    return made


def written(folder: Path, ids: bool, **choices: Any) -> tuple[Any, Path]:
    metric = MeanAveragePrecision("xywh", extended_summary=True, **choices)
    for batch in batches(ids):
        metric.update(*batch)
    metric.tm_to_coco(folder / "scene")
    return metric, folder / "scene"


def numbers(metric: Any) -> dict[str, float]:
    values = metric.result().values
    return {name: values[name] for name in STATS}


@pytest.mark.parametrize("ids", [True, False])
def test_pycocotools_reads_the_numbers_of_the_metric(
    tmp_path: Path, ids: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    metric, name = written(tmp_path, ids, tie_order="image" if ids else "arrival")
    truth = pycocotools("coco").COCO(f"{name}_target.json")
    evaluation = pycocotools("cocoeval").COCOeval(truth, truth.loadRes(f"{name}_preds.json"), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    capsys.readouterr()
    for stat, number in zip(evaluation.stats, numbers(metric).values()):
        assert number == stat or (stat == -1 and np.isnan(number))


@pytest.mark.parametrize("ids", [True, False])
def test_files_that_were_written_are_read_again(tmp_path: Path, ids: bool) -> None:
    metric, name = written(tmp_path, ids)
    preds, target = MeanAveragePrecision.coco_to_tm(f"{name}_preds.json", f"{name}_target.json")
    again = MeanAveragePrecision("xywh", extended_summary=True)
    again.update(preds, target)
    if ids:
        assert numbers(again) == pytest.approx(numbers(metric), abs=0, nan_ok=True)
    assert len(target) == 10 and again.result().counts["ground_truths"] == metric.result().counts["ground_truths"]
    again.tm_to_coco(tmp_path / "again")
    for side in ("preds", "target"):
        assert (tmp_path / f"again_{side}.json").read_text() == Path(f"{name}_{side}.json").read_text()


def test_files_of_torchmetrics_are_read_and_the_reverse(tmp_path: Path) -> None:
    theirs = TorchmetricsMAP(box_format="xywh")
    preds, target = boxes_batch(3)
    preds = [{**item, "boxes": item["boxes"].reshape(-1, 4).abs()} for item in preds]
    target = [{**item, "boxes": item["boxes"].reshape(-1, 4).abs()} for item in target]
    theirs.update(preds, target)
    theirs.tm_to_coco(str(tmp_path / "theirs"))
    paths = [str(tmp_path / f"theirs_{side}.json") for side in ("preds", "target")]
    found, expected = MeanAveragePrecision.coco_to_tm(*paths), theirs.coco_to_tm(*paths)
    by_id = [item for item in found[1] if len(item["labels"])]
    assert len(by_id) == len(expected[1])
    for ours, item in zip(by_id, expected[1]):
        for key in ("boxes", "labels", "iscrowd", "area"):
            torch.testing.assert_close(ours[key].double(), item[key].double(), check_dtype=False)
    metric, name = written(tmp_path, ids=True)
    read = theirs.coco_to_tm(f"{name}_preds.json", f"{name}_target.json")
    assert sum(len(item["labels"]) for item in read[1]) == metric.result().counts["ground_truths"]


def test_masks_keep_their_run_lengths_and_sizes(tmp_path: Path) -> None:
    batch = [[item for item in side] for side in drawn_batch(2)]
    full = [i for i, sides in enumerate(zip(*batch)) if all(len(item["labels"]) for item in sides)]
    preds, target = ([side[i] for i in full] for side in batch)  # torchmetrics writes no image without masks
    assert full
    theirs = TorchmetricsMAP(iou_type="segm")
    theirs.update([{k: v for k, v in item.items() if k != "boxes"} for item in preds],
                  [{k: v for k, v in item.items() if k != "boxes"} for item in target])  # fmt: skip
    theirs.tm_to_coco(str(tmp_path / "masks"))
    paths = [str(tmp_path / f"masks_{side}.json") for side in ("preds", "target")]
    ours = MeanAveragePrecision(iou_type="segm")
    ours.update(*MeanAveragePrecision.coco_to_tm(*paths, iou_type="segm"))
    whole = MeanAveragePrecision(iou_type="segm")
    whole.update(preds, target)
    assert ours.result().counts["ground_truths"] == whole.result().counts["ground_truths"]
    assert float(ours.compute()["map"]) == pytest.approx(float(whole.compute()["map"]), abs=1e-6)


@pytest.mark.parametrize("choices", [{}, {"iou_type": "segm", "extended_summary": True}])
def test_a_metric_without_boxes_says_what_it_needs(choices: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tm_to_coco needs iou_type='bbox' and extended_summary=True"):
        MeanAveragePrecision(**choices).tm_to_coco(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_wrong_files_and_arguments_raise(tmp_path: Path) -> None:
    _, name = written(tmp_path, ids=True)
    paths = f"{name}_preds.json", f"{name}_target.json"
    rows = json.loads(Path(paths[0]).read_text())
    rows[1]["image_id"] = 7
    Path(paths[0]).write_text(json.dumps(rows))
    with pytest.raises(InputError, match=r"\[1\]: image_id must be that of an image of .* but is 7"):
        MeanAveragePrecision.coco_to_tm(*paths)
    del rows[1]["score"]
    Path(paths[0]).write_text(json.dumps(rows))
    with pytest.raises(InputError, match="score"):
        MeanAveragePrecision.coco_to_tm(*paths)
    with pytest.raises(InputError, match="iou_type must be one of 'bbox', 'segm' but got 'keypoints'"):
        MeanAveragePrecision.coco_to_tm(*paths, iou_type="keypoints")
    with pytest.raises(InputError, match="backend must be one of"):
        MeanAveragePrecision.coco_to_tm(*paths, backend="other")


def test_polygons_have_the_size_of_their_image(tmp_path: Path) -> None:
    square = [[0, 0, 10, 0, 10, 10, 0, 10]]
    rows = [{"image_id": 4, "category_id": 1, "segmentation": square, "score": 0.5}]
    truth = {"images": [{"id": 4, "height": 20, "width": 30}, {"id": 5, "height": 2, "width": 3}],
             "categories": [{"id": 1}],
             "annotations": [{"id": 1, "image_id": 4, "category_id": 1, "segmentation": square, "area": 100,
                              "iscrowd": 0}]}  # fmt: skip
    for name, document in (("preds", rows), ("target", truth)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    batch = MeanAveragePrecision.coco_to_tm(tmp_path / "preds.json", tmp_path / "target.json", ("segm",))
    assert [item["size"] for item in batch[0]] == [[20, 30], [2, 3]]
    metric = MeanAveragePrecision(iou_type="segm")
    metric.update(*batch)
    assert float(metric.compute()["map"]) == 1
    assert metric.result().counts["images"] == 2


def test_an_empty_dataset_has_no_images(tmp_path: Path) -> None:
    MeanAveragePrecision(extended_summary=True).tm_to_coco(tmp_path / "none")
    assert MeanAveragePrecision.coco_to_tm(tmp_path / "none_preds.json", tmp_path / "none_target.json") == ([], [])


@pytest.mark.parametrize("kind", [{}, {"images": False}, {"categories": False}])
def test_ids_that_are_texts_have_the_numbers_of_pycocotools(tmp_path: Path, kind: dict[str, bool]) -> None:
    objects = renamed(random_objects(7), 7, **kind)
    paths = [str(tmp_path / name) for name in ("preds.json", "target.json")]
    for path, value in zip(paths, objects[::-1]):
        Path(path).write_text(json.dumps(value))
    metric = MeanAveragePrecision(box_format="xywh")
    metric.update(*MeanAveragePrecision.coco_to_tm(*paths))
    expected = run(evaluator(OURS, objects)).e
    found = metric.result().values
    assert [found[name] for name in ("map", "map_50", "map_75")] == expected.stats[:3].tolist()
    targets = coco_targets(paths[1])
    assert list(targets) == list(dict.fromkeys(each["id"] for each in objects[0]["images"]))
    first = objects[0]["categories"][0]["id"]
    chosen = coco_targets(paths[1], labels={first: 5})
    rows = [each for each in objects[0]["annotations"] if each["category_id"] == first]
    assert sum(item["labels"].tolist().count(5) for item in chosen.values()) == len(rows)
    assert {5} == {label for item in chosen.values() for label in item["labels"].tolist()}


def test_results_of_an_image_that_is_no_text_there(tmp_path: Path) -> None:
    objects = renamed(random_objects(7), 7)
    objects[1][0]["image_id"] = "nowhere"
    paths = [str(tmp_path / name) for name in ("preds.json", "target.json")]
    for path, value in zip(paths, objects[::-1]):
        Path(path).write_text(json.dumps(value))
    with pytest.raises(InputError, match=r"\[0\]: image_id must be that of an image of .* but is 'nowhere'"):
        MeanAveragePrecision.coco_to_tm(*paths)


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_ground_truths_without_some_fields(kind: str, tmp_path: Path) -> None:
    dataset, results = objects_with([1, 2, 3, 4], kind)
    for row in dataset["annotations"][1:]:
        del row["area"], row["iscrowd"]
    if kind == "keypoints":
        dataset["annotations"][1].update(keypoints=[], num_keypoints=0)
    paths = [tmp_path / name for name in ("gt.json", "dt.json")]
    for path, value in zip(paths, (dataset, results)):
        path.write_text(json.dumps(value, default=bytes.decode))
    area = "the area of the mask" if kind == "segm" else "width x height"
    match = f"gt.json: 3 ground truths have no iscrowd: 0 is taken; 3 ground truths have no area: {area} is taken"
    with pytest.warns(UserWarning, match=match) as caught:
        targets = coco_targets(paths[0], kind)
    assert caught[0].filename == __file__
    metric = MeanAveragePrecision("xywh", iou_type=kind)
    target = list(targets.values())
    names = {"bbox": "boxes", "segm": "masks", "keypoints": "keypoints"}
    preds = [{**t, "scores": torch.full((len(t["labels"]),), 0.9)} for t in target]
    for pred in preds if kind == "keypoints" else ():  # without the person that has none
        seen = pred["keypoints"][:, :, 2].sum(1) > 0
        pred.update({name: pred[name][seen] for name in ("keypoints", "scores", "labels")})
    kept = {names[kind], "scores", "labels", "size"}
    metric.update([{name: value for name, value in p.items() if name in kept} for p in preds], target)
    assert metric.result().values["map"] == pytest.approx(1, abs=1e-12)
    if kind == "keypoints":
        assert targets[2]["keypoints"][0].abs().sum() == 0 and targets[2]["area"].tolist() == [16 * 24] * 2
        return
    with pytest.warns(UserWarning, match=match) as caught:
        preds, target = MeanAveragePrecision.coco_to_tm(paths[1], paths[0], kind)
    assert caught[0].filename == __file__
    metric = MeanAveragePrecision("xywh", iou_type=kind)
    metric.update(preds, target)
    assert metric.result().values["map"] == pytest.approx(1, abs=1e-12)
