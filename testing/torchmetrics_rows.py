"""Cases of regression and retrieval: package, class, arguments and what draws a batch of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

ROWS, OUTPUTS, QUERIES, DOCUMENTS = 24, 3, 5, 8
Rng = np.random.Generator
Tensors = tuple[torch.Tensor, ...]
Parts = tuple[str, str, dict[str, Any], Callable[[Rng], Tensors]]


def _float(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))


def positive(rng: Rng) -> Tensors:
    """Predictions and targets between 0.5 and 4.5, near each other."""
    target = rng.uniform(1, 4, ROWS)
    return _float(target + rng.uniform(-0.5, 0.5, ROWS)), _float(target)


def outputs(rng: Rng) -> Tensors:
    """The same of several outputs, with one sign or the other."""
    target = rng.normal(size=(ROWS, OUTPUTS))
    return _float(target + 0.5 * rng.normal(size=target.shape)), _float(target)


def tied(rng: Rng) -> Tensors:
    """Whole numbers, many of them equal."""
    target = rng.integers(0, 9, ROWS)
    return _float(target + rng.integers(-3, 4, ROWS)), _float(target)


def distributions(rng: Rng) -> Tensors:
    """Two distributions over four events in every row."""
    found = rng.uniform(0.1, 1, (2, ROWS, 4))
    first, second = found / found.sum(2, keepdims=True)
    return _float(first), _float(second)


def ensembles(rng: Rng) -> Tensors:
    """Ensembles of six members, and what came."""
    return _float(rng.normal(size=(ROWS, 6))), _float(rng.normal(size=ROWS))


def documents(rng: Rng) -> Tensors:
    """Queries whose documents come mixed; scores differ, and every query has documents of both kinds."""
    query = rng.permutation(np.repeat(np.arange(QUERIES), DOCUMENTS))
    target = rng.integers(0, 2, len(query))
    for each in range(QUERIES):
        target[np.flatnonzero(query == each)[:2]] = (0, 1)
    return _float(rng.random(len(query))), torch.from_numpy(target), torch.from_numpy(query)


def graded(rng: Rng) -> Tensors:
    """The same with grades from 0 to 3."""
    scores, target, query = documents(rng)
    return scores, target * torch.from_numpy(rng.integers(1, 4, len(target))), query


_NO_CHOICE: list[dict[str, Any]] = [{}]
_MULTIOUTPUT: list[dict[str, Any]] = [
    {"multioutput": each} for each in ("raw_values", "uniform_average", "variance_weighted")
]
_EACH: list[dict[str, Any]] = [{"num_outputs": OUTPUTS}]
_REDUCTIONS: list[dict[str, Any]] = [{"reduction": each} for each in ("mean", "sum", "none")]
_REGRESSION: list[tuple[tuple[str, ...], Callable[[Rng], Tensors], list[dict[str, Any]]]] = [
    (("MeanAbsoluteError", "MeanSquaredLogError", "MeanAbsolutePercentageError"), positive, _NO_CHOICE),
    (("SymmetricMeanAbsolutePercentageError", "WeightedMeanAbsolutePercentageError"), positive, _NO_CHOICE),
    (("MeanSquaredError", "RelativeSquaredError"), positive, [{}, {"squared": False}]),
    (("MeanAbsoluteError", "MeanSquaredError", "LogCoshError", "RelativeSquaredError"), outputs, _EACH),
    (("PearsonCorrCoef", "ConcordanceCorrCoef", "SpearmanCorrCoef", "KendallRankCorrCoef"), outputs, _EACH),
    (("R2Score", "ExplainedVariance"), outputs, _MULTIOUTPUT),
    (("R2Score",), positive, [{"adjusted": 3}]),
    (("MinkowskiDistance",), positive, [{"p": 1}, {"p": 3}]),
    (("TweedieDevianceScore",), positive, [{"power": each} for each in (0, 1, 1.5, 2, 3, -1)]),
    (
        ("NormalizedRootMeanSquaredError",),
        positive,
        [{"normalization": each} for each in ("mean", "range", "std", "l2")],
    ),
    (("CriticalSuccessIndex",), positive, [{"threshold": 2.5}]),
    (("CriticalSuccessIndex",), outputs, [{"threshold": 0.0, "keep_sequence_dim": 1}]),
    (("PearsonCorrCoef", "ConcordanceCorrCoef"), positive, _NO_CHOICE),
    (("SpearmanCorrCoef",), tied, _NO_CHOICE),
    (("KendallRankCorrCoef",), tied, [{"variant": "b"}, {"variant": "c"}]),
    (("KendallRankCorrCoef",), positive, [{"variant": "a"}]),  # of ties torchmetrics gives another coefficient
    (("CosineSimilarity",), outputs, _REDUCTIONS),
    (("KLDivergence", "JensenShannonDivergence"), distributions, _REDUCTIONS),
    (("ContinuousRankedProbabilityScore",), ensembles, _NO_CHOICE),
]
_CUT: list[dict[str, Any]] = [{}, {"top_k": 3}, {"top_k": 3, "aggregation": "median"}]
_RETRIEVAL: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(("AUROC", "FallOut", "HitRate", "MAP", "MRR", "Recall"), _CUT),
    "Precision": [*_CUT, {"top_k": 20, "adaptive_k": True}],
    "RPrecision": [{}, {"aggregation": "max"}],
    "PrecisionRecallCurve": [{}, {"max_k": 4}],
    "RecallAtFixedPrecision": [{"min_precision": 0.25}],
}


def rows() -> Iterator[Parts]:
    """Every case of both packages."""
    for names, batch, choices in _REGRESSION:
        yield from (("regression", name, choice, batch) for name in names for choice in choices)
    for name, choices in _RETRIEVAL.items():
        yield from (("retrieval", f"Retrieval{name}", choice, documents) for choice in choices)
    yield from (("retrieval", "RetrievalNormalizedDCG", choice, graded) for choice in _CUT)
