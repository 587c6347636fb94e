"""LVIS, LVISResults and LVISEval against what lvis-api finds in synthetic detections."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from testing.digests import digest
from testing.goldens import DATA, golden, gzipped_json
from testing.lvis_scenes import detections_on, random_lvis
from tests.coco.comparison import ids_untold, quietly
from tests.numpy_sums import AS_RECORDED
from valor_gpu.coco import LVIS, LVISEval, LVISResults
from valor_gpu.coco.federated import best_of_images
from valor_gpu.errors import InputError, InputTypeError

GOLDEN = golden("lvis_golden.npz")
KINDS = ("bbox", "segm")
SCENES = [(kind, seed) for kind in KINDS for seed in range(24)]


def saved(tmp_path, value, name="lvis.json"):
    path = tmp_path / name
    path.write_text(json.dumps(value))
    return str(path)


def evaluated(tmp_path, dataset, results, kind="bbox", limit=300, **params):
    truth = LVIS(saved(tmp_path, dataset))
    e = LVISEval(truth, LVISResults(truth, results, limit), kind)
    for name, value in params.items():
        setattr(e.params, name, value)
    with ids_untold():
        e.run()
    return e


def test_the_files_say_that_they_are_synthetic():
    assert "synthetic" in GOLDEN.about["note"] and "lvis 0.5.3" in GOLDEN.about["note"]


@pytest.mark.parametrize(("kind", "seed"), SCENES)
def test_random_scenes(tmp_path, kind, seed):
    dataset, results = random_lvis(seed, kind == "segm")
    about, name = GOLDEN.about["scenes"][f"{kind}_{seed}"], f"{kind}_{seed}"
    assert digest((dataset, results)) == about["objects"], "the scene is not the one that lvis-api saw"
    e = evaluated(tmp_path, dataset, copy.deepcopy(results), kind, 4 if seed % 3 == 0 else 300)
    for array in ("precision", "recall"):
        theirs, ours = GOLDEN.arrays[f"{name}_{array}"], e.eval[array]
        assert (theirs.dtype, theirs.shape, theirs.tobytes()) == (ours.dtype, ours.shape, ours.tobytes())
    assert {key: float(value) for key, value in e.get_results().items()} == about["results"]
    assert list(e.get_results()) == list(about["results"])
    assert quietly(e.print_results)[1] == about["text"]
    assert digest(e.eval_imgs) == about["eval_imgs"]
    pointers = {k: e.eval["dt_pointers"][k] for k in e.eval["dt_pointers"]}
    assert digest(pointers) == about["dt_pointers"]


@pytest.mark.parametrize("kind", KINDS)
def test_real_ground_truths(kind):
    results = detections_on(gzipped_json("lvis_val_100.json.gz"), 0, kind == "segm")
    about = GOLDEN.about["scenes"][f"{kind}_real"]
    assert digest(results) == about["objects"]
    truth = LVIS(DATA / "lvis_val_100.json.gz")
    e = LVISEval(truth, LVISResults(truth, results), kind)
    e.run()
    assert {array: digest(e.eval[array]) for array in ("precision", "recall")} == {
        array: about[array] for array in ("precision", "recall")
    }
    expected = about["results"] if AS_RECORDED else pytest.approx(about["results"], rel=1e-14)
    assert {key: float(value) for key, value in e.results.items()} == expected
    assert truth._dataset is None  # no objects were made


def cases():
    """One image with category 1 true, 2 negative, 3 true and not exhaustive, 4 nobody looked for."""
    image = {"id": 1, "neg_category_ids": [2], "not_exhaustive_category_ids": [3]}
    box = {"image_id": 1, "bbox": [0, 0, 40, 40]}
    return {
        "images": [image],
        "annotations": [{"id": k, "category_id": k, "area": 1600, **box} for k in (1, 3)],
        "categories": [{"id": k, "frequency": f} for k, f in ((1, "r"), (2, "c"), (3, "f"), (4, "f"))],
    }


def false(category, score=0.9):
    return {"image_id": 1, "category_id": category, "bbox": [50, 50, 40, 40], "score": score}


def true(category, score=0.5):
    return {"image_id": 1, "category_id": category, "bbox": [0, 0, 40, 40], "score": score}


def test_only_searched_categories_count(tmp_path):
    e = evaluated(tmp_path, cases(), [false(1), true(1), false(2), false(3), true(3), false(4)])
    assert round(float(e.results["APr"]), 3) == 0.5  # the false one counts
    assert e.results["APc"] == -1  # no ground truth
    assert round(float(e.results["APf"]), 3) == 1.0  # the unmatched one is ignored
    ids = [cell and cell["dt_ids"] for cell in e.eval_imgs[::4]]
    assert ids == [[1, 2], [3], [4, 5], None]


def test_the_limit_is_over_all_classes(tmp_path):
    results = [false(1, 0.3), true(1, 0.4), true(3, 0.5), false(2, 0.5), false(4, 0.1)]
    e = evaluated(tmp_path, cases(), results, limit=2)
    assert [a["score"] for a in e.lvis_dt.load_anns()] == [0.5, 0.5]
    assert [a["category_id"] for a in e.lvis_dt.load_anns()] == [3, 2]
    assert e.results["APr"] == 0.0


def test_pooled_categories(tmp_path):
    e = evaluated(tmp_path, cases(), [false(1), true(1), true(3), false(4)], use_cats=0)
    assert e.eval["precision"].shape == (10, 101, 1, 4)
    assert round(float(e.results["AP"]), 4) == 0.6667  # lvis-api looks up category -1 and has -1 everywhere
    assert e.results["APr"] == -1


def test_categories_in_any_order(tmp_path):
    results = [false(1), true(1), true(3, 0.2), false(3)]
    whole = evaluated(tmp_path, cases(), results)
    e = evaluated(tmp_path, cases(), results, cat_ids=[3, 1])
    assert (e.eval["precision"] == whole.eval["precision"][:, :, [2, 0]]).all()
    assert e.freq_groups == [[1], [], [0]] and e.eval["counts"] == [10, 101, 2, 4]
    assert [cell["category_id"] for cell in e.eval_imgs] == [3] * 4 + [1] * 4


def test_areas_of_0_are_left_out(tmp_path):
    dataset = cases()
    dataset["annotations"][0]["area"] = 0
    e = evaluated(tmp_path, dataset, [true(1)])
    assert e.results["APr"] == -1
    assert e.eval_imgs[0] is None  # so that nobody looked for category 1 either


def test_a_flag_to_ignore_counts(tmp_path):
    dataset = cases()
    dataset["annotations"][0] |= {"ignore": 1, "iscrowd": 1}
    e = evaluated(tmp_path, dataset, [true(1, 0.5), true(1, 0.4)])
    assert e.eval_imgs[0]["dt_ignore"][0].tolist() == [True, False]  # matched once: it is no crowd


def test_no_results(tmp_path):
    e = evaluated(tmp_path, cases(), [])
    assert (e.results["AP"], e.results["APr"]) == (0.0, 0.0)


def test_files_and_objects_agree(tmp_path):
    dataset, results = random_lvis(5)
    path, found = saved(tmp_path, dataset), saved(tmp_path, results, "results.json")
    from_files = LVISEval(path, found, "bbox")
    before = copy.deepcopy(results)
    from_objects = LVISEval(path, results, "bbox")
    from_files.run()
    from_objects.run()
    assert results == before
    assert from_files.results == from_objects.results
    assert from_files.lvis_dt.load_anns() == from_objects.lvis_dt.load_anns()
    assert from_files.lvis_dt.dataset["annotations"][0]["area"] == from_files.lvis_dt.columns.annotations.area[0]
    for annotation in from_objects.lvis_gt.dataset["annotations"]:
        annotation["category_id"] = dataset["categories"][0]["id"]
    from_objects.run()
    assert from_objects.eval["recall"].tobytes() != from_files.eval["recall"].tobytes()  # objects count


def test_evaluations_are_pickled(tmp_path):
    e = evaluated(tmp_path, *random_lvis(1))
    again = pickle.loads(pickle.dumps(e))
    assert again.get_results() == e.get_results()
    assert again.lvis_dt.dataset == e.lvis_dt.dataset


def test_queries(tmp_path):
    dataset = LVIS(saved(tmp_path, cases()))
    assert (dataset.get_img_ids(), dataset.get_cat_ids()) == ([1], [1, 2, 3, 4])
    assert dataset.get_ann_ids() == [1, 3]
    assert dataset.get_ann_ids(img_ids=[1, 9], cat_ids=[3]) == [3]
    assert dataset.get_ann_ids(area_rng=[0, 1600]) == []
    assert [a["category_id"] for a in dataset.load_anns([3, 1])] == [3, 1]
    assert dataset.load_cats(None)[0]["frequency"] == "r"
    assert dataset.load_imgs([1])[0] is dataset.imgs[1]
    assert dict(dataset.cat_img_map) == {1: [1], 3: [1]}
    assert [a["id"] for a in dataset.img_ann_map[1]] == [1, 3]
    results = LVISResults(dataset, [true(1), false(3)])
    assert [a["category_id"] for a in results.get_top_results(1, 0.6)] == [3]


@pytest.mark.parametrize("seed", range(5))
def test_best_of_images(seed):
    rng = np.random.default_rng(seed)
    images, scores = rng.integers(0, 6, 60) * 10**9, rng.integers(0, 4, 60) / 4
    by_image = {}
    for row in range(60):
        by_image.setdefault(images[row], []).append(row)
    expected = []
    for rows in by_image.values():
        expected += sorted(rows, key=lambda r: scores[r], reverse=True)[:9] if len(rows) > 9 else rows
    assert best_of_images(images, scores, 9).tolist() == expected
    assert best_of_images(images, scores, -1).tolist() == list(range(60))
    assert best_of_images(images[:0], scores[:0], 9).tolist() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["images"][0].pop("neg_category_ids"), r"images\[0\].neg_category_ids must be a list of category"),
        (lambda d: d["images"][0].update(not_exhaustive_category_ids=["a"]), r"exhaustive_category_ids .* got \['a'\]"),
        (lambda d: d["images"][0].update(neg_category_ids=[2**70]), r"neg_category_ids must be .* got \[118059162071"),
        (lambda d: d["categories"][1].update(frequency=["r"]), r"must be one of 'r', 'c', 'f' but got \['r'\]"),
        (lambda d: d["categories"][1].pop("frequency"), r"categories\[1\].frequency must be one of 'r', .* got None"),
        (lambda d: d["categories"][1].update(frequency="often"), r"must be one of 'r', 'c', 'f' but got 'often'"),
        (lambda d: d["annotations"][1].pop("area"), r"annotations\[1\] must have area"),
        (lambda d: d["annotations"][1].update(area=float("nan")), r"annotations\[1\].area .* must be a number but got"),
        (lambda d: d["annotations"][0].update(bbox=[0, 0, float("inf"), 1]), r"annotations\[0\].bbox .* be finite"),
    ],
)  # fmt: skip
def test_errors_in_ground_truths(tmp_path, change, message):
    dataset = cases()
    change(dataset)
    with pytest.raises(InputError, match=message):
        evaluated(tmp_path, dataset, [true(1)])


def test_errors_in_results_and_arguments(tmp_path):
    path = saved(tmp_path, cases())
    with pytest.raises(InputError, match=r"results\[1\] must have score"):
        LVISResults(path, [true(1), {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}])
    with pytest.raises(InputError, match=r"results\[0\].image_id must be the id of one of the 1 images but got 5"):
        LVISResults(path, [{**true(1), "image_id": 5}])
    with pytest.raises(InputTypeError, match=r"lvis_gt must be an LVIS object or a path but got \{"):
        LVISEval({}, [])
    with pytest.raises(InputTypeError, match=r"results must be a path or a list of objects but got 5"):
        LVISResults(path, 5)
    for wrong in (None, 1.5, float("nan"), True):
        with pytest.raises(InputTypeError, match=rf"max_dets must be int but got {wrong!r}"):
            LVISResults(path, [true(1)], wrong)
    with pytest.raises(InputTypeError, match=r"lvis_gt must be an LVIS object or a path but got None"):
        LVISResults(None, [])
    with pytest.raises(InputTypeError, match=r"annotation_path must be a path but got \["):
        LVIS([])
    with pytest.raises(InputError, match=r"iou_type must be one of 'bbox', 'segm' but got 'boundary'"):
        LVISEval(path, [], "boundary")
    e = LVISEval(path, [true(1)], "bbox")
    with pytest.raises(InputError, match=r"Please run accumulate\(\) first"):
        e.summarize()
    with pytest.raises(InputError, match=r"accumulate\(\) needs evaluate\(\)"):
        e.accumulate()
    e.params.img_ids = [1, 2]
    with pytest.raises(InputError, match=r"params.img_ids must be ids of images but got 2"):
        e.run()
    e.params.img_ids, e.params.cat_ids = [1], [7]
    with pytest.raises(InputError, match=r"params.cat_ids must be ids of categories but got 7"):
        e.run()


@pytest.mark.parametrize("limit", [None, "300", 2.5, True])
def test_a_limit_that_is_no_integer(tmp_path, limit):
    e = evaluated(tmp_path, cases(), [true(1)])
    before, e.params.max_dets = dict(e.results), limit
    with pytest.raises(InputTypeError, match=rf"params\.max_dets must be int but got {limit!r}"):
        e.summarize()
    assert e.results == before


def test_names_of_area_ranges(tmp_path):
    e = LVISEval(saved(tmp_path, cases()), [true(1)], "bbox")
    e.params.area_rng = [[0, 1e10]]
    with pytest.raises(
        InputError, match=r"area_rng_lbl must have .* of the 1 ranges of params\.area_rng but is \['all'"
    ):
        e.run()
    assert e.eval["precision"].shape[3] == 1 and not e.results
    e.params.area_rng_lbl = ["all"]
    e.summarize()
    assert e.results["AP"] == evaluated(tmp_path, cases(), [true(1)]).results["AP"] and e.results["APs"] == -1


def test_torch_is_not_imported(tmp_path):
    code = (
        "import sys; from valor_gpu.coco import LVISEval;"
        "e = LVISEval(sys.argv[1], sys.argv[2], 'bbox'); e.run(); assert 'torch' not in sys.modules"
    )
    paths = saved(tmp_path, cases()), saved(tmp_path, [true(1)], "results.json")
    subprocess.run([sys.executable, "-c", code, *paths], check=True)


def test_parameters_changed_after_evaluate(tmp_path):
    dataset, results = random_lvis(11)
    e = evaluated(tmp_path, dataset, results)
    e.params.rec_thrs = np.array([0.0, 0.5])
    e.accumulate()
    e.summarize()
    again = evaluated(tmp_path, dataset, results, rec_thrs=np.array([0.0, 0.5]))
    assert e.eval["precision"].shape[1] == 2 and e.results == again.results != {}
    assert e.eval["precision"].tobytes() == again.eval["precision"].tobytes()
    changes = {"iou_thrs": np.array([0.5, 0.75]), "img_ids": [], "cat_ids": [], "area_rng": [[0, 1]], "use_cats": 0}
    for name, value in changes.items():
        before = getattr(e.params, name)
        setattr(e.params, name, value)
        for step in (e.accumulate, e.summarize):
            with pytest.raises(InputError, match=rf"params\.{name} must be .*, as evaluate\(\) had it, but is"):
                step()
        setattr(e.params, name, before)
    e.summarize()


def test_the_last_of_an_id_stands_for_all_of_it_whatever_its_area(tmp_path):
    """lvis-api leaves out the id of the first alone, and looks up the last."""
    truth = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 10, 10], "segmentation": [[0, 0, 9, 0, 9, 9]]}
    dataset = {
        "images": [{"id": 1, "neg_category_ids": [], "not_exhaustive_category_ids": []}],
        "categories": [{"id": 1, "frequency": "f"}],
        "annotations": [{**truth, "id": 1, "area": 5000.0}, {**truth, "id": 1, "area": 0.0, "bbox": [50, 0, 10, 10]}],
    }
    result = {"image_id": 1, "category_id": 1, "score": 0.5, "bbox": [50, 0, 10, 10]}
    e = evaluated(tmp_path, dataset, [result])
    assert e.results["AP"] > 0.99 and e.results["APs"] > 0.99 and e.results["APm"] == -1
