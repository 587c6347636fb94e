"""Attributes of metrics that wrappers and ``plot`` read, beside those of torchmetrics."""

from __future__ import annotations

import collections
import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torchmetrics.classification.base import _ClassificationTaskWrapper

from tests.contract import METRICS, updated
from valor_gpu import classification, detection, regression, retrieval, segmentation, text
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric

APART = "batches are independent, so forward updates once"
NO_GRADIENT = "its kernel has no gradient"
OTHER: dict[str, dict[str, str]] = {
    "is_differentiable": {
        "HausdorffDistance": "pixels are counted", "Perplexity": NO_GRADIENT, r"\w*HingeLoss": NO_GRADIENT,
        r"(Mean|\w*Squared|SymmetricMean|WeightedMean|LogCosh)\w*Error": NO_GRADIENT, "MinkowskiDistance": NO_GRADIENT,
        "R2Score|ExplainedVariance|TweedieDevianceScore": NO_GRADIENT, "(Pearson|Concordance)CorrCoef": NO_GRADIENT,
        "CosineSimilarity|(KL|JensenShannon)Divergence": NO_GRADIENT,
    },
    "higher_is_better": {
        "(Binary|Multiclass|Multilabel)(EER|NegativePredictiveValue|Specificity)": "None in torchmetrics",
        "WordInfoPreserved": "False in torchmetrics", "BinaryFairness": "False in torchmetrics, but 1 is parity",
        "BinaryGroupStatRates": "False in torchmetrics, but true positives are among the rates",
        "InfoLM": "it depends on the measure, in torchmetrics too",
    },
    "full_state_update": {
        "(BLEU|SacreBLEU|CHRF|ROUGE)Score": APART, "MeanAveragePrecision": APART, r"\w*IntersectionOverUnion": APART,
        "InfoLM": APART, "(Concordance|KendallRank|Pearson)CorrCoef": APART, "CriticalSuccessIndex": APART,
        "NormalizedRootMeanSquaredError": APART,
    },
    "plot_lower_bound": {
        r"\w*(CohenKappa|MatthewsCorrCoef)": "they reach -1",
        r"\w*PrecisionRecallCurve": "None in torchmetrics",
        "Perplexity": "it is at least 1", "BERTScore": "similarities reach -1",
        r"\w*IntersectionOverUnion": "None in torchmetrics, but they have bounds",
        "CosineSimilarity|KendallRankCorrCoef": "they reach -1", "ExplainedVariance": "it has no least value",
        "CriticalSuccessIndex|RelativeSquaredError": "None in torchmetrics, but they have bounds",
        "RetrievalRecallAtFixedPrecision": "None in torchmetrics, but recall has bounds",
    },
    "plot_upper_bound": {
        r"\w*PrecisionRecallCurve": "None in torchmetrics",
        "BERTScore": "similarities minus a baseline exceed 1", r"\w*HingeLoss": "it exceeds 1",
        "MultilabelCoverageError": "labels are counted", "(Char|Word)ErrorRate|TranslationEditRate": "they exceed 1",
        r"\w*IntersectionOverUnion": "None in torchmetrics, but they have bounds",
        "CriticalSuccessIndex": "None in torchmetrics, but it has bounds",
        "RetrievalRecallAtFixedPrecision": "None in torchmetrics, but recall has bounds",
    },
}  # fmt: skip
"""Attributes that differ from torchmetrics, by names of classes, and why."""
MODULES = {
    "MeanAveragePrecision": "mean_ap", "IntersectionOverUnion": "iou", "GeneralizedIntersectionOverUnion": "giou",
    "DistanceIntersectionOverUnion": "diou", "CompleteIntersectionOverUnion": "ciou",
}  # fmt: skip
"""Where classes of torchmetrics are that its package has with torchvision alone."""


