"""Prints the oldest releases of the dependencies that pyproject.toml allows, as requirements."""

from __future__ import annotations

import re
from pathlib import Path


def oldest(requirements: list[str]) -> list[str]:
    """``name==version`` for each ``name>=version``; raises ValueError for a requirement written in another way."""
    found = [re.fullmatch(r"([\w-]+)>=([\w.]+)", requirement) for requirement in requirements]
    if without := [each for each, match in zip(requirements, found) if match is None]:
        raise ValueError(f"a dependency must be written as name>=version but got {without[0]!r}")
    return [f"{match[1]}=={match[2]}" for match in found if match]


def dependencies(project: str) -> list[str]:
    """Those that the text of pyproject.toml lists, without the extras."""
    listed = re.search(r"^dependencies = \[(.*?)\]", project, re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', listed[1]) if listed else []


if __name__ == "__main__":
    print(*oldest(dependencies((Path(__file__).parents[1] / "pyproject.toml").read_text())))
