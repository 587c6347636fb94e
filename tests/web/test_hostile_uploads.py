"""Uploads that nobody sends by accident: names, bodies, encodings, a folder that fails. Nothing is left behind."""

from __future__ import annotations

import errno
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import ORIGIN, client, csrf, send, text_of
from valor_gpu.store import Store
from valor_gpu.web.wizard import uploads
from valor_gpu.web.wizard.uploads import shown_name

ROWS = b"question,answer\nWhat is it?,This.\n"
BOUNDARY = b"----a-boundary"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    return tmp_path / "inner" / "s.sqlite"


@pytest.fixture
def browser(path: Path) -> TestClient:
    return client(path)


@pytest.fixture
def address(browser: TestClient) -> str:
    found = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{found}/basics", {"scenario": "qa", "source": "data", "name": "one"})
    return found


def part(name: bytes, content: bytes, filename: bytes | None = None) -> bytes:
    more = b"" if filename is None else b"; filename=" + filename
    head = b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="' + name + b'"' + more
    return head + b"\r\n\r\n" + content + b"\r\n"


def body_of(browser: TestClient, *parts: bytes) -> bytes:
    first = part(b"csrf", csrf(browser).encode()) + part(b"do", b"load")
    return first + b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"


def raw(browser: TestClient, address: str, body: bytes, kind: bytes = b"multipart/form-data; boundary=") -> Any:
    kind += BOUNDARY if kind.endswith(b"boundary=") else b""
    headers = {"origin": ORIGIN, "content-type": kind.decode()}
    return browser.post(f"{address}/data", content=body, headers=headers)


def check_stored(browser: TestClient, path: Path, n: int) -> list[str]:
    """Checks that so many uploads are there, each under a name of ours, and nothing elsewhere; returns their names."""
    with Store(path) as store:
        kept = store.datasets.list()
        assert store.views.list(uploads.KIND) == []
    folder = path.with_suffix(".uploads")
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    assert len(files) == len(kept) == n and {each.source for each in kept} == set(map(str, files))
    assert all(each.name.split(".")[0].isalnum() and len(each.name) < 30 for each in files)
    assert {each.name.split(".")[0] for each in path.parent.iterdir()} == {"s"}
    assert [each.name for each in path.parent.parent.iterdir()] == ["inner"]
    assert browser.get("/datasets").status_code == 200
    return [each.name for each in kept]


