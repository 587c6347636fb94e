"""The pages of metrics have every name, argument and example of the package; git has their index."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType

import pytest
import torch

from tests.checkout import ROOT
from tools import api_docstrings, docs_site, make_docs, metric_names, metric_pages
from tools.docstrings import arguments, plain, sections
from valor_gpu import Metric, Result, classification, detection, functional, options, retrieval, segmentation, text
from valor_gpu.text import judged

PACKAGES = (classification, detection, retrieval, segmentation, text)
CLASSES = [each for kinds in metric_pages.groups().values() for each in kinds]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages, of which git has only the index."""
    return metric_pages.pages()


def test_a_folder_gets_what_only_the_site_has(tmp_path: Path, made: dict[str, str]) -> None:
    assert make_docs.main([str(tmp_path)]) == 0
    assert {path.stem: path.read_text() for path in (tmp_path / "metrics").glob("*.md")} == made
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert modules["docstrings"] == api_docstrings.found(ROOT / "docs/api")
    assert modules["names"] == api_docstrings.names(ROOT / "docs/api")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics", "modules.json"]


@pytest.mark.parametrize("arguments", [["--chekc"], ["a", "b"]])
def test_other_arguments_write_nothing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert make_docs.main(arguments) == 2
    assert "Usage: python tools/make_docs.py [--check | FOLDER]" in capsys.readouterr().err


def task_of(name: str) -> str:
    """The name of the metric whose class or function of one task has this name."""
    return re.sub("^(Binary|Multiclass|Multilabel|binary_|multiclass_|multilabel_)", "", name)


def test_the_index_has_every_page_and_every_metric_once(made: dict[str, str]) -> None:
    entries = docs_site.index_entries(ROOT / "docs")
    anchors = [entry.anchor for entry in entries]
    assert len(set(anchors)) == len(anchors)
    assert {entry.page for entry in entries if entry.page} == {f"metrics/{name}.md" for name in made}
    assert {entry.anchor for entry in entries if entry.page is None} == set(judged.METRICS)
    public = {name for package in PACKAGES for name in metric_names.public_metrics(package)}
    titles = {entry.title for entry in entries}
    assert len(public) > 150
    assert [name for name in public if name not in titles and task_of(name) not in titles] == []


def test_an_entry_leads_to_the_file_that_defines_it() -> None:
    index = (ROOT / "docs" / docs_site.INDEX).read_text()
    found = re.findall(r'<a id="([\w.]+)"></a>\[(\w+)\]\(\.\./\.\./([\w/]+\.py)\)', index)
    defined = {name for name, title, file in found if f"class {title}" in (ROOT / file).read_text()}
    assert {name for name, _, _ in found} - defined == {"text", "mask", "ops"}


def test_every_name_of_a_metric_is_on_one_page(made: dict[str, str]) -> None:
    headings = [heading for page in made.values() for heading in re.findall(r"^#{1,3} (\w+)$", page, re.MULTILINE)]
    classes = {name for package in PACKAGES for name in metric_names.public_metrics(package)}
    assert {name: headings.count(name) for name in classes} == {name: 1 + (name == "ExactMatch") for name in classes}
    imported = [
        name for page in made.values() for name in re.findall(r"`from valor_gpu.functional import (\w+)`", page)
    ]
    assert sorted(imported) == sorted(name for name in functional.__all__ if callable(getattr(functional, name)))


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("Accuracy", ["BinaryAccuracy", "MulticlassAccuracy", "MultilabelAccuracy", "accuracy", "binary_accuracy",
                      "multiclass_accuracy", "multilabel_accuracy"]),
        ("classification.ExactMatch", ["MulticlassExactMatch", "MultilabelExactMatch", "exact_match",
                                       "multiclass_exact_match", "multilabel_exact_match"]),
        ("ExactMatch", []),
        ("MultilabelRankingLoss", ["multilabel_ranking_loss"]),
        ("WordInfoLost", ["word_information_lost"]),
        ("MeanAveragePrecision", ["mean_average_precision"]),
    ],
)  # fmt: skip
def test_classes_of_one_task_and_functions_are_below_their_metric(
    page: str, names: list[str], made: dict[str, str]
) -> None:
    assert re.findall(r"^### (\w+)$", made[page], re.MULTILINE) == names


