"""The site of the documentation: every page has a place, links lead to headings, and examples of guides run."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import re
import shlex
import shutil
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import valor_gpu
from tests.checkout import ROOT
from tools import api_docstrings, docs_site
from valor_gpu import cli

DOCS = ROOT / "docs"
GUIDES = [DOCS / "index.md", *sorted((DOCS / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


def pages(root: Path) -> set[str]:
    """Those in git, and those of metrics."""
    found = {str(page.relative_to(root / "docs")) for page in (root / "docs").rglob("*.md")}
    made = {entry.page for entry in docs_site.index_entries(root / "docs") if entry.page}
    return {page for page in found if not page.startswith("assets/")} | made | set(docs_site.OUTSIDE)


def navigation(root: Path = ROOT) -> list[str]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(
        docs_site.pages_of(docs_site.expanded(yaml.safe_load((root / "mkdocs.yml").read_text())["nav"], root / "docs"))
    )


def test_the_navigation_names_every_page_once() -> None:
    named = Counter(navigation())
    assert pages(ROOT) - set(named) == set(), "pages that mkdocs.yml or an index does not name"
    assert set(named) - pages(ROOT) == set(), "names without a page"
    assert [page for page, times in named.items() if times > 1] == []


INDEX = """# Metrics

## Group

- <a id="A"></a>[A](../../valor_gpu/a.py): first
- <a id="x.A"></a>[A](../../valor_gpu/x/a.py): second

## Judged

