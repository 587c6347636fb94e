"""Every page: wide and narrow, light and dark, on paper, by keyboard, and with hostile texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.going import going
from tests.browser.seed import MARKUP
from tests.browser.site import Site, Tab, axe, serve, sideways
from valor_gpu.store import Store


@pytest.fixture(scope="module")
def runs(seeded: Path) -> dict[str, str]:
    """Ids by the first word of their names: ``Prompt one`` comes as ``one``."""
    with Store(seeded) as store:
        return {
            head.name.split()[1] if head.name.startswith("Prompt") else head.name: head.id for head in store.heads()
        }


PAGES: dict[str, Callable[[dict[str, str]], str]] = {
    "runs": lambda ids: "/runs",
    "no run": lambda ids: "/runs?q=nothing-like-this",
    "run": lambda ids: f"/runs/{ids['two']}",
    "safety": lambda ids: f"/runs/{ids['one']}?level=Low",
    "open row": lambda ids: f"/runs/{ids['one']}?open=2",
    "no row": lambda ids: f"/runs/{ids['one']}?q=nothing-like-this",
    "conversation": lambda ids: f"/runs/{ids['Conversations']}?open=1",
    "stopped": lambda ids: f"/runs/{ids['Stopped early']}",
    "row": lambda ids: f"/runs/{ids['two']}/rows/10",
    "compare": lambda ids: f"/compare?runs={ids['one']}&runs={ids['two']}",
    "vision comparison": lambda ids: f"/compare?runs={ids['Boxes']}&runs={ids['Moved']}",
    "compare three": lambda ids: f"/compare?runs={ids['one']}&runs={ids['two']}&runs={ids['three']}&open=2",
    "open change": lambda ids: f"/compare?runs={ids['one']}&runs={ids['two']}&open=10",
    "conditions": lambda ids: f"/runs/{ids['two']}?if=gpt_relevance:at_least:3&if=violence:at_most:2&sort=-violence",
    "traces of a row": lambda ids: f"/runs/{ids['two']}/rows/10?trace=gpt_groundedness",
    "label queue": lambda ids: f"/runs/{ids['two']}/label?of=gpt_relevance&order=random&seed=3",
    "lowest scores to label": lambda ids: f"/runs/{ids['two']}/label?of=violence&order=lowest&show=1",
    "compare choice": lambda ids: f"/compare?runs={ids['one']}",
    "metric": lambda ids: "/metrics/gpt_groundedness",
    "vision": lambda ids: f"/runs/{ids['Shelves']}/vision?sort=-map",
    "image": lambda ids: f"/runs/{ids['Shelves']}/image/3",
    "severity": lambda ids: "/metrics/severity",
    "evaluators": lambda ids: "/evaluators",
    "judged evaluator": lambda ids: "/evaluators/gpt_groundedness",
    "computed evaluator": lambda ids: f"/evaluators/f1_score?run={ids['one']}&row=1",
    "clone": lambda ids: "/evaluators/gpt_groundedness/clone",
    "data sets": lambda ids: "/datasets",
    "trend of epochs": lambda ids: "/trend?metric=map&by=model",
    "points of two metrics": lambda ids: f"/runs/{ids['two']}/scatter?x=f1_score&y=gpt_relevance",
    "targets": lambda ids: "/targets",
}


LIVE: dict[str, Callable[[str], str]] = {
    "runs that go on": lambda run: "/runs",
    "run that goes on": lambda run: f"/runs/{run}",
    "open row of a run that goes on": lambda run: f"/runs/{run}?open=2",
    "log": lambda run: f"/runs/{run}/log",
}


@pytest.fixture(scope="module")
def tab(site: Site) -> Iterator[Tab]:
    with site.tab() as found:
        yield found


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Tab, str]]:
    """A page of a server with a run that goes on, whose judge is in trouble, and the run."""
    store = tmp_path_factory.mktemp("live") / "store.sqlite"
    with serve(store, browser) as site, going(store) as run:
        run.tell("rows 30")
        run.tell("wait 3")
        store.with_name(f"{store.name}.{run.id}.log").write_text(f"2026-11-27 21:00:00 goes on\n{MARKUP}\n" * 60)
        with site.tab() as found:
            yield found, run.id


@pytest.fixture
def shown(request: pytest.FixtureRequest, name: str) -> tuple[Tab, str]:
    """The page of a name: a tab of its server, and its address."""
    if name in LIVE:
        tab, run = request.getfixturevalue("live")
        return tab, LIVE[name](run)
    return request.getfixturevalue("tab"), PAGES[name](request.getfixturevalue("runs"))


WIDTHS = (390, 768, 1024, 1440)
SCHEMES = ("light", "dark")
MOST_TABS = 6
SPACED = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: 0.12em !important; }
    * { word-spacing: 0.16em !important; } p { margin-bottom: 2em !important; }`);
  document.adoptedStyleSheets = [sheet];
}"""
CLIPPED = """() => [...document.querySelectorAll('main *')].filter((each) => {
  const style = getComputedStyle(each);
  const cut = (overflow) => overflow === 'hidden' || overflow === 'clip';
  if (!each.textContent.trim() || !each.checkVisibility() || each.clientWidth < 3) return false;
  if (each.matches('.clip')) return false;  // one line of a text; the open row has all of it
  return (cut(style.overflowX) && each.scrollWidth > each.clientWidth + 1)
    || (cut(style.overflowY) && each.scrollHeight > each.clientHeight + 1);
}).map((each) => each.outerHTML.slice(0, 100))"""
FIRST_ROW = """() => {
  const here = document.activeElement;
  const row = here.closest('tbody tr');
  return row ? row === row.parentElement.querySelector('tr') : null;
}"""


