"""Populations with known numbers, from which benchmarks/coverage.py draws data sets.

A pool is a finite population; a data set is drawn from it with replacement. Most numbers are functions of sums over
units, so that those of all replicates are one product of matrices.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import coverage_native
from testing.datasets import ROOT

Floats = NDArray[np.float64]
Random = np.random.Generator
SIZE = 20_000
"""Units of a pool."""
TEXTS = ROOT / "examples" / "data" / "gsm8k_solutions.jsonl"


class Pool(ABC):
    """A population.

    Attributes:
        family: of the numbers, as in valor_gpu/stats/methods.py.
        names: of the numbers: of the first model and, with ``difference``, of the second less the first.
        units: how many the population has.
    """

    family: str
    names: tuple[str, ...]
    units: int

    @abstractmethod
    def numbers(self, drawn: NDArray[np.int64], weights: NDArray[np.uint8]) -> Floats:
        """Numbers ``[names, L]`` of the drawn units under weights ``[drawn, L]``."""

    def errors(self, drawn: NDArray[np.int64], weights: NDArray[np.uint8]) -> Floats | None:
        """Standard errors of the numbers by a formula, where one is known."""
        return None

    def known(self) -> Floats:
        """Numbers ``[names]`` of the population."""
        return self.numbers(np.arange(self.units), np.ones((self.units, 1), np.uint8))[:, 0]

    def estimates(self, rng: Random, n: int, sets: int) -> Floats:
        """Numbers ``[names, sets]`` of data sets of n units."""
        one = np.ones((n, 1), np.uint8)
        return np.stack([self.numbers(rng.integers(0, self.units, n), one)[:, 0] for _ in range(sets)], 1)

    def supports(self, drawn: NDArray[np.int64]) -> list[int | None]:
        """How many of the drawn units hold a ground truth of each number; None: it needs none."""
        return [None] * len(self.names)


class Sums(Pool):
    """Numbers that are functions of sums over units.

    Args:
        family: see :class:`Pool`.
        names: of the numbers of the first model.
        columns: ``[units, C]``, of both models.
        number: ``[C, L]`` sums and the model, 0 or 1, to numbers ``[names, L]``.
        dtype: float32 where all sums of columns are below 2**24 and whole.
    """

    def __init__(
        self, family: str, names: tuple[str, ...], columns: Floats, number: Callable[[Any, int], Any], dtype: Any
    ) -> None:
        self.family, self.units = family, len(columns)
        self.names = (*names, *(f"{name}, difference" for name in names))
        self._columns, self._number = columns.astype(dtype), number

    def numbers(self, drawn: NDArray[np.int64], weights: NDArray[np.uint8]) -> Floats:
        return self._both(self._columns[drawn].T @ weights.astype(self._columns.dtype))

    def known(self) -> Floats:
        return self._both(self._columns.astype(np.float64).sum(0)[:, None])[:, 0]

    def estimates(self, rng: Random, n: int, sets: int) -> Floats:
        sums = [self._columns[rng.integers(0, self.units, n)].sum(0) for _ in range(sets)]
        return self._both(np.stack(sums, 1))

    def _both(self, sums: Any) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            first, second = (self._number(sums.astype(np.float64), model) for model in (0, 1))
        return np.concatenate([first, second - first])


class Rows(Sums):
    """The mean of scores, whose standard error has a formula."""

    def __init__(self, scores: Floats) -> None:
        first, second = scores
        columns = np.stack([first, second, first**2, (second - first) ** 2, np.ones(len(first))], 1)
        super().__init__("rows", ("mean",), columns, lambda sums, model: (sums[model] / sums[4])[None], np.float64)

    def errors(self, drawn: NDArray[np.int64], weights: NDArray[np.uint8]) -> Floats:
        sums = self._columns[drawn].T @ weights.astype(np.float64)
        n = sums[4]
        means = np.stack([sums[0], sums[1] - sums[0]]) / n
        return np.asarray(np.sqrt(np.maximum(sums[2:4] / n - means**2, 0) / (n - 1)))


class Scores(Pool):
    """AUROC and AP of two models' scores on the same rows; the scores are normal in either class."""

    family = "curve"
    names = ("AUROC", "AP", "AUROC, difference", "AP, difference")

    def __init__(self, rng: Random, distances: tuple[float, float], positives: float) -> None:
        self.units = SIZE
        self._positive = rng.random(SIZE) < positives
        shared = rng.normal(size=SIZE)
        own = rng.normal(size=(2, SIZE))
        self._scores = np.array(distances)[:, None] * self._positive + 0.6 * shared + 0.8 * own

    def numbers(self, drawn: NDArray[np.int64], weights: NDArray[np.uint8]) -> Floats:
        units, copies = np.unique(drawn, return_inverse=True)  # copies tie: they are weights of their unit
        summed = np.zeros((len(units), weights.shape[1]), np.uint8)
        np.add.at(summed, copies, weights)
        found = []
        for scores in self._scores[:, units]:
            order = np.argsort(-scores, kind="stable")
            found.append(np.stack(coverage_native.curve_numbers(order, self._positive[units][order], summed)))
        return np.concatenate([found[0], found[1] - found[0]])


