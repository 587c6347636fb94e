"""A comparison in the browser: rows open in place, worse ones alone, words that differ, the Markdown copied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.site import NARROW, Site, axe, is_marked, mark, sideways
from valor_gpu.store import Store


@pytest.fixture(scope="module")
def address(seeded: Path) -> str:
    with Store(seeded) as store:
        ids = {head.name.split(" <")[0]: head.id for head in store.heads()}
    return f"/compare?runs={ids['Prompt one']}&runs={ids['Prompt two']}"


def test_rows_open_in_place_by_a_click_and_by_keys(site: Site, address: str) -> None:
    with site.tab() as tab:
        page = tab.open(address)
        mark(page)
        first = page.locator("tr[data-row] a.row").first
        first.click()
        expect(page.locator("tr.detail")).to_contain_text("Texts compared with")
        expect(first).to_have_attribute("aria-expanded", "true")
        assert is_marked(page) and "open=" in page.url
        page.keyboard.press("Escape")
        expect(page.locator("tr.detail")).to_have_count(0)
        page.keyboard.press("j")
        page.keyboard.press("o")
        expect(page.locator("tr.open.here")).to_have_count(1)
        page.get_by_role("link", name="side by side").click()
        expect(page.locator("tr.detail b[aria-current=true]").last).to_have_text("side by side")
        assert is_marked(page)
        page.go_back()
        expect(page.locator("tr.detail b[aria-current=true]").last).to_have_text("in one")


@pytest.mark.parametrize("script", [True, False])
def test_rows_that_got_worse_alone(site: Site, address: str, script: bool) -> None:
    with site.tab(script=script) as tab:
        page = tab.open(address)
        page.locator("select[name=kind]").select_option("worse")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator("nav.pager, #rows .empty")).to_contain_text(re.compile("Rows 1 to|No row"))
        expect(page).to_have_url(re.compile("kind=worse"))
        chips = page.locator("tr[data-row] .chip.leads")
        assert chips.count() > 0
        assert all(text.endswith("worse") for text in chips.all_inner_texts())


def test_the_markdown_is_copied(site: Site, address: str) -> None:
    with site.tab(permissions=["clipboard-read", "clipboard-write"]) as tab:
        page = tab.open(address)
        page.get_by_role("button", name="Copy").click()
        expect(page.locator("#said")).to_have_text("Copied.")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("### Prompt two") and "| <code>mean_f1_score</code> |" in copied
        assert copied.strip() == (page.locator("#markdown").text_content() or "").strip()


def test_words_that_differ_are_marked_without_colour(site: Site, address: str) -> None:
    """Lines through and under words stay in forced colours; readers hear signs."""
    with site.tab(forced_colors="active") as tab:
        page = tab.open(address)
        page.evaluate("document.querySelector('#rows').innerHTML = '<p><del>old</del><ins>new</ins></p>'")
        style = "(node, part) => getComputedStyle(node, part)"
        assert "line-through" in page.locator("del").evaluate(f"node => ({style})(node).textDecorationLine")
        assert "underline" in page.locator("ins").evaluate(f"node => ({style})(node).textDecorationLine")
        assert "removed" in page.locator("del").evaluate(f"node => ({style})(node, '::before').content")
        assert "added" in page.locator("ins").evaluate(f"node => ({style})(node, '::before').content")


@pytest.mark.parametrize("view", ["", "&view=split"])
def test_an_open_row_is_sound(site: Site, address: str, view: str) -> None:
    with site.tab() as tab:
        page = tab.open(f"{address}&jailbreak=1&all=1")
        number = (page.locator("tr[data-row]").first.get_attribute("id") or "").removeprefix("r")
        page = tab.open(f"{address}&jailbreak=1&all=1&open={number}{view}")
        expect(page.locator("tr.detail")).to_have_count(1)
        assert axe(page) == []
        page.emulate_media(color_scheme="dark")
        assert axe(page) == []
        page.set_viewport_size(NARROW)
        assert sideways(page) == 0