def settled(tab: Tab, path: str) -> Page:
    """The page of an address, when nothing is worked out for it in the background any more."""
    page = tab.open(path)
    if "/compare" in path:
        page.locator("main:not([data-poll])").wait_for(timeout=120_000)
    return page


def width(page: Page, pixels: int) -> Page:
    page.set_viewport_size({"width": pixels, "height": 900})
    return page


@pytest.mark.parametrize("name", [*PAGES, *LIVE])
def test_looks_and_axe(shown: tuple[Tab, str]) -> None:
    tab, path = shown
    page = settled(tab, path)
    assert axe(width(page, 1440)) == []
    assert [sideways(width(page, pixels)) for pixels in (320, *WIDTHS)] == [0] * 5
    page.emulate_media(color_scheme="dark")
    assert axe(page, "color-contrast") == [], "dark"
    assert axe(width(page, 390)) == [], "dark and narrow"
    page.emulate_media(color_scheme="light")
    assert page.title().endswith("Studio"), "a text became a script"
    tab.check()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, *LIVE])
def test_axe_at_every_width_in_both_colours(shown: tuple[Tab, str]) -> None:
    page = settled(*shown)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for pixels in WIDTHS:
            assert axe(width(page, pixels)) == [], (scheme, pixels)
    page.emulate_media(color_scheme="light")


UNSEEN = """() => {
  const shapes = document.querySelectorAll('main svg:not(.icon) :is(rect, path, line, circle):not(.place)');
  const canvas = getComputedStyle(document.body).backgroundColor;
  const none = (colour) => colour === 'none' || colour === canvas || colour.endsWith(', 0)');
  return [...shapes].filter((each) => {
    const style = getComputedStyle(each);
    return each.checkVisibility() && none(style.fill) && none(style.stroke);
  }).map((each) => each.outerHTML.slice(0, 100));
}"""
"""Shapes of charts in the colour of the page. Icons stand beside words; places of links are unseen."""
TEXTS = ["runs", "open row", "compare"]


@pytest.mark.parametrize("name", TEXTS)
def test_wider_letters_and_lines_hide_nothing(tab: Tab, runs: dict[str, str], name: str) -> None:
    page = settled(tab, PAGES[name](runs))
    for pixels in (390, 1440):
        before = width(page, pixels).evaluate(CLIPPED)
        page.evaluate(SPACED)
        assert sideways(page) == 0, pixels
        assert [each for each in page.evaluate(CLIPPED) if each not in before] == [], pixels
        page.evaluate("document.adoptedStyleSheets = []")


@pytest.mark.parametrize("name", TEXTS)
def test_twice_as_large(site: Site, runs: dict[str, str], name: str) -> None:
    with site.tab(viewport={"width": 640, "height": 450}, device_scale_factor=2) as large:
        page = settled(large, PAGES[name](runs))
        assert sideways(page) == 0
        assert axe(page) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", TEXTS)
def test_colours_of_the_reader(site: Site, runs: dict[str, str], name: str, scheme: str) -> None:
    with site.tab(forced_colors="active", color_scheme=scheme) as forced:
        # axe takes the page's own colours for those of the letters here, where the browser has replaced them.
        assert settled(forced, PAGES[name](runs)).evaluate(UNSEEN) == []


@pytest.mark.parametrize("name", TEXTS)
def test_six_tabs_lead_to_the_first_row(tab: Tab, runs: dict[str, str], name: str) -> None:
    page = width(settled(tab, PAGES[name](runs).split("?open")[0]), 1280)
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        here = page.evaluate(FIRST_ROW)
        assert here is not False, "the first row was left out"
        if here:
            return
        words = page.evaluate("document.activeElement.matches('.skip') && document.activeElement.textContent")
        if words and re.search("rows|runs", words):
            page.keyboard.press("Enter")
    pytest.fail(f"the first row is not reached by {MOST_TABS} tabs")


FOCUSABLE = """() => {
  const all = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const seen = (each) => each.checkVisibility({visibilityProperty: true}) && !each.disabled && each.tabIndex >= 0;
  const radios = new Set();
  return [...document.querySelectorAll(all)].filter(seen).filter((each) => {
    if (each.type !== 'radio') return true;  // a group is one stop, arrows go on in it
    if (radios.has(each.form + each.name)) return false;
    return radios.add(each.form + each.name);
  }).length;
}"""
STEP = """() => {
  const here = document.activeElement;
  if (here === document.body) return null;
  window.stops = window.stops || [];
  if (window.stops.includes(here)) return null;
  window.stops.push(here);
  const box = here.getBoundingClientRect();
  return [here.outerHTML.slice(0, 120), box.width > 0 && box.height > 0];
}"""


