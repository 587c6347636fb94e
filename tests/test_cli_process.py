"""The process of the command: how it ends, and numpy without docstrings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "examples/data"
DETECT = [
    "detect", "--gt", str(DATA / "instances_val2014_100.json"),
    "--dt", str(DATA / "instances_val2014_fakebbox100_results.json"),
]  # fmt: skip


def ended(before: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """What the process of the command leaves when ``before`` ran first in it and says at its end whether it went on."""
    program = (
        f"import sys\nsys.argv[1:] = {arguments!r}\n{before}\nfrom valor_gpu.__main__ import run\nstatus = run()\n"
        "print('went on', sys.modules['numpy'].array.__doc__)\nsys.exit(status)"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_a_process_ends_at_once_with_all_that_it_printed() -> None:
    done = ended("import atexit\natexit.register(print, 'last words')", DETECT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "(AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.505" in done.stdout
    assert done.stdout.endswith("\nlast words\n")


@pytest.mark.parametrize("before", ["import threading", "sys.stdout = None"])
def test_threads_and_a_missing_output_are_left_to_the_interpreter(before: str) -> None:
    done = ended(f"{before}\nprint = lambda *words: sys.stderr.write(str(words))", DETECT)
    assert (done.returncode, done.stderr) == (0, "('went on', None)")


def test_the_status_of_an_error_stays() -> None:
    done = ended("", ["detect", "--gt", "no-such-file", "--dt", "b"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "valor-gpu detect: error: --gt must be a file but no-such-file does not exist\n"


def test_pictures_are_drawn_by_a_numpy_without_docstrings(tmp_path: Path) -> None:
    done = ended("", [*DETECT, "--plot", str(tmp_path / "curve.png")])
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
