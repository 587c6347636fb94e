"""Source files without comments, docstrings and empty lines, so that no word of prose changes a digest."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

# A backslash joins two lines, also those of a comment; a number may have ' between its digits.
_CPP = re.compile(
    r'R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<!\w)\.?[0-9](?:'?[\w.])*|'(?:\\.[^'\n]*|[^'\\\n]+)'|//(?:\\\n|[^\n])*|/\*.*?\*/|\\\n",
    re.DOTALL,
)
_PYTHON = re.compile(
    r'"""(?:\\.|[^\\])*?"""' r"|'''(?:\\.|[^\\])*?'''" r'|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'|#[^\n]*|\\\n",
    re.DOTALL,
)
_NO_LINE = "\0"
"""Stands for a line break within a string or after a backslash, which is code."""


def code_of(path: Path) -> bytes:
    """Returns the code of a file of C++, CUDA or Python; all of any other file, and of Python that does not parse."""
    return _code_of(path.suffix, path.read_text(encoding="utf-8"))


@functools.cache
def _code_of(suffix: str, text: str) -> bytes:
    if suffix in (".h", ".cpp", ".cu"):
        text = _CPP.sub(lambda found: " " if found[0].startswith(("//", "/*")) else _kept(found), text)
    elif suffix == ".py" and (without := _without_docstrings(text)) is not None:
        text = _PYTHON.sub(lambda found: "" if found[0].startswith("#") else _kept(found), without)
    else:
        return text.encode()
    lines = (line.rstrip() for line in text.splitlines() if line.strip())
    return "\n".join(lines).replace(_NO_LINE, "\n").encode()


def _kept(found: re.Match[str]) -> str:
    return found[0].replace("\n", _NO_LINE)


def _without_docstrings(text: str) -> str | None:
    """Returns Python without the strings that are alone on their lines as statements; None if it does not parse."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    lines = text.encode().split(b"\n")
    for node in _docstrings(tree.body):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        after = lines[last][node.end_col_offset :].strip()
        if not lines[first][: node.col_offset].strip() and (not after or after.startswith(b"#")):
            lines[first : last + 1] = [b""] * (last + 1 - first)
    return b"\n".join(lines).decode()


def _docstrings(body: list[ast.stmt]) -> Iterator[ast.Expr]:
    """Yields the statements that are a string, of a module, its classes and functions."""
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from _docstrings(node.body)
