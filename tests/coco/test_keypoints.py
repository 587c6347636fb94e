"""Keypoints: pycocotools' arrays, cells and text, on synthetic people and on real ones; errors."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from testing.digests import digest
from testing.goldens import golden, gzipped_json
from testing.keypoint_scenes import common_rules, random_keypoints, random_sigmas
from tests.coco.comparison import OURS, THEIRS, load, quietly, run, same, same_arrays
from tests.fuzz import seeds
from valor_gpu.coco.torch_engine import TorchEngine
from valor_gpu.errors import InputError


def keypoint_evaluator(side, objects, kind="keypoints", base=None, **options):
    truth = load(side, objects[0])
    found = quietly(truth.loadRes, copy.deepcopy(objects[1]))[0]
    return (base or side.COCOeval)(truth, found, kind, **options)


def keypoint_runs(objects, base=None, **params):
    bases = (None, None) if base is None else tuple(base(side.COCOeval) for side in (THEIRS, OURS))
    pairs = zip((THEIRS, OURS), bases)
    return tuple(run(keypoint_evaluator(side, objects, base=b), **params) for side, b in pairs)


def same_keypoint_runs(theirs, ours):
    """Equal to the last bit but for similarities, where numpy's exponential depends on the processor."""
    assert theirs.text == ours.text
    same(theirs.e.stats, ours.e.stats, "stats")
    same_arrays(theirs.e.eval, ours.e.eval)
    same(theirs.e.evalImgs, ours.e.evalImgs, "evalImgs")
    assert list(theirs.e.ious) == list(ours.e.ious)
    for key, values in theirs.e.ious.items():
        assert type(values) is type(ours.e.ious[key])
        np.testing.assert_allclose(ours.e.ious[key], values, rtol=1e-15, atol=1e-40)


@pytest.mark.parametrize("params", [{}, {"useCats": 0}, {"maxDets": [3, 20]}, {"iouThrs": np.array([0.5, 0.8])}])
@pytest.mark.parametrize("seed", seeds(10))
def test_random_people(seed, params):
    same_keypoint_runs(*keypoint_runs(random_keypoints(seed, classes=1 + seed % 3), **params))


def test_other_sigmas():
    objects = random_keypoints(3, joints=5)
    same_keypoint_runs(*keypoint_runs(objects, kpt_oks_sigmas=np.array([0.1, 0.05, 0.2, 0.01, 0.3])))


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("joints", [1, 17, 240, 241, 294, 478, 1000])
def test_any_number_of_keypoints(joints, seed):
    objects = random_keypoints(seed, joints, classes=2)
    people = objects[0]["annotations"]
    for person in people[:1]:
        person["iscrowd"] = 1
    for person, counted in zip(people[1:3], (0, joints)):  # both are compared by their boxes, the first is ignored
        person.update(keypoints=[0, 0, 0] * joints, num_keypoints=counted)
    same_keypoint_runs(*keypoint_runs(objects, kpt_oks_sigmas=random_sigmas(joints)))


SIGMAS = golden("sigmas_golden.npz")


@pytest.mark.parametrize("name", sorted(SIGMAS.about["scenes"]))
def test_sigmas_that_are_not_those_of_coco(name):
    """Against what xtcocotools left (tools/make_protocol_goldens.py)."""
    about, (joints, seed) = SIGMAS.about["scenes"][name], map(int, name.split("_"))
    objects, sigmas = common_rules(random_keypoints(seed, joints, classes=2)), random_sigmas(joints)
    assert digest((objects, sigmas)) == about["objects"], "not the scene that was evaluated"
    e = run(keypoint_evaluator(OURS, objects), kpt_oks_sigmas=sigmas).e
    assert e.stats.tolist() == about["stats"]
    assert {key: digest(e.eval[key]) for key in ("precision", "recall", "scores")} == about["arrays"]


def test_scenes_of_other_sigmas_are_neither_all_right_nor_all_wrong():
    precisions = np.array([scene["stats"][0] for scene in SIGMAS.about["scenes"].values()])
    assert ((precisions > 0) & (precisions < 1)).sum() > 15


def test_real_people():
    objects = gzipped_json("keypoints_1_image.json.gz"), gzipped_json("keypoints_1_image_results.json.gz")
    theirs, ours = keypoint_runs(objects)
    same_keypoint_runs(theirs, ours)
    assert theirs.e.stats[0] > 0.2


