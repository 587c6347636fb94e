"""Long runs are skipped by a digest of all that decides them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native import clean
from tests.native.code_only import code_of

FILES = [
    "csrc/core/a.h", "csrc/cpu/a.cpp", "csrc/cuda/a.cu", "csrc/sim/a.cpp", "valor_gpu/ops/a.py", "valor_gpu/coco/b.py",
    "testing/a.py", "tests/native/a.py", "tests/native/a.cu", "tests/test_a.py", "tests/ops/test_a.py",
    "tests/native/test_exports.py", "tests/benchmarks/test_gpu_streams.py", "tests/ops/helper.py",
    "tests/native/test_sanitized.py", "tests/native/test_offsets.py", "tests/conftest.py", "tests/fuzz.py",
    "valor_gpu/native.py",
]  # fmt: skip
ONE_RUN = {
    "tests/test_a.py": {"sanitizers"}, "tests/native/test_sanitized.py": {"sanitizers"},
    "tests/native/test_offsets.py": {"offsets"}, "tests/fuzz.py": {"sanitizers"},
    **{name: {"simulator"} for name in FILES if name.startswith(("tests/ops", "tests/native/test_e", "tests/bench"))},
}  # fmt: skip


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    clean.digest.cache_clear()
    yield
    clean.digest.cache_clear()  # of a tree that is gone, which other tests would take for this checkout


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "valor_gpu/coco/b.py").write_text("from valor_gpu import native\n")
    (tmp_path / "tests/test_a.py").write_text("from tests.fuzz import seeds\n@pytest.mark." + "smoke\n")
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
    ],
)
def test_code_that_looks_like_words_is_code(name: str, before: str, after: str, tmp_path: Path) -> None:
    assert _code(tmp_path / name, before) != _code(tmp_path / name, after)


def _code(path: Path, text: str) -> bytes:
    path.write_text(text)
    return code_of(path)


def test_the_runs_exist() -> None:
    for test in (test for tests in clean.RUNS.values() for test in tests):
        path, _, name = test.partition("::")
        assert (clean.ROOT / path).exists() and (not name or f"def {name}(" in (clean.ROOT / path).read_text())
