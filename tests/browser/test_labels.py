"""Labels and edits in a browser: keyboard alone, in place, in two browsers at once, and without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.site import NARROW, Site, axe, serve, sideways
from valor_gpu.store import Run, Store, StoredRow, StoredScore
from valor_gpu.store.edits import edits_of
from valor_gpu.store.label_queues import label_queues

ROWS = 110
INFOS = [
    {"name": "gpt_fluency", "kind": "quality", "low": 1, "high": 5},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Store, Site]]:
    path = tmp_path_factory.mktemp("labels") / "s.sqlite"
    with Store(path) as store, serve(path, browser) as site:
        yield store, site


@pytest.fixture
def store(served: tuple[Store, Site]) -> Store:
    return served[0]


@pytest.fixture
def place(served: tuple[Store, Site]) -> Site:
    return served[1]


@pytest.fixture
def run(store: Store) -> Run:
    """A run of the test's own, without labels."""
    found = store.create_run("books", {"version": 1, "evaluators": INFOS, "data": {"source": "b.csv"}}, {"model": "a"})
    numbers = range(1, ROWS + 1)
    with found.lease():
        found.add_rows([StoredRow(n, f"k{n}", {"question": f"question {n}", "answer": "yes"}) for n in numbers])
        for name in ("gpt_fluency", "violence"):
            found.add_scores([StoredScore(n, name, 0, float(1 + n % 5), reason="as it says") for n in numbers])
        found.finish("finished", {})
    return found


def test_a_hundred_labels_in_a_row_by_keyboard_alone(store: Store, run: Run, place: Site) -> None:
    with place.tab() as tab:
        page = tab.open(f"/runs/{run.id}/label?of=gpt_fluency&seed=5")
        assert axe(page) == [] and sideways(page) == 0
        seen = []
        for done in range(100):
            expect(page.locator("#queue")).to_contain_text(f"{done} of {ROWS} labelled")
            title = page.locator("#row-title").inner_text()
            number = int(re.match(r"Row (\d+)", title)[1])  # type: ignore[index]
            seen.append(number)
            assert "as it says" not in page.locator("#queue").inner_text()
            if done % 3 == 2:
                page.keyboard.press("f" if number % 2 else "a")
            else:
                page.keyboard.press(str(1 + number % 5))
                page.keyboard.press("s")
        expect(page.locator("#queue")).to_contain_text(f"100 of {ROWS} labelled")
        expect(page.locator("#said")).to_contain_text(f"100 of {ROWS} labelled")
        assert sum("/label" in each for each in tab.requests) == 1 + 200, "one page, then a form and its answer each"
        expect(page.locator("#queue [autofocus]")).to_be_focused()
        page.keyboard.press("x")
        expect(page.locator("#row-title")).not_to_contain_text(title)
        page.keyboard.press("b")
        page.keyboard.press("b")
        expect(page.locator("#queue")).to_contain_text("Your label:")
        expect(page.locator("#queue")).to_contain_text("as it says")
    said = {each.row: each for each in run.feedback()}
    assert len(said) == 100 == len(set(seen))
    for done, number in enumerate(seen):
        expected = (None, number % 2 == 0) if done % 3 == 2 else (1 + number % 5, None)
        assert (said[number].value, said[number].passed) == expected
    [queue] = label_queues(store, run)
    assert queue.rows == tuple(seen) and (queue.order, queue.seed, queue.hidden) == ("random", 5, True)


def test_keys_pressed_ahead_of_a_slow_answer_label_the_rows_to_come(run: Run, place: Site) -> None:
    with place.tab() as tab:
        page = tab.open(f"/runs/{run.id}/label?of=gpt_fluency&order=lowest")
        held: list[Route] = []
        page.route(re.compile("/label"), lambda route: held.append(route))
        for key in ("1", "s", "2", "s", "3", "s", "b", "b"):
            page.keyboard.press(key)
        page.route(re.compile("/label"), lambda route: route.continue_())
        while not held:
            page.wait_for_timeout(10)
        assert len(held) == 1, "a key that was pressed ahead has asked the server"
        held[0].continue_()
        expect(page.locator("#queue")).to_contain_text(f"3 of {ROWS} labelled")
        expect(page.locator("#row-title")).to_contain_text("Row 10 ")
        expect(page.locator("#queue")).to_contain_text("Your label: 2")
    assert [(each.row, each.value) for each in run.feedback()] == [(5, 1.0), (10, 2.0), (15, 3.0)]


