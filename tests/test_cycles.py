"""Modules import one another in no circle, whether at the top, inside functions or for type checkers alone."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from tests.checkout import ROOT, run

LINT = "from importlinter.cli import lint_imports_command as run; run()"

Links = Mapping[str, Mapping[str, set[str]]]
"""Module to the modules that it imports, each with the places of the imports: ``module``, ``function``, ``types``."""

# -------------------------------------------------------------------------------------------------------------- imports


def read_links(root: Path, package: str) -> Links:
    """Returns the imports among the modules of a package; folders that are links are left out."""
    files = {}
    for folder, _, names in os.walk(root / package):
        for name in names:
            if name.endswith(".py"):
                path = Path(folder) / name
                files[".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")] = path
    links: dict[str, dict[str, set[str]]] = {}
    for module, path in files.items():
        links[module] = {}
        for target, place in _imports(ast.parse(path.read_bytes()).body, module, path.name == "__init__.py", "module"):
            known = next((name for name in (target, target.rpartition(".")[0]) if name in files), None)
            if known not in (None, module):
                links[module].setdefault(known, set()).add(place)
    return links


def _imports(body: list[ast.stmt], module: str, is_package: bool, place: str) -> Iterator[tuple[str, str]]:
    """Yields each imported name with dots and the place of its import; looks at statements alone, to be quick."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, place) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: len(module.split(".")) + is_package - node.level] if node.level else []
            start = ".".join([*base, *filter(None, [node.module])])
            yield from ((f"{start}.{alias.name}", place) for alias in node.names)
        inner = place
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = "function"
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            inner = "types"
        for part in ("body", "orelse", "finalbody"):
            yield from _imports(getattr(node, part, []), module, is_package, inner)
        for branch in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from _imports(branch.body, module, is_package, inner)


def circles_of(links: Links) -> set[tuple[str, ...]]:
    """Returns the strongly connected components of more than one module: Tarjan's algorithm, SIAM J. Comput. 1972."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = set()

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        path.append(module)
        for other in links[module]:
            if other not in numbers:
                visit(other)
            if other in path:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == numbers[module]:
            start = path.index(module)
            if len(path) - start > 1:
                found.add(tuple(sorted(path[start:])))
            del path[start:]

    for module in links:
        if module not in numbers:
            visit(module)
    return found


@lru_cache(maxsize=1)
def own_links() -> Links:
    """Returns the imports among the modules of this package."""
    return read_links(ROOT, "valor_gpu")


def test_modules_import_in_no_circle() -> None:
    assert circles_of(own_links()) == set()


def test_imports_point_down() -> None:
    """The layers of pyproject.toml; imports inside functions and for type checkers count."""
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    assert "0 broken" in run(sys.executable, "-c", LINT, "--no-logo", "--no-cache", cwd=ROOT)


# --------------------------------------------------------------------------------------------------- what the test sees


def write(root: Path, modules: Mapping[str, str]) -> Links:
    """Returns the imports of a package ``made`` with these files."""
    for name, text in modules.items():
        path = root / "made" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_links(root, "made")


@pytest.mark.parametrize(
    ("back", "place"),
    [
        ("from made.a import f\n", "module"),
        ("import made.a\n", "module"),
        ("from made import a\n", "module"),
        ("from .a import f\n", "module"),
        ("try:\n    import numpy\nexcept ImportError:\n    from made import a\n", "module"),
        ("def f():\n    if f:\n        with f:\n            from made.a import f\n", "function"),
        ("class C:\n    async def f(self):\n        import made.a\n", "function"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.a import f\n", "types"),
    ],
)
def test_a_circle_of_two_is_found(tmp_path: Path, back: str, place: str) -> None:
    links = write(tmp_path, {"a.py": "from made.b import g\n", "b.py": back, "c.py": "import made.b, made.a\n"})
    assert circles_of(links) == {("made.a", "made.b")}
    assert links["made.b"] == {"made.a": {place}}


def test_a_long_circle_through_folders_is_found_and_a_tree_is_none(tmp_path: Path) -> None:
    links = write(
        tmp_path,
        {
            "top.py": "from made.room import x\nfrom made.low import y\n",
            "room/__init__.py": "from .inner import x\n",
            "room/inner.py": "from ..low import y\n",
            "low.py": "def y():\n    from made import deep\n",
            "deep.py": "",
        },
    )
    assert circles_of(links) == set()
    (tmp_path / "made" / "deep.py").write_text("from made.room import x\n")
    assert circles_of(read_links(tmp_path, "made")) == {("made.deep", "made.low", "made.room", "made.room.inner")}


def test_a_folder_that_is_a_link_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": ""})
    (tmp_path / "made" / "linked").symlink_to(tmp_path / "made", target_is_directory=True)
    assert list(read_links(tmp_path, "made")) == ["made.a"]
