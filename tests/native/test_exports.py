"""Python and C agree on every function and struct: ctypes itself would pass wrong arguments on."""

from __future__ import annotations

import ast
import ctypes
import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import valor_gpu.errors
from tests.native.sim import COMPILER, CSRC, simulated
from valor_gpu import _declarations, native
from valor_gpu._declarations import Declarations
from valor_gpu.errors import NativeError

ROOT = CSRC.parent
PACKAGE = Path(valor_gpu.errors.__file__).parent
FOLDERS = {"valor_cpu": "cpu", "valor_cuda": "cuda"}


TYPE = re.compile(r"^(?:struct|class|enum) (\w+) (?::[^<]*)?\{", re.MULTILINE)  # no template and no specialisation
FUNCTIONS = ("native.function", "native.update_function", "native.once_function", "native_objects.function")
STRUCTS = ("native.struct", "native.fields")
NAMES = (*FUNCTIONS, *STRUCTS)


def declared(library: str, root: Path = ROOT) -> Declarations:
    """The declarations of a checkout."""
    found = Declarations.read(library, str(root))
    assert found is not None
    return found


@functools.cache
def calls() -> dict[str, tuple[str, list[ast.expr]]]:
    """Name and arguments of every call that looks up a C function or struct, by file and line."""
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    return {
        f"{path.relative_to(PACKAGE)}:{node.lineno}:{node.col_offset}": (ast.unparse(node.func), node.args)
        for path, text in texts.items()
        if any(name in text for name in NAMES)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in NAMES
    }


def bound(*finders: str) -> set[tuple[str, str]]:
    """Library and name of the functions or structs that Python looks up."""
    found = [
        [a.value for a in given if isinstance(a, ast.Constant)] for name, given in calls().values() if name in finders
    ]
    return {(str(library), str(name)) for library, name in found}


def test_calls_write_out_library_and_name() -> None:
    wrong = [place for place, (_, given) in calls().items() if [type(a) for a in given] != [ast.Constant] * 2]
    assert wrong == [] and len(calls()) > 100


def test_functions_that_take_bytes_take_pointers_only() -> None:
    found = {declared(library).entry(symbol) for library, symbol in bound("native.update_function")}
    assert found == {"pp"}


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("int32_t f(const void* a, int64_t b, double c, int32_t d)", "pqdi"),
        ("int32_t f(const int64_t* const* a, uint8_t** b)", "pp"),
        ("Object* f(Object* a, Object* b)", "oo"),
        ("int32_t f()", ""),
        ("const char* f(int32_t a)", None),
    ],
)
def test_letters_of_a_function(text: str, letters: str | None) -> None:
    assert Declarations([text], []).entry("f") == letters


def test_a_parameter_of_another_type_is_no_guess() -> None:
    with pytest.raises(KeyError, match="float"):
        Declarations(["int32_t f(float a)"], []).entry("f")


LETTERS = """
#include <stddef.h>
#include <type_traits>
#include <utility>
template <class Reference>
constexpr char letter() {
  using T = std::remove_cv_t<std::remove_reference_t<Reference>>;
  return std::is_pointer_v<T> ? 'p' : std::is_same_v<T, double> ? 'd' : std::is_same_v<T, int64_t> ? 'q'
       : std::is_same_v<T, uint64_t> ? 'Q' : '?';
}
using namespace valor;
"""


def checks(library: str, struct: str) -> list[str]:
    """Lines of C++ that compile if a struct is as its entry says."""
    letters, *fields = str(declared(library).entry(struct)).split(" ")
    lines = [f'static_assert(sizeof({struct}) == {8 * len(fields)}, "{struct}");']
    for i, (field, letter) in enumerate(zip(fields, letters)):
        is_there = f"offsetof({struct}, {field}) == {8 * i}"
        lines.append(
            f"static_assert({is_there} && letter<decltype((std::declval<{struct}&>().{field}))>() == '{letter}');"
        )
    return lines


