"""Hashes of tables are those of a plain loop, free of the order of rows, and tell other data apart."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from valor_gpu.digests import COUNTS_ALONE, DataHashes, TextRows
from valor_gpu.row_digests import id_words, multiset_hash, row_hashes, text_words

MASK = (1 << 64) - 1


def plain_hash(words: list[int], seed: int) -> int:
    """One half of the hash of a row, by the definition."""
    state = seed
    for word in words:
        state = (((state ^ word) * 0x9E3779B97F4A7C15) + (state >> 29)) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def words_of(row: np.ndarray[Any, Any]) -> list[int]:
    data = row.tobytes()
    return [int.from_bytes(data[at : at + 8].ljust(8, b"\0"), "little") for at in range(0, len(data), 8)]


def table(seed: int, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {
        "box": rng.random((rows, 4)),
        "id": rng.integers(0, 9, rows),
        "bytes": rng.integers(0, 255, (rows, 23)).astype(np.uint8),
        "flag": rng.random(rows) < 0.5,
        "table": rng.integers(0, 5, (rows, 3, 3)).astype(np.int32),
    }


def test_rows_are_hashed_as_a_loop_does() -> None:
    columns = table(0, 57)
    halves = row_hashes([*columns.values()], 3, 50)
    for row in range(3, 50):
        words = [word for column in columns.values() for word in words_of(column[row])]
        expected = [plain_hash(words, seed) for seed in (0x51AFD7ED558CCD6D, 0x2545F4914F6CDD1D)]
        assert [int(half[row - 3]) for half in halves] == expected


@pytest.mark.parametrize("rows", [0, 1, 40_000])
def test_a_table_is_the_sum_of_its_rows(rows: int) -> None:
    columns = table(rows, rows)
    halves = row_hashes([*columns.values()], 0, rows)
    sums = [sum(half.tolist()) & MASK for half in halves]
    types = [(name, str(column.dtype), column.shape[1:]) for name, column in columns.items()]
    text = repr(("name", types, rows, sums, ("more", 3)))
    assert multiset_hash("name", columns, "more", 3) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rows_is_nothing_and_their_content_all(seed: int) -> None:
    columns = table(seed, 100)
    order = np.random.default_rng(seed).permutation(100)
    whole = multiset_hash("a", columns)
    assert multiset_hash("a", {name: column[order] for name, column in columns.items()}) == whole
    for name, column in columns.items():
        other = column.copy()
        other.reshape(-1).view(np.uint8)[seed] ^= 1
        assert multiset_hash("a", {**columns, name: other}) != whole
        shuffled = column[order]
        if not (shuffled == column).all():
            assert multiset_hash("a", {**columns, name: shuffled}) != whole  # rows of other pairs
    assert multiset_hash("b", columns) != whole
    assert multiset_hash("a", {name: column[:-1] for name, column in columns.items()}) != whole
    twice = {name: np.concatenate((column[:-1], column[:1])) for name, column in columns.items()}
    assert multiset_hash("a", twice) != whole


def test_texts_are_hashed_without_white_space() -> None:
    data = np.frombuffer(b'[[1, 2.5]]{"a": 3}[[1,2.5]]\n[[1,\t2.5] ]', np.uint8)
    places = np.array([[0, 10], [10, 8], [18, 9], [28, 11], [0, 0]])
    first, other, same, spaced, absent = text_words(data, places).tolist()
    assert first == same == spaced != other and absent == [0, 0]
    expected = hashlib.blake2b(b"[[1,2.5]]", digest_size=16).digest()
    assert first == [int.from_bytes(expected[:8], "little"), int.from_bytes(expected[8:], "little")]


def test_ids_that_are_texts_do_not_depend_on_their_codes() -> None:
    integers = np.array([4, 2])
    assert id_words(integers, None) is integers
    few, many = id_words(np.array([0, 1]), ["b", "d"]), id_words(np.array([1, 3]), ["a", "b", "c", "d"])
    assert few.tolist() == many.tolist() and few[0] != few[1]
    assert len(id_words(np.zeros(0, np.int64), [])) == 0


def test_rows_of_texts() -> None:
    rows = [("a cat", "the cat"), ("b", ["c", "d"]), (None, "é\ud800")]

    def hashes(given: list[Any]) -> DataHashes:
        found = TextRows()
        for row in given:
            found.add(*row)
        return found.hashes()

    whole = hashes(rows)
    assert whole.hashed == "texts" and hashes(rows[::-1]) == whole and not whole.reasons
    swapped = hashes([("b", "the cat"), ("a cat", ["c", "d"]), rows[2]])
    assert swapped.ground_truth == whole.ground_truth and swapped.predictions != whole.predictions
    assert hashes(rows[:2]).ground_truth != whole.ground_truth


def test_data_that_nobody_knows_have_a_reason() -> None:
    reasons = {"ground_truth": COUNTS_ALONE, "predictions": COUNTS_ALONE}
    assert DataHashes.none(COUNTS_ALONE) == (None, None, None, reasons)
