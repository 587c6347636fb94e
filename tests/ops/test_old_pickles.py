"""Pickles of 0.2.0 name ops, and what metrics hold of them, by modules that have become folders."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch

from tests.checkout import ROOT
from valor_gpu import ops
from valor_gpu.coco import COCO, COCOeval
from valor_gpu.detection import MeanAveragePrecision, OpenImagesAveragePrecision

OLD_PATHS = {
    "valor_gpu.ops.assign.match_batch": "valor_gpu.ops.match_batch",
    "valor_gpu.ops.accumulate.types": "valor_gpu.ops.accumulate_types",
}
BOX = torch.tensor([[0.0, 0.0, 9.0, 9.0]])


def old_pickle(value: Any) -> bytes:
    """The pickle of a value as the modules were named then."""
    text = pickle.dumps(value, protocol=0)
    for new, old in OLD_PATHS.items():
        text = text.replace(f"c{new}\n".encode(), f"c{old}\n".encode())
    return text


@pytest.mark.parametrize("kind", [MeanAveragePrecision, OpenImagesAveragePrecision])
def test_metrics_of_detections_go_on(kind: type[Any]) -> None:
    metric, label = kind(), torch.tensor([1])
    metric.update([{"boxes": BOX, "scores": torch.tensor([0.9]), "labels": label}], [{"boxes": BOX, "labels": label}])
    text = old_pickle(metric)
    assert b"valor_gpu.ops.match_batch" in text and b"valor_gpu.ops.assign" not in text
    again = pickle.loads(text)
    again.update([], [])
    assert again.result().to_dict()["values"] == metric.result().to_dict()["values"]


@pytest.mark.usefixtures("capsys")
def test_evaluations_go_on() -> None:
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}
    truth = COCO()
    truth.dataset = {
        "images": [{"id": 1}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "area": 81, "iscrowd": 0, **box}],
    }
    truth.createIndex()
    evaluation = COCOeval(truth, truth.loadRes([{"score": 0.5, **box}]), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    text = old_pickle(evaluation)
    assert b"valor_gpu.ops.accumulate_types" in text and b"valor_gpu.ops.accumulate.types" not in text
    again = pickle.loads(text)
    again.accumulate()
    again.summarize()
    assert again.stats[0] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("boundary", "mask_boundary"),
        ("boxes", "box_iou"),
        ("keypoints", "keypoint_similarity"),
        ("masks", "PackedMasks"),
        ("masks", "pack_masks"),
        ("polygon_areas", "polygon_iou"),
        ("polygon_sets", "PolygonSet"),
        ("polygons", "rasterise"),
        ("rotated", "rotated_box_iou"),
        ("runs", "Runs"),
    ],
)
def test_public_names_are_found_by_their_old_modules(module: str, name: str) -> None:
    assert pickle.loads(f"cvalor_gpu.ops.{module}\n{name}\n.".encode()) is getattr(ops, name)


@pytest.mark.parametrize("module", ["accumulate_types", "match_batch"])
def test_an_old_module_may_be_the_first_import(module: str) -> None:
    program = f"import valor_gpu.ops.{module} as old, sys; assert 'torch' not in sys.modules, old"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
