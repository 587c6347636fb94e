"""Paths of ops in pickles of older releases, which had a module for each op and none below it."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import pytest
import torch

from tests.valor.detection_scenes import as_objects, box_frames
from valor_gpu import ops
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.valor import ValorDetectionManager

PUBLIC = {
    "boundary": ("mask_boundary",),
    "boxes": ("box_iou",),
    "keypoints": ("keypoint_similarity",),
    "masks": ("PackedMasks", "pack_masks"),
    "polygon_areas": ("polygon_iou",),
    "polygon_sets": ("PolygonSet",),
    "polygons": ("rasterise",),
    "rotated": ("rotated_box_iou",),
    "runs": ("Runs",),
}
GONE = {"accumulate_types": "accumulate.types", "match_batch": "assign.match_batch"}
"""Modules of the last release to those of today; pickles name their classes."""


def through_an_old_pickle(value: Any, new: str, old: str) -> Any:
    """The value from a pickle that names classes of an op by the path of older releases."""
    text = pickle.dumps(value, protocol=0)
    changed = text.replace(f"cvalor_gpu.ops.{new}\n".encode(), f"cvalor_gpu.ops.{old}\n".encode())
    assert changed != text, f"nothing of the value is of {new}"
    return pickle.loads(changed)


def test_old_pickles_name_what_is_public() -> None:
    assert {name for names in PUBLIC.values() for name in names} == {*ops.__all__} - {"backends"}
    for module, names in PUBLIC.items():
        for name in names:
            assert pickle.loads(f"cvalor_gpu.ops.{module}\n{name}\n.".encode()) is getattr(ops, name)
        assert {*names} <= {*dir(importlib.import_module(f"valor_gpu.ops.{module}"))}


@pytest.mark.parametrize("old", GONE)
def test_both_paths_give_one_module(old: str) -> None:
    assert importlib.import_module(f"valor_gpu.ops.{old}") is importlib.import_module(f"valor_gpu.ops.{GONE[old]}")


def test_an_old_pickle_of_mean_average_precision_goes_on() -> None:
    metric, box = MeanAveragePrecision(), torch.tensor([[0.0, 0.0, 10.0, 8.0], [5.0, 0.0, 10.0, 8.0]])
    found = [{"boxes": box, "scores": torch.tensor([0.5, 0.75]), "labels": torch.tensor([0, 1])}]
    truth = [{"boxes": box[:1], "labels": torch.tensor([0])}]
    metric.update(found, truth)
    again = through_an_old_pickle(metric, "assign.match_batch", "match_batch")
    assert again.to_bytes() == metric.to_bytes()
    again.update(found, truth)
    assert again.compute()["map"] == metric.compute()["map"] == 1


def test_an_old_pickle_of_a_manager_of_valor_goes_on() -> None:
    manager = ValorDetectionManager()
    manager.add_data(*map(as_objects, box_frames(5)))
    again = through_an_old_pickle(manager, "overlaps.op", "overlaps")
    assert again.evaluate().metrics == manager.evaluate().metrics
