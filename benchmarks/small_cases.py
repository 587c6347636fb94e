"""Every metric that torchmetrics has too, with a tiny batch: 8 rows, one image or one text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

Batch = tuple[Any, ...]
ROWS, CLASSES, LABELS, SIDE = 8, 5, 5, 64

_ROUGES = ("rouge1", "rouge2", "rougeL")  # Lsum takes a model of NLTK, which torchmetrics downloads
_TEXTS = ("the cat sat on the mat and looked at the dog", "the cat sat on a mat and looked at the old dog")


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Small:
    """One metric beside its peer.

    Attributes:
        name: the class, and what is special about the row.
        ours: makes our metric.
        theirs: makes that of torchmetrics, with its default arguments where ours has them too.
        batch: makes the arguments of ``update``, the same for both.
        read_ours: gives of our value what ``read_theirs`` gives of theirs, where their shapes differ.
        read_theirs: see ``read_ours``.
        tolerance: difference, relative above 1, that the documentation of the metric allows.
    """

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    batch: Callable[[], Batch]
    read_ours: Callable[[Any], Any] = _same
    read_theirs: Callable[[Any], Any] = _same
    tolerance: float = 1e-6


def scores(task: str, seed: int = 0) -> Batch:
    """Probabilities and targets of 8 rows; every class is among the targets."""
    generator = torch.Generator().manual_seed(seed)
    if task == "multiclass":
        raw = torch.randn(ROWS, CLASSES, generator=generator)
        return raw.softmax(1), torch.arange(ROWS) % CLASSES
    shape = (ROWS, LABELS) if task == "multilabel" else (ROWS,)
    half = torch.arange(ROWS) % 2
    return torch.rand(shape, generator=generator), half[:, None].expand(shape).clone() if len(shape) > 1 else half


def logits() -> Batch:
    """Scores of 8 rows, some outside [0, 1], in the binary task."""
    return torch.arange(-3.0, ROWS - 3.0), torch.arange(ROWS) % 2


def groups() -> Batch:
    """The binary task in two groups, both with rows of either class."""
    return *scores("binary"), torch.arange(ROWS) // 2 % 2


def _by_name(value: Mapping[str, Any]) -> list[Any]:
    return [value[name] for name in sorted(value)]


def labels(seed: int = 0) -> Batch:
    """Class indices of 8 rows, predicted and true."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(CLASSES, (ROWS,), generator=generator) for _ in range(2))


_COLUMNS: dict[str, dict[str, int]] = {
    "binary": {},
    "multiclass": {"num_classes": CLASSES},
    "multilabel": {"num_labels": LABELS},
}
_RATIOS = (
    *("Accuracy", "Precision", "Recall", "F1Score", "FBetaScore", "Specificity", "NegativePredictiveValue"),
    *("HammingDistance", "JaccardIndex", "StatScores"),
)
_MATRICES = ("ConfusionMatrix", "MatthewsCorrCoef", "CohenKappa")
_RANKS = ("AUROC", "AveragePrecision")
_POINTS = {
    "PrecisionAtFixedRecall": "min_recall",
    "RecallAtFixedPrecision": "min_precision",
    "SensitivityAtSpecificity": "min_specificity",
    "SpecificityAtSensitivity": "min_sensitivity",
}
_RANKINGS = ("MultilabelCoverageError", "MultilabelRankingAveragePrecision", "MultilabelRankingLoss")
_SIDES = ("valor_gpu", "torchmetrics")
_CURVES = ("ROC", "PrecisionRecallCurve")


def _made(package: str, name: str, arguments: Mapping[str, Any]) -> Any:
    import importlib

    return getattr(importlib.import_module(package), name)(**arguments)


def _pair(name: str, task: str, note: str, batch: Callable[[], Batch], **shared: Any) -> Small:
    theirs = {"task": task, **_COLUMNS[task], **shared}
    beta = {"beta": 1.0} if name == "FBetaScore" else {}  # torchmetrics' default; ours must be given one
    return Small(
        f"{name}, {task}{note}",
        partial(_made, "valor_gpu.classification", name, {**_COLUMNS[task], **shared, **beta}),
        partial(_made, "torchmetrics.classification" if name != "AUROC" else "torchmetrics", name, {**theirs, **beta}),
        batch,
        *((_one_for_none,) * 2 if name == "PrecisionRecallCurve" else ()),
    )


