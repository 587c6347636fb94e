"""``python -m benchmarks.gpu_pack``: prepares a GPU check for a machine without a network, git or pycocotools.

Builds both libraries for one architecture unless they are there, notes the commit, fetches the wheel of pycocotools,
and writes all that the machine needs to one tar file. The exit code is 1 if the libraries cannot be built or the files
beside the checkout are too large.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

from benchmarks import gpu_build, machine
from benchmarks.gpu_record import sources
from testing.datasets import ROOT
from tools.git_files import git_files

CAPABILITY = (9, 0)
"""Of H100 and H200. Each architecture costs minutes of CPU time, so no other is built."""
SECONDS = 3600.0
"""A build may take so long: nobody waits for a lent GPU."""
WHEELS = Path(".whl")
PATHS = (*gpu_build.LIBRARIES, Path("valor_gpu", "_build.json"), gpu_build.STAMP, WHEELS)
"""All that is copied beside the files of git, relative to the checkout."""
TAR = Path("build", "gpu_pack.tar")
"""These and the files of git, in a folder ``gpu_pack``."""
MOST_MB = 40.0
PYTHON = "3.12"
"""Of the GPU machine."""
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")


def main(root: Path = ROOT) -> int:
    """Packs; see the module."""
    (root / TAR).unlink(missing_ok=True)
    try:
        print(gpu_build.build(CAPABILITY, root, SECONDS), flush=True)
    except gpu_build.BuildError as error:
        print(f"{error}\nnothing was packed: the libraries cannot be built")
        return 1
    facts = machine.checkout(root)
    gpu_build.note({**facts, "files": sources(root)}, root)
    print(f"commit {facts['commit']}, changed files: {facts['changed_files']}")
    print(fetch_wheel(root))
    if code := report(root):
        return code
    print(write_tar(root))
    return 0


def fetch_wheel(root: Path) -> str:
    """Downloads the wheel of pycocotools unless it is there, and removes others; returns lines about it."""
    if there := keep_one(root):
        return f"{there} is there"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    command += ["--dest", str(root / WHEELS), "pycocotools"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0 and (fetched := keep_one(root)):
        return f"fetched {fetched}"
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), f"pip ended with {done.returncode}")
    return f"the wheel of pycocotools is missing, so the check leaves out what is compared with it: {said}"


def keep_one(root: Path) -> str:
    """Removes all wheels of pycocotools but the newest that the GPU machine can install.

    Returns:
        Path of the wheel that is kept, relative to the checkout, and the names of the others; empty if none is kept.
    """
    found = sorted((root / WHEELS).glob("pycocotools-*.whl"), key=lambda wheel: (_fits(wheel.name), wheel.name))
    if not found or not _fits(found[-1].name):
        return ""
    for other in found[:-1]:
        other.unlink()
    removed = ", ".join(other.name for other in found[:-1])
    return f"{found[-1].relative_to(root)}" + (f" (removed: {removed})" if removed else "")


def _fits(wheel: str) -> tuple[int, ...]:
    """The version in the name of a wheel, () where the GPU machine cannot install it.

    A wheel of the stable ABI serves its Python and all later ones.
    """
    named = re.match(r"pycocotools-(\d[^-]*)-cp3(\d+)-(abi3|cp3\d+)-(?:many)?linux.*x86_64\.whl$", wheel)
    minor = int(PYTHON.split(".")[1])
    if not named or not (int(named[2]) <= minor if named[3] == "abi3" else named[3] == f"cp3{minor}"):
        return ()
    return tuple(map(int, re.findall(r"\d+", named[1])))


def report(root: Path) -> int:
    """Prints the files to copy beside the files of git, and their size; returns the exit code."""
    sizes = {path: size for path in PATHS if (size := size_mb(root / path))}
    total = sum(sizes.values())
    print("beside the files of git:")
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


def files(root: Path) -> list[Path]:
    """Returns all that the GPU machine needs, relative to the checkout: files of git and those that were packed.

    Files of git are those that it tracks or would add, since the commit of the stamp stands only for all of them.

    Raises:
        subprocess.CalledProcessError: git does not know the checkout.
        OSError: no git is installed.
    """
    packed = [path for path in PATHS if path != WHEELS]
    wheels = [wheel.relative_to(root) for wheel in (root / WHEELS).glob("*.whl")]
    paths = sorted({*git_files(root), *packed, *wheels})
    return [path for path in paths if (root / path).is_file() or (root / path).is_symlink()]


def write_tar(root: Path) -> str:
    """Writes the tar file; returns a line about it."""
    try:
        paths = files(root)
    except (OSError, subprocess.CalledProcessError):
        return f"{TAR} was not written, since git does not know this checkout: copy the whole folder"
    with tarfile.open(root / TAR, "w") as tar:
        for path in paths:
            tar.add(root / path, Path("gpu_pack", path), recursive=False)
    size = size_mb(root / TAR)
    return f"{size:6.1f} MB  {TAR}: all of these and the files of git; there: tar xf gpu_pack.tar && cd gpu_pack"


if __name__ == "__main__":
    sys.exit(main())
