"""The docs say what the code does."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

from tests import recipes
from tools import make_docs

ROOT = Path(__file__).parent.parent


def test_pages_made_from_docstrings_are_up_to_date() -> None:
    assert make_docs.stale(ROOT) == [], "run tools/make_docs.py"


def test_a_changed_page_and_a_page_that_nothing_makes_are_found(tmp_path: Path) -> None:
    make_docs.write(tmp_path, make_docs.committed())
    assert make_docs.stale(tmp_path) == []
    (tmp_path / "docs/cli.md").write_text("old")
    (tmp_path / "docs/metrics/Gone.md").write_text("left over")
    assert make_docs.stale(tmp_path) == ["docs/metrics/Gone.md", "docs/cli.md"]


def alternatives(name: str) -> list[str]:
    """The names that braces stand for, as in a shell: ``a.{h,cpp}``."""
    if (braces := re.search(r"\{([^{}]*)\}", name)) is None:
        return [name]
    parts = braces[1].split(",")
    return [each for part in parts for each in alternatives(name[: braces.start()] + part + name[braces.end() :])]


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/design/*.md"))], ids=lambda p: p.name
)
def test_files_that_a_page_for_developers_names_are_there(page: Path) -> None:
    named = re.findall(r"`([\w./*{},-]+\.(?:py|h|cpp|cu|md|\{[\w,]+\}))`", page.read_text())
    made = recipes.code("Add an op")
    files = [file for name in named if "NNN" not in name for file in alternatives(name) if file not in made]
    assert files
    assert [file for file in files if not found(file)] == []


def found(file: str) -> bool:
    """Whether there is such a file: from the root, from the package or csrc, or anywhere if it is a bare name."""
    folders = [ROOT / "valor_gpu", ROOT / "csrc", ROOT / "tests"]
    if any(next(folder.glob(file), None) for folder in (ROOT, *folders)):
        return True
    return "/" not in file and any(next(folder.rglob(file), None) for folder in folders)


def test_the_example_gives_the_numbers_of_pycocotools() -> None:
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    cocoeval = pytest.importorskip("pycocotools.cocoeval", reason="pycocotools is not installed")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        runpy.run_path(str(ROOT / "examples/training_loop.py"), run_name="__main__")
    data = ROOT / "examples" / "data"
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO(str(data / "instances_val2014_100.json"))
        found = truth.loadRes(str(data / "instances_val2014_fakebbox100_results.json"))
        evaluator = cocoeval.COCOeval(truth, found, "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    lines = [line.split()[1] for line in shown.getvalue().splitlines()[:12]]
    assert lines == [f"{value:.4f}" for value in evaluator.stats]
