"""Names of evaluators that differ in invisible characters alone: pages tell them apart, forms give them back."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, send, text_of
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.web.rows.conditions import Condition
from valor_gpu.web.typed import carried, read_carried

PLAIN = "judge"
NAMES = [
    PLAIN,
    "judge\u200b",
    "judge\u202e",
    "ju\u200ddge",
    " judge\r\n\t",
    "judge\uf8f0",
    "judge\x00\x1b",
    "judge\U000e0041",
]


class Forms(HTMLParser):
    """Fields of a page by their names, as a browser sends them: line ends of a value become CRLF."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.values: dict[str, list[str]] = {}
        self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        value = "\r\n".join(str(found.get("value") or "").replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        if tag == "select":
            self._select = str(found.get("name"))
        elif tag == "option":
            self.values.setdefault(self._select, []).append(value)
        elif tag == "input" and found.get("name"):
            self.values.setdefault(str(found["name"]), []).append(value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three rows with a score of each name: its place, and the number of the row."""
    found = tmp_path / "s.sqlite"
    infos = [
        {"name": name, "summary_name": f"mean_{name}", "kind": "custom", "low": 0.0, "high": 90.0, "pooled": False,
         "higher_is_better": True}
        for name in NAMES
    ]  # fmt: skip
    with Store(found) as store:
        run = store.create_run("hidden", {"evaluators": infos})
        with run.lease():
            run.add_rows(StoredRow(n, f"k{n}", {"question": "why?"}, {"answer": "so"}) for n in (1, 2, 3))
            run.add_scores(StoredScore(n, name, 0, 10.0 * k + n) for k, name in enumerate(NAMES) for n in (1, 2, 3))
            metrics = {f"mean_{name}": 10.0 * k + 2 for k, name in enumerate(NAMES)}
            run.finish("finished", {"metrics": metrics})
    return found


@pytest.fixture
def uid(path: Path) -> str:
    with Store(path) as store:
        return next(iter(store.heads())).id


@pytest.fixture
def browser(path: Path) -> Iterator[TestClient]:
    yield client(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_field_gives_the_name_back(name: str) -> None:
    field = carried(name)
    assert field.isprintable() or "\uf8f0" in field
    assert read_carried(field.strip()) == name and (field == name) == (name == PLAIN)
    assert len({carried(each) for each in NAMES}) == len(NAMES)


def test_pages_show_which_name_it_is(browser: TestClient, uid: str) -> None:
    shown = text_of(browser.get(f"/runs/{uid}?{urlencode([('column', name) for name in NAMES])}"))
    for words in ("judge[U+200B]", "judge[U+202E]", "ju[U+200D]dge", "judge␀␛", "judge[U+E0041]"):
        assert shown.count(words) >= 3, f"{words}: card, column, choices"
    listed = text_of(browser.get("/runs"))
    assert "mean of judge[U+200B]" in listed and "mean of ju[U+200D]dge" in listed


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_labelled(browser: TestClient, uid: str, name: str) -> None:
    form = Forms(browser.get(f"/runs/{uid}/label?{urlencode({'of': name, 'order': 'rows'})}").text)
    assert [read_carried(text) for text in form.values["of"][:-1]] == NAMES
    [field] = form.values["evaluator"]
    sent = send(
        browser,
        f"/runs/{uid}/label?{urlencode({'of': name, 'order': 'rows'})}",
        {"row": "2", "evaluator": field, "value": "7"},
    )
    assert sent.status_code == 200
    [said] = browser.app.state.studio.store.run(uid).feedback()  # type: ignore[attr-defined]
    assert (said.row, said.evaluator, said.value) == (2, name, 7.0)


@pytest.mark.parametrize("name", NAMES)
def test_opinions_and_filters_keep_the_name(browser: TestClient, uid: str, name: str) -> None:
    place = NAMES.index(name)
    form = Forms(browser.get(f"/runs/{uid}?{urlencode({'open': '1', 'of': name})}").text)
    assert (
        send(
            browser, f"/runs/{uid}/feedback", {"row": "1", "evaluator": form.values["evaluator"][0], "passed": "1"}
        ).status_code
        == 200
    )
    [said] = browser.app.state.studio.store.run(uid).feedback()  # type: ignore[attr-defined]
    assert said.evaluator == name
    metric, column = form.values["metric"][place + 1], form.values["column"][place]
    asked = urlencode({"metric": metric, "test": "at_least", "value": f"{10 * place + 3}", "column": column})
    found = browser.get(f"/runs/{uid}?{asked}")
    assert "Rows 1 to 1 of 1 that match, 3 in all" in text_of(found)
    kept = Forms(found.text).values["if"]
    assert {read_carried(each) for each in kept} == {Condition(name, "at_least", 10 * place + 3.0).text}
    assert "Rows 1 to 1 of 1" in text_of(
        browser.get(f"/runs/{uid}?{urlencode({'if': kept[0], 'sort': form.values['sort'][1]})}")
    )


@pytest.mark.parametrize("name", NAMES[1:])
def test_trend_and_scatter_take_the_name(browser: TestClient, uid: str, name: str) -> None:
    place = NAMES.index(name)
    form = Forms(browser.get(f"/runs/{uid}/scatter").text)
    pair = urlencode({"x": form.values["x"][0], "y": form.values["y"][place]})
    assert "Rows with both 3" in text_of(browser.get(f"/runs/{uid}/scatter?{pair}"))
    metrics = Forms(browser.get("/runs").text).values["metric"]
    assert sorted(map(read_carried, metrics)) == sorted(f"mean_{each}" for each in NAMES)
    [field] = [each for each in metrics if read_carried(each) == f"mean_{name}"]
    assert f"{10 * place + 2:.2f}" in text_of(browser.get(f"/trend?{urlencode({'metric': field})}"))


def test_a_name_that_no_address_can_have_takes_no_page_with_it(tmp_path: Path) -> None:
    info = {"name": "ju\ud800dge", "kind": "quality", "low": 1, "high": 5}
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("halves", {"evaluators": [info]})
        with run.lease():
            run.add_rows([StoredRow(n, f"k{n}", {"question": "q", "a\ud800": "x"}) for n in range(1, 30)])
            run.add_scores([StoredScore(n, str(info["name"]), 0, float(1 + n % 5)) for n in range(1, 30)])
            run.finish("finished", {})
        browser = client(store.path)
        for place in ("", "?open=1", "?at=25", "/rows/1", "/label", "/scatter"):
            page = browser.get(f"/runs/{run.id}{place}")
            assert page.status_code == 200 and "judge" not in page.text, place
        assert "[U+D800]" in text_of(browser.get(f"/runs/{run.id}"))