def test_the_page_of_a_class_names_its_other_package(made: dict[str, str]) -> None:
    assert "The same class: `from valor_gpu.detection import PanopticQuality`" in made["PanopticQuality"]


_POINT = frozenset({"average", "limit"})
_LOSS, _CHOSEN = frozenset({"bins", "config"}), frozenset({"average", "choices"})
FIXED = {"BalancedAccuracy": {"average", "zero_division"}, "CohenKappa": {"num_labels"}, "mROCAUC": {"average"},
         "StatScores": {"zero_division"}, "PrecisionAtFixedRecall": _POINT, "RecallAtFixedPrecision": _POINT,
         "SensitivityAtSpecificity": _POINT, "SpecificityAtSensitivity": _POINT,
         "OperatingPoint": _CHOSEN, "ExpectedCost": _CHOSEN, "CostCurve": {"average"},
         **dict.fromkeys(("AURC", "EAURC", "RiskAtCoverage", "CoverageAtRisk"), frozenset({"choices"})),
         **dict.fromkeys(("BrierScore", "BrierSkillScore", "NegativeLogLikelihood"), _LOSS)}  # fmt: skip
"""Arguments of a base class that a metric leaves no choice of."""


def taken(function: Callable[..., object]) -> set[str]:
    """Arguments of a function, with those of the TypedDict that its keyword arguments are."""
    parameters = inspect.signature(function).parameters
    found = set(parameters) - {"self"}
    for each in parameters.values():
        if named := re.fullmatch(r"(?:\w+\.)*Unpack\[(\w+)\]", str(each.annotation)):
            own = set(getattr(options, named[1]).__annotations__)
            found |= own - set(options.MetricOptions.__annotations__)
    return found


def accepted(kind: type) -> set[str]:
    """Arguments of the constructor, with those of the base class to which it hands on its keyword arguments."""
    if "__signature__" in vars(kind):
        return taken(kind)
    constructors = [vars(owner)["__init__"] for owner in kind.__mro__ if "__init__" in vars(owner)]
    listed = [taken(each) for each in constructors]
    return set().union(listed[0], *(names for names in listed if "num_classes" in names))


def documented(doc: str) -> set[str]:
    """The arguments that a docstring describes; of a frozen class they are its attributes."""
    parts = dict(sections(inspect.cleandoc(doc)))
    return apart(arguments(parts.get("Args", parts.get("Attributes", []))))


def apart(entries: Iterable[str]) -> set[str]:
    """``first, second`` and ``*rest`` as names."""
    return {name for entry in entries for name in entry.replace("*", "").split(", ")}


def listed(page: str) -> set[str]:
    """The names in the lists of a page."""
    return apart(re.findall(r"^- `([\w*, ]+)`: ", page, re.MULTILINE))


@pytest.mark.parametrize(("kind", "home"), CLASSES, ids=lambda each: getattr(each, "__name__", each))
def test_every_argument_is_described_on_the_page(kind: type, home: str, made: dict[str, str]) -> None:
    if kind is not Result:
        described = documented(kind.__doc__ or "")
        assert described == accepted(kind) - FIXED.get(kind.__name__, set())
        assert described <= listed(made[metric_pages.page_name(kind, home)])


@pytest.mark.parametrize(("kind", "home"), CLASSES, ids=lambda each: getattr(each, "__name__", each))
def test_arguments_of_classes_of_one_task_and_of_functions_are_on_the_page(
    kind: type, home: str, made: dict[str, str]
) -> None:
    if kind is Metric or not issubclass(kind, Metric):
        return
    package, shown = importlib.import_module(home), listed(made[metric_pages.page_name(kind, home)])
    for each in (*metric_names.task_classes(kind, package), *metric_names.functions_of(kind, package)):
        assert documented(each.__doc__ or "") <= shown, each


