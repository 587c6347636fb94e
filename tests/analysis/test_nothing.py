"""Answers about evaluations that lack something: images, classes, ground truths or detections."""

from __future__ import annotations

import contextlib
import io
import math
import warnings

import pytest
import torch

from valor_gpu.coco import COCO, COCOeval
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.report.detection_html import detection_report

SIZES = [(0, 0, 0), (1, 0, 0), (1, 2, 0), (1, 0, 2), (1, 2, 2), (3, 0, 0)]


def _of_metric(images, detections, ground_truths):
    metric = MeanAveragePrecision(errors=True)
    for _ in range(images):
        boxes, truths = torch.zeros(detections, 4), torch.zeros(ground_truths, 4)
        labels, true_labels = (torch.zeros(len(each), dtype=torch.int) for each in (boxes, truths))
        found = {"boxes": boxes, "scores": torch.zeros(len(boxes)), "labels": labels}
        metric.update([found], [{"boxes": truths, "labels": true_labels}])
    return metric.result()


def _of_coco(images, classes, with_rows):
    truth, found = COCO(), COCO()
    box = {"id": 1, "image_id": 0, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0, "score": 0.5}
    with contextlib.redirect_stdout(io.StringIO()):
        for side in (truth, found):
            side.dataset = {
                "images": [{"id": image, "width": 50, "height": 50} for image in range(images)],
                "categories": [{"id": 1 + each, "name": f"c{each}"} for each in range(classes)],
                "annotations": [box] if with_rows else [],
            }
            side.createIndex()
        evaluation = COCOeval(truth, found, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.result()


def _results():
    yield from (pytest.param(_of_metric, size, id=f"metric {size}") for size in SIZES)
    for size in [(0, 0, False), (2, 0, False), (0, 1, False), (2, 2, False), (1, 1, True)]:
        yield pytest.param(_of_coco, size, id=f"coco {size}")


@pytest.mark.parametrize(("made", "size"), [*_results()])
def test_every_question_has_an_answer(made, size, tmp_path):
    result = made(*size)
    for answer in (result.errors(), result.errors(protocol="tidecv"), result.olrp(), result.operating_points()):
        assert str(answer) and answer.to_dict()
        for name, value in answer.values.items():
            if isinstance(value, float) and math.isnan(value):
                assert answer.reason(name)
    for table in (result.images(), result.matches(), result.by("crowding"), result.worst_slices("crowding")):
        assert str(table) and table._repr_html_()
        table.to_csv(tmp_path / "table.csv")
        table.to_parquet(tmp_path / "table.parquet")
    assert len(result.images()) == size[0] == sum(result.by("crowding")["images"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for answer in (result.olrp(), result.operating_points()):
            answer.with_intervals(3)
    if made is _of_coco:
        assert "</html>" in detection_report(result, "nothing")
