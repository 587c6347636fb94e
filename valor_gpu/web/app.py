"""The application: its routes, its guard and its errors."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from valor_gpu.pages import stylesheet
from valor_gpu.store import Store
from valor_gpu.web.failures import HANDLERS, Failures
from valor_gpu.web.routes import get, see
from valor_gpu.web.security import Guard, Session
from valor_gpu.web.studio import Studio

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
        middleware=[Middleware(Guard, session=session), Middleware(Failures)],
        exception_handlers=HANDLERS,
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