def _one_for_none(value: Any) -> Any:
    """Precision where no score reaches a threshold is NaN here, and 1 or NaN in torchmetrics."""
    return np.nan_to_num(numbers(value), nan=1.0)


def _of_groups() -> Iterator[Small]:
    for name in ("BinaryFairness", "BinaryGroupStatRates"):
        made = (partial(_made, f"{side}.classification", name, {"num_groups": 2}) for side in _SIDES)
        yield Small(name, *made, groups, _by_name, _by_name)


def classification() -> Iterator[Small]:
    """Each class in each task, exact and with thresholds."""
    for task in _COLUMNS:
        batch = partial(scores, task)
        for name in (*_RATIOS, *_MATRICES):
            if (name, task) != ("CohenKappa", "multilabel"):
                yield _pair(name, task, "", batch)
        for name in (*_RANKS, *_CURVES):
            yield _pair(name, task, "", batch)
            yield _pair(name, task, ", 100 thresholds", batch, thresholds=100)
        for name, least in _POINTS.items():
            yield _pair(name, task, "", batch, **{least: 0.1})  # which every class reaches
        yield _pair("EER", task, "", batch)
        yield _pair("LogAUC", task, "", batch, fpr_range=(0.1, 0.9))
        if task != "binary":
            yield _pair("ExactMatch", task, "", batch)
        if task != "multilabel":
            yield _pair("CalibrationError", task, "", batch)
            yield _pair("HingeLoss", task, "", batch)
    for name in _RANKINGS:
        made = (partial(_made, f"{side}.classification", name, {"num_labels": LABELS}) for side in _SIDES)
        yield Small(f"{name}, multilabel", *made, partial(scores, "multilabel"))
    yield from _of_groups()
    for name in ("Accuracy", "ConfusionMatrix"):
        yield _pair(name, "multiclass", ", labels", labels)
    yield _pair("Accuracy", "binary", ", logits", logits)


