"""Every page: wide and narrow, light and dark, on paper, by keyboard, and with hostile texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.site import NARROW, Site, Tab, axe, sideways
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
    "targets": lambda ids: "/targets",
}


@pytest.fixture(scope="module")
def tab(site: Site) -> Iterator[Tab]:
    with site.tab() as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
def test_looks_and_axe(tab: Tab, runs: dict[str, str], name: str) -> None:
    page = tab.open(PAGES[name](runs))
    going_on = page.locator("main[data-poll], meta[http-equiv=refresh]")  # tests in the background
    going_on.wait_for(state="detached", timeout=120_000)
    assert axe(page) == []
    assert sideways(page) == 0
    page.emulate_media(color_scheme="dark")
    assert axe(page, "color-contrast") == [], "dark"
    page.set_viewport_size(NARROW)
    assert sideways(page) == 0, "narrow"
    assert axe(page) == [], "narrow"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.title().endswith("Studio"), "a text became a script"
    tab.check()


FOCUSABLE = """() => {
  const all = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const seen = (each) => each.checkVisibility({visibilityProperty: true}) && !each.disabled;
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
    tabs = page.locator(".tabs > .tab")
    assert tabs.count() >= 3
    assert all(each.is_visible() for each in tabs.all())
    assert page.locator("button:visible, select:visible, .tabs > label:visible").count() == 0
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(media="screen", color_scheme="light")
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


def test_axe_and_the_width_can_fail(tab: Tab) -> None:
    page = tab.open("/runs")
    page.evaluate("document.documentElement.removeAttribute('lang'); document.body.style.minWidth = '2000px'")
    assert [found.split(":")[0] for found in axe(page)] == ["html-has-lang"]
    assert sideways(page) > 0
