"""What is published: linking for an older glibc, lower bounds, licences of data, and the budgets of the package."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tools import old_glibc, release_check
from tools.commands import CheckError
from tools.minimum import dependencies, oldest

COMPILER = shutil.which("g++")
needs_gcc = pytest.mark.skipif(
    COMPILER is None or shutil.which("nm") is None or not Path("/lib/x86_64-linux-gnu/libc.so.6").exists(),
    reason="g++ and nm of an x86_64 Linux with glibc are needed",
)

SOURCE = """
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
static std::mutex lock;
static int total;
extern "C" int valor_probe(int n) {
  std::thread other([n] { std::lock_guard<std::mutex> held(lock); total += n; });
  other.join();
  std::atexit([] {});
  try { throw std::string(1, 'x'); } catch (const std::string &text) { total += text.size(); }
  return total;
}
int hidden_by_the_script() { return 1; }
"""


def objects(folder: Path, source: str) -> list[str]:
    (folder / "probe.cpp").write_text(source)
    subprocess.check_call(
        [str(COMPILER), "-O1", "-fPIC", "-c", str(folder / "probe.cpp"), "-o", str(folder / "probe.o")]
    )
    return [str(folder / "probe.o")]


def asked_of(library: Path) -> list[str]:
    """Releases of glibc whose symbols a library asks for."""
    return re.findall(r"@GLIBC_([\d.]+)", subprocess.check_output(["nm", "-D", str(library)], text=True))


@needs_gcc
def test_a_library_linked_for_an_older_glibc_runs_and_asks_for_nothing_newer(tmp_path: Path) -> None:
    library = tmp_path / "probe.so"
    old_glibc.link([str(COMPILER)], objects(tmp_path, SOURCE), str(library), "2.28")
    releases = [tuple(map(int, release.split("."))) for release in asked_of(library)]
    assert releases and max(releases) <= (2, 28)
    names = subprocess.check_output(["nm", "-D", "--defined-only", str(library)], text=True)
    assert re.findall(r"^\S+ T (\w+)$", names, re.MULTILINE) == ["valor_probe"]  # nothing of libstdc++ either
    loaded = ctypes.CDLL(str(library))
    assert [loaded.valor_probe(4), loaded.valor_probe(4)] == [5, 10]


@needs_gcc
def test_a_symbol_that_the_release_lacks_is_named(tmp_path: Path) -> None:
    source = 'extern "C" { int gettid(); int valor_probe() { return gettid(); } }'
    with pytest.raises(ValueError, match=r"glibc 2\.28 has no gettid: "):
        old_glibc.link([str(COMPILER)], objects(tmp_path, source), str(tmp_path / "probe.so"), "2.28")


def test_the_newest_version_within_a_release_is_taken() -> None:
    versions = ["GLIBC_2.2.5", "GLIBC_2.14", "GLIBC_2.34", "GLIBC_PRIVATE"]
    assert old_glibc.newest(versions, "2.28") == "GLIBC_2.14"
    assert old_glibc.newest(versions, "2.34") == "GLIBC_2.34"
    assert old_glibc.newest(["GLIBC_2.34"], "2.28") is None


def test_lower_bounds_are_the_requirements_of_the_oldest_environment() -> None:
    assert oldest(["torch>=2.6", "numpy>=1.26.1"]) == ["torch==2.6", "numpy==1.26.1"]
    with pytest.raises(ValueError, match=r"name>=version but got 'torch'"):
        oldest(["torch"])


def test_the_package_asks_for_three_others_and_no_more() -> None:
    """The budget: what more is wanted is an extra, imported where it is used."""
    found = dependencies((ROOT / "pyproject.toml").read_text())
    assert [requirement.split(">=")[0] for requirement in found] == ["torch", "numpy", "torchmetrics"]
    assert len(oldest(found)) == 3


def test_licences_of_bundled_data_are_stated() -> None:
    names = [str(path.relative_to(ROOT)) for folder in release_check.NOTICES for path in (ROOT / folder).rglob("*.*")]
    release_check.check_licences(names)
    with pytest.raises(CheckError, match=r"examples/data/NOTICE.md does not say where stray.json comes from"):
        release_check.check_licences([*names, "examples/data/stray.json"])
    with pytest.raises(CheckError, match=r"docs/x/katex.min.js has no LICENSE beside it"):
        release_check.check_licences(["docs/x/katex.min.js"])
    release_check.check_licences(["docs/x/katex.min.js", "docs/x/LICENSE"])


def test_make_builds_no_native_code_by_installing() -> None:
    """It is built once, by setup.py; installing for an extra would compile for all architectures."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in makefile.splitlines() if re.search(r" -e [\".]", line)]
    assert len(installs) == 4
    assert all("VALOR_GPU_CPU=0 VALOR_GPU_CUDA=0 " in line for line in installs)


def test_workflows_call_what_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text()
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    if not files:
        pytest.skip("the source archive has no workflows")
    called = {name for path in files for name in re.findall(r"\bmake ([\w-]+)", path.read_text())}
    assert called >= {"test", "check", "minimum", "release-check"}
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in called)
