"""Python and C agree on every function: ctypes itself would pass wrong arguments on."""

from __future__ import annotations

import ast
import ctypes
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import valor_gpu.errors
from tests.native.prototypes import prototypes
from tests.native.sim import CSRC, simulated
from valor_gpu import native
from valor_gpu._declarations import declarations, declarations_hash, structs

PACKAGE = Path(valor_gpu.errors.__file__).parent
FOLDERS = {"valor_cpu": "cpu", "valor_cuda": "cuda"}


TYPE = re.compile(r"^(?:struct|class|enum) (\w+) (?::[^<]*)?\{", re.MULTILINE)  # no template and no specialisation
NAMES = ("native.function", "native.update_function", "native.once_function", "native_objects.function")


@functools.cache
def calls() -> dict[str, list[ast.expr]]:
    """Arguments of every call that looks up a C function, by file and line."""
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    return {
        f"{path.relative_to(PACKAGE)}:{node.lineno}": node.args
        for path, text in texts.items()
        if any(name in text for name in NAMES)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in NAMES
    }


def bound_functions() -> list[tuple[str, ...]]:
    """(library, symbol, signature) of the calls that write them out."""
    values = [[a.value for a in arguments if isinstance(a, ast.Constant)] for arguments in calls().values()]
    return [tuple(map(str, value)) for value in values if len(value) == 3]


BOUND = bound_functions()


def test_calls_write_out_symbol_and_signature() -> None:
    assert [
        place for place, arguments in calls().items() if not all(isinstance(a, ast.Constant) for a in arguments)
    ] == []


@pytest.mark.parametrize(("library", "symbol", "signature"), BOUND, ids=[bound[1] for bound in BOUND])
def test_signatures_are_those_of_the_source(library: str, symbol: str, signature: str) -> None:
    assert prototypes(FOLDERS[library]).get(symbol) == signature


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_a_library_has_one_type_of_a_name(folder: str) -> None:
    """Two of one name in two sources are undefined behaviour: a linker keeps the inline functions of one of them."""
    headers = [path for name in ("core", folder) for path in (CSRC / name).glob("*.h")]
    found = [name for path in headers for name in TYPE.findall(path.read_text())]
    assert "SideRows" in found
    assert sorted({name for name in found if found.count(name) > 1}) == []


@pytest.mark.parametrize("library", FOLDERS)
def test_every_exported_function_is_used(library: str) -> None:
    exported = set(prototypes(FOLDERS[library])) - {"valor_declarations"}
    assert exported == {symbol for bound, symbol, _ in BOUND if bound == library}


def test_the_libraries_export_what_python_calls() -> None:
    libraries: dict[str, ctypes.CDLL] = {"valor_cuda": simulated()}
    for name in FOLDERS:
        loaded, reason = native._load(name)
        if loaded is not None:
            libraries[name] = loaded
        elif name == "valor_cpu":
            pytest.fail(reason)
    for library, symbol, _ in BOUND:
        assert hasattr(libraries[library], symbol), f"{library} has no {symbol}: build it again"


@pytest.mark.parametrize("library", FOLDERS)
def test_the_hash_is_of_all_declarations(library: str) -> None:
    found = declarations(library, str(CSRC.parent))
    names = {name for text in found for name in re.findall(r"valor_\w+(?=\()", text)}
    assert len(names) == len(found) and names >= set(prototypes(FOLDERS[library]))


def test_the_library_was_built_from_the_declarations_of_this_checkout() -> None:
    assert native.available("valor_cpu"), native.reason("valor_cpu")
    loaded, _ = native._load("valor_cpu")
    assert loaded is not None
    assert loaded.valor_declarations() == declarations_hash("valor_cpu", str(CSRC.parent)) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="nm -D reads ELF")
def test_operator_new_and_delete_are_those_of_the_library() -> None:
    """None is left to libstdc++, whose blocks would not be counted, and none serves other libraries."""
    library = Path(PACKAGE / "libvalor_cpu.so")
    names = subprocess.check_output(["nm", "-D", library], text=True).split()
    assert "valor_count_memory_cpu" in names
    assert [name for name in names if re.match("_Z(n[wa]|d[la])", name)] == []


@pytest.mark.parametrize("folder", ["core", "cpu"])
def test_a_struct_that_changes_makes_another_library(folder: str, tmp_path: Path) -> None:
    """Some functions take structs by pointer, whose fields Python writes."""
    (tmp_path / "csrc" / "core").mkdir(parents=True)
    (tmp_path / "csrc" / "cpu").mkdir()
    header = tmp_path / "csrc" / folder / "task.h"
    header.write_text("namespace valor {\n\nstruct Task {\n  int32_t first;  // of all\n  int32_t last;\n};\n\n}\n")
    before = declarations_hash("valor_cpu", str(tmp_path))
    assert structs("valor_cpu", str(tmp_path)) == ["struct Task { int32_t first; int32_t last; };"]
    header.write_text(header.read_text().replace("// of all", ""))
    assert declarations_hash("valor_cpu", str(tmp_path)) == before
    header.write_text("struct Task {\n  int32_t last;\n  int32_t first;\n};\n")
    assert declarations_hash("valor_cpu", str(tmp_path)) != before


def test_structs_that_python_fills_are_found() -> None:
    assert "int64_t by_key, agnostic, full, threads;" in " ".join(structs("valor_cpu", str(CSRC.parent)))
