"""What metrics of retrieval take, refuse, keep and share."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from tests.fuzz import seeds
from valor_gpu import retrieval
from valor_gpu.errors import InputError
from valor_gpu.retrieval import ranking
from valor_gpu.retrieval.documents import Documents

PREDS, TARGET, INDEXES = torch.tensor([0.4, 0.2, 0.3, 0.9]), torch.tensor([1, 0, 1, 0]), torch.tensor([0, 0, 1, 1])
NAN = float("nan")


@pytest.mark.parametrize("indexes", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
@pytest.mark.parametrize("target", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64])
@pytest.mark.parametrize("preds", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_dtype_gives_the_same(preds: torch.dtype, target: torch.dtype, indexes: torch.dtype) -> None:
    metric = retrieval.RetrievalMAP()
    metric.update(PREDS.to(preds), TARGET.to(target), INDEXES.to(indexes))
    assert float(metric.compute()) == 0.75


def test_arrays_lists_views_and_further_dimensions_give_the_same() -> None:
    strided = torch.stack((PREDS, PREDS)).t()[:, 0]
    for batch in (
        (PREDS.numpy(), TARGET.numpy(), INDEXES.numpy().astype(np.int32)),
        (PREDS.tolist(), TARGET.tolist(), INDEXES.tolist()),
        (strided, TARGET, INDEXES),
        tuple(each.reshape(2, 1, 2) for each in (PREDS, TARGET, INDEXES)),
        (PREDS.clone().requires_grad_(), TARGET, INDEXES),
    ):
        metric = retrieval.RetrievalMAP()
        metric.update(*batch)
        assert float(metric.compute()) == 0.75 and not metric.state().preds.requires_grad


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((PREDS, TARGET, None), "indexes must be integers, the query of each document, but got None"),
        ((PREDS, TARGET, INDEXES.float()), "indexes must be integers but got torch.float32"),
        ((PREDS, TARGET, INDEXES.bool()), "indexes must be integers but got torch.bool"),
        ((TARGET, TARGET, INDEXES), "preds must be floating point but got torch.int64"),
        ((PREDS, TARGET.to(torch.complex64), INDEXES), "target must be bools, integers or floats but got torch.compl"),
        ((PREDS[:3], TARGET, INDEXES), r"must have one shape but got \[3\], \[4\], \[4\]"),
        ((PREDS[0], TARGET[0], INDEXES[0]), "preds must have at least one dimension but got a single number"),
        ((PREDS.to_sparse(), TARGET, INDEXES), "preds must be a dense tensor"),
        ((torch.tensor([0.1, NAN, NAN, 0.2]), TARGET, INDEXES), r"preds\[1\] must not be NaN"),
        ((PREDS, torch.tensor([0, 1, 2, 3]), INDEXES), r"target\[2\] must be 0 or 1; relevance_level=1 takes gr"),
        ((PREDS, torch.tensor([0.0, 0.5, 1.0, 1.0]), INDEXES), r"target\[1\] must be 0 or 1"),
        ((PREDS, torch.tensor([0.0, 1.0, 1.0, NAN]), INDEXES), r"target\[3\] must be 0 or 1"),
        ((PREDS, torch.tensor([0, 1, 1, -1]), INDEXES), r"target\[3\] must be 0 or 1"),
    ],
)
def test_bad_documents_are_refused_and_change_nothing(batch: tuple[Any, ...], message: str) -> None:
    metric = retrieval.RetrievalMAP()
    metric.update(PREDS, TARGET, INDEXES)
    with pytest.raises(InputError, match=message):
        metric.update(*batch)
    assert metric.update_count == 1 and len(metric.state().preds) == 4


@pytest.mark.parametrize("bad", [-1.0, NAN, float("inf")])
def test_grades_are_finite_and_at_least_0(bad: float) -> None:
    metric = retrieval.RetrievalNormalizedDCG(ignore_index=7)
    with pytest.raises(InputError, match=r"target\[1\] must be a finite grade of at least 0 or ignore_index=7"):
        metric.update([0.5, 0.25], [1.0, bad], [0, 0])


def test_ignored_documents_may_hold_anything_and_are_counted() -> None:
    metric = retrieval.RetrievalMAP(ignore_index=-100)
    metric.update([*PREDS.tolist(), NAN], [*TARGET.tolist(), -100], [*INDEXES.tolist(), 5])
    result = metric.result()
    assert result.values["RetrievalMAP"] == 0.75
    assert result.counts == {
        "queries": 2, "documents": 4, "queries_without_relevant": 0, "ignored": 1, "unjudged": 0,
    }  # fmt: skip


@pytest.mark.parametrize("seed", seeds(3))
def test_no_order_or_split_of_documents_changes_a_bit(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(rng.random(), rng.randrange(3), rng.randrange(9)) for _ in range(80)]
    kinds = (retrieval.RetrievalNormalizedDCG, retrieval.RetrievalExpectedReciprocalRank)
    whole = {kind: kind() for kind in kinds}
    for metric in whole.values():
        metric.update(*map(list, zip(*rows)))
    rng.shuffle(rows)
    cuts = sorted({0, 80, *(rng.randrange(80) for _ in range(5))})
    for kind, expected in whole.items():
        parts = [kind() for _ in cuts[1:]]
        for metric, low, high in zip(parts, cuts, cuts[1:]):
            metric.update(*map(list, zip(*rows[low:high])))
        for part in parts[1:]:
            parts[0].merge_state(part.to_bytes())
        assert torch.equal(parts[0].compute(), expected.compute())
        assert parts[0].result().provenance["ground_truth"] == expected.result().provenance["ground_truth"]


def test_metrics_of_a_collection_share_one_state_and_one_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    plain = ranking._ranked

    def counted(*given: Any) -> Any:
        calls.append(given)
        return plain(*given)

    monkeypatch.setattr(ranking, "_ranked", counted)
    metrics = MetricCollection(
        [retrieval.RetrievalMAP(), retrieval.RetrievalMRR(top_k=1), retrieval.RetrievalPrecision(top_k=1)]
    )
    metrics.update(PREDS, TARGET, indexes=INDEXES)
    assert len(metrics.compute_groups) == 1
    found = {name: float(value) for name, value in metrics.compute().items()}
    assert found == {"RetrievalMAP": 0.75, "RetrievalMRR": 0.5, "RetrievalPrecision": 0.5}
    assert len(calls) == 1
    metrics.update(PREDS, 1 - TARGET, indexes=INDEXES + 2)
    metrics.compute()
    assert len(calls) == 2 and ranking._kept.last is not None
    metrics.reset()
    assert ranking._kept.last is None


def test_metrics_of_other_targets_share_no_state() -> None:
    metrics = MetricCollection([retrieval.RetrievalMAP(), retrieval.RetrievalNormalizedDCG()])
    metrics.update(PREDS, TARGET, INDEXES)
    assert len(metrics.compute_groups) == 2
    shared = MetricCollection([retrieval.RetrievalMAP(relevance_level=2), retrieval.RetrievalNormalizedDCG()])
    shared.update(PREDS, 2 * TARGET, INDEXES)
    assert len(shared.compute_groups) == 1


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            Documents(INDEXES, PREDS.double()[:3], TARGET.double()),
            "state field preds must have 4 rows, as indexes says",
        ),
        (Documents(INDEXES, PREDS.double(), TARGET.double()[:1]), "state field target must have 4 rows"),
        (Documents(INDEXES, PREDS.double(), TARGET.double() + 1), r"state field target\[0\] must be 0 or 1 but is 2"),
        (Documents(INDEXES, PREDS.double(), TARGET.double() * NAN), r"state field target\[0\] must be 0 or 1"),
        (Documents(INDEXES, PREDS.double() * NAN, TARGET.double()), r"state field preds\[0\] must not be NaN"),
    ],
)
def test_damaged_states_are_refused(state: Documents, message: str) -> None:
    metric = retrieval.RetrievalMAP()
    with pytest.raises(InputError, match=message):
        metric.merge_state({**metric.metric_state, **{name: [part] for name, part in state.tensors().items()}})


def test_marks_of_a_state_need_their_choices() -> None:
    marked = torch.tensor([1.0, -1.0, NAN, 0.0], dtype=torch.float64)
    state = Documents(INDEXES, PREDS.double(), marked)
    for unjudged in (6, None):
        metric = retrieval.RetrievalMAP(ignore_index=5, unjudged_index=unjudged)
        given = {**metric.metric_state, **{name: [part] for name, part in state.tensors().items()}}
        if unjudged is not None:
            metric.merge_state(given)
            assert metric.result().counts["ignored"] == metric.result().counts["unjudged"] == 1
        else:
            with pytest.raises(InputError, match=r"state field target\[1\] must be 0 or 1 or ignore_index=5 but is -1"):
                metric.merge_state(given)
