"""The whole way of a user, with scripts and without: a new evaluation, its progress, rows, evaluators, a comparison."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.judges import MOST_SECONDS
from tests.browser.site import NARROW, WIDE, Site, Tab, axe, serve, sideways
from tests.judge.server import ChatServer, Request

ROWS = 16
SCRIPT = "<script>document.title='taken'</script>"
FREE = 10
"""Requests that the judge answers at once; the others wait until the test has seen the run going on."""


@dataclass
class Judge:
    """Rates by rule: 5 for a short answer, 2 for a long one; severities 0 and 4."""

    gate: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: Request) -> str:
        if request.number >= FREE:
            self.gate.wait(MOST_SECONDS)
        text = json.dumps(request.body)
        high, low = (4, 0) if "violen" in text.lower() else (2, 5)
        return json.dumps({"reason": f"By length. {SCRIPT}", "score": high if "long answer" in text else low})


def table() -> bytes:
    """The upload: of every third row the first answer is long, of every other row the second."""
    said = io.StringIO()
    writer = csv.writer(said)
    writer.writerow(["question", "passages", "answer", "second_answer", "ground_truth"])
    for n in range(1, ROWS + 1):
        answers = [f"a long answer {n} {SCRIPT}" if n % each == 0 else f"short {n}" for each in (3, 2)]
        writer.writerow([f"What is {n}?", f"It is {n}.", *answers, f"short {n}"])
    return said.getvalue().encode()


@dataclass
class Walk:
    """A server with a judge of ours, in a store of its own."""

    site: Site
    server: ChatServer
    judge: Judge


@pytest.fixture
def walk(tmp_path: Path, browser: Browser) -> Iterator[Walk]:
    judge = Judge()
    with ChatServer(judge) as server:
        said = {"model": "stub", "base_url": server.url, "api_key_env": "WALK_KEY"}
        registry = tmp_path / "studio.json"
        registry.write_text(json.dumps({"judges": {"ours": said}}))
        store = tmp_path / "store.sqlite"
        with serve(store, browser, "--registry", str(registry), WALK_KEY="a-word-for-tests") as site:
            yield Walk(site, server, judge)
        judge.gate.set()


@pytest.mark.parametrize(
    "script", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["with scripts", "without scripts"]
)
def test_the_whole_way(walk: Walk, script: bool) -> None:
    with walk.site.tab(script=script) as tab:
        begin(tab)
    with walk.site.tab(script=script) as tab:  # the browser was closed in between: the draft is there
        tab.open("/new")
        tab.page.get_by_role("link", name="walk one").click()
        first = finish(tab, walk)
        rows_of(tab)
        threshold(tab, walk)
        second = again(tab)
        compare(tab, first, second)
        evaluators(tab)
        look(tab)


def looks(tab: Tab) -> None:
    """What axe and both widths say of a page that only a walk leads to; the walk with scripts suffices."""
    if not tab.script:
        return
    page = tab.page
    assert axe(page) == [] and sideways(page) == 0, page.url
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    assert axe(page, "color-contrast") == [] and sideways(page) == 0, page.url
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)


def press(page: Page, words: str) -> None:
    page.get_by_role("button", name=words, exact=True).click()


def begin(tab: Tab) -> None:
    """Basics, an upload, and a field that no column has by name."""
    page = tab.open("/runs")
    page.get_by_role("link", name="New evaluation").click()
    looks(tab)
    page.get_by_label("Name, optional").fill("walk one")
    page.locator("input[name=scenario][value=context]").check()
    press(page, "Continue to data")
    page.locator("input[type=file]").set_input_files({"name": "../walk.csv", "mimeType": "text/csv", "buffer": table()})
    press(page, "Load")
    expect(page.locator("main")).to_contain_text(re.compile(f"{ROWS} . 5"))
    expect(page.locator("main")).to_contain_text("context is not mapped")
    press(page, "Use passages")
    expect(page.locator("main")).not_to_contain_text("context is not mapped")
    looks(tab)


def finish(tab: Tab, walk: Walk) -> str:
    """Metrics, cost, connection, review, submission; the run is seen going on and ending. Returns its address."""
    page = tab.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Metrics and judge")  # where the draft goes on
    for name in ("gpt_groundedness", "violence", "f1_score"):
        page.locator(f'input[name=metric][value="{name}"]').check()
    page.get_by_label("Registered judge").select_option("ours")
    press(page, "Estimate again")
    expect(page.get_by_label("Cost before anything is spent")).to_contain_text(f"Judge calls{2 * ROWS}")
    assert walk.server.requests == [], "an estimate asks nobody"
    press(page, "Test connection")
    expect(page.get_by_role("status")).to_contain_text("rating")
    assert len(walk.server.requests) == 1
    looks(tab)
    press(page, "Continue to review")
    expect(page.locator("main")).to_contain_text("127.0.0.1")
    looks(tab)
    press(page, "Submit evaluation")
    expect(page.locator(".badge.running")).to_be_visible()
    address = page.url.removeprefix(tab.root)
    tab.open("/runs")
    expect(page.locator(".badge.running")).to_be_visible()
    tab.open(address)
    walk.judge.gate.set()
    expect(page.locator(".badge.finished")).to_be_visible()  # the page reads itself again
    assert len(walk.server.requests) == 1 + 2 * ROWS
    expect(page.locator("dl.facts").first).to_contain_text("walk.csv,")
    return address


def rows_of(tab: Tab) -> None:
    """A search, an open row, its reasons, a person's score."""
    page = tab.page
    page.get_by_label("Search all texts of rows").fill("long answer")
    page.get_by_role("form", name="Filter rows").get_by_role("button", name="Search").click()
    found = [n for n in range(1, ROWS + 1) if n % 3 == 0 or n % 2 == 0]  # of both columns of answers
    expect(page.locator("tbody tr[id]")).to_have_count(len(found))
    page.locator("tbody tr[id] a.row").first.click()
    expect(page.locator("tr.detail")).to_contain_text(f"By length. {SCRIPT}")
    page.locator("tr.detail").get_by_label("4", exact=True).check()
    page.locator("tr.detail").get_by_label("Note").fill("as I read it")
    page.get_by_role("button", name=re.compile("^Save as")).click()
    expect(page.locator("tr.detail")).to_contain_text("as I read it")


