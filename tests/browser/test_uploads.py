"""A large upload: its page shows how far it is read, renews itself in place, and becomes the page of the data."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.site import axe, is_marked, mark, serve

LINES = 400_000
ROWS = b"question,answer\nWhat is it?,This.\n" + b'"a"b,c\n' * LINES
"""Wrong quotes take longest: some seconds on any machine, while a page waits for one."""


def test_a_large_upload_is_followed_to_its_end(tmp_path: Path, browser: Browser) -> None:
    with serve(tmp_path / "s.sqlite", browser) as site, site.tab() as tab:
        page = tab.open("/new")
        page.get_by_role("button", name="Continue").click()
        file = {"name": "large.csv", "mimeType": "text/csv", "buffer": ROWS}
        page.locator("input[type=file]").set_input_files(file)  # type: ignore[arg-type]
        page.get_by_role("button", name="Load", exact=True).click()
        expect(page.get_by_text("large.csv is read")).to_be_visible()
        expect(page.get_by_role("progressbar")).to_be_visible()
        mark(page)
        assert axe(page) == []
        expect(page.get_by_text("First 1 of 400,001 rows")).to_be_visible()
        assert is_marked(page), "the page was read anew"
        assert axe(page) == []
        expect(page.get_by_text("400,000 rows cannot be read.")).to_be_visible()
        assert re.search(r"/drafts/\w+/data", page.url)
        page.get_by_role("button", name="Continue to metrics").click()
        expect(page.get_by_role("heading", name="Metrics and judge")).to_be_visible()
        expect(page.locator("main[data-poll]")).to_have_count(0)
