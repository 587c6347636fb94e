"""Ratios of regions against scikit-learn over label maps, and numbers made by hand."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, confusion_matrix, jaccard_score, precision_recall_fscore_support

from valor_gpu.errors import InputError
from valor_gpu.reduce.regions import absent, mean_of_images, region_value, undefined

NAMES = ("iou", "precision", "recall", "f1", "accuracy")
HAND = np.array([[3, 0, 0, 0], [4, 0, 2, 0], [3, 3, 0, 0]])
"""Class 1 was never predicted, class 2 is never true, class 3 is absent."""


def counts_of(preds: NDArray[Any], target: NDArray[Any], classes: int) -> NDArray[np.int64]:
    matrix = confusion_matrix(target, preds, labels=np.arange(classes))
    return np.stack([matrix.diagonal(), matrix.sum(0), matrix.sum(1)])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iou", [0.75, 0, 0, math.nan]),
        ("precision", [0.75, 0.25, 0, math.nan]),
        ("recall", [1, 0, 0.25, math.nan]),
        ("f1", [6 / 7, 0, 0, math.nan]),
        ("accuracy", [1, 0, 0.25, math.nan]),
    ],
)
def test_each_class(name: str, expected: list[float]) -> None:
    np.testing.assert_array_equal(region_value(name, HAND, "none", zero_division=0.25), expected)
    np.testing.assert_array_equal(undefined(name, HAND), [e == 0.25 for e in expected])


@pytest.mark.parametrize(
    ("name", "average", "zero_division", "expected"),
    [
        ("iou", "micro", 0.0, 3 / 9),
        ("iou", "macro", 0.0, 0.25),
        ("iou", "weighted", 0.0, 0.75 / 2),
        ("precision", "macro", 0.0, 0.25),
        ("precision", "macro", 1.0, 1.75 / 3),
        ("precision", "macro", math.nan, 0.375),
        ("precision", "weighted", 1.0, (0.75 * 3 + 3) / 6),
        ("precision", "weighted", math.nan, 0.75),
        ("recall", "macro", 1.0, 2 / 3),
        ("recall", "macro", math.nan, 0.5),
        ("accuracy", "micro", 0.0, 0.5),
    ],
)
def test_averages(name: str, average: str, zero_division: float, expected: float) -> None:
    found = region_value(name, HAND, average, zero_division=zero_division)
    assert found.shape == () and float(found) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
def test_scikit_learn(seed: int, average: str | None) -> None:
    rng = np.random.default_rng(seed)
    classes, pixels = int(rng.integers(1, 9)), int(rng.integers(1, 60))
    preds, target = rng.integers(0, classes, (2, pixels))
    counts = counts_of(preds, target, classes)
    there = np.flatnonzero(~absent(counts))
    theirs = precision_recall_fscore_support(target, preds, labels=there, average=average, zero_division=0.0)
    iou = jaccard_score(target, preds, labels=there, average=average, zero_division=0.0)
    expected = {"precision": theirs[0], "recall": theirs[1], "f1": theirs[2], "iou": iou}
    for name, number in expected.items():
        found = region_value(name, counts, average)
        np.testing.assert_allclose(found if average else found[there], number, rtol=0, atol=1e-14, err_msg=name)
    assert float(region_value("accuracy", counts, "micro")) == accuracy_score(target, preds)


def test_nothing_counts() -> None:
    empty = np.zeros((3, 4), np.int64)
    for name in NAMES:
        assert np.isnan(region_value(name, empty, None)).all()
        for average in ("micro", "macro", "weighted"):
            assert np.isnan(region_value(name, empty, average, zero_division=1.0)), (name, average)


def test_predicted_where_nothing_is_true() -> None:
    counts = np.array([[0, 0], [0, 5], [0, 0]])
    for average in ("micro", "macro", "weighted"):
        assert region_value("recall", counts, average, zero_division=0.5) == 0.5
        assert math.isnan(region_value("recall", counts, average, zero_division=math.nan))
        assert region_value("iou", counts, average) == 0


def test_classes_left_out() -> None:
    kept = np.array([False, True, True, True])
    assert math.isnan(region_value("iou", HAND, None, classes=kept)[0])
    assert region_value("iou", HAND, "macro", classes=kept) == 0
    assert region_value("recall", HAND, "micro", classes=kept) == 0
    assert region_value("recall", HAND, "micro", classes=~kept) == 1


def test_images_in_front() -> None:
    stack = np.stack([HAND, HAND[:, ::-1], np.zeros_like(HAND)])[None]
    for average in ("micro", "macro", "weighted", "none"):
        found = region_value("f1", stack, average)
        assert found.shape == ((1, 3, 4) if average == "none" else (1, 3))
        np.testing.assert_array_equal(found[0, 0], region_value("f1", HAND, average))
        assert np.isnan(found[0, 2]).all()
    assert region_value("f1", np.zeros((0, 3, 4), np.int64), "macro").shape == (0,)


def test_counts_beyond_float32() -> None:
    big = np.array([[2**40], [2**40 + 1], [2**40]])
    assert region_value("precision", big, "micro") == 2**40 / (2**40 + 1)


def test_mean_of_images_has_the_bits_of_any_order() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((1000, 3))
    values[rng.random((1000, 3)) < 0.2] = math.nan
    values[:, 2] = math.nan
    first = mean_of_images(values)
    np.testing.assert_allclose(first[:2], np.nanmean(values[:, :2], 0), rtol=1e-14)
    assert math.isnan(first[2])
    np.testing.assert_array_equal(mean_of_images(rng.permutation(values)), first)
    assert math.isnan(mean_of_images(np.zeros(0))) and mean_of_images(np.array([0.25, 0.75])) == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "dice"}, "name must be one of 'iou'"),
        ({"average": "samples"}, "average must be one of 'micro'"),
        ({"zero_division": 2.0}, r"zero_division must be in \[0, 1\] but got 2"),
        ({"counts": HAND.astype(float)}, r"counts must be integers \[..., 3, C\] but are float64 \[3, 4\]"),
        ({"counts": HAND[:2]}, r"counts must be integers \[..., 3, C\] but are int64 \[2, 4\]"),
        ({"classes": np.array([True])}, r"classes must be bool \[4\] but is bool \[1\]"),
    ],
)
def test_errors(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        region_value(**{"name": "iou", "counts": HAND, "average": "macro", **change})


def test_loads_no_torch() -> None:
    code = "import sys, valor_gpu.reduce.regions, valor_gpu.segmentation; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
