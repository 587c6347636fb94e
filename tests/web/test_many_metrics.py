"""A run of 200 metrics with long names: pages stay small, and nothing is left out silently."""

from __future__ import annotations

import random
import re
from html import unescape
from urllib.parse import parse_qsl, urlencode

import pytest
from starlette.testclient import TestClient

from tests.hand_made_runs import evaluator_config
from tests.web.pages import client, send, text_of
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.web.rows.row_addresses import ALL, NAMED, chosen_columns, column_texts

N = 200
MOST_BYTES = 1_500_000
NAMES = [f"m{k:03d}_".ljust(90, "x") for k in range(N)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[TestClient, str]:
    """Two runs of 30 rows with 200 columns and 200 scores each."""
    path = tmp_path_factory.mktemp("many") / "s.sqlite"
    draw = random.Random(1)
    texts = {f"column_{k:03d}": f"text {k}" for k in range(N)}
    with Store(path) as store:
        for label in ("one", "two"):
            run = store.create_run(label, {"version": 1, "evaluators": [evaluator_config(name) for name in NAMES]})
            with run.lease():
                run.add_rows(
                    StoredRow(n, f"k{n}", {"question": "why?", **texts}, {"answer": "so"}) for n in range(1, 31)
                )
                run.add_scores(StoredScore(n, name, 0, draw.random()) for name in NAMES for n in range(1, 31))
                run.finish("finished", run_summary(run))
    return client(path), run.id


def heads(text: str) -> list[str]:
    table = text[text.index('id="rows-table"') :]
    return re.findall(r"m\d{3}_x{85}(?= ?[↑↓]?</a></th>)", table.replace("<wbr>", ""))


@pytest.mark.parametrize(
    "query",
    ["", "open=1", "column=*", "column=*&open=1&at=0", "cards=160", f"sort=-{NAMES[7]}&if={NAMES[3]}:at_least:0.2"],
)
def test_pages_of_a_run_are_small(site: tuple[TestClient, str], query: str) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}?{query}")
    assert found.status_code == 200 and len(found.content) < MOST_BYTES


@pytest.mark.parametrize("path", ["/runs", "/runs?column=*", "/trend?metric=mean_" + NAMES[5], "/runs/{uid}/scatter"])
def test_other_pages_are_small(site: tuple[TestClient, str], path: str) -> None:
    browser, uid = site
    found = browser.get(path.format(uid=uid))
    assert found.status_code == 200 and len(found.content) < MOST_BYTES


def test_ticks_of_a_form_become_a_short_address(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    for chosen in (NAMES, NAMES[20:150], NAMES[3:NAMED], [NAMES[k] for k in (1, 3, 4, 5, *range(100, 120))]):
        found = browser.get(f"/runs/{uid}?{urlencode([('column', name) for name in chosen])}")
        assert heads(found.text) == chosen and len(found.content) < MOST_BYTES and len(str(found.url)) < 1500
        shown = text_of(found)
        assert ("metrics have a column. Show all" in shown) == (len(chosen) < N)
        assert f"{len(chosen)} of 200 metrics have a column." in shown or chosen == NAMES


def test_the_first_columns_are_said_and_all_are_one_link_away(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}")
    assert heads(found.text) == NAMES[:6] and "6 of 200 metrics have a column. Show all" in text_of(found)
    link = re.search(r'<a href="([^"]*)" data-swap="rows">Show all</a>', found.text)
    assert link is not None and heads(browser.get(unescape(link[1])).text) == NAMES


def test_every_metric_has_a_card_on_some_page(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    address, names = f"/runs/{uid}", []
    while address:
        text = browser.get(address).text
        names += re.findall(r'<h3 class="name"><a href="/metrics/(m[^"]+)">', text)
        after = re.search(r'<a href="([^"]+)" data-swap="cards">Next', text)
        address = unescape(after[1]) if after else ""
    assert names == NAMES and "Metrics 161 to 200 of 200" in text_of(browser.get(f"/runs/{uid}?cards=160"))


def test_the_list_says_how_many_columns_it_has(site: tuple[TestClient, str]) -> None:
    browser, _ = site
    assert "3 of 200 metrics have a column. Show all" in text_of(browser.get("/runs"))
    ticked = [("column", "headline"), *(("column", f"mean_{name}") for name in NAMES[:30])]
    found = browser.get(f"/runs?{urlencode(ticked)}")
    assert (
        f"{NAMED} of 200 metrics have a column. 30 were ticked; an address names {NAMED} at most. Show all"
        in text_of(found)
    )
    found = browser.get(f"/runs?{urlencode([('column', f'mean_{name}') for name in NAMES])}")
    assert str(found.url).endswith("/runs?column=%2A") and "have a column" not in text_of(found)
    assert len(found.content) < MOST_BYTES


def test_a_view_keeps_columns_by_their_names(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    query = urlencode({"column": "places:2-15"})
    send(browser, "/views/rows", {"name": "some", "query": query, "run": uid, "action": "save"})
    kept = browser.app.state.studio.store.views.get("rows view", "some")["query"]  # type: ignore[attr-defined]
    assert parse_qsl(kept) == [("column", name) for name in NAMES[1:15]]
    assert 'aria-current="true">some</a>' in browser.get(f"/runs/{uid}?{query}").text


def test_short_texts_choose_the_same_columns() -> None:
    draw = random.Random(3)
    names = [f"m{k}" for k in range(60)]
    for _ in range(300):
        chosen = sorted(draw.sample(names, draw.randrange(1, 61)), key=names.index)
        texts = column_texts(chosen, names)
        assert chosen_columns(texts, names) == chosen and len(texts) <= NAMED
        assert column_texts(texts, names) == texts
    assert chosen_columns(["places:0", "places:x-y", "nothing"], names) == names[:6]
    assert chosen_columns(["places:59-9999"], names) == names[58:] and chosen_columns([ALL, "m3"], names) == names


def test_a_search_without_a_row_says_so_once(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    shown = text_of(browser.get(f"/runs/{uid}?q=nowhere"))
    assert shown.count("0 rows that match, 30 in all") == 1 and "No row matches. Show all 30 rows" in shown
