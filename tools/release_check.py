"""``make release-check``: makes what would be published, and checks it as its users will meet it.

The source archive is made from the files that git knows, and the wheel from the unpacked archive, for glibc 2.28 (see
tools/old_glibc.py). Both lie in dist/ afterwards. Nothing is uploaded.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from tools import wheel_smoke
from tools.commands import ROOT, CheckError, run
from tools.native_toolchain import find_nvcc

GLIBC, PLATFORM = "2.28", "manylinux_2_28_x86_64"
LIMITS = {"archive": 15_000_000, "wheel": 5_000_000, "wheel with CUDA": 60_000_000}
"""Bytes: more is data or a build that slipped in."""
NOTICES = ("examples/data", "tests/data")
"""Folders whose NOTICE.md says where each of their files comes from."""
FORBIDDEN = re.compile(r"\.so$|__pycache__|(^|/)(\.venv|demo_out|bench_data|dist|build)/")

_LOAD = "import ctypes, os, sys\nfor path in sys.argv[1:]: ctypes.CDLL(path, mode=os.RTLD_NOW)"


def tracked() -> list[str]:
    """Files of the project: those that git knows or would add."""
    return run("git", "ls-files", "--cached", "--others", "--exclude-standard").split("\n")[:-1]


def version() -> str:
    """The version, which the newest dated entry of CHANGELOG.md must have."""
    found = re.search(r'__version__ = "(.+)"', (ROOT / "valor_gpu/_version.py").read_text())
    entry = re.search(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if found is None or entry is None or found[1] != entry[1]:
        raise CheckError(
            f"CHANGELOG.md must have a dated entry of {found and found[1]}; its newest is {entry and entry[1]}"
        )
    return found[1]


def make_archive(folder: Path) -> Path:
    """The source archive of a copy that holds what git knows, so that nothing built or left over gets in."""
    for name in tracked():
        if (ROOT / name).exists():
            (folder / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "copy" / name, follow_symlinks=False)
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ".", cwd=folder / "copy")
    return next(folder.glob("valor_gpu-*.tar.gz"))


def check_archive(archive: Path, names: Sequence[str]) -> None:
    """The archive holds every tracked file but those of version control, and nothing that was built."""
    with tarfile.open(archive) as packed:
        held = {name.partition("/")[2] for name in packed.getnames()}
    wanted = {name for name in names if not name.startswith(".") and not (ROOT / name).is_symlink()}
    if missing := sorted(wanted - held):
        raise CheckError(f"{archive.name} lacks {len(missing)} files, such as {missing[0]}: see MANIFEST.in")
    if extra := sorted(name for name in held if FORBIDDEN.search(name)):
        raise CheckError(f"{archive.name} holds {extra[0]}, which is built")


def make_wheel(archive: Path, folder: Path) -> Path:
    """A wheel from the unpacked archive, alone, and repaired to the tag that PyPI takes."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "source", filter="data")
    [source] = (folder / "source").iterdir()
    cuda = os.environ.get("VALOR_GPU_CUDA") or ("1" if find_nvcc() else "auto")  # with or without a GPU here
    settings = {"VALOR_GPU_GLIBC": GLIBC, "VALOR_GPU_CPU": "1", "VALOR_GPU_CUDA": cuda}
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ".", cwd=source, **settings)
    plain = next(folder.glob("valor_gpu-*.whl"))
    run("auditwheel", "repair", "--plat", PLATFORM, "--wheel-dir", folder / "repaired", plain)
    return next((folder / "repaired").glob("*.whl"))


def check_wheel(wheel: Path, folder: Path) -> None:
    """The tag, and libraries that load with every symbol resolved: auditwheel does not look for those."""
    if PLATFORM not in wheel.name:
        raise CheckError(f"the wheel must be for {PLATFORM} but is {wheel.name}")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "unpacked")
    libraries = sorted((folder / "unpacked/valor_gpu").glob("*.so"))
    if not libraries:
        raise CheckError(f"{wheel.name} holds no library")
    run(sys.executable, "-c", _LOAD, *libraries)
    run("check-wheel-contents", wheel)


def check_metadata(archive: Path, wheel: Path) -> None:
    """What PyPI shows and pip reads."""
    run("twine", "check", "--strict", archive, wheel)
    with zipfile.ZipFile(wheel) as packed:
        [name] = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        metadata: Message = HeaderParser().parsestr(packed.read(name).decode())
    for field in ("Summary", "Author", "License-Expression", "Requires-Python", "Project-URL", "Classifier"):
        if not metadata[field]:
            raise CheckError(f"the metadata has no {field}: see pyproject.toml")


def check_sizes(archive: Path, wheel: Path) -> None:
    """Neither file is larger than it should ever be."""
    with zipfile.ZipFile(wheel) as packed:
        kind = "wheel with CUDA" if "valor_gpu/libvalor_cuda.so" in packed.namelist() else "wheel"
    for path, limit in ((archive, LIMITS["archive"]), (wheel, LIMITS[kind])):
        if (size := path.stat().st_size) > limit:
            raise CheckError(f"{path.name} has {size:,} bytes, more than {limit:,}")


def check_licences(names: Sequence[str]) -> None:
    """Every bundled file of others is in the NOTICE.md of its folder, and vendored code lies beside its licence."""
    for folder in NOTICES:
        notice = (ROOT / folder / "NOTICE.md").read_text()
        patterns = [re.escape(word).replace(r"\*", ".*") for word in re.findall(r"[\w./*-]+", notice)]
        for name in (n.removeprefix(f"{folder}/") for n in names if n.startswith(f"{folder}/")):
            named = (name, f"{name.partition('/')[0]}/")  # alone, or by its folder
            if name != "NOTICE.md" and not any(re.fullmatch(p, part) for p in patterns for part in named):
                raise CheckError(f"{folder}/NOTICE.md does not say where {name} comes from")
    for name in names:
        vendored = Path(name).suffix == ".js" and Path(name).name.endswith(".min.js")
        if vendored and not [n for n in names if Path(n).parent in Path(name).parents and Path(n).name == "LICENSE"]:
            raise CheckError(f"{name} has no LICENSE beside it")


def main() -> int:
    """Make both files, check them and say so; 1 if something does not hold."""
    names = tracked()

    def step(what: str, work: Callable[[], object]) -> None:
        work()
        print(f"  {what}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            print(f"valor_gpu {version()}", flush=True)
            step("where bundled data comes from, and its licences", lambda: check_licences(names))
            archive = make_archive(folder)
            step(f"{archive.name}: every file, nothing built", lambda: check_archive(archive, names))
            wheel = make_wheel(archive, folder)
            step(
                f"{wheel.name}: made from the archive alone, loads with no symbol missing",
                lambda: check_wheel(wheel, folder),
            )
            step("metadata as PyPI wants it", lambda: check_metadata(archive, wheel))
            step("sizes", lambda: check_sizes(archive, wheel))
            step(
                "the wheel in empty environments",
                lambda: wheel_smoke.check(wheel, folder / "smoke", show=lambda _: None),
            )
        except CheckError as error:
            print(f"release-check: {error}", file=sys.stderr)
            return 1
        (ROOT / "dist").mkdir(exist_ok=True)
        for path in (archive, wheel):
            print(f"dist/{path.name}  {path.stat().st_size:,} bytes")
            shutil.copy(path, ROOT / "dist")
    return 0


if __name__ == "__main__":
    sys.exit(main())