def test_the_queue_without_scripts_and_on_a_narrow_screen(run: Run, place: Site) -> None:
    with place.tab(script=False, viewport=NARROW) as tab:
        page = tab.open(f"/runs/{run.id}/label?of=violence&order=lowest")
        expect(page.locator("#row-title")).to_contain_text("Row 5")
        page.keyboard.press("ArrowRight")  # the first score has the focus
        page.keyboard.press("Enter")
        expect(page.locator("#queue")).to_contain_text(f"1 of {ROWS} labelled")
        page.get_by_role("link", name="Skip", exact=True).click()
        page.get_by_role("button", name="Fail").click()
        expect(page.locator("#queue")).to_contain_text(f"2 of {ROWS} labelled")
        expect(page.locator("#row-title")).to_contain_text("Row 20")
    assert [(each.row, each.value, each.passed) for each in run.feedback()] == [(5, 1.0, None), (15, None, False)]


def test_words_on_an_open_row_stay_in_place(run: Run, place: Site) -> None:
    with place.tab() as tab:
        page = tab.open(f"/runs/{run.id}?open=20&of=violence#r20")
        form = page.locator("#people-20")
        before = page.evaluate("scrollY")
        assert before > 0
        form.get_by_label("Note").fill("as I read it")
        form.get_by_label("4", exact=True).check()
        form.get_by_role("button", name=re.compile("^Save as")).click()
        expect(form).to_contain_text("Saved.")
        expect(form).to_contain_text("as I read it")
        expect(page.locator("#said")).to_contain_text("Saved.")
        expect(page.locator("#r20")).to_contain_text("1 said")
        assert abs(page.evaluate("scrollY") - before) < 200 and page.url.endswith("open=20&of=violence#r20")
        page.keyboard.press("f")
        expect(form.get_by_role("button", name="Fail", exact=True)).to_have_attribute("aria-pressed", "true")
        form.get_by_label("Note").fill("password: abcdefghijklmnopqrst")
        form.get_by_role("button", name=re.compile("^Save as")).click()
        expect(form.locator("[data-refused]")).to_contain_text("looks like a key")
        expect(form.get_by_label("Note")).to_have_value("password: abcdefghijklmnopqrst")
        tab.errors.clear()  # the refused form, which the console names
        form.get_by_role("button", name="Delete my words").click()
        expect(form).to_contain_text("Taken back.")
        assert axe(page) == []
    assert run.feedback() == []


def test_two_browsers_at_once(run: Run, place: Site) -> None:
    with place.tab() as first, place.tab() as second:
        pages = [tab.open(f"/runs/{run.id}/rows/3?of=gpt_fluency") for tab in (first, second)]
        for value, page in zip("24", pages):
            page.locator("#people-3").get_by_label(value, exact=True).check()
            page.get_by_role("button", name=re.compile("^Save as")).click()
            expect(page.locator("#people-3")).to_contain_text("Saved.")
        expect(pages[1].locator("#people-3")).to_contain_text("Another page said 2 since this form was read")
        pages = [tab.open(f"/runs/{run.id}") for tab in (first, second)]
        edit(pages[0], "of the first")
        expect(pages[0].locator(".note-of-run")).to_have_text("of the first")
        edit(pages[1], "of the second")
        expect(pages[1].locator("main")).to_contain_text("was edited after this form was read")
        second.errors.clear()
    assert [each.value for each in run.feedback()] == [4.0]
    assert edits_of(run).note == "of the first"


def edit(page: Page, note: str) -> None:
    page.get_by_text("Edit name, tags and note").click()
    page.locator("#about").get_by_label("Note").fill(note)
    page.locator("#about").get_by_role("button", name="Save").click()


SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = ("/runs/{}?open=2&of=violence", "/runs/{}/rows/2", "/runs/{}/label?seed=1", "/runs")


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_accessible(run: Run, place: Site, path: str) -> None:
    with place.tab() as tab:
        page = tab.open(path.format(run.id))
        for summary in page.locator("#about > details > summary, main > details > summary").all():
            summary.click()
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                assert axe(page) == [] and sideways(page) == 0, (width, scheme)
