"""Quirks of pycocotools in parameters, accumulation and summary, by name, as test_quirks.py has those of the data."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.coco.comparison import (
    OURS,
    THEIRS,
    both,
    corrected,
    evaluator,
    quietly,
    random_objects,
    run,
    same,
    same_arrays,
    same_runs,
)
from valor_gpu.errors import InputError


def test_max_detections_other_than_100():
    objects = random_objects(1)
    theirs, ours = both(objects, maxDets=[1, 10, 300])
    same_runs(theirs, ours)
    assert ours.e.stats[0] == -1 < ours.e.stats[1]
    mended = corrected(objects, maxDets=[1, 10, 300])
    assert mended.e.stats[0] == corrected(objects).e.stats[0] > 0
    assert "area=   all | maxDets=300 ] = " in mended.text


@pytest.mark.parametrize(
    "grid",
    [dict(iouThrs=np.array([0.5, 1.5])), dict(recThrs=np.array([0.0, 0.5, 5.0])), dict(recThrs=np.array([-0.5, 1]))],
)
def test_grids_beyond_0_and_1(grid):
    objects = random_objects(1)
    same_runs(*both(objects, **grid))
    with pytest.raises(InputError, match=rf"params\.{next(iter(grid))} must lie between 0 and 1 but got \["):
        corrected(objects, **grid)
    mended = corrected(objects).e
    mended.params.recThrs = np.array([0.0, np.nan])
    with pytest.raises(InputError, match=r"params\.recThrs must lie between 0 and 1 but got \[0\.0, nan\]"):
        quietly(mended.accumulate)


@pytest.mark.parametrize("limits", [[100], [10, 100]])
def test_fewer_than_three_limits(limits):
    objects = random_objects(1)
    pair = [evaluator(side, objects) for side in (THEIRS, OURS)]
    for e in pair:
        text = run(e, summarize=False, maxDets=limits).text
        assert text.count("DONE") == 2
    with pytest.raises(IndexError, match="list index out of range"):
        quietly(pair[0].summarize)
    with pytest.raises(IndexError, match=r"params.maxDets must hold at least 3 limits .* but got \[.*100\]"):
        quietly(pair[1].summarize)
    same_arrays(pair[0].eval, pair[1].eval)
    mended = corrected(objects, maxDets=limits)
    assert mended.text.count("maxDets=100") == (12 if len(limits) == 1 else 11)


def test_more_than_three_limits():
    objects = random_objects(1, most=150)
    theirs, ours = both(objects, maxDets=[1, 2, 3, 100])
    same_runs(theirs, ours)
    assert ours.text.count("maxDets=  3") == 9
    mended = corrected(objects, maxDets=[1, 2, 3, 100])
    assert mended.text.count("maxDets=100") == 10
    assert mended.e.stats[8] > ours.e.stats[8]


def test_thresholds_as_a_list():
    objects = random_objects(1)
    theirs, ours = both(objects)
    for e in (corrected(objects, iouThrs=theirs.e.params.iouThrs.tolist()), run(ours.e, iouThrs=[0.5, 0.75])):
        assert e.e.stats[1] == theirs.e.stats[1] > 0


def test_str_gives_the_summary():
    theirs, ours = both(random_objects(1))
    with pytest.raises(TypeError, match="__str__ returned non-string"):
        quietly(str, theirs.e)
    assert str(ours.e) in ours.text


def test_use_cats_0_overwrites_cat_ids():
    objects = random_objects(4)
    theirs, ours = both(objects, useCats=0)
    same_runs(theirs, ours)
    assert ours.e.params.catIds == [-1]
    again = [run(one.e) for one in (theirs, ours)]
    same_runs(*again)
    assert again[1].e.stats[0] == -1
    mended = corrected(objects, useCats=0)
    assert len(mended.e.params.catIds) == 4
    assert mended.e.stats[0] > 0
    first = mended.e.stats
    same(first, run(mended.e).e.stats)


def test_accumulate_takes_cells_by_position():
    objects = random_objects(5, images=6)
    pair = [evaluator(side, objects) for side in (THEIRS, OURS)]
    for e in pair:
        quietly(e.evaluate)
        p = copy.deepcopy(e.params)
        p.catIds, p.maxDets = [e.params.catIds[2]], [100, 1]
        quietly(e.accumulate, p)
    same_arrays(pair[0].eval, pair[1].eval)
    whole = run(evaluator(OURS, objects)).e.eval
    same(
        np.ascontiguousarray(whole["precision"][:, :, :1, :, ::-2]), pair[1].eval["precision"]
    )  # that of the first category


def test_accumulate_by_value():
    objects = random_objects(5, images=6)
    e = corrected(objects).e
    whole, p = e.eval, copy.deepcopy(e.params)
    p.catIds, p.maxDets, p.areaRng = [e.params.catIds[2], e.params.catIds[0]], [100, 1], e.params.areaRng[:0:-1]
    quietly(e.accumulate, p)
    for name in ("precision", "recall", "scores"):
        part = whole[name][..., [2, 0], :, :][..., :0:-1, :][..., ::-2]
        same(np.ascontiguousarray(part), e.eval[name])
    p = copy.deepcopy(e.params)
    p.imgIds = e.params.imgIds[3:0:-1]
    quietly(e.accumulate, p)
    same_arrays(corrected(objects, imgIds=p.imgIds).e.eval, e.eval)
    p.imgIds = p.imgIds * 2
    quietly(e.accumulate, p)
    same_arrays(corrected(objects, imgIds=p.imgIds).e.eval, e.eval)
    for name, value in (("catIds", [55]), ("imgIds", [999]), ("maxDets", [7]), ("areaRng", [[1, 2]])):
        p = copy.deepcopy(e.params)
        setattr(p, name, value)
        with pytest.raises(InputError, match=f"params.{name} must hold only what was evaluated but has"):
            quietly(e.accumulate, p)


def test_recall_grid_out_of_order():
    objects, grid = random_objects(6), np.array([0.9, 0.1, 1.0, 0.3, 0.0])
    theirs, ours = both(objects, recThrs=grid)
    same_runs(theirs, ours)
    mended, ordered = corrected(objects, recThrs=grid), corrected(objects, recThrs=np.sort(grid))
    for name in ("precision", "scores"):
        same(np.ascontiguousarray(ordered[name][:, np.argsort(np.argsort(grid))]), mended[name])
    assert (mended["precision"] > ours["precision"]).any()


@pytest.mark.parametrize("grid", [[0.0, 0.5, np.nan], [np.nan, 0.0, 0.1], [0.0, np.nan, 0.1]])
def test_nothing_reaches_a_recall_that_is_nan(grid):
    same_runs(*both(random_objects(6), recThrs=np.array(grid)))


def test_nothing_to_evaluate_prints_the_reminder():
    theirs, ours = both(random_objects(1), imgIds=[])
    same_runs(theirs, ours)
    assert "Please run evaluate() first" in ours.text


def test_accumulate_before_evaluate():
    objects = random_objects(1)
    with pytest.raises(AttributeError, match="'dict' object has no attribute"):
        quietly(evaluator(THEIRS, objects).accumulate)
    with pytest.raises(InputError, match=r"accumulate\(\) needs evaluate\(\), which has not been run"):
        quietly(evaluator(OURS, objects).accumulate)
