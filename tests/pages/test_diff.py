"""Two texts word by word."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from valor_gpu.pages.diff import MOST_PAIRS, MOST_WORDS, changed_parts, inline, side, word_diff
from valor_gpu.pages.texts import visible

WORDS = [
    "the",
    "a",
    "book",
    "loan",
    "fee",
    "café",
    "0.30",
    "猫",
    "犬が",
    "ไทย",
    "\n",
    "  ",
    "\t",
    "<b>",
    "&",
    "x\u202e",
]


@pytest.mark.parametrize(("old", "new", "shown"), [
    ("a b c", "a c", "a <del>b </del>c"),
    ("", "<b>", "<ins>&lt;b&gt;</ins>"),
    ("same\u202e", "same\u202e", "same[U+202E]"),
    ("", "", ""),
    ("It costs 0.30.", "It costs 0.50!", "It costs 0.<del>30.</del><ins>50!</ins>"),
    ("a b", "a  b", "a<del>␣</del><ins>␣␣</ins>b"),
    ("a\n\nb", "a\nb", "a<del>↵\n↵\n</del><ins>↵\n</ins>b"),
    ("a b", "a\tb", "a<del>␣</del><ins>⇥</ins>b"),
    ("私は猫が好きです。", "私は犬が好きです。", "私は<del>猫</del><ins>犬</ins>が好きです。"),
    ("ไม่มี", "ไม่ดี", "ไม่<del>มี</del><ins>ดี</ins>"),
    ("naïve cafe", "naïve café", "naïve <del>cafe</del><ins>café</ins>"),
])  # fmt: skip
def test_words_that_differ(old: str, new: str, shown: str) -> None:
    assert word_diff(old, new) == shown


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_both_texts(seed: int) -> None:
    draw = random.Random(seed)
    old = [draw.choice(WORDS) for _ in range(draw.choice([0, 1, 7, 90, 2500]))]
    new = list(old)
    for _ in range(draw.randrange(40)):
        if new and draw.random() < 0.6:
            del new[draw.randrange(len(new))]
        new.insert(draw.randrange(len(new) + 1), draw.choice(WORDS))
    for between in (" ", ""):
        texts = between.join(old), between.join(new)
        parts = changed_parts(*texts)
        assert "".join(each.old for each in parts) == visible(texts[0])
        assert "".join(each.new for each in parts) == visible(texts[1])
        kinds = [each.old == each.new for each in parts]
        assert all(one != two for one, two in pairwise(kinds)), "equal and changed parts take turns"
        assert all(each.old or each.new for each in parts)


def test_sides_have_their_own_marks() -> None:
    parts = changed_parts("no <b> loan", "no fee loan")
    assert side(parts, "old") == "no <del>&lt;b&gt;</del> loan"
    assert side(parts, "new") == "no <ins>fee</ins> loan"
    assert inline(parts) == word_diff("no <b> loan", "no fee loan")


def test_a_few_changes_of_a_long_text_are_found() -> None:
    draw = random.Random(0)
    words = [f"w{int(draw.paretovariate(0.4)) % 9000}" for _ in range(50_000)]
    changed = list(words)
    places = sorted(draw.sample(range(len(words)), 200))
    for place in places:
        changed[place] = f"changed{place}"
    parts = changed_parts(" ".join(words), " ".join(changed))
    assert all(each.compared for each in parts)
    assert re.findall(r"changed\d+", "".join(each.new for each in parts if each.old != each.new)) == [
        f"changed{place}" for place in places
    ]
    assert sum(len(each.old) for each in parts if each.old != each.new) < 20 * len(places)


def test_a_few_changes_of_few_signs_are_found() -> None:
    draw = random.Random(1)
    signs = draw.choices("日本語文字列私犬猫好", k=20_000)
    changed = list(signs)
    for place in (100, 7_000, 19_000):
        changed[place] = "新"
    parts = changed_parts("".join(signs), "".join(changed))
    assert [each.new for each in parts if each.old != each.new] == ["新"] * 3


@pytest.mark.parametrize(("old", "new"), [("a b " * 20_000, "b a c " * 17_000), (" " * 50_000, "\n" * 50_000),
                                          ("a " * (MOST_WORDS + 1), "b a " * MOST_PAIRS)])  # fmt: skip
def test_what_nothing_divides_is_one_part_that_is_not_compared(old: str, new: str) -> None:
    parts = changed_parts(old, new)
    assert "".join(each.old for each in parts) == old and "".join(each.new for each in parts) == new
    assert len(parts) <= 4
    assert any(not each.compared for each in parts) or old.isspace()
