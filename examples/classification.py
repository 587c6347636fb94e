"""Metrics of a classifier in a validation loop, on the bundled digits: a "model" that looks up its probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torchmetrics import MetricCollection

from valor_gpu.classification import ROCAUC, Accuracy, AveragePrecision, CalibrationError, F1Score
from valor_gpu.inputs.predictions import Columns, read_predictions

DATA = Path(__file__).parent / "data" / "digits_predictions.csv"
Batch = tuple[torch.Tensor, torch.Tensor]


def validate(batches: Iterable[Batch], classes: int, device: str) -> MetricCollection:
    """Validate as a training script would."""
    metrics = MetricCollection(
        {
            "accuracy": Accuracy(num_classes=classes),
            "top-3 accuracy": Accuracy(num_classes=classes, top_k=3),
            "macro F1": F1Score(num_classes=classes, average="macro"),
            "ROC AUC": ROCAUC(num_classes=classes),
            "average precision": AveragePrecision(num_classes=classes),
            "calibration error": CalibrationError(num_classes=classes),
        }
    ).to(device)
    for scores, target in batches:  # [N, C] logits or probabilities, [N] class indices
        metrics.update(scores, target)  # does not synchronise with the device; metrics with one state update once
    for name, value in metrics.compute().items():
        print(f"{name:<17}  {value:.4f}")
    print()
    print(metrics["macro F1"].result())  # with the counts of every class and the choices behind the number
    return metrics


def main() -> None:
    """Validate the looked-up probabilities."""
    data = read_predictions(DATA, Columns("digit", prefix="p_"))
    assert data.scores is not None
    scores, target = torch.from_numpy(data.scores).float(), torch.from_numpy(data.target)
    validate(zip(scores.split(256), target.split(256)), len(data.names), "cpu")


if __name__ == "__main__":
    main()
