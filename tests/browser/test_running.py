"""What pages say while a real run goes on: a judge that is slow, fails and dies, and two people who look on."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.judges import KEY, VARIABLE, Bench, Judge, add_run, bench
from tests.browser.site import PATIENCE, Tab, read_again
from valor_gpu.store import Store

ROWS = 60
JUDGED, COMPUTED = ["gpt_coherence", "gpt_fluency"], "f1_score"
FREE = 40
"""Requests that a judge answers at once; it holds the others until the test has cancelled the run, or let it die."""
STAYS = "window.hasStayed = true"
HAS_STAYED = "window.hasStayed === true"

Start = Callable[[Judge], AbstractContextManager[Bench]]


@pytest.fixture
def start(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Serves Studio with a judge."""
    monkeypatch.setenv(VARIABLE, KEY)
    return lambda judge: bench(tmp_path, browser, judge, ROWS)


@pytest.fixture
def table(start: Start) -> Iterator[Bench]:
    """A judge without troubles that keeps every row from the thirtieth on waiting."""
    with start(Judge(stuck=range(30, ROWS + 1))) as found:
        yield found


def press(page: Page, words: str) -> None:
    page.get_by_role("button", name=words, exact=True).click()


def begin(tab: Tab, found: Bench, concurrency: int = 4) -> str:
    """Starts a prepared run from its page, which then follows it; returns its address."""
    address = f"/runs/{add_run(found, 'sixty rows', [*JUDGED, COMPUTED], concurrency)}"
    page = tab.open(address)
    press(page, "Start")
    expect(page.locator(".badge.running")).to_be_visible()
    page.evaluate(STAYS) if tab.script else None
    return address


def under_way(found: Bench, n: int = 20) -> None:
    """Waits until the judge has answered some requests."""
    end = time.monotonic() + PATIENCE / 1000
    while len(found.server.finished) < n:
        assert time.monotonic() < end, "the judge is not asked"
        time.sleep(0.02)


def kept(found: Bench) -> set[tuple[int, str]]:
    """Row and evaluator of the scores that have a value in the store."""
    with Store(found.store) as store:
        [head] = store.heads()
        return {(each.row, each.evaluator) for each in store.run(head.id).scores() if each.status == "ok"}


def asked(found: Bench) -> Counter[tuple[int, str]]:
    """Requests of each row and metric."""
    counts: Counter[tuple[int, str]] = Counter()
    for prompt, n in found.judge.asked.items():
        if row := re.search(r"#(\d+)", prompt):
            counts[int(row[1]), "gpt_coherence" if "oheren" in prompt else "gpt_fluency"] += n
    return counts


def from_the_wizard(tab: Tab, found: Bench) -> None:
    """Four pages lead to a run of two judged metrics and a computed one."""
    page = tab.open("/new")
    page.get_by_label("Name, optional").fill("sixty rows")
    press(page, "Continue to data")
    page.locator("input[type=file]").set_input_files(found.data)
    press(page, "Load")
    press(page, "Continue to metrics")
    for name in (*JUDGED, COMPUTED):
        page.locator(f'input[name=metric][value="{name}"]').check()
    page.get_by_label("Registered judge").select_option("ours")
    press(page, "Continue to review")
    press(page, "Submit evaluation")
    expect(page.locator(".badge.running")).to_be_visible()


