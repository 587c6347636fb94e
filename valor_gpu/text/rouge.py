"""ROUGE: overlap of n-grams and of longest common subsequences with reference summaries. No torch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.text.match_counts import common_lengths, ngram_matches, union_common
from valor_gpu.text.stemmer import stem
from valor_gpu.text.tokens import (
    TOKENIZERS,
    Ints,
    TokenizedRows,
    Tokenizer,
    first_best,
    texts_of,
    tokenize_rows,
    unread_rows,
)

Floats = NDArray[np.float64]
Normalizer = Callable[[str], str]
TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_LENGTHS = ("paired_lengths", "reference_lengths")


class Rouge(NamedTuple):
    """Scores of one kind of ROUGE, float64 ``[rows]`` each, in [0, 1].

    Attributes:
        precision: fraction of the prediction that is in the reference.
        recall: fraction of the reference that is in the prediction.
        fmeasure: harmonic mean of both.
    """

    precision: Floats
    recall: Floats
    fmeasure: Floats


def rouge_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    rouge_types: Sequence[str] = TYPES,
    use_stemmer: bool = False,
    accumulate: str = "best",
    normalizer: Normalizer | None = None,
    tokenizer: str | Tokenizer | None = None,
) -> dict[str, Rouge]:
    """Computes ROUGE of every row, with the numbers of the package rouge_score.

    Words are runs of a-z and 0-9 of the text in lower case; ``tokenizer="unicode"`` reads any script. ``rougeN`` (N
    from 1 to 9) counts shared n-grams, ``rougeL`` the longest common subsequence of the texts, ``rougeLsum`` the same
    over their lines (a line break ends a sentence, a full stop does not). Precision divides by what the prediction has,
    recall by what the reference has, the F-measure is their harmonic mean; where either text has none of them, all
    three are 0. Of several references the first with the best F-measure counts, for each kind on its own.

    Source: C.-Y. Lin, "ROUGE: A package for automatic evaluation of summaries" (2004).

    Args:
        predictions: one text per row.
        references: for each row one text or several.
        rouge_types: of ``rouge1`` to ``rouge9``, ``rougeL``, ``rougeLsum``.
        use_stemmer: compare Porter stems of words longer than three letters.
        accumulate: of several references ``best`` takes the one with the best F-measure, ``avg`` the mean of all.
        normalizer: a function from a text to the text that is split, in place of lower case and a-z and 0-9 alone.
        tokenizer: a function from that text to its words, in place of splitting at white space; or a name, by which
            the text is split as it stands: ``unicode`` (words of any script), ``whitespace``, ``characters`` and the
            others of :data:`valor_gpu.text.tokens.TOKENIZERS`.

    Raises:
        InputError: rows that are no texts, or an unknown kind or tokenizer.
        InputTypeError: ``normalizer`` or ``tokenizer`` is no function.

    Warns:
        UserWarning: the words of a-z and 0-9 leave out most letters of a text, so that its scores mean little.

    Example:
        >>> scores = rouge_scores(["the cat sat"], [["the cat sat on the mat", "a dog"]], ["rouge1", "rougeL"])
        >>> scores["rouge1"].recall, scores["rougeL"].fmeasure.round(3)
        (array([0.5]), array([0.667]))
    """
    kinds = [(kind, rouge_size(kind)) for kind in rouge_types]
    texts, rows = texts_of(predictions, references)
    check_rouge_choices(accumulate, normalizer, tokenizer)
    split: str | Tokenizer = tokenizer if isinstance(tokenizer, str) else "alphanumeric"
    if use_stemmer or normalizer or not (tokenizer is None or isinstance(tokenizer, str)):
        split = partial(_rouge_words, use_stemmer=use_stemmer, normalizer=normalizer, tokenizer=tokenizer)
    counted, choose = tokenize_rows(texts, rows, split), _best_scores if accumulate == "best" else _mean_scores
    if normalizer is None and tokenizer is None:
        _warn_of_unread(texts, counted)
    grams = ngram_matches(counted, max((n for _, n in kinds), default=0))
    found: list[tuple[TokenizedRows, Ints, int]] = []
    for kind, n in kinds:
        if n:
            found.append((counted, grams.matches[:, n - 1], n))
        elif kind == "rougeL":
            found.append((counted, common_lengths(counted), 1))
        else:
            found.append((*summary_common(texts, counted, split), 1))
    if not found:
        return {}
    # All kinds at once: of few rows, calls of NumPy take most of the time.
    predicted, reference = (np.array([getattr(words, side) for words, _, _ in found]) for side in _LENGTHS)
    hits, sizes = np.array([hits for _, hits, _ in found]), np.array([[n] for _, _, n in found])
    scores = _reference_scores(predicted, reference, hits, sizes)
    return {kind: choose(Rouge(*each), counted.reference_counts) for (kind, _), each in zip(kinds, zip(*scores))}


def rouge_size(kind: str) -> int:
    """N of ``rougeN``, 0 for the kinds of common subsequences."""
    check_type("rouge_types", kind, str)
    if kind in ("rougeL", "rougeLsum"):
        return 0
    if len(kind) == 6 and kind.startswith("rouge") and kind[5] in "123456789":
        return int(kind[5])
    raise InputError(f"rouge_types must be of rouge1 to rouge9, rougeL and rougeLsum but got {kind!r}")


def check_rouge_choices(accumulate: str, normalizer: object, tokenizer: object) -> None:
    """Raises :class:`InputError` for a choice that :func:`rouge_scores` does not have."""
    check_choice("accumulate", accumulate, ("best", "avg"))
    if isinstance(tokenizer, str):
        check_choice("tokenizer", tokenizer, tuple(TOKENIZERS))
        tokenizer = None
    for name, value in (("normalizer", normalizer), ("tokenizer", tokenizer)):
        if value is not None and not callable(value):
            raise InputTypeError(f"{name} must be a function of a text or None but got {value!r}")


def _warn_of_unread(texts: Sequence[str], counted: TokenizedRows) -> None:
    """Warns of texts beyond ASCII that words of a-z and 0-9 do not show; the numbers stay those of rouge_score."""
    if all(map(str.isascii, texts)):
        return
    starts = counted.row_starts.tolist()
    unread = [
        row
        for row in unread_rows(texts, counted, "alphanumeric")
        if not all(map(str.isascii, texts[starts[row] : starts[row + 1]]))
    ]
    if unread:
        warnings.warn(
            f"ROUGE counts the letters a to z and digits alone, which leave out most of the texts of {len(unread)} of"
            f' {len(counted)} rows (the first is row {unread[0]}): give tokenizer="unicode" for words of any script',
            UserWarning,
            stacklevel=3,
        )


def _rouge_words(
    text: str, use_stemmer: bool, normalizer: Normalizer | None, tokenizer: str | Tokenizer | None
) -> list[str]:
    if isinstance(tokenizer, str):
        plain, tokenizer = normalizer(text) if normalizer else text, TOKENIZERS[tokenizer]
    else:
        plain = normalizer(text) if normalizer else re.sub("[^a-z0-9]+", " ", text.lower())
    words = [word for word in (tokenizer(plain) if tokenizer else plain.split()) if word]
    return [stem(word) if len(word) > 3 else word for word in words] if use_stemmer else words


def scores_of(rows: TokenizedRows, hits: Ints, n: int) -> Rouge:
    """Scores of the best reference of every row, from what each shares with the prediction."""
    scores = _reference_scores(rows.paired_lengths, rows.reference_lengths, hits, n)
    return _best_scores(scores, rows.reference_counts)


def _best_scores(scores: Rouge, references: Ints) -> Rouge:
    """Scores of the best reference of every row, of which it has so many."""
    best = first_best(scores.fmeasure, references)
    return Rouge(*(each[best] for each in scores))


def _mean_scores(scores: Rouge, references: Ints) -> Rouge:
    """Mean scores of the references of every row."""
    firsts = np.cumsum(references) - references
    return Rouge(*(np.add.reduceat(each, firsts) / references if len(references) else each for each in scores))


def _reference_scores(predicted: Ints, reference: Ints, hits: Ints, n: Ints | int) -> Rouge:
    """Scores of every reference, float64 ``[references]`` or ``[kinds, references]``.

    Args:
        predicted: words of the prediction.
        reference: words of the reference.
        hits: n-grams of ``n`` words that both have.
        n: see ``hits``.
    """
    precision, recall = hits / np.maximum(predicted - n + 1, 1), hits / np.maximum(reference - n + 1, 1)
    total = precision + recall
    fmeasure = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return Rouge(precision, recall, fmeasure)


def summary_common(
    texts: Sequence[str], counted: TokenizedRows, tokenizer: str | Tokenizer
) -> tuple[TokenizedRows, Ints]:
    """The rows with as many words as their lines have, and how many of them each reference shares with the prediction.

    The second is int64 ``[references]``; see :func:`valor_gpu.text.match_counts.union_common`.
    """
    rows, ends, lines = counted.row_starts, np.arange(len(texts) + 1), counted
    if any("\n" in text for text in texts):
        split = [[line for line in text.split("\n") if line] for text in texts]
        ends = np.cumsum([0, *map(len, split)], dtype=np.int64)
        lines = tokenize_rows([line for text in split for line in text], ends[rows], tokenizer)
        before = np.cumsum([0, *lines.lengths], dtype=np.int64)
        counted = replace(counted, lengths=np.diff(before[ends]))
    is_reference = np.ones(len(texts), bool)
    is_reference[rows[:-1]] = False
    reference = np.flatnonzero(is_reference)
    predicted = np.repeat(rows[:-1], np.diff(rows) - 1)
    pairs = np.stack((ends[reference], ends[reference + 1], ends[predicted], ends[predicted + 1]), axis=1)
    return counted, union_common(lines, pairs)
