"""Evaluations of annotations whose geometries are of several kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.inputs import to_raster
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    GroundTruth,
    Label,
    Polygon,
    Prediction,
    Raster,
    evaluate_detection,
)
from valor_gpu.valor.enums import AnnotationType, MetricType

SIZE = (20, 30)
BOX = Box.from_extrema(2, 12, 3, 9)
TRIANGLE = Polygon([[(1, 1), (11, 1), (1, 9), (1, 1)]])


def raster(shape: Polygon) -> Raster:
    return Raster(to_raster(shape.value, SIZE))


def average_precision(
    groundtruths: list[dict[str, Any]], predictions: list[dict[str, Any]], iou: float = 0.5, **choices: Any
) -> float:
    """AP of annotations of one label and datum."""
    sides = [
        [Annotation(labels=[Label("k", "v", score)], is_instance=True, **fields) for fields in side]
        for side, score in ((groundtruths, None), (predictions, 0.9))
    ]
    evaluation = evaluate_detection(
        [GroundTruth(Datum("x"), sides[0])],
        [Prediction(Datum("x"), sides[1])],
        metrics_to_return=[MetricType.AP],
        iou_thresholds_to_compute=[iou],
        iou_thresholds_to_return=[iou],
        **choices,
    )
    value = evaluation.metrics[0]["value"]
    assert isinstance(value, float)
    return value


def test_no_annotation_of_another_kind_drops_out() -> None:
    """Valor's server finds 0 here, since it compares boxes and forgets the polygon that has none."""
    groundtruths = [{"raster": raster(BOX)}, {"bounding_box": Box.from_extrema(14, 20, 3, 9)}]
    predictions = [{"raster": raster(BOX)}, {"raster": raster(Box.from_extrema(14, 20, 3, 9))}]
    assert average_precision(groundtruths, predictions) == 1.0


def test_a_raster_meets_a_box_as_a_box() -> None:
    assert average_precision([{"raster": raster(BOX)}], [{"bounding_box": BOX}], iou=1.0) == 1.0


def test_boxes_of_everything_are_compared_where_asked_for() -> None:
    corner = [{"polygon": TRIANGLE}]
    whole = [{"bounding_box": Box.from_extrema(1, 11, 1, 9)}]
    assert average_precision(corner, corner, convert_annotations_to_type=AnnotationType.BOX) == 1.0
    assert average_precision(whole, corner, iou=1.0, convert_annotations_to_type=AnnotationType.BOX) == 1.0


@pytest.mark.parametrize("convert", [None, AnnotationType.BOX])
def test_coco_compares_what_others_compare(convert: AnnotationType | None) -> None:
    boxes, triangle = [{"bounding_box": Box.from_extrema(1, 11, 1, 9)}], [{"polygon": TRIANGLE}]
    choices: dict[str, Any] = {"convert_annotations_to_type": convert, "compat": "coco"}
    assert average_precision(boxes, triangle, iou=0.99, **choices) > 0.999999  # as pycocotools divides


def test_the_server_takes_hulls_of_corners_of_pixels() -> None:
    mask, hull = [{"raster": raster(BOX)}], [{"polygon": Box.from_extrema(2, 11, 3, 8)}]
    assert average_precision(mask, hull, iou=1.0) == 0.0
    assert average_precision(mask, hull, iou=1.0, compat="valor-api") == 1.0
    same = [{"polygon": BOX}]
    assert average_precision(mask, same, iou=1.0) == 1.0
    assert average_precision(mask, same, iou=1.0, compat="valor-api") == 0.0


def test_detail_is_never_added() -> None:
    with pytest.raises(InputError, match="groundtruths annotation 0 of datum 'x' must have a raster"):
        average_precision(
            [{"bounding_box": BOX}], [{"raster": raster(BOX)}], convert_annotations_to_type=AnnotationType.RASTER
        )


def test_rasters_of_a_datum_have_one_size() -> None:
    with pytest.raises(InputError, match="predictions annotation 0 of datum 'x' must have a raster of 20 x 30 pixels"):
        average_precision([{"raster": raster(BOX)}], [{"raster": Raster(np.ones((5, 5), bool))}])
