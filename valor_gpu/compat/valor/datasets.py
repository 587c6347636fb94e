"""Datasets: ground truths and predictions of the same datums under one name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from valor_gpu.checks import check_type
from valor_gpu.compat.valor.schemas import GroundTruth, Prediction
from valor_gpu.errors import InputError


@dataclass
class Dataset:
    """Both sides of an evaluation.

    Args:
        name: shown in examples.
        groundtruths: what is true.
        predictions: what a model said.

    Raises:
        InputTypeError: a name that is no text, or objects of another kind.

    Example:
        >>> from valor_gpu.valor import Datum
        >>> dataset = Dataset("test_dataset")
        >>> dataset.add_groundtruth(GroundTruth(Datum("1"), []))
        >>> len(dataset.groundtruths), len(dataset.predictions)
        (1, 0)
    """

    name: str
    groundtruths: list[GroundTruth] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_type("Dataset.name", self.name, str)
        for name, kind in (("groundtruths", GroundTruth), ("predictions", Prediction)):
            check_type(f"Dataset.{name}", getattr(self, name), list)
            for item in getattr(self, name):
                check_type(f"Dataset.{name}", item, kind)

    def add_groundtruth(self, groundtruth: GroundTruth) -> None:
        """Adds what is true of a datum."""
        check_type("groundtruth", groundtruth, GroundTruth)
        self.groundtruths.append(groundtruth)

    def add_groundtruths(self, groundtruths: Iterable[GroundTruth]) -> None:
        """Adds what is true of several datums; of none if one is of another kind."""
        items = list(groundtruths)
        for item in items:
            check_type("groundtruths", item, GroundTruth)
        self.groundtruths.extend(items)

    def add_prediction(self, prediction: Prediction) -> None:
        """Adds what a model says about a datum."""
        check_type("prediction", prediction, Prediction)
        self.predictions.append(prediction)

    def add_predictions(self, predictions: Iterable[Prediction]) -> None:
        """Adds what a model says about several datums; of none if one is of another kind."""
        items = list(predictions)
        for item in items:
            check_type("predictions", item, Prediction)
        self.predictions.extend(items)

    def check_datums(self) -> None:
        """Raises where a side has a datum twice: what is added again, as by a cell that runs again, would count double.

        Raises:
            InputError: naming the first such datum.
        """
        for name in ("groundtruths", "predictions"):
            seen: set[str | None] = set()
            for item in getattr(self, name):
                if item.datum.uid in seen:
                    raise InputError(
                        f"Dataset.{name} must have each datum once but has {item.datum.uid!r} again: one object lists "
                        "all annotations of its datum"
                    )
                seen.add(item.datum.uid)
