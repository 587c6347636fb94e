"""Runs the same evaluation with pycocotools and with valor_gpu.coco, and compares all that they leave."""

from __future__ import annotations

import contextlib
import copy
import io
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from testing.oracles import pycocotools
from testing.scenes import random_scene
from valor_gpu.coco import COCO, COCOeval


class _Pycocotools:
    """Both classes of pycocotools, loaded by the first test that needs them."""

    @property
    def COCO(self) -> Any:
        return pycocotools("coco").COCO

    @property
    def COCOeval(self) -> Any:
        return pycocotools("cocoeval").COCOeval


THEIRS = _Pycocotools()
OURS = SimpleNamespace(COCO=COCO, COCOeval=COCOeval)
ARRAYS = ("precision", "recall", "scores")
ID_WARNING = r"[\d,]+ (ground truth|detection|image|categor)\w* \w+ (id 0|an id of 0 or below|the id of an earlier one)"

Objects = tuple[dict[str, Any], list[dict[str, Any]]]


@dataclass
class Run:
    """An evaluator after evaluate, accumulate and summarize, and what it printed, times left out."""

    e: Any
    text: str

    def __getitem__(self, name: str) -> Any:
        return self.e.eval[name]


def random_objects(seed: int, classes: int = 4, first_id: int = 1, **sizes: int) -> Objects:
    """A dataset and results out of :func:`random_scene`; image ids are neither dense nor in order."""
    rng = np.random.default_rng(seed)
    scene = random_scene(rng, classes=classes, **sizes)
    ids = (rng.permutation(len(scene.boxes)) * 7 + 3).tolist()
    annotations, results = [], []
    for i, image in enumerate(ids):
        columns = (scene.gt_boxes, scene.gt_labels, scene.areas, scene.crowds)
        for box, label, area, crowd in zip(*(column[i].tolist() for column in columns)):
            annotations.append(
                {"id": len(annotations) + first_id, "image_id": image, "category_id": label * 3 + 1, "bbox": box}
                | {"area": area, "iscrowd": crowd}
            )
        for box, label, score in zip(*(c[i].tolist() for c in (scene.boxes, scene.labels, scene.scores))):
            results.append({"image_id": image, "category_id": label * 3 + 1, "bbox": box, "score": score})
    categories = [{"id": k * 3 + 1, "name": f"class {k}"} for k in range(classes)]
    if not annotations or not results:
        return random_objects(seed + 1000, classes, first_id, **sizes)
    rng.shuffle(annotations)
    return {"images": [{"id": i} for i in ids], "categories": categories, "annotations": annotations}, results


def boxes_of(*rows: tuple[float, ...], **fields: Any) -> list[dict[str, Any]]:
    """Annotations or detections of image 1, category 1 with these boxes; area is width x height."""
    base = {"image_id": 1, "category_id": 1, "iscrowd": 0}
    return [{"id": n, **base, "bbox": list(b), "area": b[2] * b[3], **fields} for n, b in enumerate(rows, 1)]


def dataset_of(annotations: list[dict[str, Any]], images: int = 1, categories: int = 1) -> dict[str, Any]:
    """A dataset with images and categories 1, 2, ..."""
    return {
        "images": [{"id": i + 1} for i in range(images)],
        "categories": [{"id": k + 1, "name": f"class {k + 1}"} for k in range(categories)],
        "annotations": annotations,
    }


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """What a call gives and what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        result = function(*args, **kwargs)
    return result, re.sub(r"t=[\d.]+s", "t", text.getvalue())


def load(side: Any, dataset: dict[str, Any]) -> Any:
    """A COCO object that holds a copy of ``dataset``."""

    def fill() -> Any:
        coco = side.COCO()
        coco.dataset = copy.deepcopy(dataset)
        coco.createIndex()
        return coco

    return quietly(fill)[0]


def evaluator(side: Any, objects: Objects, evaluator_class: Any = None, **options: Any) -> Any:
    """An evaluator that has not run."""
    truth = load(side, objects[0])
    found = quietly(truth.loadRes, copy.deepcopy(objects[1]))[0]
    return (evaluator_class or side.COCOeval)(truth, found, "bbox", **options)


def run(e: Any, summarize: bool = True, **params: Any) -> Run:
    """Evaluate, accumulate and summarize with these parameters."""
    for name, value in params.items():
        setattr(e.params, name, copy.deepcopy(value))

    def all_steps() -> None:
        with ids_untold():
            e.evaluate()
        e.accumulate()
        if summarize:
            e.summarize()

    return Run(e, quietly(all_steps)[1])


@contextlib.contextmanager
def ids_untold() -> Iterator[None]:
    """Without the warning of ids that are 0 or repeat, which scenes have on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ID_WARNING, UserWarning)
        yield


def both(objects: Objects, summarize: bool = True, **params: Any) -> tuple[Run, Run]:
    """(theirs, ours)."""
    theirs, ours = (run(evaluator(side, objects), summarize, **params) for side in (THEIRS, OURS))
    return theirs, ours


def same(theirs: Any, ours: Any, path: str = "") -> None:
    """Assert equal types, order, dtypes, layouts and bytes, all the way down."""
    assert type(theirs) is type(ours), path
    if isinstance(theirs, dict):
        assert list(theirs) == list(ours), path
        for key in theirs:
            same(theirs[key], ours[key], f"{path}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        assert len(theirs) == len(ours), path
        for n, (x, y) in enumerate(zip(theirs, ours)):
            same(x, y, f"{path}[{n}]")
    elif isinstance(theirs, np.ndarray):
        assert (theirs.dtype, theirs.shape) == (ours.dtype, ours.shape), path
        assert theirs.flags.c_contiguous == ours.flags.c_contiguous, path
        assert theirs.tobytes() == ours.tobytes(), path
    else:
        assert theirs == ours or (theirs != theirs and ours != ours), path


def same_arrays(theirs: Any, ours: Any) -> None:
    """Assert equal arrays of two ``eval`` dicts."""
    for name in ARRAYS:
        same(theirs[name], ours[name], name)
    assert theirs["counts"] == ours["counts"]


def same_runs(theirs: Run, ours: Run) -> None:
    """Assert that two runs printed and left the same."""
    assert theirs.text == ours.text
    same(theirs.e.stats, ours.e.stats, "stats")
    same_arrays(theirs.e.eval, ours.e.eval)
    for name in ("evalImgs", "ious"):
        same(getattr(theirs.e, name), getattr(ours.e, name), name)
    for name in ("imgIds", "catIds", "maxDets"):
        same(getattr(theirs.e.params, name), getattr(ours.e.params, name), name)


def corrected(objects: Objects, **params: Any) -> Run:
    """A run of ours in the corrected convention."""
    return run(evaluator(OURS, objects, convention="corrected"), **params)


def found(truths: list[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
    """One perfect detection for each ground truth."""
    keys = ("image_id", "category_id", "bbox")
    truths = copy.deepcopy(truths)
    return [{key: t[key] for key in keys} | {"score": 0.9 - n / 100} | fields for n, t in enumerate(truths)]


def with_datasets(side: Any, truths: dict[str, Any], detections: list[dict[str, Any]], **options: Any) -> Any:
    """An evaluator whose detections are a dataset of their own, so that ids and areas are what they say."""
    found_set = load(side, {**truths, "annotations": detections})
    return side.COCOeval(load(side, truths), found_set, "bbox", **options)
