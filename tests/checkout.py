"""A copy of this checkout in which nothing is built, and commands that are run there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("valor_gpu", "csrc", "docs", "examples", "testing", "tests", "benchmarks", "tools")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "Makefile", "mkdocs.yml")
TEXTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE")


def copy_checkout(folder: Path) -> Path:
    """Copy what the source archive is made from to ``folder``, which is returned."""
    unwanted = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", "_build.json")
    folder.mkdir(parents=True)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted, symlinks=True)
    for name in (*FILES, *TEXTS):
        shutil.copy(ROOT / name, folder / name)
    return folder


def outcome(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What became of a command; CUDA kernels are not built unless ``variables`` want them."""
    environment = {**os.environ, "VALOR_GPU_CUDA": "0", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Standard output of a command that must succeed; see :func:`outcome`."""
    done = outcome(*command, cwd=cwd, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
