"""ROUGE: overlap of n-grams and of longest common subsequences with reference summaries. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.text.match_counts import common_lengths, ngram_matches, union_common
from valor_gpu.text.stemmer import stem
from valor_gpu.text.tokens import TOKENIZERS, Ints, TokenizedRows, Tokenizer, first_best, texts_of, tokenize_rows

Floats = NDArray[np.float64]
TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


class Rouge(NamedTuple):
    """Scores of one kind of ROUGE, float64 ``[rows]`` each, in [0, 1]."""

    precision: Floats
    recall: Floats
    fmeasure: Floats


def rouge_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    rouge_types: Sequence[str] = TYPES,
    use_stemmer: bool = False,
) -> dict[str, Rouge]:
    """Computes ROUGE of every row, with the numbers of the package rouge_score.

    Words are runs of a-z and 0-9 of the text in lower case. ``rougeN`` (N from 1 to 9) counts shared n-grams,
    ``rougeL`` the longest common subsequence of the texts, ``rougeLsum`` the same over their lines (a line break ends a
    sentence, a full stop does not). Precision divides by what the prediction has, recall by what the reference has,
    the F-measure is their harmonic mean; where either text has none of them, all three are 0. Of several references the
    first with the best F-measure counts, for each kind on its own.

    Source: C.-Y. Lin, "ROUGE: A package for automatic evaluation of summaries" (2004).

    Args:
        predictions: one text per row.
        references: for each row one text or several.
        rouge_types: of ``rouge1`` to ``rouge9``, ``rougeL``, ``rougeLsum``.
        use_stemmer: compare Porter stems of words longer than three letters.

    Raises:
        InputError: rows that are no texts, or an unknown kind.

    Example:
        >>> scores = rouge_scores(["the cat sat"], [["the cat sat on the mat", "a dog"]], ["rouge1", "rougeL"])
        >>> scores["rouge1"].recall, scores["rougeL"].fmeasure.round(3)
        (array([0.5]), array([0.667]))
    """
    kinds = [(kind, rouge_size(kind)) for kind in rouge_types]
    texts, rows = texts_of(predictions, references)
    tokenizer = _stems if use_stemmer else "alphanumeric"
    counted = tokenize_rows(texts, rows, tokenizer)
    grams = ngram_matches(counted, max((n for _, n in kinds), default=0))
    scores = {}
    for kind, n in kinds:
        if n:
            scores[kind] = scores_of(counted, grams.matches[:, n - 1], n)
        else:
            common = common_lengths(counted) if kind == "rougeL" else summary_common(texts, counted, tokenizer)
            scores[kind] = scores_of(counted, common, 1)
    return scores


def rouge_size(kind: str) -> int:
    """N of ``rougeN``, 0 for the kinds of common subsequences."""
    check_type("rouge_types", kind, str)
    if kind in ("rougeL", "rougeLsum"):
        return 0
    if len(kind) == 6 and kind.startswith("rouge") and kind[5] in "123456789":
        return int(kind[5])
    raise InputError(f"rouge_types must be of rouge1 to rouge9, rougeL and rougeLsum but got {kind!r}")


def _stems(text: str) -> list[str]:
    return [stem(word) if len(word) > 3 else word for word in TOKENIZERS["alphanumeric"](text)]


def scores_of(rows: TokenizedRows, hits: Ints, n: int) -> Rouge:
    """Scores of the best reference of every row, from what each shares with the prediction."""
    references = rows.reference_counts
    predicted = np.maximum(rows.paired_lengths - n + 1, 1)
    reference = np.maximum(rows.reference_lengths - n + 1, 1)
    precision, recall = hits / predicted, hits / reference
    total = precision + recall
    fmeasure = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    best = first_best(fmeasure, references)
    return Rouge(precision[best], recall[best], fmeasure[best])


def summary_common(texts: Sequence[str], counted: TokenizedRows, tokenizer: str | Tokenizer) -> Ints:
    """int64 ``[references]``: words that the lines of reference and prediction share; see ``union_common``."""
    rows, ends = counted.row_starts, np.arange(len(texts) + 1)
    if any("\n" in text for text in texts):
        lines = [[line for line in text.split("\n") if line] for text in texts]
        ends = np.cumsum([0, *map(len, lines)], dtype=np.int64)
        counted = tokenize_rows([line for text in lines for line in text], ends[rows], tokenizer)
    is_reference = np.ones(len(texts), bool)
    is_reference[rows[:-1]] = False
    reference = np.flatnonzero(is_reference)
    predicted = np.repeat(rows[:-1], np.diff(rows) - 1)
    return union_common(
        counted, np.stack((ends[reference], ends[reference + 1], ends[predicted], ends[predicted + 1]), axis=1)
    )