def methods(kind: type) -> Iterator[tuple[str, str]]:
    """(name, docstring) of methods and properties of a class itself, or that a metric has beside ``Metric``."""
    for name in dir(kind):
        owner = next(each for each in kind.__mro__ if name in vars(each))
        own = owner not in Metric.__mro__ if issubclass(kind, Metric) and kind is not Metric else owner is kind
        if own and not name.startswith("_") and isinstance(vars(owner)[name], (FunctionType, classmethod, property)):
            yield name, getattr(vars(owner)[name], "__doc__", None) or ""


@pytest.mark.parametrize(("kind", "home"), CLASSES, ids=lambda each: getattr(each, "__name__", each))
def test_every_method_is_on_the_page_with_its_docstring(kind: type, home: str, made: dict[str, str]) -> None:
    parts = re.split(r"^## (\w+)$", made[metric_pages.page_name(kind, home)], flags=re.MULTILINE)
    shown = dict(zip(parts[1::2], parts[2::2]))
    written = {name: doc for name, doc in methods(kind) if doc}
    assert set(written) <= set(shown)
    for name, doc in written.items():
        assert plain(inspect.cleandoc(doc).splitlines()[0]) in shown[name], name


def examples(doc: str) -> list[tuple[str, str]]:
    """(statement, output) of every example."""
    return [(each.source, each.want) for each in doctest.DocTestParser().get_examples(doc)]


def docstrings(kind: type, home: str) -> Iterator[str]:
    """Those that the page of a class shows, in its order."""
    yield kind.__doc__ or ""
    yield from (doc for _, _, doc in metric_pages.members(kind))
    if kind is not Metric and issubclass(kind, Metric):
        package = importlib.import_module(home)
        related = [*metric_names.task_classes(kind, package), *metric_names.functions_of(kind, package)]
        yield from (each.__doc__ or "" for each in related)


def test_examples_of_pages_are_those_of_docstrings(made: dict[str, str]) -> None:
    count = 0
    for kind, home in CLASSES:
        name = metric_pages.page_name(kind, home)
        shown = [each for block in re.findall(r"^```python\n(>>>.*?)^```", made[name], re.DOTALL | re.MULTILINE)
                 for each in examples(block)]  # fmt: skip
        written = [each for doc in docstrings(kind, home) for each in examples(inspect.cleandoc(doc))]
        assert shown == written, name
        count += len(shown)
    assert count > 300


def test_formulas_are_of_pages_and_can_be_set(made: dict[str, str]) -> None:
    found = metric_pages.formulas()
    assert len(found) > 40 and set(found) <= set(made)
    for name, formula in found.items():
        assert re.fullmatch(r"\$\$\n[^$]+\n\$\$(\n\n[^\n]+)?", formula)
        assert formula.count("{") == formula.count("}") and formula.count(r"\left") == formula.count(r"\right")
        assert formula in made[name]


@pytest.mark.parametrize(
    "name", ["Precision", "Recall", "F1Score", "JaccardIndex", "NegativePredictiveValue", "Specificity"]
)
def test_formulas_of_counts_give_the_value(name: str) -> None:
    metric = getattr(classification, name)()
    metric.update(torch.tensor([1] * 10 + [0] * 10), torch.tensor([1] * 7 + [0] * 3 + [1] * 2 + [0] * 8))
    [(above, below)] = re.findall(r"^\\frac\{(.*)\}\{(.*)\}$", metric_pages.formulas()[name], re.MULTILINE)
    fraction = f"({above}) / ({below})".replace(r"\,", " *")
    counts = {"tp": 7, "fp": 3, "fn": 2, "tn": 8}
    assert eval(re.sub(r"\\mathrm\{(\w+)\}", r"\1", fraction), counts) == metric.result().values[name]
