"""Fails when a file or a function has grown too long. Part of ``make check``.

A file may have 400 lines, one of tests, whose cases stand side by side, 700. The body of a function may have 40: in
Python without its docstring, in C++ the lines between its braces. Functions of C++ are found by their shape, which
clang-format makes regular.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES, TEST_FILE_LINES = 400, 700
BODY_LINES = 40
FOLDERS = ("valor_gpu", "csrc", "tests", "testing", "benchmarks", "tools", "examples")
CPP = {".h", ".cpp", ".cu"}

# A brace that opens a function: after ")" and perhaps qualifiers; not after a keyword such as if, for, switch.
_OPENS = re.compile(r"\)\s*(?:const|noexcept|override|final|\s)*(?:->\s*[\w:<>&*\s]+)?(?::[^;{}]*)?$")
_CONTROL = re.compile(r"(?:^|[^\w])(?:if|for|while|switch|catch|else|do)\b[^;{}]*$")
_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def python_bodies(source: str) -> Iterator[tuple[str, int, int]]:
    """(name, line, lines of the body without docstring) of every function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            end = node.end_lineno or node.lineno
            yield node.name, node.lineno, end - body[0].lineno + 1 if body else 0


def cpp_bodies(source: str) -> Iterator[tuple[str, int, int]]:
    """(how it begins, line of its brace, lines between the braces) of every outermost function."""
    code = _NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    code = re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match[0]), code, flags=re.MULTILINE
    )
    depth, function = 0, None
    for brace in re.finditer(r"[{}]", code):
        position = brace.start()
        if brace[0] == "{":
            depth += 1
            before = code[max(code.rfind(end, 0, position) for end in ";{}") + 1 : position]
            if function is None and _OPENS.search(before) and not _CONTROL.search(before):
                named = next(line.strip() for line in before.splitlines() if "(" in line)
                function = (named, code.count("\n", 0, position) + 1, depth)
        else:
            if function is not None and depth == function[2]:
                yield function[0], function[1], max(code.count("\n", 0, position) - function[1], 0)
                function = None
            depth -= 1


def complaints(path: Path) -> Iterator[str]:
    """What is too long in a file."""
    source = path.read_text(encoding="utf-8")
    lines, limit = source.count("\n"), TEST_FILE_LINES if path.name.startswith("test_") else FILE_LINES
    if lines > limit:
        yield f"{path}: {lines} lines, at most {limit} are allowed"
    for name, line, length in cpp_bodies(source) if path.suffix in CPP else python_bodies(source):
        if length > BODY_LINES:
            yield f"{path}:{line}: {name}: body of {length} lines, at most {BODY_LINES} are allowed"


def main(root: Path) -> int:
    """Check every source file under ``root``; returns the number of complaints."""
    os.chdir(root)
    paths = [p for folder in FOLDERS for p in sorted(Path(folder).rglob("*")) if p.suffix in {*CPP, ".py"}]
    messages = [text for path in paths for text in complaints(path)]
    print("\n".join(messages) or f"{len(paths)} files within the ceilings")
    return len(messages)


if __name__ == "__main__":
    sys.exit(1 if main(Path(__file__).resolve().parent.parent) else 0)
