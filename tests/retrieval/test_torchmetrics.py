"""Numbers of retrieval are those of torchmetrics for every choice, in random data and at the edges."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.functional.retrieval as peer_functions
import torchmetrics.retrieval as peers
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu import functional, retrieval
from valor_gpu.errors import InputError

GRADED = ("RetrievalNormalizedDCG",)
CUT = ("RetrievalAUROC", "RetrievalFallOut", "RetrievalHitRate", "RetrievalMAP", "RetrievalMRR",
       "RetrievalNormalizedDCG", "RetrievalPrecision", "RetrievalRecall")  # fmt: skip
CURVES = ("RetrievalPrecisionRecallCurve", "RetrievalRecallAtFixedPrecision")
Batch = tuple[Tensor, Tensor, Tensor]


def documents(rng: random.Random, graded: bool = False, size: int = 150) -> Batch:
    """Documents of shuffled queries with different scores of both signs, some queries all relevant or irrelevant."""
    preds = torch.tensor(rng.sample(range(-2000, 6000), size)) / 4096
    indexes = torch.tensor([rng.choice([3, 4, 5, 7, 9, 12, 900, 2**40, -8, rng.randrange(40)]) for _ in range(size)])
    target = torch.tensor([rng.choice(range(4) if graded else range(2)) for _ in range(size)])
    target[indexes == 4], target[indexes == 5], target[indexes == 9] = 0, 1, 0
    return preds, target, indexes


def choices_of(name: str, rng: random.Random) -> dict[str, Any]:
    """Arguments at random; of the function of ``aggregation`` one that torch has."""
    chosen: dict[str, Any] = {
        "empty_target_action": rng.choice(["neg", "pos", "skip"]),
        "ignore_index": rng.choice([None, None, 0, 1, -100]),
    }
    if name in CUT:
        chosen["top_k"] = rng.choice([None, 1, 2, 5, 100])
    if name == "RetrievalAUROC":
        chosen["max_fpr"] = rng.choice([None, 0.1, 0.5, 1.0])
    if name in CURVES:
        chosen["max_k"] = rng.choice([None, 1, 3, 200])
    if name in (*CURVES, "RetrievalPrecision"):
        chosen["adaptive_k"] = rng.random() < 0.5
    if name == "RetrievalRecallAtFixedPrecision":
        chosen["min_precision"] = rng.choice([0.0, 0.3, 0.55, 1.0])
    else:
        chosen["aggregation"] = rng.choice(["mean", "median", "min", "max", torch.mean])
    return chosen


def assert_equal(ours: Any, theirs: Any) -> None:
    """Values within float32 rounding, of one dtype and shape."""
    ours, theirs = (value if isinstance(value, tuple) else (value,) for value in (ours, theirs))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert mine.dtype == other.dtype and mine.shape == other.shape
        torch.testing.assert_close(mine, other, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("name", peers.__all__)
def test_numbers_are_those_of_torchmetrics(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    chosen = choices_of(name, rng)
    ours, theirs = getattr(retrieval, name)(**chosen), getattr(peers, name)(**chosen)
    for _ in range(2):
        batch = documents(rng, name in GRADED)
        ours.update(*batch)
        theirs.update(*batch)
    assert_equal(ours.compute(), theirs.compute())


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("name", peer_functions.__all__)
def test_functions_are_those_of_torchmetrics(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    preds, target, _ = documents(rng, "dcg" in name, rng.choice([1, 2, 3, 40]))
    chosen: dict[str, Any] = {}
    if name not in ("retrieval_r_precision", "retrieval_precision_recall_curve"):
        chosen["top_k"] = rng.choice([None, 1, 3, 60])
    if name == "retrieval_precision_recall_curve":
        chosen["max_k"] = rng.choice([None, 1, 3, 60])
    if "precision" in name and ("curve" in name or name == "retrieval_precision"):
        chosen["adaptive_k"] = rng.random() < 0.5
    found = getattr(functional, name)(preds, target, **chosen)
    assert_equal(found, getattr(peer_functions, name)(preds, target, **chosen))
    assert_equal(getattr(functional, name)(y_true=target.numpy(), y_pred=preds.tolist(), **chosen), found)


@pytest.mark.parametrize("name", peers.__all__)
def test_arguments_have_the_names_order_and_defaults_of_torchmetrics(name: str) -> None:
    import inspect

    theirs = inspect.signature(getattr(peers, name)).parameters.values()
    ours = inspect.signature(getattr(retrieval, name)).parameters.values()
    plain = [(each.name, each.default) for each in theirs if each.kind is not each.VAR_KEYWORD]
    mine = [(each.name, each.default) for each in ours if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert mine[: len(plain)] == plain and len(mine) <= len(plain) + (name == "RetrievalRecallAtFixedPrecision")
    assert getattr(retrieval, name).higher_is_better == getattr(peers, name).higher_is_better


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("name", ["RetrievalNormalizedDCG", "RetrievalAUROC"])
def test_equal_scores_share_gains_and_count_half(name: str, seed: int) -> None:
    rng = random.Random(seed)
    _, target, indexes = documents(rng, name in GRADED)
    preds = torch.tensor([rng.randrange(4) / 4 for _ in range(len(target))])
    ours, theirs = getattr(retrieval, name)(), getattr(peers, name)()
    ours.update(preds, target, indexes)
    theirs.update(preds, target, indexes)
    assert_equal(ours.compute(), theirs.compute())


@pytest.mark.parametrize("top_k", [None, 1, 3, 10])
def test_ndcg_is_that_of_scikit_learn(top_k: int | None) -> None:
    ndcg_score = pytest.importorskip("sklearn.metrics").ndcg_score
    rng = np.random.default_rng(5)
    target, preds = rng.integers(0, 4, (20, 10)), rng.integers(0, 6, (20, 10)) / 8
    target[:, 0] = 1
    metric = retrieval.RetrievalNormalizedDCG(top_k=top_k)
    metric.update(preds, target, np.repeat(np.arange(20)[:, None], 10, 1))
    expected = [ndcg_score(target[i : i + 1], preds[i : i + 1], k=top_k) for i in range(20)]
    found = metric.result().per_query()["RetrievalNormalizedDCG"]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_other_scores_take_equal_scores_in_the_order_in_which_they_came() -> None:
    metric = retrieval.RetrievalMRR()
    metric.update(torch.full((3,), 0.5), torch.tensor([0, 0, 1]), torch.tensor([0, 0, 0]))
    assert float(metric.compute()) == pytest.approx(1 / 3)


def test_logits_below_0_are_found_where_that_is_asked_for() -> None:
    preds, target, indexes = torch.tensor([-1.0, -2.0]), torch.tensor([1, 0]), torch.tensor([0, 0])
    for name in ("RetrievalMRR", "RetrievalMAP", "RetrievalRecall", "RetrievalPrecision"):
        for peer in (getattr(peers, name)(), getattr(retrieval, name)()):
            peer.update(preds, target, indexes)
            assert float(peer.compute()) == 0, name
        metric = getattr(retrieval, name)(score_above=None)
        metric.update(preds, target, indexes)
        assert float(metric.compute()) == (0.5 if name == "RetrievalPrecision" else 1), name


def test_areas_tell_large_logits_apart_where_torchmetrics_takes_their_equal_sigmoid() -> None:
    batch = torch.tensor([30.0, 31.0]), torch.tensor([0, 1]), torch.tensor([0, 0])
    ours, theirs = retrieval.RetrievalAUROC(), peers.RetrievalAUROC()
    ours.update(*batch)
    theirs.update(*batch)
    assert (float(ours.compute()), float(theirs.compute())) == (1.0, 0.5)


def test_float64_scores_that_float32_cannot_tell_apart_keep_their_order() -> None:
    preds = torch.tensor([0.5, 0.5 + 2.0**-40], dtype=torch.float64)
    metric = retrieval.RetrievalMRR()
    metric.update(preds, torch.tensor([0, 1]), torch.tensor([0, 0]))
    assert float(metric.compute()) == 1


def test_a_query_without_a_relevant_document_raises_where_that_is_asked_for() -> None:
    for name in peers.__all__:
        metric = getattr(retrieval, name)(empty_target_action="error")
        wrong = 1 if name == "RetrievalFallOut" else 0
        metric.update(torch.tensor([0.5, 0.2, 0.3]), torch.tensor([0, 1, wrong]), torch.tensor([3, 3, 8]))
        kind = "an irrelevant" if wrong else "a relevant"
        with pytest.raises(InputError, match=f"every query must have {kind} document .* but query 8 has none"):
            metric.compute()
        with pytest.raises(InputError, match="but query 8 has none"):
            metric.result()


def test_a_cutoff_of_0_is_an_error_also_where_torchmetrics_takes_it_for_none() -> None:
    for name in CUT:
        with pytest.raises(InputError, match="top_k must be at least 1 but got 0"):
            getattr(retrieval, name)(top_k=0)


def test_without_documents_the_number_is_nan_and_a_function_needs_one() -> None:
    metric = retrieval.RetrievalMAP()
    metric.update([], [], [])
    assert metric.compute().isnan()
    with pytest.raises(InputError, match="preds must hold at least one document but is empty"):
        functional.retrieval_recall([], [])
