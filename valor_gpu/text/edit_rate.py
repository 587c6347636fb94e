"""Translation edit rate: edits of words where moving a run of words costs one edit. No torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.argument_docs import arguments_of
from valor_gpu.text.match_counts import row_addresses, texts_by_pair
from valor_gpu.text.mteval import split_signs
from valor_gpu.text.tokens import Ints, TokenizedRows, first_best, texts_of, word_rows

Floats = NDArray[np.float64]
WORD_UNITS = 720720
"""Units of a word in which mean lengths of references are kept: a multiple of every whole number up to 16."""

_BEAM = 25
_LONGEST_MOVE, _FARTHEST_MOVE = 10, 50  # words
_MOST_TRIED = 1000
_FAR = 1 << 30  # above every distance: a cell outside the beam
_PAIR, _DELETE, _INSERT = 1, 2, 3

_SIGNS = re.compile(r'[.,?:;!"()]')
_WIDE_SIGNS = re.compile(
    "[\u3001\u3002\u3008-\u3011\u3014-\u301f\uff61-\uff65\u30fb"  # Asian
    "\uff0e\uff0c\uff1f\uff1a\uff1b\uff01\uff02\uff08\uff09]"  # of full width
)
_WIDE = re.compile("[\u4e00-\u9fff\u3400-\u4dbf\u31c0-\u31ef\u2e80-\u2eff\u3300-\u33ff\uf900-\ufaff\ufe30-\ufe4f]")
_ENCLOSED = re.compile("[\u3200-\u3f22]")  # the range of Tercom's port, which reaches beyond enclosed letters


class TerCounts(NamedTuple):
    """Edits and lengths of rows.

    Attributes:
        edits: int64 ``[rows]`` edits to the reference that needs the fewest.
        lengths: int64 ``[rows]`` mean length of the references in units of 1/720720 of a word: exact for up to 16
            references, else rounded.
    """

    edits: Ints
    lengths: Ints


def ter_counts(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    normalize: bool = False,
    no_punctuation: bool = False,
    lowercase: bool = True,
    asian_support: bool = False,
) -> TerCounts:
    """Counts edits of every row; arguments as :func:`ter_scores` explains them.

    Raises:
        InputError: rows that are no texts.
    """
    texts, rows = texts_of(predictions, references, lowercase)
    if normalize or no_punctuation:
        choices = normalize, no_punctuation, asian_support
        once = [_prepared(text.rstrip(), *choices) for text in texts]
        texts = [_prepared(text, *choices) for text in once]  # sacreBLEU prepares references twice, predictions once
        for row in rows[:-1].tolist():
            texts[row] = once[row]
    counted = word_rows(map(str.split, texts), rows)
    edits = moving_edits(counted)
    best = first_best(-edits.astype(np.float64), counted.reference_counts)
    first = np.cumsum(counted.reference_counts) - counted.reference_counts
    total = np.add.reduceat(counted.reference_lengths, first) if len(counted) else np.zeros(0, np.int64)
    several = counted.reference_counts
    return TerCounts(edits[best], (2 * total * WORD_UNITS + several) // (2 * several))


def _prepared(text: str, normalize: bool, no_punctuation: bool, asian_support: bool) -> str:
    """The text with signs set apart or left out, by Tercom's rules, and one blank between words."""
    if normalize and text:
        text = _apart(text)
        text = _apart_asian(text) if asian_support else text
    if no_punctuation:
        text = _SIGNS.sub("", text)
        text = _WIDE_SIGNS.sub("", text) if asian_support else text
    return " ".join(text.split())


