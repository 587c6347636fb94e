"""``make browser`` and the browser half of ``make test``: Chromium of the system, driven by Playwright.

``install`` gets both where it can; ``test`` runs tests/browser in a pytest process of its own, since Playwright leaves
an event loop in the main thread, or says in one line what it skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
APT = ("chromium", "fonts-dejavu-core")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
"""Of a Chromium that may run as root, without a display, with a small /dev/shm."""


def find_chromium() -> str | None:
    """The program that ``$CHROMIUM`` names, else the first one on the path that is known to work."""
    if given := os.environ.get("CHROMIUM"):
        return shutil.which(given)
    return next((found for found in map(shutil.which, NAMES) if found), None)


def missing() -> str:
    """What the tests lack, in words; empty where nothing is missing."""
    lacking = [] if find_chromium() else ["Chromium ($CHROMIUM or " + ", ".join(NAMES) + ")"]
    if find_spec("playwright") is None:
        lacking.append("the package playwright")
    return " and ".join(lacking)


def _is_debian() -> bool:
    release = Path("/etc/os-release")
    return release.is_file() and "debian" in release.read_text(encoding="utf-8").lower()


def _call(*command: str) -> bool:
    done = subprocess.run(command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=False)
    return done.returncode == 0


def install(constraints: str) -> int:
    """Gets Playwright by pip and, as root on Debian, Chromium by apt.

    Args:
        constraints: file of versions that pip may not change.
    """
    if find_spec("playwright") is None:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "--retries=1", "install")
        if not _call(*pip, "-c", constraints, "playwright>=1.50"):
            print("playwright could not be installed by pip")
            return 1
    if find_chromium():
        return 0
    if os.geteuid() != 0 or not _is_debian() or shutil.which("apt-get") is None:
        print("Chromium is missing. On Debian or Ubuntu: sudo apt-get install " + " ".join(APT))
        print("Elsewhere install Chromium or Chrome, and set CHROMIUM to its program unless it is on the path.")
        return 1
    quiet = ("apt-get", "-qq", "-o=Dpkg::Use-Pty=0", "-o=Acquire::http::Timeout=20", "-o=Acquire::Retries=1")
    if not _call(*quiet, "update") or not _call(*quiet, "install", "-y", "--no-install-recommends", *APT):
        print("Chromium could not be installed by apt-get")
        return 1
    return 0


def test(arguments: Sequence[str]) -> int:
    """Becomes the process that runs the tests, so that a signal ends them, or says what they lack."""
    if lacking := missing():
        print(f"skipped: the tests of Studio in a browser, for lack of {lacking}: make browser")
        return 0
    folder = str(ROOT / "tests" / "browser")
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "--confcutdir", folder, folder, *arguments])


if __name__ == "__main__":
    _, action, *rest = sys.argv
    sys.exit(install(rest[0]) if action == "install" else test(rest))
