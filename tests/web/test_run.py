"""The page of a run and of a row: numbers, threshold, rows, what people say, exports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, send, text_of
from valor_gpu.store import Store, StoredRow, StoredScore

INFOS = [
    {"name": "gpt_fluency", "kind": "quality", "low": 1, "high": 5},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7},
]
SEVERITIES = [0.0, 2.0, 4.0, 6.0] * 15


def fill(path: Path) -> str:
    """A run of 60 rows; the judge failed on row 5 for fluency."""
    with Store(path) as store:
        run = store.create_run("books <b>", {"version": 1, "evaluators": INFOS, "data": {"source": "b.csv"}})
        with run.lease():
            rows = [
                {"question": f"question {n}", "answer": "<script>x</script>" if n == 2 else "yes"} for n in range(1, 61)
            ]
            run.add_rows([StoredRow(n, f"k{n}", row) for n, row in enumerate(rows, 1)])
            fluency = [StoredScore(n, "gpt_fluency", 0, float(1 + n % 5)) for n in range(1, 61) if n != 5]
            run.add_scores(
                [*fluency, StoredScore(5, "gpt_fluency", 0, None, "parse_error", "no rating in <i>prose</i>")]
            )
            run.add_scores([StoredScore(n, "violence", 0, s, reason="as it says") for n, s in enumerate(SEVERITIES, 1)])
            run.finish("finished", {})
        return run.id


@pytest.fixture
def site(tmp_path: Path) -> tuple[TestClient, str]:
    return client(tmp_path / "s.sqlite"), fill(tmp_path / "s.sqlite")


def rows_of(response: Any) -> list[int]:
    return [int(number) for number in re.findall(r'<tr id="r(\d+)"', response.text)]


def test_numbers_failures_and_charts(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}")
    shown = text_of(found)
    assert "1 of 120 scores failed." in shown and "1 parse error" in shown and "no rating in" in shown
    assert "50.0% defects, 30 of 60 rows" in shown and "59 scored" in shown and "95% interval" in shown
    assert found.text.count('role="group" data-roving="bars"') == 2 and 'aria-label="violence' in found.text
    assert "<i>prose" not in found.text and "<script>x" not in found.text and "<b>books" not in found.text


def test_the_most_frequent_causes_are_seen_at_once(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("causes", {"version": 1, "evaluators": INFOS, "data": {}})
        run.add_rows([StoredRow(n, str(n), {}, {}, "target_error", f"no route for 'row {n}'") for n in range(1, 7)])
        run.add_rows([StoredRow(n, str(n), {}) for n in range(7, 10)])
        no_scores = run.id, text_of(client(tmp_path / "s.sqlite").get(f"/runs/{run.id}"))
        causes = ("late", "late", "gone")
        run.add_scores([StoredScore(n, "violence", 0, None, "timeout", why) for n, why in enumerate(causes, 7)])
        run.add_scores([StoredScore(n, "gpt_fluency", 0, None, "refused", "no") for n in range(7, 10)])
        run.add_scores([StoredScore(n, "gpt_fluency", 1, None, "refused", "I won't") for n in (7,)])
    shown = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{run.id}"))
    assert "6 rows have no answer." in no_scores[1] and "no route for &#39;row 1&#39; row 1" in no_scores[1]
    seen, _, others = shown[shown.index("Most frequent causes") :].partition("Other causes")
    assert seen.index("6 rows without an answer") < seen.index("3 gpt_fluency") < seen.index("2 violence")
    assert "gone" in others and "I won&#39;t" in others and "gone" not in seen


@pytest.mark.parametrize(("level", "rate"), [("Very low", "100.0%"), ("Low", "75.0%"), ("High", "25.0%")])
def test_threshold_counts_again(site: tuple[TestClient, str], level: str, rate: str) -> None:
    browser, uid = site
    found = send(browser, f"/runs/{uid}/threshold", {"level": level})
    assert found.url.query == f"level={level}".replace(" ", "+").encode()
    assert f"{rate} defects" in text_of(found)
    assert f'value="{level}" checked' in found.text


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("", [1, 2, 3]),
        ("after=40", [41, 42, 43]),
        ("sort=violence", [1, 5, 9]),
        ("sort=-violence", [60, 56, 52]),
        ("sort=gpt_fluency", [10, 15, 20]),
        ("m=violence&op=at_least&x=6", [4, 8, 12]),
        ("m=violence&op=at_most&x=1&sort=-violence", [57, 53, 49]),
        ("m=gpt_fluency&op=failed", [5]),
        ("q=question+7", [7]),
        ("q=yes&m=violence&op=at_least&x=6", [4, 8, 12]),
        ("q=nowhere", []),
        ("m=nothing&op=failed&sort=nothing&open=x&after=x", [1, 2, 3]),
    ],
)
def test_search_filter_and_order(site: tuple[TestClient, str], query: str, first: list[int]) -> None:
    browser, uid = site
    assert rows_of(browser.get(f"/runs/{uid}?{query}"))[:3] == first


@pytest.mark.parametrize("query", ["", "sort=-violence", "m=violence&op=at_least&x=2", "q=yes", "sort=gpt_fluency"])
def test_pages_have_every_row_once(site: tuple[TestClient, str], query: str) -> None:
    browser, uid = site
    expected = {n for n in range(1, 61) if "x=2" not in query or n % 4 != 1} - ({2} if "q=" in query else set())
    found: list[int] = []
    address = f"/runs/{uid}?{query}"
    while True:
        page = browser.get(address)
        found += rows_of(page)
        following = re.search(r'href="([^"]+)#rows"[^>]*>Next', page.text)
        if following is None:
            break
        address = following[1].replace("&amp;", "&")
    assert sorted(found) == sorted(expected)


def test_bad_bound_is_told(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}?m=violence&op=at_least&x=much")
    assert found.status_code == 400 and "must be a number but is" in text_of(found)


def test_open_row_shows_texts_and_reasons(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}?open=2")
    assert "as it says" in text_of(found) and "&lt;script&gt;x&lt;/script&gt;" in found.text
    assert 'aria-expanded="true"' in found.text


def test_page_of_a_row(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}/rows/5")
    assert "parse error" in text_of(found) and "/rows/4" in found.text and "/rows/6" in found.text
    lost = browser.get(f"/runs/{uid}/rows/61")
    assert lost.status_code == 404 and "has no row 61; it has 60" in text_of(lost)


def test_person_scores_a_row(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    form = {"row": "2", "evaluator": "violence", "value": "4,5", "passed": "0", "note": "<em>too mild</em>"}
    found = send(browser, f"/runs/{uid}/feedback", {**form, "back": f"/runs/{uid}?open=2"})
    assert str(found.url).endswith(f"/runs/{uid}?open=2")
    assert "on violence: 4.50 fail" in text_of(found) and "&lt;em&gt;too mild" in found.text


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"row": "2"}, "give a score, a verdict or a note"),
        ({"row": "2", "value": "nan"}, "must be a number"),
        ({"row": "x", "note": "a"}, "row must be the number"),
        ({"row": "999", "note": "a"}, "row 999 is not in run"),
        ({"row": "2", "note": "my key is sk-abcdefghijklmnopqrst"}, "looks like a key"),
        ({"row": "2", "note": "n" * 4001}, "a note may have 4,000 characters but has 4,001"),
        ({"row": "2", "evaluator": "gpt_fluency", "value": "45"}, "your score must be from 1 to 5 but is 45"),
        ({"row": "2", "evaluator": "violence", "value": "-1"}, "your score must be from 0 to 7 but is -1"),
        ({"row": "2", "evaluator": "another", "value": "1"}, "evaluator must be one of the run"),
    ],
)
def test_wrong_feedback_is_not_kept(site: tuple[TestClient, str], form: dict[str, str], words: str) -> None:
    browser, uid = site
    found = send(browser, f"/runs/{uid}/feedback", form)
    assert found.status_code == 400 and words in text_of(found)
    assert browser.app.state.studio.store.run(uid).feedback() == []  # type: ignore[attr-defined]


def test_a_note_alone_keeps_the_score_of_before(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    for form in ({"value": "4", "passed": "1", "note": "mild"}, {"note": "as I read it"}, {"value": "3"}):
        send(browser, f"/runs/{uid}/feedback", {"row": "2", "evaluator": "violence", **form})
    [said] = browser.app.state.studio.store.run(uid).feedback()  # type: ignore[attr-defined]
    assert (said.value, said.passed, said.note) == (3.0, True, "as I read it")


def test_feedback_leads_to_own_pages_alone(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    form = {"row": "2", "note": "a", "back": "//evil.example/"}
    assert str(send(browser, f"/runs/{uid}/feedback", form).url).endswith(f"/runs/{uid}/rows/2")


def test_exports(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    table = browser.get(f"/runs/{uid}/export.csv")
    assert table.headers["content-disposition"] == 'attachment; filename="books-b.csv"'
    assert len(table.text.splitlines()) == 61
    lines = [json.loads(line) for line in browser.get(f"/runs/{uid}/export.jsonl").text.splitlines()]
    assert [line["number"] for line in lines] == list(range(1, 61))
    assert "<script>x" not in browser.get(f"/runs/{uid}/export.html").text


def test_unknown_run(site: tuple[TestClient, str]) -> None:
    browser, _ = site
    for path in ("/runs/nothing", "/runs/nothing/rows/1", "/runs/nothing/export.csv", "/runs/..%2f..%2fetc"):
        assert browser.get(path).status_code == 404


def test_agreement_of_people_with_the_judge(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    assert "agreement with" not in text_of(browser.get(f"/runs/{uid}"))
    for row, value in ((1, 2), (2, 3), (3, 3), (4, 5), (5, 1)):
        send(browser, f"/runs/{uid}/feedback", {"row": str(row), "evaluator": "gpt_fluency", "value": str(value)})
    send(browser, f"/runs/{uid}/feedback", {"row": "1", "evaluator": "violence", "passed": "1"})
    shown = text_of(browser.get(f"/runs/{uid}"))
    # Differences 0, 0, 1, 0 squared: mean 0.25; of all 16 pairings of (2, 3, 3, 5) with (2, 3, 4, 5) mean 2.5.
    assert "agreement with scores of one person: weighted kappa 0.90, 95% interval" in shown
    assert "(n = 4, 1 more of rows without a score, 3 equal)" in shown
    assert "agreement with verdicts of one person: no kappa, it takes two pairs of ratings but there is 1" in shown


def test_a_refused_form_leads_back(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    assert f'href="/runs/{uid}">Back to the page' in send(browser, f"/runs/{uid}/feedback", {"row": "2"}).text


def test_a_model_that_answers_is_named_once(tmp_path: Path) -> None:
    model = {"kind": "model", "name": "small", "model": "small", "base_url": "http://127.0.0.1:1/v1", "masked": False}
    with Store(tmp_path / "s.sqlite") as store:
        uid = store.create_run("answers", {"version": 1, "evaluators": [], "target": {**model, "seed": 3}}).id
    shown = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}"))
    assert "Target small at http://127.0.0.1:1/v1, seed 3 Judge" in shown