def test_how_far_a_run_of_the_wizard_is(table: Bench) -> None:
    with table.site.tab() as tab:
        from_the_wizard(tab, table)
        page, here = tab.page, tab.page.url.removeprefix(tab.root)
        page.evaluate(STAYS)
        shown = page.get_by_role("region", name="Progress")
        expect(shown).to_contain_text(f"29 of {ROWS} rows")
        expect(shown).to_contain_text("48%")
        expect(shown.locator("progress")).to_have_attribute("value", "29")
        expect(shown).to_contain_text("8 in flight")
        expect(shown).to_contain_text(re.compile(r"[\d.]+ rows/(s|min)"))
        expect(shown).to_contain_text("left")
        expect(shown).to_contain_text("Cost so far")
        cost = page.get_by_text(re.compile(r"^1\.\d\d"))  # 200 tokens for 0.02 and 20 for 0.008 of each of 58 replies
        assert cost.count() >= 1
        expect(page.locator("tbody tr[id]").first).to_be_visible()
        expect(page.locator("tbody tr[id]")).to_have_count(25)
        expect(page.locator("#facts")).not_to_contain_text("all read")
        expect(page.locator("figure").filter(has_text="gpt_fluency")).to_contain_text(f"of {ROWS} rows")
        table.judge.released.set()
        expect(page.locator(".badge.finished")).to_be_visible()
        expect(page.locator("#facts")).to_contain_text(f"{ROWS}, all read")
        assert page.evaluate(HAS_STAYED), "the page was loaded again"
        assert asked(table) == {(row, name): 1 for row in range(1, ROWS + 1) for name in JUDGED}
        assert tab.open("/runs").locator("tbody tr").inner_text().count("48%") == 0
        assert here.startswith("/runs/")


def test_the_list_follows_a_run(table: Bench) -> None:
    with table.site.tab() as tab:
        begin(tab, table)
        page = tab.open("/runs")
        page.evaluate(STAYS)
        line = page.locator("tbody tr").filter(has_text="sixty rows")
        expect(line).to_contain_text(f"29 of {ROWS} rows")
        expect(line).to_contain_text("48%")
        expect(line.locator("progress")).to_have_attribute("value", "29")
        table.judge.released.set()
        expect(line.locator(".badge.finished")).to_be_visible()
        expect(line.locator("progress")).to_have_count(0)
        assert page.evaluate(HAS_STAYED), "the page was loaded again"


def test_without_scripts_pages_follow_a_run_too(table: Bench) -> None:
    with table.site.tab(script=False) as tab:
        address = begin(tab, table)
        shown = tab.page.get_by_role("region", name="Progress")
        expect(shown).to_contain_text(f"29 of {ROWS} rows")
        expect(tab.page.locator("tbody tr[id]")).to_have_count(25)
        tab.open("/runs")
        expect(tab.page.locator("tbody tr")).to_contain_text(f"29 of {ROWS} rows")
        tab.open(address)
        table.judge.released.set()
        expect(tab.page.locator(".badge.finished")).to_be_visible()


def test_requests_that_are_sent_again_have_their_causes(start: Start) -> None:
    judge = Judge(stumbles=[3, 9], limited=[5], stuck=[ROWS], unreadable=[11])
    with start(judge) as found, found.site.tab() as tab:
        begin(tab, found, 8)
        shown = tab.page.get_by_role("region", name="Progress")
        expect(shown).to_contain_text(f"{ROWS - 1} of {ROWS} rows")
        expect(shown).to_contain_text("6 retries so far")
        expect(shown).to_contain_text(re.compile(r"4 .*(server error|HTTP 500|error of the server)"))
        expect(shown).to_contain_text(re.compile(r"2 .*(HTTP 429|rate limited)"))
        expect(shown).to_contain_text("2 scores (parse error)")
        judge.released.set()
        expect(tab.page.locator(".badge.finished")).to_be_visible()
        expect(tab.page.locator("#causes")).to_contain_text("2 of 180 scores failed")


def test_a_judge_that_dies_and_comes_back(start: Start) -> None:
    with start(Judge(free=FREE)) as found, found.site.tab() as tab:
        begin(tab, found)
        shown = tab.page.get_by_role("region", name="Progress")
        under_way(found)
        found.server.die()
        expect(shown).to_contain_text(re.compile("requests? waits? for a retry: .*connection"))
        expect(shown).to_contain_text(re.compile(r"last \d+ m?s ago|last \d+\.\d s ago"))
        stored, before = kept(found), asked(found)
        page = tab.page
        with found.site.tab() as other:
            line = other.open("/runs").locator("tbody tr").filter(has_text="sixty rows")
            expect(line).to_contain_text("for a retry")
        found.judge.released.set()
        found.server.live()
        expect(page.locator(".badge.finished")).to_be_visible()
        assert page.evaluate(HAS_STAYED), "the page was loaded again"
        assert len(kept(found)) == ROWS * 3
        again = asked(found) - before
        assert not {pair for pair in stored if again[pair]}, "a score that is there was asked for again"


