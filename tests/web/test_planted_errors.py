"""An exception anywhere in Studio has the page of errors: what went wrong, a way back, the headers of every page."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

from tests.web.pages import ORIGIN, TOKEN, client, csrf, text_of
from valor_gpu.errors import StoreError
from valor_gpu.store import Run, Store, StoredRow
from valor_gpu.web import make_app, render, routes
from valor_gpu.web.errands import Errands
from valor_gpu.web.runs.purging import Sweeper
from valor_gpu.web.security import HEADERS, Guard

SAMPLES = {
    "{run}": "RUN", "{number:number}": "1", "{kind}": "runs", "{name}": "gpt_coherence", "{trial}": "0a",
    "{hash}": "0123456789", "{draft}": "DRAFT",
}  # fmt: skip
"""What stands for the parts of addresses; a new part needs a line here."""
WORDS = "An error of the server: {}. Its log says more. Everything stored before is kept."
PRIVATE = "/private/name"


def planted() -> list[tuple[BaseException, int, str]]:
    """Exceptions, with the status and the words of their page."""
    return [
        (RuntimeError(PRIVATE), 500, WORDS.format("RuntimeError")),
        (StoreError("the store is damaged: valor-gpu store check s.sqlite"), 503, "valor-gpu store check s"),
        (OSError(5, "Input/output error", PRIVATE), 500, "A file cannot be written or read: Input/output error."),
        (MemoryError(), 500, WORDS.format("MemoryError")),
        (RecursionError(PRIVATE), 500, WORDS.format("RecursionError")),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, PRIVATE), 500, WORDS.format("UnicodeDecodeError")),
        (StopIteration(PRIVATE), 500, WORDS.format("RuntimeError")),
        (SystemExit(PRIVATE), 500, WORDS.format("RuntimeError")),
        (KeyboardInterrupt(PRIVATE), 500, WORDS.format("RuntimeError")),
    ]  # fmt: skip


def addresses(browser: TestClient) -> list[tuple[str, str]]:
    """Method and address of every page of the application."""
    found = []
    for route in browser.app.routes:  # type: ignore[attr-defined]
        if isinstance(route, Mount):
            assert route.path == "/static", "how its errors look is not known"
            continue
        assert isinstance(route, Route)
        path = route.path
        for part, sample in SAMPLES.items():
            path = path.replace(part, sample)
        assert "{" not in path, f"SAMPLES needs a line for {route.path}"
        if not path.startswith("/static/"):
            found += [(method, path) for method in sorted(route.methods or ()) if method != "HEAD"]
    return found


@pytest.fixture
def run(tmp_path: Path) -> str:
    with Store(tmp_path / "s.sqlite") as store:
        found = store.create_run("one", {})
        found.add_rows([StoredRow(1, "a", {"question": "?"})])
        return found.id


@pytest.fixture
def browser(tmp_path: Path, run: str) -> TestClient:
    return client(tmp_path / "s.sqlite")


def ask(browser: TestClient, method: str, address: str) -> Any:
    form: dict[str, Any] = {"data": {"csrf": csrf(browser)}, "headers": {"origin": ORIGIN}} if method == "POST" else {}
    return browser.request(method, address, follow_redirects=False, **form)


def check_page(found: Any, status: int, words: str) -> None:
    shown = text_of(found)
    assert found.status_code == status and words in shown and "This did not work" in shown
    assert found.headers["content-type"] == "text/html; charset=utf-8" and found.text.endswith("</html>")
    assert '<a href="/runs">All evaluations</a>' in found.text
    assert all(each not in found.text for each in ("private", "Traceback", "site-packages", str(Path(__file__).parent)))
    check_headers(found)


def check_headers(found: Any) -> None:
    assert found.headers["cache-control"] == "no-store"
    for name, value in HEADERS:
        assert found.headers.get_list(name.decode()) == [value.decode()]


@pytest.mark.parametrize(("error", "status", "words"), planted(), ids=lambda each: type(each).__name__)
def test_every_page_and_form_has_the_page_of_errors(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch, log: io.StringIO, error: Exception, status: int, words: str
) -> None:
    asked, real = addresses(browser), routes._answer

    def fail(_: routes.Ask) -> Response:
        raise error

    monkeypatch.setattr(routes, "_answer", lambda handler, ask: real(fail, ask))
    assert len(asked) > 50
    for method, address in asked:
        before = len(log.getvalue())
        check_page(ask(browser, method, address), status, words)
        said = log.getvalue()[before:]
        assert f"{method} {address} failed" in said
        assert ("Traceback" in said) == (not isinstance(error, StoreError)), "a damaged store is no fault of the code"


@pytest.mark.parametrize(
    ("method", "address", "back"),
    [("GET", "/runs/R/rows/1", "/runs/R"), ("GET", "/runs/R", ""), ("GET", "/evaluators/E/edit", ""),
     ("POST", "/runs/R/edit", "/runs/R"), ("POST", "/drafts/D/submit", "/drafts/D/review"),
     ("POST", "/drafts/D/data", "/drafts/D/data"), ("POST", "/evaluators/E/try", "/evaluators/E")],
)  # fmt: skip
def test_the_way_back(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch, method: str, address: str, back: str
) -> None:
    monkeypatch.setattr(routes, "_answer", lambda *_: 1 / 0)
    found = ask(browser, method, address)
    assert (f'href="{back}">Back to the page' in found.text) == bool(back)
    assert ("keeps what you typed" in found.text) == (method == "POST")


@pytest.mark.parametrize("error", [StoreError("store is damaged"), ValueError(PRIVATE), AttributeError(PRIVATE)])
def test_a_store_that_fails_leaves_no_page_without_words(
    browser: TestClient, run: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("valor_gpu.store.database.Database.read", fail)
    monkeypatch.setattr("valor_gpu.store.database.Database.write", fail)
    for method, address in addresses(browser):
        found = ask(browser, method, address.replace("RUN", run))
        assert found.status_code < 500 or "This did not work" in text_of(found), address
        assert "private" not in found.text
        check_headers(found)


def test_a_template_that_fails_has_the_page_of_errors(browser: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(render._ENVIRONMENT.globals, "icon", None)
    monkeypatch.setitem(render._ENVIRONMENT.get_template("runs.html").globals, "address", None)
    monkeypatch.setitem(render._ENVIRONMENT.filters, "rows", None)
    monkeypatch.setattr("valor_gpu.web.views.runs._row", lambda *_: {})
    check_page(browser.get("/runs"), 500, WORDS.format("UndefinedError"))


def test_a_page_of_errors_that_fails_has_a_plain_one(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError(PRIVATE)

    monkeypatch.setattr(render._ENVIRONMENT, "get_template", fail)
    for address in ("/runs", "/nothing"):
        found = browser.get(address)
        assert found.status_code == 500 and "This did not work An error of the server." in text_of(found)
        assert "private" not in found.text
        check_headers(found)
    assert "the page of an error cannot be made" in log.getvalue()


def test_a_guard_that_fails_has_a_plain_page_with_its_headers(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    monkeypatch.setattr(Guard, "_is_own", lambda *_: 1 / 0)
    found = ask(browser, "POST", "/evaluators")
    assert found.status_code == 500 and "An error of the server." in text_of(found)
    check_headers(found)
    assert "ZeroDivisionError" in log.getvalue()


@pytest.mark.parametrize("error", [OSError(5, "Input/output error", PRIVATE), RuntimeError(PRIVATE)])
def test_a_file_of_the_pages_that_fails_tells_nobody_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise error

    app = make_app(tmp_path / "secret.sqlite", token=TOKEN, port=8765)
    stranger = TestClient(app, base_url=ORIGIN, raise_server_exceptions=False)
    monkeypatch.setattr("valor_gpu.web.app.stylesheet", fail)
    monkeypatch.setattr(StaticFiles, "lookup_path", fail)
    for address in ("/static/studio.css", "/static/studio.js"):
        found = stranger.get(address)
        assert (found.status_code, found.text) == (500, "This did not work")
        assert found.headers["cache-control"] == "no-cache" and "content-security-policy" in found.headers
    monkeypatch.undo()
    assert stranger.get("/static/nothing.js").text == "Nothing here"


def test_a_download_that_breaks_off_does_not_end_as_a_whole_one(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts() -> Iterator[bytes]:
        yield b"first,row\n"
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(routes, "_answer", lambda *_: StreamingResponse(parts(), media_type="text/csv"))
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    cookie = f"studio_8765={browser.cookies['studio_8765']}".encode()
    scope = {"type": "http", "asgi": {"spec_version": "2.4"}, "method": "GET", "path": "/datasets", "scheme": "http",
             "raw_path": b"/datasets", "query_string": b"", "http_version": "1.1", "root_path": "",
             "headers": [(b"host", b"127.0.0.1:8765"), (b"cookie", cookie)]}  # fmt: skip

    async def main() -> None:
        await browser.app(scope, receive, send)

    with pytest.raises(RuntimeError, match="the disk is gone"):
        anyio.run(main)
    assert sent[0]["type"] == "http.response.start"
    assert all(each["more_body"] for each in sent[1:]), "uvicorn breaks the connection off; nothing said it was the end"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "html"])
def test_an_export_that_fails_is_no_file(
    browser: TestClient, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    def rows(*_: Any, **__: Any) -> Any:
        yield StoredRow(1, "a", {"question": "?"})
        raise StoreError("store s.sqlite is damaged")

    for name in ("rows", "iter_rows", "scores", "pages"):
        if hasattr(Run, name):
            monkeypatch.setattr(Run, name, rows)
    found = browser.get(f"/runs/{run}/export.{kind}")
    assert found.status_code >= 500 and "attachment" not in found.headers.get("content-disposition", "")
    assert "This did not work" in text_of(found) and list(folder.iterdir()) == []


@pytest.mark.parametrize("error", [SystemExit(2), RuntimeError("words"), KeyboardInterrupt()])
def test_an_errand_that_ends_otherwise_has_an_error(error: BaseException) -> None:
    def fail() -> None:
        raise error

    errands = Errands()
    errand = errands.get(errands.start(fail, {}))
    assert errand is not None and errand._ended.wait(60)
    assert isinstance(errand.error, RuntimeError) and errand.found is None


def test_a_sweep_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO) -> None:
    tried, again = [0], threading.Event()

    def fail(*_: Any) -> None:
        tried[0] += 1
        if tried[0] == 3:
            again.set()
        raise ValueError("not what a store says")

    monkeypatch.setattr("valor_gpu.web.runs.purging.purge", fail)
    with Store(tmp_path / "s.sqlite") as store, Sweeper(store, tmp_path / "uploads", 0.001):
        assert again.wait(60), "the thread has ended"
    assert log.getvalue().count("deleted runs stay in the store for now") == 1
