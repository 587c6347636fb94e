"""Rows in a browser: conditions added and taken away in place, bars by keyboard, saved views, pages without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.site import NARROW, Site, axe, copy_of, serve, sideways
from valor_gpu.store import Store


@pytest.fixture(scope="module")
def copied(seeded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of its own, since views are saved."""
    return copy_of(seeded, tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def site(copied: Path, browser: Browser) -> Iterator[Site]:
    with serve(copied, browser) as found:
        yield found


@pytest.fixture(scope="module")
def run(copied: Path) -> str:
    with Store(copied) as store:
        return f"/runs/{store.run('Prompt one').id}"


def count(page: Page) -> str:
    return page.locator("#row-count").inner_text()


def numbers(page: Page) -> list[int]:
    return [int(text) for text in page.locator("tr[data-row]").evaluate_all("rows => rows.map(r => r.dataset.row)")]


def add(page: Page, metric: str, test: str, value: str) -> None:
    if not page.locator("[name=test]").is_visible():
        page.locator("summary", has_text="Conditions and order").click()
    page.locator("[name=metric]").select_option(metric)
    page.locator("[name=test]").select_option(test)
    page.locator("[name=value]").fill(value)
    page.get_by_role("button", name="Add condition").click()


@pytest.mark.parametrize("script", [True, False])
def test_conditions_are_added_and_taken_away(site: Site, run: str, script: bool) -> None:
    with site.tab(script=script) as tab:
        page = tab.open(run)
        add(page, "gpt_groundedness", "at_least", "4")
        expect(page.locator(".chips .chip")).to_have_count(1)
        add(page, "violence", "between", "0..4")
        expect(page.locator(".chips .chip")).to_have_count(2)
        assert "that match, 40 in all" in count(page)
        loads = sum(each.split("?")[0].endswith(run) for each in tab.requests)
        page.get_by_role("link", name="Remove: gpt_groundedness at least 4").click()
        expect(page.locator(".chips .chip")).to_have_count(1)
        assert "if=violence%3Abetween%3A0..4" in page.url and "gpt_groundedness" not in page.url
        assert sum(each.split("?")[0].endswith(run) for each in tab.requests) == loads + 1
        page.go_back()
        expect(page.locator(".chips .chip")).to_have_count(2)
        if script:
            assert axe(page) == []
        add(page, "violence", "at_least", "soon")
        expect(page.get_by_text("the value of a condition must be a number but is 'soon'")).to_be_visible()
        tab.errors.clear()  # the browser reports the answer 400


def test_bars_are_reached_by_tab_and_arrows(site: Site, run: str) -> None:
    with site.tab() as tab:
        page = tab.open(run)
        bars = page.locator("[data-roving]").first.locator("a")
        assert bars.evaluate_all("bars => bars.filter(b => b.tabIndex === 0).length") == 1
        bars.first.focus()
        page.keyboard.press("End")
        expect(bars.last).to_be_focused()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        expect(bars.last).to_be_focused()
        label = bars.last.get_attribute("aria-label") or ""
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("between"))
        assert f"of {label.rpartition(': ')[2]} that match" in count(page)
        expect(page.locator("#rows")).to_be_in_viewport()


def test_bars_are_a_list_without_scripts(site: Site, run: str) -> None:
    with site.tab(script=False) as tab:
        page = tab.open(run)
        page.locator("summary", has_text="Rows behind the bars").first.click()
        link = page.locator("figure details li a").first
        label = link.inner_text()
        link.click()
        assert f"of {label.rpartition(': ')[2]} that match" in count(page)


@pytest.mark.parametrize("script", [True, False])
def test_pages_lead_forwards_and_back_and_to_a_row(site: Site, run: str, script: bool) -> None:
    with site.tab(script=script) as tab:
        page = tab.open(run)
        first = numbers(page)
        page.get_by_role("link", name="Next", exact=True).click()
        expect(page.locator("#row-count")).to_have_text("Rows 26 to 40 of 40")
        page.get_by_role("link", name="Previous", exact=True).click()
        expect(page.locator("#row-count")).to_have_text("Rows 1 to 25 of 40")
        assert numbers(page) == first
        page.get_by_label("Number", exact=True).fill("33")
        page.get_by_role("button", name="Go", exact=True).click()
        expect(page.locator("#r33")).to_be_visible()
        page.locator("#r33 a.row").click()
        expect(page.locator("#r33.open")).to_be_visible()
        assert "at=25" in page.url and "open=33" in page.url


def test_a_view_is_saved_used_renamed_and_deleted(site: Site, run: str) -> None:
    with site.tab(viewport=NARROW) as tab:
        page = tab.open(f"{run}?if=gpt_relevance:failed:&sort=-f1_score")
        shown = numbers(page)
        page.locator("summary", has_text="Views").click()
        page.get_by_label("Save this page's filters as").fill("failed <i>first</i>")
        assert sideways(page) == 0
        page.get_by_role("button", name="Save view").click()
        tab.open(run)
        page.locator("summary", has_text="Views, 1").click()
        assert axe(page) == []
        page.get_by_role("link", name="failed <i>first</i>").click()
        page.wait_for_url(re.compile("failed"))
        assert numbers(page) == shown
        page.locator("summary", has_text="Views, 1").click()
        page.locator("summary", has_text="Change").click()
        page.get_by_label("New name of failed <i>first</i>").fill("failures")
        page.get_by_role("button", name="Rename").click()
        page.locator("summary", has_text="Views, 1").click()
        expect(page.get_by_role("link", name="failures")).to_be_visible()
        page.locator("summary", has_text="Change").click()
        page.get_by_role("button", name="Delete the view failures").click()
        expect(page.locator("summary.btn", has_text="Views")).to_have_text("Views")
