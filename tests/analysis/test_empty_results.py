"""Questions about a result without images: no number, no row, and no error but those that name an argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valor_gpu.coco import COCO, COCOeval
from valor_gpu.detection import MeanAveragePrecision, mAP
from valor_gpu.errors import InputError


def no_files() -> Any:
    truth = COCO()
    truth.dataset = {"images": [], "annotations": [], "categories": []}
    truth.createIndex()
    evaluation = COCOeval(truth, truth, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    return evaluation.result()


RESULTS = {
    "MeanAveragePrecision": lambda: MeanAveragePrecision(errors=True).result(),
    "mAP": lambda: mAP().result(),
    "COCOeval": no_files,
}


@pytest.mark.parametrize("source", RESULTS)
def test_a_result_without_images_has_no_numbers_and_no_rows(source: str) -> None:
    result = RESULTS[source]()
    olrp, points = result.olrp(), result.operating_points()
    assert np.isnan(olrp.values["olrp"]) and olrp.reason("olrp") == "no ground truth counts"
    assert np.isnan(points.values["f1"]) and points.reason("f1") == "no ground truth counts"
    assert points.counts["classes_without_threshold"] == 0 and not points.values["f1_per_class"]
    assert np.isnan(result.errors().values["ap"]) and "nan" not in str(result.errors()).partition("\n")[2]
    assert [len(table) for table in (result.images(), result.matches(), result.by("crowding"))] == [0, 0, 0]


def test_iou_type_is_that_of_the_result() -> None:
    result = MeanAveragePrecision(errors=True).result()
    assert result.errors(iou_type="bbox").counts == result.errors().counts
    with pytest.raises(InputError, match=r"iou_type must be one of None, 'bbox' but got 'segm'"):
        result.errors(iou_type="segm")
    with pytest.raises(InputError, match=r"iou_type must be one of None, 'bbox' but got 'segm'"):
        result.by("crowding", iou_type="segm")
