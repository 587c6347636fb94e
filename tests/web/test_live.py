"""Pages of a run that goes on: made of what its process says, without a look at its scores."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.browser.going import INFOS, PROBLEM, progress, score
from tests.web.pages import client, text_of
from valor_gpu.evaluation.report.so_far import families_so_far
from valor_gpu.evaluation.results.summary import evaluator_infos, run_summary
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.store import Run, Store, StoredRow, StoredScore
from valor_gpu.store.progress import RunProgress, keep
from valor_gpu.web.processes import jobs
from valor_gpu.web.processes.progress_words import progress_words


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as found:
        yield found


@pytest.fixture
def run(store: Store) -> Iterator[Run]:
    """A run of 500 rows that this process works on; 30 are done."""
    found = store.create_run("goes <b>on", {"version": 1, "evaluators": INFOS, "data": {"source": "x.csv"}})
    with found.lease():
        score(found, 1, 30)
        keep(found, progress(30))
        yield found


@pytest.fixture
def browser(path: Path, run: Run) -> TestClient:
    return client(path)


def page(browser: TestClient, run: Run, query: str = "") -> str:
    found = browser.get(f"/runs/{run.id}{query}")
    assert found.status_code == 200
    return str(found.text)


def words(browser: TestClient, run: Run, query: str = "") -> str:
    return text_of(browser.get(f"/runs/{run.id}{query}"))


def test_the_page_says_how_far_the_run_is(browser: TestClient, run: Run) -> None:
    shown = words(browser, run)
    assert "6% 30 of 500 rows about 2 min left" in shown
    assert "Elapsed 38 s" in shown and "Speed 3.1 rows/s" in shown and "Scores 90 of 1,500" in shown
    assert "27.0 k prompt, 2,400 completion" in shown and "Cost so far 0.03 USD" in shown
    assert "8 in flight of at most 8, 60 so far" in shown and "2 scores (parse error)" in shown
    assert "wait for a retry" not in shown and "all read" not in shown


def stop_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    """Pages are made at this time."""
    monkeypatch.setattr("valor_gpu.web.processes.progress_words.time", SimpleNamespace(time=lambda: now))


def test_requests_that_wait_are_said_with_their_cause(
    browser: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = replace(progress(30, waiting=3, phase="waiting"), problem_at=1000.0)
    keep(run, given)
    stop_clock(monkeypatch, 1012.0)
    shown = words(browser, run)
    assert f"3 requests wait for a retry: {PROBLEM}, last 12 s ago." in shown
    assert "29 retries so far: 20 server error, 9 rate limited." in shown


def test_a_process_that_says_nothing_is_told(browser: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given = progress(30)
    keep(run, given)
    stop_clock(monkeypatch, given.at + 41.0)
    assert "Last news 41 s ago: the process may be stuck." in words(browser, run)


def test_numbers_so_far_are_those_of_the_scores(store: Store, run: Run) -> None:
    summary = run_summary(run)
    infos = evaluator_infos(run)
    found, more = families_so_far(infos, progress(30), read_thresholds(None, infos), 10)
    cards = {card.name: card for _, _, cards in found for card in cards}
    assert more == 0 and list(cards) == ["gpt_fluency", "violence", "f1_score"]
    assert cards["gpt_fluency"].value == f"{summary['evaluators']['gpt_fluency']['mean']:.2f}"
    assert cards["f1_score"].value == f"{summary['evaluators']['f1_score']['mean']:.3f}"
    assert cards["violence"].value == f"{100 * summary['evaluators']['violence']['defect_rate']:.1f}%"
    assert {card.between for card in cards.values()} == {"so far"}
    assert {card.scored for card in cards.values()} == {"30 of 500 rows"}
    assert "10 of 1, 0 of 2, 0 of 3, 10 of 4, 10 of 5" in str(cards["gpt_fluency"].chart)


def test_numbers_so_far_have_no_interval_and_nothing_red(browser: TestClient, run: Run) -> None:
    text = page(browser, run)
    cards = text[text.index('id="cards"') : text.index('id="table"')]
    assert "so-far" in cards and "95% interval" not in cards and "not judged" not in cards
    assert 'class="fail"' not in cards and "2 parse error" in cards


def test_bars_so_far_lead_to_the_rows_so_far(browser: TestClient, run: Run) -> None:
    text = page(browser, run)
    cards = text[text.index('id="cards"') : text.index('id="table"')]
    links = re.findall(r'<a href="([^"]+)"[^>]*aria-label="rows of ([^"]+): ([0-9,]+)"', cards)
    assert {name.split(" with ")[0] for _, name, _ in links} == {"gpt_fluency", "violence", "f1_score"}
    for address, name, n in links:
        shown = re.search(
            r"([0-9,]+) rows|Rows 1 to \d+ of ([0-9,]+)",
            text_of(browser.get(unescape(address))).split(" Rows Views ")[1],
        )
        assert shown is not None and (shown[1] or shown[2]) == n, name


def test_a_silent_process_has_a_link_to_its_log(browser: TestClient, run: Run, store: Store) -> None:
    keep(run, replace(progress(30), at=time.time() - 40))
    link = f'<a href="/runs/{run.id}/log">Look into its log</a>'
    assert link not in page(browser, run), "Studio did not start it, so that there is no log"
    jobs.log_path(store, run.id).write_text("Traceback", encoding="utf-8")
    assert link in page(browser, run)
    keep(run, progress(30))
    assert link not in page(browser, run)


def test_nothing_is_counted(browser: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def scanned(*_: Any, **__: Any) -> Any:
        raise AssertionError("the page of a run that goes on reads its scores")

    for name in ("views.run.run_summary", "runs.figures.failed_rows", "runs.figures.failed_scores"):
        monkeypatch.setattr(f"valor_gpu.web.{name}", scanned)
    monkeypatch.setattr("valor_gpu.evaluation.report.cards.people_agreement", scanned)
    for method in ("summary", "histogram", "stream_rows"):
        monkeypatch.setattr(Run, method, scanned)
    assert "30 of 500 rows" in words(browser, run)
    assert "30 of 500 rows" in text_of(browser.get("/runs"))


def test_the_list_says_how_far_runs_are(browser: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(run, progress(30, waiting=3, phase="waiting"))
    monkeypatch.setattr(Run, "counts", lambda self: pytest.fail("the list counts rows"))
    found = browser.get("/runs")
    shown = text_of(found)
    assert "6%, 30 of 500 rows about 2 min left 3 requests wait for a retry" in shown
    assert '<progress max="500" value="30" aria-label="Progress of goes &lt;b&gt;on">' in found.text
    assert "x.csv · 500" in shown and "0.03 USD" in shown


@pytest.mark.parametrize("pages", ["/runs", "/runs/{}", "/runs/{}/log"])
def test_pages_follow_a_run_until_told_not_to(browser: TestClient, run: Run, pages: str) -> None:
    address = pages.format(run.id)
    shown = browser.get(address).text
    assert ' data-poll="2"' in shown
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in shown
    still = browser.get(address + "?still=1").text
    assert "data-poll" not in still and "http-equiv" not in still and "Follow" in still


def test_a_page_without_scripts_rests_while_a_row_is_open(browser: TestClient, run: Run) -> None:
    shown = page(browser, run, "?open=3")
    assert ' data-poll="2"' in shown and "http-equiv" not in shown


def test_every_live_part_is_there_before_and_after_the_end(path: Path, store: Store) -> None:
    run, browser = store.create_run("ends", {"version": 1, "evaluators": INFOS, "data": {}}), client(path)
    with run.lease():
        keep(run, progress(0))
        before = page(browser, run)
        score(run, 1, 3)
        run.finish("stopped", run_summary(run, stopped="The judge did not answer for 120 s."))
    after = page(browser, run)
    parts = [re.findall(r'id="(\w+)"[^>]* data-live', text) for text in (before, after)]
    assert parts[0] == parts[1] == ["actions", "progress", "facts", "news", "cards", "table"]
    assert "data-poll" in before and "data-poll" not in after
    assert 'data-state="running"' in before and 'data-state="stopped"' in after
    assert re.search(r'role="alert">.*The judge did not answer for 120 s\.', after, re.DOTALL)
    assert "Resume" in after and "Resume" not in before
    assert "0 of 500 rows are done; Resume goes on with the others." in after


def test_a_run_that_has_said_nothing_yet_starts(path: Path, store: Store) -> None:
    run = store.create_run("new", {"version": 1, "evaluators": INFOS, "data": {"source": "x.csv", "rows": 7}})
    assert jobs.note_process(store, run.id, os.getpid())
    shown = words(client(path), run)
    assert "0% 0 of 7 rows" in shown and "Reading the data" in shown and "time left" not in shown


def test_what_was_said_before_a_resumption_is_not_taken_for_news(path: Path, store: Store) -> None:
    run = store.create_run("again", {"version": 1, "evaluators": INFOS, "data": {}})
    score(run, 1, 30)
    keep(run, replace(progress(30, waiting=3), at=time.time() - 3600))
    assert jobs.note_process(store, run.id, os.getpid())
    shown = words(client(path), run)
    assert "30 of 500 rows" in shown and "Reading the data" in shown
    assert "wait to be asked" not in shown and "last word" not in shown


@pytest.mark.parametrize("hours", [-5, -1, 1, 5])
def test_a_clock_that_is_set_changes_nothing(
    path: Path, store: Store, run: Run, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    assert jobs.note_process(store, run.id, os.getpid())
    browser, real = client(path), time.time
    monkeypatch.setattr("time.time", lambda: real() + 3600 * hours)
    keep(run, progress(30, waiting=3))
    shown = words(browser, run)
    assert "30 of 500 rows about 2 min left" in shown and "Speed 3.1 rows/s" in shown and "Elapsed 38 s" in shown
    assert "3 requests wait for a retry" in shown and "Last news" not in shown and "Reading" not in shown
    assert "6%, 30 of 500 rows about 2 min left" in text_of(browser.get("/runs"))


def test_a_process_that_is_silent_since_the_clock_was_set_back_is_told(browser: TestClient, run: Run) -> None:
    keep(run, replace(progress(30), at=time.time() + 3600))
    said = "Last news before the clock of this machine was set back: the process may be stuck."
    assert said in words(browser, run)


def test_a_run_of_an_older_version_is_counted(path: Path, store: Store) -> None:
    run = store.create_run("old", {"version": 1, "evaluators": INFOS, "data": {"rows": 9}})
    with run.lease():
        score(run, 1, 3)
        browser = client(path)
        assert "3 of 9 rows" in text_of(browser.get("/runs"))
        assert "3 scored" in words(browser, run)


def test_a_run_without_a_known_total(browser: TestClient, run: Run) -> None:
    keep(run, replace(progress(30), total_rows=None, total_scores=None, eta=None))
    text = page(browser, run)
    assert "<progress" not in text and "30 rows" in text_of_page(text) and "time left not known" in text


def text_of_page(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_hostile_words_stay_text(browser: TestClient, run: Run) -> None:
    evil = "<script>alert(1)</script>\u202e"
    keep(run, replace(progress(30, waiting=3), problem=evil, currency=evil, failed_scores={evil: 2}))
    for address in (f"/runs/{run.id}", "/runs"):
        text = browser.get(address).text
        assert "<script>alert" not in text and "\u202e" not in text and "&lt;script&gt;alert" in text


@pytest.mark.parametrize(
    ("done", "total", "percent"), [(0, 500, "0%"), (499, 500, "99%"), (500, 500, "100%"), (3, None, ""), (0, 0, "")]
)
def test_all_rows_are_done_only_when_they_are(done: int, total: int | None, percent: str) -> None:
    assert progress_words(RunProgress(total_rows=total, done_rows=done)).percent == percent


def test_the_parts_of_the_cost_and_the_seconds_of_calls_are_said() -> None:
    tokens = {"prompt": 900, "completion": 100, "cached": 0}
    replaced = {"n": 3, "attempts": 9, "usage": {"total": 250}, "cost": 0.5, "costs": {}}
    calls = {
        "judge": {"n": 2000, "p50": 0.25, "p95": 1.5, "max": 12.25},
        "target": {"n": 1, "p50": 2, "p95": 2, "max": 2},
    }
    found = progress_words(RunProgress(tokens=tokens, cost=2.0, currency="EUR", replaced=replaced, latency=calls)).facts
    said = dict(found)
    assert said["Cost so far"] == (
        "2.00 EUR: 1.50 EUR for what is kept, 0.50 EUR for 3 failed attempts that were replaced"
    )
    assert said["Time of a call"] == (
        "judge median 250 ms, 95% within 1.5 s, longest 12.2 s, of 2,000 calls; "
        "target median 2 s, 95% within 2 s, longest 2 s, of 1 call"
    )
    older = dict(progress_words(RunProgress(tokens=tokens, cost=2.0, currency="EUR")).facts)
    assert older["Cost so far"] == "2.00 EUR" and "Time of a call" not in older


@pytest.mark.parametrize("lines", [0, 3, 250])
def test_log(path: Path, store: Store, lines: int) -> None:
    run, browser = store.create_run("logged", {"version": 1, "evaluators": [], "data": {}}), client(path)
    assert "did not start this run" in text_of(browser.get(f"/runs/{run.id}/log"))
    assert browser.get(f"/runs/{run.id}/log.txt").status_code == 404
    content = "".join(f"line {n} <b>\n" for n in range(lines))
    jobs.log_path(store, run.id).write_text(content)
    found = browser.get(f"/runs/{run.id}/log")
    assert found.text.count("&lt;b&gt;") == min(lines, 200)
    assert ("The last 200 lines." in found.text) == (lines == 250)
    assert ("line 249" in found.text) == (lines == 250)
    whole = browser.get(f"/runs/{run.id}/log.txt")
    assert whole.text == content and whole.headers["content-disposition"].endswith(f'"{run.id}.log"')


def test_long_log_begins_with_a_whole_line(path: Path, store: Store) -> None:
    run, browser = store.create_run("logged", {"version": 1, "evaluators": [], "data": {}}), client(path)
    jobs.log_path(store, run.id).write_text("".join(f"{n} {'x' * 50_000}\n" for n in range(9)))
    shown = text_of(browser.get(f"/runs/{run.id}/log"))
    assert re.findall(r"(\d) x", shown) == ["4", "5", "6", "7", "8"]


def test_log_of_an_unknown_run(browser: TestClient) -> None:
    assert (
        browser.get("/runs/..%2fx/log").status_code == 404 and browser.get("/runs/nothing/log.txt").status_code == 404
    )


def test_progress_of_other_versions_is_read(browser: TestClient, run: Run, store: Store) -> None:
    kept = {**progress(30).to_dict(), "later": 1}
    with store._database.write() as connection:
        connection.execute("UPDATE progress SET content = ?, checksum = NULL", (json.dumps(kept),))
    assert "30 of 500 rows" in words(browser, run)


def test_rows_without_a_score_are_quiet_until_the_end(path: Path, store: Store) -> None:
    run, browser = store.create_run("cells", {"version": 1, "evaluators": INFOS[:1], "data": {}}), client(path)
    with run.lease():
        run.add_rows([StoredRow(n, str(n), {"question": "?"}) for n in (1, 2, 3)])
        run.add_scores([StoredScore(1, "gpt_fluency", 0, 4.0)])
        run.finish("stopped", run_summary(run, stopped="Cancelled in Studio."))
    assert '<span class="dim">2 not judged</span>' in page(browser, run)
    with run.lease():
        run.finish("finished", run_summary(run))
    assert re.search(r'class="fail"[^>]*>2 not judged', page(browser, run))
