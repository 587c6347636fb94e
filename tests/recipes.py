"""Recipes of CONTRIBUTING.md: the code of their steps, by file."""

from __future__ import annotations

import re
import textwrap

from tests.checkout import ROOT

_PARTS = re.compile(
    r"^(?P<step>\d\. )"
    r"|(?<!\[)`(?P<path>(?:valor_gpu|csrc|testing|tests)/[\w/]+\.(?:py|h|cpp))`"
    r"|^ *```(?:python|cpp)\n(?P<block>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


def section(title: str) -> str:
    """Returns the text below a heading of CONTRIBUTING.md."""
    return (ROOT / "CONTRIBUTING.md").read_text().split(f"\n## {title}\n")[1].partition("\n## ")[0]


def code(title: str) -> dict[str, str]:
    """Returns the code blocks of a recipe by the path that the step names first, or first after its last block."""
    found, path = {}, ""
    for part in _PARTS.finditer(section(title)):
        if part["step"]:
            path = ""
        elif part["path"]:
            path = path or part["path"]
        else:
            found[path], path = textwrap.dedent(part["block"]), ""
    return found
