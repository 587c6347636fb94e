"""Opinions of rows kept in place, and the queue by which rows are labelled one after the other."""

from __future__ import annotations

import html
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, send, text_of
from tests.web.test_run import fill
from valor_gpu.stats.agreement import weighted_kappa
from valor_gpu.store import Feedback, Run, Store, StoredRow, StoredScore
from valor_gpu.store.label_queues import LabelQueue, label_queues
from valor_gpu.store.opinions import labelled_rows
from valor_gpu.web.rows.label_rows import ordered
from valor_gpu.web.rows.run_rows import author


@pytest.fixture
def site(tmp_path: Path) -> tuple[TestClient, str]:
    return client(tmp_path / "s.sqlite"), fill(tmp_path / "s.sqlite")


def run_of(browser: TestClient, uid: str) -> Run:
    found = browser.app.state.studio.store.run(uid)  # type: ignore[attr-defined]
    assert isinstance(found, Run)
    return found


def form(response: Any, of: str) -> tuple[str, dict[str, Any]]:
    """Address and fields of the form whose address ends so, with the buttons left out."""
    found = re.search(rf'<form[^>]* action="([^"]*/{of}[^"]*)".*?</form>', response.text, re.DOTALL)
    assert found is not None, f"no form of {of}"
    fields: dict[str, Any] = {"shown": []}
    for name, value, more in re.findall(r'<input[^>]*? name="(\w+)"[^>]*? value="([^"]*)"([^>]*)>', found[0]):
        if name == "shown":
            fields["shown"].append(value)
        elif 'type="radio"' not in found[0][found[0].index(f'name="{name}"') - 20 :][:20] or "checked" in more:
            fields[name] = html.unescape(value)
    note = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", found[0], re.DOTALL)
    return html.unescape(found[1]), {**fields, "note": html.unescape(note[1] if note else "")}


def put(browser: TestClient, page: Any, of: str, **changes: str) -> Any:
    address, fields = form(page, of)
    fields.pop("csrf", None)
    return send(browser, address, {**fields, **changes})


def said(browser: TestClient, uid: str) -> list[tuple[int, str, float | None, bool | None, str]]:
    return [(each.row, each.evaluator, each.value, each.passed, each.note) for each in run_of(browser, uid).feedback()]


# ---- opinions of an open row


