"""COCO files from a metric and to it: pycocotools and torchmetrics read the same numbers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.detection import MeanAveragePrecision as TorchmetricsMAP

from testing.oracles import pycocotools
from testing.scenes import random_scene
from testing.text_ids import renamed
from tests.coco.comparison import OURS, evaluator, random_objects, run
from tests.coco.test_doubtful_ids import objects_with
from tests.contract_boxes import boxes_batch, drawn_batch
from valor_gpu.detection import MeanAveragePrecision, coco_targets, kept_inputs
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.device_boxes import device_boxes

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


def masked_batches() -> list[Any]:
    """Boxes with masks, of which some ground truths are crowds or have areas of their own."""
    generator = torch.Generator().manual_seed(1)

    def image(detections: bool, count: int) -> dict[str, Any]:
        masks, boxes = torch.zeros(count, 60, 80, dtype=torch.bool), torch.rand(count, 4, generator=generator)
        for i in range(count):
            x, y, w, h = (
                *torch.randint(40, (2,), generator=generator),
                *torch.randint(3, 20, (2,), generator=generator),
            )
            masks[i, y : y + h, x : x + w] = True
            boxes[i] += torch.tensor([x, y, x + w, y + h])
        made = {"boxes": boxes, "masks": masks, "labels": torch.randint(3, (count,), generator=generator)}
        if detections:
            return {**made, "scores": torch.rand(count, generator=generator)}
        areas = 500 * torch.rand(count, generator=generator) * torch.randint(2, (count,), generator=generator)
        return {**made, "iscrowd": torch.randint(2, (count,), generator=generator), "area": areas}

    first = [image(True, 4), image(True, 3)], [image(False, 2), image(False, 3)]
    return [first, ([image(True, 2)], [image(False, 1)])]


def read(folder: Path, name: str) -> tuple[Any, Any]:
    preds, target = (json.loads((folder / f"{name}_{side}.json").read_text()) for side in ("preds", "target"))
    return preds, target


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("iou_type", ["bbox", "segm", ("bbox", "segm")])
def test_files_are_those_of_torchmetrics(
    iou_type: Any, box_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their categories are number 0 alone, whatever the labels are; pycocotools then evaluates no other."""
    metrics = {"theirs": TorchmetricsMAP(box_format, iou_type), "ours": MeanAveragePrecision(box_format, iou_type)}
    for name, metric in metrics.items():
        for batch in masked_batches():
            metric.update(*batch)
        metric.tm_to_coco(str(tmp_path / name))
    (preds, target), (their_preds, their_target) = read(tmp_path, "ours"), read(tmp_path, "theirs")
    assert preds == their_preds and [*map(list, preds)] == [*map(list, their_preds)]
    assert list(target) == list(their_target)
    assert (target["images"], target["annotations"]) == (their_target["images"], their_target["annotations"])
    assert [category["id"] for category in target["categories"]] == [0, 1, 2]
    values = metrics["ours"].compute()
    for kind in (iou_type,) if isinstance(iou_type, str) else iou_type:
        truth = pycocotools("coco").COCO(f"{tmp_path}/ours_target.json")
        evaluation = pycocotools("cocoeval").COCOeval(truth, truth.loadRes(f"{tmp_path}/ours_preds.json"), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        prefix = "" if isinstance(iou_type, str) else f"{kind}_"
        assert float(values[f"{prefix}map"]) == pytest.approx(evaluation.stats[0], abs=1e-7)
    again = MeanAveragePrecision("xywh", iou_type)
    again.update(
        *MeanAveragePrecision.coco_to_tm(tmp_path / "ours_preds.json", tmp_path / "ours_target.json", iou_type)
    )
    assert {name: value.tolist() for name, value in again.compute().items()} == {
        name: value.tolist() for name, value in values.items()
    }
    capsys.readouterr()


def test_inputs_are_kept_as_they_were_given(tmp_path: Path) -> None:
    """The boxes of a single image and padded ones are read in place: who changes them later changes nothing here."""
    box = torch.tensor([[1.0, 2.0, 4.0, 6.0], [0.0, 0.0, 9.0, 9.0]])
    single = (
        [{"boxes": box, "scores": torch.tensor([0.5, 0.25]), "labels": torch.tensor([1, 2])}],
        [{"boxes": box.clone(), "labels": torch.tensor([1, 2]), "iscrowd": torch.tensor([0, 1])}],
    )
    padded = [{key: torch.stack([value, value]) for key, value in side[0].items()} for side in single]
    counts = torch.tensor([2, 1])
    metric = MeanAveragePrecision()
    metric.update(*single)
    metric.update({**padded[0], "counts": counts}, {**padded[1], "counts": counts})
    for item in (*single[0], *single[1], *padded):
        for value in item.values():
            value.zero_()
    metric.tm_to_coco(tmp_path / "x")
    preds, target = read(tmp_path, "x")
    small, large = [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 9.0, 9.0]
    assert [(row["image_id"], row["bbox"]) for row in preds] == [
        (0, small), (0, large), (1, small), (1, large), (2, small)
    ]  # fmt: skip
    assert [row["bbox"] for row in target["annotations"]] == [small, large, small, large, small]
    assert [row["iscrowd"] for row in target["annotations"]] == [0, 1, 0, 1, 0]


def packed(preds: Any, target: Any) -> kept_inputs.PackedInputs:
    """What the kernel on CUDA keeps of lists, copied by a plain loop."""
    words = device_boxes(preds, target, -1)
    assert words is not None
    memory = torch.zeros(words.keep_bytes, dtype=torch.uint8)
    begins = {"boxes": words.keep_gt_boxes, "iscrowd": words.keep_flags, "area": words.keep_areas}
    for begin, side, key in ((words.keep_boxes, preds, "boxes"), *((n, target, key) for key, n in begins.items())):
        numbers = torch.cat([item[key] for item in side]).flatten().view(torch.uint8)
        memory[begin : begin + len(numbers)] = numbers
    return kept_inputs.PackedInputs(memory, words[1:], 1)


def test_what_is_kept_on_cuda_goes_where_the_records_go(tmp_path: Path) -> None:
    """It is one piece of memory, of which views are made when they are read."""
    preds, target = batches(True)[0]
    plain = MeanAveragePrecision("xywh")
    plain.update(preds, target)
    plain.tm_to_coco(tmp_path / "plain")
    metric, merged, loaded = (
        plain.clone(),
        MeanAveragePrecision("xywh"),
        MeanAveragePrecision("xywh", compute_on_cpu=True),
    )
    kept = metric.images[0]._valor_gpu_inputs = packed(preds, target)  # type: ignore[union-attr]
    assert metric._bytes_beside() == kept.nbytes == kept.fields[-1]
    again = pickle.loads(pickle.dumps(metric))
    merged.merge_state(again)
    loaded.images = [metric.images[0]]
    loaded._move_list_states_to_cpu()
    for other in (metric, again, merged, loaded, metric.clone(), metric.clone().to("cpu").double()):
        assert isinstance(other._kept()[0], kept_inputs.PackedInputs)
        for part, expected in zip(other._kept_inputs()[0], plain._kept_inputs()[0]):
            assert torch.equal(part, expected) if isinstance(part, torch.Tensor) else part == expected
        if other is not loaded:
            other.tm_to_coco(tmp_path / "other")
            assert read(tmp_path, "other") == read(tmp_path, "plain")
    assert kept.moved(torch.device("cpu")).memory is kept.memory


def test_inputs_go_where_the_records_go(tmp_path: Path) -> None:
    """Copies, pickles, merged metrics, forward, members of a collection with one state; a reset forgets them."""
    first, second = masked_batches()
    whole = MeanAveragePrecision()
    whole.update(*first)
    whole.update(*second)
    whole.tm_to_coco(tmp_path / "whole")
    merged, other, stepped = MeanAveragePrecision(), MeanAveragePrecision(), MeanAveragePrecision(compute_on_cpu=True)
    merged.update(*first)
    other.update(*second)
    merged.merge_state(pickle.loads(pickle.dumps(other)))
    for batch in (first, second):
        stepped(*batch)
    together = MetricCollection({"a": MeanAveragePrecision(), "b": MeanAveragePrecision()})
    for batch in (first, second):
        together.update(*batch)
    reset = whole.clone()
    reset.reset()
    reset.update(*first)
    reset.to("cpu").merge_state(other)
    for metric in (merged, stepped, together["b"], whole.clone(), reset):
        metric.tm_to_coco(tmp_path / "again")
        assert read(tmp_path, "again") == read(tmp_path, "whole")


def test_what_is_not_kept_is_said(tmp_path: Path) -> None:
    first, second = masked_batches()
    metric = MeanAveragePrecision()
    metric.update(*first)
    loaded = MeanAveragePrecision().from_bytes(metric.to_bytes())
    loaded.update(*second)
    lost = r"tm_to_coco needs boxes of all 3 images but those of 2 are not kept: they came from a state file.*"
    with pytest.raises(InputError, match=lost + "with extended_summary=True states hold boxes"):
        loaded.tm_to_coco(tmp_path / "x")
    shared = MetricCollection({"a": MeanAveragePrecision(keep_inputs=False), "b": MeanAveragePrecision()})
    for _ in range(2):
        shared.update(*first)
    with pytest.raises(InputError, match="or from a member of a MetricCollection with keep_inputs=False that shares"):
        shared["b"].tm_to_coco(tmp_path / "x")
    without = MeanAveragePrecision(iou_type="segm", keep_inputs=False)
    without.update(*first)
    needs = (
        "tm_to_coco needs boxes and masks of all 2 images but those of 2 are not kept: the metric has keep_inputs=False"
    )
    with pytest.raises(InputError, match=needs):
        without.tm_to_coco(tmp_path / "x")
    with pytest.raises(
        InputError, match=r"tm_to_coco needs iou_type of 'bbox', 'segm', 'boundary', .* has \('keypoints',\)"
    ):
        MeanAveragePrecision(iou_type="keypoints").tm_to_coco(tmp_path / "x")
    with pytest.raises(InputTypeError, match="keep_inputs must be bool or NoneType but got str"):
        MeanAveragePrecision(keep_inputs="no")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_what_is_kept_changes_no_record(iou_type: str) -> None:
    kept, plain = MeanAveragePrecision(iou_type=iou_type), MeanAveragePrecision(iou_type=iou_type, keep_inputs=False)
    for metric in (kept, plain):
        for batch in masked_batches():
            metric.update(*batch)
    assert kept.to_bytes() == plain.to_bytes()
    assert all(part is not None for part in kept._kept_inputs()) and plain._kept_inputs() == [None, None]


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
    match = f"gt.json: 3 ground truths have no iscrowd: 0 is used; 3 ground truths have no area: {area} is used"
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
