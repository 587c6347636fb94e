"""docs/valor.md: its examples print what it shows, and its table of differences is that of the cases."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.valor import test_cases, test_detection_cases

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "valor.md").read_text()


def test_examples_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    shown = ""
    for language, code in re.findall(r"```(python|text)\n(.*?)```", PAGE, re.DOTALL):
        if language == "text":
            assert shown == code
            shown = ""
            continue
        assert shown == ""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/valor.md", "exec"), names)
        shown = printed.getvalue()
    assert shown == ""


def test_the_program_prints_and_draws_what_the_page_shows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    [shown] = re.findall(r"```console\n\$ python (?:.*)\n([^`]*)```", PAGE)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(ROOT / "examples" / "valor_detection.py"))["main"](str(tmp_path / "new"))
    assert printed.getvalue() == shown
    pictures = re.findall(r"!\[.+?\]\(images/(.+?)\)", PAGE)
    assert sorted(pictures) == sorted(path.name for path in (tmp_path / "new").iterdir())
    for name in pictures:
        assert (ROOT / "docs" / "images" / name).stat().st_size < 100_000
        assert len(np.unique(np.asarray(Image.open(tmp_path / "new" / name).convert("L")))) > 50


def test_differences_are_listed() -> None:
    table = PAGE.split("### Differences that remain")[1].split("Beside numbers")[0]
    listed = {tuple(re.split(r" *\| *", line)[1:3]) for line in table.splitlines() if line.startswith("| ")}
    listed -= {("dataset", "release"), ("---", "---")}
    known = {*test_cases.DIFFERENCES, *test_cases.ONLY_OURS_RAISES, *test_cases.ONLY_THEIRS_RAISES}
    assert listed == known


def test_differences_of_detections_are_listed() -> None:
    table = PAGE.split("with the preset of their program but for these:")[1].split("###")[0]
    listed = {tuple(re.split(r" *\| *", line)[1:3]) for line in table.splitlines() if line.startswith("| ")}
    known = {*test_detection_cases.DIFFERENCES, *test_detection_cases.ONLY_THEIRS_RAISES}
    assert listed - {("case", "program"), ("---", "---")} == known
    recorded = (test_detection_cases.EDGE, test_detection_cases.CORE, test_detection_cases.LITE)
    edge, core, lite = (len(contents["cases"]) for contents in recorded)
    assert f"{edge} scenes and {core} tests of valor_core evaluated by these programs and {lite} calls" in PAGE


def test_numbers_of_datasets() -> None:
    edge, core, lite = (len(contents["cases"]) for contents in (test_cases.EDGE, test_cases.CORE, test_cases.LITE))
    assert f"in {edge} datasets and in {core + lite} cases" in PAGE