def compiles(library: str, structs: list[str], tmp_path: Path) -> str:
    """What the compiler says of structs and their entries, empty where they agree."""
    paths = [*(CSRC / "core").glob("*.h"), *(CSRC / FOLDERS[library]).glob("*.*")]
    texts = {path: path.read_text() for path in sorted(paths, key=lambda path: path.suffix != ".h")}
    source, said = tmp_path / "checks.cpp", ""
    homes = {struct: next(path for path, text in texts.items() if f"\nstruct {struct} " in text) for struct in structs}
    one = {struct: home if home.suffix == ".cpp" or home.suffix == ".cu" else None for struct, home in homes.items()}
    for place in set(one.values()):
        here = [struct for struct in structs if one[struct] == place]
        included = {homes[struct] for struct in here}
        lines = [*(f'#include "{path}"' for path in sorted(included)), LETTERS]
        lines += [line for struct in here for line in checks(library, struct)]
        source.write_text("\n".join(lines))
        simulator = ["-I", str(CSRC / "cuda"), "-include", str(CSRC / "sim" / "cuda_sim.h")]
        command = [
            COMPILER,
            "-std=c++17",
            "-fsyntax-only",
            "-w",
            *(simulator if library == "valor_cuda" else []),
            str(source),
        ]
        said += subprocess.run(command, capture_output=True, text=True).stderr
    return said


@pytest.mark.parametrize("library", FOLDERS)
def test_structs_are_those_of_the_compiler(library: str, tmp_path: Path) -> None:
    structs = sorted(name for place, name in bound(*STRUCTS) if place == library)
    assert structs and compiles(library, structs, tmp_path) == ""


def test_a_struct_of_other_fields_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Declarations, "entry", lambda *_: "qq gt_rows rows")
    assert "static assertion failed" in compiles("valor_cpu", ["PairSides"], tmp_path)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("struct Task { const double *a, b; int64_t c = 0; };", "pdq a b c"),
        ("struct Task { Inner in[2]; const float* a[2]; uint64_t (*b)[3]; };", "qqqqpppQ"),
        ("struct Task : Inner { uint64_t a; static constexpr int k = 2; int f() const { return {k}; } };", "qqQ x y a"),
        ("struct Task { int64_t a; int32_t b; };", None),
        ("struct Task { int64_t a[kSize]; };", None),
        ("struct Task { Unknown a; };", None),
        (
            "struct Task { double a = (1.5); int64_t b = sizeof(int); T() = default; bool operator==(T b) const; };",
            "dq a b",
        ),
        ("struct Task { int64_t a = f(1, 2), b; };", None),
        ("struct Task { alignas(16) int64_t a; };", None),
        ("struct Task { virtual int f() const; int64_t a; };", None),
        ("struct Task { template <bool k = true> int f() const { return k; } int64_t a; };", "q a"),
    ],
)
def test_entry_of_a_struct(text: str, entry: str | None) -> None:
    found = Declarations([], [text, "struct Inner { int64_t x, y; };"]).entry("Task")
    assert found == (entry if entry is None or " " in entry else "qqqqppp in[0].x in[0].y in[1].x in[1].y a[0] a[1] b")


def test_a_name_that_no_source_has_is_an_error() -> None:
    with pytest.raises(NativeError, match=r"libvalor_cpu.so has no valor_nothing_cpu: it is older than this package"):
        native.function("valor_cpu", "valor_nothing_cpu")
    with pytest.raises(NativeError, match=r"libvalor_cpu.so has no struct Nothing of fields of 8 bytes"):
        native.struct("valor_cpu", "Nothing")


def test_fields_are_all_that_a_struct_takes() -> None:
    words = native.struct("valor_cpu", "PairSides")
    with pytest.raises(AttributeError, match="no attribute 'row'"):
        words(row=1)
    with pytest.raises(TypeError, match="too many initializers"):
        words(1, 2, 3)


