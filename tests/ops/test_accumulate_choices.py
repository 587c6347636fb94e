"""accumulate: tables and choices that C++ reads by address are checked first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.cpu import accumulate
from valor_gpu.ops.accumulate.types import AccumulateChoices, RecordShape

SHAPE = RecordShape(10, 4, 3)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"images": np.array([1, 1])}, "choices.images must name each row of images at most once"),
        ({"images": np.array([0], np.int32)}, r"choices.images must be int64 \[N\] but is int32 \[1\]"),
        ({"labels": np.array([2, 1])}, "choices.labels must ascend, each label once"),
        ({"labels": np.array([1, 1])}, "choices.labels must ascend, each label once"),
        ({"labels": np.array([[1]])}, r"choices.labels must be int64 \[N\] but is int64 \[1, 1\]"),
    ],
)
def test_choices(choices: dict[str, Any], message: str) -> None:
    """An image that is named twice would have more rows than there is room for."""
    with pytest.raises(InputError, match=message):
        AccumulateChoices(SHAPE, np.zeros(1), **choices)


@pytest.mark.parametrize(
    ("table", "dtype", "columns", "message"),
    [
        (0, np.uint8, 22, r"detections must be uint8 \[N, 23\] but is uint8 \[2, 22\]"),
        (0, np.int64, 23, r"detections must be uint8 \[N, 23\] but is int64 \[2, 23\]"),
        (1, np.uint8, 4, r"ground_truths must be uint8 \[N, 5\] but is uint8 \[2, 4\]"),
        (2, np.int32, 8, r"images must be int64 \[N, 8\] but is int32 \[2, 8\]"),
        (2, np.int64, 7, r"images must be int64 \[N, 8\] but is int64 \[2, 7\]"),
    ],
)
def test_tables(table: int, dtype: Any, columns: int, message: str) -> None:
    tables: list[Any] = [np.zeros((0, 23), np.uint8), np.zeros((0, 5), np.uint8), np.zeros((0, 8), np.int64)]
    choices = AccumulateChoices(SHAPE, np.zeros(1))
    assert accumulate(tables[0], tables[1], tables[2], choices).totals.images == 0
    tables[table] = np.zeros((2, columns), dtype)
    with pytest.raises(InputError, match=message):
        accumulate(tables[0], tables[1], tables[2], choices)
