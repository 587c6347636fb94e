"""Rows of the contract table for the metrics of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.metric import Metric
from valor_gpu.text import BERTScore, InfoLM, MaskedModel, Perplexity


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


_WORDS = ("[UNK]", "[MASK]", "cat", "dog", "far", "away")


class _Words:
    """A tokenizer of six words."""

    mask_token_id, pad_token_id, sep_token_id, cls_token_id = 1, None, None, None

    def __call__(self, texts: list[str], truncation: bool, max_length: int) -> dict[str, list[list[int]]]:
        return {"input_ids": [[_WORDS.index(word) for word in text.split()][:max_length] for text in texts]}


class _Model(torch.nn.Module):
    """A masked model that expects words by the sum of the embeddings around them."""

    config = SimpleNamespace(vocab_size=len(_WORDS), max_length=8)

    def __init__(self) -> None:
        super().__init__()
        table = torch.randn((len(_WORDS), len(_WORDS)), generator=torch.Generator().manual_seed(0))
        self.table = torch.nn.Parameter(table)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        around = (self.table[input_ids] * attention_mask[..., None]).sum(1, keepdim=True)
        return SimpleNamespace(logits=around - self.table[input_ids])


def language_metric(**choices: Any) -> Metric[Any]:
    """InfoLM over a model of six words."""
    return InfoLM(MaskedModel(_Model(), _Words()), **choices)


def sentences_batch(seed: int, size: int = 4) -> tuple[list[str], list[str]]:
    """Texts of one to four words."""
    rng = np.random.default_rng([seed, 3])
    found = [" ".join(rng.choice(_WORDS[2:], rng.integers(1, 5)).tolist()) for _ in range(2 * size)]
    return found[:size], found[size:]


def _bad_sentences() -> tuple[list[str], list[str]]:
    preds, target = sentences_batch(3)
    return preds, target[:-1]


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
    yield {
        "name": "InfoLM-tokens",
        "make": language_metric,
        "other": partial(language_metric, idf=False),
        "batch": sentences_batch,
        "empty": partial(sentences_batch, 0, 0),
        "single": partial(sentences_batch, 7, 1),
        "bad": _bad_sentences,
    }
