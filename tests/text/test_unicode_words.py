"""Words of any script."""

from __future__ import annotations

import numpy as np
import pytest

from valor_gpu import text
from valor_gpu.text.tokens import TOKENIZERS, texts_of, tokenize_rows, unread_rows
from valor_gpu.text.unicode_words import beyond_latin, unicode_words


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ("Don't stop, a_b 3.14!", ["don", "t", "stop", "a", "b", "3", "14"]),
        ("Ünïcode cafe\u0301 İ", ["ünïcode", "café", "i̇"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("مرحبا، بالعالم!", ["مرحبا", "بالعالم"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),  # noqa: RUF001
        ("안녕 세계", ["안녕", "세계"]),
        ("今天、2024年", ["今", "天", "2024", "年"]),
        ("東京です", ["東", "京", "で", "す"]),
        ("𠀀文", ["𠀀", "文"]),
        ("ดีครับ", ["ดี", "ค", "รั", "บ"]),
        ("ok👍🏽👨\u200d👩\u200d👧❤\ufe0f", ["ok", "👍🏽", "👨\u200d👩\u200d👧", "❤\ufe0f"]),
        ("\u200d\u200c ... —", []),
        ("\ud800 x", ["x"]),
        ("", []),
    ],
)
def test_words(sample: str, words: list[str]) -> None:
    assert unicode_words(sample) == words


def test_ascii_has_the_words_of_rouge_score() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        sample = "".join(map(chr, rng.integers(0, 128, 200).tolist()))
        assert unicode_words(sample) == TOKENIZERS["alphanumeric"](sample)


@pytest.mark.parametrize(
    ("sample", "beyond"),
    [("", False), ("2024 👍", False), ("naïve", False), ("été", True), ("GPT 今天很好", True), ("GPT-4 今天", False)],
)
def test_most_letters_beyond_latin(sample: str, beyond: bool) -> None:
    assert beyond_latin(sample) is beyond


def test_rows_that_a_tokenizer_cannot_read() -> None:
    texts, rows = texts_of(["a", "тест", "a", "", "a"], ["a", "a", ["тест", "a"], "a", ["тест", "?"]])
    assert unread_rows(texts, tokenize_rows(texts, rows, "alphanumeric"), "alphanumeric") == [1, 4]
    assert unread_rows(texts, tokenize_rows(texts, rows, "unicode"), "unicode") == []
    assert unread_rows([], tokenize_rows(*texts_of([], []), "unicode"), "unicode") == []


def test_other_metrics_take_the_tokenizer_by_name() -> None:
    pair = ["今天很好"], ["今天不好"]
    assert text.edit_counts(*pair, "unicode").edits.tolist() == [1]
    assert text.gleu_scores(*pair, "unicode", 1).tolist() == [0.75]
    assert float(text.GLEU("unicode", 1)(*pair)) == 0.75
