"""Choices and batches of the contract table for the metrics of texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from valor_gpu import text
from valor_gpu.metric import Metric

_WORDS = ("the", "cats", "sat", "a", "mat", "Mat", "cat")
TEXT_CHOICES: dict[str, tuple[dict[str, Any], Callable[..., Metric[Any]]]] = {
    "ROUGE": ({}, partial(text.ROUGE, use_stemmer=True)),
    "GLEU": ({}, partial(text.GLEU, max_ngram=1)),
    "BLEU": (dict(smoothing="floor"), partial(text.BLEU, smoothing="add-k")),
    "CHRF": ({}, partial(text.CHRF, beta=1.0)),
    "BLEUScore": (dict(smooth=True), text.BLEUScore),
    "SacreBLEUScore": (dict(smooth=True), partial(text.SacreBLEUScore, tokenize="char", smooth=True)),
    "CHRFScore": ({}, partial(text.CHRFScore, beta=1.0)),
    "ROUGEScore": ({}, partial(text.ROUGEScore, use_stemmer=True)),
    "TokenF1": ({}, partial(text.TokenF1, normalize=False)),
    "ExactMatch": ({}, partial(text.ExactMatch, normalize=False)),
    "WordErrorRate": ({}, partial(text.WordErrorRate, lowercase=True)),
    "CharErrorRate": ({}, partial(text.CharErrorRate, lowercase=True)),
    "MatchErrorRate": ({}, partial(text.MatchErrorRate, lowercase=True)),
    "WordInfoLost": ({}, partial(text.WordInfoLost, lowercase=True)),
    "WordInfoPreserved": ({}, partial(text.WordInfoPreserved, lowercase=True)),
    "TranslationEditRate": ({}, partial(text.TranslationEditRate, lowercase=False)),
    "ExtendedEditDistance": ({}, partial(text.ExtendedEditDistance, rho=0.0)),
    "EditDistance": ({}, partial(text.EditDistance, substitution_cost=2)),
    "SQuAD": ({}, partial(text.SQuAD, normalize=False)),
}
"""Arguments of each metric of texts, and the same class in another configuration."""


def text_batch(seed: int, size: int = 6) -> tuple[list[str], list[str]]:
    """Short texts, half of them changed, and the right ones."""
    rng = np.random.default_rng([seed, 11])
    texts = [" ".join(rng.choice(_WORDS, rng.integers(1, 5)).tolist()) for _ in range(2 * size)]
    target = texts[size:]
    return [f"The {meant}" if i % 2 else said for i, (said, meant) in enumerate(zip(texts, target))], target