class Labels(Sums):
    """Numbers of predicted labels, also of every other class; the first columns say which class a row is of."""

    def supports(self, drawn: NDArray[np.int64]) -> list[int | None]:
        classes = len(self.names) // 2 - 2
        rows = self._columns[drawn, : 2 * classes : 2].sum(0)
        return [None, None, *(int(count) for count in rows[:classes])] * 2


# ------------------------------------------------------------------------------------------------ of sums over units


def _present_mean(above: Any, below: Any) -> Any:
    """Mean over the classes, the first axis, of ratios whose denominator is not 0."""
    counts = (below > 0).sum(0)
    return np.where(below > 0, above / np.where(below > 0, below, 1), 0).sum(0) / np.where(counts, counts, np.nan)


def labels(rng: Random, frequency: Floats, right: float) -> Sums:
    """Accuracy and macro F1 of classes of these frequencies; a prediction is right, or a random class."""
    k = len(frequency)
    target = rng.choice(k, SIZE, p=frequency / frequency.sum())
    shared = rng.random(SIZE)  # one row is hard for both models
    preds = []
    for share in (right, right + 0.3 * (1 - right)):
        luck = np.where(rng.random(SIZE) < 0.6, shared, rng.random(SIZE))
        preds.append(np.where(luck < share, target, rng.choice(k, SIZE, p=frequency / frequency.sum())))
    one_hot = np.eye(k)
    columns = [one_hot[target]]
    for pred in preds:
        columns += [one_hot[pred], one_hot[pred] * (pred == target)[:, None]]

    def number(sums: Any, model: int) -> Any:
        true, predicted, both = sums[:k], *np.split(sums[k + 2 * k * model : 3 * k + 2 * k * model], 2)
        macro = _present_mean(2 * both, true + predicted)
        return np.concatenate([(both.sum(0) / true.sum(0))[None], macro[None], (2 * both / (true + predicted))[::2]])

    names = ("accuracy", "macro F1", *(f"class F1 {c}" for c in range(0, k, 2)))
    return Labels("ratio", names, np.concatenate(columns, 1), number, np.float32)


def _qualities(rng: Random, classes: int) -> tuple[Any, Any, Any]:
    """Presence ``[SIZE, K]`` of classes in images, and the quality of the overlap under two models."""
    presence = rng.random((SIZE, classes)) < np.geomspace(0.8, 0.04, classes)
    base = np.linspace(2.0, 0.0, classes) + rng.normal(0, 0.7, (SIZE, 1)) + rng.normal(0, 0.5, (SIZE, classes))
    pair = [base + shift + rng.normal(0, 0.5, (SIZE, classes)) for shift in (0.0, 0.15)]
    return presence, 1 / (1 + np.exp(-pair[0])), 1 / (1 + np.exp(-pair[1]))


def pixels(rng: Random, classes: int = 20) -> Sums:
    """mIoU: images have few of the classes, their areas are skewed, hard images are hard for every class."""
    presence, *pair = _qualities(rng, classes)
    area = np.round(rng.gamma(0.7, 300, (SIZE, classes)).clip(1, 3000)) * presence
    columns = []
    for quality in pair:
        false = np.round(rng.gamma(0.7, 40, (SIZE, classes)).clip(0, 1000)) * (rng.random((SIZE, classes)) < 0.05)
        columns += [np.round(quality * area), area + false * ~presence]
    k = classes
    return Sums(
        "pixels", ("mIoU",), np.concatenate(columns, 1),
        lambda sums, model: _present_mean(*np.split(sums[2 * k * model : 2 * k * model + 2 * k], 2))[None], np.float32,
    )  # fmt: skip


