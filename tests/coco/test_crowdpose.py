"""CrowdPose against what xtcocotools left of synthetic scenes (tools/make_protocol_goldens.py)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from testing.digests import digest
from testing.goldens import golden
from testing.keypoint_scenes import crowd_index, random_keypoints
from tests.coco.comparison import OURS, quietly, run
from tests.coco.test_keypoints import keypoint_evaluator
from valor_gpu.errors import InputError

GOLDEN = golden("crowdpose_golden.npz")


def crowd_evaluator(seed, **options):
    return keypoint_evaluator(OURS, random_keypoints(seed, 14, crowdpose=True), "keypoints_crowd", **options)


def test_the_file_says_that_it_is_synthetic():
    assert "synthetic" in GOLDEN.about["note"] and "xtcocotools 1.14.3" in GOLDEN.about["note"]


@pytest.mark.parametrize("seed", range(24))
def test_random_scenes(seed):
    about = GOLDEN.about["scenes"][str(seed)]
    assert digest(random_keypoints(seed, 14, crowdpose=True)) == about["objects"], "not the scene that was evaluated"
    e = run(crowd_evaluator(seed), summarize=False).e
    text = quietly(e.summarize)[1]
    for name in ("precision", "recall", "scores"):
        theirs, ours = GOLDEN.arrays[f"{seed}_{name}"], e.eval[name]
        assert (theirs.shape, theirs.tobytes()) == (ours.shape, ours.tobytes()), name
    assert e.stats.tolist() == about["stats"]
    assert text == about["text"]


def test_scenes_differ_enough():
    means = np.array([scene["stats"] for scene in GOLDEN.about["scenes"].values()])
    assert ((means[:, 6:] > 0).sum(0) >= 3).all()  # every group of images has precision somewhere


def test_files(tmp_path):
    dataset, results = random_keypoints(2, 14, crowdpose=True)
    path, found = tmp_path / "crowdpose.json", tmp_path / "results.json"
    path.write_text(json.dumps(dataset))
    found.write_text(json.dumps(results))
    truth = quietly(OURS.COCO, path)[0]
    e = OURS.COCOeval(truth, quietly(truth.loadRes, str(found))[0], "keypoints_crowd")
    run(e)
    assert e.stats.tolist() == GOLDEN.about["scenes"]["2"]["stats"]
    assert truth._dataset is None  # no objects were made


def test_the_corrected_convention_leaves_out_what_does_not_count():
    strict, corrected = (run(crowd_evaluator(1, convention=c)).e for c in ("strict", "corrected"))
    groups = strict.stats[6:], corrected.stats[6:]
    assert (groups[0] <= groups[1] + 1e-4).all() and (corrected.stats <= 1).all()


def test_groups_are_of_the_images_evaluated():
    dataset, results = random_keypoints(2, 14, crowdpose=True)
    hard = [image["id"] for image in dataset["images"] if image["crowdIndex"] >= 0.8]
    e = run(keypoint_evaluator(OURS, (dataset, results), "keypoints_crowd"), imgIds=hard).e
    assert e.stats[6:].tolist() == [-1, -1, GOLDEN.about["scenes"]["2"]["stats"][8]]


def test_cells_are_as_in_pycocotools():
    e = run(crowd_evaluator(2)).e
    matches = np.concatenate([cell["dtMatches"].reshape(-1) for cell in e.evalImgs if cell])
    assert matches.dtype == np.float64 and matches.min() == 0 < matches.max()


def test_single_cells_are_not_there():
    def base(evaluator):
        return type("Mine", (evaluator,), {"evaluateImg": lambda self, *args: evaluator.evaluateImg(self, *args)})

    e = crowd_evaluator(2, base=base(OURS.COCOeval))
    with pytest.raises(InputError, match="must be 'keypoints' for steps of single cells but got 'keypoints_crowd'"):
        run(e)


def test_areas_that_are_annotated():
    dataset, results = random_keypoints(2, 14, crowdpose=True)
    by_box = run(keypoint_evaluator(OURS, (dataset, results), "keypoints_crowd")).e.stats
    for annotation in dataset["annotations"]:
        annotation["area"] = annotation["bbox"][2] * annotation["bbox"][3] * 0.53
    given = run(keypoint_evaluator(OURS, (dataset, results), "keypoints_crowd"), use_area=True).e.stats
    assert given.tolist() == by_box.tolist()
    for annotation in dataset["annotations"]:
        annotation["area"] *= 4
    assert run(keypoint_evaluator(OURS, (dataset, results), "keypoints_crowd"), use_area=True).e.stats[0] > by_box[0]
    del dataset["annotations"][0]["area"], dataset["annotations"][0]["iscrowd"]
    with pytest.raises(InputError, match=r"annotations\[\d+\] must have area"):
        run(keypoint_evaluator(OURS, (dataset, results), "keypoints_crowd"), use_area=True)
    run(keypoint_evaluator(OURS, (dataset, results), "keypoints_crowd"))


def test_images_need_a_crowd_index():
    dataset, results = random_keypoints(2, 14, crowdpose=True)
    del dataset["images"][0]["crowdIndex"]
    e = run(keypoint_evaluator(OURS, (dataset, results), "keypoints_crowd"), summarize=False).e
    with pytest.raises(
        InputError, match=rf"crowdIndex of image id {dataset['images'][0]['id']} must be a number but got"
    ):
        quietly(e.summarize)


def test_crowd_index_by_its_definition():
    alone = np.array([[10.0, 10, 2], [20, 20, 2], [0, 0, 0]])
    apart = alone + np.array([[100, 100, 0], [100, 100, 0], [0, 0, 0]])
    assert crowd_index([alone, apart]) == 0.0
    assert crowd_index([alone, alone]) == 1.0
    half = np.array(
        [[20.0, 20, 1], [60, 60, 2], [0, 0, 0]]
    )  # one of its joints is in the box of the other, and so back
    assert crowd_index([alone, half]) == 0.5
    assert crowd_index([]) == 0.0
