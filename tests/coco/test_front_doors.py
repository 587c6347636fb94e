"""Paths of pycocotools' and lvis-api's names in programs and in pickles of older releases."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import numpy as np
import pytest

import valor_gpu.coco
from testing.lvis_scenes import random_lvis
from tests.coco.comparison import quietly
from tests.coco.test_lvis import evaluated
from valor_gpu.coco import COCO, COCOeval

DOORS = {
    "dataset": ("COCO",),
    "evaluator": ("COCOeval",),
    "lvis": ("LVIS", "LVISResults"),
    "lvis_eval": ("LVISEval", "LVISParams"),
    "params": ("Params",),
}
OLD_PATHS = {
    "valor_gpu.compat.pycocotools.coco": "valor_gpu.coco.dataset",
    "valor_gpu.compat.pycocotools.cocoeval": "valor_gpu.coco.evaluator",
    "valor_gpu.compat.lvis.lvis": "valor_gpu.coco.lvis",
    "valor_gpu.compat.lvis.eval": "valor_gpu.coco.lvis_eval",
    "valor_gpu.ops.accumulate.types": "valor_gpu.ops.accumulate_types",
    "valor_gpu.ops.assign.match_batch": "valor_gpu.ops.match_batch",
}


@pytest.mark.parametrize(("module", "names"), DOORS.items())
def test_old_paths_give_the_public_classes(module: str, names: tuple[str, ...]) -> None:
    found = importlib.import_module(f"valor_gpu.coco.{module}")
    assert [getattr(found, name) for name in names] == [getattr(valor_gpu.coco, name) for name in names]


def test_both_paths_of_masks_give_the_same_functions() -> None:
    ours, door = (importlib.import_module(f"valor_gpu.{path}.mask") for path in ("compat.pycocotools", "coco"))
    assert len(door.__all__) == 7 and all(getattr(door, name) is getattr(ours, name) for name in door.__all__)
    assert valor_gpu.coco.mask is door


def through_an_old_pickle(value: Any) -> Any:
    """The value from a pickle that names its classes by the paths of older releases."""
    text = pickle.dumps(value, protocol=0)
    for new, old in OLD_PATHS.items():
        text = text.replace(f"c{new}\n".encode(), f"c{old}\n".encode())
    assert b"valor_gpu.compat" not in text and b"valor_gpu.coco" in text
    return pickle.loads(text)


def test_an_old_pickle_of_an_evaluation_goes_on() -> None:
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}
    truth = COCO()
    truth.dataset = {
        "images": [{"id": 1}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "area": 81, "iscrowd": 0, **box}],
    }
    e = quietly(lambda: COCOeval(truth, truth.loadRes([{**box, "bbox": [0, 0, 9, 8], "score": 0.5}]), "bbox"))[0]
    for unfinished in (True, False):
        again = through_an_old_pickle(e)
        for each in (e, again):
            quietly(lambda each=each: [step() for step in (each.evaluate, each.accumulate, each.summarize)])
        np.testing.assert_array_equal(again.stats, e.stats, err_msg=f"before evaluate(): {unfinished}")
    again = through_an_old_pickle(e)
    quietly(again.accumulate)
    assert again.result().to_dict()["values"] == e.result().to_dict()["values"]
    assert again.cocoDt.loadAnns(1) == e.cocoDt.loadAnns(1) and [*again.ious] == [(1, 1)]


def test_an_old_pickle_of_an_lvis_evaluation_goes_on(tmp_path: Any) -> None:
    e = evaluated(tmp_path, *random_lvis(3, masks=False))
    again = through_an_old_pickle(e)
    assert again.results == e.results and again.result().to_dict()["values"] == e.result().to_dict()["values"]
    again.run()
    assert again.results == e.results and again.lvis_dt.dataset == e.lvis_dt.dataset
