"""Rows of texts as tokens, which every comparison of texts reads. No torch.

A row is a prediction and its references. Its words become ids, int32 numbers that are equal exactly where the words
are, counted from 0 in the order of their first use within the row.
"""

from __future__ import annotations

import math
import re
import string
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.text.unicode_words import beyond_latin, unicode_words

MAX_CHARACTERS = 2**31 - 1
"""Most characters of the texts of a row: words are numbered in 32 bits."""

Ints = NDArray[np.int64]
Tokenizer = Callable[[str], Sequence[str]]
_WIDE = ("utf-16-le", "surrogatepass")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_SIGNS = str.maketrans("", "", string.punctuation)
_SIGNS = re.compile(f"[{re.escape(string.punctuation)}]+")  # faster than a table on texts beyond ASCII


def plain_answer(text: str) -> str:
    """Lower case without ASCII punctuation, the words a, an, the, and superfluous white space (SQuAD's rule).

    Example:
        >>> plain_answer("The  Eiffel Tower, an icon!")
        'eiffel tower icon'
    """
    return " ".join(_plain_words(text))


def drop_articles(text: str) -> str:
    """The text with a blank in place of each a, an and the in lower case."""
    return _ARTICLES.sub(" ", text)


def _alphanumeric(text: str) -> list[str]:
    return re.findall("[a-z0-9]+", text.lower())


def _valor_words(text: str) -> list[str]:
    return re.findall(r"\w+|\$\d+|[^\s.]+", text)


def _nonspace(text: str) -> list[str]:
    return list("".join(text.split()))


def _plain_words(text: str) -> list[str]:
    lower = text.lower()
    return drop_articles(lower.translate(_NO_SIGNS) if text.isascii() else _SIGNS.sub("", lower)).split()


TOKENIZERS: dict[str, Tokenizer] = {
    "alphanumeric": _alphanumeric,
    "valor": _valor_words,
    "whitespace": str.split,
    "characters": list,
    "nonspace": _nonspace,
    "plain": _plain_words,
    "unicode": unicode_words,
}
"""Tokenizers by name, in the order of ``Tokenizer`` in csrc/core/text.h, which has all but ``unicode``.

``alphanumeric``: runs of a-z and 0-9 in lower case, as rouge_score splits. ``valor``: as Valor splits for BLEU, runs of
word characters, ``$`` with digits, or anything but white space and full stops. ``whitespace``: at white space.
``characters``: every code point. ``nonspace``: every code point but white space. ``plain``: at white space of what
:func:`plain_answer` leaves, the words of SQuAD's F1. ``unicode``: words of any script, see
:func:`valor_gpu.text.unicode_words.unicode_words`.
"""
_BY_DEFINITION = frozenset({"unicode"})


@dataclass(frozen=True)
class TokenizedRows:
    """Texts of rows, one after another, as ids.

    Attributes:
        ids: int32 ids of all texts.
        starts: int64 ``[texts]`` where the ids of each text begin.
        lengths: int64 ``[texts]`` how many they are.
        row_starts: int64 ``[rows + 1]`` first text of each row, the prediction; the others are its references.
    """

    ids: NDArray[np.int32]
    starts: Ints
    lengths: Ints
    row_starts: Ints

    def __len__(self) -> int:
        return len(self.row_starts) - 1

    @cached_property
    def reference_counts(self) -> Ints:
        """int64 ``[rows]``: how many references each row has."""
        return self.row_starts[1:] - self.row_starts[:-1] - 1

    @cached_property
    def prediction_lengths(self) -> Ints:
        """int64 ``[rows]``: words of each prediction."""
        return self.lengths[self.row_starts[:-1]]

    @cached_property
    def paired_lengths(self) -> Ints:
        """int64 ``[references]``: words of the prediction beside each reference."""
        return np.repeat(self.prediction_lengths, self.reference_counts)

    @cached_property
    def reference_lengths(self) -> Ints:
        """int64 ``[references]``: words of each reference, row by row."""
        mask = np.ones(len(self.lengths), bool)
        mask[self.row_starts[:-1]] = False
        return self.lengths[mask]


