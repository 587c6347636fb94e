"""Filters as dicts of Valor's client."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.valor import Point, Polygon
from valor_gpu.valor.filters import (
    And,
    Filter,
    annotation_box,
    annotation_geometry,
    annotation_metadata,
    annotation_raster,
    datum_metadata,
    label_key,
    label_value,
    score,
)

SQUARE = [[[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]]


def _condition(op: str, name: str, key: str | None = None, **rhs: Any) -> dict[str, Any]:
    return {"op": op, "lhs": {"name": name, "key": key}, "rhs": rhs or None}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (_condition("gte", "annotation.bounding_box.area", type="float", value=10.0), annotation_box.area >= 10.0),
        (_condition("isnull", "annotation.raster"), annotation_raster.isnull()),
        (_condition("eq", "label.key", type="string", value="k"), label_key == "k"),
        (_condition("lt", "label.score", type="float", value=0.5), score < 0.5),
        (_condition("lt", "datum.metadata", "day", type="date", value="2024-05-01"),
         datum_metadata["day"] < date(2024, 5, 1)),
        (_condition("inside", "annotation.metadata", "at", type="polygon", value=SQUARE),
         annotation_metadata["at"].inside(Polygon(SQUARE))),
        (_condition("intersects", "annotation.geometry", type="geojson",
                    value={"type": "Point", "coordinates": [1, 2]}),
         annotation_geometry.intersects(Point([1, 2]))),
        ({"op": "eq", "lhs": "datum.metadata", "lhs_key": "day", "rhs": {"type": "integer", "value": 3},
          "rhs_key": None}, datum_metadata["day"] == 3),
        (_condition("eq", "annotation.geometry.type", value="raster"), annotation_geometry.type == "raster"),
    ],
)  # fmt: skip
def test_conditions_of_the_client(tree: dict[str, Any], expected: object) -> None:
    assert repr(Filter.from_dict({"predictions": tree}).predictions) == repr(expected)


def test_annotations_and_labels_hold_for_both_sides() -> None:
    large = _condition("gt", "annotation.geometry.area", type="float", value=5.0)
    key = _condition("eq", "label.key", type="string", value="k")
    sure = _condition("gt", "label.score", type="float", value=0.5)
    found = Filter.from_dict({"annotations": large, "labels": key, "predictions": sure, "datasets": None})
    both = (annotation_geometry.area > 5.0, label_key == "k")
    assert repr(found.groundtruths) == repr(And(*both))
    assert repr(found.predictions) == repr(And(score > 0.5, *both))
    assert found.datums is None
    alone = Filter.from_dict({"labels": {"op": "and", "args": key}})  # the client writes one expression without a list
    assert repr(alone.groundtruths) == repr(And(label_key == "k")) == repr(alone.predictions)
    assert Filter.from_dict({"labels": key}).groundtruths == (label_key == "k")


UID = _condition("eq", "datum.uid", type="string", value="a")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"datum": UID}, r"filter must be one of .* but got 'datum'; did you mean 'datums'\?"),
        ({"models": UID}, "filter 'models' must be None, there are no models here to choose from"),
        ({"datums": {"op": "and", "args": [UID, {**UID, "op": "equals"}]}},
         r"filter datums\.args\[1\]\.op must be one of .* but got 'equals'"),
        ({"datums": {"op": "not", "args": {**UID, "op": "is_null"}}},
         r"filter datums\.args\[0\]\.op must be .* but got 'is_null'; did you mean 'isnull'"),
        ({"datums": {"op": "and", "arg": UID}}, r"filter datums must be one of 'args', 'op' but got 'arg'; did you"),
        ({"labels": _condition("eq", "label.kye", type="string", value="k")},
         r"filter labels\.lhs must be one of .* but got 'label\.kye'; did you mean 'label\.key'"),
        ({"datums": {**UID, "rhs": {"typ": "string", "value": "a"}}},
         r"filter datums\.rhs must be .*; did you mean 'type'"),
        ({"datums": {**UID, "rhs": {"type": "text", "value": "a"}}},
         r"filter datums: type of value of eq on datum\.uid must be one of"),
        ({"datums": {**UID, "rhs_key": "b"}}, r"filter datums must compare with a value but 'rhs_key' is 'b'"),
        ({"datums": {**UID, "lhs_key": "b"}}, r"filter datums must have the key in 'lhs' or in 'lhs_key' but has both"),
        ({"datums": {**UID, "op": "isnull"}}, r"filter datums: value of isnull on datum\.uid must be None but got \{"),
        ({"predictions": _condition("inside", "score", type="polygon", value=SQUARE)},
         r"filter predictions: inside must be asked of a geometry but is of score"),
        ({"predictions": _condition("inside", "annotation.polygon", type="float", value=1.0)},
         r"value of inside on annotation\.polygon must be a geometry, an object or GeoJSON, but got 1\.0"),
        ({"predictions": _condition("gt", "annotation.polygon", type="float", value=1.0)},
         r"annotation\.polygon must be asked intersects, inside, outside, isnull .* or its area, but is asked gt"),
        ({"predictions": _condition("eq", "annotation.geometry.type", value="boxes")},
         r"value of eq on annotation\.geometry\.type must be one of 'box'.* but got 'boxes'; did you mean 'box'"),
        ({"predictions": _condition("gt", "annotation.geometry.area", value="large")},
         "value of a condition on annotation.geometry.area must be int or float but got str"),
    ],
)  # fmt: skip
def test_wrong_trees_name_the_place(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Filter.from_dict(tree)


def test_a_tree_filters_labels() -> None:
    tree = {"op": "or", "args": [_condition("eq", "label.value", value="x"), _condition("isnotnull", "label.score")]}
    found = Filter.from_dict({"groundtruths": tree}).groundtruths
    assert repr(found) == repr((label_value == "x") | score.isnotnull())


def test_a_tree_may_be_long_but_not_bottomless() -> None:
    many = score >= 0.0
    for number in range(3000):
        many = many & (score >= number / 3000)
    assert len(list(many.conditions())) == 3001
    turned = score >= 0.5
    for _ in range(3000):
        turned = ~turned
    assert turned.depth == 1
    with pytest.raises(InputError, match=r"^(Or|And) must hold at most 100 expressions inside one another"):
        for _ in range(60):
            turned = (turned | (score < 0.1)) & (score < 0.9)
    endless: dict[str, Any] = {"op": "not", "args": []}
    endless["args"].append(endless)
    with pytest.raises(InputError, match=r"^filter datums must hold at most 100 expressions inside one another"):
        Filter.from_dict({"datums": endless})
    tree = _condition("eq", "label.key", value="k")
    for _ in range(99):
        tree = {"op": "not", "args": [tree]}
    deep = Filter.from_dict({"groundtruths": tree}).groundtruths
    assert deep is not None
    assert deep.fields() == {"label.key"}
    with pytest.raises(InputError, match=r"^filter groundtruths must hold at most 100 .* but holds 101 or more$"):
        Filter.from_dict({"groundtruths": {"op": "not", "args": [tree]}})
