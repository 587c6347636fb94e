"""Who may ask: programs of this machine that know the start address, and forms of this server alone.

A page of another site can make a browser send requests to 127.0.0.1, and a name that such a site owns can be made to
lead there. So the Host header must be ours, a cookie that only the start address gives must come along, and what
changes something must come from one of our own forms.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_READING = ("GET", "HEAD")
_ONCE = "The address works once; start valor-gpu studio again for a new one."
LOCKED = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Studio</title>'
    '<link rel="stylesheet" href="/static/studio.css"><main><h1>{title}</h1><p>{text}</p></main></html>'
)
"""A page for those who may not see the store, and for errors that leave nothing else."""

# Shapes of keys of well-known services, and any long word of letters and digits that follows a name of a key.
# Every repetition is bounded, or begins where none of its own signs is before it: no text takes more than a look at
# each of its characters, since the search holds up all threads.
_KEY = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|hf|ghp|gho|glpat|AKIA|AIza)[-_]?[A-Za-z0-9_\-]{16}"
    r"|(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10}"
    r"|(?i:bearer|api[-_ ]?key|apikey|secret|token|password)['\"]?(?:\s{0,8}[:=]\s{0,8}|\s{1,8})"
    r"['\"]?[A-Za-z0-9+/_\-]{16}"
)


def looks_like_key(text: str) -> bool:
    """Whether a text holds what looks like a key of a service, which no form takes.

    Example:
        >>> looks_like_key("sk-proj-abcdefghijklmnop1234"), looks_like_key("OPENAI_API_KEY")
        (True, False)
    """
    return _KEY.search(text) is not None


class Session:
    """The one session of a server: whoever opens the start address first has it.

    Args:
        token: of the start address; good once.
        port: of the server, which names the cookie, since cookies of one host are shared by all of its ports.
    """

    def __init__(self, token: str, port: int) -> None:
        self._token: str | None = token
        self._secret = secrets.token_urlsafe(32)
        self.port = port
        self.cookie = f"studio_{port}"
        self.csrf = hmac.new(self._secret.encode(), b"forms", hashlib.sha256).hexdigest()
        self.hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    def start(self, token: str) -> str | None:
        """The value of the cookie where the token is right, which it is once."""
        if self._token is None or not _same(token, self._token):
            return None
        self._token = None
        return f"{self.cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"

    def is_open(self, cookies: str) -> bool:
        """Whether a Cookie header holds the secret of this start."""
        # Cookies of other programs on this host come along, whatever they hold: http.cookies would stop at the first
        # one that it cannot read, and one of our name may be another's.
        pairs = (each.strip().partition("=") for each in cookies.split(";"))
        return any(name == self.cookie and _same(value, self._secret) for name, _, value in pairs)

    def is_form(self, csrf: object) -> bool:
        """Whether a form's hidden field is ours."""
        return isinstance(csrf, str) and _same(csrf, self.csrf)


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), right.encode())


class Guard:
    """ASGI middleware: refuses what does not come from this browser and this server, and sets the headers.

    Args:
        app: what is guarded.
        session: of the server.
    """

    def __init__(self, app: Any, session: Session) -> None:
        self._app, self._session = app, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        send = _with_headers(send, is_static=scope["path"].startswith("/static/"))
        if headers.get("host") not in self._session.hosts:
            await _refuse(send, 400, "Not here", "This server answers to 127.0.0.1 and localhost with its port alone.")
        elif scope["path"] == "/start":
            await self._start(scope, headers, send)
        elif scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
        elif not self._session.is_open(headers.get("cookie", "")):
            await _refuse(send, 403, "Studio is locked", f"Open the address that valor-gpu studio printed. {_ONCE}")
        elif scope["method"] not in _READING and not self._is_own(headers):
            await _refuse(send, 403, "Not accepted", "This form was not sent by a page of this server.")
        else:
            await self._app(scope, receive, send)

    def _is_own(self, headers: dict[str, str]) -> bool:
        """Whether a page of this server sent the request.

        Under ``Referrer-Policy: no-referrer`` browsers send ``Origin: null`` with forms, and say in Sec-Fetch-Site
        where they come from; the field of every form is checked besides.
        """
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        origin = headers.get("origin", "null")
        return origin == f"http://{headers['host']}" or (origin == "null" and "sec-fetch-site" in headers)

    async def _start(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        cookie = self._session.start(token) if scope["method"] == "GET" else None
        if cookie is not None:
            await _redirect(send, cookie)
        elif self._session.is_open(headers.get("cookie", "")):
            await _redirect(send)
        else:
            await _refuse(send, 403, "Studio is locked", f"This address is wrong or was used already. {_ONCE}")


def _with_headers(send: Send, is_static: bool) -> Send:
    caching = b"no-cache" if is_static else b"no-store"

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *HEADERS, (b"cache-control", caching)]
        await send(message)

    return sender


async def _redirect(send: Send, cookie: str | None = None) -> None:
    headers = [(b"location", b"/runs"), (b"content-length", b"0")]
    if cookie is not None:
        headers.append((b"set-cookie", cookie.encode()))
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, status: int, title: str, text: str) -> None:
    body = LOCKED.format(title=title, text=text).encode()
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
