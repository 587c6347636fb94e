"""Links and forms whose answer is put in place: address, way back, focus, scroll, refusals, a server that is away."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.going import INFOS, score
from tests.browser.site import Site, Tab, is_marked, mark, serve
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Store

SWAP = """document.querySelectorAll('a.row, .pager a').forEach((each) => each.dataset.swap = 'table');
document.querySelectorAll('form').forEach((each) => { if (each.closest('#table')) each.dataset.swap = 'table'; });
window.mark = 1"""
"""Makes links and forms of the rows of a run answer in place, whatever the page itself does."""


NOTE = "form[data-feedback] textarea"
SLOW = """void (() => {
  const fetched = window.fetch;
  window.fetch = async (...asked) => {
    await new Promise((go) => { window.go = go; });
    return fetched(...asked);
  };
})()"""
"""Lets nothing through to the server until the test calls `go`."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Store, Site]]:
    path = tmp_path_factory.mktemp("swap") / "s.sqlite"
    with Store(path) as store, serve(path, browser) as site:
        yield store, site


@pytest.fixture
def place(served: tuple[Store, Site]) -> tuple[str, Site]:
    """A run of the test's own, and the server."""
    store, site = served
    run = store.create_run("rows", {"version": 1, "evaluators": INFOS, "data": {}})
    with run.lease():
        score(run, 1, 60)
        run.finish("finished", run_summary(run))
    return f"/runs/{run.id}", site


@pytest.fixture
def tab(place: tuple[str, Site]) -> Iterator[Tab]:
    with place[1].tab() as found:
        found.open(place[0])
        found.page.evaluate(SWAP)
        yield found


def typed(tab: Tab, text: str) -> Page:
    """The page with its second row open and a note in its form, which answers in place."""
    page = tab.page
    page.locator("#r2 a.row").click()
    expect(page.locator("#d2")).to_be_visible()
    page.evaluate(SWAP)
    page.locator(NOTE).fill(text)
    return page


def test_a_link_in_place_and_the_way_back(tab: Tab) -> None:
    page = tab.page
    link = page.locator("#r20 a.row")
    link.scroll_into_view_if_needed()
    top = link.bounding_box()
    link.click()
    expect(page.locator("#d20")).to_be_visible()
    assert "open=20" in page.url and is_marked(page)
    assert top is not None and link.bounding_box() == pytest.approx(top, abs=1)
    expect(link).to_be_focused()
    expect(link).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#said")).not_to_be_empty()
    page.go_back()
    expect(page.locator("#d20")).to_have_count(0)
    assert "open" not in page.url and is_marked(page)
    page.go_forward()
    expect(page.locator("#d20")).to_be_visible()
    page.reload()
    expect(page.locator("#d20")).to_be_visible()


def test_a_form_that_reads_sets_the_address(tab: Tab) -> None:
    page = tab.page
    page.get_by_role("searchbox").fill("What is 7")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    assert "q=What+is+7" in page.url and is_marked(page)
    assert page.get_by_role("searchbox").input_value() == "What is 7"
    page.go_back()
    expect(page.locator("tr[data-row]")).to_have_count(25)
    assert page.get_by_role("searchbox").input_value() == ""


def test_the_next_page_begins_at_its_first_row(tab: Tab) -> None:
    page = tab.page
    page.locator(".pager a", has_text="Next").click()
    expect(page.locator("#r26")).to_be_in_viewport()
    assert is_marked(page)


def test_what_is_refused_stays_as_it_was_typed(tab: Tab) -> None:
    page = typed(tab, "my key is sk-abcdefghijklmnopqrst")
    page.get_by_role("button", name=re.compile("^Save as")).click()
    expect(page.locator("#d2").get_by_role("alert")).to_contain_text("looks like a key")
    assert page.locator(NOTE).input_value().startswith("my key") and is_marked(page)
    page.locator(NOTE).fill("as I read it")
    page.get_by_role("button", name=re.compile("^Save as")).click()
    expect(page.locator("#d2")).to_contain_text("as I read it")
    expect(page.locator("#d2").get_by_role("alert")).to_have_count(0)
    assert page.locator(NOTE).input_value() == "as I read it" and is_marked(page)
    assert [each for each in tab.errors if "400" not in each] == []
    tab.errors.clear()  # the browser's own line of the refusal


def test_a_text_never_goes_over_to_another_row(tab: Tab) -> None:
    page = tab.page
    page.locator("#r2 a.row").click()
    page.locator(NOTE).fill("of the second row")
    page.evaluate(SWAP)
    page.locator("#r3 a.row").click()
    expect(page.locator("#d3")).to_be_visible()
    expect(page.locator("#d2")).to_have_count(0)
    assert page.locator(NOTE).input_value() == ""


