"""Rows, pairs and matching behind the result of a COCOeval: against pycocotools, plain loops and fresh evaluations."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from testing.keypoint_scenes import random_keypoints
from tests.coco.comparison import OURS, THEIRS, evaluator, load, quietly, random_objects, run, same
from tests.coco.test_keypoints import keypoint_evaluator
from tests.coco.test_rotated import objects_of
from tests.detection.test_rotated_mean_ap import random_scene
from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples/data"


def real(side, kind="bbox"):
    """An evaluator of 100 images of val2014 that has not run."""
    boxes = kind == "bbox"
    dataset, results = (read(f"instances_val2014_{name}") for name in (
        ("100.json", "fakebbox100_results.json") if boxes else ("100_masks.json.gz", "fakesegm100_results.json.gz")
    ))  # fmt: skip
    truth = load(side, dataset)
    return side.COCOeval(truth, quietly(truth.loadRes, results)[0], kind)


def read(name):
    text = (EXAMPLES / name).read_bytes()
    return json.loads(gzip.decompress(text) if name.endswith("gz") else text)


def analysis_of(e, **params):
    """The analysis of an evaluator that runs, or has run."""
    if not e.eval:
        run(e, summarize=False, **params)
    return e.result()._asked("errors", None)


def outcomes_of(cells, place, area):
    """(image, category, detection) -> (ground truth or None, ignored) of pycocotools at one of its thresholds."""
    found = {}
    for cell in cells:
        if cell is not None and list(cell["aRng"]) == list(area):
            parts = cell["dtIds"], cell["dtMatches"][place], cell["dtIgnore"][place]
            for number, match, ignored in zip(*parts):
                found[cell["image_id"], cell["category_id"], number] = (int(match) or None, bool(ignored))
    return found


def outcomes_of_ours(e, analysis, iou):
    """The same of an analysis: partners are those of hits alone, so others have True for "some" or "ignored"."""
    rows, matching = analysis.rows, analysis.matching(iou)
    names = [e.cocoGt.cats[k]["id"] for k in e.params.catIds] if e.params.useCats else [-1]
    found = {}
    for row in np.flatnonzero(rows.kept).tolist():
        key = rows.image_ids[rows.images[row]], names[rows.labels[row]], int(rows.detection_ids[row])
        partner = int(matching.partners[row])
        truth = int(rows.ground_truth_ids[partner]) if partner >= 0 else None
        assert key not in found
        found[key] = truth, not (matching.hits[row] or matching.false_positives[row])
    return found


def same_outcomes(theirs, ours, iou):
    """Hits have the same ground truth, false positives and ignored ones are the same."""
    place = int(np.flatnonzero(np.isclose(theirs.params.iouThrs, iou))[0])
    expected = {
        key: (None if ignored else match, ignored)
        for key, (match, ignored) in outcomes_of(theirs.evalImgs, place, theirs.params.areaRng[0]).items()
    }
    assert outcomes_of_ours(ours, analysis_of(ours), iou) == expected
    return expected


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_real_outcomes_are_those_of_pycocotools(kind):
    theirs, ours = (run(real(side, kind)).e for side in (THEIRS, OURS))
    for iou in (0.5, 0.75):
        expected = same_outcomes(theirs, ours, iou)
        assert len(expected) > 700
    matching = analysis_of(ours).matching(0.5)
    counting = sum(int((cell["gtIgnore"] == 0).sum()) for cell in theirs.evalImgs[: 80 * 400] if cell and
                   list(cell["aRng"]) == list(theirs.params.areaRng[0]))  # fmt: skip
    assert int(matching.positives.sum()) == counting
    partners = matching.partners[matching.hits]
    assert sorted(partners.tolist()) == np.flatnonzero(matching.found).tolist()


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("first_id", [1, 0])
def test_random_outcomes_are_those_of_pycocotools(seed, first_id):
    """Crowds, ties of scores, low limits, a first area range that leaves much out; and annotation id 0."""
    objects = random_objects(seed, first_id=first_id)
    params = {"maxDets": [1, 3, 5], "areaRng": [[50, 2000], [0, 50]], "areaRngLbl": ["all", "small"]}
    theirs, ours = (run(evaluator(side, objects), summarize=False, **params).e for side in (THEIRS, OURS))
    for iou in (0.5, 0.75):
        same_outcomes(theirs, ours, iou)


def test_pooled_categories_repeated_ids_and_scores_that_are_no_numbers():
    objects = random_objects(3)
    for annotation in objects[0]["annotations"][::7]:
        annotation["id"] = objects[0]["annotations"][0]["id"]
    for result in objects[1][::5]:
        result["score"] = float("nan")
    for use in (1, 0):
        theirs, ours = (run(evaluator(side, objects), summarize=False, useCats=use).e for side in (THEIRS, OURS))
        same_outcomes(theirs, ours, 0.5)
    assert analysis_of(ours).rows.classes == ["all"]


def test_ids_of_detections_that_are_0_leave_their_ground_truth_free():
    truth = [{"id": 4, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0}]
    dataset = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "cat"}], "annotations": truth}
    found = [{**truth[0], "id": number, "score": 0.5} for number in (0, 3, 5)]
    both = []
    for side in (THEIRS, OURS):
        e = side.COCOeval(load(side, dataset), load(side, {**dataset, "annotations": found}), "bbox")
        both.append(run(e, summarize=False).e)
    same_outcomes(*both, 0.5)
    assert analysis_of(both[1]).matching(0.5).hits.tolist() == [True, True, False]


def iou_of(box, other, crowd):
    """Intersection over union of xywh boxes, over the first area against a crowd."""
    sides = [min(box[k] + box[k + 2], other[k] + other[k + 2]) - max(box[k], other[k]) for k in (0, 1)]
    if min(sides) <= 0:
        return 0.0
    inside, area = sides[0] * sides[1], box[2] * box[3]
    return inside / (area if crowd else area + other[2] * other[3] - inside)


@pytest.mark.parametrize("seed", seeds(5))
def test_pairs_of_boxes_are_those_of_a_loop(seed):
    truth, results = random_objects(seed)
    e = evaluator(OURS, (truth, results))
    analysis = analysis_of(e)
    for lowest in (0.1, 0.0, 0.3):  # 0 finds them again, and then there are more than are asked for
        pairs, rows = analysis.pairs_from(lowest), analysis.rows
        assert pairs.lowest <= lowest
        got = [[] for _ in rows.labels]
        for row, gt, iou in zip(pairs.detections.tolist(), pairs.ground_truths.tolist(), pairs.ious.tolist()):
            if iou >= lowest and iou > 0:
                got[row].append((int(rows.ground_truth_ids[gt]), iou))
        for row, number in enumerate(rows.detection_ids.tolist()):
            result = results[number - 1]
            assert result["image_id"] == rows.image_ids[rows.images[row]]
            ious = {
                each["id"]: iou_of(result["bbox"], each["bbox"], each["iscrowd"])
                for each in truth["annotations"]
                if each["image_id"] == result["image_id"]
            }
            wanted = {key: iou for key, iou in ious.items() if iou >= lowest and iou > 0}
            assert dict(got[row]) == pytest.approx(wanted, abs=1e-12)
            descending = [iou for _, iou in got[row]]
            assert descending == sorted(descending, reverse=True)


def pooled(e):
    """IoU from 0.1 on of each image, of any classes, by the steps of single cells of a run that pools classes."""
    again = type(e)(e.cocoGt, e.cocoDt, e.params.iouType, convention=e.convention)
    again.params = copy.deepcopy(e.params)
    again.params.useCats, again.params.maxDets = 0, [10_000]
    quietly(again._prepare)
    found = {}
    for image in again.params.imgIds:
        ious = np.asarray(again.computeIoU(image, -1)).reshape(-1)
        if (ious >= 0.1).any():
            found[image] = sorted(ious[ious >= 0.1].tolist())
    return found


def pairs_by_image(analysis):
    """Sorted IoU of at least 0.1 of each image."""
    rows, pairs = analysis.rows, analysis.pairs
    found = {}
    for row, iou in zip(pairs.detections.tolist(), pairs.ious.tolist()):
        found.setdefault(rows.image_ids[rows.images[row]], []).append(iou)
    return {image: sorted(ious) for image, ious in found.items()}


def scene_of(kind):
    if kind == "rotated":
        from tests.coco.test_rotated import evaluator as rotated

        return rotated(objects_of(random_scene(2)))
    e = real(OURS, "segm")
    e.params.iouType = kind
    return e


@pytest.mark.parametrize("kind", ["segm", "boundary", "rotated"])
def test_pairs_of_every_geometry_are_those_of_pooled_cells(kind):
    e = scene_of(kind)
    got = pairs_by_image(analysis_of(e))
    assert got == pooled(e)
    assert sum(map(len, got.values())) > 50
    rows, pairs = analysis_of(e).rows, analysis_of(e).pairs
    assert (rows.labels[pairs.detections] != rows.gt_labels[pairs.ground_truths]).any()


def assert_outcomes_of_cells(e, analysis):
    """Compares outcomes at two thresholds with the cells of the evaluation."""
    for iou in (0.5, 0.75):
        place = int(np.flatnonzero(np.isclose(e.params.iouThrs, iou))[0])
        cells = outcomes_of(e.evalImgs, place, e.params.areaRng[0])
        expected = {key: (None if ignored else match, ignored) for key, (match, ignored) in cells.items()}
        assert outcomes_of_ours(e, analysis, iou) == expected


@pytest.mark.parametrize("kind", ["boundary", "rotated"])
def test_outcomes_of_other_geometries_are_those_of_their_cells(kind):
    e = scene_of(kind)
    assert_outcomes_of_cells(e, analysis_of(e))


@pytest.mark.parametrize("kind", ["keypoints", "keypoints_crowd"])
def test_keypoints_are_matched_but_have_no_kinds_of_errors(kind):
    e = keypoint_evaluator(OURS, random_keypoints(4, *((14, True) if kind != "keypoints" else ())), kind)
    analysis = analysis_of(e)
    assert_outcomes_of_cells(e, analysis)
    with pytest.raises(InputError, match=r"errors\(\) is not defined for keypoints: TIDE"):
        analysis.errors()


def same_rows(ours, fresh):
    """Assert that two analyses have the same rows and matching."""
    for name in ("scores", "labels", "kept", "unmatched_ignored", "gt_labels", "gt_flags", "detection_ids"):
        assert np.array_equal(getattr(ours.rows, name), getattr(fresh.rows, name)), name
    assert list(ours.rows.image_ids) == list(fresh.rows.image_ids) == list(ours.image_ids)
    assert list(ours.rows.classes) == list(fresh.rows.classes)
    assert np.array_equal(ours.rows.lengths, fresh.rows.lengths)
    for iou in (0.5, 0.75):
        for name in ("hits", "false_positives", "partners", "found"):
            assert np.array_equal(getattr(ours.matching(iou), name), getattr(fresh.matching(iou), name)), name
    for name in ("counts", "ground_truths", "ious"):
        assert np.array_equal(getattr(ours.pairs, name), getattr(fresh.pairs, name)), name


@pytest.mark.parametrize("seed", seeds(3))
def test_what_accumulate_took_is_what_is_answered(seed):
    """Fewer images, categories and limits, and another first area range, in the convention that takes them by value."""
    objects = random_objects(seed, classes=5)
    e = run(evaluator(OURS, objects, convention="corrected"), summarize=False).e
    p = copy.deepcopy(e.params)
    p.imgIds, p.catIds, p.maxDets = p.imgIds[1::2], p.catIds[1:4], [1, 10]
    p.areaRng, p.areaRngLbl = [p.areaRng[1], p.areaRng[0]], ["small", "all"]
    quietly(e.accumulate, p)
    fresh = evaluator(OURS, objects, convention="corrected")
    names = ("imgIds", "catIds", "maxDets", "areaRng", "areaRngLbl")
    ranges = [*p.areaRng, *e.params.areaRng[2:]]  # which end where others begin
    fresh = run(fresh, False, **{name: getattr(p, name) for name in names} | {"areaRng": ranges}).e
    same_rows(analysis_of(e), analysis_of(fresh))


def test_changes_after_the_result_do_not_reach_it():
    objects = random_objects(2)
    e = run(evaluator(OURS, objects), summarize=False).e
    result = e.result()
    e.params.imgIds, e.params.catIds, e.params.maxDets = [], [], [1]
    e.params.areaRng[0] = [0, 1]
    quietly(e.evaluate)
    e.eval, e.cocoGt, e.convention = {}, None, "corrected"
    fresh = analysis_of(evaluator(OURS, objects))
    same_rows(result._asked("errors", None), fresh)
    assert result._asked("errors", None).recall_thresholds.tolist() == fresh.recall_thresholds.tolist()


def test_results_without_values_answer_too():
    e = run(evaluator(OURS, random_objects(2)), summarize=False).e
    assert e.result(with_values=False)._asked("errors", None).matching().hits.any()


def test_cells_that_somebody_edited_have_no_analysis():
    e = run(evaluator(OURS, random_objects(1)), summarize=False).e
    assert e.evalImgs
    quietly(e.accumulate)
    with pytest.raises(InputError, match=r"accumulate\(\) followed evalImgs, which somebody looked at before"):
        e.result().errors()


def test_categories_that_accumulate_repeats():
    e = run(evaluator(OURS, random_objects(1), convention="corrected"), summarize=False).e
    p = copy.deepcopy(e.params)
    p.catIds = [p.catIds[0], p.catIds[0]]
    quietly(e.accumulate, p)
    with pytest.raises(InputError, match=r"each category once but params of accumulate\(\) repeat one"):
        e.result()._asked("errors", None).matching()


@pytest.mark.parametrize("missing", ["ground truths", "detections", "both"])
def test_empty_data(missing):
    dataset, results = random_objects(1)
    none = {**dataset, "annotations": []}
    truth = load(OURS, dataset if missing == "detections" else none)
    found = load(OURS, none) if missing != "ground truths" else quietly(load(OURS, dataset).loadRes, results)[0]
    analysis = analysis_of(OURS.COCOeval(truth, found, "bbox"))
    matching = analysis.matching()
    assert not matching.hits.any() and not matching.found.any() and len(analysis.pairs.ious) == 0
    assert len(matching.hits) == (len(results) if missing == "ground truths" else 0)
    assert len(matching.found) == (len(dataset["annotations"]) if missing == "detections" else 0)


@pytest.mark.parametrize("convention", ["strict", "corrected"])
@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_results_of_some_images_are_those_of_a_fresh_run(kind, convention):
    rng = np.random.default_rng(0)
    e = real(OURS, kind)
    e.convention = convention
    analysis = analysis_of(e)
    for size in (1, 30, 99):
        chosen = np.sort(rng.choice(len(analysis.image_ids), size, replace=False))
        fresh = real(OURS, kind)
        fresh.convention = convention
        ids = [analysis.image_ids[place] for place in chosen.tolist()]
        expected = run(fresh, summarize=False, imgIds=ids).e.result()
        got = analysis.result_of(chosen)
        same(json.loads(expected.to_json()), json.loads(got.to_json()))
        assert len(analysis.result_of(chosen)._asked("errors", None).image_ids) == size


@pytest.mark.parametrize("kind", ["bbox", "segm", "rotated"])
def test_the_library_is_not_needed(kind, monkeypatch):
    build = {"rotated": lambda: scene_of("rotated"), "bbox": lambda: evaluator(OURS, random_objects(2))}
    make = build.get(kind) or (lambda: small_masks())
    with_library, without = analysis_of(make()), make()
    assert with_library.matching(0.5).hits.any() and with_library.matching(0.75) and len(with_library.pairs.ious)
    monkeypatch.setattr(native, "usable", lambda name: False)
    same_rows(with_library, analysis_of(without))


def small_masks():
    """A few images of :func:`real`, whose masks plain torch compares in a second."""
    e = real(OURS, "segm")
    e.params.imgIds = e.params.imgIds[:6]
    return e


def test_annotation_objects_and_image_fields():
    for kind in ("bbox", "segm"):
        e = real(OURS, kind)
        rows = analysis_of(e).rows
        for side, coco, ids in (
            ("ground_truths", e.cocoGt, rows.ground_truth_ids),
            ("detections", e.cocoDt, rows.detection_ids),
        ):
            chosen = np.arange(len(ids))[::3]
            for made, number in zip(rows.boxes(side, chosen), ids[chosen].tolist()):
                whole = coco.anns[number]
                if kind == "bbox" and side == "detections":
                    whole = {name: value for name, value in whole.items() if name != "segmentation"}  # of loadRes
                assert made == {name: whole[name] for name in made}
                assert {"bbox", "area", "image_id", "category_id"} <= set(made)
                assert kind == "bbox" or "segmentation" in made
                assert ("score" in made) == (side == "detections") != ("iscrowd" in made)
        fields = rows.image_fields(3)
        assert fields == e.cocoGt.imgs[rows.image_ids[3]] and fields["width"] > 0
    assert (
        list(scene_of("rotated").cocoDt.anns[1]["bbox"])
        == (analysis_of(scene_of("rotated")).rows.boxes("detections", np.array([0]))[0]["bbox"])
    )


def test_files_give_what_objects_give(tmp_path):
    dataset, results = (
        read(f"instances_val2014_{name}") for name in ("100_masks.json.gz", "fakesegm100_results.json.gz")
    )
    paths = [tmp_path / name for name in ("truth.json", "found.json")]
    for path, value in zip(paths, (dataset, results)):
        path.write_text(json.dumps(value))
    truth = quietly(OURS.COCO, paths[0])[0]
    e = OURS.COCOeval(truth, quietly(truth.loadRes, paths[1])[0], "segm")
    ours, expected = analysis_of(e), analysis_of(real(OURS, "segm"))
    same_rows(ours, expected)
    for side in ("detections", "ground_truths"):
        assert ours.rows.boxes(side, np.arange(40)) == expected.rows.boxes(side, np.arange(40))
    assert ours.rows.image_fields(2) == expected.rows.image_fields(2)
    assert truth._dataset is None  # nobody has made 900 objects for it


def test_ids_that_are_texts():
    dataset, results = random_objects(1)
    renamed = copy.deepcopy(dataset), copy.deepcopy(results)
    for image in renamed[0]["images"]:
        image["id"] = f"image {image['id']:04}"
    for row in (*renamed[0]["annotations"], *renamed[1]):
        row["image_id"] = f"image {row['image_id']:04}"
    ours, numbered = analysis_of(evaluator(OURS, renamed)), analysis_of(evaluator(OURS, (dataset, results)))
    assert list(ours.image_ids) == [f"image {number:04}" for number in numbered.image_ids]
    assert np.array_equal(ours.matching().hits, numbered.matching().hits)
    assert ours.rows.image_fields(0) == {"id": ours.image_ids[0]}
