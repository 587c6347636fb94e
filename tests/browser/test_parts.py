"""The page of parts: axe at four widths, light and dark, on paper, and with forced colours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.site import ROOT, WIDE, Site, Tab, axe, copy_of, serve, sideways

WIDTHS = (390, 768, 1024, 1440)


@pytest.fixture(scope="module")
def site(seeded: Path, tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    store = copy_of(seeded, tmp_path_factory.mktemp("parts"))
    subprocess.run([sys.executable, "-m", "tests.browser.parts.store", str(store)], check=True, cwd=ROOT)
    with serve(store, browser, module="tests.browser.parts.serve") as found:
        yield found


@pytest.fixture(scope="module")
def tab(site: Site) -> Iterator[Tab]:
    with site.tab() as found:
        found.open("/parts")
        yield found


@pytest.fixture
def page(tab: Tab) -> Iterator[Page]:
    """The page of parts, which is read once."""
    tab.page.set_viewport_size(WIDE)
    yield tab.page
    tab.page.emulate_media(media="screen", color_scheme="light")
    tab.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing(page: Page, width: int, scheme: Literal["light", "dark"]) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    assert axe(page) == []
    assert sideways(page) == 0


def test_forced_colours_keep_texts_and_marks(site: Site) -> None:
    with site.tab(forced_colors="active") as tab:
        page = tab.open("/parts")
        assert axe(page) == [] and sideways(page) == 0
        seen = "(each) => getComputedStyle(each).stroke !== 'none'"
        assert page.locator("svg .line").first.evaluate(seen)


def test_paper_has_all_tabs_and_no_buttons(page: Page) -> None:
    page.emulate_media(media="print")
    assert page.locator("button:visible").count() == 0
    assert all(each.is_visible() for each in page.locator(".tabs > .tab").all())


def test_every_part_takes_room(page: Page) -> None:
    boxes = [each.bounding_box() for each in page.locator("main > section").all()]
    assert len(boxes) >= 8 and all(box is not None and box["height"] > 40 for box in boxes)
