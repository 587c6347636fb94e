"""State files of evaluations: parts, pooled categories, keypoints, LVIS, ids that are texts; records that lie."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testing.keypoint_scenes import random_keypoints
from testing.lvis_scenes import random_lvis
from tests.coco.comparison import OURS, random_objects, run
from tests.coco.test_keypoints import keypoint_evaluator
from tests.coco.test_lvis import evaluated as lvis_evaluated
from tests.coco.test_parts import AXES, accumulated, of_dataset, random_part
from tests.fuzz import seeds
from valor_gpu.coco.torch_engine import TorchEngine
from valor_gpu.comparison.state_files import load_state_file
from valor_gpu.errors import InputError
from valor_gpu.result import Result
from valor_gpu.state_file import StateFile, document_of, read_state, write_state
from valor_gpu.stats import compare

CONVENTIONS = pytest.mark.parametrize("convention", ["strict", "corrected"])


def same(evaluation: Any, path: Path) -> Result:
    """Saves and loads an evaluation; its result and the intervals of it are the same bits."""
    evaluation.save_state(path)
    loaded, result = load_state_file(path), evaluation.result()
    assert loaded.notes == () and document_of(loaded.result) == document_of(result)
    found = loaded.result.provenance  # of the data: records of a state cannot be hashed as annotations
    assert dict(found) == dict(result.provenance)
    hashes = [found["ground_truth"], found["predictions"]]
    assert all(len(each) == 64 for each in hashes if each) and (None not in hashes or found["reasons"])
    drawn, expected = (each.with_intervals(10).to_dict()["intervals"] for each in (loaded.result, result))
    assert drawn == expected
    return loaded.result


@CONVENTIONS
@pytest.mark.parametrize("seed", seeds(6))
def test_parts_of_random_evaluations(seed: int, convention: str, tmp_path: Path) -> None:
    rng, objects = np.random.default_rng(seed), random_objects(seed, classes=5, images=8, first_id=seed % 2)
    e = of_dataset(objects, convention, **AXES)
    same(e, tmp_path / "whole.state")
    for number in range(3):
        same(accumulated(e, **random_part(rng, e)), tmp_path / f"{number}.state")


@CONVENTIONS
def test_pooled_categories_and_ids_that_are_texts(convention: str, tmp_path: Path) -> None:
    objects = random_objects(4, classes=3, images=6)
    same(of_dataset(objects, convention, useCats=0), tmp_path / "a.state")
    truth, results = objects
    for image in truth["images"]:
        image["id"] = f"i{image['id']}"
    for each in (*truth["annotations"], *results):
        each["image_id"] = f"i{each['image_id']}"
    loaded = same(of_dataset(objects, convention), tmp_path / "b.state")
    clusters = {image["id"]: place // 2 for place, image in enumerate(truth["images"])}
    found = compare(loaded, tmp_path / "b.state", replicates=10, clusters=clusters)
    assert found.values["difference"]["map"] == 0


@CONVENTIONS
def test_keypoints_and_the_groups_of_crowdpose(convention: str, tmp_path: Path) -> None:
    for kind, crowdpose in (("keypoints", False), ("keypoints_crowd", True)):
        objects = random_keypoints(2, 14 if crowdpose else 17, crowdpose=crowdpose)
        e = run(keypoint_evaluator(OURS, objects, kind, convention=convention), summarize=False).e
        result = same(e, tmp_path / f"{kind}.state")
        assert ("map_crowding_easy" in result.with_intervals(10).intervals) == crowdpose


@pytest.mark.parametrize("seed", [3, 8])
def test_lvis(seed: int, tmp_path: Path) -> None:
    objects = random_lvis(seed, False)
    for place, category in enumerate(objects[0]["categories"]):
        category["frequency"] = "rcf"[place % 3]
    same(lvis_evaluated(tmp_path, *objects), tmp_path / "lvis.state")


def test_files_are_the_same_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = random_objects(9, classes=4, images=12)
    of_dataset(objects, "strict").save_state(tmp_path / "library.state")
    torch_engine = TorchEngine(torch.device("cpu"))
    for module in ("valor_gpu.coco.engine", "valor_gpu.coco.saved_state"):
        monkeypatch.setattr(f"{module}.engine_on", lambda device=None: torch_engine)
    e = of_dataset(objects, "strict")
    assert e._records.engine is torch_engine
    mine, theirs = same(e, tmp_path / "torch.state"), load_state_file(tmp_path / "library.state").result
    assert document_of(mine)["values"] == document_of(theirs)["values"]
    assert mine.with_intervals(10).to_dict()["intervals"] == theirs.with_intervals(10).to_dict()["intervals"]
    files = [read_state(tmp_path / f"{name}.state") for name in ("torch", "library")]
    for name, array in files[0].arrays.items():
        assert np.array_equal(array, files[1].arrays[name]), name


def test_what_has_no_state_says_so(tmp_path: Path) -> None:
    e = of_dataset(random_objects(1, classes=3), "strict")
    e.evalImgs[0] = None
    accumulated(e)
    with pytest.raises(InputError, match="accumulate\\(\\) followed evalImgs"):
        e.save_state(tmp_path / "a.state")
    assert not (tmp_path / "a.state").exists() and e.to_run().state == b""
    e = of_dataset(random_objects(1, classes=3), "corrected")
    with pytest.raises(InputError, match="intervals need categories in ascending order"):
        accumulated(e, catIds=e.params.catIds[::-1]).save_state(tmp_path / "a.state")


def changed(**arrays: Any) -> Callable[[StateFile], StateFile]:
    def change(file: StateFile) -> StateFile:
        found = {name: arrays[name](array.copy()) if name in arrays else array for name, array in file.arrays.items()}
        return StateFile(file.kind, file.choices, found, file.document)

    return change


def other(**choices: Any) -> Callable[[StateFile], StateFile]:
    return lambda file: StateFile(file.kind, {**file.choices, **choices}, file.arrays, file.document)


def with_byte(column: int, value: int) -> Callable[[Any], Any]:
    def change(rows: Any) -> Any:
        rows[0, column] = value
        return rows

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(detections=with_byte(11, 255)), "detections that no evaluation has"),
        (changed(detections=with_byte(9, 200)), "detections that no evaluation has"),
        (changed(detections=with_byte(12, 200)), "detections that no evaluation has"),
        (changed(ground_truths=with_byte(1, 9)), "ground_truths that no evaluation has"),
        (changed(detections=lambda rows: rows[:-1]), "lengths that no evaluation has"),
        (changed(detections=lambda rows: rows[:, 1:]), r"detections must be uint8 \[N, 23\]"),
        (changed(lengths=lambda lengths: -lengths), "lengths that no evaluation has"),
        (changed(lengths=lambda lengths: lengths.astype(np.int32)), "lengths that no evaluation has"),
        (changed(image_positions=lambda places: places * 0), "image_positions that no evaluation has"),
        (changed(recalls=lambda recalls: recalls.astype(np.float32)), "recalls that no evaluation has"),
        (changed(gt_hashes=lambda hashes: hashes[1:]), "gt_hashes that no evaluation has"),
        (changed(gt_hashes=lambda hashes: hashes.astype(np.float64)), "gt_hashes that no evaluation has"),
        (other(categories=[0, 9]), "categories that no evaluation has"),
        (other(areas=[-1]), "areas that no evaluation has"),
        (other(images=[100]), "images that no evaluation has"),
        (other(limits=[7]), "limits that no evaluation has"),
        (other(ids=[]), "ids that no evaluation has"),
        (other(ids=[{}]), "has ids that are no numbers and texts"),
        (other(ids="ab"), "has ids that are no numbers and texts"),
        (other(ids=[3, 3]), "has an id twice"),
        (other(names=["a"]), "names that no evaluation has"),
        (other(shape=[0, 4, 3]), "that no evaluation has|must be uint8"),
        (other(picks={"map": ["counts", 0, 0, [0]]}), "picks that no evaluation has"),
        (other(picks={"map": []}), "must hold its records but has"),
        (other(groups=None), "another form|must hold its records"),
    ],
)
def test_records_that_lie_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    of_dataset(random_objects(1, classes=3), "strict").save_state(tmp_path / "a.state")
    write_state(tmp_path / "b.state", change(read_state(tmp_path / "a.state")))
    with pytest.raises(InputError, match=message):
        load_state_file(tmp_path / "b.state")


@CONVENTIONS
def test_slices_of_a_file_are_those_of_the_evaluation(convention: str, tmp_path: Path) -> None:
    e = of_dataset(random_objects(9, classes=4, images=12), convention)
    for number, evaluated in enumerate((e, accumulated(copy.copy(e), imgIds=e.params.imgIds[:8]))):
        evaluated.save_state(tmp_path / "a.state")
        ids = evaluated.result()._asked("by", None).image_ids
        table = {"image_id": list(ids), "light": ["day" if place % 3 else "night" for place in range(len(ids))]}
        names = ["map", "map_50", "map_small", "mar_100"]
        mine, theirs = (
            result.by(table, "light", numbers=names, intervals=10)
            for result in (load_state_file(tmp_path / "a.state").result, evaluated.result())
        )
        assert mine["images"] == theirs["images"] and number in (0, 1)
        for name in (*names, "map_low", "map_high"):
            np.testing.assert_equal(mine[name], theirs[name])


def test_slices_of_lvis_and_what_records_cannot_answer(tmp_path: Path) -> None:
    objects = random_lvis(3, False)
    for place, category in enumerate(objects[0]["categories"]):
        category["frequency"] = "rcf"[place % 3]
    e = lvis_evaluated(tmp_path, *objects)
    e.save_state(tmp_path / "lvis.state")
    loaded = load_state_file(tmp_path / "lvis.state").result
    ids = e.result()._asked("by", None).image_ids
    table = {"image_id": list(ids), "half": [place % 2 for place in range(len(ids))]}
    for name in ("map", "map_rare"):
        mine, theirs = (each.by(table, "half", numbers=[name])[name] for each in (loaded, e.result()))
        np.testing.assert_equal(mine, theirs)
    with pytest.raises(InputError, match=r"errors\(\) is not defined for results of LVISEval"):
        loaded.errors()
