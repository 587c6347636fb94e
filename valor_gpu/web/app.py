"""The application: its routes, its guard and its errors."""

from __future__ import annotations

import errno
import logging
import os
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from valor_gpu.errors import InputError, LeaseError, StoreError, ValorError
from valor_gpu.pages import stylesheet
from valor_gpu.store import Store
from valor_gpu.web.render import page
from valor_gpu.web.routes import Ask, get, see
from valor_gpu.web.security import Guard, Session
from valor_gpu.web.studio import Studio

_LOG = logging.getLogger(__name__)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # a traceback says nothing of these
_STATIC = Path(__file__).parent / "static"

VIEWS = (
    "runs",
    "run",
    "log",
    "rows",
    "run_edits",
    "labels",
    "saved",
    "exports",
    "compare",
    "definitions",
    "library",
    "evaluator",
    "edits",
    "trials",
    "datasets",
    "targets",
    "vision",
    "trend",
    "scatter",
    "wizard",
)
"""Modules of pages, each with its ``ROUTES``; a module of pages imports no other one."""


def make_app(
    store_path: str | os.PathLike[str] | None,
    *,
    token: str,
    port: int,
    registry: Any = None,
    uploads: str | os.PathLike[str] | None = None,
) -> Starlette:
    """Makes the application.

    Args:
        store_path: file of the store; None for the default one.
        token: of the start address ``/start?token=...``, good once.
        port: on which it is served; requests for another are refused.
        registry: what forms can choose.
        uploads: folder of uploaded data sets; beside the store by default.

    Raises:
        MissingExtraError: the extra ``web`` is not installed.
        StoreError: the file cannot be used.
    """
    store = Store(store_path)
    session = Session(token, port)
    folder = Path(uploads) if uploads is not None else store.path.with_suffix(".uploads")
    app = Starlette(
        routes=_routes(),
        middleware=[Middleware(Guard, session=session)],
        exception_handlers={HTTPException: _refused, ValorError: _refused, OSError: _refused, Exception: _failed},
    )
    app.state.studio = Studio(store, session, folder, registry)
    return app


def _routes() -> list[Route | Mount]:
    routes: list[Route | Mount] = [get("/", lambda ask: see("/runs"))]
    for name in VIEWS:
        routes += import_module(f"valor_gpu.web.views.{name}").ROUTES
    routes.append(Route("/static/studio.css", _sheet))
    routes.append(Mount("/static", StaticFiles(directory=_STATIC)))
    return routes


def _sheet(request: Request) -> Response:
    own = (_STATIC / "studio.css").read_text(encoding="utf-8")
    return Response(stylesheet() + own, media_type="text/css")


_TITLES = {
    400: "This cannot be used",
    403: "Not accepted",
    404: "Nothing here",
    405: "Not this way",
    409: "Another process works on it",
    413: "Too large",
}


def _refused(request: Request, error: Exception) -> Response:
    status, text = _status(error), str(error)
    if isinstance(error, HTTPException):
        text = error.detail if error.detail != "Not Found" else f"There is no page at {request.url.path}."
    elif isinstance(error, OSError):  # without the path, which may be one of this program's own
        traced = None if error.errno in _FULL else error
        _LOG.error("%s %s failed: %s", request.method, request.url.path, error, exc_info=traced)
        text = f"A file cannot be written or read: {error.strerror or type(error).__name__}."
    return page(Ask(request), "error.html", status, title=_TITLES.get(status, "This did not work"), text=text,
                back=_back(request))  # fmt: skip


def _back(request: Request) -> str:
    """The page that a form was on, as far as its address says; empty otherwise."""
    parts = request.url.path.strip("/").split("/")
    known = request.method == "POST" and len(parts) > 2 and parts[0] in ("runs", "drafts", "evaluators")
    if not known:
        return ""
    kept = parts[:2] if parts[0] != "drafts" else [*parts[:2], "review" if parts[2] == "submit" else parts[2]]
    return "/".join(["", *map(quote, kept)])


def _status(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return error.status_code
    known = ((InputError, 400), (LeaseError, 409), (StoreError, 503))  # a store that is full, locked or read-only
    return next((status for kind, status in known if isinstance(error, kind)), 500)


def _failed(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    text = f"An error of the server: {type(error).__name__}. Its log says more. Everything stored before is kept."
    return page(Ask(request), "error.html", 500, title="This did not work", text=text, back="")
