"""Rows, pairs and matching behind the result of an LVISEval, against the cells of the evaluation and fresh runs."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from testing.goldens import gzipped_json
from testing.lvis_scenes import detections_on, random_lvis
from tests.coco.comparison import same
from tests.coco.test_coco_analysis import iou_of
from tests.coco.test_lvis import evaluated
from tests.fuzz import seeds
from valor_gpu.errors import InputError


def analysis_of(e):
    return e.result()._asked("errors", None)


def outcomes_of(e, place):
    """(image, category, detection) -> (ground truth of a hit, ignored), of all areas."""
    found = {}
    for cell in e.eval_imgs:
        if cell is not None and list(cell["area_rng"]) == list(e.params.area_rng[0]):
            for number, match, ignored in zip(cell["dt_ids"], cell["dt_matches"][place], cell["dt_ignore"][place]):
                truth = None if ignored else int(match) or None
                found[cell["image_id"], cell["category_id"], number] = truth, bool(ignored)
    return found


def outcomes_of_rows(e, iou):
    analysis = analysis_of(e)
    rows, matching = analysis.rows, analysis.matching(iou)
    assert rows.kept.all()  # LVISResults has left out what is beyond the limit of an image
    names = e.params.cat_ids if e.params.use_cats else [-1]
    found = {}
    for row, (image, label, number) in enumerate(zip(rows.images, rows.labels, rows.detection_ids.tolist())):
        partner = matching.partners[row]
        truth = int(rows.ground_truth_ids[partner]) if partner >= 0 else None
        ignored = not (matching.hits[row] or matching.false_positives[row])
        found[rows.image_ids[image], names[label], number] = truth, ignored
    return found


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_outcomes_are_those_of_the_evaluation(tmp_path, kind, seed):
    dataset, results = random_lvis(seed, kind == "segm")
    for params in ({}, {"use_cats": 0}) if kind == "bbox" else ({},):
        e = evaluated(tmp_path, dataset, copy.deepcopy(results), kind, 4 if seed % 3 == 0 else 300, **params)
        for place, iou in ((0, 0.5), (5, 0.75)):
            assert outcomes_of_rows(e, iou) == outcomes_of(e, place)


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_real_outcomes_are_those_of_the_evaluation(tmp_path, kind):
    dataset = gzipped_json("lvis_val_100.json.gz")
    e = evaluated(tmp_path, dataset, detections_on(dataset, 0, kind == "segm"), kind)
    for place, iou in ((0, 0.5), (5, 0.75)):
        expected = outcomes_of(e, place)
        assert outcomes_of_rows(e, iou) == expected
        assert any(ignored for _, ignored in expected.values())


def test_pairs_are_those_of_a_loop(tmp_path):
    dataset = gzipped_json("lvis_val_100.json.gz")
    results = detections_on(dataset, 0)
    analysis = analysis_of(evaluated(tmp_path, dataset, copy.deepcopy(results)))
    rows, pairs = analysis.rows, analysis.pairs
    got = {}
    for row, gt, iou in zip(pairs.detections.tolist(), pairs.ground_truths.tolist(), pairs.ious.tolist()):
        got[int(rows.detection_ids[row]), int(rows.ground_truth_ids[gt])] = iou
    boxes = rows.boxes("detections", np.arange(len(rows.labels)))
    truths = rows.boxes("ground_truths", np.arange(len(rows.gt_labels)))
    wanted = {}
    of_images = {image: [truth for truth in truths if truth["image_id"] == image] for image in rows.image_ids}
    for found in boxes:
        for truth in of_images[found["image_id"]]:
            iou = iou_of(found["bbox"], truth["bbox"], False)
            if iou >= 0.1:
                wanted[found["id"], truth["id"]] = iou
    assert got == pytest.approx(wanted, abs=1e-12)
    names = {category["id"]: category["name"] for category in dataset["categories"]}
    labels = [names[found["category_id"]] for found in boxes]
    assert [rows.classes[label] for label in rows.labels] == labels


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_results_of_some_images_are_those_of_a_fresh_run(tmp_path, kind):
    dataset = gzipped_json("lvis_val_100.json.gz")
    results = detections_on(dataset, 0, kind == "segm")
    analysis = analysis_of(evaluated(tmp_path, dataset, copy.deepcopy(results), kind))
    chosen = np.arange(3, 90, 4)
    ids = [analysis.image_ids[place] for place in chosen.tolist()]
    fresh = tmp_path / "fresh"  # the hashes of segmentations need the file of the analysis as it was
    fresh.mkdir()
    expected = evaluated(fresh, dataset, copy.deepcopy(results), kind, img_ids=ids).result()
    same(json.loads(expected.to_json()), json.loads(analysis.result_of(chosen).to_json()))


def test_changes_after_the_result_do_not_reach_it(tmp_path):
    dataset, results = random_lvis(1)
    e = evaluated(tmp_path, dataset, copy.deepcopy(results))
    result, expected = e.result(), analysis_of(evaluated(tmp_path, dataset, copy.deepcopy(results)))
    e.params.cat_ids, e.params.img_ids = e.params.cat_ids[::-1], []
    e._records = None
    analysis = result._asked("errors", None)
    assert list(analysis.rows.classes) == list(expected.rows.classes)
    assert np.array_equal(analysis.matching().hits, expected.matching().hits)
    assert analysis.rows.image_fields(0)["id"] == analysis.image_ids[0]


def test_categories_in_any_order(tmp_path):
    dataset, results = random_lvis(2)
    plain = evaluated(tmp_path, dataset, copy.deepcopy(results))
    turned = evaluated(tmp_path, dataset, copy.deepcopy(results), cat_ids=plain.params.cat_ids[::-1])
    assert outcomes_of_rows(turned, 0.5) == outcomes_of_rows(plain, 0.5)
    for name in ("map_per_class", "ground_truths_per_class", "detections_per_class"):
        assert dict(turned.result().values[name]) == pytest.approx(dict(plain.result().values[name]), nan_ok=True), name
    again = evaluated(tmp_path, dataset, copy.deepcopy(results), cat_ids=[plain.params.cat_ids[0]] * 2)
    assert len(again.result().values["map_per_class"]) == 2
    with pytest.raises(InputError, match=r"each category once but params of accumulate\(\) repeat one"):
        analysis_of(again).matching()
