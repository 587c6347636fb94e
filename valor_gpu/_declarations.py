"""Functions and structs that the sources of a native library declare: the hash of them, and how Python passes them.

setup.py compiles the hash into the library. In a checkout :mod:`valor_gpu.native` compares both before it calls
anything, since ctypes passes wrong arguments on, and reads signatures from the sources. An installed package has no
sources: its library came with it, and the signatures with the table that setup.py wrote.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import NamedTuple

TABLE = "_declarations.txt"
"""Name of the table in an installed package: a line for each function and struct of each library."""

_SOURCES = {"valor_cpu": ("cpu", ".cpp"), "valor_cuda": ("cuda", ".cu")}
_COMMENT = re.compile(rb"//[^\n]*")
_FUNCTION = re.compile(r"(?:int32_t |Object\* )(\w+)\((.*)\)")
_HEAD = re.compile(r"struct \w+(?: : (\w+))? \{")
_BODY = re.compile(r"\{[^{}]*\}")
_NO_FIELD = re.compile(r"static |using |enum |template |(?!alignas|virtual |.*\(\*)(?:[^=(]*\boperator\b.*|[^=(]*)\(")
_CONST = re.compile(r"\bconst\b ?")
_FIELD = re.compile(r"(\w+)(.*)")
_DECLARATOR = re.compile(r"([* (]*)(\w+)(?:\)\[\w+\]|\[(\w+)\])?(?: = .*)?$")
_CODES = {"int64_t": "q", "uint64_t": "Q", "int32_t": "i", "double": "d", "Object*": "o"}
_WORDS = ("p", "q", "Q", "d")

Field = tuple[str, str]
"""Name and letter: p pointer, q int64, Q uint64, d double; of parameters i int32, o object of Python as well."""


class Declarations(NamedTuple):
    """Declarations of a library, sorted, with single spaces.

    Attributes:
        functions: that the library exports.
        structs: of its headers, then of its sources, without comments; some functions take them by pointer. A name
            means the first struct that has it.
    """

    functions: list[str]
    structs: list[str]

    @classmethod
    def read(cls, library: str, root: str) -> Declarations | None:
        """Reads the sources of ``valor_cpu`` or ``valor_cuda``; None where ``root`` is no checkout."""
        name, ending = _SOURCES[library]
        functions: list[str] = []
        structs: dict[str, list[str]] = {".h": [], ending: []}
        try:
            for folder in ("core", name):
                for file in os.scandir(os.path.join(root, "csrc", folder)):
                    if (kind := os.path.splitext(file.name)[1]) in structs:
                        with open(file.path, "rb") as source:
                            text = source.read()
                        structs[kind] += _structs(text)
                        parts = text.split(b"\nVALOR_API ")[1:] if kind == ending else []
                        functions += [_plain(part[: part.index(b"{")]) for part in parts]
        except OSError:
            return None
        return cls(sorted(functions), sorted(structs[".h"]) + sorted(structs[ending]))

    @property
    def hash(self) -> int:
        """Hash of functions and structs that a C int32_t holds."""
        return zlib.crc32("\n".join([*self.functions, *self.structs]).encode()) >> 1  # hashlib is slower to import

    @property
    def calls(self) -> list[str]:
        """Names of the functions that Python calls."""
        return [match[1] for match in map(_FUNCTION.match, self.functions) if match]

    def entry(self, name: str) -> str | None:
        """Returns the letters of a function's parameters, or of a struct's fields and their names; None for others."""
        for text in self.functions:
            if f" {name}(" in text and (match := _FUNCTION.match(text)):
                return "".join(map(_code, match[2].split(", ")))
        fields = self.fields(name)
        return " ".join(["".join(code for _, code in fields), *(field for field, _ in fields)]) if fields else None

    def fields(self, struct: str) -> list[Field] | None:
        """Returns the fields of a struct; None for unknown structs, and where one is not of 8 bytes.

        Those of structs and arrays inside it are named as C++ does: ``sides[0].data``.
        """
        text = next((text for text in self.structs if text.startswith(f"struct {struct} ")), "")
        if not (head := _HEAD.match(text)) or "#" in text:
            return None
        body, inner = text[head.end() : text.rindex("}")], 1
        while inner:
            body, inner = _BODY.subn(";", body)
        found = self.fields(head[1]) if head[1] else []
        for statement in map(str.strip, body.split(";")):
            if statement and not _NO_FIELD.match(statement):
                more = self._of_statement(statement)
                if found is None or more is None:
                    return None
                found = found + more
        return found

    def _of_statement(self, statement: str) -> list[Field] | None:
        """Returns the fields that ``const double *a, b[2]`` declares, None if they are not of 8 bytes."""
        match = _FIELD.match(_CONST.sub("", statement))
        kind, declared = match.groups() if match else ("", "")
        code = _CODES.get(kind, "")
        found: list[Field] = []
        for each in declared.split(","):
            match = _DECLARATOR.match(each)
            if match is None:
                return None
            before, name, size = match.groups()
            letter = "p" if "*" in before else code
            inner = [("", letter)] if letter in _WORDS else self.fields(kind)
            if inner is None or (size and not size.isdigit()):
                return None
            outer = [f"{name}[{i}]" for i in range(int(size))] if size else [name]
            found += [(f"{first}.{last}" if last else first, letter) for first in outer for last, letter in inner]
        return found

    def lines(self, library: str) -> list[str]:
        """Returns the lines of the table: library, name and entry; the hash is last, so that a cut table has none."""
        names = dict.fromkeys([*self.calls, *(text.split(" ", 2)[1] for text in self.structs)])
        lines = [f"{library} {name} {entry}" for name in names if (entry := self.entry(name)) is not None]
        return [*lines, f"{library} hash {self.hash}"]


def _structs(text: bytes) -> list[str]:
    """Returns the structs outside of classes, without comments."""
    found = []
    for part in text.split(b"\nstruct ")[1:]:
        head = part[: part.find(b"\n")]
        if b"{" in head:
            whole = head if head.endswith(b"};") else part[: part.index(b"\n};") + 3]
            found.append(_plain(b"struct " + _COMMENT.sub(b"", whole)))
    return found


def _plain(text: bytes) -> str:
    return b" ".join(text.split()).decode()


def _code(parameter: str) -> str:
    """Returns the letter of one C parameter."""
    kind = parameter.split(" ")[0]
    return "p" if "*" in parameter and kind != "Object*" else _CODES[kind] if kind else ""
