"""Two detectors on simulated images, for benchmarks/false_alarms.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.detection import MeanAveragePrecision

IMAGES, OBJECTS, CLASSES, CLUSTER = 100, 4, 3, 4
_STRAY = 3
"""Detections of nothing in an image, on average."""
_SIDE = 20.0
_FOUND = 0.65
"""Share of the objects that a model finds."""


def detection_pair(
    rng: np.random.Generator, difference: float, clustered: bool
) -> tuple[MeanAveragePrecision, MeanAveragePrecision, dict[int, int] | None]:
    """Returns two models after all images, and the clusters of the images.

    Args:
        rng: of the images and of both models.
        difference: share of the objects that the second model finds more than the first.
        clustered: whether images come in clusters that one of the models is better at.
    """
    labels = rng.integers(0, CLASSES, (IMAGES, OBJECTS))
    hard = rng.normal(0, 0.1, (IMAGES, OBJECTS))
    leanings = rng.normal(0, 0.15 if clustered else 0.0, IMAGES // CLUSTER)[np.arange(IMAGES) // CLUSTER]
    models = []
    for place, sign in enumerate((-0.5, 0.5)):
        share = _FOUND + (difference if place else 0.0) + sign * leanings[:, None] - hard
        found = rng.random((IMAGES, OBJECTS)) < share
        models.append(_fed(rng, labels, found, 1.0 + 2.0 * place))
    return models[0], models[1], {i: i // CLUSTER for i in range(IMAGES)} if clustered else None


def _fed(
    rng: np.random.Generator, labels: NDArray[np.int64], found: NDArray[np.bool_], power: float
) -> MeanAveragePrecision:
    """A metric after all images; ``power`` is that of the scores, which changes their scale alone."""
    metric = MeanAveragePrecision(box_format="xywh", iou_thresholds=[0.5, 0.75], class_metrics=True)
    predictions, targets = [], []
    places = np.arange(OBJECTS, dtype=np.float64)
    for image, (classes, hits) in enumerate(zip(labels, found)):
        corners = np.stack((places * 3 * _SIDE, np.zeros(OBJECTS)), 1)
        truths = np.concatenate((corners, np.full((OBJECTS, 2), _SIDE)), 1)
        moved = truths[hits] + np.concatenate((rng.normal(0, 1.2, (hits.sum(), 1)), np.zeros((hits.sum(), 3))), 1)
        stray = int(rng.poisson(_STRAY))
        wrong = np.stack(
            (3 * _SIDE * np.arange(stray), np.full(stray, 500.0), np.full(stray, _SIDE), np.full(stray, _SIDE)), 1
        )
        scores = np.concatenate((rng.beta(4, 2, hits.sum()), rng.beta(2, 3, stray))) ** power
        names = np.concatenate((classes[hits], rng.integers(0, CLASSES, stray)))
        predictions.append(_columns(boxes=np.concatenate((moved, wrong)), scores=scores, labels=names))
        targets.append({**_columns(boxes=truths, labels=classes), "image_id": image})
    metric.update(predictions, targets)
    return metric


def _columns(**columns: Any) -> dict[str, Any]:
    return {name: torch.from_numpy(np.ascontiguousarray(column)) for name, column in columns.items()}
