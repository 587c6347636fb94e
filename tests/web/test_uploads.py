"""Uploads that take long are read by a process: progress, cancel, errors, ends of processes and servers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, send, text_of
from tests.web.work import wait
from valor_gpu.errors import StoreError
from valor_gpu.store import Store
from valor_gpu.web.processes import readings
from valor_gpu.web.processes.readings import Reading
from valor_gpu.web.wizard import uploads
from valor_gpu.web.wizard.uploads import clean_up

ROWS = b"question,answer\n" + b"What is it?,This.\n" * 20
HOLDS = """
import json, signal, sys
print(json.dumps({"bytes": 100, "rows": 7}), flush=True)
signal.pause()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


@pytest.fixture
def browser(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Studio, in which a process reads every upload, and every page waits for it."""
    monkeypatch.setattr(uploads, "SMALL", 0)
    monkeypatch.setattr(readings, "PATIENCE", 100.0)
    found = client(path)
    yield found
    studio_of(found).readings.close()


@pytest.fixture
def slow(browser: TestClient, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Studio whose readings have no end, and whose pages do not wait."""
    monkeypatch.setattr(readings, "PATIENCE", 0.0)
    monkeypatch.setattr(readings, "COMMAND", [sys.executable, "-c", HOLDS])
    return browser


def studio_of(browser: TestClient) -> Any:
    return browser.app.state.studio  # type: ignore[attr-defined]


def begin(browser: TestClient) -> str:
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{address}/basics", {"scenario": "qa", "source": "data", "name": "one"})
    return address


def upload(browser: TestClient, address: str, content: bytes = ROWS, name: str = "a.csv", **fields: str) -> Any:
    return send(browser, f"{address}/data", {"do": "load", **fields}, files={"file": (name, content)})


def going_on(browser: TestClient) -> Reading:
    """The reading under way, which has said how far it is."""
    reading: Reading
    [reading] = studio_of(browser).readings._all.values()
    wait(lambda: reading.rows == 7)
    return reading


def files(path: Path) -> list[Path]:
    return sorted(path.with_suffix(".uploads").iterdir())


def notes(browser: TestClient) -> list[str]:
    return list(studio_of(browser).store.views.list(uploads.KIND))


def test_a_data_set_that_a_process_has_read_is_that_of_the_server(browser: TestClient, path: Path) -> None:
    address = begin(browser)
    page = upload(browser, address)
    assert page.url.path == f"{address}/data" and "a.csv, 20 rows" in text_of(page)
    assert "data-poll" not in page.text and "First 10 of 20 rows" in text_of(page)
    assert len(files(path)) == 1 and notes(browser) == []
    nested = b'{"question": "?"}\n' * 200 + b'{"question": "?", "late": {"inner": 1}}\n'
    page = upload(browser, address, nested, "b.jsonl")
    assert "b.jsonl, 201 rows" in text_of(page) and "${data.late.inner}" in page.text, "what begins behind 100 rows"
    again = upload(browser, begin(browser), ROWS, "c.csv")
    assert "a.csv, 20 rows" in text_of(again) and len(files(path)) == 2, "the same content is stored once"


def test_the_page_shows_how_far_a_reading_is_and_renews_itself(slow: TestClient, path: Path) -> None:
    address = begin(slow)
    page = upload(slow, address)
    assert page.status_code == 200 and page.url.path == f"{address}/data"
    going_on(slow)
    page = slow.get(f"{address}/data")
    shown = text_of(page)
    assert "a.csv is read" in shown and "7 rows so far" in shown and "of 0.0 MB" in shown
    assert 'data-poll="2"' in page.text and '<meta http-equiv="refresh" content="5">' in page.text
    assert "data-poll" not in slow.get(f"{address}/data?still=1").text
    for other in ("/runs", "/datasets", f"{address}/basics", f"{address}/metrics", f"{address}/review"):
        assert slow.get(other).status_code == 200
    assert "No data set in this store yet" in text_of(slow.get("/datasets"))


@pytest.mark.parametrize("way", ["cancel", "discard", "another"])
def test_a_reading_that_is_not_wanted_any_more_leaves_nothing(
    slow: TestClient, path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    address = begin(slow)
    upload(slow, address)
    reading = going_on(slow)
    process = reading._process
    assert process is not None
    if way == "cancel":
        page = send(slow, f"{address}/data", {"do": "cancel-upload"})
        assert "or upload .csv" in text_of(page) and "not stored" not in text_of(page)
    elif way == "discard":
        send(slow, f"{address}/delete")
    else:
        monkeypatch.undo()
        upload(slow, address, ROWS + b"x,y\n", "b.csv")
    assert reading.wait(60) and process.returncode == -signal.SIGKILL
    assert len(files(path)) == (way == "another") and notes(slow) == []


def test_a_process_that_dies_is_named_and_another_try_works(
    slow: TestClient, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = begin(slow)
    upload(slow, address)
    reading = going_on(slow)
    assert reading._process is not None
    os.kill(reading._process.pid, signal.SIGKILL)
    assert reading.wait(60)
    said = "a.csv was not read to its end, since the process that read it was killed, perhaps because memory ran out."
    for _ in range(2):
        page = slow.get(f"{address}/data")
        assert said in text_of(page) and "data-poll" not in page.text
    assert files(path) == []
    monkeypatch.setattr(readings, "COMMAND", [sys.executable, "-m", "valor_gpu.web.processes.reader"])
    monkeypatch.setattr(readings, "PATIENCE", 100.0)
    page = upload(slow, address)
    assert "a.csv, 20 rows" in text_of(page) and said not in text_of(page) and notes(slow) == []


@pytest.mark.parametrize(
    ("program", "said"),
    [("import sys; sys.exit(3)", "ended with status 3"), ("print('no json')", "could not be read: JSONDecodeError"),
     ("print('[]')", "could not be read: TypeError"), ("print('\\xff')", "could not be read")],
)  # fmt: skip
def test_a_process_that_says_nonsense_is_an_error_of_the_file(
    browser: TestClient, path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    monkeypatch.setattr(readings, "COMMAND", [sys.executable, "-c", program])
    page = upload(browser, begin(browser))
    assert said in text_of(page) and "Traceback" not in page.text and files(path) == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("a.csv", b"\xff\xfeq\x00", "a.csv must be UTF-8 but is UTF-16"), ("a.csv", b"", "a.csv must have a line with"),
     ("a.csv", b"a,a\n1,2\n", "must name every column once"), ("a.jsonl", b"[1]\n", "a.jsonl must have a row that")],
)  # fmt: skip
def test_errors_of_the_file_are_on_its_page(
    browser: TestClient, path: Path, name: str, content: bytes, said: str
) -> None:
    address = begin(browser)
    page = upload(browser, address, content, name)
    assert "The file was not stored." in text_of(page) and said in text_of(page)
    assert str(path.parent) not in page.text and files(path) == []
    assert said not in text_of(send(browser, f"{address}/data", {"do": "load"})), "it was read"
    assert notes(browser) == []


def test_two_uploads_at_once_wait_for_nobody(slow: TestClient, path: Path) -> None:
    first, second = begin(slow), None
    upload(slow, first)
    second = begin(slow)
    upload(slow, second, ROWS + b"x,y\n", "b.csv")
    assert first != second
    wait(lambda: all(each.rows == 7 for each in studio_of(slow).readings._all.values()))
    assert "a.csv is read" in text_of(slow.get(f"{first}/data"))
    assert "b.csv is read" in text_of(slow.get(f"{second}/data"))
    upload(slow, begin(slow), ROWS + b"z,y\n", "c.csv")
    assert len(files(path)) == 3
    assert sum(each._process is not None for each in studio_of(slow).readings._all.values()) == readings.MOST


def test_a_server_that_ends_takes_its_readings_along(slow: TestClient, path: Path) -> None:
    address = begin(slow)
    upload(slow, address)
    reading = going_on(slow)
    studio_of(slow).readings.close()
    assert reading.is_done and files(path) == [] and notes(slow) == []
    assert slow.get(f"{address}/data").status_code == 200


def test_what_a_killed_server_leaves_is_taken_away_at_the_next_start(slow: TestClient, path: Path) -> None:
    address = begin(slow)
    upload(slow, address)
    going_on(slow)
    [uid] = notes(slow)
    store = studio_of(slow).store
    clean_up(store, path.with_suffix(".uploads"))
    assert len(files(path)) == 1, "of a server that lives"
    store.views.save(uploads.KIND, uid, {**store.views.get(uploads.KIND, uid), "started": "of another process"})
    with Store(path) as other:
        clean_up(other, path.with_suffix(".uploads"))
    assert files(path) == []
    page = client(path).get(f"{address}/data")
    assert "Studio was ended while it read a.csv. Upload it again." in text_of(page) and "data-poll" not in page.text
    send(slow, f"{address}/delete")
    clean_up(store, path.with_suffix(".uploads"))
    assert notes(slow) == []


def test_a_note_that_names_another_file_takes_nothing_away(browser: TestClient, path: Path) -> None:
    upload(browser, begin(browser))
    [kept] = files(path)
    store, gone = studio_of(browser).store, {"name": "a.csv", "draft": "d", "pid": 1, "started": "x", "machine": "y"}
    outside = path.parent / "outside.csv"
    outside.write_text("stays")
    for file in ("../outside.csv", str(outside), kept.name, "", "."):
        store.views.save(uploads.KIND, "forged", {**gone, "file": file, "at": 0.0})
        clean_up(store, path.with_suffix(".uploads"))
    assert outside.exists() and kept.exists()


def test_a_store_that_is_full_when_the_file_is_read_keeps_no_file(
    browser: TestClient, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("store s.sqlite cannot be written: database or disk is full")

    monkeypatch.setattr("valor_gpu.store.datasets.DatasetLibrary.save", full)
    page = upload(browser, begin(browser))
    assert "What was read of a.csv could not be kept: store s.sqlite cannot be written" in text_of(page)
    assert files(path) == []


def test_rows_are_counted_by_a_process_while_pages_answer(
    browser: TestClient, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valor_gpu.web.wizard.counting.SMALL", 0)
    address = begin(browser)
    monkeypatch.setattr(readings, "COMMAND", [sys.executable, "-c", HOLDS])
    monkeypatch.setattr(uploads, "SMALL", 1 << 20)
    monkeypatch.setattr(readings, "PATIENCE", 0.0)
    upload(browser, address, ROWS + b"one,two,three\n")
    reading = going_on(browser)
    page = browser.get(f"{address}/data")
    assert "Rows that cannot be read are counted" in text_of(page) and 'data-poll="2"' in page.text
    send(browser, f"{address}/metrics", {"metric": "f1_score", "level": "Medium"})
    monkeypatch.setattr(readings, "COMMAND", [sys.executable, "-m", "valor_gpu.web.processes.reader"])
    monkeypatch.setattr(readings, "PATIENCE", 100.0)
    reading.cancel()
    assert reading.wait(60)
    page = browser.get(f"{address}/data")
    assert "1 row cannot be read." in text_of(page) and "data-poll" not in page.text
    assert "must have 2 cells" in text_of(page)
