"""Splitting and statistics of texts: the native library against the definitions, and both against hand counts."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.text import statistics
from valor_gpu.text.words import SPLITTERS, Rows, split_rows, texts_of, word_rows

TEXTS = st.text(st.sampled_from("aAb Z9_$.,-\n\t\x1céßK語"), max_size=12)


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    yield lambda: monkeypatch.setattr(native, "available", lambda name: False)


def random_rows(seed: int, rows: int = 40, most: int = 30, words: int = 6, references: int = 3) -> Rows:
    rng = random.Random(seed)
    texts = [[str(rng.randrange(words)) for _ in range(rng.randrange(most + 1))] for _ in range(rows * 4)]
    firsts = np.cumsum([0, *(1 + rng.randint(1, references) for _ in range(rows))], dtype=np.int64)
    return word_rows(texts[: firsts[-1]], firsts)


def words_by_id(rows: Rows, t: int) -> list[int]:
    return rows.ids[rows.starts[t] : rows.starts[t] + rows.lengths[t]].tolist()


@pytest.mark.smoke
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_native_splitting_is_that_of_the_definition(splitter: str) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXTS, min_size=2, max_size=6))
    def check(texts: list[str]) -> None:
        rows = np.array([0, 2, len(texts)] if len(texts) > 3 else [0, len(texts)])
        got, expected = split_rows(texts, rows, splitter), split_rows(texts, rows, SPLITTERS[splitter])
        assert got.lengths.tolist() == expected.lengths.tolist()
        for t in range(len(texts)):
            assert words_by_id(got, t) == words_by_id(expected, t)

    check()


def test_every_ascii_character_is_split_as_the_definition_does() -> None:
    characters = [chr(c) for c in range(128)]
    texts = [a + b + "x" for a in characters for b in "a9_ .$"] + ["$" + c + "5.5$5 $" for c in characters]
    rows = np.array([0, len(texts)])
    for splitter, split in SPLITTERS.items():
        got, expected = split_rows(texts, rows, splitter), word_rows(map(split, texts), rows)
        for t, text in enumerate(texts):
            assert words_by_id(got, t) == words_by_id(expected, t), (splitter, text)


def test_rouge_and_bleu_words() -> None:
    assert SPLITTERS["runs"]("It's 3.14, naïve K") == ["it", "s", "3", "14", "na", "ve", "k"]
    assert SPLITTERS["clauses"]("Pay $45 (now). a_b c.d!") == ["Pay", "$45", "(now)", "a_b", "c", "d", "!"]


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(6))
def test_native_statistics_are_those_of_the_definitions(seed: int, unbuilt: Callable[[], None]) -> None:
    rows = random_rows(seed, most=(3, 30, 70, 140, 200, 64)[seed], words=(2, 6, 3, 9, 40, 200)[seed], rows=12)
    got = statistics.ngram_matches(rows, 4), statistics.common_lengths(rows), statistics.edit_distances(rows)
    unbuilt()
    expected = statistics.ngram_matches(rows, 4), statistics.common_lengths(rows), statistics.edit_distances(rows)
    for mine, theirs in zip((*got[0], *got[1:]), (*expected[0], *expected[1:])):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(4))
def test_union_of_common_subsequences(seed: int, unbuilt: Callable[[], None]) -> None:
    rows = random_rows(seed, rows=10, most=9, words=4)
    ends = rows.rows.tolist()
    pairs = np.array(
        [[ends[r] + 1, ends[r + 1], ends[r], ends[r] + 1] for r in range(10)] + [[0, 3, 3, 6], [0, 0, 3, 6]]
    )
    got = statistics.union_common(rows, pairs)
    unbuilt()
    assert got.tolist() == statistics.union_common(rows, pairs).tolist()
    assert got[-1] == 0


def test_by_hand() -> None:
    texts, rows = texts_of(["kitten", "", "abc"], ["sitting", "ab", ["", "abd"]])
    letters = split_rows(texts, rows, "characters")
    assert statistics.edit_distances(letters).tolist() == [3, 2, 3, 1]
    assert statistics.common_lengths(letters).tolist() == [4, 0, 0, 2]
    matches, clipped = statistics.ngram_matches(letters, 2)
    assert matches.tolist() == [[4, 2], [0, 0], [0, 0], [2, 1]]
    assert clipped.tolist() == [[4, 2], [0, 0], [2, 1]]
    assert letters.predicted.tolist() == [6, 0, 3] and letters.true.tolist() == [7, 2, 0, 3]


def test_long_texts_cross_every_word_of_bits() -> None:
    letters = string.ascii_letters * 50
    texts, rows = texts_of([letters, letters[::2]], [letters[1:] + "!", letters])
    counted = split_rows(texts, rows, "characters")
    assert statistics.common_lengths(counted).tolist() == [len(letters) - 1, len(letters) // 2]
    assert statistics.edit_distances(counted).tolist() == [2, len(letters) // 2]


def test_no_rows() -> None:
    texts, rows = texts_of([], [])
    empty = split_rows(texts, rows, "runs")
    assert len(empty) == 0 and statistics.common_lengths(empty).shape == (0,)
    assert statistics.ngram_matches(empty, 3).clipped.shape == (0, 3)


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ("text", ["a"], "predictions must be a sequence with one entry a row but got str"),
        (["a"], [], "references must have an entry for each of the 1 predictions but has 0"),
        (["a", 5], ["a", "b"], r"predictions\[1\] must be str but got int"),
        (["a"], [[]], r"references\[0\] must be a text or a sequence of at least one text but got \[\]"),
        (["a"], [["b", None]], r"references\[0\]\[1\] must be str but got NoneType"),
    ],
)
def test_bad_rows_are_refused(predictions: object, references: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        texts_of(predictions, references)  # type: ignore[arg-type]
