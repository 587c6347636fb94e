"""Objects of a wrong type are rejected by errors that are TypeErrors; numbers out of range by ValueErrors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from valor_gpu.valor.evaluation import Evaluation, EvaluationParameters

from valor_gpu import checks
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import enums, evaluate_classification, metrics
from valor_gpu.valor.managers import ValorClassificationManager
from valor_gpu.valor.metrics import ConfusionMatrix, ConfusionMatrixEntry
from valor_gpu.valor.schemas import Annotation, Box, Datum, Embedding, GroundTruth, Label, Polygon, Prediction

LABEL = Label("k", "v")
ENTRY = ConfusionMatrixEntry("a", "b", 1)
TRIANGLE = Polygon([[(0, 0), (1, 0), (1, 1), (0, 0)]])


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (Label, ("k", "v", "boo"), "Label.score must be a number or None but got 'boo'"),
        (Annotation, {"text": 3}, "Annotation.text must be str or NoneType but got int"),
        (Annotation, {"context_list": "abc"}, "Annotation.context_list must be list or NoneType but got str"),
        (Annotation, {"context_list": [1, 2]}, "Annotation.context_list must be str but got int"),
        (Annotation, {"text": ["x"]}, "Annotation.text must be str or NoneType but got list"),
        (Annotation, {"embedding": [1.0]}, "Annotation.embedding must be Embedding or NoneType but got list"),
        (Annotation, {"is_instance": 1}, "Annotation.is_instance must be bool or NoneType but got int"),
        (Annotation, {"bounding_box": TRIANGLE}, "Annotation.bounding_box must be Box or NoneType but got Polygon"),
        (Annotation, {"implied_task_types": "empty"}, "Annotation.implied_task_types must be list or NoneType but"),
        (Embedding, (["x"],), "Embedding.value must be a number but got 'x'"),
        (Box, ([],), "Box.value must have at least one ring but has none"),
        (EvaluationParameters, {"label_map": [[["k", "v"], ["k", "w"]]]}, "label_map must be dict or NoneType but"),
        (EvaluationParameters, {"label_map": {"bad": "input"}}, "label_map must be Label but got str"),
        (EvaluationParameters, {"metrics_to_return": {"bad": "input"}}, "metrics_to_return must be list or NoneType"),
        (EvaluationParameters, {"metrics_to_return": [3]}, "metrics_to_return must be str but got int"),
        (EvaluationParameters, {"iou_thresholds_to_compute": 0.5}, "iou_thresholds_to_compute must be list or None"),
        (EvaluationParameters, {"iou_thresholds_to_return": ["x"]}, "iou_thresholds_to_return must be a number but"),
        (EvaluationParameters, {"convert_annotations_to_type": 3}, "convert_annotations_to_type must be str but got"),
        (
            EvaluationParameters,
            {"recall_score_threshold": None},
            "recall_score_threshold must be a number but got",
        ),
        (EvaluationParameters, {"pr_curve_iou_threshold": "1"}, "pr_curve_iou_threshold must be a number but got '1'"),
        (EvaluationParameters, {"pr_curve_max_examples": 0.5}, "pr_curve_max_examples must be int but got float"),
        (EvaluationParameters, {"llm_api_params": "openai"}, "llm_api_params must be Mapping or NoneType but got str"),
        (Evaluation, (None, []), "Evaluation.parameters must be EvaluationParameters but got NoneType"),
        (Evaluation, (EvaluationParameters(), [3]), "Evaluation.metrics must be dict but got int"),
        (metrics.APMetric, (LABEL, 0.5, None), "APMetric.iou must be a number but got None"),
        (metrics.APMetric, ("k1", 0.5, 0.5), "APMetric.label must be Label but got str"),
        (metrics.ARMetric, (LABEL, 0.5, [0.5]), "ARMetric.ious must be set but got list"),
        (metrics.mAPMetric, ("k", "x", 0.5), "mAPMetric.value must be a number but got 'x'"),
        (metrics.mAPMetricAveragedOverIOUs, (None, 0.5, {0.5}), "IOUs.label_key must be str but got NoneType"),
        (metrics.AccuracyMetric, (None, 0.5), "AccuracyMetric.label_key must be str but got NoneType"),
        (metrics.ROCAUCMetric, ("k", "x"), "ROCAUCMetric.value must be a number but got 'x'"),
        (metrics.PrecisionRecallCurve, ("k", [], 0.5), "PrecisionRecallCurve.value must be dict but got list"),
        (metrics.PrecisionRecallCurve, (3, {}, 0.5), "PrecisionRecallCurve.label_key must be str but got int"),
        (metrics.DetailedPrecisionRecallCurve, ("k", {}, "x"), "threshold must be a number but got 'x'"),
        (ConfusionMatrixEntry, (None, "b", 1), "ConfusionMatrixEntry.prediction must be str but got NoneType"),
        (ConfusionMatrixEntry, ("a", 3, 1), "ConfusionMatrixEntry.groundtruth must be str but got int"),
        (ConfusionMatrixEntry, ("a", "b", "x"), "ConfusionMatrixEntry.count must be int but got str"),
        (ConfusionMatrix, (3, [ENTRY]), "ConfusionMatrix.label_key must be str but got int"),
        (ConfusionMatrix, ("k", None), "ConfusionMatrix.entries must be list but got NoneType"),
        (ConfusionMatrix, ("k", ["x"]), "ConfusionMatrix.entries must be ConfusionMatrixEntry but got str"),
        (metrics.BiasMetric, (None, 0.5, {}), "BiasMetric.status must be str but got NoneType"),
        (metrics.BiasMetric, ("success", "x", {}), "BiasMetric.value must be a number but got 'x'"),
        (metrics.BiasMetric, ("success", None, {}), "BiasMetric.value must be a number but got None"),
        (metrics.BiasMetric, ("success", 0.5, None), "BiasMetric.parameters must be dict but got NoneType"),
        (metrics.ROUGEMetric, ("success", 0.5, {}), "ROUGEMetric.value must be dict but got float"),
        (metrics.ROUGEMetric, ("success", {1: 0.5}, {}), "ROUGEMetric.value key must be str but got int"),
        (metrics.ROUGEMetric, ("success", {"rouge1": "x"}, {}), "ROUGEMetric.value['rouge1'] must be a number but"),
    ],
)
def test_wrong_types(make: Any, arguments: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=re.escape(message)):
        make(**arguments) if isinstance(arguments, dict) else make(*arguments)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (Annotation, {"implied_task_types": ["classify"]}, "implied_task_types must be one of 'skip', 'empty'"),
        (EvaluationParameters, {"metrics_to_return": ["x"]}, "metrics_to_return must be of MetricType but got 'x'"),
        (EvaluationParameters, {"recall_score_threshold": 1.5}, "recall_score_threshold must be in [0, 1] but got 1.5"),
        (EvaluationParameters, {"pr_curve_max_examples": -1}, "pr_curve_max_examples must be at least 0 but got -1"),
        (metrics.mAPMetric, ("k", 0.5, 1.5), "mAPMetric.iou must be in [0, 1] but got 1.5"),
        (
            metrics.AnswerCorrectnessMetric,
            ("success", 1.3, {}),
            "AnswerCorrectnessMetric.value must be in [0, 1] but got",
        ),
        (
            metrics.SummaryCoherenceMetric,
            ("success", 0, {}),
            "Metric.value must be in [1, 5] but got 0",
        ),
        (metrics.ROUGEMetric, ("success", {"rouge1": 2}, {}), "ROUGEMetric.value['rouge1'] must be in [0, 1] but got"),
        (metrics.BiasMetric, ("fine", 0.5, {}), "BiasMetric.status must be one of 'success', 'error' but got 'fine'"),
        (metrics.BiasMetric, ("error", 0.5, {}), "BiasMetric.value must be None with the status 'error' but got 0.5"),
    ],
)
def test_values_out_of_range(make: Any, arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make(**arguments) if isinstance(arguments, dict) else make(*arguments)


def test_numbers_that_are_allowed() -> None:
    assert metrics.ROCAUCMetric("k", None).to_dict()["value"] is None
    assert metrics.PrecisionMetric(LABEL, -1).to_dict()["value"] == -1
    assert metrics.BLEUMetric("success", 1 + 1e-12, {}).value == 1 + 1e-12
    assert metrics.BLEUMetric("error", None, {}).value is None
    assert metrics.CoherenceMetric("success", 5, {}).value == 5
    shown = EvaluationParameters(metrics_to_return=["F1"], convert_annotations_to_type="box")  # type: ignore[list-item,arg-type]
    assert shown.to_dict()["metrics_to_return"] == ["F1"]
    assert shown.to_dict()["convert_annotations_to_type"] == enums.AnnotationType.BOX


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"label_map": {"bad": "input"}}, "label_map must be a dict of Label to Label, or pairs of [key, value]"),
        ({"label_map": 3}, "label_map must be a dict of Label to Label, or pairs of [key, value]"),
        ({"metrics_to_return": "F1"}, "metrics_to_return must be list or tuple or set or frozenset but got str"),
        ({"pr_curve_max_examples": True}, "pr_curve_max_examples must be int but got bool"),
        ({"pr_curve_max_examples": "1"}, "pr_curve_max_examples must be int but got str"),
    ],
)
def test_wrong_types_of_choices(choices: Any, message: str) -> None:
    truth = GroundTruth(Datum("a"), [Annotation(labels=[LABEL])])
    found = Prediction(Datum("a"), [Annotation(labels=[Label("k", "v", 1.0)])])
    with pytest.raises(InputTypeError, match=re.escape(message)):
        evaluate_classification([truth], [found], **choices)
    with pytest.raises(TypeError, match=re.escape(message)):
        ValorClassificationManager(**choices)


@pytest.mark.parametrize(
    ("check", "arguments", "kind", "message"),
    [
        (checks.check_int, ("n", 1.0), InputTypeError, "n must be int but got float"),
        (checks.check_int, ("n", True), InputTypeError, "n must be int but got bool"),
        (checks.check_int, ("n", 0, 1), InputError, "n must be at least 1 but got 0"),
        (checks.check_number, ("x", False), InputTypeError, "x must be a number but got False"),
        (checks.check_number, ("x", float("nan")), InputError, "x must be a number but got nan"),
        (checks.check_number, ("x", 2, 0, 1), InputError, "x must be in [0, 1] but got 2"),
    ],
)
def test_checks_of_numbers(check: Any, arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        check(*arguments)
