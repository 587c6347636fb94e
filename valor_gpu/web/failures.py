"""Pages of errors: what went wrong, what to do, and the way back. The log has what a page must not show."""

from __future__ import annotations

import errno
import logging
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from valor_gpu.errors import InputError, LeaseError, StoreError, ValorError
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask
from valor_gpu.web.security import HEADERS, LOCKED, Message, Receive, Scope, Send

_LOG = logging.getLogger(__name__)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # a traceback says nothing of these
_TITLES = {
    400: "This cannot be used",
    403: "Not accepted",
    404: "Nothing here",
    405: "Not this way",
    409: "Another process works on it",
    413: "Too large",
}
_OTHER = "This did not work"
_RETRY = "Load the page again; if that does not help, look into the terminal where valor-gpu studio runs."


class Failures:
    """ASGI middleware that gives every unexpected exception its page, below the guard, whose headers it gets.

    An exception behind the beginning of an answer goes on: the server then breaks the connection off, and no client
    takes what came for the whole.

    Args:
        app: whose exceptions these are.
    """

    def __init__(self, app: object) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        begun = False

        async def sender(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, sender)  # type: ignore[operator]
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            await failed(Request(scope, receive), error)(scope, receive, send)


def refused(request: Request, error: Exception) -> Response:
    """The page of an error that is known."""
    status, text, advice = _status(error), str(error), ""
    if isinstance(error, HTTPException):
        text = error.detail if error.detail != "Not Found" else f"There is no page at {request.url.path}."
    elif isinstance(error, OSError):  # without the path, which may be one of this program's own
        traced = None if error.errno in _FULL else error
        _LOG.error("%s %s failed: %s", request.method, request.url.path, error, exc_info=traced)
        text = f"A file cannot be written or read: {error.strerror or type(error).__name__}."
    elif status >= 500:
        _LOG.error("%s %s failed: %s", request.method, request.url.path, error)
        advice = "Lists and the pages of other evaluations may still work." if request.method == "GET" else ""
    return _page(request, status, _TITLES.get(status, _OTHER), text, advice)


def failed(request: Request, error: Exception) -> Response:
    """The page of an exception that nobody expected."""
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    text = f"An error of the server: {type(error).__name__}. Its log says more. Everything stored before is kept."
    return _page(request, 500, _OTHER, text, _RETRY)


def failed_outside(request: Request, error: Exception) -> Response:
    """The page of an exception in the guard or in a page of errors, with the guard's headers, which nobody adds."""
    _LOG.error("%s %s failed outside of its page", request.method, request.url.path, exc_info=error)
    return _bare({name.decode(): value.decode() for name, value in HEADERS} | {"cache-control": "no-store"})


def _bare(headers: dict[str, str]) -> Response:
    text = f"An error of the server. Everything stored before is kept. {_RETRY}"
    return HTMLResponse(LOCKED.format(title=_OTHER, text=text), 500, headers)


def _page(request: Request, status: int, title: str, text: str, advice: str) -> Response:
    if request.url.path.startswith("/static/"):  # given to everybody, who may not know the name of the store
        return PlainTextResponse(title, status)
    shown = {
        "title": title,
        "text": text,
        "advice": advice,
        "back": _back(request),
        "is_form": request.method == "POST",
    }
    try:
        return page(Ask(request), "error.html", status, **shown)
    except Exception as error:  # a template that is gone, memory that is full
        _LOG.error("the page of an error cannot be made", exc_info=error)
        return _bare({})


def _back(request: Request) -> str:
    """The page that a form was on, the run of another page of it; empty otherwise."""
    parts = request.url.path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("runs", "drafts", "evaluators"):
        return ""
    if request.method != "POST":
        return f"/runs/{quote(parts[1])}" if parts[0] == "runs" else ""
    kept = parts[:2] if parts[0] != "drafts" else [*parts[:2], "review" if parts[2] == "submit" else parts[2]]
    return "/".join(["", *map(quote, kept)])


def _status(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return error.status_code
    known = ((InputError, 400), (LeaseError, 409), (StoreError, 503))  # a store that is full, locked or read-only
    return next((status for kind, status in known if isinstance(error, kind)), 500)


HANDLERS = {HTTPException: refused, ValorError: refused, OSError: refused, Exception: failed_outside}
"""Kinds of exceptions and their pages, for the application."""
