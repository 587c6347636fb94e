"""A copy of the checkout that mutants are put into, one after another."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.git_files import git_files
from tools.mutant_table import Mutant

LIBRARY = Path("valor_gpu", "libvalor_cpu.so")
BUILT = (LIBRARY, Path("valor_gpu", "_build.json"))
"""What the build leaves beside the sources, unknown to git."""
TESTS = ("tests", "testing")


class Copy:
    """A copy of a checkout.

    Args:
        folder: where it lies.
        kept: where the libraries of the original lie.
    """

    def __init__(self, folder: Path, kept: Path) -> None:
        self.folder, self._kept = folder, kept

    @classmethod
    def of(cls, root: Path, folder: Path, tests_from: str | None = None) -> Copy:
        """Copies what git tracks or would add, and the libraries.

        Args:
            root: the checkout.
            folder: of the copy, which is made, with another one beside it.
            tests_from: a commit from which the tests come.

        Raises:
            ValueError: there is no C++ library.
            subprocess.CalledProcessError: git does not know the checkout or the commit.
        """
        if not (root / LIBRARY).exists():
            raise ValueError(f"{LIBRARY} must be built but is not there: run make setup")
        kept = folder.with_name(f"{folder.name}-kept")
        for target, paths in ((folder, [*git_files(root), *BUILT]), (kept, BUILT)):
            for path in paths:
                if (root / path).is_file() or (root / path).is_symlink():
                    (target / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(root / path, target / path, follow_symlinks=False)
        if tests_from is not None:
            _replace_tests(root, folder, tests_from)
        return cls(folder, kept)

    def missing(self, tests: Sequence[str]) -> list[str]:
        """The paths among arguments of pytest that do not exist, as in the tests of an older commit."""
        return [part for part in tests if self.is_path(part) and not (self.folder / part.partition("::")[0]).exists()]

    @staticmethod
    def is_path(argument: str) -> bool:
        """Whether an argument of pytest is a path."""
        return argument.startswith(("tests", "valor_gpu"))

    def has_another_library(self) -> bool:
        """Whether the C++ library is not that of the original."""
        return (self.folder / LIBRARY).read_bytes() != (self._kept / LIBRARY).read_bytes()

    @contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        """Has the mutant in it for so long; then sources and libraries are those of the original again."""
        path = self.folder / mutant.path
        source = path.read_text()
        _write(path, mutant.mutated(source))
        try:
            yield
        finally:
            _write(path, source)
            if mutant.is_native:
                for each in BUILT:
                    shutil.copy2(self._kept / each, self.folder / each)


def _write(path: Path, source: str) -> None:
    """Writes a source, and removes its bytecode: Python tells stale from fresh by size and whole seconds alone."""
    path.write_text(source)
    for bytecode in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        bytecode.unlink()


def _replace_tests(root: Path, folder: Path, commit: str) -> None:
    command = ["git", "-C", str(root), "archive", "--format=tar", commit, *TESTS]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    for name in TESTS:
        shutil.rmtree(folder / name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
