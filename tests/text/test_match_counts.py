"""Tokens and match counts of texts: the native library against the references, and both against hand counts."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import seeds_with_smoke
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.text import match_counts
from valor_gpu.text.tokens import TOKENIZERS, TokenizedRows, texts_of, tokenize_rows, word_rows

TEXTS = st.text(st.sampled_from("aAb Z9_$.,-\n\t\x1céßK語\u3000“٣²😀\U0001d400"), max_size=12)


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    yield lambda: monkeypatch.setattr(native, "usable", lambda name: False)


def random_rows(seed: int, rows: int = 40, max_words: int = 30, words: int = 6, references: int = 3) -> TokenizedRows:
    rng = random.Random(seed)
    texts = [[str(rng.randrange(words)) for _ in range(rng.randrange(max_words + 1))] for _ in range(rows * 4)]
    firsts = np.cumsum([0, *(1 + rng.randint(1, references) for _ in range(rows))], dtype=np.int64)
    return word_rows(texts[: firsts[-1]], firsts)


def words_by_id(rows: TokenizedRows, t: int) -> list[int]:
    return rows.ids[rows.starts[t] : rows.starts[t] + rows.lengths[t]].tolist()


@pytest.mark.smoke
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_native_splitting_is_that_of_the_definition(tokenizer: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXTS, min_size=2, max_size=6))
    def check(texts: list[str]) -> None:
        rows = np.array([0, 2, len(texts)] if len(texts) > 3 else [0, len(texts)])
        got, expected = tokenize_rows(texts, rows, tokenizer), tokenize_rows(texts, rows, TOKENIZERS[tokenizer])
        assert got.lengths.tolist() == expected.lengths.tolist()
        for t in range(len(texts)):
            assert words_by_id(got, t) == words_by_id(expected, t)

    check()


def test_every_ascii_character_is_split_as_the_definition_does() -> None:
    characters = [chr(c) for c in range(128)]
    texts = [a + b + "x" for a in characters for b in "a9_ .$"] + ["$" + c + "5.5$5 $" for c in characters]
    rows = np.array([0, len(texts)])
    for tokenizer, split in TOKENIZERS.items():
        got, expected = tokenize_rows(texts, rows, tokenizer), word_rows(map(split, texts), rows)
        for t, text in enumerate(texts):
            assert words_by_id(got, t) == words_by_id(expected, t), (tokenizer, text)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_16_bit_characters_are_split_as_the_definition_does(tokenizer: str) -> None:
    texts = [
        f"é{character}the{character} x{character}_ ${character}5"
        for character in map(chr, [*range(0x3100), *range(0x3100, 1 << 16, 11)])
    ]
    rows = np.array([*range(0, len(texts), 8), len(texts)])
    got, expected = tokenize_rows(texts, rows, tokenizer), word_rows(map(TOKENIZERS[tokenizer], texts), rows)
    assert np.array_equal(got.lengths, expected.lengths)
    words = [[ids[a : a + n] for a, n in zip(starts, got.lengths)] for ids, starts in
             ((got.ids, got.starts), (expected.ids, expected.starts))]  # fmt: skip
    assert np.array_equal(np.concatenate(words[0]), np.concatenate(words[1]))


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_rows_beyond_ascii_stand_between_others(tokenizer: str) -> None:
    said = ["Plain text.", "Déjà vu, the café", "A — the end", "İstanbul ΣΑΣ \ud800", "😀 the \U0001d400a", "last one"]
    meant: list[list[str]] = [["plain"], ["deja vu", "Déjà, vu!"], ["“the” end"], ["i̇stanbul"], [""], ["“", "one"]]
    texts, rows = texts_of(said, meant)
    got, expected = tokenize_rows(texts, rows, tokenizer), word_rows(map(TOKENIZERS[tokenizer], texts), rows)
    assert got.lengths.tolist() == expected.lengths.tolist()
    assert [words_by_id(got, t) for t in range(len(texts))] == [words_by_id(expected, t) for t in range(len(texts))]


def test_rouge_and_bleu_words() -> None:
    assert TOKENIZERS["alphanumeric"]("It's 3.14, naïve K") == ["it", "s", "3", "14", "na", "ve", "k"]
    assert TOKENIZERS["valor"]("Pay $45 (now). a_b c.d!") == ["Pay", "$45", "(now)", "a_b", "c", "d", "!"]


@pytest.mark.parametrize("seed", seeds_with_smoke(6, 3))
def test_native_counts_equal_the_reference(seed: int, unbuilt: Callable[[], None]) -> None:
    max_words, words = ((3, 2), (30, 6), (70, 3), (140, 9), (200, 40), (64, 200))[seed % 6]
    rows = random_rows(seed, max_words=max_words, words=words, rows=12)
    got = match_counts.ngram_matches(rows, 4), match_counts.common_lengths(rows), match_counts.edit_distances(rows)
    unbuilt()
    expected = match_counts.ngram_matches(rows, 4), match_counts.common_lengths(rows), match_counts.edit_distances(rows)
    for mine, theirs in zip((*got[0], *got[1:]), (*expected[0], *expected[1:])):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("seed", seeds_with_smoke(4))
def test_union_of_common_subsequences(seed: int, unbuilt: Callable[[], None]) -> None:
    rows = random_rows(seed, rows=10, max_words=9, words=4)
    ends = rows.row_starts.tolist()
    pairs = np.array(
        [[ends[r] + 1, ends[r + 1], ends[r], ends[r] + 1] for r in range(10)] + [[0, 3, 3, 6], [0, 0, 3, 6]]
    )
    got = match_counts.union_common(rows, pairs)
    unbuilt()
    assert got.tolist() == match_counts.union_common(rows, pairs).tolist()
    assert got[-1] == 0


def test_by_hand() -> None:
    texts, rows = texts_of(["kitten", "", "abc"], ["sitting", "ab", ["", "abd"]])
    letters = tokenize_rows(texts, rows, "characters")
    assert match_counts.edit_distances(letters).tolist() == [3, 2, 3, 1]
    assert match_counts.common_lengths(letters).tolist() == [4, 0, 0, 2]
    matches, clipped = match_counts.ngram_matches(letters, 2)
    assert matches.tolist() == [[4, 2], [0, 0], [0, 0], [2, 1]]
    assert clipped.tolist() == [[4, 2], [0, 0], [2, 1]]
    assert letters.prediction_lengths.tolist() == [6, 0, 3] and letters.reference_lengths.tolist() == [7, 2, 0, 3]


def test_long_texts_cross_every_word_of_bits() -> None:
    letters = string.ascii_letters * 50
    texts, rows = texts_of([letters, letters[::2]], [letters[1:] + "!", letters])
    counted = tokenize_rows(texts, rows, "characters")
    assert match_counts.common_lengths(counted).tolist() == [len(letters) - 1, len(letters) // 2]
    assert match_counts.edit_distances(counted).tolist() == [2, len(letters) // 2]


def test_no_rows() -> None:
    texts, rows = texts_of([], [])
    empty = tokenize_rows(texts, rows, "alphanumeric")
    assert len(empty) == 0 and match_counts.common_lengths(empty).shape == (0,)
    assert match_counts.ngram_matches(empty, 3).clipped.shape == (0, 3)


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ("text", ["a"], "predictions must be a sequence with one entry per row but got str"),
        (["a"], [], "references must have an entry for each of the 1 predictions but has 0"),
        (["a", 5], ["a", "b"], r"predictions\[1\] must be str but got int"),
        (["a"], [[]], r"references\[0\] must be a text or a sequence of at least one text but got \[\]"),
        (["a"], [["b", None]], r"references\[0\]\[1\] must be str but got NoneType"),
    ],
)
def test_bad_rows_are_rejected(predictions: object, references: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        texts_of(predictions, references)  # type: ignore[arg-type]