def as_list(values: Any) -> Any:
    """The values of an array or a column as a list; all else as it is.

    Args:
        values: of the kinds of NumPy, pandas, polars or PyArrow, which are known by the method that lists them.

    Example:
        >>> as_list(np.array(["a", "b"])), as_list(("a", "b"))
        (['a', 'b'], ('a', 'b'))
    """
    if isinstance(values, (str, list, tuple)):  # most data
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OTU":  # numbers, such as embeddings
        return values
    method = next((name for name in _LISTING if callable(getattr(values, name, None))), None)
    return values if method is None else getattr(values, method)()


_LISTING = ("to_list", "tolist", "to_pylist")


def texts_of(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], lowercase: bool = False
) -> tuple[list[str], Ints]:
    """The texts of all rows, one after another, and where each row begins, int64 ``[rows + 1]``.

    Args:
        predictions: one text per row; sequences, NumPy arrays and columns of pandas, polars and PyArrow are taken.
        references: for each row one text or several.
        lowercase: compare in lower case.

    Raises:
        InputError: the lengths differ, a value is no text, or a row has no reference.
    """
    predictions, references = as_list(predictions), as_list(references)
    for name, value in (("predictions", predictions), ("references", references)):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InputError(f"{name} must be a sequence with one entry per row but got {_kind_of(value)}")
    if len(predictions) != len(references):
        raise InputError(f"references must have an entry for each of the {len(predictions)} predictions"
                         f" but has {len(references)}")  # fmt: skip
    if {*map(type, predictions), *map(type, references)} <= {str}:  # most data: one text a side, checked at once
        flat: Iterable[str] = chain.from_iterable(zip(predictions, references))  # type: ignore[arg-type]
        rows = np.arange(0, 2 * len(predictions) + 1, 2)
    else:
        lists = _reference_lists(predictions, references)
        flat = chain.from_iterable((prediction, *row) for prediction, row in zip(predictions, lists))
        rows = np.cumsum([0, *(len(row) + 1 for row in lists)], dtype=np.int64)
    return list(map(str.lower, flat) if lowercase else flat), rows


def _kind_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"ndarray of {value.dtype}: texts are taken, as of array.astype(str)"
    return type(value).__name__ + (": give one of its columns" if hasattr(value, "columns") else "")


