"""Pages that follow a run in a browser: numbers and rows come without a reload, and what a person does there stays."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.going import Going, going
from tests.browser.site import NARROW, PATIENCE, Site, Tab, axe, is_marked, mark, read_again, serve, sideways


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Path, Site]]:
    store = tmp_path_factory.mktemp("live") / "store.sqlite"
    with serve(store, browser) as site:
        yield store, site


@pytest.fixture
def site(place: tuple[Path, Site]) -> Site:
    return place[1]


@pytest.fixture(scope="module")
def process(place: tuple[Path, Site]) -> Iterator[Going]:
    with going(place[0]) as found:
        yield found


@pytest.fixture
def run(process: Going) -> Going:
    """A run of the test's own; that of the test before is left."""
    process.begin()
    process.tell("rows 3")
    return process


def hurry(page: Page, css: str, words: str) -> None:
    """Lets minutes pass on the clock of a page until an element says these words."""
    end = time.monotonic() + PATIENCE / 1000
    while words not in (page.locator(css).text_content() or ""):
        assert time.monotonic() < end, f"{css} does not say {words!r}"
        page.clock.fast_forward(60_000)
        page.wait_for_timeout(50)
        page.clock.fast_forward(200)  # words that are said again are taken away for a moment


def asked_within_minutes(tab: Tab) -> int:
    """Requests of a page while minutes pass on its clock. Its own last request is seen after all earlier ones."""
    counts = []
    for n in range(3):
        with tab.page.expect_response(re.compile(f"said.js.{n}$")):
            tab.page.evaluate(f"void fetch('/static/said.js?{n}')")
        counts.append(len(tab.requests))
        tab.page.clock.fast_forward(120_000)
    return counts[-1] - counts[0] - 2


def test_bar_numbers_and_rows_come_without_a_reload(site: Site, run: Going) -> None:
    with site.tab() as tab:
        page = tab.open(f"/runs/{run.id}")
        mark(page)
        expect(page.locator("#progress")).to_contain_text("3 of 500 rows")
        expect(page.locator("tr[data-row]")).to_have_count(3)
        run.tell("rows 17")
        expect(page.locator("#progress")).to_contain_text("20 of 500 rows")
        expect(page.locator("#progress progress")).to_have_js_property("value", 20)
        expect(page.locator("tr[data-row]")).to_have_count(20)
        expect(page.locator("#cards")).to_contain_text("20 of 500 rows")
        run.tell("wait 3")
        expect(page.locator("#progress")).to_contain_text("3 requests wait for a retry: http://127.0.0.1:9/v1")
        assert is_marked(page)


def test_the_end_comes_without_a_reload(site: Site, run: Going) -> None:
    with site.tab() as tab:
        tab.page.clock.install()
        page = tab.open(f"/runs/{run.id}")
        mark(page)
        run.tell("end stopped The judge did not answer for 120 s.")
        expect(page.locator(".badge.stopped")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("The judge did not answer for 120 s.")
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        expect(page.locator("#progress")).to_be_hidden()
        expect(page.locator("#cards")).to_contain_text("95% interval")
        expect(page.locator("#said")).to_contain_text("The judge did not answer")
        assert is_marked(page) and page.locator("main").get_attribute("data-poll") is None
        assert asked_within_minutes(tab) == 0, "the page asks on after the end"


def test_what_is_typed_open_and_selected_stays(site: Site, run: Going) -> None:
    with site.tab() as tab:
        page = tab.open(f"/runs/{run.id}?open=2")
        note = page.locator("tr.detail textarea")
        note.fill("half a tho")
        note.evaluate("each => each.setSelectionRange(2, 4)")
        page.locator("#actions details.menu summary").click()
        page.get_by_text("Text comparison, 1").click()
        note.focus()
        run.tell("rows 17")
        expect(page.locator("#progress")).to_contain_text("20 of 500 rows")
        expect(page.locator("tr[data-row]")).to_have_count(20)
        assert note.input_value() == "half a tho"
        assert note.evaluate("each => document.activeElement === each && each.selectionStart + each.selectionEnd") == 6
        expect(page.locator("tr.detail")).to_be_visible()
        assert page.get_by_label("Text comparison, 1").is_checked()
        page.get_by_role("searchbox").fill("thought")
        run.tell("rows 1")
        expect(page.locator("#progress")).to_contain_text("21 of 500 rows")
        assert page.get_by_role("searchbox").input_value() == "thought"


def test_the_list_follows_runs(site: Site, run: Going) -> None:
    with site.tab() as tab:
        page = tab.open("/runs")
        mark(page)
        line = page.locator(f"#run-{run.id}")
        expect(line).to_contain_text("3 of 500 rows")
        run.tell("rows 47")
        expect(line).to_contain_text("10%, 50 of 500 rows")
        run.tell("end finished")
        expect(line.locator(".badge.finished")).to_be_visible()
        expect(line.get_by_role("checkbox")).to_be_enabled()
        assert is_marked(page)


def test_two_browsers_at_once(site: Site, run: Going) -> None:
    with site.tab() as one, site.tab(viewport=NARROW) as two:
        pages = [each.open(f"/runs/{run.id}") for each in (one, two)]
        run.tell("rows 7")
        for page in pages:
            expect(page.locator("#progress")).to_contain_text("10 of 500 rows")
        run.tell("end finished")
        for page in pages:
            expect(page.locator(".badge.finished")).to_be_visible()


def test_a_hidden_page_rests_and_a_told_one_stops(site: Site, run: Going) -> None:
    with site.tab() as tab:
        tab.page.clock.install()
        page = tab.open(f"/runs/{run.id}")
        page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        assert asked_within_minutes(tab) == 0
        page.evaluate("Object.defineProperty(document, 'hidden', {value: false})")
        with page.expect_request(f"**/runs/{run.id}"):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))")
        read_again(page)
        page.get_by_role("link", name="Stop following").click()
        expect(page.get_by_role("link", name="Follow the run again")).to_be_visible()
        page.wait_for_load_state("load")  # the scripts of this page are asked for, too
        assert asked_within_minutes(tab) == 0


