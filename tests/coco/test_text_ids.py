"""Ids that are texts: pycocotools' numbers, cells and text to the last bit, and what is no such id."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from testing.keypoint_scenes import random_keypoints
from testing.lvis_scenes import random_lvis
from testing.text_ids import renamed, words
from tests.coco import test_masks as masks
from tests.coco.comparison import (
    OURS,
    THEIRS,
    both,
    corrected,
    evaluator,
    ids_untold,
    load,
    quietly,
    random_objects,
    run,
    same,
    same_runs,
)
from tests.coco.test_keypoints import keypoint_runs, same_keypoint_runs
from tests.fuzz import seeds
from valor_gpu.coco import COCO, LVIS, COCOeval, LVISEval, LVISResults
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco import columns_from_dataset
from valor_gpu.store import Store

KINDS = [{}, {"images": False}, {"categories": False}]
"""Which ids are texts, and which stay integers."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", [{}, {"useCats": 0}, {"maxDets": [1, 2, 3]}])
@pytest.mark.parametrize("seed", seeds(6))
def test_boxes(seed, params, kind):
    same_runs(*both(renamed(random_objects(seed), seed, **kind), **params))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2))
def test_masks(seed, kind):
    theirs, ours = masks.check(renamed(masks.random_objects(seed), seed, **kind))
    same(theirs.e.evalImgs, ours.e.evalImgs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2))
def test_keypoints(seed, kind):
    same_keypoint_runs(*keypoint_runs(renamed(random_keypoints(seed, classes=2), seed, **kind)))


def saved(tmp_path, objects):
    paths = [tmp_path / name for name in ("instances.json", "results.json")]
    for path, value in zip(paths, objects):
        path.write_text(json.dumps(value))
    return [str(path) for path in paths]


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("seed", seeds(3))
def test_files(tmp_path, seed, ensure_ascii):
    objects = renamed(random_objects(seed), seed)
    if not ensure_ascii:  # UTF-8 has no half of a surrogate pair
        objects = json.loads(json.dumps(objects).replace("\\ud800", "x"))
    runs = []
    paths = [tmp_path / "instances.json", tmp_path / "results.json"]
    for path, value in zip(paths, objects):
        path.write_text(json.dumps(value, ensure_ascii=ensure_ascii), encoding="utf-8")
    for side in (THEIRS, OURS):
        truth = quietly(side.COCO, str(paths[0]))[0]
        runs.append(run(side.COCOeval(truth, quietly(truth.loadRes, str(paths[1]))[0], "bbox")))
    same_runs(*runs)


def test_an_order_of_code_points_decides_between_equal_scores():
    box = {"bbox": [0.0, 0.0, 9.0, 9.0], "category_id": "c", "area": 81.0, "iscrowd": 0}
    ids = ["b", "é", "a", "Z", "\U0001f600", "\uffff"]
    annotations = [{"id": n, "image_id": name, **box} for n, name in enumerate(ids[::2], 1)]
    dataset = {
        "images": [{"id": name} for name in ids],
        "categories": [{"id": "c", "name": "c"}],
        "annotations": annotations,
    }
    results = [{"image_id": name, "category_id": "c", "bbox": box["bbox"], "score": 0.5} for name in ids]
    theirs, ours = both((dataset, results))
    same_runs(theirs, ours)
    assert list(map(str, ours.e.params.imgIds)) == ["Z", "a", "b", "é", "\uffff", "\U0001f600"]


def test_the_corrected_convention_and_rotated_boxes_have_the_numbers_of_integers_in_that_order():
    objects = random_objects(3)
    texts = renamed(objects, 3)
    ranks = [{text: n for n, text in enumerate(sorted(each["id"] for each in texts[0][name]))} for name in PARTS]
    numbers = _as_ranks(*texts, ranks)
    for name in ("precision", "recall", "scores"):
        same(corrected(numbers)[name], corrected(texts)[name])
    for each in (*numbers[0]["annotations"], *numbers[1], *texts[0]["annotations"], *texts[1]):
        x, y, w, h = each["bbox"]
        each["bbox"] = [x, y, w, h, 0.25]
    runs = []
    for dataset, results in (numbers, texts):
        truth = load(OURS, dataset)
        runs.append(run(COCOeval(truth, quietly(truth.loadRes, results)[0], "rotated")))
    same(runs[0].e.stats, runs[1].e.stats)
    assert runs[0].e.stats[0] > 0


