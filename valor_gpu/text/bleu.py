"""BLEU of sentences (as NLTK and Valor compute it) and of corpora (as sacreBLEU does), and GLEU. No torch."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._lazy import names_of_package
from valor_gpu._version import __version__
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.text.match_counts import ngram_matches
from valor_gpu.text.mteval import corpus_tokenizer
from valor_gpu.text.tokens import (
    MOST_WORDS,
    Ints,
    TokenizedRows,
    Tokenizer,
    as_list,
    check_size,
    first_best,
    texts_of,
    tokenize_rows,
)

__getattr__ = names_of_package(__name__)

Floats = NDArray[np.float64]
SMOOTHING = ("none", "exp", "floor", "add-k")
_SMOOTHING_VALUES = {"floor": 0.1, "add-k": 1.0}  # sacreBLEU's values
_MIN_BLEU = 1e-9  # Valor calls a BLEU below this 0


class BleuCounts(NamedTuple):
    """What BLEU is made of; sums over rows are the counts of a corpus.

    Attributes:
        matches: int64 ``[rows, N]`` clipped n-gram matches.
        totals: int64 ``[rows, N]`` n-grams of the predictions.
        prediction_lengths: int64 ``[rows]``, words of the predictions.
        reference_lengths: int64 ``[rows]`` words of the reference whose length is nearest, the shorter of two.
    """

    matches: Ints
    totals: Ints
    prediction_lengths: Ints
    reference_lengths: Ints


@arguments_of(texts_of)
def bleu_counts(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    max_ngram: int = 4,
    tokenizer: str | Tokenizer = "valor",
    lowercase: bool = False,
) -> BleuCounts:
    """Counts matching n-grams of 1 to ``max_ngram`` words for every row.

    Args:
        max_ngram: N, the longest n-gram that counts, at least 1.
        tokenizer: ``valor``, ``whitespace``, ``alphanumeric`` (runs of a-z and 0-9), ``characters``, ``nonspace`` or
            ``unicode`` (words of any script), or a function from a text to its words.

    Raises:
        InputError: rows that are no texts.
    """
    return counts_of(tokenize_rows(*texts_of(predictions, references, lowercase), tokenizer), max_ngram)


def counts_of(rows: TokenizedRows, max_ngram: int) -> BleuCounts:
    """Statistics of rows of words; see :func:`bleu_counts`."""
    predicted = rows.prediction_lengths
    totals = np.maximum(predicted[:, None] - np.arange(max_ngram), 0)
    return BleuCounts(ngram_matches(rows, max_ngram).clipped, totals, predicted, _nearest_lengths(rows))


def _nearest_lengths(rows: TokenizedRows) -> Ints:
    lengths, references = rows.reference_lengths, rows.reference_counts
    apart = np.abs(lengths - rows.paired_lengths)
    # nearness first, then shortness: both in one number that first_best can compare
    return lengths[first_best(-(apart * (lengths.max(initial=0) + 1.0) + lengths), references)]


@arguments_of(bleu_counts)
def sentence_bleu(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    weights: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
    tokenizer: str | Tokenizer = "valor",
) -> Floats:
    """Computes BLEU of every row in [0, 1], float64 ``[rows]``, as ``nltk.translate.bleu_score`` without smoothing.

    A precision without any match counts as the smallest normal float64, and a result below 1e-9 as 0, so that a short
    text without a common 4-gram has 0 (Valor's rule; NLTK gives numbers like 1e-155).

    Source: Papineni et al., "BLEU: a method for automatic evaluation of machine translation" (2002).

    Args:
        weights: of the precisions of n = 1, 2, ...; not negative, and their sum is 1.

    Raises:
        InputError: rows that are no texts, or weights that are no weights.

    Example:
        >>> sentence_bleu(["the cat sat on the mat"], [["the cat sat on the mat and slept all day"]]).round(4)
        array([0.5134])
    """
    check_weights(weights, len(weights))
    return bleu_of(bleu_counts(predictions, references, len(weights), tokenizer), weights)


def check_weights(weights: Sequence[float] | None, max_ngram: int) -> None:
    """Raises :class:`InputError` unless weights are None or ``max_ngram`` numbers of at least 0 with the sum 1."""
    if weights is None:
        return
    if not weights or min(weights) < 0 or not math.isclose(sum(weights), 1.0, abs_tol=1e-9):
        raise InputError(f"weights must be numbers that are not negative and sum to 1 but got {list(weights)}")
    if len(weights) != max_ngram:
        raise InputError(f"weights must be max_ngram = {max_ngram} numbers but got {list(weights)}")


def bleu_of(counts: BleuCounts, weights: Sequence[float]) -> Floats:
    """BLEU of each row of statistics; see :func:`sentence_bleu`."""
    precisions = counts.matches / np.maximum(counts.totals, 1)
    logs = np.log(np.where(counts.matches > 0, precisions, sys.float_info.min))
    value = _brevity(counts.prediction_lengths, counts.reference_lengths) * np.exp(
        logs @ np.asarray(weights, np.float64)
    )
    return np.where((counts.matches[:, 0] > 0) & (value >= _MIN_BLEU), value, 0.0)


def smoothed_bleu_of(counts: BleuCounts, weights: Sequence[float] = (0.25, 0.25, 0.25, 0.25)) -> Floats:
    """BLEU of each row by smoothing method 4, float64 ``[rows]``, as NLTK computes it.

    The k-th precision without a match counts ln(L) / (5 * 2^k) matches in a prediction of L > 1 words; a precision that
    stays 0 is left out; the value is 0 where no word matches.

    Source: B. Chen and C. Cherry, "A systematic comparison of smoothing techniques for sentence-level BLEU" (2014).
    """
    none, lengths = counts.matches == 0, counts.prediction_lengths[:, None]
    smoothed = np.log(np.maximum(lengths, 1)) / (5.0 * 2.0 ** np.cumsum(none, axis=1))
    precisions = np.where(none, smoothed, counts.matches) / np.maximum(counts.totals, 1)
    logs = np.log(precisions, out=np.zeros_like(precisions), where=precisions > 0)
    value = _brevity(counts.prediction_lengths, counts.reference_lengths) * np.exp(
        logs @ np.asarray(weights, np.float64)
    )
    return np.where(none[:, 0], 0.0, value)


def _brevity(predicted: Ints | np.int64, reference: Ints | np.int64) -> Floats:
    """The brevity penalty: 1 for predictions longer than their reference, 0 for empty ones."""
    size = np.maximum(predicted, 1)
    return np.where(predicted == 0, 0.0, np.exp(np.minimum(0.0, 1.0 - reference / size)))


@dataclass(frozen=True)
class CorpusBleu:
    """BLEU of a corpus.

    Attributes:
        value: in [0, 1]; sacreBLEU's score is 100 times as much.
        precisions: smoothed, of n = 1 to N.
        brevity_penalty: in [0, 1].
        prediction_length: words of all predictions.
        reference_length: words of the nearest references.
        signature: the choices that made the number, in sacreBLEU's words.
    """

    value: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    prediction_length: int
    reference_length: int
    signature: str


@arguments_of(bleu_counts)
def corpus_bleu(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenizer: str | Tokenizer = "13a",
    smoothing: str = "exp",
    smoothing_value: float | None = None,
    lowercase: bool = False,
    effective_order: bool = False,
    max_ngram: int = 4,
    weights: Sequence[float] | None = None,
) -> CorpusBleu:
    """Computes BLEU of all rows together: their counts are summed before anything is divided, as in sacreBLEU.

    Source: M. Post, "A call for clarity in reporting BLEU scores" (2018).

    Args:
        tokenizer: of sacreBLEU ``13a`` (mteval-v13a, its default), ``intl`` (mteval-v14), ``zh`` (Chinese characters
            one by one), ``char`` (all characters) or ``none`` (at white space); ``valor``, ``whitespace``,
            ``alphanumeric``, ``characters`` or ``nonspace``; or a function from a text to its words.
        smoothing: of precisions without a match: ``exp`` halves once more for each, ``floor`` puts ``smoothing_value``
            in place of the count, ``add-k`` adds it to all counts from n = 2 on, ``none`` leaves them 0.
        smoothing_value: for ``floor`` (default 0.1) and ``add-k`` (default 1).
        effective_order: leave out sizes of n-grams that the predictions do not have: for single sentences.
        weights: of the precisions of n = 1 to N, not negative, with the sum 1; default: equal ones. A size of weight 0
            does not count.

    Raises:
        InputError: rows that are no texts, no row at all, an unknown smoothing, or weights that are no weights.

    Example:
        >>> corpus_bleu(["the cat sat on the mat"], ["the cat sat on a mat"]).signature
        'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:valor_gpu 0.2.0'
    """
    check_choice("smoothing", smoothing, SMOOTHING)
    check_size("max_ngram", max_ngram, MOST_WORDS)
    check_weights(weights, max_ngram)
    predictions, references = as_list(predictions), as_list(references)
    if isinstance(predictions, Sequence) and not predictions:
        raise InputError("predictions must have at least one row")
    name = tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "__name__", "custom")
    split = corpus_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    counts = bleu_counts(predictions, references, max_ngram, split, lowercase)
    value, precisions, penalty = corpus_value(counts, smoothing, smoothing_value, effective_order, weights)
    given = _SMOOTHING_VALUES.get(smoothing, 0.0) if smoothing_value is None else smoothing_value
    sizes = {1 if isinstance(row, str) else len(as_list(row)) for row in references}
    several = str(sizes.pop()) if len(sizes) == 1 else "var"
    words = (f"nrefs:{several}", f"case:{'lc' if lowercase else 'mixed'}", f"eff:{'yes' if effective_order else 'no'}",
             f"tok:{name}", f"smooth:{smoothing}{f'[{given:.2f}]' if given else ''}",
             f"version:valor_gpu {__version__}")  # fmt: skip
    prediction_length, reference_length = int(counts.prediction_lengths.sum()), int(counts.reference_lengths.sum())
    return CorpusBleu(value, precisions, penalty, prediction_length, reference_length, "|".join(words))


def corpus_value(
    counts: BleuCounts,
    smoothing: str = "exp",
    smoothing_value: float | None = None,
    effective_order: bool = False,
    weights: Sequence[float] | None = None,
) -> tuple[float, tuple[float, ...], float]:
    """BLEU, smoothed precisions and brevity penalty of the sums of ``counts``; see :func:`corpus_bleu`."""
    matches, totals, predicted, reference = (part.sum(0).tolist() for part in counts)
    return value_of_sums(matches, totals, predicted, reference, smoothing, smoothing_value, effective_order, weights)


def value_of_sums(
    matches: Sequence[int],
    totals: Sequence[int],
    predicted: int,
    reference: int,
    smoothing: str,
    smoothing_value: float | None,
    effective_order: bool,
    weights: Sequence[float] | None = None,
) -> tuple[float, tuple[float, ...], float]:
    """As :func:`corpus_value`, of matches and n-grams by size, and of words of the predictions and references."""
    given = _SMOOTHING_VALUES.get(smoothing, 0.0) if smoothing_value is None else smoothing_value
    precisions, order = _smoothed(matches, totals, smoothing, given)
    penalty = math.exp(min(0.0, 1.0 - reference / predicted)) if predicted else 0.0
    used = precisions[:order] if effective_order else precisions
    counted = [(p, w) for p, w in zip(used, weights or [1.0] * len(used)) if w]
    exists = any(matches) and min((p for p, _ in counted), default=0) > 0
    mean = sum(w * math.log(p) for p, w in counted) / sum(w for _, w in counted) if exists else 0.0
    value = penalty * math.exp(mean) if exists else 0.0
    return value, tuple(precisions), penalty


def _smoothed(matches: Sequence[int], totals: Sequence[int], smoothing: str, value: float) -> tuple[list[float], int]:
    """Precisions by n, 0 from the first size on that the predictions do not have, and how many sizes they have."""
    precisions = [0.0] * len(totals)
    missing = order = 0
    for n, (match, total) in enumerate(zip(matches, totals)):
        shift = value if smoothing == "add-k" and n else 0
        if total + shift == 0:
            break
        order = n + 1
        if match + shift:
            precisions[n] = (match + shift) / (total + shift)
        elif smoothing == "exp":
            missing += 1
            precisions[n] = 1 / (2**missing * total)
        elif smoothing == "floor":
            precisions[n] = value / total
    return precisions, max(order, 1)


@arguments_of(bleu_counts)
def gleu_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenizer: str | Tokenizer = "whitespace",
    max_ngram: int = 4,
) -> Floats:
    """Computes Google-BLEU of every row in [0, 1], float64 ``[rows]``, as NLTK's ``sentence_gleu``.

    Shared n-grams of 1 to ``max_ngram`` words, divided by the n-grams of the longer of the two texts; the best
    reference counts; 0 where neither text has a word.

    Source: Wu et al., "Google's neural machine translation system" (2016), section 6.

    Raises:
        InputError: rows that are no texts.

    Example:
        >>> gleu_scores(["the cat sat"], [["the cat sat down", "a cat"]])
        array([0.6])
    """
    check_size("max_ngram", max_ngram, MOST_WORDS)
    return gleu_of(tokenize_rows(*texts_of(predictions, references), tokenizer), max_ngram)


def gleu_of(rows: TokenizedRows, max_ngram: int = 4) -> Floats:
    """Google-BLEU of rows of words; see :func:`gleu_scores`."""
    shared = ngram_matches(rows, max_ngram).matches.sum(1)

    def grams(words: Ints) -> Ints:
        counts: Ints = np.maximum(words[:, None] - np.arange(max_ngram), 0).sum(1)
        return counts

    longer = np.maximum(np.repeat(grams(rows.prediction_lengths), rows.reference_counts), grams(rows.reference_lengths))
    value = shared / np.maximum(longer, 1)
    best: Floats = value[first_best(value, rows.reference_counts)]
    return best
