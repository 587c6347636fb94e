"""What takes the descriptions of its arguments from others describes every argument: ruff does not look at these."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard

import pytest

PACKAGE = Path(__file__).parent.parent / "valor_gpu"


def decorated() -> list[tuple[str, str]]:
    """(module, name) of the functions and classes that have the decorator ``arguments_of``."""
    found: list[tuple[str, str]] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        text = file.read_text()
        if "@arguments_of(" in text:
            found += [(module, node.name) for node in ast.parse(text).body if is_decorated(node)]
    return found


def is_decorated(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.ClassDef]:
    decorators = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
    return any(ast.unparse(each).startswith("arguments_of(") for each in decorators)


def undescribed(described: Any) -> list[str]:
    """Parameters without an entry in the docstring."""
    entries = re.findall(r"^    (\w+(?:, \w+)*): \S", inspect.getdoc(described) or "", re.MULTILINE)
    names = {name for entry in entries for name in entry.split(", ")}
    return [name for name in inspect.signature(described).parameters if name not in names]


@pytest.mark.parametrize(("module", "name"), decorated())
def test_every_argument_has_an_entry(module: str, name: str) -> None:
    assert undescribed(getattr(import_module(module), name)) == []


def test_an_argument_without_entry_is_seen() -> None:
    def function(first: int, second: int) -> None:
        """Does nothing.

        Args:
            first: a number.
        """

    assert undescribed(function) == ["second"]
    assert len(decorated()) > 30
