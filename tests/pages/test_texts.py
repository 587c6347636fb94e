"""Whatever a text holds, a page shows it, and shows nothing else."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from valor_gpu.pages import Html, cut, escape, visible
from valor_gpu.pages.numbers import amount, count, difference, duration, number, p_value, percent, span


def test_no_character_that_steers_a_page_is_left() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = visible(every)
    shown.encode()
    left = {sign for sign in shown if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")}
    assert left == {"\n", "\t"}
    steering = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert steering.isdisjoint(unicodedata.bidirectional(sign) for sign in shown)


def test_scripts_joiners_and_emoji_stay() -> None:
    text = "مرحبا\u200f नमस्ते क्\u200dष 👩\u200d🚀 ﬁ\u00ad"
    assert visible(text) == text


def test_escaped_text_leaves_neither_element_nor_attribute() -> None:
    assert escape("<script>'\"&") == "&lt;script&gt;&#x27;&quot;&amp;"
    assert escape(Html("<b>")) == "<b>" and escape(3) == "3"


def test_a_cut_says_how_much_is_left_out() -> None:
    assert cut("\x00" * 1_000_000, 4) == ("␀␀␀␀", 999_996)
    assert cut("short", 5) == ("short", 0)


@pytest.mark.parametrize("show", [number, count, percent, difference, p_value, amount, duration])
def test_what_does_not_exist_is_a_middle_dot(show: object) -> None:
    assert callable(show) and show(None) == "·"
    assert show is count or show(float("nan")) == "·"


def test_intervals_and_signs() -> None:
    assert span(-0.5, 0.25, 1) == "\u22120.5 to 0.2"
    assert [difference(value, 1) for value in (-0.04, 0.04, 0.05000001, -0.06)] == ["0.0", "0.0", "+0.1", "\u22120.1"]
    assert [p_value(value) for value in (0.1, 0.0999, 0.047, 0.001, 0.00099, 1)] == [
        "0.10", "0.100", "0.047", "0.0010", "< 0.001", "1.00",
    ]  # fmt: skip
    assert [duration(value) for value in (0, 9.96, 59.7, 3599.9, 86400)] == [
        "0.0 s", "10.0 s", "1 min 0 s", "1 h 0 min", "24 h 0 min",
    ]  # fmt: skip
