"""``python -m benchmarks.azure_environment``: azure-ai-evaluation in an environment of its own, since it pins pandas 2.

Nothing of it is installed beside valor_gpu; :mod:`benchmarks.evaluation` starts its Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from testing import formats

PACKAGE, VERSION = "azure-ai-evaluation", "1.18.10"


def python_of(data: Path) -> Path:
    """The Python of the environment below a folder of generated files."""
    return data / f"{PACKAGE}-{VERSION}" / "bin" / "python"


def make(data: Path) -> Path:
    """Makes the environment unless it is there, about a minute and 320 MB; returns its Python."""
    python = python_of(data)
    if not python.exists():
        venv.create(python.parent.parent, with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-qq", "install", f"{PACKAGE}=={VERSION}"]
        subprocess.run(pip, check=True)
    return python


def main(argv: Sequence[str] | None = None) -> int:
    """Make it and print its Python."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.azure_environment", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=formats.FOLDER, help="where generated files are kept")
    print(make(parser.parse_args(argv).data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