def test_an_installed_package_reads_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = [line for library in FOLDERS for line in declared(library).lines(library)]
    if not native.available("valor_cpu"):
        pytest.skip(native.reason("valor_cpu"))
    shutil.copy(ROOT / "valor_gpu/libvalor_cpu.so", tmp_path)
    (tmp_path / _declarations.TABLE).write_text("\n".join(lines) + "\n")
    wanted = bound(*NAMES)
    expected = {each: native._entry(*each) for each in wanted}
    monkeypatch.setattr(native, "_ROOT", str(tmp_path))
    monkeypatch.setattr(native, "_sources", lambda name: Declarations.read(name, native._ROOT))
    native._table.cache_clear()
    try:
        with monkeypatch.context() as patches:
            patches.setattr(native, "_FOLDER", str(tmp_path))
            assert native._sources("valor_cpu") is None and {each: native._entry(*each) for each in wanted} == expected
            assert native._load.__wrapped__("valor_cpu")[1] == "libvalor_cpu.so loaded"
        (tmp_path / _declarations.TABLE).write_text("valor_cpu valor_activate_cpu pqqqpq\nvalor_cpu valor_box")
        with monkeypatch.context() as patches:
            patches.setattr(native, "_FOLDER", str(tmp_path))
            native._table.cache_clear()
            assert native._table() == {}
        wrong = [line.replace("valor_cpu hash ", "valor_cpu hash 1") for line in lines]
        for table in ([], lines[:5], [line for line in lines if " hash " not in line], wrong):
            (tmp_path / _declarations.TABLE).write_text("\n".join(table))
            native._table.cache_clear()
            with monkeypatch.context() as patches:
                patches.setattr(native, "_FOLDER", str(tmp_path))
                assert native._load.__wrapped__("valor_cpu") == (
                    None, "libvalor_cpu.so and _declarations.txt are not of one build: install the package again"
                )  # fmt: skip
    finally:
        native._table.cache_clear()


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_a_library_has_one_type_of_a_name(folder: str) -> None:
    """Two of one name in two sources are undefined behaviour: a linker keeps the inline functions of one of them."""
    headers = [path for name in ("core", folder) for path in (CSRC / name).glob("*.h")]
    found = [name for path in headers for name in TYPE.findall(path.read_text())]
    assert "SideRows" in found
    assert sorted({name for name in found if found.count(name) > 1}) == []


@pytest.mark.parametrize("library", FOLDERS)
def test_every_exported_function_is_used(library: str) -> None:
    exported = set(declared(library).calls) - {"valor_declarations"}
    assert exported == {symbol for place, symbol in bound(*FUNCTIONS) if place == library}


def test_the_libraries_export_what_python_calls() -> None:
    libraries: dict[str, ctypes.CDLL] = {"valor_cuda": simulated()}
    for name in FOLDERS:
        loaded, reason = native._load(name)
        if loaded is not None:
            libraries[name] = loaded
        elif name == "valor_cpu":
            pytest.fail(reason)
    for library, symbol in bound(*FUNCTIONS):
        assert hasattr(libraries[library], symbol), f"{library} has no {symbol}: build it again"


@pytest.mark.parametrize("library", FOLDERS)
def test_the_hash_is_of_all_declarations(library: str) -> None:
    found = declared(library)
    names = {name for text in found.functions for name in re.findall(r"valor_\w+(?=\()", text)}
    assert len(names) == len(found.functions) and names >= set(found.calls)
    changed = [found._replace(functions=found.functions[1:]), found._replace(structs=found.structs[1:])]
    assert found.hash not in [each.hash for each in changed]


def test_the_library_was_built_from_the_declarations_of_this_checkout() -> None:
    assert native.available("valor_cpu"), native.reason("valor_cpu")
    loaded, _ = native._load("valor_cpu")
    assert loaded is not None
    assert loaded.valor_declarations() == declared("valor_cpu").hash > 0


@pytest.mark.skipif(sys.platform != "linux", reason="nm -D reads ELF")
def test_operator_new_and_delete_are_those_of_the_library() -> None:
    """None is left to libstdc++, whose blocks would not be counted, and none serves other libraries."""
    library = Path(PACKAGE / "libvalor_cpu.so")
    names = subprocess.check_output(["nm", "-D", library], text=True).split()
    assert "valor_count_memory_cpu" in names
    assert [name for name in names if re.match("_Z(n[wa]|d[la])", name)] == []


@pytest.mark.parametrize("place", ["core/task.h", "cpu/task.h", "cpu/task.cpp"])
def test_a_struct_that_changes_makes_another_library(place: str, tmp_path: Path) -> None:
    """Some functions take structs by pointer, whose fields Python writes."""
    for folder in ("core", "cpu"):
        (tmp_path / "csrc" / folder).mkdir(parents=True)
    header = tmp_path / "csrc" / place
    text = (
        "namespace valor {\n\nstruct Task {\n  int32_t first;  // of all\n  int32_t last;\n};\n\nstruct None {};\n}\n"
    )
    header.write_text(text)
    before = declared("valor_cpu", tmp_path)
    assert before.structs == ["struct None {};", "struct Task { int32_t first; int32_t last; };"]
    header.write_text(text.replace("// of all", ""))
    assert declared("valor_cpu", tmp_path).hash == before.hash
    header.write_text(text.replace("first", "last", 1).replace("last;\n}", "first;\n}"))
    assert declared("valor_cpu", tmp_path).hash != before.hash
