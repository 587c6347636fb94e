"""What results say that have no answer: name of the question and of the metric, and what to do, in one line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from valor_gpu import classification, detection, segmentation, text
from valor_gpu.errors import InputError

TABLE = {"image_id": [], "weather": []}
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "errors": lambda result: result.errors(),
    "olrp": lambda result: result.olrp(),
    "operating_points": lambda result: result.operating_points(),
    "images": lambda result: result.images(),
    "matches": lambda result: result.matches(),
    "by": lambda result: result.by(TABLE, "weather"),
    "worst_slices": lambda result: result.worst_slices(TABLE, "weather"),
}
PAIRS, OTHERS, SLICES = ("errors", "olrp", "matches"), ("operating_points", "images"), ("by", "worst_slices")


def always(reason: str) -> dict[str, str]:
    return dict.fromkeys(QUESTIONS, reason)


def undefined(name: str) -> dict[str, str]:
    """Of a metric of no images whose result has intervals."""
    reason = f"() is not defined for results of {name}"
    return {**always(reason), **dict.fromkeys(SLICES, f"{reason}: update one metric for each slice")}


def imageless(name: str, slices: str) -> dict[str, str]:
    reason = f"() needs images, which {name} does not keep: "
    return {
        **dict.fromkeys(PAIRS, f"{reason}use MeanAveragePrecision with errors=True"),
        **dict.fromkeys(OTHERS, f"{reason}use MeanAveragePrecision"),
        **dict.fromkeys(SLICES, reason + slices),
    }


def pixels(name: str, *defined: str) -> dict[str, str]:
    found = always(f"() is not defined for results of {name}")
    needs = "() needs the counts of every image: make the metric with keep_images=True"
    return {question: needs if question in ("images", *SLICES) else reason for question, reason in found.items()
            if question not in defined}  # fmt: skip


SEGMENTS: dict[str, Any] = {"things": {0}, "stuffs": {1}}
GROUPS = (
    "() is not defined for results of OpenImagesAveragePrecision, whose state keeps outcomes alone and whose groups"
    " have no partner: operating_points(), images() and by() are"
)
OVERLAPS = ("IntersectionOverUnion", "GeneralizedIntersectionOverUnion", "DistanceIntersectionOverUnion",
            "CompleteIntersectionOverUnion")  # fmt: skip
FAMILIES: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "BinaryAccuracy": (lambda: classification.BinaryAccuracy(), undefined("BinaryAccuracy")),
    "MulticlassF1Score": (lambda: classification.MulticlassF1Score(3), undefined("MulticlassF1Score")),
    "MulticlassConfusionMatrix": (
        lambda: classification.MulticlassConfusionMatrix(3), undefined("MulticlassConfusionMatrix")
    ),
    "BinaryAUROC": (lambda: classification.BinaryAUROC(), undefined("BinaryAUROC")),
    "BinaryROC": (lambda: classification.BinaryROC(), undefined("BinaryROC")),
    "binned BinaryROC": (lambda: classification.BinaryROC(thresholds=5), undefined("BinaryROC")),
    "MulticlassCalibrationError": (
        lambda: classification.MulticlassCalibrationError(3), undefined("CalibrationError")
    ),
    "MultilabelRankingLoss": (lambda: classification.MultilabelRankingLoss(3), undefined("MultilabelRankingLoss")),
    "BLEUScore": (lambda: text.BLEUScore(), undefined("BLEUScore")),
    "ROUGEScore": (lambda: text.ROUGEScore(), undefined("ROUGEScore")),
    "SQuAD": (lambda: text.SQuAD(), undefined("SQuAD")),
    "Perplexity": (lambda: text.Perplexity(), undefined("Perplexity")),
    "BinnedMeanAveragePrecision": (
        lambda: detection.BinnedMeanAveragePrecision(classes=2),
        imageless("BinnedMeanAveragePrecision", "use MeanAveragePrecision"),
    ),
    **{
        name: (getattr(detection, name), imageless(name, "update one metric for each slice")) for name in OVERLAPS
    },
    "MeanAveragePrecision": (
        lambda: detection.MeanAveragePrecision(),
        dict.fromkeys(
            PAIRS, "() needs the pairs of detections and ground truths of any class: make the metric with errors=True"
        ),
    ),
    "MeanAveragePrecision with pairs": (lambda: detection.MeanAveragePrecision(errors=True), {}),
    "OpenImagesAveragePrecision": (lambda: detection.OpenImagesAveragePrecision(), dict.fromkeys(PAIRS, GROUPS)),
    "AP": (lambda: detection.AP(), {}),
    "DetectionPrecisionRecallCurve": (lambda: detection.DetectionPrecisionRecallCurve(), {}),
    "mIOU": (lambda: segmentation.mIOU(2), pixels("mIOU")),
    "PixelConfusionMatrix": (lambda: segmentation.PixelConfusionMatrix(2), pixels("PixelConfusionMatrix")),
    "PanopticQuality": (lambda: segmentation.PanopticQuality(**SEGMENTS), pixels("PanopticQuality", "olrp")),
    "ModifiedPanopticQuality": (
        lambda: segmentation.ModifiedPanopticQuality(**SEGMENTS), pixels("ModifiedPanopticQuality")
    ),
    "HausdorffDistance": (
        lambda: segmentation.HausdorffDistance(2),
        dict.fromkeys((*PAIRS, "operating_points"), "() is not defined for results of HausdorffDistance"),
    ),
}  # fmt: skip


def reason_of(ask: Callable[[Any], Any], result: Any) -> str | None:
    try:
        ask(result)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_every_question_has_an_answer_or_a_short_reason(family: str) -> None:
    make, reasons = FAMILIES[family]
    result = make().result()
    said = {name: reason for name, ask in QUESTIONS.items() if (reason := reason_of(ask, result)) is not None}
    assert said == {name: name + reason for name, reason in reasons.items()}
    assert all(len(message) <= 180 and "\n" not in message for message in said.values())


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_result_from_a_file_says_so(name: str) -> None:
    for result in (detection.MeanAveragePrecision().result(), detection.IntersectionOverUnion().result()):
        with pytest.raises(InputError, match=rf"^{name}\(\) needs the data that .*: it is from a file, or"):
            QUESTIONS[name](pickle.loads(pickle.dumps(result)))


def test_slices_of_lists_of_examples_are_not_defined() -> None:
    metric = detection.DetectionExamples()
    box = torch.tensor([[0.0, 0, 9, 9]])
    sides = {"boxes": box, "labels": torch.tensor([1])}
    metric.update([{**sides, "scores": torch.tensor([0.9])}], [sides])
    for name in SLICES:
        with pytest.raises(InputError, match=r"^by\(\) and worst_slices\(\) are not defined for results of Detection"):
            getattr(metric.result(), name)({"image_id": [0], "weather": ["sun"]}, "weather")
