"""Rows of the contract table for the metrics of retrieval."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from valor_gpu import retrieval

_GRADED = ("RetrievalNormalizedDCG", "RetrievalExpectedReciprocalRank", "RetrievalHoles", "RetrievalJudged")
_OWN: dict[str, dict[str, Any]] = {
    "RetrievalRecallAtFixedPrecision": dict(min_precision=0.3),
    "RetrievalNormalizedDCG": dict(top_k=3),
    "RetrievalPrecision": dict(top_k=2, score_above=None),
    "RetrievalFallOut": dict(top_k=2, empty_target_action="neg"),
    "RetrievalHitRate": dict(top_k=1),
    "RetrievalRecall": dict(top_k=2),
    "RetrievalHoles": dict(unjudged_index=0, top_k=3),
    "RetrievalJudged": dict(unjudged_index=0, top_k=3),
}
"""Arguments of each metric."""
_OTHER: dict[str, dict[str, Any]] = {
    "RetrievalHoles": dict(unjudged_index=0, ignore_index=2),
    "RetrievalJudged": dict(unjudged_index=0, ignore_index=2),
    "RetrievalFallOut": dict(ignore_index=1),
}
"""Arguments that make another state; of other metrics ``ignore_index=0``."""


def documents_batch(seed: int, size: int = 24, graded: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of documents, all different, with grades, and their queries, which other batches share."""
    generator = torch.Generator().manual_seed(seed)
    preds = torch.randperm(1 << 16, generator=generator)[:size] / 2.0**16 + seed / 2.0**22 + 2.0**-20
    target = torch.randint(4, (size,), generator=generator)
    target[:1] = 2
    indexes = torch.randint(5, (size,), generator=generator)
    return preds, target if graded else (target > 1).long(), indexes


def bad_documents(graded: bool) -> tuple[Tensor, Tensor, Tensor]:
    """A batch with a score that is NaN."""
    preds, target, indexes = documents_batch(3, graded=graded)
    return preds.index_fill(0, torch.tensor([2]), math.nan), target, indexes


def document_rows() -> list[dict[str, Any]]:
    """The fields of a case of the contract, for every metric."""
    rows = []
    for name in (name for name in retrieval.__all__ if name.startswith("Retrieval")):
        kind, choices = getattr(retrieval, name), _OWN.get(name, {})
        batch = partial(documents_batch, graded=name in _GRADED)
        rows.append(
            dict(
                name=name,
                make=partial(kind, **choices),
                other=partial(kind, **{**choices, **_OTHER.get(name, dict(ignore_index=0))}),
                batch=batch,
                empty=partial(batch, 0, 0),
                single=partial(batch, 7, 1),
                bad=partial(bad_documents, name in _GRADED),
            )
        )
    return rows
