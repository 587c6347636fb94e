"""Filters: every operator and field, joins, missing values, trees, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.valor.columns import Columns, Rows
from valor_gpu.valor.filters import (
    And,
    Condition,
    Expression,
    Filter,
    Not,
    Or,
    annotation_metadata,
    datum_metadata,
    datum_uid,
    label_key,
    label_value,
    score,
)

# Three rows: a/x 0.2, b/y 0.5, b/z of another key 0.8.
ROWS = Rows(
    datum=np.array([0, 1, 1], np.int32),
    label=np.array([0, 1, 2], np.int32),
    annotation=np.array([0, 1, 1], np.int32),
    score=np.array([0.2, 0.5, 0.8]),
    metadata=[{"size": 3}, None],
)
TRUTHS = Rows(ROWS.datum, ROWS.label, ROWS.annotation, np.full(3, np.nan), ROWS.metadata)
COLUMNS = Columns(
    ["a", "b"], [{"hour": 4, "tags": ["rain"]}, {"hour": 9}], [("k", "x"), ("k", "y"), ("l", "z")], TRUTHS, ROWS, 4
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (datum_uid == "a", [1, 0, 0]),
        (datum_uid != "a", [0, 1, 1]),
        (datum_uid.isin(["b", "c"]), [0, 1, 1]),
        (datum_uid.contains("a"), [1, 0, 0]),
        (datum_metadata["hour"] > 4, [0, 1, 1]),
        (datum_metadata["hour"] >= 4, [1, 1, 1]),
        (datum_metadata["hour"] < 9, [1, 0, 0]),
        (datum_metadata["hour"] <= 9, [1, 1, 1]),
        (datum_metadata["tags"].contains("rain"), [1, 0, 0]),
        (datum_metadata["tags"].isnull(), [0, 1, 1]),
        (annotation_metadata["size"] == 3, [1, 0, 0]),
        (annotation_metadata["size"] != 3, [0, 0, 0]),  # missing is neither
        (annotation_metadata["size"].isnotnull(), [1, 0, 0]),
        (~(annotation_metadata["size"] == 3), [0, 1, 1]),
        (label_key == "l", [0, 0, 1]),
        (label_value.isin({"x", "z"}), [1, 0, 1]),
        (score >= 0.5, [0, 1, 1]),
        (score < 0.5, [1, 0, 0]),
        (score.isin([0.2]), [1, 0, 0]),
        (score.isnull(), [0, 0, 0]),
        ((score > 0.3) & (label_key == "k"), [0, 1, 0]),
        ((score > 0.7) | (datum_uid == "a"), [1, 0, 1]),
        (Or(score > 0.7, datum_uid == "a", label_value == "y"), [1, 1, 1]),
        (And(Not(score > 0.7), datum_uid == "b"), [0, 1, 0]),
    ],
)
def test_masks(expression: Expression, expected: list[int]) -> None:
    assert expression.mask(ROWS, COLUMNS).astype(int).tolist() == expected


def test_ground_truths_have_no_scores() -> None:
    assert not (score >= 0).mask(TRUTHS, COLUMNS).any()
    assert not (score != 0.2).mask(TRUTHS, COLUMNS).any()
    assert score.isnull().mask(TRUTHS, COLUMNS).all()


def test_a_filter_of_each_side() -> None:
    datums, truths, rows = Filter(datum_uid == "b", label_key == "k", score > 0.5).masks(COLUMNS)
    assert datums.tolist() == [False, True]
    assert truths.tolist() == [False, True, False]
    assert rows.tolist() == [False, False, True]
    assert all(mask.all() for mask in Filter().masks(COLUMNS))


def test_trees() -> None:
    hour = {"op": "gt", "lhs": {"name": "datum.metadata", "key": "hour"}, "rhs": {"value": 4}}
    missing = {"op": "isnull", "lhs": {"name": "annotation.metadata", "key": "size"}}
    tree = {"op": "or", "args": [{"op": "not", "args": hour}, {"op": "and", "args": [missing, hour]}]}
    found = Filter.from_dict({"predictions": tree, "datums": None})
    assert found.datums is None
    assert found.predictions is not None
    assert repr(found.predictions) == repr(
        ~(datum_metadata["hour"] > 4) | (annotation_metadata["size"].isnull() & (datum_metadata["hour"] > 4))
    )
    assert found.predictions.mask(ROWS, COLUMNS).all()


def test_not_takes_one_expression_alone_or_in_a_list() -> None:
    for args in (UID, [UID]):
        datums, _, _ = Filter.from_dict({"datums": {"op": "not", "args": args}}).masks(COLUMNS)
        assert datums.tolist() == [False, True]
    listed = Filter.from_dict({"datums": {**UID, "op": "isin", "rhs": {"value": ["b", "c"]}}})
    assert listed.masks(COLUMNS)[0].tolist() == [False, True]


def test_expressions_have_no_truth() -> None:
    message = r"must be joined by &, \| and ~ but (Condition|Not)"
    with pytest.raises(InputError, match=message):
        Filter(datums="a" < datum_uid < "c")  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        Filter((datum_uid == "a") and (datum_uid == "b"))
    with pytest.raises(InputError, match=message):
        Filter((datum_uid == "a") or (datum_uid == "b"))
    with pytest.raises(InputError, match=message):
        bool(~(datum_uid == "a"))


UID = {"op": "eq", "lhs": {"name": "datum.uid"}, "rhs": {"value": "a"}}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"rows": None}, "filter must be one of 'datums', 'groundtruths', 'predictions', .* but got 'rows'"),
        ({"datums": []}, r"filter datums must be a dict with 'op' but got \[\]"),
        ({"datums": {"op": "and"}}, r"filter datums must have 'args' for 'and' but has \['op'\]"),
        (
            {"datums": {"op": "near", "lhs": {"name": "score"}}},
            r"filter datums\.op must be one of 'eq'.* but got 'near'",
        ),
        ({"datums": {"op": "eq"}}, r"filter datums\.lhs must be one of 'datum.uid'.* but got None"),
        ({"datums": {"op": "eq", "lhs": {"name": "datum.metadata"}}}, "key must name metadata .* but got None"),
        ({"datums": {"op": "gt", "lhs": {"name": "score"}, "rhs": {"value": 1}}}, r"but compares \['score'\]"),
        (
            {"datums": {"op": "or", "args": []}},
            r"filter datums\.args must have at least one expression for 'or' but has 0",
        ),
        (
            {"datums": {"op": "not", "args": [UID, UID]}},
            r"filter datums\.args must have one expression for 'not' but has 2",
        ),
        ({"datums": {"op": "not", "args": []}}, r"filter datums\.args must have one expression for 'not' but has 0"),
        ({"datums": {"op": "and", "args": "a"}}, r"filter datums\.args must be list or tuple but got str"),
        ({"datums": {"op": "eq", "lhs": UID["lhs"]}}, r"value of eq on datum\.uid must be given but got None"),
        ({"datums": {**UID, "rhs": {}}}, r"value of eq on datum\.uid must be given but got None"),
        ({"datums": {**UID, "rhs": "a"}}, r"filter datums\.rhs must be a dict but got str"),
        ({"datums": {**UID, "op": "isin"}}, r"value of isin on datum\.uid must be a list .* but got 'a'"),
    ],
)
def test_wrong_trees(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Filter.from_dict(tree)


def test_wrong_comparisons() -> None:
    with pytest.raises(InputError, match=r"datum\.metadata hour must compare with 'four' by gt but holds 4"):
        (datum_metadata["hour"] > "four").mask(ROWS, COLUMNS)
    with pytest.raises(InputError, match=r"datum\.uid must compare with 3 by lt but holds 'a'"):
        (datum_uid < 3).mask(ROWS, COLUMNS)
    with pytest.raises(InputError, match=r"value of contains on datum\.uid must be str but got int"):
        datum_uid.contains(3)
    for values in ("abc", 3, [["a"]]):
        with pytest.raises(InputError, match=r"value of isin on datum\.uid must be a list of hashable values but got"):
            datum_uid.isin(values)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"value of eq on datum\.metadata hour must be given but got None"):
        datum_metadata["hour"] == None  # noqa: B015, E711
    with pytest.raises(InputError, match="value of a condition on score must be int or float but got str"):
        (score > "0.5").mask(ROWS, COLUMNS)
    with pytest.raises(InputError, match="predictions must be Expression or NoneType but got bool"):
        Filter(predictions=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="And must be Expression but got str"):
        And(datum_uid == "a", "b")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        hash(score)
    assert Condition("eq", "score", 1).fields() == {"score"}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            Filter(datum_metadata["huor"] == 4),
            r"datum\.metadata 'huor' must be a key that some datum has .*; there is 'hour'",
        ),
        (Filter(~(datum_metadata["tag"].isnull())), "datum.metadata 'tag' must be .* none has it; there is 'tags'"),
        (Filter(datum_metadata["x"] == 1), "there is 'hour', 'tags'$"),
        (Filter(groundtruths=annotation_metadata["sizes"] > 3), "some annotation has but none has it; there is 'size'"),
        (Filter(predictions=(score > 0) & (annotation_metadata["hour"] > 3)), "annotation.metadata 'hour' must be"),
    ],
)
def test_a_key_that_no_metadata_has(choice: Filter, message: str) -> None:
    with pytest.raises(InputError, match=message):
        choice.masks(COLUMNS)


def test_without_metadata_there_is_none_to_name() -> None:
    columns = Columns(["a", "b"], [None, None], COLUMNS.labels, TRUTHS, ROWS, 4)
    with pytest.raises(InputError, match=r"there is no metadata$"):
        Filter(datum_metadata["hour"] == 4).masks(columns)