def test_a_scale_of_few_whole_values_is_chosen_and_others_are_typed(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    for of, radios in (("gpt_fluency", 6), ("violence", 9), ("-", 0)):
        found = browser.get(f"/runs/{uid}?open=2&of={of}").text
        assert len(re.findall(r'<input type="radio" name="value"', found)) == radios
        assert ('inputmode="decimal" size="7"' in found) == (radios == 0)
    assert "Your score, from 1 to 5" in browser.get(f"/runs/{uid}/rows/2?of=gpt_fluency").text


def test_saving_leads_back_to_the_row_and_says_so_once(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    first = browser.get(f"/runs/{uid}?open=2&of=violence&sort=violence")
    _, fields = form(first, "feedback")
    assert fields["back"].endswith("#r2") and "sort=violence" in fields["back"]
    found = put(browser, first, "feedback", value="4", note="mild")
    assert f"/runs/{uid}?" in str(found.url) and "open=2" in str(found.url) and "of=violence" in str(found.url)
    assert 'role="status">Saved.<' in found.text and said(browser, uid) == [(2, "violence", 4.0, None, "mild")]
    again = browser.get(f"/runs/{uid}?open=2&of=violence")
    assert "Saved." not in again.text and 'value="4" checked' in again.text and "mild</textarea>" in again.text


def test_verdicts_by_a_button_and_back(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    found = put(browser, browser.get(f"/runs/{uid}/rows/2?of=violence"), "feedback", passed="0")
    assert said(browser, uid) == [(2, "violence", None, False, "")]
    assert 'value="0" data-key="f" data-key-words="Fail" aria-pressed="true"' in found.text
    found = put(browser, found, "feedback", value="3", note="as it is")
    assert said(browser, uid) == [(2, "violence", 3.0, False, "as it is")]
    found = put(browser, found, "feedback", clear="passed")
    assert said(browser, uid) == [(2, "violence", 3.0, None, "as it is")]
    found = put(browser, found, "feedback", note="")  # which the form showed
    assert said(browser, uid) == [(2, "violence", 3.0, None, "")]
    found = put(browser, found, "feedback", value="")
    assert said(browser, uid) == [] and "Taken back." in text_of(found)


def test_own_words_are_edited_and_deleted_and_others_are_not(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    run_of(browser, uid).add_feedback(Feedback(2, "violence", "somebody else", 1.0, None, "theirs"))
    run_of(browser, uid).add_feedback(Feedback(2, "gpt_fluency", author(), 4.5, None, "mine"))
    found = browser.get(f"/runs/{uid}?open=2&of=violence")
    assert found.text.count(">Edit</a>") == 1 and "of=gpt_fluency" in found.text and "Delete my words" not in found.text
    found = browser.get(f"/runs/{uid}?open=2&of=gpt_fluency")
    assert 'value="4.5" checked' in found.text  # a value between those of the form is not lost
    put(browser, found, "feedback")
    assert (2, "gpt_fluency", 4.5, None, "mine") in said(browser, uid)
    run_of(browser, uid).add_feedback(Feedback(2, "gpt_fluency", author(), 4.123456789, None, "mine"))
    put(browser, browser.get(f"/runs/{uid}?open=2&of=gpt_fluency"), "feedback", note="as exact as before")
    assert (2, "gpt_fluency", 4.123456789, None, "as exact as before") in said(browser, uid)
    found = put(browser, found, "feedback", do="delete")
    assert said(browser, uid) == [(2, "violence", 1.0, None, "theirs")] and "Taken back." in text_of(found)


def test_the_last_word_of_two_browsers_wins_and_says_so(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    first = second = browser.get(f"/runs/{uid}/rows/2?of=violence")
    put(browser, first, "feedback", value="4", note="first")
    found = put(browser, second, "feedback", value="1", note="second")
    assert said(browser, uid) == [(2, "violence", 1.0, None, "second")]
    assert "Another page said 4, “first” since this form was read; this is the last word." in text_of(found)


# ---- the queue


def queue_of(browser: TestClient, uid: str, query: str) -> Any:
    found = browser.get(f"/runs/{uid}/label?{query}")
    assert found.status_code == 200, text_of(found)
    return found


def current(page: Any) -> int | None:
    found = re.search(r'id="label-(\d+)"', page.text)
    return None if found is None else int(found[1])


def test_rows_come_once_each_and_the_score_is_hidden_before(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    page, seen = queue_of(browser, uid, "of=violence&seed=7"), []
    while (number := current(page)) is not None:
        seen.append(number)
        assert "as it says" not in page.text
        assert f"{len(seen) - 1} of 60 labelled" in text_of(page)
        page = put(browser, page, "label", value=str(number % 8), passed="1")
    assert sorted(seen) == list(range(1, 61)) and seen != sorted(seen)
    [kept] = label_queues(browser.app.state.studio.store, run_of(browser, uid))  # type: ignore[attr-defined]
    assert kept == LabelQueue("violence", author(), "random", 7, "", True, tuple(seen))
    shown = text_of(page)
    own = [float(n % 8) for n in range(1, 61)]
    kappa = weighted_kappa(own, [0.0, 2.0, 4.0, 6.0] * 15).kappa
    assert "All 60 rows are labelled." in shown and f"weighted kappa {kappa:.2f}" in shown.replace("\u2212", "-")
    back = browser.get(re.search(r'<a class="btn" href="([^"]+)"[^>]*>Back<', page.text)[1].replace("&amp;", "&"))  # type: ignore[index]
    assert current(back) == seen[-1] and "as it says" in back.text and "Your label:" in text_of(back)


def test_the_queue_says_what_is_rated(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    words = text_of(browser.get(f"/runs/{uid}/label?of=violence&seed=1"))
    assert "violence: how severe the violent content of the answer is; lower is better. Its definition" in words
    assert "Its definition" not in text_of(browser.get(f"/runs/{uid}/label?of=-&seed=1"))


def test_a_long_text_is_whole_where_it_is_judged(tmp_path: Path) -> None:
    long, longer = "a" * 99_990 + "the end", "b" * 100_001 + "lost"
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("long", {"version": 1, "evaluators": [], "target": {"name": "bot"}})
        turns = [{"role": "user", "content": long}]
        run.add_rows([StoredRow(1, "k", {"lines": long, "talk": turns, "more": longer}, {"answer": "of the bot"})])
    browser = client(tmp_path / "s.sqlite")
    for page in ("/rows/1", "/label?of=-&seed=1"):
        words = text_of(browser.get(f"/runs/{run.id}{page}"))
        assert words.count("athe end") == 2 and "lost" not in words
        assert words.count("characters are not shown here") == 1 and "5 more characters" in words
        assert words.index("target&#39;s answer of the bot") < words.index("lines")
    opened = text_of(browser.get(f"/runs/{run.id}?open=1"))
    assert "97,997 more characters are not shown here." in opened and "page of this row" in opened


def test_skip_back_and_wrap(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    page = queue_of(browser, uid, "of=violence&order=rows")
    link = lambda page, words: html.unescape(re.search(rf'href="([^"]+)"[^>]*>{words}<', page.text)[1])  # type: ignore[index] # noqa: E731
    assert current(page) == 1 and ">Back<" not in page.text
    page = browser.get(link(page, "Skip"))
    assert current(page) == 2
    page = put(browser, page, "label", passed="1")
    assert current(page) == 3 and current(browser.get(link(page, "Back"))) == 2
    for number in range(3, 61):
        page = put(browser, page, "label", passed="0", note="n" if number == 9 else "")
    assert current(page) == 1 and "59 of 60 labelled" in text_of(page)  # the skipped row comes again
    assert "All other rows are labelled." in text_of(page)
    page = put(browser, page, "label", passed="1")
    assert "All 60 rows are labelled." in text_of(page) and "They were not drawn at random" in text_of(page)


def test_orders_and_selections_are_those_of_a_plain_loop(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    run = run_of(browser, uid)
    scores = {n: [0.0, 2.0, 4.0, 6.0][(n - 1) % 4] for n in range(1, 61)}
    for order, key in (("lowest", lambda n: (scores[n], n)), ("highest", lambda n: (-scores[n], n))):
        page = queue_of(browser, uid, f"of=violence&order={order}")
        assert current(page) == min(scores, key=key)  # type: ignore[arg-type]
        assert ordered(run, LabelQueue("violence", "me", order), None) == sorted(scores, key=key)  # type: ignore[arg-type]
    page = queue_of(browser, uid, "of=gpt_fluency&order=rows&if=violence:at_least:6")
    assert current(page) == 4 and "0 of 15 labelled" in text_of(page)
    page = put(browser, page, "label", value="3")
    assert current(page) == 8 and "1 of 15 labelled" in text_of(page)
    [kept] = label_queues(browser.app.state.studio.store, run)  # type: ignore[attr-defined]
    assert (kept.order, kept.selection, kept.seed) == ("rows", "if=violence%3Aat_least%3A6", None)
    assert "gpt_fluency" in text_of(queue_of(browser, uid, "of=gpt_fluency&order=lowest")) and 5 not in ordered(
        run, LabelQueue("gpt_fluency", "me", "lowest"), None
    )


def test_a_random_order_of_some_rows_is_that_of_all_of_them(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    run = run_of(browser, uid)
    whole = ordered(run, LabelQueue("violence", "me", "random", 3), None)
    some = random.Random(0).sample(range(1, 61), 25)
    assert ordered(run, LabelQueue("violence", "me", "random", 3), some) == [n for n in whole if n in some]
    assert ordered(run, LabelQueue("violence", "me", "random", 4), None) != whole
    firsts = [ordered(run, LabelQueue("violence", "me", "random", seed), None)[0] for seed in range(600)]
    counts = [firsts.count(n) for n in range(1, 61)]
    # Chi-squared of 59 degrees of freedom is beyond 98.3 once in 1,000 times.
    assert sum((n - 10) ** 2 / 10 for n in counts) < 98.3


def test_labels_of_a_run_that_grows_become_a_random_sample(site: tuple[TestClient, str]) -> None:
    browser, _ = site
    store, query = browser.app.state.studio.store, "of=-&seed=7"  # type: ignore[attr-defined]
    run = store.create_run("grows", {"version": 1, "evaluators": [], "data": {}})

    def come(first: int, last: int) -> None:
        run.add_rows([StoredRow(n, str(n), {"question": "?"}, {"answer": "!"}) for n in range(first, last + 1)])

    def label(page: Any, n: int) -> Any:
        for _ in range(n):
            page = put(browser, page, "label", passed="1")
        return page

    with run.lease():
        come(1, 30)
        page = queue_of(browser, run.id, query)
        assert "This run goes on, and rows that come later take their places in between." in text_of(page)
        page = label(page, 10)
        come(31, 60)
        label(page, 5)
    whole = ordered(run, LabelQueue("", author(), "random", 7), None)
    page = queue_of(browser, run.id, query)
    assert "This run goes on" not in text_of(page)
    lacks = [n for n in whole if n not in labelled_rows(run, "", author())]
    assert current(page) == lacks[0] and whole.index(lacks[0]) < 15, "of the rows that came later"
    label(page, 15)
    assert set(whole[:20]) <= set(labelled_rows(run, "", author()))


def test_a_seed_is_chosen_once_and_the_queue_goes_on(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    page = queue_of(browser, uid, "of=violence")
    seed = re.search(r"seed=(\d+)", str(page.url))
    assert seed is not None
    put(browser, page, "label", value="1")
    assert f"seed={seed[1]}" in str(queue_of(browser, uid, "of=violence").url)


def test_scores_are_shown_where_that_was_asked_for(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    page = queue_of(browser, uid, "of=violence&order=rows&show=1")
    assert "as it says" in page.text
    put(browser, page, "label", value="1")
    back = queue_of(browser, uid, f"of=violence&order=rows&row={current(page)}")  # hidden until labelled
    assert "as it says" in back.text and "Your label: 1" in text_of(back)
    [kept] = label_queues(browser.app.state.studio.store, run_of(browser, uid))  # type: ignore[attr-defined]
    assert not kept.hidden


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "give a score or a verdict, or skip the row"),
        ({"note": "a note alone"}, "give a score or a verdict, or skip the row"),
        ({"value": "9"}, "your score must be from 0 to 7 but is 9"),
        ({"value": "1", "row": "999"}, "row 999 is not in run"),
        ({"value": "1", "evaluator": "gpt_fluency"}, "evaluator must be that of the queue"),
        ({"value": "1", "note": "sk-abcdefghijklmnopqrst"}, "looks like a key"),
    ],
)
def test_wrong_labels_are_not_kept(site: tuple[TestClient, str], change: dict[str, str], words: str) -> None:
    browser, uid = site
    found = put(browser, queue_of(browser, uid, "of=violence&order=rows"), "label", **change)
    assert found.status_code == 400 and words in text_of(found) and said(browser, uid) == []
    assert label_queues(browser.app.state.studio.store, run_of(browser, uid)) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("of=nothing&seed=1", "of must be an evaluator of the run but is"),
        ("order=by+name", "order must be one of random, lowest, highest, rows but is"),
        ("seed=-1", "seed must be a whole number from 0 to 2,147,483,647"),
        ("seed=9999999999", "seed must be a whole number"),
    ],
)
def test_wrong_addresses_are_told(site: tuple[TestClient, str], query: str, words: str) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}/label?{query}")
    assert found.status_code == 400 and words in text_of(found)


def test_empty_queues_say_why(site: tuple[TestClient, str], tmp_path: Path) -> None:
    browser, uid = site
    assert "No row of the selection has an answer yet." in text_of(queue_of(browser, uid, "q=nowhere&seed=1"))
    with Store(tmp_path / "s.sqlite") as store:
        empty = store.create_run("empty", {"version": 1, "evaluators": [], "data": {}})
        empty.add_rows([StoredRow(1, "a", {"answer": "x"}), StoredRow(2, "b", {}, {}, "timeout")])
    page = queue_of(browser, empty.id, "seed=1")
    assert current(page) == 1 and "0 of 1 labelled" in text_of(page)
    page = put(browser, page, "label", passed="1")
    assert "There is no evaluator's score to compare these labels with." in text_of(page)


def test_ten_thousand_rows(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("large", {"version": 1, "evaluators": [{"name": "f"}], "data": {}})
        run.add_rows([StoredRow(n, str(n), {"answer": "x"}) for n in range(1, 10_001)])
        run.add_scores([StoredScore(n, "f", 0, float(n % 7)) for n in range(1, 10_001)])
    browser = client(tmp_path / "s.sqlite")
    page = queue_of(browser, run.id, "seed=1&of=f")
    begun = time.perf_counter()
    for _ in range(5):
        page = put(browser, page, "label", passed="1")
    print(f"{(time.perf_counter() - begun) / 5:.3f} s to save and come to the next of 10,000 rows")
    assert "5 of 10,000 labelled" in text_of(page)