def threshold(tab: Tab, walk: Walk) -> None:
    """Another threshold counts the stored severities again and asks nobody."""
    page, asked = tab.page, len(walk.server.requests)
    page.get_by_text("Risk and safety, 1").click()
    expect(page.locator("main")).to_contain_text(f"31.2% defects, {ROWS // 3} of {ROWS} rows")
    page.locator(".seg").get_by_text("High").click()
    press(page, "Count again")
    expect(page.locator("main")).to_contain_text(f"0.0% defects, 0 of {ROWS} rows")
    assert len(walk.server.requests) == asked


def again(tab: Tab) -> str:
    """The same evaluation of the other column; returns the address of its run."""
    page = tab.page
    press(page, "Duplicate")
    page.get_by_role("link", name="Change basics").click()
    page.get_by_label("Name, optional").fill("walk two")
    press(page, "Continue to data")
    page.locator("#map-answer").select_option("${data.second_answer}")
    press(page, "Continue to metrics")
    press(page, "Continue to review")
    press(page, "Submit evaluation")
    expect(page.locator(".badge.finished")).to_be_visible()
    expect(page.locator("h1")).to_have_text("walk two")
    return page.url.removeprefix(tab.root)


def compare(tab: Tab, first: str, second: str) -> None:
    """Both runs, chosen in the list; the older one is the baseline."""
    page = tab.open("/runs")
    expect(page.locator("main table")).to_contain_text("walk.csv")
    for box in page.get_by_role("checkbox", name=re.compile("^Select walk")).all():
        box.check()
    press(page, "Compare selected")
    expect(page.locator("h1")).to_have_text("walk two against walk one")
    expect(page.locator("main")).to_contain_text(f"{ROWS} rows joined by key")
    expect(page.locator("main")).to_contain_text("${data.second_answer}")
    assert first.rsplit("/", 1)[-1] in page.url and second.rsplit("/", 1)[-1] in page.url


def evaluators(tab: Tab) -> None:
    """A clone, a second version, the difference, the first version restored, a trial."""
    page = tab.open("/evaluators")
    page.get_by_role("link", name="gpt_groundedness").first.click()
    page.get_by_role("link", name="Clone").click()
    page.get_by_label("Name of the new evaluator").fill("grounded")
    press(page, "Clone and edit")
    prompt = page.locator("textarea[name=prompt]")
    looks(tab)
    prompt.fill(prompt.input_value() + "\nRate the last sentence alone.")
    page.get_by_label("What is new in this version").fill("last sentence")
    press(page, "Save version 2")
    press(page, "Show difference")
    expect(page.get_by_label("Difference of version 1 to 2")).to_contain_text("Rate the last sentence alone.")
    looks(tab)
    press(page, "Restore as 3")
    expect(page.locator("main")).to_contain_text("Version")
    tab.open("/evaluators/grounded/versions?from=1&to=3")
    expect(page.locator("main")).to_contain_text("The contents are the same")
    tab.open("/evaluators/grounded")
    for label in page.locator("#try textarea").all():
        label.fill("It is so.")
    press(page, "Ask the judge")
    expect(page.locator("#try")).to_contain_text("of 5")


def look(tab: Tab) -> None:
    """The page of the uploaded data."""
    page = tab.open("/datasets")
    expect(page.locator("main")).to_contain_text("walk.csv")
    page.locator("main table a").first.click()
    looks(tab)
    assert page.title() != "taken"