def peer_of(package: str, name: str) -> Any:
    """The class of torchmetrics with this name; None without one, or where it makes others by their task."""
    home = importlib.import_module(f"torchmetrics.{package}")
    if package == "detection" and name in MODULES:
        home = importlib.import_module(f"torchmetrics.detection.{MODULES[name]}")
    found = getattr(home, name, None)
    return None if found is None or issubclass(found, _ClassificationTaskWrapper) else found


PEERS = {
    f"{package}.{name}": (ours, theirs)
    for home in (classification, detection, regression, retrieval, segmentation, text)
    for name in home.__all__
    for package in [home.__name__.split(".")[1]]
    if isinstance(ours := getattr(home, name), type) and issubclass(ours, Metric)
    if (theirs := peer_of(package, name)) is not None
}


def test_all_classes_of_torchmetrics_are_compared() -> None:
    counts = collections.Counter(name.split(".")[0] for name in PEERS)
    assert counts == {
        "classification": 79,
        "detection": 7,
        "regression": 22,
        "retrieval": 11,
        "segmentation": 4,
        "text": 16,
    }


@pytest.mark.parametrize("attribute", OTHER)
def test_attributes_are_those_of_torchmetrics(attribute: str) -> None:
    for name, (ours, theirs) in PEERS.items():
        found, expected = getattr(ours, attribute), getattr(theirs, attribute)
        reasons = [why for names, why in OTHER[attribute].items() if re.fullmatch(names, name.split(".")[1])]
        assert (found != expected) == bool(reasons), f"{attribute} of {name} is {found}, there {expected}: {reasons}"


SEVERAL = re.compile(
    "(?!Retrieval).*(Curve|ConfusionMatrix|Counts|Examples|Scores|Rates|AtFixed.*|ityAt.*)|ROC|OperatingPoint"
)
"""Metrics whose numbers have no common direction; torchmetrics gives one to those of retrieval, and so do we."""
TOWARDS = re.compile("(Interval|Conformal)Coverage|(Pearson|KendallRank)CorrCoef|TweedieDevianceScore")
"""Metrics of a number whose best is neither end, as of a coverage, or for which torchmetrics has no direction."""


@pytest.mark.parametrize("case", METRICS, ids=lambda case: case.name)
def test_directions_and_legends_are_known(case: Any) -> None:
    metric = case.make()
    kind = type(metric)
    public = kind.__module__.startswith("valor_gpu.")
    assert (kind.higher_is_better is None) == bool(
        public and (SEVERAL.fullmatch(kind.__name__) or TOWARDS.fullmatch(kind.__name__))
    )
    assert metric.full_state_update is False and metric.is_differentiable is False
    if isinstance(metric, TaskMetric):
        word = "Class" if metric.num_classes else "Label" if metric.num_labels else None
        assert metric.plot_legend_name == word


@pytest.fixture
def pyplot() -> Iterator[Any]:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    yield importlib.import_module("matplotlib.pyplot")
    importlib.import_module("matplotlib.pyplot").close("all")


def test_a_plot_names_classes_and_shows_bounds(pyplot: Any) -> None:
    recall = classification.Recall(num_classes=3, average="none")
    recall.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]))
    _, axes = recall.plot()
    assert [label.get_text() for label in axes.get_legend().get_texts()] == ["Class 0", "Class 1", "Class 2"]
    words = text.WordErrorRate()
    words.update(["a b c"], ["a"])
    _, axes = words.plot()
    assert axes.get_ylim()[0] < 0 < float(words.compute()) < axes.get_ylim()[1]


def test_what_has_no_place_in_a_plot_is_named(pyplot: Any) -> None:
    case = next(case for case in METRICS if case.name == "MeanAveragePrecision-pooled-extended")
    metric = updated(case.make(), [case.batch(0)])
    with pytest.raises(
        InputError, match=r"plot draws numbers and vectors but precision of MeanAveragePrecision has sha"
    ):
        metric.plot()
    _, axes = metric.plot(metric.compute()["map"])
    assert len(axes.lines) == 1