def panoptic(rng: Random, classes: int = 20) -> Sums:
    """PQ: segments are found where their overlap is above a half; IoU in hundredths."""
    presence, *pair = _qualities(rng, classes)
    segments = (1 + rng.poisson(1.5, (SIZE, classes))) * presence
    columns = []
    for quality in pair:
        found = rng.binomial(segments, quality)
        false = rng.poisson(0.15, (SIZE, classes)) * (rng.random((SIZE, 1)) < 0.6)
        iou = np.round((50 + 50 * quality.clip(0, 1)) * found)
        columns += [iou, 50 * (found + segments + false)]  # PQ = sum of IoU / (tp + fp / 2 + fn / 2)
    k = classes
    return Sums(
        "panoptic", ("PQ",), np.concatenate(columns, 1),
        lambda sums, model: _present_mean(*np.split(sums[2 * k * model : 2 * k * model + 2 * k], 2))[None], np.float32,
    )  # fmt: skip


def _grams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _bleu_counts(prediction: list[str], reference: list[str]) -> list[int]:
    """Matches and n-grams of one to four words, and the length of the prediction."""
    pairs = [(_grams(prediction, n), _grams(reference, n)) for n in range(1, 5)]
    return [(a & b).total() for a, b in pairs] + [a.total() for a, _ in pairs] + [len(prediction)]


def _changed(rng: Random, words: list[str], rate: float, vocabulary: list[str]) -> list[str]:
    """Words of which some are left out or replaced."""
    luck = rng.random(len(words))
    others = rng.integers(0, len(vocabulary), len(words))
    return [vocabulary[o] if u < rate / 2 else w for w, u, o in zip(words, luck, others) if not rate / 2 <= u < rate]


def texts(rng: Random, rows: int = 4000) -> Sums:
    """BLEU of a corpus: solved exercises, of whose words a row-specific share is changed."""
    solved = [json.loads(line) for line in TEXTS.read_text().splitlines()]
    solutions = [row[name] for row in solved for name in ("question", "ground_truth", "answer_6b", "answer_175b")]
    lines = [line.split() for text in solutions for line in text.split("\n")]
    lines = [line for line in lines if len(line) >= 5]
    vocabulary = [word for line in lines for word in line]
    columns = np.zeros((rows, 19))
    for row in columns:
        reference = [word for i in rng.integers(0, len(lines), rng.integers(1, 4)) for word in lines[i]]
        rate = rng.beta(1.2, 3)
        first, second = (_changed(rng, reference, rate * scale, vocabulary) for scale in (1.0, 0.9))
        row[:] = [*_bleu_counts(first, reference), *_bleu_counts(second, reference), len(reference)]

    def number(sums: Any, model: int) -> Any:
        mine = sums[9 * model : 9 * model + 9]
        logs = np.log(mine[:4] / mine[4:8]).mean(0) + np.minimum(0, 1 - sums[18] / mine[8])
        return np.exp(logs)[None]

    return Sums("corpus", ("BLEU",), columns, number, np.float32)


def levels(rng: Random) -> Rows:
    """Scores 1 to 5, most of them high."""
    shared = rng.choice(5, SIZE, p=[0.03, 0.05, 0.1, 0.27, 0.55]) + 1.0
    moved = [(shared + rng.choice([-1, 0, 1], SIZE, p=p)).clip(1, 5) for p in ([0.2, 0.7, 0.1], [0.15, 0.7, 0.15])]
    return Rows(np.stack(moved))


def lognormal(rng: Random, sigma: float) -> Rows:
    """Skewed scores."""
    shared, own = rng.normal(size=SIZE), rng.normal(size=(2, SIZE))
    return Rows(np.exp(sigma * (0.8 * shared + 0.6 * own)) * np.array([[1.0], [1.05]]))


MAKERS: dict[str, Callable[[Random], Pool]] = {
    "5 classes": lambda rng: labels(rng, np.array([0.3, 0.25, 0.2, 0.15, 0.1]), 0.7),
    "10 classes, skewed": lambda rng: labels(rng, 1 / np.arange(1, 11.0), 0.9),
    "scores apart": lambda rng: Scores(rng, (1.2, 1.35), 0.5),
    "scores far apart": lambda rng: Scores(rng, (2.3, 2.5), 0.15),
    "label maps": pixels,
    "panoptic": panoptic,
    "texts": texts,
    "levels 1 to 5": levels,
    "lognormal, sigma 0.5": lambda rng: lognormal(rng, 0.5),
    "lognormal, sigma 1": lambda rng: lognormal(rng, 1.0),
}


@cache
def pool(name: str) -> Pool:
    """The population of this name; the same bits each time."""
    if name == "detection":
        from benchmarks.coverage_detection import Images

        return Images()
    seed = [int.from_bytes(re.sub(r"\W", "", name).encode()[:8], "big")]
    return MAKERS[name](np.random.default_rng(seed))