def test_a_cancelled_run_is_resumed_without_its_judge_and_with_it(start: Start) -> None:
    with start(Judge(free=FREE)) as found, found.site.tab() as tab:
        begin(tab, found)
        page = tab.page
        under_way(found)
        press(page, "Cancel")
        expect(page.locator(".badge.stopped")).to_be_visible()
        expect(page.locator("main")).to_contain_text("Cancelled in Studio.")
        found.server.die()
        press(page, "Resume")
        expect(page.locator(".badge.running")).to_be_visible()
        expect(page.locator(".badge.stopped")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("has answered nothing yet")
        expect(page.locator("#facts")).to_contain_text(re.compile(rf"\d+ of {ROWS}"))
        stored, before = kept(found), asked(found)
        assert 0 < len(stored) < 3 * ROWS
        found.judge.released.set()
        found.server.live()
        press(page, "Resume")
        expect(page.locator(".badge.finished")).to_be_visible()
        assert len(kept(found)) == ROWS * 3
        again = asked(found) - before
        assert again == {(row, name): 1 for row in range(1, ROWS + 1) for name in JUDGED if (row, name) not in stored}


@pytest.mark.slow
def test_a_run_whose_judge_stays_away_stops_by_itself(start: Start) -> None:
    with start(Judge(free=FREE)) as found, found.site.tab() as tab:
        begin(tab, found)
        page = tab.page
        shown = page.get_by_role("region", name="Progress")
        under_way(found)
        found.server.die()
        expect(shown).to_contain_text("requests wait for a retry: no connection")
        expect(shown).to_contain_text("Waiting for answers")
        expect(page.locator(".badge.stopped")).to_be_visible(timeout=240_000)
        expect(page.get_by_role("alert")).to_contain_text("connection")
        found.judge.released.set()
        found.server.live()
        press(page, "Resume")
        expect(page.locator(".badge.finished")).to_be_visible()
        assert len(kept(found)) == ROWS * 3


def test_failed_scores_are_tried_again(start: Start) -> None:
    judge = Judge(broken=[7, 41], free=0)
    with start(judge) as found, found.site.tab() as tab:
        begin(tab, found, 8)
        judge.released.set()
        page = tab.page
        expect(page.locator(".badge.finished")).to_be_visible()
        expect(page.locator("#causes")).to_contain_text("4 of 180 scores failed")
        before = asked(found)
        judge.broken = ()
        judge.released.clear()
        page.get_by_role("button", name=re.compile("^Try the 4 failed again")).first.click()
        expect(page.locator(".badge.running")).to_be_visible()
        judge.released.set()
        expect(page.locator(".badge.finished")).to_be_visible()
        expect(page.locator("#causes")).to_have_count(0)
        assert asked(found) - before == {(row, name): 1 for row in (7, 41) for name in JUDGED}
        assert len(kept(found)) == ROWS * 3


def test_two_people_at_one_run(table: Bench) -> None:
    with table.site.tab() as first, table.site.tab() as second:
        address = begin(first, table)
        watching = first.page
        expect(watching.locator("main")).to_contain_text(f"29 of {ROWS} rows")
        page = second.open(f"{address}?open=3")
        form = page.locator("tr.detail form[data-feedback]")
        form.get_by_label("Note").fill("as I read it")
        read_again(page)
        expect(form.get_by_label("Note")).to_have_value("as I read it")
        form.get_by_role("button", name=re.compile("^Save")).click()
        expect(page.locator("tr.detail")).to_contain_text("as I read it")
        table.judge.released.set()
        for each in (watching, page):
            expect(each.locator(".badge.finished")).to_be_visible()
        watching.locator("tr[id=r3] a.row").click()
        expect(watching.locator("tr.detail")).to_contain_text("as I read it")
