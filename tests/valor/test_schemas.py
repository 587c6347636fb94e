"""Names and fields are those of valor_core; objects refuse what cannot be evaluated; geometry converts."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import valor_gpu.valor as valor_core
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import enums, metrics, schemas
from valor_gpu.valor.schemas import (
    Annotation,
    Box,
    Datum,
    Embedding,
    GeoJSON,
    GroundTruth,
    Label,
    LineString,
    MultiLineString,
    MultiPoint,
    Point,
    Polygon,
    Prediction,
    Raster,
)

# What a program written for valor_core may import, and the order of the fields that it may give by place.
EXPORTS = [
    "AccuracyMetric",
    "Annotation",
    "APMetric",
    "APMetricAveragedOverIOUs",
    "ARMetric",
    "Box",
    "ConfusionMatrix",
    "ConfusionMatrixEntry",
    "Datum",
    "DetailedPrecisionRecallCurve",
    "Evaluation",
    "F1Metric",
    "GroundTruth",
    "Label",
    "LineString",
    "MultiLineString",
    "MultiPoint",
    "Point",
    "Polygon",
    "PrecisionMetric",
    "PrecisionRecallCurve",
    "Prediction",
    "ROCAUCMetric",
    "Raster",
    "RecallMetric",
    "evaluate_classification",
    "evaluate_detection",
    "mAPMetric",
    "mAPMetricAveragedOverIOUs",
    "mARMetric",
]
FIELDS = {
    "Datum": "uid text metadata",
    "Label": "key value score",
    "Annotation": "labels metadata bounding_box polygon raster embedding is_instance implied_task_types text "
    "context_list",
    "GroundTruth": "datum annotations",
    "Prediction": "datum annotations",
    "Embedding": "value",
    "Evaluation": "parameters metrics confusion_matrices ignored_pred_labels missing_pred_labels meta",
    "EvaluationParameters": "label_map metrics_to_return iou_thresholds_to_compute iou_thresholds_to_return "
    "convert_annotations_to_type recall_score_threshold pr_curve_iou_threshold pr_curve_max_examples llm_api_params "
    "metric_params compat score_thresholds matching duplicates limit offset",
}
SQUARE = [[(0, 0), (4, 0), (4, 4), (0, 4), (0, 0)]]


def test_names_fields_and_signature() -> None:
    assert {name for name in EXPORTS if not hasattr(valor_core, name)} == set()
    for name, fields in FIELDS.items():
        assert [field.name for field in dataclasses.fields(getattr(schemas, name))] == fields.split()
    signature = list(inspect.signature(valor_core.evaluate_classification).parameters.values())
    shown = [(p.name, p.default) for p in signature if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert shown[:2] == [("groundtruths", inspect.Parameter.empty), ("predictions", inspect.Parameter.empty)]
    assert shown[2:] == [("label_map", None), ("metrics_to_return", None), ("pr_curve_max_examples", 1)]
    detection = list(inspect.signature(valor_core.evaluate_detection).parameters.values())
    assert {p.name: p.default for p in detection if p.kind is p.POSITIONAL_OR_KEYWORD} == {
        "groundtruths": None,
        "predictions": None,
        "label_map": None,
        "metrics_to_return": None,
        "convert_annotations_to_type": None,
        "iou_thresholds_to_compute": None,
        "iou_thresholds_to_return": None,
        "recall_score_threshold": 0.0,
        "pr_curve_iou_threshold": 0.5,
        "pr_curve_max_examples": 1,
    }
    texts = [f"{metric.value}Metric" for metric in enums.MetricType.text_generation()]
    assert len(texts) == 12
    assert all(hasattr(metrics, name) for name in texts)


def test_the_package_loads_nothing_until_it_is_used() -> None:
    code = (
        "import sys, valor_gpu.valor; print([m for m in ('torch', 'numpy', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    code = "import sys; from valor_gpu.valor import enums, schemas, metrics; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("annotation", "task"),
    [
        (Annotation(), "empty"),
        (Annotation(labels=[Label("k", "v")]), "classification"),
        (Annotation(labels=[Label("k", "v")], bounding_box=Box(SQUARE), is_instance=True), "object-detection"),
        (Annotation(labels=[Label("k", "v")], raster=Raster(np.ones((2, 2), bool))), "semantic-segmentation"),
        (Annotation(labels=[Label("k", "v")], polygon=Polygon(SQUARE)), "skip"),
        (Annotation(embedding=Embedding([1.0])), "embedding"),
        (Annotation(text="yes"), "text-generation"),
    ],
)
def test_the_task_follows_from_the_fields(annotation: Annotation, task: str) -> None:
    assert annotation.implied_task_types == [task]


def test_wrong_objects() -> None:
    wrong: Any = 3
    for make, message in (
        (lambda: Label(wrong, "v"), "Label.key must be str but got int"),
        (lambda: Label("k", wrong), "Label.value must be str but got int"),
        (lambda: Datum(wrong), "Datum.uid must be str or NoneType but got int"),
        (lambda: Annotation(labels=wrong), "Annotation.labels must be list or NoneType but got int"),
        (lambda: Annotation(labels=[wrong]), "Annotation.labels must be Label but got int"),
        (lambda: Annotation(raster=wrong), "Annotation.raster must be Raster or NoneType but got int"),
        (lambda: GroundTruth(wrong, []), "GroundTruth.datum must be Datum but got int"),
        (lambda: GroundTruth(Datum("a"), [wrong]), "GroundTruth.annotations must be Annotation but got int"),
        (lambda: Prediction(Datum("a"), wrong), "Prediction.annotations must be list but got int"),
        (lambda: Embedding([]), "Embedding.value must hold at least one number"),
    ):
        with pytest.raises(InputError, match=message):
            make()
    with pytest.raises(InputError, match="Prediction labels must have scores but k: v of datum 'a' has none"):
        Prediction(Datum("a"), [Annotation(labels=[Label("k", "v")])])


@pytest.mark.parametrize(
    ("geometry", "text"),
    [
        (Point((1, 2.5)), "POINT (1 2.5)"),
        (MultiPoint([(1, 2), (3, 4)]), "MULTIPOINT ((1 2), (3 4))"),
        (LineString([(1, 2), (3, 4)]), "LINESTRING (1 2, 3 4)"),
        (MultiLineString([[(1, 2), (3, 4)], [(5, 6), (7, 8)]]), "MULTILINESTRING ((1 2, 3 4),(5 6, 7 8))"),
        (Polygon([[(0, 0), (1, 0), (0, 1), (0, 0)]]), "POLYGON ((0 0, 1 0, 0 1, 0 0))"),
    ],
)
def test_geometry_there_and_back(geometry: Any, text: str) -> None:
    assert geometry.to_wkt() == text
    assert type(geometry).from_dict(geometry.to_dict()) == geometry
    assert type(geometry).from_json(geometry.to_json()) == geometry
    general = GeoJSON(**geometry.to_dict())
    assert general.geometry == geometry
    assert general.to_wkt() == text


def test_polygons_and_boxes() -> None:
    holed = Polygon([*SQUARE, [(1, 1), (2, 1), (2, 2), (1, 1)]])
    assert (holed.xmin, holed.xmax, holed.ymin, holed.ymax) == (0, 4, 0, 4)
    assert holed.boundary == SQUARE[0]
    assert len(holed.holes) == 1
    assert holed.to_array().shape == (5, 2)
    assert holed.to_coordinates()[1][0] == {"x": 1, "y": 1}
    assert Box.from_extrema(0, 4, 0, 4) == Box(SQUARE)
    assert Point((1, 2)).resize(10, 10, 100, 50) == Point((5, 20))
    assert len({Point((1, 2)), Point((1, 2))}) == 1


def test_wrong_geometry() -> None:
    for make, message in (
        (lambda: Point((1,)), r"Point.value must hold points \(x, y\) but got \(1,\)"),
        (lambda: Point(("a", 1)), "Point.value must be a number but got 'a'"),
        (lambda: LineString([(1, 2)]), "LineString.value must have at least 2 points but has 1"),
        (lambda: MultiLineString([[(1, 2)]]), "MultiLineString.value must have at least 2 points but has 1"),
        (lambda: Polygon([]), "Polygon.value must have at least one ring"),
        (lambda: Polygon([[(0, 0), (1, 0), (1, 1), (0, 1)]]), "Polygon.value must end each ring where it began"),
        (lambda: Box([*SQUARE, *SQUARE]), "Box.value must be one ring of 5 points"),
        (lambda: Box.from_extrema(4, 4, 0, 1), "xmin must be below xmax but got 4 and 4"),
        (lambda: GeoJSON("Circle", []), "GeoJSON.type must be one of 'Point'.* but got 'Circle'"),
        (lambda: MultiLineString([]), "MultiLineString.value must have at least one line but is empty"),
        (lambda: Point.from_dict({"type": "Polygon"}), "geojson must have the keys type and coordinates but has type"),
        (lambda: Point.from_dict({"type": "Polygon", "coordinates": SQUARE}), "geojson type must be 'Point' but got"),
        (lambda: Box([[(0, 0), (9, 0), (15, 9), (5, 9), (0, 0)]]), "Box.value must be a rectangle, upright or rotated"),
        (lambda: Raster(np.ones((2, 2))), "Raster.mask must be two-dimensional bool but got float64"),
        (lambda: Raster(np.ones(2, bool)), r"two-dimensional bool but got bool \[2\]"),
    ):
        with pytest.raises(InputError, match=message):
            make()  # type: ignore[no-untyped-call]


def test_rasters() -> None:
    inner = [(1, 1), (3, 1), (3, 3), (1, 3), (1, 1)]
    mask = Raster.from_geometry(Polygon([*SQUARE, inner]), height=5, width=6).mask
    assert mask.sum() == 12
    assert not mask[1:3, 1:3].any()
    assert not mask[:, 4:].any()
    triangle = [[{"x": 0, "y": 0}, {"x": 4, "y": 0}, {"x": 0, "y": 4}]]  # centres on the slope lie outside
    assert Raster.from_coordinates(triangle, 4, 4).mask.sum(axis=1).tolist() == [3, 2, 1, 0]
    beyond = Raster.from_geometry(Box.from_extrema(0, 2, 3, 9), height=4, width=4)
    assert np.argwhere(beyond.mask).tolist() == [[3, 0], [3, 1]]
    with pytest.raises(InputError, match="coordinates of at least 0 but the geometry has negative ones"):
        Raster.from_geometry(Box.from_extrema(-2, 2, 3, 9), height=4, width=4)


def test_a_raster_of_several_contours_is_their_union() -> None:
    def rectangle(xmin: int, xmax: int) -> list[dict[str, int]]:
        return [{"x": x, "y": y} for x, y in ((xmin, 0), (xmax, 0), (xmax, 2), (xmin, 2))]

    both = Raster.from_coordinates([rectangle(0, 3), rectangle(2, 5)], height=2, width=6)
    assert both.mask.tolist() == [[True] * 5 + [False]] * 2
    assert not Raster.from_coordinates([], 2, 2).mask.any()
    assert not Raster.from_coordinates([[{"x": 1, "y": 1}]], 2, 2).mask.any()
    for wrong in ([[(1, 1), (1, 2), (3, 1)]], [[{"x": 1, "z": 1}]]):
        with pytest.raises(InputTypeError, match=r"coordinates must hold points \{'x': x, 'y': y\} but got"):
            Raster.from_coordinates(wrong, 5, 5)  # type: ignore[arg-type]


def test_boxes_may_be_rotated_but_not_skewed() -> None:
    side = 2**0.5 * 5
    rotated = [(0, side), (side, 0), (0, -side), (-side, 0), (0, side)]
    assert Box([rotated]).xmin == -side
    assert Box([[(5.0, 1.0), (11.928, 5.0), (9.928, 8.464), (3.0, 4.464), (5.0, 1.0)]]).ymax == 8.464
    with pytest.raises(NotImplementedError, match="must be a rectangle"):
        Box([[(0, 0), (10, 0), (15, 10), (5, 10), (0, 0)]])


def test_coordinates_of_geojson_stay_lists() -> None:
    assert Point.from_dict({"type": "Point", "coordinates": [3.5, -1]}).value == [3.5, -1]
    assert Point([1, 2]) == Point((1, 2))  # type: ignore[arg-type]
    assert hash(Point([1, 2])) == hash(Point((1.0, 2.0)))  # type: ignore[arg-type]
    assert Polygon(SQUARE) != Box(SQUARE)
    assert Polygon.from_dict(Polygon(SQUARE).to_dict()).value == [[list(point) for point in SQUARE[0]]]


def test_rasters_as_text() -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed")
    raster = Raster(np.random.default_rng(0).random((5, 9)) > 0.5)
    encoded = raster.encode_value()
    assert list(encoded) == ["mask"]
    assert Raster.decode_value(encoded["mask"]) == raster
    assert Raster.decode_value(raster.encode_value()) == raster
    assert raster != Raster(~raster.mask)
    assert raster.to_array() is raster.mask


def test_metric_dicts() -> None:
    label = Label("k", "v")
    assert metrics.APMetric(label, 0.5, 0.75).to_dict() == {
        "label": {"key": "k", "value": "v"},
        "parameters": {"iou": 0.75},
        "value": 0.5,
        "type": "AP",
    }
    assert metrics.mARMetric("k", 0.5, {0.75, 0.5}).to_dict()["parameters"] == {"label_key": "k", "ious": [0.5, 0.75]}
    curve = metrics.PrecisionRecallCurve("k", {}, None).to_dict()
    assert curve["parameters"] == {"label_key": "k", "pr_curve_iou_threshold": None}
    shown = metrics.BLEUMetric("success", 0.5, {"datum_uid": "a"}).to_dict()
    assert shown == {"type": "BLEU", "status": "success", "value": 0.5, "parameters": {"datum_uid": "a"}}


def test_a_wrong_type_is_a_type_error_and_a_value_error() -> None:
    wrong: Any = 3
    for kind in (InputTypeError, InputError, TypeError, ValueError):
        with pytest.raises(kind, match=r"Datum\.uid must be str or NoneType but got int"):
            Datum(wrong)