def _reference_lists(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[Sequence[str]]:
    """The references of every row, after a look at every value."""
    lists = [(text,) if isinstance(text, str) else as_list(text) for text in references]
    for i, (prediction, row) in enumerate(zip(predictions, lists)):
        check_type(f"predictions[{i}]", prediction, str)
        if not isinstance(row, Sequence) or not row:
            raise InputError(f"references[{i}] must be a text or a sequence of at least one text but got {row!r}")
        for k, text in enumerate(row):
            check_type(f"references[{i}][{k}]", text, str)
    return lists


MOST_WORDS = 1000
"""Longest n-gram: each length is counted by itself, in every row."""


def check_size(name: str, value: int, most: float = math.inf) -> None:
    """Raises unless ``value`` is a whole number from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        need = "of at least 1" if most == math.inf else f"from 1 to {most}"
        raise InputError(f"{name} must be a whole number {need} but got {value!r}")


def tokenize_rows(texts: Sequence[str], rows: Ints, tokenizer: str | Tokenizer) -> TokenizedRows:
    """The texts of rows as ids of their words.

    Args:
        texts: of all rows, one after another.
        rows: int64 ``[rows + 1]`` where each row begins in ``texts``.
        tokenizer: a name of :data:`TOKENIZERS`, or a function from a text to its words.
    """
    if not isinstance(tokenizer, str):
        return word_rows(map(tokenizer, texts), rows)
    check_choice("tokenizer", tokenizer, tuple(TOKENIZERS))
    if tokenizer in _BY_DEFINITION or not native.usable("valor_cpu"):
        return word_rows(map(TOKENIZERS[tokenizer], texts), rows)
    return _split_native(texts, rows, tokenizer)


def word_rows(words: Iterable[Sequence[str]], rows: Ints) -> TokenizedRows:
    """Rows of texts that are lists of words already."""
    lists = list(words)
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    starts, rows = np.cumsum(lengths) - lengths, np.ascontiguousarray(rows, np.int64)
    if not native.usable("valor_cpu"):
        parts = [_numbered(lists[first:last]) for first, last in pairwise(rows.tolist())]
        return TokenizedRows(np.array([*chain.from_iterable(parts)], np.int32), starts, lengths, rows)
    ids = np.array(_numbered(lists), np.int32)
    native.function("valor_cpu", "valor_text_renumber_cpu")(
        ids.ctypes.data, starts.ctypes.data, lengths.ctypes.data, rows.ctypes.data, len(rows) - 1, native.threads()
    )
    return TokenizedRows(ids, starts, lengths, rows)


def _numbered(texts: Iterable[Sequence[str]]) -> array[int]:
    """Numbers of words in the order of their first use."""
    known: dict[str, int] = defaultdict(count().__next__)  # a new word gets the next number
    return array("i", map(known.__getitem__, chain.from_iterable(texts)))


def unread_rows(texts: Sequence[str], rows: TokenizedRows, tokenizer: str) -> list[int]:
    """Indices of the rows of which a tokenizer cannot read the prediction, or none of the references.

    It cannot read a text that is not empty and has no word, nor, if it knows a to z alone, a text most of whose letters
    are others: equal texts would share nothing, and different ones the digits in them.

    Args:
        texts: of all rows, one after another.
        rows: the same as words.
        tokenizer: a name of :data:`TOKENIZERS`.
    """
    wordless = np.flatnonzero(rows.lengths == 0).tolist()
    unread = np.zeros(len(texts), bool)
    unread[[text for text in wordless if texts[text].strip()]] = True
    if tokenizer == "alphanumeric":
        unread[[number for number, text in enumerate(texts) if not text.isascii() and beyond_latin(text)]] = True
    if not unread.any():
        return []
    starts = rows.row_starts
    references = np.add.reduceat(unread, starts[:-1], dtype=np.int64) - unread[starts[:-1]]
    return np.flatnonzero(unread[starts[:-1]] | (references == rows.reference_counts)).tolist()


def _split_native(texts: Sequence[str], rows: Ints, tokenizer: str) -> TokenizedRows:
    """Native splitting: of bytes where the texts of a row are ASCII, else of 16-bit characters or by the definition."""
    if tokenizer == "alphanumeric":  # once in lower case, all beyond ASCII ends a word alike
        texts = [text if text.isascii() else text.lower().encode("ascii", "replace").decode() for text in texts]
    ascii_texts = np.fromiter(map(str.isascii, texts), bool, len(texts))
    if ascii_texts.all():
        return _split_ascii(texts, rows, tokenizer)
    narrow = np.logical_and.reduceat(ascii_texts, rows[:-1])
    if tokenizer == "plain":
        texts = [text if plain else text.lower() for text, plain in zip(texts, ascii_texts.tolist())]
    beyond = np.zeros(len(narrow), bool)  # rows with a character that two units of UTF-16 make up
    whole = "".join(texts)
    if len(whole.encode(*_WIDE)) > 2 * len(whole):
        beyond = np.logical_or.reduceat([len(text.encode(*_WIDE)) > 2 * len(text) for text in texts], rows[:-1])
    ways = ((narrow, _split_ascii), (~narrow & ~beyond, _split_wide), (beyond, _split_by_definition))
    return _merged(
        texts, rows, [(which, lambda some, firsts, way=way: way(some, firsts, tokenizer)) for which, way in ways]
    )


def _merged(texts: Sequence[str], rows: Ints, ways: Iterable[tuple[NDArray[np.bool_], Any]]) -> TokenizedRows:
    """All rows from some of them split in each way: a mask of rows, and a function of texts and where rows begin."""
    counts = np.diff(rows)
    starts, lengths, parts, size = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64), [], 0
    for which, split in ways:
        index = np.flatnonzero(np.repeat(which, counts))
        part = split([texts[t] for t in index.tolist()], np.cumsum([0, *counts[which]], dtype=np.int64))
        starts[index], lengths[index] = part.starts + size, part.lengths
        parts.append(part.ids)
        size += len(part.ids)
    return TokenizedRows(np.concatenate(parts), starts, lengths, rows)


def _split_by_definition(texts: Sequence[str], rows: Ints, tokenizer: str) -> TokenizedRows:
    return word_rows(map(TOKENIZERS[tokenizer], texts), rows)


def _split_ascii(texts: Sequence[str], rows: Ints, tokenizer: str) -> TokenizedRows:
    offsets, ids, lengths = _room(texts, rows)
    text = "".join(texts).encode("ascii")
    native.function("valor_cpu", "valor_text_words_cpu")(
        text, offsets.ctypes.data, rows.ctypes.data, len(rows) - 1, list(TOKENIZERS).index(tokenizer),
        ids.ctypes.data, lengths.ctypes.data, native.threads(),
    )  # fmt: skip
    return TokenizedRows(ids, offsets[:-1], lengths, rows)


def _split_wide(texts: Sequence[str], rows: Ints, tokenizer: str) -> TokenizedRows:
    offsets, ids, lengths = _room(texts, rows)
    text = "".join(texts).encode(*_WIDE)
    native.function("valor_cpu", "valor_text_wide_words_cpu")(
        text, offsets.ctypes.data, rows.ctypes.data, len(rows) - 1, list(TOKENIZERS).index(tokenizer),
        _kinds().ctypes.data, ids.ctypes.data, lengths.ctypes.data, native.threads(),
    )  # fmt: skip
    return TokenizedRows(ids, offsets[:-1], lengths, rows)


def _room(texts: Sequence[str], rows: Ints) -> tuple[Ints, NDArray[np.int32], Ints]:
    """Where each text begins, and room for the ids and the numbers of words."""
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    if offsets[-1] > MAX_CHARACTERS and (longest := int(np.diff(offsets[rows]).max())) > MAX_CHARACTERS:
        raise InputError(f"the texts of a row must have at most {MAX_CHARACTERS} characters but have {longest}")
    return offsets, np.empty(offsets[-1], np.int32), np.empty(len(texts), np.int64)


@lru_cache(1)
def _kinds() -> NDArray[np.uint8]:
    """uint8 ``[65536]``: bits of ``CharacterKind`` in csrc/core/text.h for every 16-bit character."""
    characters = list(map(chr, range(1 << 16)))
    spaces, decimals, alnums = (
        np.fromiter(map(test, characters), np.uint8, 1 << 16) for test in (str.isspace, str.isdecimal, str.isalnum)
    )
    kinds = spaces + 2 * decimals + 4 * (alnums & ~decimals & 1)
    for sign in string.punctuation:
        kinds[ord(sign)] |= 8
    kinds[ord("_")] |= 16
    return np.ascontiguousarray(kinds, np.uint8)


def first_best(values: NDArray[np.float64], references: Ints) -> Ints:
    """int64 ``[rows]``: the position of the largest value of each row, the first of equal ones.

    Args:
        values: float64 ``[references]``.
        references: int64 ``[rows]`` how many of them belong to each row, at least one.
    """
    if len(values) == len(references):  # one each
        return np.arange(len(values))
    row = np.repeat(np.arange(len(references)), references)
    largest = np.maximum.reduceat(values, np.cumsum(references) - references)
    best = np.flatnonzero(values == largest[row])
    return best[np.unique(row[best], return_index=True)[1]]
