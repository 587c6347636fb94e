"""The docs say what the code does."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import runpy
from pathlib import Path

import pytest
import torch

from tools import make_docs
from valor_gpu import Result, classification

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def test_pages_made_from_docstrings_are_up_to_date() -> None:
    assert make_docs.stale(ROOT) == [], "run tools/make_docs.py"


def test_a_changed_page_and_a_page_that_nothing_makes_are_found(tmp_path: Path) -> None:
    for name, text in make_docs.pages().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert make_docs.stale(tmp_path) == []
    (tmp_path / "docs/cli.md").write_text("old")
    (tmp_path / "docs/metrics/Gone.md").write_text("left over")
    assert make_docs.stale(tmp_path) == ["docs/metrics/Gone.md", "docs/cli.md"]


_POINT = frozenset({"average", "limit"})
FIXED = {"BalancedAccuracy": {"average", "zero_division"}, "CohenKappa": {"num_labels"}, "mROCAUC": {"average"},
         "StatScores": {"zero_division"}, "PrecisionAtFixedRecall": _POINT, "RecallAtFixedPrecision": _POINT,
         "SensitivityAtSpecificity": _POINT, "SpecificityAtSensitivity": _POINT}  # fmt: skip
"""Arguments of a base class that a metric leaves no choice of."""


def accepted(kind: type) -> set[str]:
    """Arguments of the constructor, with those of the base class to which it hands on its keyword arguments."""
    if "__signature__" in vars(kind):
        return set(inspect.signature(kind).parameters)
    constructors = [vars(owner)["__init__"] for owner in kind.__mro__ if "__init__" in vars(owner)]
    listed = [set(inspect.signature(constructor).parameters) for constructor in constructors]
    return set().union(listed[0], *(names for names in listed if "num_classes" in names)) - {"self"}


@pytest.mark.parametrize(
    "kind",
    [kind for kinds in make_docs.groups().values() for kind, _ in kinds if kind is not Result],
    ids=lambda kind: kind.__name__,
)
def test_every_argument_of_a_constructor_is_documented(kind: type) -> None:
    sections = dict(make_docs.sections(inspect.cleandoc(kind.__doc__ or "")))
    arguments = sections["Args" if "Args" in sections else "Attributes"]  # of frozen classes they are the same
    documented = set(re.findall(r"^    (\w+):", "\n".join(arguments), re.MULTILINE))
    assert documented == accepted(kind) - FIXED.get(kind.__name__, set())


def test_formulas_are_of_pages_and_can_be_set() -> None:
    found = make_docs.formulas()
    pages = {Path(name).stem for name in make_docs.pages()}
    assert len(found) > 40 and set(found) <= pages
    for text in found.values():
        assert re.fullmatch(r"\$\$\n[^$]+\n\$\$(\n\n[^\n]+)?", text)
        assert text.count("{") == text.count("}") and text.count(r"\left") == text.count(r"\right")


@pytest.mark.parametrize(
    "name", ["Precision", "Recall", "F1Score", "JaccardIndex", "NegativePredictiveValue", "Specificity"]
)
def test_formulas_of_counts_give_the_value(name: str) -> None:
    metric = getattr(classification, name)()
    metric.update(torch.tensor([1] * 10 + [0] * 10), torch.tensor([1] * 7 + [0] * 3 + [1] * 2 + [0] * 8))
    [(above, below)] = re.findall(r"^\\frac\{(.*)\}\{(.*)\}$", make_docs.formulas()[name], re.MULTILINE)
    fraction = f"({above}) / ({below})".replace(r"\,", " *")
    counts = {"tp": 7, "fp": 3, "fn": 2, "tn": 8}
    assert eval(re.sub(r"\\mathrm\{(\w+)\}", r"\1", fraction), counts) == metric.result().values[name]


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
    files = [file for name in named if "NNN" not in name for file in alternatives(name)]
    assert files
    assert [file for file in files if not found(file)] == []


def found(file: str) -> bool:
    """Whether there is such a file: from the root, from the package or csrc, or anywhere if it is a bare name."""
    folders = [ROOT / "valor_gpu", ROOT / "csrc", ROOT / "tests"]
    if any(next(folder.glob(file), None) for folder in (ROOT, *folders)):
        return True
    return "/" not in file and any(next(folder.rglob(file), None) for folder in folders)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


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