TAKEN = [
    (b'"../../x.csv"', "x.csv"), (b'"..\\..\\x.csv"', None), (b'"/etc/x.csv"', "x.csv"), (b'"x.CSV"', "x.CSV"),
    (b'".csv"', ".csv"), ('"a\u202evsc.csv"'.encode(), "a\u202evsc.csv"), (b'"a\x00b.csv"', None),
    (b'"a\\"b.csv"', None), (b'"a;b.csv"', "a;b.csv"), (b"a.csv", "a.csv"), (b'"%2e%2e%2fx.csv"', "%2e%2e%2fx.csv"),
    (b'"=cmd|x.csv"', "=cmd|x.csv"), (b'"<script>.csv"', "<script>.csv"),
    ('"caf\u00e9.csv"'.encode(), "caf\u00e9.csv"), (unicodedata.normalize("NFD", '"caf\u00e9.csv"').encode(), None),
    (b'"caf\xe9.csv"', None), (b'"' + b"x" * 1_000 + b'.csv"', None),
    (b"\"x.csv\"; filename*=UTF-8''..%2Fy.csv", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shown"), TAKEN, ids=range(len(TAKEN)))
def test_a_name_is_shown_and_names_no_file(
    browser: TestClient, address: str, path: Path, name: bytes, shown: str | None
) -> None:
    found = raw(browser, address, body_of(browser, part(b"file", ROWS, name)))
    assert found.status_code == 200 and "1 row" in text_of(found)
    [kept] = check_stored(browser, path, 1)
    assert shown is None or kept == shown
    assert "/" not in kept and "\\" not in kept and len(kept) <= 200 and kept.isprintable() | ("\u202e" in kept)
    assert "\u202e" not in found.text and "<script>." not in found.text


REFUSED = [b'"a.jsonl.exe"', b'"a.xlsx"', b'"csv"', b'"a.csv/"', b'"a.csv."', b'"/"', b'"a.csv\x00.exe"', b'"."']


@pytest.mark.parametrize("name", REFUSED, ids=range(len(REFUSED)))
def test_another_ending_is_refused(browser: TestClient, address: str, path: Path, name: bytes) -> None:
    found = raw(browser, address, body_of(browser, part(b"file", ROWS, name)))
    assert "must be a file that ends in .csv or .jsonl" in text_of(found)
    check_stored(browser, path, 0)


def test_a_part_of_a_name_that_breaks_its_header_is_no_form(browser: TestClient, address: str, path: Path) -> None:
    for name in (b'"a\r\nb.csv"', b'"a\r\n\r\nb.csv"', b'"a\nX-Evil: 1\n.csv"', b'"' + b"x" * 10_000 + b'.csv"'):
        found = raw(browser, address, body_of(browser, part(b"file", ROWS, name)))
        assert found.status_code in (200, 400) and "x-evil" not in found.headers
        assert found.text.endswith("</html>\n") or found.text.endswith("</html>")
    check_stored(browser, path, len(list(path.with_suffix(".uploads").glob("*"))))


BODIES = [
    lambda whole: whole[:-40], lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: whole[:30],
    lambda whole: whole.replace(BOUNDARY, b"----another"), lambda whole: whole.replace(b"\r\n", b"\n"),
    lambda whole: b"\x00" * 1000, lambda whole: whole.replace(b'name="file"', b""),
    lambda whole: whole.replace(b"Content-Disposition", b"Content-Other"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Exception ignored in.*SpooledTemporaryFile")  # of starlette's parser
@pytest.mark.parametrize("broken", BODIES, ids=range(len(BODIES)))
def test_a_broken_body_is_a_page_that_says_so(browser: TestClient, address: str, path: Path, broken: Any) -> None:
    whole = body_of(browser, part(b"file", ROWS * 3, b'"a.csv"'))
    found = raw(browser, address, broken(whole))
    assert 400 <= found.status_code < 500 and found.text.rstrip().endswith("</html>")
    assert "Traceback" not in found.text and "<h1>" in found.text
    check_stored(browser, path, 0)


@pytest.mark.filterwarnings("ignore:Exception ignored in.*SpooledTemporaryFile")
def test_a_form_that_is_cut_changes_nothing(browser: TestClient, address: str, path: Path) -> None:
    send(browser, f"{address}/data", {"do": "load"}, files={"file": ("a.csv", ROWS)})
    send(browser, f"{address}/data", {"map-question": "${data.answer}"})
    before = browser.app.state.studio.store.views.get("draft", address.split("/")[-1])  # type: ignore[attr-defined]
    whole = body_of(browser, part(b"map-question", b"${data.question}"), part(b"file", ROWS + b"x,y\n", b'"b.csv"'))
    for end in range(len(whole) - 5, 0, -17):
        found = raw(browser, address, whole[:end])
        assert found.status_code in (400, 403), end
    after = browser.app.state.studio.store.views.get("draft", address.split("/")[-1])  # type: ignore[attr-defined]
    assert after == before and check_stored(browser, path, 1) == ["a.csv"]


@pytest.mark.parametrize(
    "kind", [b"multipart/form-data", b"multipart/form-data; boundary=" + b"x" * 5_000, b"text/csv", b"", b"a/b; c=\xff"]
)
def test_another_type_of_content_is_a_page_that_says_so(
    browser: TestClient, address: str, path: Path, kind: bytes
) -> None:
    body = body_of(browser, part(b"file", ROWS, b'"a.csv"'))
    headers = [(b"origin", ORIGIN.encode()), (b"content-type", kind)]
    found = browser.post(f"{address}/data", content=body, headers=headers)
    assert 400 <= found.status_code < 500 and "<h1>" in found.text
    check_stored(browser, path, 0)


def test_no_file_and_two_files(browser: TestClient, address: str, path: Path) -> None:
    for parts in ([], [part(b"file", b"", b'""')], [part(b"file", ROWS)], [part(b"other", ROWS)]):
        found = raw(browser, address, body_of(browser, *parts))
        assert found.status_code == 200 and "Choose a data set, or upload one." in text_of(found)
    found = raw(browser, address, body_of(browser, *[part(b"file", ROWS, b'"a.csv"')] * 2))
    assert found.status_code == 400 and "Too many files" in text_of(found)
    check_stored(browser, path, 0)


WRONG = [
    ("a.csv", "question,answer\nä,ö\n".encode("utf-16"), "must be UTF-8 but is UTF-16 (little-endian)"),
    ("a.csv", "question,answer\na,b\n".encode("utf-16-be"), "must be UTF-8 but looks like UTF-16 (big-endian)"),
    ("a.csv", "question,answer\nä,ö\n".encode("latin-1"), "must be UTF-8 but has the byte 0xE4"),
    ("a.csv", "questiön,answer\na,b\n".encode("latin-1"), "must be UTF-8 but has the byte 0xF6"),
    ("a.jsonl", b'{"question": "\xff"}\n', "must be UTF-8 but has the byte 0xFF at column 15"),
    ("a.jsonl", b'{"question": 1, "question": 2}\n', "has the key &#39;question&#39; more than once"),
    ("a.csv", b"question,question\n1,2\n", "must name every column once"),
    ("a.csv", b"", "must have a line with the names of its columns but is empty"),
    ("a.csv", b"\n\r\n", "must have a line with the names of its columns but is empty"),
    ("a.csv", b"question,answer\n", "must have at least one row but has none"),
    ("a.csv", b"PK\x03\x04" + b"x" * 100, "a zip archive or an Excel workbook"),
    ("a.csv", b"\x1f\x8b" + b"x" * 100, "must be gzip but is damaged"),
    ("a.jsonl", b"[" * 100_000 + b"\n", "must have a row that can be read but has none"),
    ("a.jsonl", b"\x00" * 1_000, "must have a row that can be read but has none"),
    ("a.jsonl", b'{"n": 1e999}\n', "beyond float64"),
    ("a.jsonl", b"{}\n{}\n", "must have columns"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), WRONG, ids=range(len(WRONG)))
def test_a_file_that_cannot_be_read_is_named(
    browser: TestClient, address: str, path: Path, name: str, content: bytes, said: str
) -> None:
    found = send(browser, f"{address}/data", {"do": "load"}, files={"file": (name, content)})
    assert said in text_of(found) and "The file was not stored." in text_of(found)
    assert str(path.parent) not in found.text
    check_stored(browser, path, 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xef\xbb\xbf" + ROWS, "This."), (b"question,answer\na,b\x00c\n", "1 row"),
     (b"question,answer\na,=1+1\n\xff,b\n", "must be UTF-8 but has the byte 0xFF"),
     (b"question,answer\n=cmd|' /C calc'!A0,<script>alert(1)</script>\n", "=cmd|")],
)  # fmt: skip
def test_odd_cells_are_kept_and_shown_as_texts(
    browser: TestClient, address: str, path: Path, content: bytes, said: str
) -> None:
    found = send(browser, f"{address}/data", {"do": "load"}, files={"file": ("a.csv", content)})
    assert said in text_of(found).replace("&#39;", "'") and "<script>alert" not in found.text
    check_stored(browser, path, 1)


def test_a_link_in_place_of_the_folder_or_its_files_is_not_followed(
    browser: TestClient, address: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside = path.with_suffix(".uploads"), path.parent.parent / "outside"
    folder.mkdir()
    outside.write_text("stays")
    (folder / "0011223344556677.csv").symlink_to(outside)
    monkeypatch.setattr(uploads.secrets, "token_hex", lambda _: "0011223344556677")
    found = send(browser, f"{address}/data", {"do": "load"}, files={"file": ("a.csv", ROWS)})
    assert found.status_code == 500 and "A file cannot be written or read: File exists." in text_of(found)
    assert outside.read_text() == "stays"


def test_a_folder_that_cannot_be_made_is_named_without_its_path(browser: TestClient, address: str, path: Path) -> None:
    path.with_suffix(".uploads").write_text("a file")
    found = send(browser, f"{address}/data", {"do": "load"}, files={"file": ("a.csv", ROWS)})
    assert found.status_code == 500 and "A file cannot be written or read: File exists." in text_of(found)
    assert str(path.parent) not in found.text and "Back to the page" in found.text
    with Store(path) as store:
        assert store.datasets.list() == [] and store.views.list(uploads.KIND) == []


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "No space left on device"), (errno.EDQUOT, "Disk quota exceeded")]
)
@pytest.mark.parametrize("where", ["file", "form"])
def test_a_disk_that_is_full_in_the_middle(
    browser: TestClient, address: str, path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str, where: str
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number), "/private/name")

    content = ROWS + b"a,b\n" * 500_000
    if where == "file":
        monkeypatch.setattr(uploads, "_copy", lambda content, path, shown: (path.write_bytes(content.read(9)), full()))
    else:
        monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", full)
    found = send(browser, f"{address}/data", {"do": "load"}, files={"file": ("a.csv", content)})
    assert found.status_code == 500 and f"A file cannot be written or read: {said}." in text_of(found)
    assert "private" not in found.text
    monkeypatch.undo()
    check_stored(browser, path, 0)


def test_names_for_people() -> None:
    assert [shown_name(name) for name in ("a\r\nb.csv", "x/..\\y.csv", "a\x00.csv", "\ud800.csv", " a.csv ", "/")] == [
        "a  b.csv", "y.csv", "a .csv", " .csv".strip(), "a.csv", ""
    ]  # fmt: skip
    assert shown_name("x" * 1_000 + ".csv").endswith("x….csv") and len(shown_name("x" * 1_000 + ".csv")) <= 200
    assert len(shown_name("x" * 1_000 + "." + "y" * 1_000)) <= 200
