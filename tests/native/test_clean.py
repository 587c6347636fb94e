"""Long runs are skipped by a digest of all that decides them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.native import clean, ptxas, sass
from tests.native.code_only import code_of

FILES = [
    "csrc/core/a.h", "csrc/cpu/a.cpp", "csrc/cuda/a.cu", "csrc/sim/a.cpp", "valor_gpu/ops/a.py", "valor_gpu/coco/b.py",
    "testing/a.py", "tests/native/a.py", "tests/native/a.cu", "tests/test_a.py", "tests/ops/test_a.py",
    "tests/native/test_exports.py", "tests/ops/helper.py", "valor_gpu/checks.py", "tests/first.py", "tests/second.py",
    "tests/native/test_sanitized.py", "tests/native/test_offsets.py", "tests/conftest.py", "tests/fuzz.py",
    "valor_gpu/native.py",
]  # fmt: skip
ONE_RUN = {
    "tests/test_a.py": {"sanitizers"}, "tests/native/test_sanitized.py": {"sanitizers"},
    "tests/native/test_offsets.py": {"offsets"}, "tests/fuzz.py": {"sanitizers"},
    **{name: {"simulator"} for name in FILES if name.startswith(("tests/ops", "tests/native/test_e", "tests/second"))},
}  # fmt: skip


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    clear = clean.digest.cache_clear
    clear()
    yield
    clear()  # of a tree that is gone, which other tests would take for this checkout


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "valor_gpu/coco/b.py").write_text("from valor_gpu import native\n")
    (tmp_path / "tests/test_a.py").write_text("from tests.fuzz import seeds\n@pytest.mark." + "smoke\n")
    (tmp_path / "valor_gpu/ops/a.py").write_text("from valor_gpu import (\n    checks,\n    other,\n)\n")
    (tmp_path / "tests/native/a.py").write_text(
        "from tests.native import clean\nfrom tests.first import some as other\n"
    )
    (tmp_path / "tests/ops/test_a.py").write_text("from tests import nothing, second\n")
    monkeypatch.setattr(clean, "ROOT", tmp_path)
    monkeypatch.setattr(clean, "TABLE", tmp_path / "tests/native/clean.json")
    monkeypatch.delenv("VALOR_GPU_RECHECK", raising=False)
    monkeypatch.setenv("VALOR_GPU_FUZZ", "1")
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_digest_sees_a_change_of_each_kind_of_source(name: str, tree: Path) -> None:
    before = {run: clean.digest(run) for run in clean.RUNS}
    with (tree / name).open("a") as file:
        file.write("changed = 1\n")
    clean.digest.cache_clear()
    changed = {run for run in clean.RUNS if clean.digest(run) != before[run]}
    assert changed == ONE_RUN.get(name, set(clean.RUNS))


def test_a_known_run_is_skipped_unless_it_is_asked_for(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean.TABLE.write_text(json.dumps({"offsets": clean.digest("offsets"), "sanitizers": "another"}))
    clean.skip_if_known("sanitizers")
    with pytest.raises(pytest.skip.Exception, match=r"clean, by the digest in tests/native/clean\.json"):
        clean.skip_if_known("offsets")
    monkeypatch.setenv("VALOR_GPU_RECHECK", "1")
    clean.skip_if_known("offsets")
    monkeypatch.delenv("VALOR_GPU_RECHECK")
    monkeypatch.setenv("VALOR_GPU_FUZZ", "20")
    clean.skip_if_known("offsets")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.h", "int a; // of rows\n", "int a;\n\n/* of\n columns */\n"),
        ("a.cu", "char q = '\"'; // a 'word'\n", "char q = '\"'; // \"another\n"),
        ("a.cpp", "int n = 1'000; // it's so\n", "int n = 1'000;\n"),
        ("a.py", '"""Old."""\nx = 1  # old\n', '"""New\n\nwords."""\nx = 1\n'),
        ("a.py", 'def f():\n    """Old."""\n    return 1\n', 'def f():\n    r"""New."""\n    # why\n    return 1\n'),
        ("a.py", 'class A:\n    b: int\n    """Old."""\n', "class A:\n    b: int\n"),
    ],
)
def test_words_about_code_are_not_code(name: str, before: str, after: str, tmp_path: Path) -> None:
    assert _code(tmp_path / name, before) == _code(tmp_path / name, after)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.h", 'auto a = "// x";\n', 'auto a = "// y";\n'),
        ("a.cpp", 'auto a = R"(/* x */)";\n', 'auto a = R"(/* y */)";\n'),
        ("a.cu", "char q = '\"'; int a; char r = '\"';\n", "char q = '\"'; int b; char r = '\"';\n"),
        ("a.cpp", "int n = 1'000'000; int a; // 'x'\n", "int n = 1'000'000; int b; // 'x'\n"),
        ("a.h", "int a;/**/int b;\n", "int a;/*\nint b;\n*/\n"),
        ("a.h", "in/**/t a;\n", "int a;\n"),
        ("a.py", "x = '# x'\n", "x = '# y'\n"),
        ("a.py", 'x = """\n# x\n"""\n', 'x = """\n# y\n"""\n'),
        ("a.py", 'f(\n    """x"""\n)\n', 'f(\n    """y"""\n)\n'),
        ("a.py", "if x:\n    a = 1\n", "a = 1\n"),
        ("a.py", 'x = "# \\" #"\n', 'x = "# \\" y"\n'),
        ("a.json", "// x", "// y"),
        ("a.py", "(  # x", "(  # y"),
        ("a.cu", "a; // x\nb;\n", "a; // x \\\nb;\n"),
        ("a.h", "#define A x \\\n\nint b;\n", "#define A x \\\nint b;\n"),
        ("a.cpp", 'auto a = R"x(" // x)x";\n', 'auto a = R"x(" // y)x";\n'),
        ("a.cpp", "int a = '/*'; int b; int c = '*/';\n", "int a = '/*'; int d; int c = '*/';\n"),
        ("a.cpp", "int n = 0x1'0; char q = u8'\"'; // x\n", "int n = 0x1'0; char q = u8'\"' + 1; // x\n"),
        ("a.py", 'x = """a\n\nb"""\n', 'x = """a\nb"""\n'),
        ("a.py", 'x = """a \nb"""\n', 'x = """a\nb"""\n'),
        ("a.py", 'def f():\n    """Doc."""; return 1\n', 'def f():\n    """Doc."""; return 2\n'),
        ("a.py", 'def f(): """x"""; y = 1\n', 'def f(): """x"""; y = 2\n'),
    ],
)
def test_code_that_looks_like_words_is_code(name: str, before: str, after: str, tmp_path: Path) -> None:
    assert _code(tmp_path / name, before) != _code(tmp_path / name, after)


