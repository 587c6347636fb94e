"""The names of Valor live in valor_gpu.compat.valor; their paths below valor_gpu.valor stay, and old pickles load."""

import importlib
import pickle

import pytest

from valor_gpu.compat.valor.enums import TaskType
from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction, evaluate_detection
from valor_gpu.valor.tasks import TASK_TYPES

MOVED = {
    "classification.evaluate": ("evaluate_classification", "evaluate_classification_slices"),
    "curve_keys": ("CurvePoints", "Observations", "curve_with_names"),
    "datasets": ("Dataset",),
    "detection.evaluate": ("evaluate_detection",),
    "detection.manager": ("ValorDetectionManager",),
    "detection.slices": ("DetectionEvaluation", "DetectionSlices"),
    "enums": ("AnnotationType", "MetricType", "ROUGEType", "TaskType"),
    "evaluation": ("Evaluation", "EvaluationParameters"),
    "labels": ("Label",),
    "managers": ("ValorClassificationManager", "ValorDetectionManager", "ValorTextGenerationStreamingManager"),
    "metrics": ("APMetric", "BLEUMetric", "ConfusionMatrix", "ConfusionMatrixEntry", "PrecisionRecallCurve"),
    "mock_judge": ("MockJudge",),
    "result_curves": ("detailed_curve", "threshold_curve"),
    "schemas": ("Annotation", "Box", "Datum", "Embedding", "GroundTruth", "Label", "Prediction", "Raster"),
    "segmentation": ("evaluate_segmentation",),
    "text_generation": ("evaluate_text_generation",),
    "text_judge": ("judge_of",),
    "text_manager": ("ValorTextGenerationStreamingManager",),
}
"""Modules of the last release and the public names that they had."""


@pytest.mark.parametrize("path", MOVED)
def test_an_old_path_is_the_module_of_the_floor(path: str) -> None:
    old = importlib.import_module(f"valor_gpu.valor.{path}")
    assert old is importlib.import_module(f"valor_gpu.compat.valor.{path}")
    assert all(hasattr(old, name) for name in MOVED[path])


def test_a_path_that_neither_has_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'valor_gpu\.valor\.nothing'"):
        importlib.import_module("valor_gpu.valor.nothing")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'valor_gpu\.valor\.nothing'"):
        importlib.import_module("valor_gpu.valor.nothing.below")
    with pytest.raises(ImportError, match="did you mean 'enums'"):
        exec("from valor_gpu.valor import enumz", {})


def old_pickle(value: object) -> bytes:
    """A pickle as the last release made it, which named classes by their old paths."""
    return pickle.dumps(value, protocol=0).replace(b"valor_gpu.compat.valor.", b"valor_gpu.valor.")


def test_old_pickles_load() -> None:
    box = Box.from_extrema(0, 2, 0, 2)
    truth = Annotation(labels=[Label("k", "x")], bounding_box=box, is_instance=True)
    found = Annotation(labels=[Label("k", "x", 0.5)], bounding_box=box, is_instance=True)
    sides = [GroundTruth(Datum("a"), [truth])], [Prediction(Datum("a"), [found])]
    evaluation = evaluate_detection(*sides, metrics_to_return=["mAP", "PrecisionRecallCurve"])
    for value in (*sides, evaluation, TaskType.EMPTY):
        text = old_pickle(value)
        assert b"valor_gpu.compat" not in text and b"valor_gpu.valor." in text
        assert pickle.loads(text) == value
    for path, names in MOVED.items():
        for name in names:
            assert pickle.loads(f"cvalor_gpu.valor.{path}\n{name}\n.".encode()).__name__ == name


def test_task_types_have_one_spelling() -> None:
    assert tuple(task.value for task in TaskType) == TASK_TYPES
