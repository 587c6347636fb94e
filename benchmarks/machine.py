"""Where and on what a result was made; what every result file carries."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import gpu_build
from benchmarks.gpu_record import sources
from testing.datasets import ROOT

RESULTS = ROOT / "benchmarks" / "results"


def cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(packages: Iterable[str], commit: str | None = None) -> dict[str, Any]:
    """Date, commit, machine and versions.

    Args:
        packages: distributions whose versions are recorded, null where not installed.
        commit: of the checkout, where git does not know it.
    """
    return {
        "date": now(),
        **checkout(commit=commit),
        "machine": {
            "processor": _processor(),
            "cpus": cpus(),
            "memory_gb": _memory_gb(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {name: _version(name) for name in packages},
    }


def now() -> str:
    """Date and time in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def run(*command: str) -> str | None:
    """What a command prints, None where it fails or does not exist."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def checkout(root: Path = ROOT, commit: str | None = None) -> dict[str, Any]:
    """Returns commit and number of changed files of a checkout, by git, else by ``make gpu-pack``.

    Where neither knows, or files have changed since, they are "unknown" and None. A repository around a checkout that
    was copied without its own is not asked.

    Args:
        root: folder of the checkout.
        commit: that of the checkout, if its user knows: git and the stamp count only for this one.
    """
    found = _by_git(root)
    if not found or found["commit"] != (commit or found["commit"]):
        stamp = gpu_build.read(root)
        if "files" in stamp and stamp["files"] == sources(root):
            found = {"commit": stamp["commit"], "changed_files": stamp["changed_files"]}
    if found and found["commit"] == (commit or found["commit"]):
        return found
    return {"commit": commit or "unknown", "changed_files": None}


def _by_git(root: Path) -> dict[str, Any]:
    """Commit and number of changed files, empty where there is no repository."""
    git = ("git", "-C", str(root))
    top = run(*git, "rev-parse", "--show-toplevel")
    commit = run(*git, "rev-parse", "HEAD") if top and Path(top).resolve() == root.resolve() else None
    if commit:
        changed = run(*git, "status", "--porcelain", "--untracked-files=no") or ""
        return {"commit": commit, "changed_files": len(changed.splitlines())}
    return {}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return _own_version() if package == "valor_gpu" else None


def _own_version() -> str:
    """Of a checkout on the path, which no installer has seen."""
    import valor_gpu

    return str(getattr(valor_gpu, "__version__", "unknown"))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gb() -> float | None:
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
