"""Reads the C functions that csrc exports."""

from __future__ import annotations

import re
from pathlib import Path

from valor_gpu._declarations import declarations

CSRC = Path(__file__).parents[2] / "csrc"
_PROTOTYPE = re.compile(r"(?:int32_t |Object\* )(\w+)\(([^)]*)\)")


def _code(parameter: str) -> str:
    """The letter of valor_gpu.native for one C parameter."""
    if parameter.split()[0] == "Object*":
        return "o"
    if "*" in parameter:
        return "p"
    return {"int64_t": "q", "double": "d", "int32_t": "i"}[parameter.split()[0]]


def prototypes(folder: str) -> dict[str, str]:
    """Exported functions of csrc/<folder> and their signatures, one letter per parameter: o for an object of
    Python, else as in valor_gpu.native."""
    found = {}
    for text in declarations(f"valor_{folder}", str(CSRC.parent)):
        for name, parameters in _PROTOTYPE.findall(text):
            found[name] = "".join(_code(p) for p in parameters.split(",") if p.strip())
    return found
