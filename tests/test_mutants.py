"""``make mutants`` tells tests that find a fault from tests that do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.processes import is_alive, wait_for
from tools import mutant_page
from tools.bounded_run import Ended, run_bounded
from tools.mutant_copy import Copy
from tools.mutant_table import TABLE, Mutant, read_table
from tools.mutants import ALIVE, AT_LIMIT, KILLED, NOT_RUN, fate_of, jobs_of, main, try_all

ROOT = Path(__file__).parent.parent
ONE = """
# of nobody
room halves
tests tests -k "half or not_there"

mutant rounding valor_gpu/half.py
= Halves are rounded
= up.
-    return x // 2
+    return (x + 1) // 2
"""


def mutant(name: str = "rounding", tests: str = "tests/test_half.py", old: str = "    return x // 2") -> Mutant:
    return Mutant(name, "halves", (tests,), Path("valor_gpu", "half.py"), "Why.", old, "    return (x + 1) // 2")


def git(root: Path, *arguments: str) -> None:
    known = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", str(root), *known, *arguments], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose tests at HEAD see more than those of the commit before."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # one of them is in the package of this name
    root = tmp_path / "project"
    for path, text in {
        "valor_gpu/__init__.py": "",
        "valor_gpu/half.py": "def half(x):\n    return x // 2\n",
        "valor_gpu/libvalor_cpu.so": "library",
        "valor_gpu/_build.json": "{}",
        ".gitignore": "*.so\n_build.json\n__pycache__\n",
        "testing/__init__.py": "",
        "tests/test_half.py": "from valor_gpu.half import half\n\ndef test_even():\n    assert half(4) == 2\n",
        "tests/test_wrong.py": "def test_wrong():\n    assert False\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    (root / "tests/test_odd.py").write_text(
        "from valor_gpu.half import half\n\ndef test_odd():\n    assert half(3) == 1\n"
    )
    git(root, "add", ".")
    git(root, "commit", "-qm", "two")
    return root


def test_every_mutant_can_be_made_and_has_tests() -> None:
    mutants = read_table(TABLE.read_text())
    for each in mutants:
        assert each.mutated((ROOT / each.path).read_text()).count(each.new) >= 1
        paths = [part for part in each.tests if Copy.is_path(part)]
        assert paths and all((ROOT / path).exists() for path in paths), each.name
    assert len(mutants) == 40
    assert sum(each.is_native for each in mutants) == 8


def test_the_design_note_has_a_row_for_each_mutant() -> None:
    page = (ROOT / mutant_page.PAGE).read_text()
    mutants = read_table(TABLE.read_text())
    assert mutant_page.filled(page, "before", {}, mutants) == page
    assert list(mutant_page.rows_of(page)) == [each.name for each in mutants]


def test_a_table_is_read() -> None:
    (one,) = read_table(ONE)
    assert one == Mutant(
        "rounding", "halves", ("tests", "-k", "half or not_there"), Path("valor_gpu/half.py"),
        "Halves are rounded up.", "    return x // 2", "    return (x + 1) // 2",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("room halves\n", "", r"line 3 must begin with room, tests, mutant, =, -, \+ or # in this order: 'tests"),
        ("mutant rounding valor_gpu/half.py", "mutant rounding", "line 6 must begin with .*'mutant rounding'"),
        ("= Halves are rounded\n= up.\n", "", "rounding must have a line that says what goes wrong"),
        ("+    return (x + 1) // 2", "+    return x // 2", "rounding must have .* different - and"),
        ("room", f"{ONE}room", "the name of each mutant must be its own but rounding comes twice"),
    ],
)
def test_a_table_that_is_not_written_so_is_an_error(old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_table(ONE.replace(old, new, 1))


@pytest.mark.parametrize(("source", "count"), [("    return x / 2\n", 0), ("    return x // 2\n" * 2, 2)])
def test_old_lines_must_stand_in_the_file_once(source: str, count: int) -> None:
    with pytest.raises(
        ValueError, match=rf"rounding: valor_gpu/half.py must .* once but has them {count} times:\n    re"
    ):
        mutant().mutated(source)


def test_whole_lines_are_compared() -> None:
    assert mutant(old="x = 1").mutated("x = 10\nx = 1\n") == "x = 10\n    return (x + 1) // 2\n"


def test_lives_of_mutants(project: Path) -> None:
    mutants = [mutant("dies", "tests/test_odd.py"), mutant("lives"), mutant("waits", "tests/test_wrong.py")]
    dies, lives, waits = try_all(mutants, project, None, 2, 60.0)
    assert (dies.outcome, dies.told) == (KILLED, "tests/test_odd.py::test_odd")
    assert (lives.outcome, lives.told) == (ALIVE, "")
    assert waits.outcome == NOT_RUN
    assert waits.told.startswith("without a mutant these tests must pass, tests/test_wrong.py, but ended with 1:\n")
    assert (project / "valor_gpu/half.py").read_text() == "def half(x):\n    return x // 2\n"


def test_tests_of_another_commit(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fate,) = try_all([mutant("dies", "tests/test_odd.py")], project, "HEAD~1", 1, 60.0)
    assert (fate.outcome, fate.told) == (ALIVE, "there are no tests")
    assert "not in these tests, and left out: tests/test_odd.py\n" in capsys.readouterr().out


def test_a_copy_is_as_before_after_each_mutant(project: Path, tmp_path: Path) -> None:
    copy = Copy.of(project, tmp_path / "copy")
    native = Mutant("n", "r", ("tests",), Path("csrc/core/a.h"), "Why.", "int a;", "int b;")
    assert native.is_native and not mutant().is_native
    (copy.folder / "csrc/core").mkdir(parents=True)
    (copy.folder / native.path).write_text("int a;\n")
    with copy.holding(native):
        assert (copy.folder / native.path).read_text() == "int b;\n"
        assert not copy.has_another_library()
        (copy.folder / "valor_gpu/libvalor_cpu.so").write_text("built")
        assert copy.has_another_library()
    assert (copy.folder / native.path).read_text() == "int a;\n"
    assert not copy.has_another_library()


def test_stale_bytecode_goes_with_a_mutant(project: Path, tmp_path: Path) -> None:
    copy = Copy.of(project, tmp_path / "copy")
    cached = copy.folder / "valor_gpu/__pycache__/half.cpython-311.pyc"
    cached.parent.mkdir()
    cached.write_text("")
    with copy.holding(mutant()):
        assert not cached.exists()
        cached.write_text("")
    assert not cached.exists()


def test_without_a_library_nothing_is_tried(project: Path, tmp_path: Path) -> None:
    (project / "valor_gpu/libvalor_cpu.so").unlink()
    with pytest.raises(ValueError, match=r"libvalor_cpu.so must be built but is not there: run make setup"):
        Copy.of(project, tmp_path / "copy")


@pytest.mark.parametrize(
    ("ended", "outcome", "told"),
    [
        (Ended(1, "1 failed\nFAILED tests/a.py::test_b[x - y] - assert 1\n", 1.0), KILLED, "tests/a.py::test_b[x"),
        (Ended(2, "ERROR tests/a.py\n", 1.0), KILLED, "tests/a.py"),
        (Ended(-11, "", 1.0), KILLED, "the process, by signal 11"),
        (Ended(0, "1 passed\n", 1.0), ALIVE, ""),
        (Ended(-9, "..", 60.1, "CPU"), AT_LIMIT, "at the limit of the CPU"),
        (Ended(1, "no summary", 1.0), NOT_RUN, "pytest ended with 1:\nno summary"),
        (Ended(5, "no tests ran", 1.0), NOT_RUN, "pytest ended with 5:\nno tests ran"),
    ],
)
def test_what_became_of_a_run(ended: Ended, outcome: str, told: str) -> None:
    fate = fate_of(mutant(), ended)
    assert (fate.outcome, fate.told, fate.cpu) == (outcome, told, ended.cpu)


def test_mutants_of_the_library_share_a_copy_and_others_a_run_without_mutants() -> None:
    native = [Mutant(name, "r", (name,), Path("csrc/cpu/a.h"), "", "a", "b") for name in "ab"]
    others = [mutant("c", "x"), mutant("d", "y"), mutant("e", "y")]
    names = [[[each.name for each in group] for group in job] for job in jobs_of([*others, *native])]
    assert names == [[["a"], ["b"]], [["d", "e"]], [["c"]]]


def bounded(program: str, cpu: float = 60.0, clock: float = 60.0) -> Ended:
    command = [sys.executable, "-c", program]
    return run_bounded(command, Path.cwd(), os.environ, cpu, clock, threading.Event())


def test_a_command_that_ends_by_itself() -> None:
    ended = bounded("import sys; print('out'); sys.exit(3)")
    assert (ended.status, ended.output, ended.limit) == (3, "out\n", "")
    assert ended.cpu > 0


def test_processes_of_a_session_of_their_own_count_and_end(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    program = "import subprocess, sys, time\n"
    program += "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True)\n"
    program += f"open({str(noted)!r}, 'w').write(str(child.pid))\ntime.sleep(600)"
    ended = bounded(program, cpu=1.0)
    assert (ended.status, ended.limit) == (-9, "CPU")
    wait_for(lambda: not is_alive(int(noted.read_text())))  # the system takes its time to end what was killed


def test_a_command_that_hangs_ends_by_the_clock() -> None:
    assert bounded("import time; time.sleep(600)", clock=0.5).limit == "clock"


def test_a_command_ends_when_it_is_told_to() -> None:
    stop = threading.Event()
    stop.set()
    ended = run_bounded([sys.executable, "-c", "import time; time.sleep(600)"], Path.cwd(), os.environ, 60, 60, stop)
    assert ended.limit == "stop"


def test_a_column_of_the_design_note_is_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, mutants = tmp_path / "page.md", [mutant("a"), mutant("b")]
    page.write_text(f"# Title\n\n{mutant_page.HEAD}\n\n## After\n")
    for column, outcomes in (("before", (KILLED, ALIVE)), ("after", (AT_LIMIT, KILLED))):
        fates = [{"name": name, "outcome": outcome} for name, outcome in zip("ab", outcomes)]
        (tmp_path / "fates.json").write_text(json.dumps({"mutants": fates}))
        status = mutant_page.fill(page, column, tmp_path / "fates.json", mutants)
        assert status == (column == "after")
    assert capsys.readouterr().out.endswith("2 outcomes after\nkilled before but not after: a\n")
    rows = "| `a` | `valor_gpu/half.py` | Why. | killed | alive at the limit |\n"
    rows += "| `b` | `valor_gpu/half.py` | Why. | alive | killed |\n"
    assert page.read_text() == f"# Title\n\n{mutant_page.HEAD}{rows}\n## After\n"
    with pytest.raises(
        ValueError, match="the column must be one of before, after, in a page with the table, but got 'b'"
    ):
        mutant_page.filled(page.read_text(), "b", {}, mutants)


def test_an_error_of_one_copy_ends_the_others(project: Path) -> None:
    gone = Mutant("gone", "r", ("tests/test_half.py",), Path("valor_gpu/none.py"), "Why.", "a", "b")
    with pytest.raises(FileNotFoundError, match=r"valor_gpu/none\.py"):
        try_all([gone, mutant("other", "tests/test_odd.py")], project, None, 2, 60.0)


def test_unknown_mutants_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "ter_tie", "no_such_mutant"])
    assert "--only must name mutants of mutants.txt but got no_such_mutant" in capsys.readouterr().err


def test_every_room_has_mutants() -> None:
    rooms = Counter(each.room for each in read_table(TABLE.read_text()))
    assert set(rooms) == {
        *("csrc/core", "csrc/cpu", "csrc/cuda", "ops", "inputs", "reduce", "classification", "detection"),
        *("segmentation", "coco", "valor", "text", "judge", "evaluation", "store", "web", "offline", "stats"),
        *("metric", "report", "result"),
    }
