"""Ground truths with other names of the same classes are an error that names the first."""

from __future__ import annotations

import contextlib
import copy
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.datasets import ROOT
from tests.comparison.made import evaluated
from valor_gpu.coco import LVIS, LVISEval
from valor_gpu.errors import InputError
from valor_gpu.segmentation.resampled_panoptic import resampled_panoptic
from valor_gpu.stats import compare
from valor_gpu.stats.units import pair_units

_DATA = ROOT / "examples" / "data"
FEW = {"replicates": 20, "permutations": 0}


@pytest.fixture
def truth() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_DATA / "instances_val2014_100.json").read_text())
    return found


@pytest.fixture
def renamed(truth: dict[str, Any]) -> dict[str, Any]:
    other = copy.deepcopy(truth)
    next(each for each in other["categories"] if each["name"] == "dog")["name"] = "hound"
    return other


def test_a_renamed_category_is_an_error(truth: dict[str, Any], renamed: dict[str, Any], tmp_path: Path) -> None:
    old, new = evaluated(truth), evaluated(renamed)
    message = "same class names but 'dog' of old is 'hound' of new$"
    with pytest.raises(InputError, match=message):
        compare({"old": old, "new": new}, **FEW)
    old.save_state(tmp_path / "old.state")
    new.save_state(tmp_path / "new.state")
    with pytest.raises(InputError, match=message):
        compare({"old": tmp_path / "old.state", "new": tmp_path / "new.state"}, **FEW)
    with pytest.raises(InputError, match="must have the same ground truth"):
        compare(new.result().olrp(), old.result().olrp(), **FEW)


def test_names_of_pooled_categories_are_not_looked_at(truth: dict[str, Any], renamed: dict[str, Any]) -> None:
    found = compare(evaluated(truth, pooled=True), evaluated(renamed, pooled=True), **FEW)
    assert found.values["difference"]["map"] == 0


def test_a_category_of_one_model_alone_is_a_note(truth: dict[str, Any]) -> None:
    more = copy.deepcopy(truth)
    more["categories"].append({"id": 99, "name": "unicorn"})
    models = evaluated(truth), evaluated(more)
    found = compare(*models, **FEW)
    told = [found.provenance[part] for part in ("first", "second")]
    assert told == [each.result().provenance for each in models] and told[0]["ground_truth"] is not None
    assert any("of second alone, such as" in note for note in found.signature["notes"])


def federated(name: str, path: Path) -> LVISEval:
    box = {"category_id": 1, "bbox": [0, 0, 9, 9]}
    images = [{"id": place, "neg_category_ids": [], "not_exhaustive_category_ids": []} for place in range(1, 31)]
    dataset = {
        "images": images,
        "annotations": [{"id": each["id"], "image_id": each["id"], "area": 81, **box} for each in images],
        "categories": [{"id": 1, "frequency": "f", "name": name}],
    }
    path.write_text(json.dumps(dataset))
    evaluation = LVISEval(LVIS(str(path)), [{"image_id": 1, "score": 0.5, **box}], "bbox")
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.run()
    return evaluation


def test_a_renamed_category_of_lvis_is_an_error(tmp_path: Path) -> None:
    models = {name: federated(name, tmp_path / f"{name}.json") for name in ("cat", "dog")}
    with pytest.raises(InputError, match="same class names but 'cat' of cat is 'dog' of dog"):
        compare(models, **FEW)


def test_a_renamed_class_of_segments_is_an_error() -> None:
    tables = np.random.default_rng(0).integers(0, 5, (30, 8, 2))
    sides = [
        resampled_panoptic(tables, list(range(30)), np.array([True, False]), ["sky", name]).identities()
        for name in ("car", "bus")
    ]
    assert pair_units(sides[0], sides[0]).units == 30
    with pytest.raises(InputError, match="same class names but 'car' of the first is 'bus' of the second"):
        pair_units(*sides)