def boxes(images: int, objects: int) -> Batch:
    """Lists of dicts as torchmetrics takes them: boxes, and the same boxes moved a little."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(images):
        corner = torch.rand(objects, 2, generator=generator) * 100
        true = torch.cat((corner, corner + 20 + torch.rand(objects, 2, generator=generator) * 40), 1)
        kinds = torch.randint(3, (objects,), generator=generator)
        moved = true + torch.rand(objects, 4, generator=generator) * 4
        preds.append({"boxes": moved, "scores": torch.rand(objects, generator=generator), "labels": kinds})
        target.append({"boxes": true, "labels": kinds})
    return preds, target


def _map_numbers(value: Any) -> list[float]:
    return [float(value[name]) for name in ("map", "map_50", "map_75", "mar_1", "mar_10", "mar_100")]


def detection() -> Iterator[Small]:
    """Average precision of one image, and of a batch of 16."""
    for images, objects in ((1, 2), (16, 10)):
        yield Small(
            f"MeanAveragePrecision, {images} image{'s' * (images > 1)} of {objects} boxes",
            partial(_made, "valor_gpu.detection", "MeanAveragePrecision", {}),
            partial(_made, "torchmetrics.detection.mean_ap", "MeanAveragePrecision", {}),
            partial(boxes, images, objects),
            _map_numbers,
            _map_numbers,
        )


def maps(classes: int = 5, one_hot: bool = False) -> Batch:
    """One image of labels, predicted and true."""
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(classes, (1, SIDE // 8, SIDE // 8), generator=generator)
    true = true.repeat_interleave(8, 1).repeat_interleave(8, 2)
    said = true.roll((1, 2), (1, 2))
    if not one_hot:
        return said, true
    return tuple(torch.nn.functional.one_hot(each, classes).movedim(-1, 1) for each in (said, true))


def panoptic() -> Batch:
    """One panoptic map of two things and two stuffs: category and instance of each pixel."""
    said, true = maps(4)
    return tuple(torch.stack((each, each.new_zeros(each.shape)), -1) for each in (said, true))


def segmentation() -> Iterator[Small]:
    """One image of 64 x 64 pixels."""
    ours, theirs = partial(_made, "valor_gpu.segmentation"), partial(_made, "torchmetrics.segmentation")
    for name in ("MeanIoU", "DiceScore", "GeneralizedDiceScore"):
        for form in ("one-hot", "index"):
            arguments = {"num_classes": 5, "input_format": form}
            batch = partial(maps, 5, form == "one-hot")
            yield Small(f"{name}, {form}", partial(ours, name, arguments), partial(theirs, name, arguments), batch)
    arguments = {"num_classes": 5, "input_format": "index"}
    yield Small(
        "HausdorffDistance, index",
        partial(ours, "HausdorffDistance", arguments),
        partial(theirs, "HausdorffDistance", arguments),
        maps,
    )
    for name in ("PanopticQuality", "ModifiedPanopticQuality"):
        arguments = {"things": {0, 1}, "stuffs": {2, 3}}
        peer = partial(_made, "torchmetrics.detection", name, arguments)
        yield Small(name, partial(ours, name, arguments), peer, panoptic)


def pairs() -> Batch:
    """Targets of 8 rows above 0, and predictions near them."""
    rng = torch.Generator().manual_seed(0)
    target = torch.rand(ROWS, generator=rng) + 0.5
    return target + 0.2 * torch.rand(ROWS, generator=rng), target


_MEANS = ("MeanAbsoluteError", "MeanSquaredError", "MeanSquaredLogError", "MeanAbsolutePercentageError", "LogCoshError")
_SPREADS = ("RelativeSquaredError", "R2Score", "ExplainedVariance", "NormalizedRootMeanSquaredError")
_SHARES = ("SymmetricMeanAbsolutePercentageError", "WeightedMeanAbsolutePercentageError", "TweedieDevianceScore")
_PAIRS: dict[str, dict[str, float]] = {
    **{name: {} for name in (*_MEANS, *_SHARES, *_SPREADS, "PearsonCorrCoef", "ConcordanceCorrCoef")},
    "MinkowskiDistance": {"p": 3},
    "CriticalSuccessIndex": {"threshold": 1.0},
}


def tables(of_target: bool = False) -> Batch:
    """Eight rows of 20 numbers above 0, and as many beside them, or one target each."""
    first, second = torch.rand((2, ROWS, 20), generator=torch.Generator().manual_seed(0)) + 0.01
    return first, second[:, 0].clone() if of_target else second


_ROWS: dict[str, tuple[dict[str, Any], Callable[[], Batch]]] = {
    "SpearmanCorrCoef": ({}, pairs),
    "KendallRankCorrCoef": ({}, pairs),
    "CosineSimilarity": ({"reduction": "mean"}, tables),
    "KLDivergence": ({}, tables),
    "JensenShannonDivergence": ({}, tables),
    "ContinuousRankedProbabilityScore": ({}, partial(tables, True)),
}
"""Metrics whose arguments or batches are not those of ``_PAIRS``; torchmetrics computes these in float32."""


def regression() -> Iterator[Small]:
    """Eight pairs of numbers, or eight rows of 20."""
    for name, arguments in _PAIRS.items():
        yield Small(name, *(partial(_made, f"{side}.regression", name, arguments) for side in _SIDES), pairs)
    for name, (given, batch) in _ROWS.items():
        ours, theirs = (partial(_made, f"{side}.regression", name, given) for side in _SIDES)
        yield Small(name, ours, theirs, batch, tolerance=1e-5)
    given = {"threshold": 0.5, "keep_sequence_dim": 1}
    ours, theirs = (partial(_made, f"{side}.regression", "CriticalSuccessIndex", given) for side in _SIDES)
    yield Small("CriticalSuccessIndex, sequences", ours, theirs, tables)


def documents() -> Batch:
    """Two queries of four documents, each with a relevant document."""
    return torch.linspace(0.1, 0.8, ROWS), torch.arange(ROWS) % 2, torch.arange(ROWS) // 4


_RANKED: dict[str, dict[str, Any]] = {
    "RetrievalAUROC": {},
    "RetrievalFallOut": {},
    "RetrievalHitRate": {},
    "RetrievalMAP": {},
    "RetrievalMRR": {},
    "RetrievalNormalizedDCG": {},
    "RetrievalPrecision": {},
    "RetrievalPrecisionRecallCurve": {},
    "RetrievalRPrecision": {},
    "RetrievalRecall": {},
    "RetrievalRecallAtFixedPrecision": {"min_precision": 0.5},
}


def retrieval() -> Iterator[Small]:
    """Eight scored documents of two queries."""
    for name, arguments in _RANKED.items():
        yield Small(name, *(partial(_made, f"{side}.retrieval", name, arguments) for side in _SIDES), documents)


def _one(name: str) -> Callable[[Any], Any]:
    return lambda value: value[name] if name else value


def _named_numbers(value: Mapping[str, Any]) -> list[float]:
    return [float(value[name]) for name in sorted(value) if not name.endswith("stderr")]


def tokens() -> Batch:
    """Logits of ten tokens of a hundred, and the right ones."""
    rng = torch.Generator().manual_seed(6)
    return torch.randn(1, 10, 100, generator=rng), torch.randint(100, (1, 10), generator=rng)


def text() -> Iterator[Small]:
    """One row of ten words or tokens."""
    ours, theirs = partial(_made, "valor_gpu.text"), partial(_made, "torchmetrics.text")
    one, several = (lambda: ([_TEXTS[0]], [_TEXTS[1]])), (lambda: ([_TEXTS[0]], [[_TEXTS[1]]]))
    peers: tuple[tuple[Any, ...], ...] = (
        ("WordErrorRate", {}, "WordErrorRate", {}, one, "", 1e-6),
        ("CharErrorRate", {}, "CharErrorRate", {}, one, "", 1e-6),
        ("MatchErrorRate", {}, "MatchErrorRate", {}, one, "", 1e-6),
        ("WordInfoLost", {}, "WordInfoLost", {}, one, "", 1e-6),
        ("WordInfoPreserved", {}, "WordInfoPreserved", {}, one, "", 1e-6),
        ("TranslationEditRate", {}, "TranslationEditRate", {}, several, "", 1e-6),
        ("EditDistance", {}, "EditDistance", {}, one, "", 1e-6),
        ("ExtendedEditDistance", {}, "ExtendedEditDistance", {}, several, "", 1e-6),
        ("BLEUScore", {}, "BLEUScore", {}, several, "", 1e-6),
        ("SacreBLEUScore", {}, "SacreBLEUScore", {}, several, "", 1e-6),
        ("CHRFScore", {}, "CHRFScore", {}, several, "", 2e-4),  # torchmetrics adds a small number
    )
    for name, mine, peer, other, batch, number, tolerance in peers:
        label = name if name == peer else f"{name} ({peer})"
        yield Small(
            label, partial(ours, name, mine), partial(theirs, peer, other), batch, _one(number), tolerance=tolerance
        )
    question = (
        {"prediction_text": _TEXTS[0], "id": "a"},
        {"answers": {"answer_start": [0], "text": [_TEXTS[1]]}, "id": "a"},
    )
    yield Small("Perplexity", partial(ours, "Perplexity", {}), partial(theirs, "Perplexity", {}), tokens)
    squad = partial(ours, "SQuAD", {}), partial(theirs, "SQuAD", {}), lambda: question
    yield Small("SQuAD", *squad, _named_numbers, _named_numbers)
    yield Small(
        "ROUGEScore",
        partial(ours, "ROUGEScore", {"rouge_keys": _ROUGES}),
        partial(theirs, "ROUGEScore", {"rouge_keys": _ROUGES}),
        one,
        _named_numbers,
        _named_numbers,
    )


CASES: dict[str, Callable[[], Iterator[Small]]] = {
    "classification": classification,
    "detection": detection,
    "segmentation": segmentation,
    "regression": regression,
    "retrieval": retrieval,
    "text": text,
}
"""Of each kind of task its metrics."""


def numbers(value: Any) -> np.ndarray[Any, Any]:
    """All numbers of a value, in order."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    flat = [
        np.asarray(part.detach() if isinstance(part, torch.Tensor) else part, np.float64) for part in _leaves(parts)
    ]
    return np.concatenate([np.ravel(part) for part in flat]) if flat else np.zeros(0)


def _leaves(parts: Any) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, (list, tuple)):
            yield from _leaves(part)
        else:
            yield part
