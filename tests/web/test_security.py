"""Who may ask: host, cookie, origin, hidden field."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.web.pages import ORIGIN, PORT, TOKEN, client, csrf, locked_client, send
from valor_gpu.store import Store
from valor_gpu.web.security import looks_like_key


def made_run(path: Path) -> str:
    with Store(path) as store:
        run = store.create_run("one", {"version": 1})
        with run.lease():
            run.finish("finished", {"metrics": {"mean_f1_score": 0.5}})
        return run.id


def is_deleted(path: Path, uid: str) -> bool:
    with Store(path) as store:
        return store.heads(deleted=True) != [] and store.heads(deleted=True)[0].id == uid


def test_start_address_works_once(tmp_path: Path) -> None:
    browser = locked_client(tmp_path / "s.sqlite")
    assert browser.get("/runs").status_code == 403
    assert browser.get("/start?token=wrong").status_code == 403
    opened = browser.get(f"/start?token={TOKEN}", follow_redirects=False)
    assert opened.status_code == 303 and opened.headers["location"] == "/runs"
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith(f"studio_{PORT}=") and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert browser.get("/runs").status_code == 200
    assert TestClient(browser.app, base_url=ORIGIN).get(f"/start?token={TOKEN}").status_code == 403
    assert browser.get(f"/start?token={TOKEN}").status_code == 200, "who has the cookie is led on"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "evil.example:8765", "localhost", ""])
def test_other_hosts_are_refused(tmp_path: Path, host: str) -> None:
    browser = client(tmp_path / "s.sqlite")
    assert browser.get("/runs", headers={"host": host}).status_code == 400
    assert browser.get("/runs", headers={"host": f"localhost:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": ORIGIN}, 303),
        ({"origin": "null", "sec-fetch-site": "same-origin"}, 303),
        ({"origin": "null"}, 403),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": ORIGIN, "sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1:9"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({}, 403),
    ],
)
def test_forms_come_from_this_server(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    path = tmp_path / "s.sqlite"
    uid = made_run(path)
    browser = client(path)
    form = {"csrf": csrf(browser)}
    found = browser.post(f"/runs/{uid}/delete", data=form, headers=headers, follow_redirects=False)
    assert found.status_code == status
    assert is_deleted(path, uid) == (status == 303)


@pytest.mark.parametrize("field", ["", "wrong", None])
def test_hidden_field_is_checked(tmp_path: Path, field: str | None) -> None:
    path = tmp_path / "s.sqlite"
    uid = made_run(path)
    browser = client(path)
    form = {} if field is None else {"csrf": field}
    assert browser.post(f"/runs/{uid}/delete", data=form, headers={"origin": ORIGIN}).status_code == 403
    assert not is_deleted(path, uid)


def test_large_form_is_refused(tmp_path: Path) -> None:
    browser = client(tmp_path / "s.sqlite")
    found = send(browser, "/runs/x/delete", {"more": "x" * (5 << 20)})
    assert found.status_code == 413 and "4 MB" in found.text


def test_headers_of_every_answer(tmp_path: Path) -> None:
    browser = client(tmp_path / "s.sqlite")
    for path in ("/runs", "/nothing", "/static/studio.css", "/static/nothing"):
        headers = browser.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("text", "is_key"),
    [
        ("sk-proj-abcdefghijklmnopqrstuv", True),
        ("sk_live_abcdefghijklmnop1234", True),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", True),
        ("Authorization: Bearer abcdefghijklmnop1234", True),
        ("api_key = '0123456789abcdef0123'", True),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", True),
        ("OPENAI_API_KEY", False),
        ("The token bucket holds 5.", False),
        ("a task-oriented password reset", False),
    ],
)
def test_keys_are_seen(text: str, is_key: bool) -> None:
    assert looks_like_key(text) is is_key
