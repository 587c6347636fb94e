"""Source files without comments, docstrings and empty lines, so that no word of prose changes a digest."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

_CPP = re.compile(
    r'R"\(.*?\)"|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.[^'\n]*|[^'\\\n])'" r"|//[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
_PYTHON = re.compile(
    r'"""(?:\\.|[^\\])*?"""' r"|'''(?:\\.|[^\\])*?'''" r'|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'|#[^\n]*",
    re.DOTALL,
)
"""Strings and comments: a comment begins in no string, and a string in no comment."""


def code_of(path: Path) -> bytes:
    """Returns the code of a file of C++, CUDA or Python; all of any other file, and of Python that does not parse."""
    return _code_of(path.suffix, path.read_text())


@functools.cache
def _code_of(suffix: str, text: str) -> bytes:
    if suffix in (".h", ".cpp", ".cu"):
        text = _CPP.sub(lambda found: " " if found[0].startswith(("//", "/*")) else found[0], text)
    elif suffix == ".py":
        text = _PYTHON.sub(lambda found: "" if found[0].startswith("#") else found[0], _without_docstrings(text))
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()).encode()


def _without_docstrings(text: str) -> str:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.splitlines(keepends=True)
    for node in _docstrings(tree.body):
        if lines[node.lineno - 1].lstrip().startswith(('"""', 'r"""')):  # alone on its lines
            lines[node.lineno - 1 : node.end_lineno] = ["\n"] * (node.end_lineno - node.lineno + 1)
    return "".join(lines)


def _docstrings(body: list[ast.stmt]) -> Iterator[ast.Expr]:
    """Yields the statements that are a string, of a module, its classes and functions."""
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from _docstrings(node.body)
