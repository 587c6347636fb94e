"""Names the oldest dependencies that pyproject.toml allows, and says what their installation would download.

``python -m tools.minimum`` prints requirements. With ``--for PYTHON`` it prints the size of what that Python lacks, for
which uv resolves the requirements without downloading a package. ``--torch 2.8.0`` asks for that torch instead.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_NAMED = 4  # packages, the largest ones
_INDEX = {"index-url": "--default-index", "extra-index-url": "--index"}
"""Options of uv by those of pip, whose configuration uv does not read."""


class Package(NamedTuple):
    """A package that would be installed; ``size`` in bytes is None where the index does not say it."""

    name: str
    version: str
    size: int | None


def oldest(requirements: list[str]) -> list[str]:
    """Returns ``name==version`` for each ``name>=version``; raises ValueError for another form of requirement."""
    found = [re.fullmatch(r"([\w-]+)>=([\w.]+)", requirement) for requirement in requirements]
    if without := [each for each, match in zip(requirements, found) if match is None]:
        raise ValueError(f"a dependency must be written as name>=version but got {without[0]!r}")
    return [f"{match[1]}=={match[2]}" for match in found if match]


def dependencies(project: str) -> list[str]:
    """Returns the requirements in the text of pyproject.toml, without those of extras."""
    listed = re.search(r"^dependencies = \[(.*?)\]", project, re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', listed[1]) if listed else []


def requirements(torch: str = "") -> list[str]:
    """Returns the oldest requirements of pyproject.toml; with ``torch``, a version, that torch among them."""
    found = oldest(dependencies((ROOT / "pyproject.toml").read_text()))
    return [f"torch=={torch}" if torch and each.startswith("torch==") else each for each in found]


def packages(lock: str) -> list[Package]:
    """Parses the text of a pylock.toml of uv, which lists the wheels that suit one Python, or else the source archive.

    A regular expression serves, since Python 3.10 has no parser of TOML.
    """
    found = []
    for part in lock.split("[[packages]]")[1:]:
        fields = dict(re.findall(r'^(name|version) = "([^"]+)"', part, re.MULTILINE))
        archives = re.search(r"^wheels = .*", part, re.MULTILINE | re.DOTALL) or re.search(r"^sdist = .*", part, re.M)
        sizes = re.findall(r"\bsize = (\d+)", archives[0]) if archives else []
        found.append(Package(fields["name"], fields.get("version", ""), max(map(int, sizes), default=None)))
    return found


def summary(wanted: Sequence[Package], installed: set[tuple[str, str]]) -> str:
    """Returns the line that says what is to be downloaded; empty where nothing is.

    Args:
        wanted: all packages of the environment.
        installed: names and versions of those that are there.
    """
    missing = [each for each in wanted if (each.name, each.version) not in installed]
    if not missing:
        return ""
    known = sorted((each for each in missing if each.size is not None), key=lambda each: -(each.size or 0))
    unknown = [f"{each.name} {each.version}" for each in missing if each.size is None]
    parts = [f"{each.name} {each.version} {_size(each.size or 0)}" for each in known[:_NAMED]]
    rest = f", and {', '.join(unknown)}, whose size the index does not give" if unknown else ""
    noun = "package" if len(missing) == 1 else "packages"
    total = _size(sum(each.size or 0 for each in known))
    return f"to download: {total} in {len(missing)} {noun} ({', '.join(parts)}){rest}; on disk 2 to 4 times as much"


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{max(size / 1e6, 0.1):.1f} MB"


def indexes(configuration: str) -> list[str]:
    """Returns uv's options for the package indexes that ``pip config list`` names, but for those on this disk."""
    found = re.findall(r"^[\w:]+\.(index-url|extra-index-url)='(.*)'$", configuration, re.MULTILINE)
    urls = [(_INDEX[key], url) for key, value in found for url in re.split(r"\s+|\\n", value)]
    return [word for option, url in urls if url.startswith("http") for word in (option, url)]


def _lines(*command: str) -> str:
    """Returns what a command prints; raises OSError or CalledProcessError."""
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def download(python: str, constraints: Sequence[str]) -> str:
    """Returns :func:`summary` for the tests' packages under ``constraints``, or why the size is not known.

    Args:
        python: the interpreter of the environment, which has pip and uv.
        constraints: of the dependencies, as :func:`requirements` returns them.
    """
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    resolve = (python, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml")
    options = ("--extra", "dev", "--python", python, "--index-strategy", "unsafe-best-match")  # as pip chooses
    try:
        found = indexes(_lines(*pip, "config", "list"))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as limits:
            limits.write("\n".join(constraints) + "\n")
            limits.flush()
            lock = _lines(*resolve, *options, *found, "--constraints", limits.name, "pyproject.toml")
        listed = json.loads(_lines(*pip, "list", "--format", "json"))
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()
        return f"to download: the size is not known ({said[0].strip() if said else error})"
    return summary(packages(lock), {(re.sub(r"[-_.]+", "-", each["name"]).lower(), each["version"]) for each in listed})


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the requirements, or what is to be downloaded for them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="", metavar="VERSION")
    parser.add_argument("--for", dest="python", default="", metavar="PYTHON")
    given = parser.parse_args(arguments)
    wanted = requirements(given.torch)
    if not given.python:
        print(*wanted, sep="\n")
    elif said := download(given.python, wanted):
        print(said)


if __name__ == "__main__":
    main()
