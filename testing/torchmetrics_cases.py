"""Small seeded inputs for every class that valor_gpu shares with torchmetrics, and how its value is written down.

tools/make_torchmetrics_goldens.py runs torchmetrics' classes on them, tests/test_torchmetrics_goldens.py ours. Numbers
are drawn by numpy, whose streams of a seed do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from testing.digests import digest
from testing.torchmetrics_rows import rows

CLASSES, LABELS, ROWS, BATCHES = 4, 3, 24, 2
Rng = np.random.Generator
Batch = tuple[Any, ...]


class Case(NamedTuple):
    """A metric with its arguments, and what draws a batch for it."""

    package: str
    name: str
    options: dict[str, Any]
    batch: Callable[[Rng], Batch]

    @property
    def id(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.options.items())])


def batches(case: Case) -> list[Batch]:
    """The batches of a case, by the letters of its id."""
    rng = np.random.default_rng(list(case.id.encode()))
    return [case.batch(rng) for _ in range(BATCHES)]


def inputs_of(case: Case) -> str:
    """A fingerprint of the batches, with which a golden value is stored."""
    return digest(tree_map_only(torch.Tensor, lambda tensor: tensor.numpy(), batches(case)))


def value_of(kind: Any, case: Case) -> list[Any]:
    """What a class finds in the batches, as ``[path, numbers]`` for each tensor."""
    metric = kind(**case.options)
    for batch in batches(case):
        metric.update(*batch)
    return list(_numbers("", metric.compute()))


def _numbers(path: str, value: Any) -> Iterator[list[Any]]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _numbers(f"{path}/{key}", value[key])
    elif isinstance(value, (list, tuple)):
        for place, each in enumerate(value):
            yield from _numbers(f"{path}/{place}", each)
    else:
        yield [path, torch.as_tensor(value).double().tolist()]


# ---------------------------------------------------------------------------------------------------- classification


def _softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    shares: np.ndarray = raised / raised.sum(1, keepdims=True)
    return shares


def _float(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))


def binary(rng: Rng) -> Batch:
    target = rng.integers(0, 2, ROWS)
    return _float(np.clip(0.25 * target + 0.7 * rng.random(ROWS), 0.01, 0.99)), torch.from_numpy(target)


def multiclass(rng: Rng) -> Batch:
    target = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, ROWS - CLASSES)])
    logits = rng.normal(size=(ROWS, CLASSES)) + 1.2 * (target[:, None] == np.arange(CLASSES))
    return _float(_softmax(logits)), torch.from_numpy(target)


def multilabel(rng: Rng) -> Batch:
    target = rng.integers(0, 2, (ROWS, LABELS))
    return _float(np.clip(0.25 * target + 0.7 * rng.random((ROWS, LABELS)), 0.01, 0.99)), torch.from_numpy(target)


def groups(rng: Rng) -> Batch:
    """The binary task in two groups, both with rows of either class."""
    return *binary(rng), torch.from_numpy(np.arange(ROWS) % 2)


_ROOMS: dict[str, tuple[dict[str, Any], Callable[[Rng], Batch]]] = {
    "Binary": ({}, binary),
    "Multiclass": ({"num_classes": CLASSES}, multiclass),
    "Multilabel": ({"num_labels": LABELS}, multilabel),
}
_AVERAGES: list[dict[str, Any]] = [{"average": each} for each in ("micro", "macro", "weighted", "none")]
_RATIO = [*_AVERAGES, {"ignore_index": 1}]
_CURVE: list[dict[str, Any]] = [{}, {"thresholds": 6}]
_MEANS: list[dict[str, Any]] = [{"average": each} for each in ("macro", "weighted", "none")]
_MATRIX: list[dict[str, Any]] = [{}, *({"normalize": each} for each in ("true", "pred", "all")), {"ignore_index": 1}]
_POINT = {
    "PrecisionAtFixedRecall": "min_recall",
    "RecallAtFixedPrecision": "min_precision",
    "SensitivityAtSpecificity": "min_specificity",
    "SpecificityAtSensitivity": "min_sensitivity",
}
# Choices of the classes of all three tasks; a binary metric has no average.
_ALL: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(("Accuracy", "F1Score", "HammingDistance", "NegativePredictiveValue"), _RATIO),
    **dict.fromkeys(("Precision", "Recall", "Specificity", "StatScores", "JaccardIndex"), _RATIO),
    "FBetaScore": [{"beta": 0.5, **each} for each in _RATIO],
    "MatthewsCorrCoef": [{}],
    "ConfusionMatrix": _MATRIX,
    "EER": _CURVE,
    "LogAUC": [{"fpr_range": (0.1, 0.9), **each} for each in _CURVE],
    "PrecisionRecallCurve": _CURVE,
    "ROC": _CURVE,
    "AUROC": [*_CURVE, *_MEANS],
    "AveragePrecision": [*_CURVE, *_MEANS],
    **{name: [{key: 0.6, **each} for each in _CURVE] for name, key in _POINT.items()},
}
_SOME: dict[str, list[dict[str, Any]]] = {
    "BinaryCalibrationError": [{"norm": norm, "n_bins": 7} for norm in ("l1", "l2", "max")],
    "MulticlassCalibrationError": [{"norm": norm, "n_bins": 7} for norm in ("l1", "l2", "max")],
    "BinaryCohenKappa": [{}, {"weights": "linear"}],
    "MulticlassCohenKappa": [{}, {"weights": "linear"}, {"weights": "quadratic"}],
    "MulticlassExactMatch": [{}],
    "MulticlassMatthewsCorrCoef": [{"ignore_index": 1}],
    "MultilabelExactMatch": [{}, {"threshold": 0.4}],
    **{f"Multilabel{name}": [{}] for name in ("CoverageError", "RankingAveragePrecision", "RankingLoss")},
    **{f"Multiclass{name}": [{"top_k": 2, "average": "macro"}] for name in ("Accuracy", "Recall")},
    "BinaryAUROC": [{"max_fpr": 0.5}],
    "BinaryHingeLoss": [{}, {"squared": True}],
    "MulticlassHingeLoss": [{"multiclass_mode": each} for each in ("crammer-singer", "one-vs-all")],
}
_GROUPED: dict[str, list[dict[str, Any]]] = {
    "BinaryFairness": [{"num_groups": 2, "task": each} for each in ("demographic_parity", "equal_opportunity", "all")],
    "BinaryGroupStatRates": [{"num_groups": 2}],
}


def classification() -> Iterator[Case]:
    for room, (base, batch) in _ROOMS.items():
        every = {f"{room}{name}": choices for name, choices in _ALL.items()}
        for name in sorted({*every, *(each for each in _SOME if each.startswith(room))}):
            seen = []
            for choice in [*every.get(name, []), *_SOME.get(name, [])]:
                kept = {key: value for key, value in choice.items() if room != "Binary" or key != "average"}
                if kept not in seen:
                    seen.append(kept)
                    yield Case("classification", name, {**base, **kept}, batch)
    for name, choices in _GROUPED.items():
        yield from (Case("classification", name, choice, groups) for choice in choices)


# ---------------------------------------------------------------------------------------- detection and segmentation


def _boxes(rng: Rng, count: int) -> np.ndarray:
    corner = rng.uniform(0, 120, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(10, 150, (count, 2))], 1)


def boxes(rng: Rng) -> Batch:
    """Two images whose detections lie beside their ground truths, and one detection of nothing."""
    preds, target = [], []
    for _ in range(2):
        truths, labels = _boxes(rng, 5), rng.integers(0, CLASSES, 5)
        near = np.concatenate([truths + rng.normal(0, 6, truths.shape), _boxes(rng, 1)])
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
        wrong = np.append(np.where(rng.random(5) < 0.2, (labels + 1) % CLASSES, labels), 0)
        scores = _float(rng.random(6))  # without ties, which torchmetrics ranks by arrival
        preds.append({"boxes": _float(near), "scores": scores, "labels": torch.from_numpy(wrong)})
        target.append({"boxes": _float(truths), "labels": torch.from_numpy(labels)})
    return preds, target


def panoptic(rng: Rng) -> Batch:
    """Two images of blocks of 3 pixels: categories 0 and 1 are things, 6 and 7 stuff."""

    def blocks(values: np.ndarray) -> np.ndarray:
        return np.kron(values, np.ones((1, 3, 3), dtype=np.int64))

    category = rng.choice([0, 1, 6, 7], (2, 4, 4))
    target = np.stack([category, np.where(category < 6, rng.integers(0, 2, category.shape), 0)], -1)
    kept = rng.random(category.shape) < 0.8
    guess = np.stack([rng.choice([0, 1, 6, 7], category.shape), np.zeros_like(category)], -1)
    preds = np.where(kept[..., None], target, guess)
    whole = [np.stack([blocks(each[..., part]) for part in (0, 1)], -1) for each in (preds, target)]
    return torch.from_numpy(whole[0]), torch.from_numpy(whole[1])


def label_maps(rng: Rng) -> Batch:
    target = rng.integers(0, CLASSES, (2, 9, 9))  # square, as torchmetrics needs for distances
    target.reshape(2, -1)[:, :CLASSES] = np.arange(CLASSES)
    preds = np.where(rng.random(target.shape) < 0.7, target, rng.integers(0, CLASSES, target.shape))
    preds.reshape(2, -1)[:, :CLASSES] = np.arange(CLASSES)
    return torch.from_numpy(preds), torch.from_numpy(target)


_MAPS = {"num_classes": CLASSES, "input_format": "index"}
_DICE = [
    {"average": each, "aggregation_level": level} for each in ("micro", "macro") for level in ("samplewise", "global")
]
# Thresholds that float32 holds: torchmetrics rounds the others, and a recall of 0.6 then misses 0.6.
_EXACT = {"iou_thresholds": [0.5, 0.625, 0.75], "rec_thresholds": [0.0, 0.125, 0.25, 0.5, 0.75]}
_AP: list[dict[str, Any]] = [{**_EXACT, **each} for each in ({"class_metrics": True}, {"average": "micro"})]
_IMAGES: list[tuple[str, str, Callable[[Rng], Batch], list[dict[str, Any]]]] = [
    ("detection", "MeanAveragePrecision", boxes, _AP),
    *(
        ("detection", f"{name}IntersectionOverUnion", boxes, [{}, {"class_metrics": True, "iou_threshold": 0.4}])
        for name in ("", "Generalized", "Distance", "Complete")
    ),
    *(
        ("detection", f"{name}PanopticQuality", panoptic, [{"things": {0, 1}, "stuffs": {6, 7}}])
        for name in ("", "Modified")
    ),
    ("segmentation", "DiceScore", label_maps, [{**_MAPS, **each} for each in _DICE]),
    ("segmentation", "MeanIoU", label_maps, [{**_MAPS, "per_class": each} for each in (False, True)]),
    (
        "segmentation",
        "GeneralizedDiceScore",
        label_maps,
        [
            {**_MAPS, "per_class": each, "weight_type": weight}
            for each in (False, True)
            for weight in ("square", "linear")
        ],
    ),
    ("segmentation", "HausdorffDistance", label_maps, [{**_MAPS, "directed": each} for each in (False, True)]),
]

# --------------------------------------------------------------------------------------------------------------- text

_WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "red", "small"]


def _sentence(rng: Rng) -> list[str]:
    return list(rng.choice(_WORDS, rng.integers(5, 10)))


def _near(rng: Rng, words: list[str]) -> str:
    return " ".join(str(rng.choice(_WORDS)) if rng.random() < 0.25 else word for word in words)


def pairs(rng: Rng) -> Batch:
    """Three predictions, each with one reference."""
    references = [_sentence(rng) for _ in range(3)]
    return [_near(rng, each) for each in references], [" ".join(each) for each in references]


def corpus(rng: Rng) -> Batch:
    """Three predictions, each with two references."""
    preds, references = pairs(rng)
    return preds, [[each, _near(rng, each.split())] for each in references]


def answers(rng: Rng) -> Batch:
    preds, references = pairs(rng)
    rows = [(pred, f"{key}") for key, pred in enumerate([*preds[:2], references[2]])]
    return (
        [{"prediction_text": pred, "id": key} for pred, key in rows],
        [{"answers": {"answer_start": [0], "text": [each]}, "id": f"{key}"} for key, each in enumerate(references)],
    )


def token_scores(rng: Rng) -> Batch:
    scores = np.log(_softmax(rng.normal(size=(12, 7)))).reshape(2, 6, 7)  # float32 logarithms differ between CPUs
    return _float(scores), torch.from_numpy(rng.integers(0, 7, (2, 6)))


_DEFAULTS: list[dict[str, Any]] = [{}]
_TEXTS: list[tuple[str, Callable[[Rng], Batch], list[dict[str, Any]]]] = [
    *((name, pairs, _DEFAULTS) for name in ("CharErrorRate", "WordErrorRate", "MatchErrorRate", "WordInfoLost")),
    ("WordInfoPreserved", pairs, [{}]),
    ("EditDistance", pairs, [{"reduction": each} for each in ("mean", "sum", "none")]),
    ("BLEUScore", corpus, [{}, {"n_gram": 2, "smooth": True}]),
    ("SacreBLEUScore", corpus, [{"tokenize": each} for each in ("13a", "char", "intl")]),
    ("TranslationEditRate", corpus, [{}, {"normalize": True}]),
    ("ExtendedEditDistance", corpus, [{}, {"language": "ja", "alpha": 1.0}]),
    ("CHRFScore", corpus, [{"n_word_order": 0}, {"n_char_order": 3, "n_word_order": 0, "beta": 1.0}]),
    ("ROUGEScore", pairs, [{"rouge_keys": each} for each in ("rouge1", "rouge2", "rougeL")]),
    ("SQuAD", answers, [{}]),
    ("Perplexity", token_scores, [{}, {"ignore_index": 2}]),
]


def cases() -> list[Case]:
    """All cases."""
    images = [Case(package, name, choice, batch) for package, name, batch, choices in _IMAGES for choice in choices]
    texts = [Case("text", name, choice, batch) for name, batch, choices in _TEXTS for choice in choices]
    return [*classification(), *images, *texts, *(Case(*parts) for parts in rows())]