def test_the_methods_of_coco(tmp_path):
    dataset, results = renamed(random_objects(5), 5)
    paths = saved(tmp_path, (dataset, results))
    theirs, ours = (quietly(side.COCO, paths[0])[0] for side in (THEIRS, OURS))
    images, categories = (sorted(each["id"] for each in dataset[name]) for name in ("images", "categories"))
    for coco in (ours, load(OURS, dataset)):
        assert theirs.getImgIds() == coco.getImgIds()
        assert theirs.getCatIds() == coco.getCatIds()
        assert theirs.getAnnIds(imgIds=images[:3]) == coco.getAnnIds(imgIds=images[:3])
        assert theirs.getAnnIds(catIds=categories[1:2]) == coco.getAnnIds(catIds=categories[1])
        assert sorted(theirs.getImgIds(catIds=categories[:1])) == sorted(coco.getImgIds(catIds=categories[:1]))
        assert theirs.loadImgs([images[1]]) == coco.loadImgs(images[1])
        assert theirs.loadCats([categories[1]]) == coco.loadCats(categories[1])
        assert theirs.loadAnns(theirs.getAnnIds()) == coco.loadAnns(coco.getAnnIds())
        found = quietly(coco.loadRes, paths[1])[0]
        assert quietly(theirs.loadRes, paths[1])[0].dataset == found.dataset


def test_parameters_choose_texts():
    objects = renamed(random_objects(2), 2)
    images = sorted(each["id"] for each in objects[0]["images"])[1:4]
    categories = sorted(each["id"] for each in objects[0]["categories"])
    for params in (
        {"imgIds": images[::-1], "catIds": categories[:1]},
        {"imgIds": np.array([*images, "nowhere"]), "catIds": ["nothing", categories[0]]},
        {"imgIds": images, "catIds": categories[::-1], "useCats": 0},
    ):
        same_runs(*both(objects, **params))


def test_a_second_evaluation_without_categories_finds_nothing():
    """accumulate() has put -1 into catIds."""
    objects = renamed(random_objects(2), 2)
    runs = []
    for side in (THEIRS, OURS):
        e = evaluator(side, objects)
        run(e, useCats=0)
        runs.append(run(e))
    same_runs(*runs)
    assert (runs[1].e.stats == -1).all()


def test_results_of_categories_that_are_not_listed():
    dataset, results = renamed(random_objects(4), 4)
    missing = sorted(each["id"] for each in dataset["categories"])[1]
    dataset["categories"] = [each for each in dataset["categories"] if each["id"] != missing]
    theirs, ours = both((dataset, results))
    same_runs(theirs, ours)
    assert ours.e.result().counts["detections_of_unknown_categories"] == sum(
        each["category_id"] == missing for each in results
    )
    everything = [*(each["id"] for each in dataset["categories"]), missing]
    same_runs(*both((dataset, results), catIds=everything))
    with pytest.raises(InputError, match=r"\.category_id must be an id that .* lists but got "):
        corrected((dataset, results))


def test_objects_of_pycocotools_and_steps_that_are_overridden():
    objects = renamed(random_objects(6), 6)
    truth = load(THEIRS, objects[0])
    found = quietly(truth.loadRes, copy.deepcopy(objects[1]))[0]
    same_runs(run(THEIRS.COCOeval(truth, found, "bbox")), run(COCOeval(truth, found, "bbox")))

    def cellwise(base):
        return type("Cellwise", (base,), {"computeIoU": lambda self, i, k: base.computeIoU(self, i, k)})

    same_runs(*(run(evaluator(side, objects, cellwise(side.COCOeval))) for side in (THEIRS, OURS)))


def test_ids_that_end_in_nul():
    """pycocotools finds nothing of them, since numpy drops what fills its texts up."""
    names = ["a", "a\0", "a\0\0"]
    parts = [truth_of(name) for name in names]
    dataset = {"images": [{"id": name} for name in names], "categories": [{"id": 1}]}
    dataset["annotations"] = [{**part["annotations"][0], "id": n} for n, part in enumerate(parts, 1)]
    e = run(evaluator(OURS, (dataset, [{**RESULTS, "image_id": name} for name in names]))).e
    assert e.stats[0] == 1.0
    assert list(map(str, e.params.imgIds)) == names
    assert [cell["gtIds"] for cell in e.evalImgs[:3]] == [[1], [2], [3]]


def test_thousands_of_ids_and_very_long_ones():
    rng = np.random.default_rng(0)
    names = [*words(rng, 3000), "a" * 100_000, "a" * 100_000 + "b"]
    box = {"category_id": 1, "bbox": [0.0, 0.0, 9.0, 9.0]}
    annotations = [{"id": n, "image_id": i, "area": 81.0, "iscrowd": 0, **box} for n, i in enumerate(names, 1)]
    dataset = {"images": [{"id": i} for i in names], "categories": [{"id": 1}], "annotations": annotations}
    results = [{"image_id": i, "score": n / len(names), **box} for n, i in enumerate(names[::2], 1)]
    e = run(evaluator(OURS, (dataset, results))).e
    assert e.eval["recall"][0, 0, 0, -1] == len(results) / len(names)
    assert [str(i) for i in e.params.imgIds] == sorted(names)


