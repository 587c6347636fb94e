"""What tests of pages share: a client that has opened the start address, and forms as a browser sends them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from valor_gpu.web import make_app

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
TOKEN = "start-token"


def locked_client(path: Path, **settings: Any) -> TestClient:
    """A client that has not opened the start address."""
    app = make_app(path, token=TOKEN, port=PORT, **settings)
    return TestClient(app, base_url=ORIGIN, raise_server_exceptions=False)


def client(path: Path, **settings: Any) -> TestClient:
    """A client with the cookie."""
    found = locked_client(path, **settings)
    assert found.get(f"/start?token={TOKEN}").status_code == 200
    return found


def csrf(browser: TestClient) -> str:
    """The hidden field of forms."""
    secret = browser.app.state.studio.session.csrf  # type: ignore[attr-defined]
    assert isinstance(secret, str)
    return secret


def send(browser: TestClient, path: str, fields: dict[str, Any] | None = None, **more: Any) -> Any:
    """Sends a form as a page of the server does; redirects are followed."""
    return browser.post(path, data={"csrf": csrf(browser), **(fields or {})}, headers={"origin": ORIGIN}, **more)


def text_of(response: Any) -> str:
    """What a reader sees: markup taken away, blanks joined."""
    bare = re.sub(r"<[^>]+>", " ", re.sub(r"<(script|style|head).*?</\1>", " ", response.text, flags=re.DOTALL))
    return re.sub(r"\s+", " ", bare).strip()
