"""The names of Valor live in valor_gpu.compat.valor; their paths below valor_gpu.valor stay, and old pickles load."""

import ast
import importlib
import pickle
from pathlib import Path
from typing import Any

import pytest

import valor_gpu.compat.valor
from valor_gpu.compat.valor.enums import TaskType
from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction, evaluate_detection
from valor_gpu.valor.tasks import TASK_TYPES

FLOOR = Path(valor_gpu.compat.valor.__file__).parent
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


def imported(tree: ast.AST) -> set[str]:
    """Modules that code imports, also within functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


ARRAYS = {"array", "asarray", "atleast_2d", "float64", "int32", "int64", "ndarray", "zeros"}
"""Names of NumPy that make or describe arrays, and compute nothing."""


def faults(code: str) -> list[str]:
    """What of a module of the floor is mathematics."""
    tree = ast.parse(code)
    found = [
        name for name in imported(tree) if name.startswith(("valor_gpu.ops", "valor_gpu.native", "valor_gpu.reduce"))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            computes = node.value.id == "np" and node.attr not in ARRAYS
            if computes or (node.value.id == "torch" and node.attr != "device"):
                found.append(f"{node.value.id}.{node.attr}")
    return found


@pytest.mark.parametrize("path", sorted(FLOOR.rglob("*.py")), ids=lambda path: str(path.relative_to(FLOOR)))
def test_the_floor_computes_nothing(path: Path) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("from valor_gpu.ops.overlaps import Overlaps", "valor_gpu.ops.overlaps.Overlaps"),
        ("def f():\n    from valor_gpu import native", "valor_gpu.native"),
        ("np.bincount(labels)", "np.bincount"),
        ("torch.cat(parts)", "torch.cat"),
    ],
)  # fmt: skip
def test_mathematics_is_found(code: str, fault: Any) -> None:
    assert faults(code) == [fault]