def test_the_way_back_behind_saved_words(place: tuple[str, Site]) -> None:
    with place[1].tab() as tab:
        page = tab.open(place[0])
        mark(page)
        for number in (2, 3):
            page.locator(f"#r{number} a.row").click()
            page.locator(f"#d{number}").locator(NOTE).fill(f"of row {number}")
            page.get_by_role("button", name=re.compile("^Save as")).click()
            expect(page.locator(f"#people-{number} p").first).to_contain_text(f"of row {number}")
        page.go_back()
        expect(page.locator("tr.detail")).to_have_attribute("id", "d2")
        assert "open=2" in page.url and is_marked(page)
        page.go_back()
        expect(page.locator("tr.detail")).to_have_count(0)
        assert "open" not in page.url and is_marked(page)


def test_what_is_typed_while_the_server_works_stays(place: tuple[str, Site]) -> None:
    with place[1].tab() as tab:
        page = tab.open(f"{place[0]}?open=2")
        page.evaluate(SLOW)
        note = page.locator(NOTE)
        note.fill("first")
        page.get_by_role("button", name=re.compile("^Save as")).click()
        note.press_sequentially(" and more")
        page.evaluate("go()")
        expect(page.locator("#people-2 p").first).to_contain_text(": first")
        expect(note).to_have_value("first and more")
        page.get_by_role("button", name=re.compile("^Save as")).click()
        page.evaluate("go()")
        expect(page.get_by_role("status")).to_have_text("Saved.")
        expect(page.locator("#people-2 p").first).to_contain_text(": first and more")


def test_a_condition_that_is_refused_stays_in_its_form(place: tuple[str, Site]) -> None:
    with place[1].tab() as tab:
        page = tab.open(place[0])
        page.get_by_text("Conditions and order").click()
        page.get_by_label("Score of").select_option("gpt_fluency")
        page.get_by_label("Test").select_option("at_least")
        page.get_by_label("Value", exact=True).fill("four")
        page.get_by_role("button", name="Add condition").click()
        expect(page.locator("#rows form").get_by_role("alert")).to_contain_text("must be a number but is 'four'")
        assert page.get_by_label("Value", exact=True).input_value() == "four" and page.url.endswith(place[0])
        page.get_by_label("Value", exact=True).fill("4")
        page.get_by_role("button", name="Add condition").click()
        expect(page.locator(".chip", has_text="gpt_fluency at least 4")).to_be_visible()
        expect(page.locator("#rows form").get_by_role("alert")).to_have_count(0)
        assert [each for each in tab.errors if "400" not in each] == []
        tab.errors.clear()  # the browser's own line of the refusal


def test_a_page_that_lacks_the_part_is_opened(tab: Tab) -> None:
    page = tab.page
    page.evaluate("document.querySelector('.crumb a').dataset.swap = 'table'")
    page.locator(".crumb a").click()
    expect(page.locator("h1")).to_have_text("Evaluations")
    assert page.url.endswith("/runs")


def test_a_server_that_is_away(tab: Tab) -> None:
    page = typed(tab, "still here")
    page.route("**", lambda route: route.abort("connectionrefused"))
    page.get_by_role("button", name=re.compile("^Save as")).click()
    expect(page.locator("#d2").get_by_role("alert")).to_contain_text("The server does not answer.")
    page.locator("#r3 a.row").click()
    expect(page.locator("#said")).to_have_text("The server does not answer.")
    page.unroute("**")
    page.get_by_role("button", name=re.compile("^Save as")).click()
    expect(page.locator("#d2")).to_contain_text("still here")
    assert [each for each in tab.errors if "ERR_CONNECTION_REFUSED" not in each] == []
    tab.errors.clear()


def test_new_tab_by_ctrl_is_left_to_the_browser(tab: Tab) -> None:
    page = tab.page
    with page.context.expect_page() as opened:
        page.locator("#r2 a.row").click(modifiers=["Control"])
    expect(opened.value.locator("#d2")).to_be_visible()
    expect(page.locator("#d2")).to_have_count(0)


def test_a_copy_button(tab: Tab) -> None:
    page = tab.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("""document.querySelector('main').insertAdjacentHTML('afterbegin',
      '<pre id="text">a line</pre><button data-copy="text">Copy</button>')""")
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == "a line"


def test_a_button_is_busy_while_the_server_works(tab: Tab) -> None:
    page = tab.page
    page.evaluate("""window.sent = 0; addEventListener('submit', (event) => {
      if (!event.defaultPrevented) window.sent += 1;
      event.preventDefault();  // a page that is about to go cannot be looked at
    })""")
    button = page.get_by_role("button", name="Duplicate")
    button.click()
    expect(button).to_have_attribute("aria-busy", "true")
    expect(page.locator("#said")).to_have_text("The server works on it.")
    button.click()
    assert page.evaluate("window.sent") == 1