- <a id="B"></a>[B](../judged.md): third
"""


def test_entries_of_the_index_and_their_pages(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics/README.md").write_text(INDEX)
    assert docs_site.index_entries(tmp_path) == [
        ("Group", "A", "A", "metrics/A.md"),
        ("Group", "x.A", "A", "metrics/x.A.md"),
        ("Judged", "B", "B", None),
    ]
    assert docs_site.metric_pages(tmp_path) == [
        "metrics/README.md",
        {"Group": [{"A": "metrics/A.md"}, {"A": "metrics/x.A.md"}]},
    ]


def test_the_index_of_the_site_leads_to_pages() -> None:
    shown = docs_site.with_links_of_the_site(
        (DOCS / docs_site.INDEX).read_text(), "docs/metrics/README.md", docs_site.INDEX
    )
    links = re.findall(r'<a id="([\w.]+)"></a>\[\w+\]\(([^)]+)\)', shown)
    made = docs_site.pages_by_anchor()
    assert {anchor: link for anchor, link in links if anchor in made} == {anchor: f"{anchor}.md" for anchor in made}
    assert {link for anchor, link in links if anchor not in made} == {"../judged.md"}
    assert "valor_gpu/" not in shown


def test_a_page_that_was_not_made_ends_the_build(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"metrics/\w+\.md must be there but is not, and \d+ others: run make docs"
    ):
        docs_site.made_pages(tmp_path)
    for page in docs_site.pages_by_anchor().values():
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text("")
    assert len(docs_site.made_pages(tmp_path)) > 90


def test_a_page_that_nothing_names_is_found(tmp_path: Path) -> None:
    for name in ("metrics", "design"):
        (tmp_path / "docs" / name).mkdir(parents=True)
    (tmp_path / "docs/metrics/README.md").write_text(INDEX)
    (tmp_path / "docs/design/001-x.md").write_text("# Why `x`\n")
    (tmp_path / "docs/stray.md").write_text("# Stray\n")
    (tmp_path / "mkdocs.yml").write_text("nav: [{Metrics: metrics/}, {Design: design/}]\n")
    assert navigation(tmp_path) == ["metrics/README.md", "metrics/A.md", "metrics/x.A.md", "design/001-x.md"]
    assert docs_site.folder_pages(tmp_path / "docs", "design") == [{"Why x": "design/001-x.md"}]
    assert "stray.md" in pages(tmp_path) - set(navigation(tmp_path))


@pytest.mark.parametrize(
    ("page", "own", "text", "wanted"),
    [
        ("docs/metrics/A.md", "metrics/A.md", "[a](../cli.md#x)", "[a](../cli.md#x)"),
        ("CHANGELOG.md", "CHANGELOG.md", "[a](docs/metrics/README.md#AP)", "[a](metrics/AP.md)"),
        ("docs/guides/x.md", "guides/x.md", "[a](../metrics/README.md#text)", "[a](../metrics/text.md)"),
        ("docs/x.md", "x.md", "[a](metrics/README.md#Bias)", "[a](metrics/README.md#Bias)"),
        ("docs/x.md", "x.md", "[a](metrics/README.md)", "[a](metrics/README.md)"),
        ("docs/valor.md", "valor.md", "[a](../README.md)", "[a](source/README.md)"),
        ("docs/valor.md", "valor.md", "[a](../CHANGELOG.md)", "[a](CHANGELOG.md)"),
        ("docs/valor.md", "valor.md", "[results](../benchmarks/results)", "results"),
        ("docs/valor.md", "valor.md", "[a](../nowhere.md)", "[a](../nowhere.md)"),
        ("docs/valor.md", "valor.md", "```python\n[a](../README.md)\n```", "```python\n[a](../README.md)\n```"),
    ],
)
def test_links_of_the_checkout_lead_to_their_places_in_the_site(page: str, own: str, text: str, wanted: str) -> None:
    assert docs_site.with_links_of_the_site(text, page, own) == wanted


def test_the_tools_are_pinned() -> None:
    wanted = docs_site.requirements((ROOT / "pyproject.toml").read_text())
    assert {each.split("==")[0] for each in wanted} >= {"mkdocs", "mkdocs-material", "mkdocstrings-python"}
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", each) for each in wanted)


def steady(text: str) -> str:
    """Without what differs from run to run, or release to release: seconds, the version in a signature."""
    return re.sub(r"version:[\d.]+", "version:", re.sub(r"\bt=[\d.]+s", "t=0.00s", text))


class Module(torch.nn.Module):
    """The interface of a LightningModule that the guides use."""

    def log_dict(self, numbers: dict[str, float]) -> None:
        self.logged = numbers

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return scores


def check_module(names: dict[str, Any]) -> None:
    model = names["Model"]()
    model.validation_step((torch.eye(3), torch.tensor([0, 1, 1])), 0)
    model.on_validation_epoch_end()
    assert model.logged == {"val/Accuracy": 2 / 3} and model.accuracy.update_count == 0


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_code_of_a_guide_runs_and_gives_the_output_below_it(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.stem == "new_kernel" and shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "lightning", types.SimpleNamespace(LightningModule=Module))
    blocks = BLOCK.findall(page.read_text())
    assert blocks, "a guide without an example"
    names: dict[str, Any] = {"__name__": page.stem}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
        assert steady(printed.getvalue()) == steady(shown)
    if "Model" in names:
        check_module(names)


def test_every_public_module_has_a_page() -> None:
    pages = [page.read_text() for page in (DOCS / "api").glob("*.md")]
    described = {name for text in pages for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)}
    packages = ("classification", "detection", "nominal", "regression", "retrieval", "segmentation", "coco")
    by_class = {f"valor_gpu.{name}" for name in packages}
    public = [getattr(valor_gpu, name) for name in valor_gpu.__all__]
    modules = {each.__name__ for each in public if inspect.ismodule(each)}
    assert len(modules) > 8 and modules - by_class <= described
    assert [name for name in described if importlib.util.find_spec(name) is None] == []


class Found:
    """An object of griffe, which is not installed here."""

    def __init__(self, docstring: Any, alias_of: Found | None = None) -> None:
        self.docstring, self.final_target, self.is_alias = docstring, alias_of, alias_of is not None


def test_pages_of_modules_get_the_docstrings_of_run_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    griffe = types.ModuleType("griffe")
    vars(griffe).update(Extension=object, AliasResolutionError=RuntimeError)
    vars(griffe)["Docstring"] = lambda text, parent: types.SimpleNamespace(value=text, parent=parent)
    monkeypatch.setitem(sys.modules, "griffe", griffe)
    monkeypatch.delitem(sys.modules, "tools.docs_extension", raising=False)
    extension = importlib.import_module("tools.docs_extension")
    monkeypatch.delitem(sys.modules, "tools.docs_extension")
    texts = {"package.a": "Sums.\n\nArgs:\n    x: ``int``.", "package.b.c": "New.", "package.gone": "Lost."}
    monkeypatch.setattr(extension, "MODULES", tmp_path / "modules.json")
    extension.MODULES.write_text(json.dumps({"names": {"package.m": ["a", "b"]}, "docstrings": texts}))
    module = types.SimpleNamespace()
    target, other = Found(types.SimpleNamespace(value="Sums.\n\nExample:\n    >>> 1")), Found(None)
    plain = extension.Plain()
    plain.on_package(pkg={"a": Found(None, alias_of=target), "b.c": other, "m": module})
    assert module.exports == ["a", "b"]
    assert target.docstring.value == texts["package.a"] and other.docstring.value == "New."
    shown = (
        "WARNING mkdocs.plugins.docstrings: package.gone has a docstring at run time but is not found in the sources"
    )
    assert log.getvalue().startswith(shown) and log.getvalue().count("\n") == 1
    target.docstring.value += "\n\nExample:\n    >>> 1"
    plain.on_object(obj=target)
    assert target.docstring.value == "Sums.\n\nArgs:\n    x: `int`.\n\nExamples:\n    >>> 1"


def test_a_name_that_the_page_of_its_module_lacks_is_found() -> None:
    names = {"p.m": ["a", "b"], "p.n": ["c"], "p.o": ["d"]}
    page = "# M\n\n::: p.m\n    options: {}\n\n::: p.n\n"
    assert docs_site.unseen('<h2 id="p.m.a">', page, names) == [
        "p.m.b",
        "p.n.c",
    ]


def test_docstrings_of_pages_of_modules_are_found() -> None:
    found = api_docstrings.found(DOCS / "api")
    assert found["valor_gpu.text.WordErrorRate"] == inspect.getdoc(valor_gpu.text.WordErrorRate)
    assert found["valor_gpu.stats.Interval"] and found["valor_gpu.functional.multiclass_accuracy"]
    without = {
        name for name in api_docstrings.modules(DOCS / "api") if not any(path.startswith(name) for path in found)
    }
    assert len(found) > 500 and without == set()


def commands(page: Path) -> list[str]:
    """The lines of a page that call the command."""
    blocks = re.findall(r"^```(?:bash|sh)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line.startswith("valor-gpu ")]


@pytest.mark.parametrize("line", [line for page in GUIDES for line in commands(page)])
def test_commands_of_guides_can_be_read(line: str) -> None:
    cli.parser().parse_args(shlex.split(line, comments=True)[1:])


def test_the_guide_of_several_processes_shows_the_example() -> None:
    guide = (DOCS / "guides/distributed.md").read_text()
    [shown] = re.findall(r"^```py\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert shown in (ROOT / "examples/distributed.py").read_text()


def test_warnings_end_the_build() -> None:
    """With ``--quiet`` mkdocs does not count them, and ``--strict`` passes over broken links."""
    [line] = [line for line in (ROOT / "Makefile").read_text().splitlines() if "mkdocs build" in line]
    assert line.endswith("mkdocs build --strict")
