"""A server of Studio over a store of seeded runs, and a browser. Run by ``python -m tools.browser test``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.site import PATIENCE, Site, Tab, serve
from tools.browser import FLAGS, find_chromium

_HERE = Path(__file__).parent

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium (make browser)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that the tests read alone; made by a process of its own, since evaluate() needs the event loop."""
    path = tmp_path_factory.mktemp("seeded") / "store.sqlite"
    subprocess.run([sys.executable, "-m", "tests.browser.seed", str(path)], check=True, cwd=_HERE.parent.parent)
    return path


@pytest.fixture(scope="session")
def site(seeded: Path, browser: Browser) -> Iterator[Site]:
    with serve(seeded, browser) as found:
        yield found


@pytest.fixture
def tab(site: Site) -> Iterator[Tab]:
    with site.tab() as found:
        yield found