def _code(path: Path, text: str) -> bytes:
    path.write_text(text)
    return code_of(path)


def test_what_makes_digests_is_not_in_them(tree: Path) -> None:
    before = {run: clean.digest(run) for run in clean.RUNS}
    (tree / "tests/native/clean.py").write_text("changed = 1\n")
    clean.digest.cache_clear()
    assert {run: clean.digest(run) for run in clean.RUNS} == before


def test_every_test_that_a_digest_skips_is_in_its_run() -> None:
    tests = (path for path in (clean.ROOT / "tests").rglob("*.py") if path.name not in ("clean.py", "test_clean.py"))
    skipping = [
        (str(path.relative_to(clean.ROOT)), name)
        for path in tests
        for name in re.findall(r"skip_if_known\(\"(\w+)\"\)", path.read_text(encoding="utf-8"))
    ]
    assert len(skipping) == 5
    for path, name in skipping:
        assert path == "tests/native/sim.py" or any(path.startswith(run) for run in clean.RUNS[name]), path


@pytest.mark.parametrize("module", [clean, ptxas, sass])
def test_the_check_names_the_table_of_what_has_changed(
    module: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["clean", "--check"])
    monkeypatch.setattr(clean, "digest", clean.table().get)
    monkeypatch.setattr(ptxas, "digest", lambda source: ptxas.table()["digests"][source.stem])
    monkeypatch.setattr(sass, "digest", lambda budget: sass.table()["digests"][budget.name])
    assert clean.main() == 0
    monkeypatch.setattr(module, "digest", lambda each: "another")
    assert clean.main() == 1
    table = module.__name__.rpartition(".")[2]
    assert re.match(rf"{table}\.json: \w.*, .* changed: run .* -m {module.__name__}$", capsys.readouterr().out)


def test_the_runs_exist() -> None:
    for test in (test for tests in clean.RUNS.values() for test in tests):
        path, _, name = test.partition("::")
        assert (clean.ROOT / path).exists() and (not name or f"def {name}(" in (clean.ROOT / path).read_text())
