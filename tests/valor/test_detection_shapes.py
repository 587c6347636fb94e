"""Geometries of detections: read from objects and frames, and refused by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.valor.detection_scenes import as_objects, box_frames, read
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    GeoJSON,
    GroundTruth,
    Label,
    MultiPolygon,
    Polygon,
    Prediction,
    Raster,
)
from valor_gpu.valor.columns import join_columns
from valor_gpu.valor.detection.shapes import Shapes

SQUARE = [(0, 0), (4, 0), (4, 4), (0, 4), (0, 0)]
HOLE = [(1, 1), (2, 1), (2, 2), (1, 2), (1, 1)]
TURNED = [(2, 0), (4, 2), (2, 4), (0, 2), (2, 0)]
MASK = np.array([[1, 0], [1, 1]], bool)
LABEL = Label("k", "v", 0.5)


def objects(*annotations: dict[str, Any], uid: str = "x") -> tuple[list[GroundTruth], list[Prediction]]:
    """Predictions with these geometries beside a ground truth with a box."""
    made = [Annotation(labels=[LABEL], is_instance=True, **geometry) for geometry in annotations]
    box = Annotation(labels=[Label("k", "v")], is_instance=True, bounding_box=Box([SQUARE]))
    return [GroundTruth(Datum(uid), [box])], [Prediction(Datum(uid), made)]


def shapes(*annotations: dict[str, Any]) -> Shapes:
    found = read(*objects(*annotations)).predictions.shapes
    assert found is not None
    return found


def test_objects_become_flat_arrays() -> None:
    found = shapes(
        {"bounding_box": Box([SQUARE])},
        {"bounding_box": Box([TURNED]), "polygon": Polygon([SQUARE, HOLE])},
        {"raster": Raster(MASK)},
        {"polygon": MultiPolygon([[SQUARE], [TURNED]]), "raster": Raster(~MASK)},
    )
    assert found.kinds.tolist() == [1, 2, 3, 3]
    assert found.places.tolist() == [0, 1, 2, 3]
    assert found.boxes[:2].tolist() == [[0, 0, 4, 4], [0, 0, 4, 4]]
    assert np.isnan(found.boxes[2:]).all()
    assert (found.turned.tolist(), found.corners.tolist()) == ([1], [[2, 0, 4, 2, 2, 4, 0, 2]])
    assert (found.drawn.tolist(), found.masked.tolist()) == ([1, 3], [2, 3])
    assert [found.outlines.listed(row) for row in range(2)] == [
        [[list(map(list, SQUARE)), list(map(list, HOLE))]],
        [[list(map(list, SQUARE))], [list(map(list, TURNED))]],
    ]
    assert found.outlines.bounds().tolist() == [[0, 0, 4, 4], [0, 0, 4, 4]]
    assert found.masks.take([0]).counts.tolist() == [0, 2, 1, 1]


def test_frames_are_read_as_objects_are() -> None:
    gt_frame, frame = box_frames(1)
    from_frames, from_objects = read(gt_frame, frame), read(as_objects(gt_frame), as_objects(frame))
    assert from_frames.labels == from_objects.labels
    assert from_frames.datums == from_objects.datums
    for side in ("groundtruths", "predictions"):
        rows, others = getattr(from_frames, side), getattr(from_objects, side)
        for name in ("datum", "label", "annotation", "score"):
            assert np.array_equal(getattr(rows, name), getattr(others, name), equal_nan=True)
        assert np.array_equal(rows.shapes.boxes, others.shapes.boxes)
        assert not len(rows.shapes.turned)


COLUMNS = {
    "bounding_box": [Box([SQUARE]), {"type": "Polygon", "coordinates": [TURNED]}, None, None, None],
    "polygon": [None, None, GeoJSON("Polygon", [SQUARE, HOLE]), None, None],
    "raster": [None, None, None, Raster(MASK), None],
    "geometry": [None, None, None, None, MultiPolygon([[SQUARE], [TURNED]])],
}


def frame(**columns: Any) -> dict[str, Any]:
    count = len(next(iter(columns.values())))
    return {
        "datum_uid": ["x"] * count, "label_key": ["k"] * count, "label_value": ["v"] * count, "score": [0.5] * count,
        **columns,
    }  # fmt: skip


def test_frames_hold_every_kind() -> None:
    gts = {key: values[:1] for key, values in frame(**COLUMNS).items() if key != "score"}
    read_shapes = read(gts, frame(**COLUMNS)).predictions.shapes
    assert read_shapes is not None
    assert read_shapes.kinds.tolist() == [1, 1, 2, 3, 2]
    assert read_shapes.turned.tolist() == [1]
    assert read_shapes.places.tolist() == [-1, -2, -3, -4, -5]


def test_rows_of_an_annotation_share_its_geometry() -> None:
    boxes = {"xmin": [0, 0, 1], "ymin": [0, 0, 1], "xmax": [2, 2, 3], "ymax": [2, 2, 3]}
    rows = {**frame(**boxes), "label_value": ["a", "b", "a"], "annotation_id": [7, 7, 8]}
    columns = read(rows, rows)
    assert columns.predictions.annotation.tolist() == [0, 0, 1]
    assert columns.predictions.shapes is not None
    assert columns.predictions.shapes.boxes.tolist() == [[0, 0, 2, 2], [1, 1, 3, 3]]


def test_parts_are_joined() -> None:
    parts = [read(*objects({"polygon": Polygon([SQUARE])}, {"raster": Raster(MASK)}, uid=uid)) for uid in "ab"]
    whole = join_columns(parts)
    assert whole.datums == ["a", "b"]
    found = whole.predictions.shapes
    assert found is not None
    assert found.kinds.tolist() == [2, 3, 2, 3]
    assert (found.drawn.tolist(), found.masked.tolist(), found.outlines.num_shapes, len(found.masks)) == (
        [0, 2],
        [1, 3],
        2,
        2,
    )
    assert found.outlines.listed(1) == [[list(map(list, SQUARE))]]


def test_only_annotations_of_detections_are_read() -> None:
    gts, predictions = objects({"bounding_box": Box([SQUARE])})
    predictions.append(Prediction(Datum("y"), [Annotation(labels=[LABEL])]))
    columns = read(gts, predictions)
    assert columns.ignored == {"groundtruths": 0, "predictions": 1}
    assert (columns.datums, sorted(columns.uids)) == (["x"], ["x", "y"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"xmin": [0.0], "ymin": [0.0], "xmax": [math.nan], "ymax": [1.0]},
         r"predictions must have finite xmin <= xmax and ymin <= ymax but row 0 has xmin 0.0, ymin 0.0, xmax nan"),
        ({"xmin": [2.0], "ymin": [0.0], "xmax": [1.0], "ymax": [1.0]}, "finite xmin <= xmax"),
        ({"xmin": [2.0], "ymin": [0.0], "xmax": [3.0]}, "predictions must have a column 'ymax'"),
        ({"xmin": [0.0], "ymin": [0.0], "xmax": [1.0], "ymax": [1.0], "bounding_box": [Box([SQUARE])]},
         "predictions row 0 of datum 'x' must have one box but has xmin and bounding_box"),
        ({"geometry": [Polygon([SQUARE])], "polygon": [Polygon([SQUARE])]}, "row 0 must be the only geometry"),
        ({"geometry": [{"type": "Point", "coordinates": (0, 0)}]}, "column 'geometry' row 0 must be a Polygon"),
        ({"raster": [Raster(MASK), Raster(MASK)], "annotation_id": [1, 1], "label_value": ["a", "b"]}, None),
        ({"raster": [Raster(MASK), Raster(~MASK)], "annotation_id": [1, 1]}, "one raster an annotation but rows 0 and"),
        ({"xmin": [0, 1], "ymin": [0, 0], "xmax": [2, 2], "ymax": [2, 2], "annotation_id": [1, 1]},
         "one box an annotation but rows 0 and 1 differ"),
    ],
)  # fmt: skip
def test_frames_are_refused_by_row(columns: dict[str, Any], message: str | None) -> None:
    gts = objects({"bounding_box": Box([SQUARE])})[0]
    if message is None:
        assert read(gts, frame(**columns)).annotations == 2
        return
    with pytest.raises(InputError, match=message):
        read(gts, frame(**columns))


def test_a_column_of_other_objects_is_refused() -> None:
    gts = objects({"bounding_box": Box([SQUARE])})[0]
    with pytest.raises(InputTypeError, match="column 'bounding_box' row 0 must be Box but got Polygon"):
        read(gts, frame(bounding_box=[Polygon([SQUARE])]))


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ({"polygon": Polygon([[(0, 0), (math.inf, 0), (1, 1), (0, 0)]])},
         r"predictions annotation 1 of datum 'x' must have a polygon of finite coordinates but got \[inf, 0.0\]"),
        ({"bounding_box": Box([[(0, 0), (1e300 * 1e10, 0), (math.inf, 1), (0, 1), (0, 0)]])},
         "predictions annotation 1 of datum 'x' must have a box of finite coordinates"),
        ({"raster": Raster(np.zeros((3, 3), bool))},
         "predictions annotation 1 of datum 'x' must have a raster of 2 x 2 pixels, as predictions annotation 0 has"),
        ({"implied_task_types": ["object-detection"]},
         "predictions annotation 1 of datum 'x' must have a bounding_box, a polygon or a raster"),
    ],
)  # fmt: skip
def test_annotations_are_refused_by_name(geometry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        shapes({"raster": Raster(MASK)}, geometry)
