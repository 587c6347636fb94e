"""Every macro of the parts and every class of the sheets stands on the page of parts, or says why it does not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import nodes

from tests.browser.parts.page import HERE, PARTS, environment, page
from valor_gpu.web import app

MACROS_ELSEWHERE: dict[str, str] = {}
"""``file.macro`` that the page cannot show, each with its reason."""

CLASSES_ELSEWHERE: dict[str, str] = {"js": "the script sets it on the page as a whole"}
"""Classes of the sheets that the page cannot show, each with its reason."""

SHEETS = (Path(app.__file__).parent / "static" / "studio.css", PARTS.parents[2] / "pages" / "charts.css")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("parts") / "store.sqlite"
    subprocess.run([sys.executable, "-m", "tests.browser.parts.store", str(path)], check=True, cwd=HERE.parents[2])
    return page(path)


def calls(tree: nodes.Node, own: str) -> set[str]:
    """Macros that a template calls, as ``file.macro``."""
    aliases = {each.target: Path(each.template.value).stem for each in tree.find_all(nodes.Import)
               if isinstance(each.template, nodes.Const)}  # fmt: skip
    found = set()
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name):
            found.add(f"{own}.{call.node.name}")
        elif isinstance(call.node, nodes.Getattr) and isinstance(call.node.node, nodes.Name):
            found.add(f"{aliases.get(call.node.node.name, '')}.{call.node.attr}")
    return found


def parsed(path: Path) -> nodes.Template:
    return environment().parse(path.read_text(encoding="utf-8"))


def unshown() -> set[str]:
    """Macros that no template of the page calls, neither itself nor by way of others."""
    graph: dict[str, set[str]] = {}
    for path in PARTS.glob("*.html"):
        for macro in parsed(path).find_all(nodes.Macro):
            tree = parsed(path)
            inside = next(each for each in tree.find_all(nodes.Macro) if each.name == macro.name)
            aliases = [each for each in tree.body if isinstance(each, nodes.Import)]
            graph[f"{path.stem}.{macro.name}"] = calls(nodes.Template([*aliases, *inside.body]), path.stem)
    wanted = set().union(*(calls(parsed(path), path.stem) for path in (HERE / "shown").glob("*.html")))
    reached: set[str] = set()
    while wanted:
        reached |= wanted
        wanted = set().union(*(graph.get(name, set()) for name in wanted)) - reached
    return set(graph) - reached


def test_every_macro_is_on_the_page() -> None:
    assert unshown() == set(MACROS_ELSEWHERE), "show it in tests/browser/parts/shown, or say why not"


def classes_of(sheet: str) -> set[str]:
    """Classes of the selectors of a sheet."""
    bare = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    selectors = re.findall(r"(?:^|[{}])([^{}@;]+)(?=\{)", bare)
    return {name for each in selectors for name in re.findall(r"\.(-?[A-Za-z_][\w-]*)", each)}


def test_every_class_is_on_the_page(shown: str) -> None:
    used = {name for each in re.findall(r'class="([^"]*)"', shown) for name in each.split()}
    wanted = set().union(*(classes_of(sheet.read_text(encoding="utf-8")) for sheet in SHEETS))
    assert wanted - used == set(CLASSES_ELSEWHERE), "show it in tests/browser/parts/shown, or say why not"


def test_classes_are_read_from_selectors_alone() -> None:
    sheet = "/* .no */ .a > .b:hover, svg.c { width: .5rem; } @media print { .d:has(.e) { x: url(f.g); } }"
    assert classes_of(sheet) == {"a", "b", "c", "d", "e"}


def test_no_part_is_empty(shown: str) -> None:
    for name in sorted(path.stem for path in (HERE / "shown").glob("*.html")):
        part = re.search(rf'aria-label="Parts of {name}">(.*?)(?=aria-label="Parts of|</main>)', shown, re.DOTALL)
        assert part is not None and len(part[1]) > 300, name