def test_without_scripts_the_page_reads_itself_again(site: Site, run: Going) -> None:
    with site.tab(script=False) as tab:
        page = tab.open(f"/runs/{run.id}")
        assert page.locator("#help").is_hidden()
        run.tell("rows 7")
        expect(page.locator("#progress")).to_contain_text("10 of 500 rows")


def test_a_server_that_goes_is_told_and_found_again(site: Site, run: Going) -> None:
    with site.tab() as tab:
        tab.page.clock.install()
        page = tab.open(f"/runs/{run.id}")
        page.route(re.compile("/runs/"), lambda route: route.abort("connectionrefused"))
        hurry(page, "#said", "The server does not answer; trying again.")
        expect(page.locator("#said")).to_have_text("The server does not answer; trying again.")
        expect(page.locator("#said")).to_be_in_viewport()
        page.unroute(re.compile("/runs/"))
        run.tell("rows 7")
        hurry(page, "#progress", "10 of 500 rows")
        refused = [each for each in tab.errors if "ERR_CONNECTION_REFUSED" in each]  # by the browser itself
        assert tab.errors == refused
        tab.errors.clear()


def test_an_answer_of_another_program_takes_nothing_away(site: Site, run: Going) -> None:
    with site.tab() as tab:
        page = tab.open(f"/runs/{run.id}")
        page.route("**/runs/**", lambda route: route.fulfill(status=200, content_type="text/html", body="<p>Mine now"))
        expect(page.locator("#said")).to_have_text("The server reports an error; trying again.")
        expect(page.locator("#progress")).to_contain_text("3 of 500 rows")
        assert page.title().endswith("Studio")
        page.unroute("**/runs/**")
        expect(page.locator("#said")).to_have_text("The server answers again.")


def test_a_run_that_is_purged_meanwhile(site: Site, run: Going) -> None:
    with site.tab() as tab:
        page = tab.open(f"/runs/{run.id}")
        page.route(re.compile("/runs/"), lambda route: route.fulfill(status=404, body="<main><p>gone</p></main>"))
        expect(page.locator("#said")).to_have_text("This is no longer in the store.")
        tab.errors.clear()  # the browser's own line of the 404


@pytest.mark.parametrize("what", ["/runs", "/runs/{}", "/runs/{}/log"])
def test_looks_and_axe(site: Site, run: Going, what: str) -> None:
    run.tell("rows 17")
    run.tell("wait 3")
    with site.tab() as tab:
        page = tab.open(what.format(run.id))
        assert axe(page) == [] and sideways(page) == 0
        page.emulate_media(color_scheme="dark")
        assert axe(page, "color-contrast") == []
        page.set_viewport_size(NARROW)
        assert axe(page) == [] and sideways(page) == 0
        page.emulate_media(forced_colors="active")
        assert page.locator("#progress progress").count() == 0 or page.locator("#progress progress").is_visible()