def stops(page: Page, most: int = 400) -> list[tuple[str, bool]]:
    """What the tab key reaches: the start of its markup, and whether it takes room."""
    found = []
    for _ in range(most):
        page.keyboard.press("Tab")
        here = page.evaluate(STEP)
        if here is None:
            break
        found.append(tuple(here))
    return found


@pytest.mark.parametrize("name", ["runs", "open row", "compare", "vision comparison", "compare choice"])
def test_tab_key_reaches_every_control(tab: Tab, runs: dict[str, str], name: str) -> None:
    page = tab.open(PAGES[name](runs))
    found = stops(page)
    assert len(found) == page.evaluate(FOCUSABLE)
    assert all(room for _, room in found), found


def test_skip_link_leads_to_the_content(tab: Tab) -> None:
    page = tab.open("/runs")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")


def test_menus_open_and_close_by_keyboard(tab: Tab) -> None:
    page = tab.open("/runs")
    menu = page.locator("details.menu").first
    menu.locator("summary").focus()
    page.keyboard.press("Enter")
    assert menu.get_attribute("open") is not None
    page.keyboard.press("Escape")
    assert menu.get_attribute("open") is None


def test_tabs_by_arrow_keys(tab: Tab, runs: dict[str, str]) -> None:
    page = tab.open(PAGES["run"](runs))
    shown = page.locator(".tabs > .tab:visible h2")
    first = shown.inner_text()
    page.locator(".tabs > input").first.focus()
    page.keyboard.press("ArrowRight")
    assert shown.count() == 1 and shown.inner_text() != first


def test_paper_has_every_tab_and_no_controls(tab: Tab, runs: dict[str, str]) -> None:
    page = tab.open(PAGES["run"](runs))
    page.emulate_media(media="print", color_scheme="dark")
    try:
        tabs = page.locator(".tabs > .tab")
        seen = [each.is_visible() for each in tabs.all()]
        controls = page.locator("button:visible, select:visible, .tabs > label:visible").all()
        left = [each.evaluate("(it) => it.outerHTML") for each in controls]
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    finally:
        page.emulate_media(media="screen", color_scheme="light")
    assert len(seen) >= 3 and all(seen) and left == []
    assert paper in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"), "dark colours on paper"


def test_markup_of_others_stays_text(tab: Tab, runs: dict[str, str]) -> None:
    for path in (f"/runs/{runs['two']}?open=10", f"/runs/{runs['two']}/rows/10", "/runs"):
        page = tab.open(path)
        assert "<script>" in page.locator("main").inner_text()
        assert page.locator("main script, main img").count() == 0
        assert page.title() != "taken"


def test_without_the_cookie_nothing_is_shown(site: Site) -> None:
    context = site.browser.new_context()
    answer = context.new_page().goto(site.root + "/runs")
    assert answer is not None and answer.status == 403
    context.close()


SMALL = """() => {
  const line = document.createElement('div');  // parts of main stand far from each other
  for (const words of ['a', 'b', 'c']) {
    const button = document.createElement('button');
    button.textContent = words;
    button.style.cssText = 'all: unset; display: inline-block; font-size: 8px; line-height: 8px';
    line.append(button);
  }
  document.querySelector('main').append(line);
}"""


def test_axe_looks_at_the_size_of_targets(tab: Tab) -> None:
    page = tab.open("/targets")
    page.evaluate(SMALL)
    assert [found.split(":")[0] for found in axe(page)] == ["target-size"]


def test_axe_and_the_width_can_fail(tab: Tab) -> None:
    page = tab.open("/runs")
    page.evaluate("document.documentElement.removeAttribute('lang'); document.body.style.minWidth = '2000px'")
    assert [found.split(":")[0] for found in axe(page)] == ["html-has-lang"]
    assert sideways(page) > 0


WRAPPED = """() => [...document.querySelectorAll('#runs thead th > a, #rows thead th > a')].flatMap((head) => {
  const found = [];
  const walk = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
  while (walk.nextNode())
    for (const word of walk.currentNode.data.matchAll(/[^\\s_]+/g)) {
      const range = document.createRange();
      range.setStart(walk.currentNode, word.index);
      range.setEnd(walk.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size > 1) found.push(word[0]);
    }
  return found;
})"""
"""Words of heads of columns that go on in the next line."""


@pytest.mark.parametrize("name", ["runs", "open row"])
def test_words_of_heads_are_not_broken(tab: Tab, runs: dict[str, str], name: str) -> None:
    page = settled(tab, PAGES[name](runs))
    assert page.locator("thead th > a").count() > 2
    for pixels in (320, *WIDTHS):
        assert width(page, pixels).evaluate(WRAPPED) == [], pixels
        assert sideways(page) == 0
