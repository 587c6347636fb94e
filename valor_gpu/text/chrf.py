"""chrF: F-score of shared character n-grams. No torch."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._lazy import names_of_package
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_int, check_number
from valor_gpu.errors import InputError
from valor_gpu.text.match_counts import ngram_matches
from valor_gpu.text.tokens import MOST_WORDS, Ints, first_best, texts_of, tokenize_rows

__getattr__ = names_of_package(__name__)

Floats = NDArray[np.float64]
_MOST_BETA = 1e6  # there the score is the recall to 12 digits
_EMPTY_PRECISION = 1e-16  # sacreBLEU's value of a precision 0 / 0


class ChrfCounts(NamedTuple):
    """n-grams of prediction, reference and both, int64 ``[rows, orders]``; sums over rows are for a corpus."""

    predicted: Ints
    reference: Ints
    matches: Ints


def check_chrf_choices(char_order: int, word_order: int, beta: float, prefix: str = "") -> None:
    """Raises :class:`InputError` unless there is an order of n-grams, and ``beta`` is a finite number of at least 0.

    ``prefix`` begins the caller's names of both orders.
    """
    for name, order in ((f"{prefix}char_order", char_order), (f"{prefix}word_order", word_order)):
        check_int(name, order)
        check_number(name, order, 0, MOST_WORDS)
    if not char_order + word_order:
        names = f"{prefix}char_order and {prefix}word_order"
        raise InputError(f"{names} must name one n-gram but are {char_order} and {word_order}")
    check_number("beta", beta, 0, _MOST_BETA)


def chrf_counts(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    char_order: int = 6,
    word_order: int = 0,
    beta: float = 2.0,
    lowercase: bool = False,
    whitespace: bool = False,
) -> ChrfCounts:
    """Counts n-grams of every row against its best reference; arguments as :func:`chrf_scores` explains them."""
    check_chrf_choices(char_order, word_order, beta)
    texts, rows = texts_of(predictions, references, lowercase)
    parts = []
    for max_ngram, tokenizer in ((char_order, "characters" if whitespace else "nonspace"), (word_order, _words)):
        if max_ngram:
            counted = tokenize_rows(texts, rows, tokenizer)  # type: ignore[arg-type]
            sizes = np.arange(max_ngram)
            predicted, reference = (
                np.maximum(n[:, None] - sizes, 0) for n in (counted.prediction_lengths, counted.reference_lengths)
            )
            parts.append((predicted, reference, ngram_matches(counted, max_ngram).matches))
    predicted, reference, matches = (np.concatenate(columns, axis=1) for columns in zip(*parts))
    several = np.diff(rows) - 1
    predicted = np.where(reference > 0, np.repeat(predicted, several, axis=0), 0)  # sacreBLEU's rule
    best = first_best(chrf_value(ChrfCounts(predicted, reference, matches), beta), several)
    return ChrfCounts(predicted[best], reference[best], matches[best])


def chrf_value(counts: ChrfCounts, beta: float = 2.0) -> Floats:
    """float64 ``[rows]``: chrF of statistics, in [0, 1]; 0 where no order of n-grams is in both texts."""
    predicted, reference, matches = (np.asarray(x, np.float64) for x in counts)
    both = (predicted > 0) & (reference > 0)
    orders = np.maximum(both.sum(-1), 1)
    precision, recall = (
        np.where(both, np.divide(matches, n, out=np.full_like(n, _EMPTY_PRECISION), where=n > 0), 0.0).sum(-1) / orders
        for n in (predicted, reference)
    )
    below = beta**2 * precision + recall
    value: Floats = np.divide((1 + beta**2) * precision * recall, below, out=np.zeros_like(below), where=below > 0)
    return value


@arguments_of(texts_of)
def chrf_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    char_order: int = 6,
    word_order: int = 0,
    beta: float = 2.0,
    lowercase: bool = False,
    whitespace: bool = False,
) -> Floats:
    """Computes chrF of every row in [0, 1], float64 ``[rows]``; sacreBLEU's sentence score is 100 times as much.

    The F-score, with recall ``beta`` times as important, of the mean precision and mean recall over n-grams of 1 to
    ``char_order`` characters (white space left out unless ``whitespace``) and 1 to ``word_order`` words (chrF++ has 2).
    The first of the best references counts. For a corpus sum :func:`chrf_counts` over rows and read :func:`chrf_value`.

    Source: M. Popovic, "chrF: character n-gram F-score for automatic MT evaluation" (2015).

    Args:
        char_order: the longest character n-gram.
        word_order: the longest word n-gram, 0 for none (chrF++ has 2).
        beta: weight of recall against precision.
        whitespace: count white space as characters.

    Raises:
        InputError: rows that are no texts, or no n-gram at all.

    Example:
        >>> chrf_scores(["the cat sat"], ["the cat sits"]).round(4)
        array([0.6103])
    """
    return chrf_value(chrf_counts(predictions, references, char_order, word_order, beta, lowercase, whitespace), beta)


def _words(text: str) -> list[str]:
    """Words at white space, a sign at their end or else at their beginning set apart."""
    words: list[str] = []
    for word in text.split():
        if len(word) > 1 and word[-1] in string.punctuation:
            words += (word[:-1], word[-1])
        elif len(word) > 1 and word[0] in string.punctuation:
            words += (word[0], word[1:])
        else:
            words.append(word)
    return words
