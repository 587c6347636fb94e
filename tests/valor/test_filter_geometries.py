"""Conditions on geometries of annotations and of metadata, through the columns of real evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shapely.geometry import shape as shaped

from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.errors import InputError
from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, MultiPolygon, Point, Polygon, Prediction, Raster
from valor_gpu.valor.columns import Columns
from valor_gpu.valor.enums import TaskType
from valor_gpu.valor.filters import (
    Condition,
    Expression,
    Filter,
    annotation_box,
    annotation_geometry,
    annotation_metadata,
    annotation_polygon,
    annotation_raster,
    datum_metadata,
)

BOX = Box.from_extrema(2, 8, 1, 5)
TURNED = Box([[(4, 0), (8, 4), (4, 8), (0, 4), (4, 0)]])
HOLED = Polygon([[(0, 0), (6, 0), (6, 6), (0, 6), (0, 0)], [(2, 2), (4, 2), (4, 4), (2, 4), (2, 2)]])
PARTS = MultiPolygon([Box.from_extrema(0, 2, 0, 2).value, Box.from_extrema(5, 9, 5, 9).value])
MASK = Raster.from_geometry(Box.from_extrema(0, 3, 0, 4), height=10, width=10)


def _annotation(**choices: Any) -> Annotation:
    return Annotation(labels=[Label("k", "v", 0.5), Label("l", "w", 0.5)], is_instance=True, **choices)


def _columns(*annotations: Annotation) -> Columns:
    """The same annotations on both sides, two labels each; metadata of the datum has a point of Valor's client."""
    datum = Datum("a", metadata={"at": {"type": "point", "value": [3, 4]}})
    listed = list(annotations)
    return read_columns([GroundTruth(datum, listed)], [Prediction(datum, listed)], TaskType.OBJECT_DETECTION)


COLUMNS = _columns(
    _annotation(bounding_box=BOX, metadata={"place": {"type": "Polygon", "coordinates": HOLED.value}}),
    _annotation(bounding_box=TURNED, metadata={"place": Point((1, 1))}),
    _annotation(polygon=HOLED, bounding_box=BOX),
    _annotation(polygon=PARTS),
    _annotation(raster=MASK, polygon=HOLED),
)


def _kept(expression: Expression) -> list[int]:
    """Annotations of the ground truths that pass; both labels of each have the same answer, and both sides."""
    _, truths, rows = Filter(groundtruths=expression, predictions=expression).masks(COLUMNS)
    assert truths.tolist() == rows.tolist() == np.repeat(truths[::2], 2).tolist()
    return np.flatnonzero(truths[::2]).tolist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (annotation_box.area == 24, [0, 2]),
        (annotation_box.area > 24, [1]),
        (annotation_box.isnull(), [3, 4]),
        (annotation_polygon.isnotnull(), [2, 3, 4]),
        (annotation_polygon.area == 32, [2, 4]),  # without the hole
        (annotation_polygon.area < 32, [3]),
        (annotation_raster.area == 12, [4]),
        (annotation_raster.isnull(), [0, 1, 2, 3]),
        (annotation_raster.area.isnotnull(), [4]),
        (annotation_geometry.area.isin([12, 20, 32]), [1, 2, 3, 4]),  # raster before polygon before box
        (annotation_geometry.isnull(), []),
        (annotation_geometry.type == "box", [0, 1]),
        (annotation_geometry.type.isin(["polygon", "raster"]), [2, 4]),
        (annotation_geometry.type != "multipolygon", [0, 1, 2, 4]),
        (annotation_geometry.type.contains("polygon"), [2, 3]),
        (annotation_geometry.intersects(Point((3, 3))), [0, 1, 4]),  # a hole has it, and the corner of a pixel
        (annotation_geometry.intersects(Point((2, 2))), [0, 1, 2, 3, 4]),
        (annotation_geometry.outside(Point((3, 3))), [2, 3]),
        (~annotation_geometry.intersects(Point((3, 3))), [2, 3]),
        (annotation_box.outside(Point((3, 3))), []),  # false where there is no box
        (annotation_geometry.inside(Box.from_extrema(0, 8, 0, 8)), [0, 1, 2, 4]),
        (annotation_geometry.inside(HOLED), [2]),
        (annotation_raster.inside(Polygon([[(0.6, 0), (9, 0), (9, 9), (0.6, 0)]])), []),
        (annotation_metadata["place"].intersects(Box.from_extrema(1, 1.5, 1, 9)), [0, 1]),
        (annotation_metadata["place"].area == 32, [0]),
        (annotation_metadata["place"].area < 1, [1]),
        (annotation_metadata["place"].inside(MultiPolygon([BOX.value, Box.from_extrema(0, 9, 0, 9).value])), [0, 1]),
    ],
)
def test_geometries_of_annotations(expression: Expression, expected: list[int]) -> None:
    assert _kept(expression) == expected


