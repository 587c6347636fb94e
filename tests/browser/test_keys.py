"""Keys: rows, search, the open row, what people say, and the help."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Tab, axe
from valor_gpu.store import Store


@pytest.fixture(scope="module")
def runs(seeded: Path) -> list[str]:
    """Ids of the two runs that can be compared."""
    with Store(seeded) as store:
        return [head.id for head in store.heads() if head.name.startswith("Prompt")]


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def focused(page: Page) -> str:
    """Where the focus is: the id of the nearest element that has one."""
    return str(page.evaluate("document.activeElement.closest('[id]')?.id ?? ''"))


def test_rows_by_j_and_k(tab: Tab, runs: list[str]) -> None:
    page = tab.open(f"/runs/{runs[0]}")
    press(page, "j")
    assert focused(page) == "r1"
    press(page, "j", "j", "k")
    assert focused(page) == "r2"
    expect(page.locator("tr.here")).to_have_id("r2")
    expect(page.locator("tr.here")).to_be_in_viewport()
    press(page, "ArrowDown")
    assert focused(page) == "r3"
    press(page, "ArrowUp", "k", "k")
    assert focused(page) == "r1"
    expect(page.locator("#said")).to_have_text("This is the first row of the page.")


@pytest.mark.parametrize("key", ["o", "Enter"])
def test_a_row_opens_and_closes(tab: Tab, runs: list[str], key: str) -> None:
    page = tab.open(f"/runs/{runs[0]}")
    press(page, "j", "j", key)
    expect(page.locator("tr.detail")).to_be_visible()
    assert "open=2" in page.url


def test_search_and_leaving_it(tab: Tab, runs: list[str]) -> None:
    page = tab.open(f"/runs/{runs[0]}")
    press(page, "/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    press(page, "j")
    assert page.get_by_role("searchbox").input_value() == "j", "keys are text within a field"
    press(page, "Escape")
    expect(page.get_by_role("searchbox")).not_to_be_focused()


def test_what_people_say_and_back(tab: Tab, runs: list[str]) -> None:
    page = tab.open(f"/runs/{runs[0]}?open=2")
    press(page, "e")
    assert page.evaluate("document.activeElement.closest('form').action.endsWith('/feedback')")
    press(page, "3")
    expect(page.locator("tr.detail [name=value][value='3']")).to_be_checked()
    press(page, "Escape")
    assert focused(page) == "r2"
    press(page, "Escape")
    expect(page.locator("tr.detail")).to_have_count(0)


def test_help_lists_the_keys_of_the_page_and_switches_them_off(tab: Tab, runs: list[str]) -> None:
    page = tab.open(f"/runs/{runs[0]}")
    press(page, "?")
    dialog = page.get_by_role("dialog", name="Keys of this page")
    for words in ("Search", "Next row", "Row before", "Open or close the row", "This help"):
        expect(dialog).to_contain_text(words)
    assert axe(page) == []
    dialog.get_by_role("checkbox").uncheck()
    press(page, "Escape")
    expect(dialog).to_have_count(0)
    press(page, "j")
    expect(page.locator("tr.here")).to_have_count(0)
    page.get_by_role("button", name="Keys").click()
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Keys")).to_be_focused()
    press(page, "j")
    expect(page.locator("tr.here")).to_have_count(1)


def test_help_is_at_the_same_place_of_every_page(tab: Tab, runs: list[str]) -> None:
    for path in ("/runs", f"/runs/{runs[0]}", f"/compare?runs={','.join(runs)}", "/evaluators", "/datasets", "/new"):
        page = tab.open(path)
        assert page.locator("header button").all_inner_texts() == ["Keys"], path


def test_keys_with_ctrl_are_the_browsers(tab: Tab, runs: list[str]) -> None:
    page = tab.open(f"/runs/{runs[0]}")
    press(page, "Control+j", "Alt+j", "Meta+j")
    expect(page.locator("tr.here")).to_have_count(0)


def test_rows_of_the_list(tab: Tab) -> None:
    page = tab.open("/runs")
    press(page, "j", "j")
    name = page.locator("tr.here th a").inner_text()
    press(page, "o")
    expect(page.locator("h1")).to_have_text(name)


@pytest.mark.parametrize("what", ["list", "run", "compare"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_row_is_six_tabs_away(tab: Tab, runs: list[str], what: str, width: int) -> None:
    paths = {"list": "/runs", "run": f"/runs/{runs[0]}", "compare": f"/compare?runs={','.join(runs)}"}
    page = tab.open(paths[what])
    page.set_viewport_size({"width": width, "height": 844})
    press(page, "Tab", "Tab")
    expect(page.locator(".skip:focus")).to_be_in_viewport()
    assert "Skip to the r" in page.locator(".skip:focus").inner_text()
    press(page, "Enter")
    for _ in range(4):
        press(page, "Tab")
        if page.evaluate("document.activeElement === document.querySelector('tr[data-row] a')"):
            break
    else:
        pytest.fail(f"6 tabs, and the focus is at {page.evaluate('document.activeElement.outerHTML')}")
    box = page.evaluate(
        "(() => { const box = document.activeElement.getBoundingClientRect();"
        " const seen = document.elementFromPoint(box.left + 4, box.top + box.height / 2);"
        " return document.activeElement.contains(seen) || seen.contains(document.activeElement); })()"
    )
    assert box, "something covers the row that has the focus"
