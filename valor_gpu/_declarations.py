"""Hash of the C functions that a native library exports and of its structs, taken from its sources.

setup.py compiles the hash into the library. In a checkout :mod:`valor_gpu.native` compares both before it calls
anything, since ctypes passes wrong arguments on. An installed package has no sources: its library came with it.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator

_SOURCES = {"valor_cpu": ("cpu", ".cpp"), "valor_cuda": ("cuda", ".cu")}
_STRUCT = re.compile(rb"^struct [^\n;]*\{.*?^\};", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(rb"//[^\n]*")


def declarations(library: str, root: str) -> list[str]:
    """Returns the declarations of all functions that a library exports, sorted, with single spaces.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        root: of a checkout.

    Raises:
        OSError: this is no checkout.
    """
    name, ending = _SOURCES[library]
    found = []
    for text in _texts(root, name, ending):
        parts = text.split(b"\nVALOR_API ")[1:]
        found += [_plain(part[: part.index(b"{")]) for part in parts]
    return sorted(found)


def structs(library: str, root: str) -> list[str]:
    """Returns the structs of a library's headers, some of which its functions take by pointer, without comments."""
    folders = ("core", _SOURCES[library][0])
    texts = (text for folder in folders for text in _texts(root, folder, ".h"))
    return sorted(_plain(_COMMENT.sub(b"", found)) for text in texts for found in _STRUCT.findall(text))


def _texts(root: str, name: str, ending: str) -> Iterator[bytes]:
    folder = os.path.join(root, "csrc", name)
    for file in os.listdir(folder):
        if file.endswith(ending):
            with open(os.path.join(folder, file), "rb") as source:
                yield source.read()


def _plain(text: bytes) -> str:
    return b" ".join(text.split()).decode()


def declarations_hash(library: str, root: str) -> int | None:
    """Returns a hash of functions and structs that a C int32_t holds, None where ``root`` is no checkout."""
    try:
        text = "\n".join([*declarations(library, root), *structs(library, root)])
    except OSError:
        return None
    return zlib.crc32(text.encode()) >> 1  # importing hashlib takes longer than all of this
