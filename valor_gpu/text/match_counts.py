"""Whole-number statistics of rows of texts: matching n-grams, common subsequences, edit distances. No torch.

Each comes from the native library where it is built, else from the definition beside it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.text.tokens import Ints, TokenizedRows

Text = NDArray[np.int32]


class Matches(NamedTuple):
    """Matching n-grams.

    Attributes:
        matches: int64 ``[references, N]``: n-grams of n = 1 to N words that prediction and reference share, each
            counted as often as the one that has it less often.
        clipped: int64 ``[rows, N]``: the same against all references of the row, an n-gram counting as often as the
            reference that has it most often.
    """

    matches: Ints
    clipped: Ints


def ngram_matches(rows: TokenizedRows, max_ngram: int) -> Matches:
    """Counts matching n-grams of 1 to ``max_ngram`` words.

    Example:
        >>> from valor_gpu.text.tokens import tokenize_rows, texts_of
        >>> texts, rows = texts_of(["the cat sat"], [["the cat is", "a cat sat"]])
        >>> ngram_matches(tokenize_rows(texts, rows, "whitespace"), 2)
        Matches(matches=array([[2, 1],
               [2, 1]]), clipped=array([[3, 2]]))
    """
    references = int(rows.reference_counts.sum())
    out = Matches(np.zeros((references, max_ngram), np.int64), np.zeros((len(rows), max_ngram), np.int64))
    if not native.usable("valor_cpu"):
        return _ngram_reference(rows, max_ngram, out)
    native.function("valor_cpu", "valor_text_ngrams_cpu")(
        *row_addresses(rows), max_ngram, out.matches.ctypes.data, out.clipped.ctypes.data, native.threads()
    )
    return out


def common_lengths(rows: TokenizedRows) -> Ints:
    """int64 ``[references]``: length of the longest common subsequence of prediction and reference, in words."""
    out = np.zeros(int(rows.reference_counts.sum()), np.int64)
    if not native.usable("valor_cpu"):
        return _by_pair(rows, _common_reference)
    native.function("valor_cpu", "valor_text_lcs_cpu")(
        *row_addresses(rows), out.ctypes.data, native.threads()
    )  # fmt: skip
    return out


def edit_distances(rows: TokenizedRows) -> Ints:
    """int64 ``[references]``: words to insert, delete or replace at least, from prediction to reference."""
    out = np.zeros(int(rows.reference_counts.sum()), np.int64)
    if not native.usable("valor_cpu"):
        return _by_pair(rows, _edit_reference)
    native.function("valor_cpu", "valor_text_edits_cpu")(
        *row_addresses(rows), out.ctypes.data, native.threads()
    )  # fmt: skip
    return out


def edit_distance_of_words(first: Sequence[str], second: Sequence[str]) -> int:
    """:func:`edit_distances` of one pair of texts that are lists of words: without arrays of numpy around it.

    Example:
        >>> edit_distance_of_words("the cat sat".split(), "the cat sat down".split())
        1
    """
    known: dict[str, int] = {}
    ids = array("i", [known.setdefault(word, len(known)) for words in (first, second) for word in words])
    if not native.usable("valor_cpu"):
        return _edit_reference(np.array(ids[: len(first)]), np.array(ids[len(first) :]))
    table = array("q", (0, len(first), len(first), len(second), 0, 2, 0))  # starts, lengths, row_starts, result
    at, size = table.buffer_info()[0], table.itemsize
    native.function("valor_cpu", "valor_text_edits_cpu")(
        ids.buffer_info()[0], at, at + 2 * size, at + 4 * size, 1, at + 6 * size, 1
    )
    return table[6]


def union_common(sentences: TokenizedRows, pairs: Ints) -> Ints:
    """int64 ``[pairs]``: words of a reference that the sentences of its prediction cover, for ROUGE-L of summaries.

    Each sentence of the reference marks the union of its longest common subsequences with all sentences of the
    prediction; a word counts at most as often as both texts have it (Lin 2004, section 3.2, as rouge_score counts).

    Args:
        sentences: every text a sentence.
        pairs: int64 ``[pairs, 4]``: first and last + 1 sentence of a reference, and of its prediction.
    """
    pairs = np.ascontiguousarray(pairs, np.int64)
    out = np.zeros(len(pairs), np.int64)
    if not native.usable("valor_cpu"):
        return np.array([_union_reference(sentences, *pair) for pair in pairs.tolist()], np.int64)
    ids, starts, lengths, *_ = row_addresses(sentences)
    native.function("valor_cpu", "valor_text_union_lcs_cpu")(
        ids, starts, lengths, pairs.ctypes.data, len(pairs), out.ctypes.data, native.threads()
    )
    return out


def row_addresses(rows: TokenizedRows) -> tuple[int, int, int, int, int]:
    """Addresses of the arrays of rows, and how many rows there are, for the native library."""
    ids, starts, lengths, firsts = (a.ctypes.data for a in (rows.ids, rows.starts, rows.lengths, rows.row_starts))
    return ids, starts, lengths, firsts, len(rows)


def _text(rows: TokenizedRows, t: int) -> Text:
    return rows.ids[rows.starts[t] : rows.starts[t] + rows.lengths[t]]


def _grams(text: Text, n: int) -> Counter[Any]:
    return Counter(zip(*(text[k:].tolist() for k in range(n))))


def _ngram_reference(rows: TokenizedRows, max_ngram: int, out: Matches) -> Matches:
    for r, n in np.ndindex(len(rows), max_ngram):
        predicted, best = _grams(_text(rows, int(rows.row_starts[r])), n + 1), Counter[Any]()
        for t in range(rows.row_starts[r] + 1, rows.row_starts[r + 1]):
            reference = _grams(_text(rows, t), n + 1)
            out.matches[t - r - 1, n] = (predicted & reference).total()
            best |= reference
        out.clipped[r, n] = (predicted & best).total()
    return out


def texts_by_pair(rows: TokenizedRows) -> Iterator[tuple[Text, Text]]:
    """Ids of the prediction beside every reference."""
    for first, last in zip(rows.row_starts[:-1], rows.row_starts[1:]):
        for t in range(first + 1, last):
            yield _text(rows, first), _text(rows, t)


def _by_pair(rows: TokenizedRows, compare: Callable[[Text, Text], int]) -> Ints:
    return np.array([compare(*pair) for pair in texts_by_pair(rows)], np.int64)


def _common_table(first: Text, second: Text) -> Ints:
    table = np.zeros((len(first) + 1, len(second) + 1), np.int64)
    for i, j in np.ndindex(len(first), len(second)):
        same = first[i] == second[j]
        table[i + 1, j + 1] = table[i, j] + 1 if same else max(table[i, j + 1], table[i + 1, j])
    return table


def _common_reference(first: Text, second: Text) -> int:
    return int(_common_table(first, second)[-1, -1])


def _edit_reference(first: Text, second: Text) -> int:
    before = list(range(len(second) + 1))
    for i, word in enumerate(first):
        now = [i + 1]
        for j, other in enumerate(second):
            now.append(min(before[j] + int(word != other), before[j + 1] + 1, now[j] + 1))
        before = now
    return before[-1]


def _marked(sentence: Text, other: Text) -> set[int]:
    """Positions on the common subsequence that the table gives from its last corner back."""
    table, positions = _common_table(sentence, other), set()
    i, j = len(sentence), len(other)
    while i and j:
        if sentence[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            positions.add(i)
        elif table[i, j - 1] > table[i - 1, j]:
            j -= 1
        else:
            i -= 1
    return positions


def _union_reference(sentences: TokenizedRows, first: int, last: int, first_other: int, last_other: int) -> int:
    reference, predicted = (
        [_text(sentences, t) for t in range(*ends)] for ends in ((first, last), (first_other, last_other))
    )
    left = Counter(np.concatenate([*reference, []]).tolist()) & Counter(np.concatenate([*predicted, []]).tolist())
    hits = 0
    for sentence in reference:
        for i in sorted(set().union(*(_marked(sentence, other) for other in predicted))):
            if left[sentence[i]] > 0:
                left[sentence[i]] -= 1
                hits += 1
    return hits
