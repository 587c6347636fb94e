"""What users write is right for mypy too, and a misspelled keyword an error of both.

mypy fails on a ``type: ignore`` without an error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from valor_gpu.classification import (
    AUROC,
    Accuracy,
    BalancedAccuracy,
    BinaryAccuracy,
    CohenKappa,
    FBetaScore,
    MatthewsCorrCoef,
    PrecisionAtFixedRecall,
    StatScores,
)
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.functional import accuracy
from valor_gpu.segmentation import IOU, PixelConfusionMatrix, mIOU
from valor_gpu.text import BLEUScore, WordErrorRate
from valor_gpu.valor import Annotation, Datum, GroundTruth, Label, Prediction, evaluate_classification
from valor_gpu.valor.enums import MetricType

ONE = torch.tensor([1])
FRAME = {"datum_uid": ["a"], "label_key": ["k"], "label_value": ["x"]}
SCORED = {**FRAME, "score": [1.0]}
TRUTH = GroundTruth(Datum("a"), [Annotation(labels=[Label("k", "x")])])
FOUND = Prediction(Datum("a"), [Annotation(labels=[Label("k", "x", 1.0)])])

TAKEN: list[Callable[[], object]] = [
    lambda: Accuracy("multiclass", num_classes=5),
    lambda: Accuracy("multiclass", 0.5, 5),
    lambda: Accuracy(task="multiclass", num_classes=5, top_k=2, validate_args=False),
    lambda: Accuracy(5, average="macro", dist_sync_on_step=True),
    lambda: AUROC("binary", None),
    lambda: AUROC(5, bins=100),
    lambda: FBetaScore("binary", 2.0),
    lambda: FBetaScore(5, beta=2.0, average="macro", top_k=1),
    lambda: PrecisionAtFixedRecall("binary", 0.5),
    lambda: PrecisionAtFixedRecall(min_recall=0.5, sync_on_compute=False),
    lambda: mIOU(5, zero_division=1.0),
    lambda: accuracy(ONE, ONE, task="binary", threshold=0.5),
    lambda: Accuracy(3).update([[0.5, 0.25, 0.25]], np.array([0]), sample_weight=[1.0]),
    lambda: mIOU(3).update([[[0, 1]]], np.array([[[0, 1]]])),
    lambda: evaluate_classification(FRAME, SCORED, metrics_to_return=["Accuracy", MetricType.F1]),
    lambda: evaluate_classification((TRUTH for _ in range(1)), (FOUND,)),
]

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Accuracy(5, averag="macro"), "averag"),  # type: ignore[call-overload]
    (lambda: Accuracy(task="multiclass", num_clases=5), "num_classes"),  # type: ignore[call-overload]
    (lambda: Accuracy("multiklass", num_classes=5), "multiklass"),  # type: ignore[call-overload]
    (lambda: AUROC(5, bin=100), "bin"),  # type: ignore[call-overload]
    (lambda: BalancedAccuracy(5, average="macro"), "average must be left out"),  # type: ignore[call-arg]
    (lambda: BinaryAccuracy(treshold=0.5), "treshold"),  # type: ignore[call-arg]
    (lambda: CohenKappa(5, weight="linear"), "weight"),  # type: ignore[call-overload]
    (lambda: MatthewsCorrCoef(5, thresold=0.5), "thresold"),  # type: ignore[call-overload]
    (lambda: PrecisionAtFixedRecall(min_recal=0.5), "min_recal"),  # type: ignore[call-overload]
    (lambda: StatScores(5, zero_division=0), "zero_division must be left out"),  # type: ignore[call-overload]
    (lambda: MeanAveragePrecision(iou_typ="bbox"), "iou_typ"),  # type: ignore[call-arg]
    (lambda: IOU(5, agregation_level="global"), "agregation_level"),  # type: ignore[call-arg]
    (lambda: PixelConfusionMatrix(5, normalise="true"), "normalise"),  # type: ignore[call-arg]
    (lambda: mIOU(5, averag="macro"), "averag"),  # type: ignore[call-arg]
    (lambda: BLEUScore(smoot=True), "smoot"),  # type: ignore[call-arg]
    (lambda: WordErrorRate(lowercas=True), "lowercas"),  # type: ignore[call-arg]
    (lambda: accuracy(ONE, ONE, task="binary", treshold=0.5), "treshold"),  # type: ignore[call-arg]
]


@pytest.mark.parametrize("call", TAKEN)
def test_both_forms_are_taken(call: Callable[[], object]) -> None:
    call()


@pytest.mark.parametrize(("call", "named"), REFUSED)
def test_a_misspelled_keyword_is_named(call: Callable[[], object], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named):
        call()
