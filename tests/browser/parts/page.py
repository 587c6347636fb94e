"""The page of parts: each file of ``shown`` is rendered with what a real page of Studio gives its template."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.responses import Response

from tests.browser.going import progress
from tests.web.pages import client
from valor_gpu.pages import charts, plots
from valor_gpu.pages.texts import Html
from valor_gpu.store import Store
from valor_gpu.web import render
from valor_gpu.web.processes.progress_words import progress_words
from valor_gpu.web.routes import Ask, get

HERE = Path(__file__).parent
PATIENCE = 120.0
"""Seconds for what a page computes in the background."""
PARTS = Path(render.__file__).parent / "templates" / "parts"


def sources(path: Path) -> dict[str, str]:
    """File of ``shown`` to the address of the page whose names it is rendered with."""
    with Store(path) as store:
        ids = {head.name.partition(" <")[0]: head.id for head in store.heads()}
    draft = next(iter(re.findall(r'href="(/drafts/\w+)/', client(path).get("/runs").text)))
    one, two = ids["Prompt one"], ids["Prompt two"]
    return {
        "ui": "/runs?sort=-mean_f1_score&status=finished",
        "charts": f"/runs/{one}/scatter?x=gpt_groundedness&y=violence",
        "plots": f"/runs/{one}/scatter?x=f1_score&y=gpt_groundedness",
        "progress": "/runs",
        "rows": f"/runs/{one}?open=2&if=gpt_groundedness:at_least:1&if=f1_score:between:0..1",
        "row": f"/runs/{one}/rows/3",
        "people": f"/runs/{one}?open=4",
        "compare": f"/compare?runs={one}&runs={two}&runs={ids['Prompt three']}&all=1&jailbreak=1",
        "changed": f"/compare?runs={one}&runs={two}&open=5",
        "opened": f"/compare?runs={one}&runs={two}&open=7&view=split",
        "settings": f"/compare?runs={one}&runs={two}&all=1",
        "vision": f"/compare?runs={ids['Boxes']}&runs={ids['Moved']}&still=1",
        "versions": "/evaluators/polite/versions?from=1&to=2",
        "wizard": f"{draft}/metrics?checked=1",
    }


class _Recorder:
    """An environment whose templates keep what they are given instead of printing it."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {}

    def get_template(self, name: str) -> _Recorder:
        """Whatever template is asked for."""
        return self

    def render(self, context: dict[str, Any]) -> str:
        """Keeps the context."""
        self.last = context
        return ""


@contextmanager
def recorded() -> Iterator[_Recorder]:
    """Pages are recorded meanwhile."""
    kept, recorder = render._ENVIRONMENT, _Recorder()
    render._ENVIRONMENT = recorder  # type: ignore[assignment]
    try:
        yield recorder
    finally:
        render._ENVIRONMENT = kept


def contexts(path: Path) -> dict[str, dict[str, Any]]:
    """File of ``shown`` to the names of a real page."""
    addresses, browser, found = sources(path), client(path), {}
    with recorded() as recorder:
        for name, address in addresses.items():
            end = time.monotonic() + PATIENCE
            while True:
                assert browser.get(address).status_code == 200, address
                if not recorder.last.get("waits"):
                    break
                assert time.monotonic() < end, f"{address} is still being computed"
                time.sleep(0.2)
            found[name] = recorder.last
    return found


def environment() -> jinja2.Environment:
    """Studio's own templates, and those of the page of parts."""
    own = render._ENVIRONMENT
    assert own.loader is not None
    loader = jinja2.ChoiceLoader([own.loader, jinja2.FileSystemLoader(HERE)])
    return own.overlay(loader=loader, bytecode_cache=None)


def page(path: Path) -> str:
    """The page of parts over a store that ``tests.browser.parts.store`` filled."""
    templates = environment()
    found = contexts(path)
    many = [plots.TrendPoint(charts.Estimate(n % 9), 0, f"run {n}", f"{n}") for n in range(plots.LINKED + 1)]
    said = progress_words(progress(30, waiting=3), time.time() + 30)
    more = {"charts_of_pages": charts, "plots_of_pages": plots, "many": many, "said": said}
    sections = [
        (name, Html(templates.get_template(f"shown/{name}.html").render({**context, **more})))
        for name, context in found.items()
    ]
    return templates.get_template("parts.html").render({**found["ui"], "sections": sections})


def with_parts(app: Starlette, path: Path) -> Starlette:
    """The application with the page of parts at ``/parts``."""

    shown = page(path)

    def parts(ask: Ask) -> Response:
        return Response(shown, media_type="text/html")

    app.router.routes.insert(0, get("/parts", parts))
    return app