@pytest.mark.parametrize(("seed", "kind"), [(2, "keypoints"), (3, "keypoints"), (2, "keypoints_crowd")])
def test_torch_gives_what_numpy_gives(seed, kind, monkeypatch, device):
    crowd = kind == "keypoints_crowd"
    objects = random_keypoints(seed, 14 if crowd else 17, crowdpose=crowd)
    numpy = run(keypoint_evaluator(OURS, objects, kind))
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(device))
    torches = run(keypoint_evaluator(OURS, objects, kind))
    assert isinstance(torches.e._records.engine, TorchEngine)
    assert torches.text == numpy.text
    same_arrays(numpy.e.eval, torches.e.eval)
    monkeypatch.undo()
    expected = numpy.e.ious
    # What a caller reads one by one is found on the CPU, whatever the device.
    monkeypatch.setattr("valor_gpu.coco.engine.NumpyEngine", lambda: TorchEngine(torch.device("cpu")))
    for key, values in expected.items():
        np.testing.assert_allclose(torches.e.ious[key], values, rtol=1e-15, atol=1e-40)


@pytest.mark.parametrize("seed", range(4))
def test_steps_that_are_overridden(seed):
    def base(evaluator):
        return type("Mine", (evaluator,), {"evaluateImg": lambda self, *args: evaluator.evaluateImg(self, *args)})

    same_keypoint_runs(*keypoint_runs(random_keypoints(seed, classes=2), base))


def test_files(tmp_path):
    import json

    objects = random_keypoints(4)
    paths = [tmp_path / name for name in ("truth.json", "found.json")]
    for path, value in zip(paths, objects):
        path.write_text(json.dumps(value))
    truth = quietly(OURS.COCO, paths[0])[0]
    found = quietly(truth.loadRes, str(paths[1]))[0]
    ours = run(OURS.COCOeval(truth, found, "keypoints"))
    assert truth._dataset is None and found._dataset is None  # no objects were made
    same_arrays(run(keypoint_evaluator(THEIRS, objects)).e.eval, ours.e.eval)


def test_categories_that_are_pooled_in_the_corrected_convention():
    objects = random_keypoints(8, classes=3)
    strict = run(keypoint_evaluator(OURS, objects), useCats=0)
    corrected = run(keypoint_evaluator(OURS, objects, convention="corrected"), useCats=0)
    assert not any(len(values) for values in strict.e.ious.values())
    assert strict.e.stats[0] == 0 and corrected.e.stats[0] > 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["annotations"][0].pop("num_keypoints"), r"annotations\[0\] must have num_keypoints, a"),
        (lambda d: d["annotations"][0].pop("keypoints"), r"annotations\[0\] must have keypoints"),
        (lambda d: d["annotations"][0].pop("bbox"), r"annotations\[0\] must have bbox"),
        (lambda d: d["annotations"][0].update(area=-1.0), r"annotations\[0\].area \(id 1\) must .* not neg"),
        (lambda d: d["annotations"][0].update(keypoints=[1, 2, 2] * 16), r"annotations\[0\].keypoints must be 51"),
        (lambda d: d["annotations"][0].update(bbox=[0, 0, 1, float("nan")]), r"annotations\[0\].bbox .* be finite"),
    ],
)  # fmt: skip
def test_errors_name_the_annotation(change, message):
    dataset, results = random_keypoints(5)
    change(dataset)
    with pytest.raises(InputError, match=message):
        run(keypoint_evaluator(OURS, (dataset, results)))


def test_errors_in_results():
    dataset, results = random_keypoints(5)
    results[1] = {**results[1], "keypoints": [1, 2]}
    with pytest.raises(InputError, match=r"\[1\].keypoints must be finite numbers, x, y and visib"):
        run(keypoint_evaluator(OURS, (dataset, results)))


@pytest.mark.parametrize(
    ("sigmas", "message"),
    [
        ([], r"params\.kpt_oks_sigmas must be one number for each keypoint, at least one, but got none$"),
        ([0.1] * 14, r"params\.kpt_oks_sigmas must be one .* of the 17 keypoints of \w+\[\d+\] but got 14$"),
        ([0.1] * 18, r"params\.kpt_oks_sigmas must be one .* of the 17 keypoints of \w+\[\d+\] but got 18$"),
        ([0.1] * 16 + [0], r"params\.kpt_oks_sigmas must be above 0 and finite but got 0\.0 at index 16$"),
        (["a"], r"params\.kpt_oks_sigmas must be numbers but got \['a'\]"),
    ],
)
@pytest.mark.parametrize("kind", ["keypoints", "keypoints_crowd"])
def test_errors_name_the_sigmas(sigmas, message, kind):
    objects = random_keypoints(5, crowdpose=kind != "keypoints")
    with pytest.raises(InputError, match=message):
        run(keypoint_evaluator(OURS, objects, kind), kpt_oks_sigmas=sigmas)


def test_keypoints_of_one_side_that_differ_are_not_the_sigmas():
    dataset, results = random_keypoints(5)
    results = [{**r, "keypoints": r["keypoints"][:42]} for r in results]
    with pytest.raises(InputError, match=r"keypoints must be 51 finite numbers"):
        run(keypoint_evaluator(OURS, (dataset, results)))
