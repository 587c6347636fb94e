"""What an evaluation of detections answers about its errors, against the metric over the same boxes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from tests.fuzz import seeds
from tests.valor.test_detection_slices import _sides
from valor_gpu.detection import AP
from valor_gpu.errors import InputError
from valor_gpu.valor import Box, ValorDetectionManager, evaluate_detection
from valor_gpu.valor.filters import Filter, datum_metadata


def analysis_of(evaluation):
    return evaluation._asked("errors", None)


def as_batch(sides):
    """The scene for a metric over tensors: a label is the place of its key and value among all, ascending."""
    rows = [[(a.labels[0].key, a.labels[0].value) for a in item.annotations] for side in sides for item in side]
    known = sorted({pair for row in rows for pair in row})
    by_uid = [{item.datum.uid: item.annotations for item in side} for side in sides]
    preds, target, uids = [], [], list(dict.fromkeys(item.datum.uid for side in sides for item in side))
    for uid in uids:
        for of_side, into in zip(by_uid, (target, preds)):
            annotations = of_side.get(uid, [])
            boxes = [[a.bounding_box.xmin, a.bounding_box.ymin, a.bounding_box.xmax, a.bounding_box.ymax]
                     for a in annotations]  # fmt: skip
            labels = [known.index((a.labels[0].key, a.labels[0].value)) for a in annotations]
            item = {
                "boxes": torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4),
                "labels": torch.tensor(labels).long(),
            }
            if into is preds:
                item["scores"] = torch.tensor([a.labels[0].score for a in annotations], dtype=torch.float64)
            into.append(item)
    return preds, target, uids, known


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("compat", [None, "valor-lite"])
def test_outcomes_are_those_of_the_metric(seed, compat):
    sides = _sides(seed)
    preds, target, uids, known = as_batch(sides)
    metric = AP()
    metric.update(preds, target)
    expected = metric.result()._asked("errors", None)
    metrics = ["AP"] if compat is None else None
    ours = analysis_of(evaluate_detection(*sides, metrics_to_return=metrics, compat=compat))
    assert [": ".join(known[int(name)]) for name in expected.rows.classes] == sorted(ours.rows.classes)
    for iou in (0.1, 0.3, 0.5):
        both = []
        for analysis, ids in ((expected, uids), (ours, ours.rows.image_ids)):
            rows, matching = analysis.rows, analysis.matching(iou)
            names = rows.classes if analysis is ours else [": ".join(known[int(name)]) for name in rows.classes]
            columns = rows.images.tolist(), rows.labels.tolist(), rows.scores.tolist(), matching.hits.tolist()
            both.append(sorted((ids[i], names[k], score, hit) for i, k, score, hit in zip(*columns)))
        assert both[0] == both[1]
        assert expected.matching(iou).found.sum() == ours.matching(iou).found.sum()


def test_managers_and_filters_answer():
    sides = _sides(3)
    manager = ValorDetectionManager(metrics_to_return=["AP"])
    half = len(sides[0]) // 2
    for part in (slice(None, half), slice(half, None)):
        manager.add_data(*(side[part] for side in sides))
    whole = analysis_of(evaluate_detection(*sides, metrics_to_return=["AP"]))
    assert analysis_of(manager.evaluate()).matching(0.1).hits.sum() == whole.matching(0.1).hits.sum() > 0
    rain = Filter(datums=datum_metadata["weather"] == "rain")
    kept = {item.datum.uid for side in sides for item in side if (item.datum.metadata or {}).get("weather") == "rain"}
    chosen = analysis_of(manager.evaluate(rain))
    assert set(chosen.image_ids) <= kept and len(chosen.image_ids) == chosen.rows.lengths.shape[1] > 0
    alone = analysis_of(evaluate_detection(*sides, metrics_to_return=["AP"], filters=rain))
    assert np.array_equal(alone.matching().hits, chosen.matching().hits)


def test_boxes_of_rows_and_names_of_classes_of_one_key():
    frame = {"datum_uid": ["a"], "label_key": ["k"], "label_value": ["x"], "is_instance": [True],
             "bounding_box": [Box.from_extrema(1, 3, 5, 9)]}  # fmt: skip
    rows = analysis_of(evaluate_detection(frame, frame | {"score": [0.5]})).rows
    assert list(rows.classes) == ["x"] and list(rows.image_ids) == ["a"]
    for side in ("detections", "ground_truths"):
        assert rows.boxes(side, np.array([0])) == [{"bbox": [1.0, 5.0, 2.0, 4.0]}]


def test_what_has_no_answer():
    sides = _sides(1)
    evaluation = evaluate_detection(*sides, metrics_to_return=["AP"])
    for copied in (copy.deepcopy(evaluation), pickle.loads(pickle.dumps(evaluation))):
        with pytest.raises(InputError, match="errors needs the data of the evaluation, which a copied or loaded one"):
            copied.errors()
    with pytest.raises(InputError, match="iou_type must be None for an evaluation of detections but got 'bbox'"):
        evaluation.images(iou_type="bbox")
    with pytest.raises(
        InputError, match=r"by\(\) and worst_slices\(\) are not defined for results of evaluate_detection"
    ):
        analysis_of(evaluation).result_of(np.array([0]))
    by_coco = evaluate_detection(*sides, metrics_to_return=["mAP"], compat="coco")
    with pytest.raises(InputError, match="not defined with compat 'coco'"):
        by_coco.errors()
