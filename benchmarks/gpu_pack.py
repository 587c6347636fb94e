"""``python -m benchmarks.gpu_pack``: prepares a GPU check for a machine without a network, git or pycocotools.

Builds both libraries for one architecture unless they are there, notes the commit, fetches the wheel of pycocotools,
and lists the files that the machine needs beside the tracked ones. The exit code is 1 if the libraries cannot be built
or the files are too large.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import gpu_build, machine
from benchmarks.gpu_record import sources
from testing.datasets import ROOT

CAPABILITY = (9, 0)
"""Of H100 and H200. Each architecture costs minutes of CPU time, so no other is built."""
SECONDS = 3600.0
"""A build may take so long: nobody waits for a lent GPU."""
WHEELS = Path(".whl")
PATHS = (*gpu_build.LIBRARIES, Path("valor_gpu", "_build.json"), gpu_build.STAMP, WHEELS)
"""All that is copied beside the tracked files, relative to the checkout."""
MOST_MB = 40.0
PYTHON = "3.12"
"""Of the GPU machine."""
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")


def main(root: Path = ROOT) -> int:
    """Packs; see the module."""
    try:
        print(gpu_build.build(CAPABILITY, root, SECONDS), flush=True)
    except gpu_build.BuildError as error:
        print(f"{error}\nnothing was packed: the libraries cannot be built")
        return 1
    facts = machine.checkout(root)
    gpu_build.note({**facts, "files": sources(root)}, root)
    print(f"commit {facts['commit']}, changed files: {facts['changed_files']}")
    print(fetch_wheel(root))
    return report(root)


def fetch_wheel(root: Path) -> str:
    """Downloads the wheel of pycocotools unless it is there; returns a line about it."""
    if there := _wheel(root):
        return f"{there} is there"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    command += ["--dest", str(root / WHEELS), "pycocotools"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0 and (fetched := _wheel(root)):
        return f"fetched {fetched}"
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), f"pip ended with {done.returncode}")
    return f"the wheel of pycocotools is missing, so the check leaves out what is compared with it: {said}"


def _wheel(root: Path) -> Path | None:
    """Relative to the checkout. pip has chosen one for that Python, which may be for its stable ABI and older ones."""
    found = sorted((root / WHEELS).glob("pycocotools-*.whl"))
    return found[-1].relative_to(root) if found else None


def report(root: Path) -> int:
    """Prints the files to copy and their size; returns the exit code."""
    sizes = {path: size for path in PATHS if (size := size_mb(root / path))}
    total = sum(sizes.values())
    print("to copy beside the tracked files:")
    for path, size in sizes.items():
        print(f"{size:6.1f} MB  {path}")
    print(f"{total:6.1f} MB  in all")
    if total > MOST_MB:
        print(f"what is packed must take at most {MOST_MB:.0f} MB but takes {total:.1f} MB: remove what is not needed")
        return 1
    return 0


def size_mb(path: Path) -> float:
    """Returns the size of a file, or of all files in a folder, in 10^6 bytes."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


if __name__ == "__main__":
    sys.exit(main())
