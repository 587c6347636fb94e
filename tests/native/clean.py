"""Which long runs over csrc were clean, by a digest of the code that decides them; ``clean.json`` is committed.

Tests do not repeat a run of the same digest. With VALOR_GPU_RECHECK=1 and in ``make fuzz`` they do.

    python -m tests.native.clean           makes the runs whose digest has changed, and writes the table
    python -m tests.native.clean --check   fails if a digest has changed
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.native.code_only import code_of

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_suffix(".json")
_SMOKE = re.compile(r"\bpytest\.mark\.smoke\b|\bseeds_with_smoke\(")
_IMPORTED = re.compile(r"^\s*(?:from|import) (tests[\w.]*)(?: import (\w+))?", re.MULTILINE)
_NATIVE = re.compile(r"\bimport .*\bnative(_objects)?\b|\bnative(_objects)? import\b")
RUNS = {
    "sanitizers": ["tests/native/test_sanitized.py::test_smoke_tests_are_clean"],
    "offsets": ["tests/native/test_offsets.py::test_every_kernel_takes_tensors_that_begin_anywhere"],
    "simulator": ["tests/ops", "tests/native/test_exports.py", "tests/benchmarks/test_gpu_streams.py"],
}
"""Names of the runs, and the tests that make them; of the last one, all that call a kernel in the simulator."""


def rechecking() -> bool:
    """Returns whether what was found before is to be found again."""
    return len(seeds(1)) > 1 or os.environ.get("VALOR_GPU_RECHECK") == "1"


def smoke_tests() -> list[Path]:
    """Returns the files that have tests marked smoke."""
    return [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if _SMOKE.search(path.read_text())]


def _sources(name: str) -> Iterable[Path]:
    for folder in ("core", "cpu", "cuda", "sim"):
        yield from (ROOT / "csrc" / folder).glob("*.[ch]*")
    yield from (path for path in (ROOT / "valor_gpu").rglob("*.py") if _NATIVE.search(path.read_text()))
    yield from (ROOT / "valor_gpu" / "ops").glob("*.py")
    yield from (ROOT / "valor_gpu").glob("native*.py")
    yield from (ROOT / "testing").glob("*.py")
    around = (path for path in (ROOT / "tests" / "native").glob("*") if path.suffix in (".py", ".cpp", ".cu"))
    own = ("clean.py", "code_only.py")
    yield from (path for path in around if not path.name.startswith("test_") and path.name not in own)
    tests = smoke_tests() if name == "sanitizers" else []
    for test in (each.partition("::")[0] for each in RUNS[name]):
        tests += (ROOT / test).glob("*.py") if (ROOT / test).is_dir() else [ROOT / test]
    yield from _with_imported([*tests, ROOT / "tests" / "conftest.py"])


def _with_imported(tests: list[Path]) -> list[Path]:
    """Returns files of tests with the modules of tests that they import, directly or not."""
    found = list(dict.fromkeys(tests))
    for path in found:
        names = _IMPORTED.findall(path.read_text())
        modules = [ROOT / f"{name.replace('.', '/')}.py" for head, tail in names for name in (head, f"{head}.{tail}")]
        found += [each for each in dict.fromkeys(modules) if each.exists() and each not in found]
    return found


@functools.cache
def digest(name: str) -> str:
    """Returns the digest of native code, of what calls it and of the tests that make a run."""
    paths = sorted(set(_sources(name)))
    parts = (part for path in paths for part in (str(path.relative_to(ROOT)).encode(), code_of(path)))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def table() -> dict[str, str]:
    """Returns the committed digests by the names of the runs."""
    found: dict[str, str] = json.loads(TABLE.read_text())
    return found


def skip_if_known(name: str) -> None:
    """Skips the calling test if its run is known to be clean."""
    if not rechecking() and table().get(name) == digest(name):
        pytest.skip(f"clean, by the digest in {TABLE.relative_to(ROOT)}; VALOR_GPU_RECHECK=1 runs it")


def main() -> int:
    """Makes the runs whose digest has changed; returns 1 if one is not clean, or with ``--check`` not known."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.clean", description=__doc__)
    parser.add_argument("--check", action="store_true", help="run nothing")
    only_check = parser.parse_args().check
    known = table()
    changed = [name for name in RUNS if known.get(name) != digest(name)]
    if changed and only_check:
        print(f"{TABLE.relative_to(ROOT)}: {', '.join(changed)} changed: run {sys.executable} -m tests.native.clean")
        return 1
    for name in changed:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *RUNS[name]]
        if subprocess.run(command, cwd=ROOT, env={**os.environ, "VALOR_GPU_RECHECK": "1"}).returncode != 0:
            return 1
        TABLE.write_text(json.dumps(known := {**known, name: digest(name)}, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
