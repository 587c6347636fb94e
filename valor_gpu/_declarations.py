"""Hash of the declarations of the C functions that a native library exports, taken from its sources.

setup.py compiles the hash into the library. In a checkout :mod:`valor_gpu.native` compares both before it calls
anything, since ctypes passes wrong arguments on. An installed package has no sources: its library came with it.
"""

from __future__ import annotations

import os
import zlib

_SOURCES = {"valor_cpu": ("cpu", ".cpp"), "valor_cuda": ("cuda", ".cu")}


def declarations(library: str, root: str) -> list[str]:
    """Returns the declarations of all functions that a library exports, sorted, with single spaces.

    Args:
        library: ``valor_cpu`` or ``valor_cuda``.
        root: of a checkout.

    Raises:
        OSError: this is no checkout.
    """
    name, ending = _SOURCES[library]
    folder = os.path.join(root, "csrc", name)
    found = []
    for file in os.listdir(folder):
        if file.endswith(ending):
            with open(os.path.join(folder, file), "rb") as source:
                parts = source.read().split(b"\nVALOR_API ")[1:]
            found += [b" ".join(part[: part.index(b"{")].split()).decode() for part in parts]
    return sorted(found)


def declarations_hash(library: str, root: str) -> int | None:
    """Returns a hash of :func:`declarations` that a C int32_t holds, None where ``root`` is no checkout."""
    try:
        text = "\n".join(declarations(library, root))
    except OSError:
        return None
    return zlib.crc32(text.encode()) >> 1  # importing hashlib takes longer than all of this
