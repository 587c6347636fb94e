"""Labels of boxes, polygons, rasters, embeddings and texts are no classifications, in objects and in frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.valor import cases
from valor_gpu.errors import InputError
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    GroundTruth,
    Label,
    Polygon,
    Prediction,
    Raster,
    ValorClassificationManager,
    evaluate_classification,
)
from valor_gpu.valor.schemas import Embedding

BOX = Box.from_extrema(0, 4, 0, 4)
POLYGON = Polygon([[(0, 0), (4, 0), (0, 4), (0, 0)]])
RASTER = Raster(np.ones((2, 2), np.bool_))
PLACED: list[dict[str, Any]] = [
    {"bounding_box": BOX, "is_instance": True},
    {"polygon": POLYGON, "is_instance": True},
    {"raster": RASTER, "is_instance": True},
    {"raster": RASTER},
    {"bounding_box": BOX, "implied_task_types": ["object-detection"]},
]
NO_TASK: list[dict[str, Any]] = [
    {"bounding_box": BOX},
    {"polygon": POLYGON, "raster": RASTER},
    {"embedding": Embedding([1.0])},
    {"text": "yes"},
    {"context_list": ["c"]},
]


def truth(uid: str, *annotations: Annotation) -> GroundTruth:
    return GroundTruth(Datum(uid), list(annotations))


def found(uid: str, *annotations: Annotation) -> Prediction:
    return Prediction(Datum(uid), list(annotations))


def labelled(value: str, score: float | None = None, **fields: Any) -> Annotation:
    return Annotation(labels=[Label("k", value, score)], **fields)


PLAIN = (
    [truth("a", labelled("x")), truth("b", labelled("y"))],
    [
        found("a", labelled("x", 1.0)),
        found("b", labelled("x", 1.0)),
    ],
)


@pytest.mark.parametrize("compat", [None, "valor-api", "valor-core", "valor-lite"])
@pytest.mark.parametrize("fields", PLACED)
def test_other_tasks_are_left_out(fields: dict[str, Any], compat: str | None) -> None:
    names = None if compat == "valor-lite" else cases.ALL
    expected = evaluate_classification(*PLAIN, compat=compat, metrics_to_return=names)
    truths = [
        truth("a", labelled("x"), labelled("y", **fields)),
        truth("b", labelled("z", **fields), labelled("y")),
        truth("only boxes", labelled("z", **fields)),
    ]
    predictions = [
        found("a", labelled("x", 1.0), labelled("y", 0.7, **fields)),
        found("b", labelled("x", 1.0)),
        found("only boxes", labelled("w", 0.5, **fields)),
    ]
    shown = evaluate_classification(truths, predictions, compat=compat, metrics_to_return=names)
    assert shown.metrics == expected.metrics
    assert shown.confusion_matrices == expected.confusion_matrices
    assert shown.meta is not None and expected.meta is not None
    for name in ("labels", "datums", "annotations"):
        assert shown.meta[name] == expected.meta[name]


@pytest.mark.parametrize("fields", NO_TASK)
def test_labels_that_fit_no_task(fields: dict[str, Any]) -> None:
    truths = [truth("a", labelled("x")), truth("b", labelled("y", **fields))]
    with pytest.raises(InputError, match=r"groundtruths must hold annotations of a task but .* datum 'b' fit none"):
        evaluate_classification(truths, PLAIN[1])
    truths[1].annotations[0].implied_task_types = ["classification"]
    assert evaluate_classification(truths, PLAIN[1]).metrics == evaluate_classification(*PLAIN).metrics


def test_a_manager_knows_datums_without_classifications() -> None:
    manager = ValorClassificationManager()
    boxes = labelled("z", bounding_box=BOX, is_instance=True)
    manager.add_data([*PLAIN[0], truth("c", boxes)], PLAIN[1])
    assert manager.datum_uids == {"a", "b", "c"}
    with pytest.raises(InputError, match="once with each datum but got 'c' again"):
        manager.add_data([truth("c", labelled("x"))], [found("c", labelled("x", 1.0))])
    meta = manager.evaluate().meta
    assert meta is not None
    assert (meta["datums"], meta["annotations"]) == (2, 4)


FRAME: dict[str, list[Any]] = {
    "datum_uid": ["a", "b", "b", "c"],
    "label_key": ["k", "k", "k", None],
    "label_value": ["x", "y", "z", None],
}
SCORES = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": ["x", "x"], "score": [1.0, 1.0]}


@pytest.mark.parametrize("library", ["dict", "pandas"])
@pytest.mark.parametrize(
    "columns",
    [
        {"bounding_box": [None, None, BOX, None], "is_instance": [None, None, True, None]},
        {"polygon": [None, None, POLYGON, None], "is_instance": [False, False, True, False]},
        {"raster": [None, float("nan"), RASTER.mask, None]},
        {"implied_task_types": [["classification"], None, ["object-detection"], None]},
        {"implied_task_type": ["classification", "classification", "semantic-segmentation", "empty"]},
    ],
)
def test_frames_with_rows_of_other_tasks(columns: dict[str, Any], library: str) -> None:
    frame: Any = {**FRAME, **columns}
    if library == "pandas":
        frame = pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(frame)
    shown = evaluate_classification(frame, SCORES)
    assert shown.metrics == evaluate_classification(*PLAIN).metrics
    assert shown.meta is not None
    assert (shown.meta["datums"], shown.meta["annotations"]) == (2, 4)


@pytest.mark.parametrize(
    "columns",
    [
        {"bounding_box": [None, None, BOX, None]},
        {"bounding_box": [None, None, BOX, None], "is_instance": [None, None, False, None]},
        {"text": [None, None, "yes", None]},
        {"embedding": [None, None, [1.0], None]},
    ],
)
def test_rows_of_frames_that_fit_no_task(columns: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"groundtruths must hold annotations of a task but .* datum 'b' fit none"):
        evaluate_classification({**FRAME, **columns}, SCORES)
