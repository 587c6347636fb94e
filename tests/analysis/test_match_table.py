"""The table of matches: rows of pycocotools, kinds of errors and partners by plain loops, COCO files that read back."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testing.keypoint_scenes import random_keypoints
from tests.analysis.outcome_oracle import iou_of, results_of, rows_of, run_kind
from tests.analysis.test_image_table import val2014
from tests.coco.comparison import OURS, Objects, boxes_of, dataset_of, quietly, random_objects
from tests.coco.test_keypoints import keypoint_runs
from tests.fuzz import seeds
from valor_gpu.analysis.match_table import MatchTable
from valor_gpu.analysis.rows import Listed
from valor_gpu.coco import COCO
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.result import Result

DATA = "examples/data"
SIDES = ("true positive", "false positive", "false negative", "ignored")


def kind_of(box: list[float], label: int, truths: list[Any], iou: float, background: float) -> tuple[str, int | None]:
    """Kind of a wrong detection, and the ground truth that decides it, by the rules of TIDE."""
    own, other = (0.0, None), (0.0, None)
    for truth in truths:
        overlap = iou_of(box, truth["bbox"])
        if overlap < background:
            continue
        if truth["category_id"] == label:
            own = max(own, (overlap, truth["place"]))  # of equal ones the later
        else:
            other = max(other, (overlap, truth["place"]))
    if background <= own[0] < iou:
        return "localization", own[1]
    if other[0] >= iou:
        return "classification", other[1]
    if own[0] >= iou:
        return "duplicate", own[1]
    if max(own[0], other[0]) <= background:
        return "background", None
    return "both", other[1]


def check_kinds(objects: Objects, result: Result, score: float | None) -> Counter[str]:
    """Asserts kinds, partners and IoUs of every row; returns how many there are of each kind."""
    truths: dict[int, list[Any]] = {}
    places = {}
    for annotation in objects[0]["annotations"]:
        places[annotation["id"]] = annotation
        of_image = truths.setdefault(annotation["image_id"], [])
        if not annotation["iscrowd"]:
            of_image.append({**annotation, "place": len(of_image)})
    names = {c["name"]: c["id"] for c in objects[0]["categories"]}
    found = dict(enumerate(objects[1], 1))
    rows = result.matches(score=score).rows()
    causes: dict[int, Any] = {}
    for row in sorted((r for r in rows if r["outcome"] == "false positive"), key=lambda r: -r["score"]):
        box = found[row["detection_id"]]["bbox"]
        of_image = truths.get(row["image_id"], [])
        kind, place = kind_of(box, names[row["class"]], of_image, 0.5, 0.1)
        target = None if place is None else of_image[place]
        assert (row["kind"], row["ground_truth_id"]) == (kind, target and target["id"])
        assert row["ground_truth_class"] == (target and f"class {(target['category_id'] - 1) // 3}")
        assert row["iou"] == pytest.approx(iou_of(box, target["bbox"]) if target else math.nan, rel=1e-12, nan_ok=True)
        if kind in ("classification", "localization"):
            assert target is not None
            causes.setdefault(target["id"], row)
    for row in rows:
        if row["outcome"] == "false negative":
            cause = causes.get(row["ground_truth_id"])
            assert row["kind"] == (cause["kind"] if cause else "missed")
            if cause:
                assert found[row["detection_id"]]["score"] == cause["score"]
            else:
                assert row["detection_id"] is None and math.isnan(row["iou"])
            assert math.isnan(row["score"]) and names[row["class"]] == places[row["ground_truth_id"]]["category_id"]
        elif row["outcome"] == "true positive":
            boxes = found[row["detection_id"]]["bbox"], places[row["ground_truth_id"]]["bbox"]
            assert row["iou"] == pytest.approx(iou_of(*boxes), rel=1e-12) and row["kind"] is None
        elif row["outcome"] == "ignored":
            assert row["ground_truth_id"] is None and row["kind"] is None and math.isnan(row["iou"])
    return Counter(f"{row['outcome']}/{row['kind']}" for row in rows)


@pytest.mark.parametrize("score", [None, 0.5])
def test_kinds_and_partners_are_those_of_plain_loops(score: float | None) -> None:
    totals: Counter[str] = Counter()
    for seed in seeds(10):
        objects = random_objects(seed)
        totals += check_kinds(objects, run_kind(OURS, objects, "bbox", {}).result(), score)
    for kind in ("classification", "localization", "both", "duplicate", "background"):
        assert totals[f"false positive/{kind}"] > 0, kind
    for kind in ("classification", "localization", "missed"):
        assert totals[f"false negative/{kind}"] > 0, kind


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize(("iou", "score"), [(0.5, None), (0.75, 0.4)])
def test_rows_are_those_of_pycocotools(seed: int, iou: float, score: float | None) -> None:
    check_rows(random_objects(seed), iou, score)
    check_rows(random_objects(seed + 500), iou, score, maxDets=[1, 2])


def test_rows_of_real_data() -> None:
    check_rows(val2014(), 0.5, None)


def check_rows(objects: Objects, iou: float, score: float | None, **params: Any) -> None:
    """Asserts which rows there are, their order, and that their counts are those of the images."""
    theirs, result = results_of(objects, **params)
    table = result.matches(iou, score)
    rows = table.rows()
    right = {"true positive", "false negative"}
    ours = [
        (
            row["image_id"],
            row["outcome"],
            None if row["outcome"] == "false negative" else row["detection_id"],
            row["ground_truth_id"] if row["outcome"] in right else None,
        )
        for row in rows
    ]
    assert Counter(ours) == Counter(map(tuple, rows_of(theirs, iou, score)))
    places = {image: place for place, image in enumerate(sorted(theirs.params.imgIds))}
    keys = [
        (places[r["image_id"]], math.isnan(r["score"]), -r["score"] if r["score"] == r["score"] else 0) for r in rows
    ]
    assert keys == sorted(keys)
    images = result.images(iou, score)
    counts = Counter((row["image_id"], row["outcome"]) for row in rows)
    columns = ("true_positives", "false_positives", "false_negatives", "ignored_detections")
    for outcome, column in zip(SIDES, columns):
        assert [counts[image, outcome] for image in images["image_id"]] == list(images[column])


def test_boxes_are_those_of_the_row() -> None:
    objects = val2014()
    table = run_kind(OURS, objects, "bbox", {}).result().matches()
    found = dict(enumerate(objects[1], 1))
    places = {a["id"]: a for a in objects[0]["annotations"]}
    for row in table.rows():
        missed = row["outcome"] == "false negative"
        own = places[row["ground_truth_id"]] if missed else found[row["detection_id"]]
        assert [row[name] for name in ("x", "y", "width", "height")] == own["bbox"]
        assert row["image_id"] == own["image_id"]
    assert table["detection_id"].dtype == np.int64 and isinstance(table["detection_id"], np.ma.MaskedArray)
    assert table.choices["background"] == 0.1 and table.choices["iou"] == 0.5


def written(table: MatchTable, folder: Path, **options: Any) -> tuple[dict[str, Any], COCO]:
    path = folder / "errors.json"
    table.to_coco(path, **options)
    return json.loads(path.read_text()), quietly(COCO, str(path))[0]


def test_coco_file_of_errors(tmp_path: Path) -> None:
    objects = val2014()
    table = run_kind(OURS, objects, "bbox", {}).result().matches()
    document, read = written(table, tmp_path)
    wrong = [row for row in table.rows() if row["outcome"] in ("false positive", "false negative")]
    categories = {c["id"]: c["name"] for c in objects[0]["categories"]}
    assert {c["id"]: c["name"] for c in document["categories"]} == categories
    assert sorted({row["image_id"] for row in wrong}) == [image["id"] for image in document["images"]]
    fields = {image["id"]: image for image in objects[0]["images"]}
    assert all(image == fields[image["id"]] for image in document["images"])
    assert [a["id"] for a in document["annotations"]] == list(range(1, len(wrong) + 1))
    for row, annotation in zip(wrong, document["annotations"]):
        assert annotation["image_id"] == row["image_id"] and categories[annotation["category_id"]] == row["class"]
        assert annotation["bbox"] == [row[name] for name in ("x", "y", "width", "height")]
        assert ("score" in annotation) == (row["outcome"] == "false positive")
        assert annotation.get("score", -1) == (row["score"] if row["score"] == row["score"] else -1)
        names = ("outcome", "kind", "iou", "detection_id", "ground_truth_id", "ground_truth_class")
        kept = {name: row[name] for name in names if row[name] is not None and row[name] == row[name]}
        assert annotation["attributes"] == kept
        assert annotation["iscrowd"] == 0 and annotation["area"] > 0
    assert sorted(read.getAnnIds()) == [a["id"] for a in document["annotations"]]
    assert read.loadAnns(1)[0] == document["annotations"][0]


def test_coco_file_of_some_rows(tmp_path: Path) -> None:
    table = run_kind(OURS, val2014(), "bbox", {}).result().matches()
    right, _ = written(table, tmp_path, outcomes=["true positive"])
    assert {a["attributes"]["outcome"] for a in right["annotations"]} == {"true positive"}
    assert len(right["annotations"]) == Counter(table["outcome"].tolist())["true positive"]
    best = table.sort_by("score", descending=True)
    chosen, _ = written(best.head(40), tmp_path, outcomes=SIDES)
    assert [a["score"] for a in chosen["annotations"]] == best["score"][:40].tolist()
    assert [a["bbox"][0] for a in chosen["annotations"]] == best["x"][:40].tolist()
    none, read = written(table, tmp_path, outcomes=[])
    assert none["images"] == none["annotations"] == [] and read.getAnnIds() == []


def masks() -> Objects:
    def document(name: str) -> Any:
        with gzip.open(f"{DATA}/{name}", "rt") as file:
            return json.load(file)

    return document("instances_val2014_100_masks.json.gz"), document("instances_val2014_fakesegm100_results.json.gz")


def test_masks_keep_their_shapes(tmp_path: Path) -> None:
    objects = masks()
    theirs, result = results_of(objects, "segm")
    table = result.matches()
    expected = Counter(row.outcome for row in rows_of(theirs, 0.5))
    assert Counter(table["outcome"].tolist()) == expected
    document, read = written(table, tmp_path, outcomes=SIDES)
    shapes = {a["id"]: a["segmentation"] for a in objects[0]["annotations"]}
    found = dict(enumerate((each["segmentation"] for each in objects[1]), 1))
    for row, annotation in zip(table.rows(), document["annotations"]):
        missed = row["outcome"] == "false negative"
        assert annotation["segmentation"] == (shapes[row["ground_truth_id"]] if missed else found[row["detection_id"]])
    assert read.annToMask(read.loadAnns(1)[0]).any()


def test_text_ids_and_a_name_for_two_classes(tmp_path: Path) -> None:
    truth = dataset_of(boxes_of((0, 0, 10, 10)), categories=2)
    truth["images"][0] = {"id": "a/7.jpg", "width": 5, "height": 5}
    truth["annotations"][0]["image_id"] = "a/7.jpg"
    for category in truth["categories"]:
        category["name"] = "dog"
    found = [{"image_id": "a/7.jpg", "category_id": 2, "bbox": [0, 0, 10, 10], "score": 0.5}]
    table = run_kind(OURS, (truth, found), "bbox", {}).result().matches()
    assert [(row["outcome"], row["class"], row["ground_truth_class"]) for row in table.rows()] == [
        ("false positive", "dog (2)", "dog (1)"),
        ("false negative", "dog (1)", "dog (1)"),
    ]
    document, _ = written(table, tmp_path)
    assert document["images"] == [{"id": "a/7.jpg", "width": 5, "height": 5}]
    assert [a["category_id"] for a in document["annotations"]] == [2, 1]


def test_ids_of_rows_may_be_texts() -> None:
    rows = boxes_metric(errors=True)._asked("matches", None).rows
    named = replace(rows, detection_ids=[f"d{n}" for n in range(6)], ground_truth_ids=["g0", "g1", "g2", "g3"])
    places = np.array([0, 5, -1])
    listed = Listed(
        named, places, np.array([3, -1, 1]), np.array([0, 3, 2], np.int8), places.astype(np.int8), places / 1.0
    )
    table = MatchTable(listed, "a metric", {})
    assert table["detection_id"].tolist() == ["d0", "d5", None]
    assert table["ground_truth_id"].tolist() == ["g3", None, "g1"]


def test_pooled_classes(tmp_path: Path) -> None:
    result = run_kind(OURS, val2014(), "bbox", {"useCats": 0}).result()
    table = result.matches()
    assert set(table["class"].tolist()) == {"all"}
    document, _ = written(table, tmp_path)
    assert document["categories"] == [{"id": 1, "name": "all"}]


def test_nothing_at_all(tmp_path: Path) -> None:
    truth = dataset_of([], images=2)
    found = [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 10], "score": 0.5}]
    only_found = run_kind(OURS, (truth, found), "bbox", {}).result()
    assert [row["kind"] for row in only_found.matches().rows()] == ["background"]
    table = only_found.matches(score=0.6)
    assert len(table) == 0 and str(table).splitlines()[1] == "0 rows"
    table.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == ",".join(table) + "\n"
    missed = run_kind(OURS, (dataset_of(boxes_of((0, 0, 10, 10)), images=2), []), "bbox", {}).result()
    assert [(row["outcome"], row["kind"]) for row in missed.matches().rows()] == [("false negative", "missed")]


def test_keypoints_have_no_kinds() -> None:
    objects = random_keypoints(3, classes=2)
    theirs, ours = keypoint_runs(objects)
    result = ours.e.result()
    table = result.matches()
    assert Counter(table["outcome"].tolist()) == Counter(row.outcome for row in rows_of(theirs.e, 0.5))
    assert set(table["kind"].tolist()) == {None, "missed"}
    assert {row["kind"] for row in table.rows() if row["outcome"] == "false negative"} == {"missed"}
    counts = Counter(row.outcome for row in rows_of(theirs.e, 0.5))
    assert int(result.images()["true_positives"].sum()) == counts["true positive"] > 0


def boxes_metric(**options: Any) -> Result:
    metric = MeanAveragePrecision(**options)
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30], [21, 20, 31, 30]])
    found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8, 0.7]), "labels": torch.tensor([0, 1, 2])}
    metric.update([found, found], [{"boxes": boxes[:2], "labels": torch.tensor([0, 2])}] * 2)
    return metric.result()


def test_mean_average_precision_with_errors(tmp_path: Path) -> None:
    result = boxes_metric(errors=True)
    table = result.matches()
    assert [(row["image_id"], row["outcome"], row["kind"], row["class"]) for row in table.rows()] == [
        (image, *row)
        for image in (0, 1)
        for row in (
            ("true positive", None, "0"),
            ("false positive", "classification", "1"),
            ("true positive", None, "2"),
        )
    ]
    assert table["detection_id"].tolist() == [0, 1, 2] * 2 and table["ground_truth_id"].tolist() == [0, 1, 1] * 2
    assert table["iou"].tolist()[:3] == [1.0, 1.0, pytest.approx(90 / 110, rel=1e-7)]
    assert result.images()["mean_iou"][0] == pytest.approx((1 + 90 / 110) / 2, rel=1e-7)
    with pytest.raises(InputError, match=r"to_coco needs .*, which MeanAveragePrecision does not keep"):
        table.to_coco(tmp_path / "t.json")


def test_mean_average_precision_without_errors() -> None:
    result = boxes_metric()
    table, whole = result.images(), boxes_metric(errors=True).images()
    assert "mean_iou" not in list(table)
    assert all(np.array_equal(table[name], whole[name], equal_nan=True) for name in table)
    with pytest.raises(InputError, match=r"matches\(\) needs .* make the metric with errors=True"):
        result.matches()


def test_errors(tmp_path: Path) -> None:
    result = run_kind(OURS, val2014(), "bbox", {}).result()
    with pytest.raises(InputError, match=r"background must be above 0 and below iou"):
        result.matches(background=0.5)
    table = result.matches()
    with pytest.raises(InputError, match=r"outcomes must be"):
        table.to_coco(tmp_path / "t.json", outcomes=["wrong"])
    with pytest.raises(TypeError, match=r"outcomes must be a list or tuple of texts but got 'ignored'"):
        table.to_coco(tmp_path / "t.json", outcomes="ignored")
    assert not list(tmp_path.iterdir())
