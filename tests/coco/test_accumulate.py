"""COCOeval.accumulate with other parameters, and the dict of arrays that are made when looked at."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tests.coco.comparison import (
    OURS,
    THEIRS,
    both,
    evaluator,
    quietly,
    random_objects,
    run,
    same,
    same_arrays,
)
from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.errors import InputError


@pytest.mark.parametrize(
    "changes",
    [
        {"recThrs": np.linspace(0, 1, 11)},
        {"maxDets": [10]},
        {"maxDets": [100, 1]},
        {"maxDets": [5, 100]},
        {"maxDets": []},
        {"catIds": [1]},
        {"catIds": [7]},
        {"catIds": [55, 4]},
        {"areaRng": [[0, 1024], [5, 6]], "areaRngLbl": ["small", "odd"]},
        {"areaRng": [[5, 6]] * 4 + [[0, 1e10]], "areaRngLbl": [*"abcd", "all"], "catIds": [1, 4]},
        {"imgIds": [3, 10]},
        {"imgIds": [24, 24, 3]},
        {"imgIds": [0] * 40 + [3, 10], "areaRng": [[0, 1e10]], "areaRngLbl": ["all"], "catIds": [1]},
        {"iouThrs": np.linspace(0.5, 0.95, 12)},
        {"useCats": 0},
    ],
)
@pytest.mark.parametrize("touch", [False, True])
def test_accumulate_with_other_parameters(changes, touch):
    sides = [evaluator(side, random_objects(8, images=9)) for side in (THEIRS, OURS)]
    for e in sides:
        quietly(e.evaluate)
        assert not touch or e.evalImgs
        p = copy.deepcopy(e.params)
        for name, value in changes.items():
            setattr(p, name, value)
        quietly(e.accumulate, p)
        assert e.eval["params"] is p
    same_arrays(sides[0].eval, sides[1].eval)


@pytest.mark.parametrize("limits", [[100, 1, 10], [10, 100, 100], [1, 10, 7], [7, 10, 100]])
def test_summary_of_limits_changed_after_the_evaluation(limits):
    sides = [evaluator(side, random_objects(8, most=60)) for side in (THEIRS, OURS)]
    for e in sides:
        quietly(e.evaluate)
        e.params.maxDets = limits
        for step in (e.accumulate, e.summarize):
            quietly(step)
    same(sides[0].stats, sides[1].stats)


def test_parameters_changed_in_place_after_the_evaluation():
    sides = [evaluator(side, random_objects(8, most=60)) for side in (THEIRS, OURS)]
    for e in sides:
        quietly(e.evaluate)
        e.params.catIds = [55, 4]
        e._paramsEval.maxDets = [1, 7, 100]
        e.params.maxDets = [7, 10, 100]
        quietly(e.accumulate)
    same_arrays(sides[0].eval, sides[1].eval)


@pytest.mark.parametrize("images", [[3, 10], [3, 10, 17, 24, 31, 38, 45, 52, 59, 66]])
def test_evaluated_images_changed_in_place_after_the_evaluation(images):
    sides = [evaluator(side, random_objects(8, images=9)) for side in (THEIRS, OURS)]
    for e in sides:
        quietly(e.evaluate)
        e._paramsEval.imgIds = images
    try:
        quietly(sides[0].accumulate)
    except IndexError:
        with pytest.raises(InputError, match="evalImgs must hold an entry for each category, area range and image"):
            quietly(sides[1].accumulate)
        return
    quietly(sides[1].accumulate)
    same_arrays(sides[0].eval, sides[1].eval)


def test_accumulate_after_the_recall_grid_changed_keeps_the_old_dict():
    ours = run(evaluator(OURS, random_objects(8))).e
    before = ours.eval
    ours.params.recThrs = np.array([0.5])
    quietly(ours.accumulate)
    assert before["precision"].shape[1] == 101
    assert ours.eval["precision"].shape[1] == 1


def test_arrays_are_made_when_looked_at():
    theirs, ours = both(random_objects(9))
    arrays = ours.e.eval
    assert isinstance(arrays, EvalDict)
    assert arrays.pending
    assert list(arrays) == list(theirs.e.eval)
    arrays["recall"], arrays["counts"], arrays.get("date"), "precision" in arrays, len(arrays)
    assert arrays.pending
    same(theirs["precision"], arrays["precision"])
    assert not arrays.pending


@pytest.mark.parametrize(
    "as_dict",
    [
        dict,
        lambda d: {**d},
        lambda d: dict(d.items()),
        lambda d: dict(zip(d.keys(), d.values())),
        lambda d: d.copy(),
        lambda d: d | {},
        lambda d: {} | d,
        lambda d: {k: d.get(k) for k in d},
        lambda d: {k: d.setdefault(k) for k in d},
        lambda d: {k: d.pop(k) for k in list(d)},
        lambda d: dict(reversed([d.popitem() for _ in range(len(d))])),
        copy.copy,
        copy.deepcopy,
        lambda d: pickle.loads(pickle.dumps(d)),
    ],
)
def test_every_way_out_of_the_dict_makes_the_arrays(as_dict):
    theirs, ours = both(random_objects(9))
    plain = as_dict(ours.e.eval)
    assert type(plain) is dict
    assert list(plain) == list(theirs.e.eval)
    same_arrays(theirs.e.eval, plain)


def test_the_dict_keeps_what_the_user_puts_in():
    arrays = run(evaluator(OURS, random_objects(9))).e.eval
    arrays["precision"] = "mine"
    arrays |= {"extra": 1}
    arrays.update(more=2)
    assert arrays["scores"].shape == (10, 101, 4, 4, 3)
    assert arrays["precision"] == "mine"
    del arrays["extra"]
    assert arrays == {**arrays}
    assert arrays != {}
    assert "'more': 2" in repr(arrays)
    arrays.clear()
    assert not arrays


def test_summary_follows_the_arrays():
    theirs, ours = both(random_objects(9))
    for one in (theirs.e, ours.e):
        one.eval["precision"][one.eval["precision"] > 0.5] = 0.25
        quietly(one.summarize)
    same(theirs.e.stats, ours.e.stats)
    for one in (theirs.e, ours.e):
        one.eval = {**one.eval, "precision": np.full_like(one.eval["precision"], 0.125)}
        quietly(one.summarize)
    assert ours.e.stats[0] == 0.125
    same(theirs.e.stats, ours.e.stats)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_between_the_steps(copied):
    objects = random_objects(9)
    theirs, ours = run(evaluator(THEIRS, objects)), evaluator(OURS, objects)
    quietly(ours.evaluate)
    ours = copied(ours)
    quietly(ours.accumulate)
    same_arrays(theirs.e.eval, ours.eval)
    ours = copied(ours)
    quietly(ours.summarize)
    same(theirs.e.stats, ours.stats)
    same(theirs.e.evalImgs, ours.evalImgs)
