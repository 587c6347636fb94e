"""A server process of Studio, and pages of it in a browser that keep what went wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from valor_gpu.store import Store

ROOT = Path(__file__).parent.parent.parent
_EVERYTHING = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental"],
    # Targets of 24 pixels are off unless asked for. Large figures are paragraphs in bold type, and no headings.
    "rules": {"target-size": {"enabled": True}, "p-as-heading": {"enabled": False}},
}
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PATIENCE = 120_000
"""Milliseconds until a test gives up: no test passes sooner by a shorter one, and some machines are busy."""


@dataclass
class Tab:
    """A page of the browser with its log.

    Attributes:
        page: of Playwright.
        root: address of the server.
        requests: all addresses that the page asked for.
        errors: what its console and its script reported.
        script: whether its pages may run scripts.
    """

    page: Page
    root: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    script: bool = True

    def open(self, path: str) -> Page:
        """Opens a page of the server, which must be there."""
        answer = self.page.goto(self.root + path)
        assert answer is not None and answer.status == 200, f"{path}: {answer and answer.status}"
        return self.page

    def check(self) -> None:
        """No error, no dialog of a script, and no request but to the server; what it found is not found again."""
        errors, requests, self.errors[:], self.requests[:] = [*self.errors], [*self.requests], [], []
        assert errors == []
        away = [each for each in requests if not each.startswith((self.root + "/", "data:"))]
        assert away == [], "requests off this server"


@dataclass
class Site:
    """A server and the cookie that opens it."""

    root: str
    browser: Browser
    cookies: Sequence[Any]

    @contextmanager
    def tab(self, script: bool = True, **settings: Any) -> Iterator[Tab]:
        """A page in a context of its own, checked at its end.

        Args:
            script: whether pages may run scripts.
            settings: of Playwright's context, such as ``viewport`` and ``color_scheme``.
        """
        context = self.browser.new_context(
            java_script_enabled=script, **{"viewport": WIDE, "reduced_motion": "reduce", **settings}
        )
        context.set_default_timeout(PATIENCE)
        context.add_cookies(self.cookies)  # type: ignore[arg-type]
        try:
            found = watched(context, self.root)
            found.script = script
            yield found
            found.check()
        finally:
            context.close()


def watched(context: BrowserContext, root: str) -> Tab:
    """A new page whose requests and errors are kept."""
    tab = Tab(context.new_page(), root)
    context.on("request", lambda request: tab.requests.append(request.url))
    tab.page.on("console", lambda line: tab.errors.append(line.text) if line.type in ("error", "warning") else None)
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.page.on("dialog", lambda dialog: (tab.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
    return tab


@contextmanager
def serve(
    store: Path, browser: Browser, *options: str, module: str = "valor_gpu", **environment: str
) -> Iterator[Site]:
    """A server of its own process on a free port; the start address is opened once."""
    command = [sys.executable, "-m", module, "studio", "--port", "0", "--store", str(store), *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        text=True,
    )
    try:
        assert process.stdout is not None
        start = next((line.strip() for line in process.stdout if "/start?token=" in line), None)
        assert start is not None, "the server ended"
        context = browser.new_context()
        tab = watched(context, start.split("/start")[0])
        tab.page.goto(start)
        cookies = context.cookies()
        assert tab.page.url == tab.root + "/runs" and len(cookies) == 1
        context.close()
        yield Site(tab.root, browser, cookies)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE / 1000)


def copy_of(store: Path, folder: Path) -> Path:
    """Copies a store that no process writes; returns the file."""
    with Store(store) as opened:
        opened._database.checkpoint()
    return Path(shutil.copy(store, folder / store.name))


@cache
def _axe() -> str:
    return (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")


def axe(page: Page, *rules: str) -> list[str]:
    """What axe finds: rule, meaning and the elements, one line each.

    Args:
        page: to look at.
        rules: to test; without any all of WCAG 2.2 AA, the good practices and those on trial.
    """
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(_axe() + ";undefined")  # add_script_tag would be refused by the page's policy
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else _EVERYTHING)}
    found = page.evaluate(f"axe.run({json.dumps(options)})")["violations"]
    return [
        f"{each['id']}: {each['help']}: " + re.sub(r"\s+", " ", " | ".join(node["html"] for node in each["nodes"]))
        for each in found
    ]


def read_again(page: Page) -> None:
    """Waits until a page that follows a run has read itself again, and has taken the answer."""
    for _ in range(3):  # the first may come of a reading under way; the last follows an answer that was taken
        with page.expect_request(lambda request: request.resource_type == "fetch"):
            pass


def mark(page: Page) -> None:
    """Leaves a sign on the page that reading it anew would take away."""
    page.evaluate("window.mark = 1")


def is_marked(page: Page) -> bool:
    """Whether the page has not been read anew since :func:`mark`."""
    return bool(page.evaluate("window.mark === 1"))


def sideways(page: Page) -> int:
    """Pixels that the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
