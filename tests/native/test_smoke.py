"""Native functions in one small case each, so that tests/native/test_sanitized.py can run all of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from testing.scenes import COCO_AREAS, COCO_THRESHOLDS, random_scene
from valor_gpu.classification import AveragePrecision
from valor_gpu.inputs.coco import columns_from_dataset, read_ground_truth
from valor_gpu.ops import _library
from valor_gpu.ops.accumulate.op import accumulate, count_ground_truths, label_counts, order_records, precision_recall
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, RecordShape
from valor_gpu.ops.assign.match_batch import HASHED, WANT_MATCHES, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.plans import checked_only

pytestmark = pytest.mark.smoke


def test_matching_and_curves_run_on_a_scene() -> None:
    batch = random_scene(np.random.default_rng(5), images=9).batch()
    rule = MatchRule.make(COCO_THRESHOLDS.tolist(), COCO_AREAS, [1, 10, 100], HASHED | WANT_MATCHES)
    matched = assign(batch, rule)
    starts = batch.lengths[0].cumsum(0) - batch.lengths[0]
    labels = torch.arange(4)
    ordered = order_records(matched.detections, starts, batch.lengths[0], labels, limits=3)
    positives = count_ground_truths(matched.ground_truths, labels, len(COCO_AREAS))
    grid = torch.from_numpy(np.linspace(0, 1, 101))
    shape = RecordShape(len(COCO_THRESHOLDS), len(COCO_AREAS), 3)
    curves = precision_recall(matched.detections, ordered, positives, grid, shape, full=True)
    sizes = [shape.thresholds, shape.areas, shape.limits]
    expected = _library.reference("precision_recall")(matched.detections, *ordered, positives, grid, sizes, True, 0)
    assert all(torch.equal(got, want) for got, want in zip(curves, expected))
    assert 0 < curves.precision.max() <= 1


def test_labels_of_a_scene_are_counted() -> None:
    batch = random_scene(np.random.default_rng(6), images=9).batch()
    matched = assign(batch, MatchRule.make([0.5], COCO_AREAS, [100]))
    labels, totals = label_counts(matched.detections, matched.ground_truths, len(COCO_AREAS))
    assert labels.tolist() == [0, 1, 2, 3] and totals[:2].tolist() == batch.lengths.sum(1).tolist()


def test_records_of_a_scene_are_accumulated() -> None:
    batch = random_scene(np.random.default_rng(7), images=9).batch()
    matched = assign(batch, MatchRule.make(COCO_THRESHOLDS.tolist(), COCO_AREAS, [1, 10, 100], HASHED))
    shape = RecordShape(len(COCO_THRESHOLDS), len(COCO_AREAS), 3)
    choices = AccumulateChoices(shape, np.linspace(0, 1, 101), (Pick("precision", 0, -1, range(10)),), full=True)
    found = accumulate(matched.detections, matched.ground_truths, matched.images, choices)
    assert found.totals.images == 9 and 0 < float(found.means) <= 1


def test_json_is_read_from_a_file(tmp_path: Path) -> None:
    rows = [
        {
            "id": i,
            "image_id": i % 7,
            "category_id": 1,
            "bbox": [i, 0.1 * i, 1e-3, 2.5e2],
            "area": i / 7,
            "x": [{"y": "]"}],
        }
        for i in range(50)
    ]
    data = {
        "info": {"a": [1, "b"]},
        "images": [{"id": i} for i in range(7)],
        "categories": [{"id": 1}],
        "annotations": rows,
    }
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(data))
    got, expected = read_ground_truth(path, threads=2).annotations, columns_from_dataset(data).annotations
    for name in ("id", "image_id", "category_id", "bbox", "area", "present"):
        assert getattr(got, name).tolist() == getattr(expected, name).tolist()


def test_probabilities_are_counted_until_one_lies_outside() -> None:
    scores, target = torch.linspace(0, 1, 50), torch.arange(50) % 2
    with checked_only():
        for given in (scores, torch.cat((scores[:-1], torch.tensor([3.0])))):
            metric = AveragePrecision(thresholds=5)
            metric.update(given, target)
            assert 0 < float(metric.compute()) <= 1
