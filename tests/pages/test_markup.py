"""Elements, tables and pages of markup: escaping, headings, folds."""

from __future__ import annotations

import base64
import hashlib
import re

from valor_gpu.pages.markup import Column, folded_table, joined, page, section, table, tag
from valor_gpu.pages.texts import Html


def test_texts_are_escaped_and_markup_stays() -> None:
    assert tag("p", "<&>", Html("<b>x</b>"), 3, class_='"') == '<p class="&quot;">&lt;&amp;&gt;<b>x</b>3</p>'
    assert tag("p", "a\x00\u202e") == "<p>a␀[U+202E]</p>"
    assert tag("td", aria_label="a", tabindex=0) == '<td aria-label="a" tabindex="0"></td>'
    assert joined(["<", Html("<i>")], " & ") == "&lt; &amp; <i>"


def test_table_has_headings_and_numbers_to_the_right() -> None:
    found = table([Column("name"), Column("n", True)], [("<a>", "1,200")], "Counts")
    assert '<th scope="col" class="pin">Name</th><th scope="col" class="n">n</th>' in found
    assert '<th scope="row" class="pin">&lt;a&gt;</th><td class="n">1,200</td>' in found
    assert 'role="region" tabindex="0" aria-label="Counts"' in found


def test_long_tables_fold_and_short_ones_do_not() -> None:
    columns, rows = [Column("a")], [(str(i),) for i in range(30)]
    assert "<details>" not in folded_table(columns, rows[:12], "t", 10, "rows")
    found = folded_table(columns, rows, "t", 10, "rows")
    before, after = found.split("<details>")
    assert before.count('scope="row"') == 10 and after.count('scope="row"') == 20
    assert "<summary>20 more rows</summary>" in after


def test_page_has_a_policy_for_its_own_style_alone() -> None:
    found = page("a <b>", "brand", [("x", "X", section("x", "Part", note="n"))], Html(""), Html(""), ".a { b: c }")
    style = re.search(r"<style>(.*)</style>", found, re.DOTALL)
    assert style is not None and ".a { b: c }" in style[1]
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:" in found
    assert "<title>a &lt;b&gt;</title>" in found and '<a href="#x">X</a>' in found and 'id="x"' in found
