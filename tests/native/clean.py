"""Which long runs over csrc were clean, by a digest of the code that decides them; ``clean.json`` is committed.

Tests do not repeat a run of the same digest. With VALOR_GPU_RECHECK=1 and in ``make fuzz`` they do.

    python -m tests.native.clean           makes the runs whose digest has changed, and writes the table
    python -m tests.native.clean --check   fails if a digest has changed, here or in ptxas.json and sass.json
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
from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.native.code_only import code_of

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_suffix(".json")
_SMOKE = re.compile(r"\bpytest\.mark\.smoke\b|\bseeds_with_smoke\(")
_IMPORTED = re.compile(r"^\s*(?:from|import) ((?:tests|valor_gpu)[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)
_NATIVE = re.compile(r"\bimport .*\bnative(_objects)?\b|\bnative(_objects)? import\b")
_NAME = re.compile(r"\w+")
_OWN = ("clean.py", "code_only.py", "damaged.py", "ptxas.py", "sass.py", "sass_budgets.py")
"""They are commands, or make and compare digests, and change nothing of a run."""
RUNS = {
    "sanitizers": ["tests/native/test_sanitized.py"],
    "offsets": ["tests/native/test_offsets.py"],
    "simulator": ["tests/ops", "tests/native/test_exports.py"],
}
"""Names of the runs, and the tests that make them; of the last one, all that call a kernel in the simulator."""


def rechecking() -> bool:
    """Returns whether what was found before is to be found again."""
    return len(seeds(1)) > 1 or os.environ.get("VALOR_GPU_RECHECK") == "1"


def smoke_tests() -> list[Path]:
    """Returns the files that have tests marked smoke."""
    return [
        path for path in sorted((ROOT / "tests").rglob("test_*.py")) if _SMOKE.search(path.read_text(encoding="utf-8"))
    ]


def _sources(name: str) -> set[Path]:
    """Returns the files that decide a run: native code, the ops and their imports, what calls both, and the tests."""
    tests = smoke_tests() if name == "sanitizers" else []
    for test in RUNS[name]:
        tests += (ROOT / test).glob("*.py") if (ROOT / test).is_dir() else [ROOT / test]
    around = ROOT / "tests" / "native"
    helpers = (path for path in around.glob("*") if path.suffix in (".py", ".cpp", ".cu"))
    tests += (path for path in helpers if not path.name.startswith("test_"))
    for path in (found := [*tests, ROOT / "tests" / "conftest.py"]):
        found += (each for each in _imported(path, "tests") if each not in found)
    return {*_tested(ROOT), *found} - {around / each for each in _OWN}


@functools.cache
def _tested(root: Path) -> list[Path]:
    package = root / "valor_gpu"
    native = [path for part in ("core", "cpu", "cuda", "sim") for path in (root / "csrc" / part).glob("*.[ch]*")]
    ops = [*(package / "ops").rglob("*.py"), *package.glob("native*.py")]
    used = [each for path in ops for each in _imported(path, "valor_gpu")]
    callers = [path for path in package.rglob("*.py") if _NATIVE.search(path.read_text(encoding="utf-8"))]
    return [*native, *ops, *used, *callers, *(root / "testing").glob("*.py")]


def _imported(path: Path, package: str) -> list[Path]:
    """Returns the modules of a package that a file imports."""
    imports = (each for each in _IMPORTED.findall(path.read_text(encoding="utf-8")) if each[0].startswith(package))
    names = [name for head, tails in imports for name in (head, *(f"{head}.{tail}" for tail in _NAME.findall(tails)))]
    modules = (ROOT / f"{name.replace('.', '/')}.py" for name in names)
    return [path for path in dict.fromkeys(modules) if path.exists()]


@functools.cache
def digest(name: str) -> str:
    """Returns the digest of native code, of what calls it and of the tests that make a run."""
    paths = sorted(_sources(name))
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


def _changed_runs() -> list[str]:
    return [name for name in RUNS if table().get(name) != digest(name)]


def _changed() -> dict[str, list[str]]:
    """Returns the modules whose tables are not those of the code, each with the names of what changed."""
    from tests.native import ptxas, sass

    found = {
        "clean": _changed_runs(),
        "ptxas": [each.stem for each in ptxas.SOURCES if ptxas.table()["digests"].get(each.stem) != ptxas.digest(each)],
        "sass": [each.name for each in sass.BUDGETS if sass.table()["digests"].get(each.name) != sass.digest(each)],
    }
    return {module: names for module, names in found.items() if names}


def main() -> int:
    """Makes the runs whose digest has changed; returns 1 if one is not clean, or with ``--check`` not known."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.clean", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="run nothing, and look at the tables of ptxas and sass too"
    )
    if parser.parse_args().check:
        for module, names in (changed := _changed()).items():
            print(f"{module}.json: {', '.join(names)} changed: run {sys.executable} -m tests.native.{module}")
        return int(bool(changed))
    for name in _changed_runs():
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *RUNS[name]]
        if subprocess.run(command, cwd=ROOT, env={**os.environ, "VALOR_GPU_RECHECK": "1"}).returncode != 0:
            return 1
        TABLE.write_text(json.dumps({**table(), name: digest(name)}, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