# ------------------------------------------------------------------------------------------------------------- LVIS


def lvis_run(tmp_path, dataset, results, kind):
    path = tmp_path / f"lvis_{len(list(tmp_path.iterdir()))}.json"
    path.write_text(json.dumps(dataset))
    truth = LVIS(str(path))
    e = LVISEval(truth, LVISResults(truth, copy.deepcopy(results), 4), kind)
    with ids_untold():
        e.run()
    return e


@pytest.mark.parametrize("kind", ["bbox", "segm"])
@pytest.mark.parametrize("seed", seeds(4))
def test_lvis_has_the_numbers_of_integers_in_that_order(tmp_path, seed, kind):
    objects = random_lvis(seed, kind == "segm")
    texts = renamed(objects, seed)
    back = {}
    for name in ("images", "categories"):
        ids = [each["id"] for each in texts[0][name]]
        back[name] = {text: n for n, text in enumerate(sorted(ids))}
    numbers = _with_ranks(texts, back)
    want, got = lvis_run(tmp_path, *numbers, kind), lvis_run(tmp_path, *texts, kind)
    for name in ("precision", "recall"):
        same(want.eval[name], got.eval[name])
    assert dict(want.results) == dict(got.results)
    assert [str(i) for i in got.params.img_ids] == sorted(back["images"])
    for ours, theirs in zip(got.eval_imgs, want.eval_imgs):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert back["images"][ours["image_id"]] == theirs["image_id"]
            assert back["categories"][ours["category_id"]] == theirs["category_id"]
            same(theirs["dt_matches"], ours["dt_matches"])


def _with_ranks(texts, back):
    dataset, results = copy.deepcopy(texts)
    more = {n for each in (*dataset["annotations"], *results) for n in [each["category_id"]]} - back[
        "categories"
    ].keys()
    more |= {n for each in dataset["images"] for n in each["neg_category_ids"] if n not in back["categories"]}
    more |= {n for each in dataset["images"] for n in each["not_exhaustive_category_ids"]} - back["categories"].keys()
    classes = {**back["categories"], **{name: 1000 + n for n, name in enumerate(sorted(more))}}
    for each in dataset["images"]:
        each["id"] = back["images"][each["id"]]
        for name in ("neg_category_ids", "not_exhaustive_category_ids"):
            each[name] = [classes[n] for n in each[name]]
    for each in dataset["categories"]:
        each["id"] = classes[each["id"]]
    for each in (*dataset["annotations"], *results):
        each.update(image_id=back["images"][each["image_id"]], category_id=classes[each["category_id"]])
    return dataset, results


def test_lvis_lists_of_another_kind(tmp_path):
    dataset, results = renamed(random_lvis(0), 0)
    dataset["images"][0]["neg_category_ids"] = [3]
    with pytest.raises(InputError, match=r"images\[0\]\.neg_category_ids must be a list of category ids but got \[3\]"):
        lvis_run(tmp_path, dataset, results, "bbox")


# ----------------------------------------------------------------------------------------------------------- errors


def test_the_file_of_faster_coco_eval_mixes_texts_and_integers():
    """Its tests/dataset/gt_ignore_test.json: the image is "2299", that of all annotations but the first 2299."""
    box = {"category_id": 1, "bbox": [70.18, 189.51, 64.2, 112.04], "area": 4357.5248, "iscrowd": 0, "ignore": 0}
    dataset = {
        "images": [{"id": "2299", "height": 302, "width": 500}],
        "categories": [{"supercategory": "person", "id": 1, "name": "person"}],
        "annotations": [{**box, "image_id": image, "id": n} for n, image in enumerate(["2299", 2299, 2299], 1219726)],
    }
    message = r"annotations\[1\]\.image_id must be a text, as annotations\[0\]\.image_id is, but got 2299$"
    results = [{"image_id": "2299", "category_id": 1, "bbox": box["bbox"], "score": 0.9}]
    with pytest.raises(InputError, match=message):
        run(evaluator(OURS, (dataset, results)))
    for each in dataset["annotations"]:
        each["image_id"] = "2299"
    same_runs(*both((dataset, results)))


RESULTS = {"category_id": 1, "bbox": [0, 0, 9, 9], "score": 0.5}


