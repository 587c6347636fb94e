"""Requests that nobody sends by accident: numbers of any length, cookies of other programs, texts that take time."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from testing.growth import FACTOR, growth
from tests.web.pages import client, locked_client, send, text_of
from valor_gpu.errors import InputError, LeaseError
from valor_gpu.evaluation.prompts.templates import MessageTemplate
from valor_gpu.evaluation.rows.mapping import resolve_mapping
from valor_gpu.store import Run, Store, StoredRow
from valor_gpu.web.rows.conditions import Condition
from valor_gpu.web.security import Session, looks_like_key

DIGITS = "9" * 5000  # more than Python converts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


@pytest.fixture
def run(path: Path) -> str:
    with Store(path) as store:
        found = store.create_run("one", {})
        found.add_rows([StoredRow(1, "a", {"question": "?"})])
        return found.id


@pytest.fixture
def browser(path: Path, run: str) -> TestClient:
    return client(path)


@pytest.mark.parametrize("part", ["rows", "image", "images"])
def test_numbers_of_any_length_are_a_page_that_is_not_there(browser: TestClient, run: str, part: str) -> None:
    for digits in (DIGITS, "9" * 16, "9" * 15):
        assert browser.get(f"/runs/{run}/{part}/{digits}").status_code == 404


def test_feedback_on_a_row_of_any_length_is_refused(browser: TestClient, run: str) -> None:
    found = send(browser, f"/runs/{run}/feedback", {"row": DIGITS, "note": "long"})
    assert found.status_code == 400 and "row must be the number of a row" in text_of(found)


@pytest.mark.parametrize("query", ["sort", "column", "q", "if"])
@pytest.mark.parametrize("code", ["D800", "DFFF", "FFFFFF", "0"])
def test_a_forged_sign_of_a_field_is_no_error_of_the_server(
    browser: TestClient, run: str, query: str, code: str
) -> None:
    for page in (f"/runs/{run}", "/runs"):
        assert browser.get(page, params={query: f"\uf8f0{code}\uf8f1"}).status_code in (200, 400)


@pytest.mark.parametrize(
    "other",
    ['{"a": 1}', "words", "list=[1, 2]", "a b=c d", "a@b=1", "café=1", "path=/", "studio_8765=of another", 'q="a; b"'],
)
def test_cookies_of_other_programs_lock_nobody_out(path: Path, run: str, other: str) -> None:
    browser = locked_client(path)
    found = browser.get("/start?token=start-token", follow_redirects=False)
    ours = found.headers["set-cookie"].partition(";")[0]
    browser.cookies.clear()
    for cookies in (f"{other}; {ours}", f"{ours}; {other}"):
        assert browser.get("/runs", headers={"cookie": cookies.encode()}).status_code == 200
    assert browser.get("/runs", headers={"cookie": other.encode()}).status_code == 403


def test_a_cookie_counts_by_its_whole_name_and_value() -> None:
    session = Session("token", 8765)
    secret = (session.start("token") or "").partition(";")[0].partition("=")[2]
    assert session.is_open(f"a=b;studio_8765={secret}")
    for cookies in (f"studio_87651={secret}", f"xstudio_8765={secret}", f"studio_8765={secret}x", "studio_8765=", ""):
        assert not session.is_open(cookies)


@pytest.mark.parametrize(
    "part", ["eyJabcdefgh-", "token ", "token\n\n", "sk-abc ", "api key ", "eyJ.eyJ", "password='"]
)
def test_looking_for_keys_takes_time_by_the_length_of_the_text(part: str) -> None:
    assert growth(lambda size: looks_like_key(part * (size // len(part))), 50_000) < 3 * FACTOR
    assert growth(lambda size: looks_like_key(part.strip() + " " * size + "x"), 50_000) < 3 * FACTOR
    assert not looks_like_key(part * 1000) and not looks_like_key(part.strip() + " " * 1000 + "x")


@pytest.mark.parametrize(
    "text",
    ["Bearer abcdefghijklmnopqrst", "token: abcdefghijklmnopqrst", 'password="abcdefghijklmnopqrst"',
     "api key =  'abcdefghijklmnop1234'", "x eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.x", "secret\tabcdefghijklmnopqrst"],
)  # fmt: skip
def test_keys_are_still_found(text: str) -> None:
    assert looks_like_key(text)


def test_a_run_that_another_process_holds_is_no_failure_of_the_server(
    browser: TestClient, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(_: Run) -> None:
        raise LeaseError(f"run {run} is worked on by process 7")

    monkeypatch.setattr(Run, "delete", held)
    found = send(browser, f"/runs/{run}/delete")
    assert found.status_code == 409 and "is worked on by process 7" in text_of(found)


def test_a_full_disk_is_named(browser: TestClient, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/private/name")

    monkeypatch.setattr("valor_gpu.web.views.exports.tempfile.mkstemp", full)
    found = browser.get(f"/runs/{run}/export.csv")
    assert found.status_code == 500 and "No space left on device." in text_of(found) and "private" not in found.text


def test_a_fault_of_the_server_has_a_page(browser: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("/private/name")

    monkeypatch.setattr("valor_gpu.web.views.runs.metrics_by_use", broken)
    found = browser.get("/runs")
    assert found.status_code == 500 and "An error of the server: KeyError. Its log says more." in text_of(found)
    assert "private" not in found.text and "All evaluations" in text_of(found)


@pytest.mark.parametrize("blanks", ["\t ", "  ", "# \t", "system \t"])
def test_blanks_of_a_prompt_take_time_by_their_number(blanks: str) -> None:
    def read(size: int) -> None:
        MessageTemplate(blanks * (size // len(blanks)) + "x\n{{ answer }}")

    assert growth(read, 20_000) < 3 * FACTOR


def test_a_prompt_is_measured_before_it_is_read() -> None:
    with pytest.raises(InputError, match="must have at most 1,600,000 characters but has 2,000,010"):
        MessageTemplate("user:\nword" * 200_001)


@pytest.mark.parametrize("text", ["${data.BLANKSx}", "${BLANKSdata.x}", "${data.xBLANKS}"])
def test_blanks_of_a_mapping_take_time_by_their_number(text: str) -> None:
    def resolve(blanks: int) -> None:
        with contextlib.suppress(InputError):
            resolve_mapping({"question": text.replace("BLANKS", " " * blanks)}, ("x", "question"), None, (), "qa")

    assert growth(resolve, 50_000) < 3 * FACTOR


@pytest.mark.parametrize("value", [". x x", "to x x", " x", "1..DOTS x", "DOTS"])
def test_values_of_a_condition_take_time_by_their_length(value: str) -> None:
    def read(size: int) -> None:
        text = value.replace("DOTS", "." * size) if "DOTS" in value else value[0] * size + value[1:]
        with pytest.raises(InputError, match=r"must be LOW\.\.HIGH"):
            Condition.made("m", "between", text, {"m": 1})

    assert growth(read, 1_000) < 3 * FACTOR


def test_no_trace_is_left_of_exports_that_nobody_reads(
    path: Path, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    browser = client(path)
    for kind in ("csv", "jsonl", "html"):
        address = f"/runs/{run}/export.{kind}"
        assert browser.head(address).status_code == 200
        whole = browser.get(address, headers={"range": "bytes=999999-"})
        assert whole.status_code == 200 and len(whole.content) == int(whole.headers["content-length"]) > 0
        with browser.stream("GET", address):
            pass
    assert list(folder.iterdir()) == []