def _apart(text: str) -> str:
    text = text.replace("\n-", "").replace("\n", " ")
    for name, sign in (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")):
        text = text.replace(name, sign)
    return split_signs(f" {text} ", possessive=True)


def _apart_asian(text: str) -> str:
    """Characters of Chinese and Japanese and their signs as words of their own."""
    for pattern in (_WIDE, _ENCLOSED, _WIDE_SIGNS):
        text = pattern.sub(r" \g<0> ", text)
    return text


def moving_edits(rows: TokenizedRows) -> Ints:
    """int64 ``[references]``: words to insert, delete, replace and runs to move, from prediction to reference."""
    if not native.usable("valor_cpu"):
        return np.array([_edits(*map(np.ndarray.tolist, pair)) for pair in texts_by_pair(rows)], np.int64)
    out = np.zeros(int(rows.reference_counts.sum()), np.int64)
    native.function("valor_cpu", "valor_text_moves_cpu")(
        *row_addresses(rows), out.ctypes.data, native.threads()
    )  # fmt: skip
    return out


def _edits(words: list[int], reference: list[int]) -> int:
    """Edits of one pair of texts: moves as long as they shorten the distance, then the distance."""
    if not reference:
        return len(words)
    moves = tried = 0
    while True:
        table = _table(words, reference)
        (gain, *_, moved), tried = _best_move(words, reference, table, tried)
        if tried >= _MOST_TRIED or gain <= 0:
            return moves + table[-1][-1][0]
        words, moves = moved, moves + 1


def _table(words: list[int], reference: list[int]) -> list[list[tuple[int, int]]]:
    """Cost and last operation of every cell that the beam around the diagonal reaches."""
    ratio = len(reference) / len(words) if words else 1
    beam = math.ceil(ratio / 2 + _BEAM) if ratio / 2 > _BEAM else _BEAM
    table = [[(j, _INSERT) for j in range(len(reference) + 1)]]
    for i, word in enumerate(words, 1):
        above, now, middle = table[-1], [(_FAR, 0)] * (len(reference) + 1), math.floor(i * ratio)
        end = len(reference) + 1 if i == len(words) else min(len(reference) + 1, middle + beam)
        for j in range(max(0, middle - beam), end):
            ways = [(above[j][0] + 1, _DELETE)]
            if j:
                pair = above[j - 1][0] + (word != reference[j - 1])
                ways = [(pair, _PAIR), *ways, (now[j - 1][0] + 1, _INSERT)]
            now[j] = min(ways, key=lambda way: way[0])
        table.append(now)
    return table


class _Alignment(NamedTuple):
    """Where each reference word is aligned (-1: before all), and errors among the first words of both texts."""

    aligned: list[int]
    wrong: list[int]
    wrong_reference: list[int]


def _align(words: list[int], reference: list[int], table: list[list[tuple[int, int]]]) -> _Alignment:
    aligned, wrong, wrong_reference = [-1] * len(reference), [0] * len(words), [0] * len(reference)
    i, j = len(words), len(reference)
    while i or j:
        op = table[i][j][1]
        error = op != _PAIR or words[i - 1] != reference[j - 1]
        if op != _DELETE:
            aligned[j - 1], wrong_reference[j - 1] = i - 1, int(error)
        if op != _INSERT:
            wrong[i - 1] = int(error)
        i, j = i - (op != _INSERT), j - (op != _DELETE)
    return _Alignment(aligned, [0, *accumulate(wrong)], [0, *accumulate(wrong_reference)])


def _runs(words: list[int], reference: list[int]) -> Iterator[tuple[int, int, int]]:
    """Runs that both texts have: where in the words, where in the reference, how many words."""
    for start in range(len(words)):
        for place in range(max(0, start - _FARTHEST_MOVE), min(len(reference), start + _FARTHEST_MOVE + 1)):
            pairs = zip(words[start : start + _LONGEST_MOVE], reference[place : place + _LONGEST_MOVE])
            for length, (word, other) in enumerate(pairs, 1):
                if word != other:
                    break
                yield start, place, length


_Move = tuple[int, int, int, int, list[int]]


def _best_move(
    words: list[int], reference: list[int], table: list[list[tuple[int, int]]], tried: int
) -> tuple[_Move, int]:
    """The move that shortens the distance most, then of the most words, from and to the earliest place."""
    distance, (aligned, wrong, wrong_reference) = table[-1][-1][0], _align(words, reference, table)
    best: _Move = (0, 0, 0, 0, words)
    for start, place, length in _runs(words, reference):
        right = wrong[start + length] == wrong[start]
        right |= wrong_reference[place + length] == wrong_reference[place]
        if right or start <= aligned[place] < start + length:
            continue
        targets = [aligned[k] + 1 if k >= 0 else 0 for k in range(place - 1, place + length)]
        for target in dict.fromkeys(targets):  # alignments never step back: equal ones stand together
            moved = _moved(words, start, length, target)
            gain = distance - _table(moved, reference)[-1][-1][0]
            tried += 1
            if not best[1] or (gain, length, -start, -target) > best[:4]:
                best = (gain, length, -start, -target, moved)
        if tried >= _MOST_TRIED:
            break
    return best, tried


def _moved(words: list[int], start: int, length: int, target: int) -> list[int]:
    """The words with a run before word ``target``; inside the run, it goes on by as many words."""
    run = words[start : start + length]
    if target < start:
        return words[:target] + run + words[target:start] + words[start + length :]
    end = target if target > start + length else target + length
    return words[:start] + words[start + length : end] + run + words[end:]


def ter_value(edits: float, length: float) -> float:
    """Edits per word of the reference; without a word 1 where there is an edit, else 0: sacreBLEU's rule."""
    return edits / length if length else float(edits > 0)


def ter_values(counts: TerCounts) -> Floats:
    """float64 ``[rows]``: the rate of every row."""
    return np.array([ter_value(*each) for each in zip(counts.edits, counts.lengths / WORD_UNITS)], np.float64)


@arguments_of(texts_of)
def ter_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    normalize: bool = False,
    no_punctuation: bool = False,
    lowercase: bool = True,
    asian_support: bool = False,
) -> Floats:
    """Computes the translation edit rate of every row, float64 ``[rows]``; sacreBLEU's score is 100 times as much.

    Edits to the reference that needs the fewest, per word of the mean length of the references: words inserted,
    deleted and replaced, and runs of words moved, one edit each. At least 0, above 1 where there are more edits than
    words; a row whose references have no word has 1 where the prediction has words, else 0. The search for moves is
    Tercom's as sacreBLEU runs it: greedy, runs of up to 10 words that move by up to 50, 1,000 trials. As there,
    ``normalize`` prepares a prediction once and a reference twice: in a reference an ``'s`` before a tab or another
    white space that is no blank becomes a word, in a prediction it does not. torchmetrics prepares both once.

    Source: Snover et al., "A study of translation edit rate with targeted human annotation" (2006).

    Args:
        normalize: set signs apart, and write the XML entities of quotes, ``&``, ``<`` and ``>`` as signs.
        no_punctuation: leave out ``. , ? : ; ! " ( )``.
        asian_support: with ``normalize`` make Chinese and Japanese characters and their signs words of their own, with
            ``no_punctuation`` leave those signs out.

    Raises:
        InputError: rows that are no texts.

    Example:
        >>> ter_scores(["on the mat the cat sat"], ["the cat sat on the mat"]).round(4)
        array([0.1667])
    """
    return ter_values(ter_counts(predictions, references, normalize, no_punctuation, lowercase, asian_support))
