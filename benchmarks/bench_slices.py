"""CPU time of slices of a detection beside that of one evaluation: `pytest benchmarks/bench_slices.py`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from valor_gpu.valor import Box, evaluate_detection

IMAGES, LABELS, PER_IMAGE = 5000, 80, 7


def _frame(rng: np.random.Generator, slices: int) -> dict[str, Any]:
    image = np.repeat(np.arange(IMAGES), rng.poisson(PER_IMAGE, IMAGES))
    x, y, width, height = (rng.random((4, len(image))) * [[500], [500], [100], [100]] + [[0], [0], [5], [5]]).tolist()
    return {
        "datum_uid": image.astype(str),
        "label_key": ["class"] * len(image),
        "label_value": rng.integers(0, LABELS, len(image)).astype(str),
        "is_instance": [True] * len(image),
        "bounding_box": [Box.from_extrema(a, a + w, b, b + h) for a, b, w, h in zip(x, y, width, height)],
        "datum_metadata.camera": (image % slices).tolist(),
        "score": rng.random(len(image)),
    }


@pytest.mark.parametrize("slices", [10, 1000])
def test_slices_cost_a_few_evaluations_at_most(benchmark: Any, slices: int) -> None:
    """All slices with all their dicts, against the evaluation that they come from; the ratio is in the extra info."""
    rng = np.random.default_rng(0)
    sides = [_frame(rng, slices) for _ in range(2)]
    evaluate_detection(*sides)
    start = time.process_time()
    evaluation = evaluate_detection(*sides)
    one = time.process_time() - start
    start = time.process_time()
    rows = list(evaluation.by("metadata.camera").rows())
    ratio = (time.process_time() - start) / one
    assert len(rows) == slices
    assert ratio < 3
    benchmark.extra_info["ratio"] = ratio
    benchmark(lambda: list(evaluation.by("metadata.camera").rows()))
