"""``make peers``: how imports are replaced, what stands for a name, and when the comparison is red."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torchmetrics

from tools.peers import __main__ as command
from tools.peers import copies, names, plugin
from tools.peers.compare import Outcome, compare, lines_of
from tools.peers.table import TABLE, read_table

SOURCE = '''
from torchmetrics import Metric, Accuracy
from torchmetrics.classification.accuracy import (
    BinaryAccuracy,
)
    from torchmetrics.functional.text.wer import word_error_rate
from torchmetrics.metric import Metric
from torchmetrics.image import PeakSignalNoiseRatio
from torchmetrics_extra import thing
"""from torchmetrics in a text"""
'''

TEXT = """# words
## message: the text of an error differs
text/test_a.py::test_x[*] | AssertionError: Regex*
## dtype: float64, not float32
text/test_a.py::test_y[1-(2]] | RuntimeError: Double did not match Float
"""


def test_only_imports_of_metrics_are_replaced() -> None:
    source, modules = copies.rewritten(SOURCE)
    assert [line for line in source.splitlines() if "in_place" in line] == [
        "from in_place import Metric, Accuracy",
        "from in_place.classification.accuracy import (",
        "    from in_place.functional.text.wer import word_error_rate",
    ]
    assert source.count("torchmetrics") == SOURCE.count("torchmetrics") - 3
    assert modules == {"torchmetrics", "torchmetrics.classification.accuracy", "torchmetrics.functional.text.wer"}


@pytest.mark.parametrize("line", ["import torchmetrics", "import torchmetrics as tm", "import torchmetrics.text.wer"])
def test_an_import_that_would_test_torchmetrics_itself(line: str) -> None:
    with pytest.raises(ValueError, match=f"must have the form 'from torchmetrics ... import' but got '{line}"):
        copies.rewritten(f"import os\n{line}\n")
    assert copies.rewritten("import torchmetrics.utilities.data\n")[1] == set()


def small_checkout(folder: Path, release: str = "1.9.0", tests: str = "") -> Path:
    """A checkout with one file of tests."""
    about, room = folder / "src" / "torchmetrics", folder / "tests" / "unittests" / "text"
    about.mkdir(parents=True)
    room.mkdir(parents=True)
    (about / "__about__.py").write_text(f'__version__ = "{release}"\n')
    for place in (room, room.parent):
        (place / "__init__.py").touch()
    (room / "test_a.py").write_text(tests)
    return folder


def test_the_checkout_is_only_read(tmp_path: Path) -> None:
    checkout = small_checkout(tmp_path / "checkout", tests="from torchmetrics.text.wer import WordErrorRate\n")
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "old.py").touch()
    assert copies.copy_tests(checkout, tmp_path / "copy") == {"torchmetrics.text.wer"}
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "copy" / "old.py").exists()
    text = (tmp_path / "copy" / "unittests" / "text" / "test_a.py").read_text()
    assert text == "from in_place.text.wer import WordErrorRate\n"
    found = json.loads((tmp_path / "copy" / "_data" / "detection" / "instances_val2014_100.json").read_text())
    assert len(found["images"]) == 100


@pytest.mark.parametrize(
    ("module", "name", "place"),
    [
        ("torchmetrics.classification.accuracy", "BinaryAccuracy", "valor_gpu.classification"),
        ("torchmetrics.classification", "Accuracy", "valor_gpu.classification"),
        ("torchmetrics", "WordErrorRate", "valor_gpu.text"),
        ("torchmetrics.functional.text.wer", "word_error_rate", "valor_gpu.functional"),
        ("torchmetrics.functional.classification", "binary_accuracy", "valor_gpu.functional"),
        ("torchmetrics", "Metric", "torchmetrics"),
        ("torchmetrics", "SignalNoiseRatio", "torchmetrics"),
        ("torchmetrics.functional.text.wer", "_wer_update", "torchmetrics.functional.text.wer"),
        ("torchmetrics.functional.segmentation.utils", "mask_edges", "torchmetrics.functional.segmentation.utils"),
    ],
)
def test_what_stands_for_a_name(module: str, name: str, place: str) -> None:
    assert names.counterpart(module, name) is getattr(importlib.import_module(place), name)


def test_a_metric_that_is_missing_can_be_named_but_not_used() -> None:
    missing: Any = names.counterpart("torchmetrics.nominal", "CramersV")
    assert missing is names.counterpart("torchmetrics.nominal", "CramersV")
    assert missing.__name__ == "CramersV" and not hasattr(missing, "__wrapped__")
    for use in (missing, lambda: missing.higher_is_better):
        with pytest.raises(names.MissingName, match="valor_gpu has no CramersV"):
            use()
    with pytest.raises(AttributeError, match="no_such_name"):
        names.counterpart("torchmetrics.classification", "no_such_name")


def test_rows_take_stars_and_nothing_else() -> None:
    first, second = read_table(TEXT).rows
    assert (first.reason, second.reason, second.line) == ("message", "dtype", 5)
    assert first.explains("text/test_a.py::test_x[1-2]", "AssertionError: Regex pattern did not match.")
    assert not first.explains("text/test_a.py::test_x[1-2]", "AssertionError: 1 != 2")
    assert not first.covers("text/test_a_py::test_x[1-2]") and not first.covers("more/text/test_a.py::test_x[1]")
    assert second.covers("text/test_a.py::test_y[1-(2]]") and not second.covers("text/test_a.py::test_y[1-(2]] ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a | b", "line 1 must be 'tests | cause' below a '## name: reason' but got 'a | b'"),
        ("## a: b\nno bar", "line 2 must be 'tests | cause' below a '## name: reason' but got 'no bar'"),
        ("## a: b\n## a: c", "line 2: the reason 'a' must have one heading but got a second"),
    ],
)
def test_a_table_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        read_table(text)


def test_the_table_has_no_row_that_another_hides() -> None:
    table = read_table(TABLE.read_text(encoding="utf-8"))
    assert {row.reason for row in table.rows} == {*table.reasons}, "a reason has no row"
    for row in table.rows:
        assert table.row_of(row.tests, row.cause) is row


X, Y, Z = (f"text/test_a.py::test_{name}" for name in ("x[1]", "y[1-(2]]", "z"))
REGEX, DOUBLE = "AssertionError: Regex", "RuntimeError: Double did not match Float"


def test_outcomes_are_sorted() -> None:
    outcomes = [
        Outcome(X, "failed", REGEX),
        Outcome(Y, "failed", DOUBLE),
        Outcome(Z, "passed", ""),
        Outcome("text/test_a.py::test_s", "skipped", "Skipped: needs a GPU"),
        Outcome("text/test_b.py", "not collected", "ModuleNotFoundError: No module named 'jiwer.measures'"),
        Outcome("text/test_a.py::test_m", "failed", "ModuleNotFoundError: No module named 'jiwer'"),
    ]
    found = compare(outcomes, read_table(TEXT), whole=True)
    assert found.is_as_expected and (found.passed, found.expected) == (1, {"message": 1, "dtype": 1})
    assert found.skipped == {"needs a GPU": 1}
    assert found.packages == {"jiwer": ["text/test_b.py", "text/test_a.py::test_m"]}
    lines = list(lines_of(found, read_table(TEXT)))
    assert "      2  jiwer: text/test_a.py, text/test_b.py" in lines
    assert "      1  dtype: float64, not float32" in lines


@pytest.mark.parametrize(
    ("test", "outcome", "cause"),
    [
        (Z, "failed", REGEX),  # another test
        (X, "failed", DOUBLE),  # another error
        ("text/test_a.py", "not collected", "ModuleNotFoundError: No module named 'valor_gpu.texts'"),
    ],
)
def test_an_unexpected_failure(test: str, outcome: str, cause: str) -> None:
    found = compare([Outcome(test, outcome, cause)], read_table(TEXT), whole=False)
    assert [each.test for each in found.unexpected] == [test] and not found.is_as_expected
    assert list(lines_of(found, read_table(TEXT)))[-1] == f"  {test} | {cause}"


def test_a_difference_that_is_none_any_more() -> None:
    table = read_table(TEXT)
    passed = [Outcome(test, "passed", "") for test in (X, Y)]
    assert [row.reason for row in compare(passed, table, whole=True).stale] == ["message", "dtype"]
    # the other tests of a row with a star may not have been drawn
    assert [row.reason for row in compare(passed, table, whole=False).stale] == ["dtype"]
    assert not compare(passed, table, whole=False).is_as_expected
    assert compare([Outcome("bases/test_b.py::test", "passed", "")], table, whole=True).is_as_expected
    assert [row.line for row in compare([Outcome(Z, "passed", "")], table, whole=True).stale] == [3, 5]


def test_a_sample_is_drawn_by_the_id() -> None:
    ids = [f"test_a.py::test[{n}]" for n in range(2000)]
    tenth, third = ({each for each in ids if plugin.is_drawn(each, share)} for share in (0.1, 0.3))
    assert 140 < len(tenth) < 260 and tenth < third
    assert all(plugin.is_drawn(each, 1.0) for each in ids)


def test_causes_are_a_line() -> None:
    assert plugin.cause_of(ValueError("\n a must be b \nbut is c")) == "ValueError: a must be b"
    assert plugin.cause_of(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("given", "release", "message"),
    [
        (False, "1.9.0", "TORCHMETRICS must be a checkout of torchmetrics 1.9.0 but none was given: git clone"),
        (True, None, "TORCHMETRICS must be a checkout of torchmetrics 1.9.0 but .* is none: git clone"),
        (True, "1.8.2", "the checkout must be torchmetrics 1.9.0, which the table is about, but is 1.8.2"),
    ],
)
def test_without_the_right_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: bool, release: str | None, message: str
) -> None:
    if release:
        small_checkout(tmp_path / "checkout", release)
    assert command.main([str(tmp_path / "checkout")] if given else []) == 2
    with pytest.raises(command.CannotRun, match=message):
        command.checked_checkout(str(tmp_path / "checkout") if given else None)
    assert capsys.readouterr().out.startswith(("TORCHMETRICS must", "the checkout must"))


@pytest.mark.parametrize("text", ["0", "1.5"])
def test_a_share_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["checkout", "--sample", text])
    assert f"must be above 0 and at most 1 but got {text}" in capsys.readouterr().err


TESTS = """
import pytest
from torchmetrics.functional.nominal import cramers_v
from torchmetrics.functional.text import word_error_rate
from torchmetrics.text.wer import WordErrorRate