def test_geojson_of_datums() -> None:
    at = datum_metadata["at"]
    for wanted, kept in ((BOX, True), (TURNED, True), (HOLED, True), (PARTS, False)):
        assert Filter(datums=at.intersects(wanted)).masks(COLUMNS)[0].tolist() == [kept]
        assert Filter(datums=at.outside(wanted.to_dict())).masks(COLUMNS)[0].tolist() == [not kept]
    assert Filter(datums=at.area == 0).masks(COLUMNS)[0].all()


def test_random_annotations_equal_shapely() -> None:
    generator = np.random.default_rng(3)
    annotations, shapes = [], []
    for _ in range(150):
        corners = generator.integers(0, 12, (2, 2))
        low, high = corners.min(0), corners.max(0) + 1
        box = Box.from_extrema(int(low[0]), int(high[0]), int(low[1]), int(high[1]))
        x, y, size = generator.integers(2, 10, 3).tolist()
        kite = Box([[(x, y - size), (x + size, y), (x, y + size), (x - size, y), (x, y - size)]])
        chosen = (box, kite)[int(generator.integers(2))]
        annotations.append(_annotation(**{("bounding_box", "polygon")[int(generator.integers(2))]: chosen}))
        shapes.append(shaped(chosen.to_dict()))
    columns = _columns(*annotations)
    for geometry in (BOX, TURNED, HOLED, PARTS, Point((5, 5))):
        other = shaped(geometry.to_dict())
        for op, expected in (
            ("intersects", [shape.intersects(other) for shape in shapes]),
            ("inside", [other.covers(shape) for shape in shapes]),
            ("outside", [shape.disjoint(other) for shape in shapes]),
        ):
            mask = Condition(op, "annotation.geometry", geometry).mask(columns.groundtruths, columns)
            assert mask[::2].tolist() == expected
    areas = [shape.area for shape in shapes]
    limit = float(np.median(areas))
    assert (annotation_geometry.area >= limit).mask(columns.predictions, columns)[::2].tolist() == [
        area >= limit for area in areas
    ]


def test_masks_of_a_segmentation() -> None:
    masked = [Annotation(labels=[Label("k", "v")], raster=raster) for raster in (MASK, Raster(~MASK.mask))]
    datum = Datum("a")
    columns = read_columns([GroundTruth(datum, masked)], [Prediction(datum, masked)], TaskType.SEMANTIC_SEGMENTATION)
    for expression, expected in (
        (annotation_raster.area == 12, [True, False]),
        (annotation_geometry.inside(Box.from_extrema(0, 3, 0, 4)), [True, False]),
        (annotation_geometry.type == "raster", [True, True]),
        (annotation_box.isnull(), [True, True]),
    ):
        assert expression.mask(columns.groundtruths, columns).tolist() == expected


def test_what_cannot_be_asked() -> None:
    frame = {"datum_uid": ["a"], "label_key": ["k"], "label_value": ["v"], "score": [1.0]}
    classified = read_columns(frame, frame)
    for expression in (annotation_box.area > 3, annotation_geometry.type == "box", annotation_raster.isnull()):
        with pytest.raises(InputError, match="needs annotations with geometries, as a detection has, but there are no"):
            Filter(groundtruths=expression).masks(classified)
    with pytest.raises(InputError, match=r"annotation\.metadata place must be a geometry for this .* but holds 3"):
        Filter(groundtruths=annotation_metadata["place"].intersects(BOX)).masks(
            _columns(_annotation(bounding_box=BOX, metadata={"place": 3}))
        )
    with pytest.raises(InputError, match=r"value of inside on annotation\.geometry must have finite coordinates but"):
        Filter(groundtruths=annotation_geometry.inside(Point((0, float("inf"))))).masks(COLUMNS)
    with pytest.raises(InputError, match=r"annotation\.metadata\.area 'plcae' must be .*; there is 'place'"):
        Filter(groundtruths=annotation_metadata["plcae"].area > 3).masks(COLUMNS)
    with pytest.raises(InputError, match=r"field must be one of .* but got 'score\.area'"):
        Condition("gt", "score.area", 3)
    with pytest.raises(
        InputError, match=r"datums must compare datum\.uid and datum\.metadata only but compares \['ann"
    ):
        Filter(datums=annotation_box.area > 3)