def truth_of(image, category=1):
    box = {"bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0}
    return {
        "images": [{"id": image}],
        "categories": [{"id": category}],
        "annotations": [{"id": 1, "image_id": image, "category_id": category, **box}],
    }


@pytest.mark.parametrize(
    ("dataset", "result", "message"),
    [
        (truth_of(7), {"image_id": "7"}, r"results\[0\]\.image_id must be a 64-bit integer, as the ids of the images"),
        (truth_of("7"), {"image_id": 7}, r"results\[0\]\.image_id must be a text, as the ids of the images .* got 7$"),
        (
            truth_of(7),
            {"image_id": 7, "category_id": "1"},
            r"\.category_id must be a 64-bit integer, as the ids of the",
        ),
        (truth_of(7, "1"), {"image_id": 7}, r"results\[0\]\.category_id must be a text, as the ids .* but got 1$"),
        (truth_of("e\u0301"), {"image_id": "\u00e9"}, r"must be the id of one of the 1 images but got '\u00e9'"),
        (truth_of("a"), {"image_id": "a "}, r"must be the id of one of the 1 images but got 'a '"),
        (truth_of("a"), {"image_id": 1.5}, r"\.image_id must be a 64-bit integer or a text but got 1.5"),
        (truth_of("a"), {"image_id": True}, r"\.image_id must be a 64-bit integer or a text but got True"),
        (truth_of("a"), {"image_id": ["a"]}, r"\.image_id must be a 64-bit integer or a text but got \['a'\]"),
        (truth_of("a"), {"image_id": None}, r"results\[0\] must have image_id"),
    ],
)
def test_results_of_another_kind(dataset, result, message):
    with pytest.raises(InputError, match=message):
        quietly(load(OURS, dataset).loadRes, [{**RESULTS, **result}])


@pytest.mark.parametrize("text", ["abc", "2299"])
def test_an_annotation_id_is_an_integer(tmp_path, text):
    """pycocotools takes "2299", which numpy makes a number of, and fails at "abc" where it is matched."""
    dataset = truth_of("a")
    dataset["annotations"][0]["id"] = text
    message = rf"annotations\[0\]\.id must be a 64-bit integer but got '{text}'$"
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(dataset))
    with pytest.raises(InputError, match=message):
        quietly(COCO, str(path))
    with pytest.raises(InputError, match=message):
        columns_from_dataset(dataset)


@pytest.mark.parametrize(
    ("image", "params", "message"),
    [
        (7, {"imgIds": ["7"]}, r"params\.imgIds must be integers but got \['7'\]"),
        ("7", {"imgIds": [7]}, r"params\.imgIds must be texts, as the ids of the dataset are, but has 7"),
        ("7", {"imgIds": ["7", 7]}, r"params\.imgIds must be integers or texts, not both, but has 7 beside texts"),
        ("7", {"catIds": ["1"]}, r"params\.catIds must be integers but got \['1'\]"),
    ],
)
def test_parameters_of_another_kind(image, params, message):
    with pytest.raises(InputError, match=message):
        run(evaluator(OURS, (truth_of(image), [{**RESULTS, "image_id": image}])), **params)


def test_a_saved_run_names_images_and_classes(tmp_path):
    dataset, results = renamed(random_objects(8), 8)
    for each in dataset["categories"]:
        del each["name"]
    ranks = [{text: n for n, text in enumerate(sorted(e["id"] for e in dataset[name]))} for name in PARTS]
    numbers = _as_ranks(dataset, results, ranks)
    runs = [run(evaluator(OURS, objects)).e.to_run() for objects in ((dataset, results), numbers)]
    images = [list(each.images) for each in runs]
    assert [image.key for image in images[0]] == sorted(ranks[0])
    assert [image.inputs["image_id"] for image in images[0]] == sorted(ranks[0])
    for image, other in zip(*images):
        assert (image.outputs, image.scores) == (other.outputs, other.scores)
        assert [str(ranks[1][shape["name"]]) for shape in image.shapes] == [shape["name"] for shape in other.shapes]
    assert runs[0].matrix["counts"] == runs[1].matrix["counts"]
    assert runs[0].matrix["names"][:-1] == sorted(ranks[1])
    with Store(tmp_path / "store.sqlite") as store:
        saved_run = store.save(run(evaluator(OURS, (dataset, results))).e, "texts")
        assert [row.inputs["image_id"] for row in saved_run.rows()] == sorted(ranks[0])


PARTS = ("images", "categories")


def _as_ranks(dataset, results, ranks):
    dataset, results = copy.deepcopy((dataset, results))
    for name, places in zip(PARTS, ranks):
        for each in dataset[name]:
            each["id"] = places[each["id"]]
    for each in (*dataset["annotations"], *results):
        each.update(image_id=ranks[0][each["image_id"]], category_id=ranks[1][each["category_id"]])
    return dataset, results
