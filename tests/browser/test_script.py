"""The script by itself: an element becomes another one by few changes, and what a person does there stays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.site import Site

MORPH = """async ([before, after, keep]) => {
  const {morph} = await import('/static/morph.js');
  const make = (html) => Object.assign(document.createElement('div'), {innerHTML: html});
  const old = document.querySelector('main').appendChild(make(before)), fresh = make(after);
  const wanted = fresh.cloneNode(true);
  morph(old, fresh, keep);
  const same = old.isEqualNode(wanted), html = old.innerHTML;
  old.remove();
  return same || html;
}"""
KEPT = """async ([before, after, keep]) => {
  const {morph} = await import('/static/morph.js');
  const make = (html) => Object.assign(document.createElement('div'), {innerHTML: html});
  const old = document.querySelector('main').appendChild(make(before));
  const find = (css) => old.querySelector(css);
  PREPARE;
  morph(old, make(after), keep);
  const said = SAY;
  old.remove();
  return said;
}"""


def kept(page: Page, before: str, after: str, prepare: str, say: str, keep: bool = False) -> Any:
    """What is said of an element after it was prepared and has become another one."""
    return page.evaluate(KEPT.replace("PREPARE", prepare).replace("SAY", say), [before, after, keep])


def tree(draw: random.Random, ids: list[str], depth: int = 0) -> str:
    """Random markup; each id comes at most once."""
    found = []
    for _ in range(draw.randint(0, 4)):
        tag = draw.choice(["p", "div", "ul", "details", "section"])
        name = f' id="{ids.pop(draw.randrange(len(ids)))}"' if ids and draw.random() < 0.4 else ""
        cls = f' class="{draw.choice("abc")}"' if draw.random() < 0.5 else ""
        inner = tree(draw, ids, depth + 1) if depth < 3 and draw.random() < 0.6 else draw.choice(["", "x", "y z"])
        found.append(f"<{tag}{name}{cls}>{inner}</{tag}>{draw.choice(['', ' ', '<!-- c -->'])}")
    return "".join(found)


@pytest.fixture(scope="module")
def blank(site: Site) -> Iterator[Page]:
    """A page to which tests add elements that they take away again."""
    with site.tab() as tab:
        yield tab.open("/targets")


def test_an_element_becomes_the_other_one(blank: Page) -> None:
    draw = random.Random(38)
    for _ in range(300):
        before, after = (tree(draw, [f"i{n}" for n in range(12)]) for _ in range(2))
        assert blank.evaluate(MORPH, [before, after, False]) is True, (before, after)


FORM = '<form method="post" action="/f"><input type="hidden" name="row" value="{}"><input name="v" value="{}"></form>'


@pytest.mark.parametrize(
    ("before", "after", "prepare", "say", "expected"),
    [
        ("<input value=a>", "<input value=b>", "find('input').value = 'typed'", "find('input').value", "typed"),
        ("<input value=a>", "<input value=b>", "", "find('input').value", "b"),
        ("<textarea>a</textarea>", "<textarea>b</textarea>", "", "find('textarea').value", "b"),
        (
            "<textarea>a</textarea>",
            "<textarea>b</textarea>",
            "find('textarea').value = 'typed'",
            "find('textarea').value",
            "typed",
        ),
        (
            "<select><option>a<option>b</select>",
            "<select><option>a<option>b<option>c</select>",
            "find('select').value = 'b'",
            "find('select').value",
            "b",
        ),
        (
            "<select><option>a<option>b</select>",
            "<select><option>a<option selected>b</select>",
            "",
            "find('select').value",
            "b",
        ),
        ("<input type=checkbox>", "<input type=checkbox checked>", "", "find('input').checked", True),
        (
            "<input type=checkbox><b>1</b>",
            "<input type=checkbox><b>2</b>",
            "find('input').checked = true",
            "find('input').checked + find('b').textContent",
            "true2",
        ),
        (
            "<details><summary>a</summary></details>",
            "<details><summary>b</summary></details>",
            "find('details').open = true",
            "find('details').open + find('summary').textContent",
            "trueb",
        ),
        (
            FORM.format(1, ""),
            FORM.format(2, ""),
            "find('input[name=v]').value = 'typed'",
            "find('input[name=v]').value",
            "",
        ),
        (
            FORM.format(1, ""),
            FORM.format(1, "x"),
            "find('input[name=v]').value = 'typed'",
            "find('input[name=v]').value",
            "typed",
        ),
        (
            '<p id="a">1</p><p id="b"><button>go</button></p>',
            '<p id="b"><button>went</button></p><p id="a">1</p>',
            "find('button').focus()",
            "document.activeElement.textContent",
            "went",
        ),
        (
            '<p class="here" id="a">1</p>',
            '<p id="a" class="open">2</p>',
            "",
            "find('p').className",
            "open here",
        ),
    ],
)
def test_what_a_person_does_stays(blank: Page, before: str, after: str, prepare: str, say: str, expected: Any) -> None:
    assert kept(blank, before, after, prepare, say) == expected


@pytest.mark.parametrize(("keep", "seen"), [(True, "1.0"), (False, "2.0")])
def test_typed_words_stay_when_others_are_kept_and_tell_the_server_so(blank: Page, keep: bool, seen: str) -> None:
    form = FORM.format(1, "").replace("</form>", '<input type="hidden" name="kept" value="{}"></form>')
    before, after = form.format("1.0"), form.format("2.0")
    say = "find('input[name=v]').value + find('input[name=kept]').value"
    assert kept(blank, before, after, "find('input[name=v]').value = 'typed'", say, keep) == f"typed{seen}"
    assert kept(blank, before, after, "", say, keep) == "2.0"


@pytest.mark.parametrize(("keep", "left"), [(True, 1), (False, 0)])
def test_what_is_typed_outlives_its_place_while_the_page_goes_on(blank: Page, keep: bool, left: int) -> None:
    before, prepare = '<p id="a"><input></p><p id="b">x</p>', "find('input').value = 'typed'"
    assert kept(blank, before, '<p id="b">y</p>', prepare, "old.querySelectorAll('input').length", keep) == left
