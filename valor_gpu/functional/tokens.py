"""Metrics of one batch of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.functional.once import alone, chosen_pair
from valor_gpu.text.bert_score import BERTScore, Encoder, IdfWeights
from valor_gpu.text.perplexity import perplexity_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor


def perplexity(
    preds: ArrayLike | Tensor | None = None,
    target: ArrayLike | Tensor | None = None,
    ignore_index: int | None = None,
    *,
    y_true: ArrayLike | Tensor | None = None,
    y_pred: ArrayLike | Tensor | None = None,
) -> Tensor:
    """Returns what ``Perplexity`` computes of one batch; see :mod:`valor_gpu.functional`."""
    return perplexity_of(*chosen_pair((preds, target, y_true, y_pred)), ignore_index)


def bert_score(
    preds: Sequence[Any],
    target: Sequence[Any],
    encoder: Encoder | None = None,
    idf: IdfWeights | None = None,
    baseline: Sequence[float] | None = None,
) -> dict[str, Tensor]:
    """Returns what ``BERTScore`` computes of one batch; see :class:`valor_gpu.text.BERTScore`."""
    metric: BERTScore = alone(BERTScore(encoder, idf, baseline))
    metric.update(preds, target)
    return metric.compute()
