"""Frames of several libraries give the numbers of objects, and say what they lack."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.valor import cases
from tests.valor.test_classification import Frame, scene
from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.valor import (
    Annotation,
    Datum,
    Filter,
    GroundTruth,
    Label,
    Prediction,
    evaluate_classification,
    frames,
)
from valor_gpu.valor.columns import join_columns
from valor_gpu.valor.filters import annotation_metadata, datum_metadata


class Stream:
    """A table that shows nothing but the Arrow stream."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Interchange:
    """A table that shows nothing but the interchange protocol."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return self.table.__dataframe__(nan_as_null, allow_copy)


def build(library: str, wrap: Callable[[Any], Any], frame: Frame) -> Any:
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    return wrap(module.table(frame) if library == "pyarrow" else module.DataFrame(frame))


def objects(truth: Frame, found: Frame) -> tuple[list[GroundTruth], list[Prediction]]:
    rows: dict[str, list[Label]] = {uid: [] for uid in truth["datum_uid"]}
    for uid, *label in zip(*found.values()):
        rows[uid].append(Label(*label))
    truths = [GroundTruth(Datum(uid), [Annotation(labels=[Label(*label)])]) for uid, *label in zip(*truth.values())]
    return truths, [Prediction(Datum(uid), [Annotation(labels=labels)]) for uid, labels in rows.items()]


@pytest.mark.parametrize(
    ("library", "wrap"),
    [
        ("pyarrow", lambda table: table),
        ("pyarrow", Stream),
        ("pyarrow", Interchange),
        ("pandas", lambda frame: frame),
        ("polars", lambda frame: frame),
    ],
)
def test_a_frame_is_as_good_as_objects(library: str, wrap: Callable[[Any], Any]) -> None:
    truth, found = scene(11)
    expected = evaluate_classification(*objects(truth, found), metrics_to_return=cases.ALL)
    data = build(library, wrap, truth), build(library, wrap, found)
    shown = evaluate_classification(*data, metrics_to_return=cases.ALL)
    assert shown.metrics == expected.metrics
    assert shown.confusion_matrices == expected.confusion_matrices


def test_mappings_of_arrays_and_of_lists() -> None:
    truth, found = scene(12)
    arrays = [{name: np.array(values) for name, values in frame.items()} for frame in (truth, found)]
    assert evaluate_classification(*arrays).metrics == evaluate_classification(truth, found).metrics


@pytest.mark.parametrize("library", ["dict", "pyarrow", "pandas", "polars"])
def test_metadata_columns(library: str) -> None:
    truth: Frame = {
        "datum_uid": ["a", "a", "b"],
        "label_key": ["k", "l", "k"],
        "label_value": ["x", "z", "y"],
        "annotation_id": [7, 7, 9],
        "datum_metadata.hour": [4, 4, None],
        "annotation_metadata.sure": ["yes", "yes", "no"],
    }
    found = {**{name: truth[name] for name in ("datum_uid", "label_key", "label_value")}, "score": [1.0, 1.0, 1.0]}
    data = truth if library == "dict" else build(library, lambda frame: frame, truth)
    columns = read_columns(data, found)
    assert columns.annotations == 2 + 3
    assert columns.groundtruths.annotation.tolist() == [0, 0, 1]
    assert Filter(datums=datum_metadata["hour"] == 4).masks(columns)[1].tolist() == [True, True, False]
    assert Filter(datums=datum_metadata["hour"].isnull()).masks(columns)[0].tolist() == [False, True]
    sure = Filter(groundtruths=annotation_metadata["sure"] == "no").masks(columns)[1]
    assert sure.tolist() == [False, False, True]


@pytest.mark.parametrize("library", ["dict", "pyarrow", "pandas", "polars"])
def test_metadata_columns_of_dicts(library: str) -> None:
    truth: Frame = {
        "datum_uid": ["a", "b", "c"],
        "label_key": ["k", "k", "k"],
        "label_value": ["x", "y", "y"],
        "datum_metadata": [{"hour": 4}, {"hour": 5}, None],
        "annotation_metadata": [{"sure": "yes"}, None, {"sure": "no"}],
        "datum_metadata.hour": [None, 6, 7],
    }
    found = {**{name: truth[name] for name in ("datum_uid", "label_key", "label_value")}, "score": [1.0, 1.0, 1.0]}
    data = truth if library == "dict" else build(library, lambda frame: frame, truth)
    columns = read_columns(data, found)
    assert Filter(datums=datum_metadata["hour"] == 6).masks(columns)[0].tolist() == [False, True, False]
    assert Filter(datums=datum_metadata["hour"] == 7).masks(columns)[0].tolist() == [False, False, True]
    sure = Filter(groundtruths=annotation_metadata["sure"] == "no").masks(columns)[1]
    assert sure.tolist() == [False, False, True]
    del truth["datum_metadata.hour"]
    data = truth if library == "dict" else build(library, lambda frame: frame, truth)
    shown = evaluate_classification(data, found, filters=Filter(datums=datum_metadata["hour"] <= 4))
    assert shown.meta is not None
    assert shown.meta["datums"] == 1
    with pytest.raises(InputTypeError, match="groundtruths column 'datum_metadata' must hold dicts but got str"):
        read_columns({**truth, "datum_metadata": ["x", "y", "z"]}, found)


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_missing_labels_of_pandas(dtype: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    truth = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": pandas.Series(["x", None], dtype=dtype)}
    with pytest.raises(InputError, match="groundtruths must have a label_value in every row but row 1 has"):
        read_columns(pandas.DataFrame(truth), [])


class NAType:
    """As the NA of pandas, comparisons with it are neither true nor false."""

    __hash__ = object.__hash__

    def __ne__(self, other: object) -> NAType:  # type: ignore[override]
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


def test_na_is_missing() -> None:
    truth = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": np.array(["x", NAType()], object)}
    with pytest.raises(InputError, match="groundtruths must have a label_value in every row but row 1 has"):
        read_columns(truth, [])
    truth["label_value"] = np.array([1.0, np.nan])
    with pytest.raises(InputError, match="groundtruths must have a label_value in every row but row 1 has nan"):
        read_columns(truth, [])


def test_columns_join() -> None:
    truth, found = scene(13, datums=20)
    other, others = scene(14, datums=20, classes=6)
    for frame in (other, others):
        frame["datum_uid"] = [f"other {uid}" for uid in frame["datum_uid"]]
        frame["datum_metadata.part"] = [2] * len(frame["datum_uid"])
    joined = join_columns([read_columns(truth, found), read_columns(other, others)])
    both = [{name: a[name] + b[name] for name in a} for a, b in ((truth, other), (found, others))]
    whole = read_columns(*both)
    assert joined.datums == whole.datums
    assert joined.datum_metadata[20:] == [{"part": 2}] * 20
    for side in ("groundtruths", "predictions"):
        one, two = getattr(joined, side), getattr(whole, side)
        assert [joined.labels[label] for label in one.label] == [whole.labels[label] for label in two.label]
        assert one.datum.tolist() == two.datum.tolist()
        assert one.annotation.tolist() == two.annotation.tolist()
        assert np.array_equal(one.score, two.score, equal_nan=True)


def test_wrong_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, found = scene(1, datums=3)
    with pytest.raises(InputError, match="predictions must have a column 'score' but has 'datum_uid', 'label_key'"):
        evaluate_classification(truth, truth)
    with pytest.raises(InputError, match="groundtruths must have a column 'datum_uid' but has none"):
        evaluate_classification({}, found)
    with pytest.raises(InputError, match="groundtruths must have columns of one length but got 3, 2, 3"):
        evaluate_classification({**truth, "label_key": ["k", "k"]}, found)
    with pytest.raises(InputError, match=r"column 'label_key' must be one-dimensional but has shape \[3, 1\]"):
        evaluate_classification({**truth, "label_key": [["k"]] * 3}, found)
    for column, value in (
        ("datum_uid", None),
        ("label_key", math.nan),
        ("label_value", None),
        ("label_value", math.nan),
    ):
        message = rf"predictions must have a {column} in every row but row 2 has {value}"
        with pytest.raises(InputError, match=message):
            read_columns(truth, {**found, column: [*found[column][:2], value, *found[column][3:]]})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"groundtruths of type Stream needs pyarrow: pip install .*arrow"):
        frames.open_frame("groundtruths", Stream(None))


TRUE_FRAME = {"datum_uid": ["1", "2"], "label_key": ["k", "k"], "label_value": ["0", "1"]}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("datum_uid", [1, 2]),
        ("datum_uid", np.array([1.0, 2.0])),
        ("datum_uid", [b"1", b"2"]),
        ("label_value", [0, 1]),
        ("label_value", np.array([0.0, 1.0])),
    ],
)
def test_numbers_and_texts_name_the_same_datums_and_labels(column: str, values: Any) -> None:
    found = {**TRUE_FRAME, column: values, "score": [1.0, 1.0]}
    evaluation = evaluate_classification(TRUE_FRAME, found)
    assert (evaluation.metrics[0]["value"], evaluation.meta["datums"]) == (1.0, 2)


@pytest.mark.parametrize("scores", [["1.0", "1.0"], [1 + 0j, 1], [object(), 1.0], np.array(["1.0", "x"])])
def test_scores_are_numbers(scores: Any) -> None:
    with pytest.raises(InputTypeError, match="predictions column 'score' must hold numbers but row 0 has"):
        evaluate_classification(TRUE_FRAME, {**TRUE_FRAME, "score": scores})


def test_scores_fit_in_a_double() -> None:
    with pytest.raises(InputError, match=r"column .score. must hold numbers of at most 1\.8e308"):
        evaluate_classification(TRUE_FRAME, {**TRUE_FRAME, "score": [10**400, 1]})


def test_task_types_of_a_frame_are_known_and_an_empty_list_is_none_given() -> None:
    found = {**TRUE_FRAME, "score": [1.0, 1.0]}
    given = {**TRUE_FRAME, "implied_task_types": [[], ["classification"]]}
    assert evaluate_classification(given, found).meta["datums"] == 2
    with pytest.raises(InputError, match=r"'implied_task_types' must be one of .* but got 'Classification'"):
        evaluate_classification({**given, "implied_task_types": ["Classification", None]}, found)


def test_queries_are_to_be_collected() -> None:
    class LazyFrame:
        def collect(self) -> None: ...

        @property
        def columns(self) -> list[str]:
            raise AssertionError("the names of the columns of a query cost time")

    message = r"^groundtruths must be a frame in memory but is a LazyFrame, whose rows are not there yet: collect it$"
    with pytest.raises(InputTypeError, match=message):
        evaluate_classification(LazyFrame(), LazyFrame())  # type: ignore[arg-type]


def test_relations_of_a_data_base_are_read_through_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")

    class Relation:
        def __init__(self, columns: dict[str, Any]) -> None:
            self.table, self.columns = pyarrow.table(columns), list(columns)

        def __getitem__(self, name: str) -> Relation:
            return Relation({name: self.table[name]})

        def __arrow_c_stream__(self, schema: object = None) -> object:
            return self.table.__arrow_c_stream__(schema)

    labels = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": ["x", "y"]}
    sides: Any = Relation(labels), Relation({**labels, "score": [1.0, 1.0]})
    assert evaluate_classification(*sides).metrics[0]["value"] == 1.0