def test_same():
    assert WordErrorRate.__module__.startswith("valor_gpu")
    assert word_error_rate(["a b"], ["a c"]) == 0.5


def test_absent():
    cramers_v(["a"], ["a"])


@pytest.mark.DDP
def test_pool():
    raise AssertionError("not to be run")


def test_skipped():
    pytest.skip("needs a GPU")
"""


def two_files(folder: Path) -> str:
    """A checkout with tests, and with a file that needs a package which nobody has."""
    checkout = small_checkout(folder / "checkout", tests=TESTS)
    (checkout / "tests" / "unittests" / "text" / "test_b.py").write_text("import no_such_package\n")
    return str(checkout)


def test_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    checkout = two_files(tmp_path)
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")  # as where this test itself runs in such a process
    outcomes = command.run(Path(checkout), tmp_path / "build", ["text"], 1.0, 1)
    assert sorted(outcomes) == [
        ("text/test_a.py::test_absent", "failed", "MissingName: valor_gpu has no cramers_v"),
        ("text/test_a.py::test_same", "passed", ""),
        ("text/test_a.py::test_skipped", "skipped", "Skipped: needs a GPU"),
        ("text/test_b.py", "not collected", "ModuleNotFoundError: No module named 'no_such_package'"),
    ]
    table = tmp_path / "table.txt"
    table.write_text("## absent: not there\ntext/test_a.py::test_absent | MissingName: *cramers_v\n")
    monkeypatch.setattr(command, "TABLE", table)
    monkeypatch.setattr(command, "checked_checkout", Path)
    monkeypatch.setattr(command, "run", lambda *_: outcomes)
    assert command.main([checkout, "--suites", "text"]) == 0
    assert "passed: 1\n" in (said := capsys.readouterr().out) and "      1  absent: not there\n" in said
    table.write_text("")
    assert command.main([checkout, "--suites", "text"]) == 1
    assert capsys.readouterr().out.endswith("test_absent | MissingName: valor_gpu has no cramers_v\n")


@pytest.mark.slow
def test_a_run_in_two_processes(tmp_path: Path) -> None:
    if torchmetrics.__version__ != command.RELEASE:
        pytest.skip(f"the installed torchmetrics is not {command.RELEASE}")
    options = ["--suites", "text", "--jobs", "2", "--folder", str(tmp_path / "build")]
    done = subprocess.run(
        [sys.executable, "-m", "tools.peers", two_files(tmp_path), *options],
        cwd=command.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr  # the function that is missing is not in the table
    for line in (
        "passed: 1",
        "  no_such_package: text/test_b.py",
        "test_absent | MissingName: valor_gpu has no cramers_v",
    ):
        assert f"{line}\n" in done.stdout
