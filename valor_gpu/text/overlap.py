"""Agreement of answers: shared words, equality, edit distance and error rates. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.argument_docs import arguments_of
from valor_gpu.text.match_counts import common_lengths, edit_distances, ngram_matches
from valor_gpu.text.tokens import Ints, TokenizedRows, Tokenizer, first_best, plain_answer, texts_of, tokenize_rows

Floats = NDArray[np.float64]


class TokenScores(NamedTuple):
    """Shared words, float64 ``[rows]`` each, in [0, 1]."""

    precision: Floats
    recall: Floats
    f1: Floats


@arguments_of(texts_of)
def token_f1(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    normalize: Callable[[str], str] | None = plain_answer,
) -> TokenScores:
    """Computes precision, recall and F1 of shared words, each counted as often as both texts have it.

    Two texts without any word agree: 1. The first of the best references by F1 counts.

    Source: Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text" (2016).

    Args:
        normalize: applied to every text before it is split at white space; None for nothing.

    Raises:
        InputError: rows that are no texts.

    Example:
        >>> token_f1(["the red cat"], [["a cat", "a dog"]]).f1.round(3)
        array([0.667])
    """
    texts, firsts = texts_of(predictions, references)
    if normalize is plain_answer:
        return shared_words(tokenize_rows(texts, firsts, "plain"))
    return shared_words(tokenize_rows(list(map(normalize, texts)) if normalize else texts, firsts, "whitespace"))


def shared_words(rows: TokenizedRows, empty: float = 1.0) -> TokenScores:
    """Precision, recall and F1 of the words that rows share; see :func:`token_f1`.

    Args:
        rows: texts as words.
        empty: the scores of two texts without any word.
    """
    shared = ngram_matches(rows, 1).matches[:, 0]
    predicted, reference = rows.paired_lengths, rows.reference_lengths
    same = (predicted == 0) & (reference == 0)
    precision, recall = (np.where(same, empty, shared / np.maximum(n, 1)) for n in (predicted, reference))
    f1 = np.where(same, empty, 2 * shared / np.maximum(predicted + reference, 1))
    best = first_best(f1, rows.reference_counts)
    return TokenScores(precision[best], recall[best], f1[best])


@arguments_of(texts_of)
def exact_match(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    normalize: Callable[[str], str] | None = plain_answer,
) -> Floats:
    """Returns float64 ``[rows]``: 1 where the prediction equals a reference, after ``normalize``, else 0.

    Args:
        normalize: applied to every text before they are compared; None for nothing.

    Raises:
        InputError: rows that are no texts.

    Example:
        >>> exact_match(["The cat.", "dog"], ["cat", ["a cat", "dogs"]])
        array([1., 0.])
    """
    texts, rows = texts_of(predictions, references)
    if normalize is plain_answer:
        return same_words(tokenize_rows(texts, rows, "plain"))
    plain = texts if normalize is None else [normalize(text) for text in texts]
    ends = rows.tolist()
    return np.array([float(plain[a] in plain[a + 1 : b]) for a, b in pairwise(ends)])


def same_words(rows: TokenizedRows) -> Floats:
    """float64 ``[rows]``: 1 where the prediction has the words of a reference, in their order, else 0."""
    same, ids = np.zeros(len(rows)), rows.ids
    starts, lengths, firsts = rows.starts.tolist(), rows.lengths.tolist(), rows.row_starts.tolist()
    for row, (said, end) in enumerate(pairwise(firsts)):
        size = lengths[said]
        if size not in lengths[said + 1 : end]:  # most rows of most data
            continue
        words = ids[starts[said] : starts[said] + size].tobytes()
        alike = (starts[text] for text in range(said + 1, end) if lengths[text] == size)
        same[row] = any(words == ids[start : start + size].tobytes() for start in alike)
    return same


class EditCounts(NamedTuple):
    """Edits and length of the nearest reference, int64 ``[rows]`` each; sums over rows are the counts of a corpus."""

    edits: Ints
    reference_lengths: Ints

    @property
    def rate(self) -> Floats:
        """Edits by the length of the reference: 0 of none by nothing, NaN of some by nothing."""
        edits, reference = np.asarray(self.edits, np.float64), np.asarray(self.reference_lengths, np.float64)
        nothing = np.where(edits == 0, 0.0, np.nan)
        return np.where(reference > 0, edits / np.maximum(reference, 1), nothing)


@arguments_of(texts_of)
def edit_counts(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    tokenizer: str | Tokenizer = "whitespace",
    lowercase: bool = False,
) -> EditCounts:
    """Counts edits (insertions, deletions, replacements) of every row, from the reference that needs the fewest.

    ``tokenizer="whitespace"`` counts words, so that ``rate`` is the word error rate; ``"characters"`` counts code
    points, so that it is the character error rate and ``edits`` the Levenshtein distance. A rate may exceed 1. The rate
    of a corpus divides the sums: ``counts.edits.sum() / counts.reference_lengths.sum()``.

    Source: V. Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals" (1966).

    Args:
        tokenizer: ``whitespace``, ``characters``, ``nonspace`` (characters without white space), ``valor`` or
            ``alphanumeric`` (runs of a-z and 0-9), or a function from a text to its tokens.

    Raises:
        InputError: rows that are no texts.

    Example:
        >>> edit_counts(["the cat sat"], ["the cat sat down"]).rate
        array([0.25])
        >>> edit_counts(["kitten"], ["sitting"], "characters").edits
        array([3])
    """
    return nearest_references(tokenize_rows(*texts_of(predictions, references, lowercase), tokenizer))


def nearest_references(rows: TokenizedRows) -> EditCounts:
    """Edits and length of the reference of every row that needs the fewest edits, the first of equal ones."""
    edits = edit_distances(rows)
    best = first_best(-edits.astype(np.float64), rows.reference_counts)
    return EditCounts(edits[best], rows.reference_lengths[best])


@arguments_of(texts_of)
def weighted_distances(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], substitution_cost: int = 1
) -> Ints:
    """int64 ``[rows]``: least cost to turn the characters of the prediction into those of the nearest reference.

    An insertion and a deletion cost 1 each. A replacement that costs 2 or more is never cheaper than one of each, which
    leaves the longest common subsequence; one that costs nothing leaves the difference of the lengths.

    Args:
        substitution_cost: of a replacement, a whole number of at least 0.

    Raises:
        InputError: rows that are no texts.

    Example:
        >>> weighted_distances(["rain", "rain"], ["shine", ["shine", "brain"]], 2)
        array([5, 1])
    """
    rows = tokenize_rows(*texts_of(predictions, references), "characters")
    if substitution_cost == 1:
        return nearest_references(rows).edits
    predicted, reference = rows.paired_lengths, rows.reference_lengths
    costs = predicted + reference - 2 * common_lengths(rows) if substitution_cost else np.abs(predicted - reference)
    return costs[first_best(-costs.astype(np.float64), rows.reference_counts)]
