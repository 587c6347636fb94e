"""Rows of the contract table for the metrics of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from valor_gpu.text import BERTScore, Perplexity


def tokens_batch(seed: int, size: int = 3) -> tuple[Tensor, Tensor]:
    """Logits of four tokens of nine, and the right ones."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((size, 4, 9), generator=generator), torch.randint(9, (size, 4), generator=generator)


def _bad_tokens() -> tuple[Tensor, Tensor]:
    preds, target = tokens_batch(3)
    return preds.index_fill(1, torch.tensor([2]), math.nan), target


def vectors_batch(seed: int, size: int = 4) -> tuple[list[Tensor], list[Tensor]]:
    """Embeddings of the tokens of texts, one to five of each."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 6, (2 * size,), generator=generator).tolist()
    texts = [torch.randn((tokens, 8), generator=generator) for tokens in sizes]
    return texts[:size], texts[size:]


def _bad_vectors() -> tuple[list[Tensor], list[Tensor]]:
    preds, target = vectors_batch(3)
    return preds, [*target[:-1], torch.zeros(2, 8)]


def token_rows() -> Iterator[dict[str, Any]]:
    """Keywords of a case; its name is not that of the class, since the tests of texts take all such cases."""
    yield {
        "name": "Perplexity-tokens",
        "make": Perplexity,
        "other": partial(Perplexity, ignore_index=1),
        "batch": tokens_batch,
        "empty": partial(tokens_batch, 0, 0),
        "single": partial(tokens_batch, 7, 1),
        "bad": _bad_tokens,
    }
    yield {
        "name": "BERTScore-tokens",
        "make": BERTScore,
        "other": partial(BERTScore, baseline=(0.1, 0.2, 0.3)),
        "batch": vectors_batch,
        "empty": partial(vectors_batch, 0, 0),
        "single": partial(vectors_batch, 7, 1),
        "bad": _bad_vectors,
        "order_free": False,
    }
