"""Copies torchmetrics' tests into a scratch folder, with imports of metrics from the package that stands for it."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

PACKAGE = "in_place"
"""The package of the scratch folder whose modules take the places of those of torchmetrics."""

_TASKS = "classification|detection|nominal|regression|retrieval|segmentation|text|functional"
_FROM = re.compile(rf"^([ \t]*)from torchmetrics((?:\.(?:{_TASKS})(?:\.\w+)*)?)[ \t]+import\b", re.MULTILINE)
_PLAIN = re.compile(rf"^[ \t]*import torchmetrics(?:\.(?:{_TASKS})\b[.\w]*)?(?![.\w]).*$", re.MULTILINE)

_MODULE = '''"""Stands for {module}."""

from tools.peers.names import names_of

__path__ = {path}
__getattr__ = names_of("{module}")
'''

_CACHIER = '''"""Stands for cachier, which would keep the references of an earlier run on disk."""


def cachier(*args, **kwargs):
    """Returns a decorator that does nothing."""
    return lambda function: function
'''

_EXAMPLES = Path(__file__).parents[2] / "examples" / "data"
_DATA = {
    "instances_val2014_100.json": "instances_val2014_100_masks.json.gz",
    "instances_val2014_fakebbox100_results.json": "instances_val2014_fakebbox100_results.json",
    "instances_val2014_fakesegm100_results.json": "instances_val2014_fakesegm100_results.json.gz",
}
"""Files of the COCO API that torchmetrics downloads for its tests, and where this checkout has them."""

_INI = """[pytest]
markers =
    DDP: needs a pool of processes
filterwarnings =
    ignore::FutureWarning
xfail_strict = true
"""


def rewritten(source: str) -> tuple[str, set[str]]:
    """Returns a source with other imports, and the modules of torchmetrics that these name.

    Raises:
        ValueError: the source has a plain import of torchmetrics, through which it would test torchmetrics itself.
    """
    if plain := _PLAIN.search(source):
        raise ValueError(f"imports of metrics must have the form 'from torchmetrics ... import' but got {plain[0]!r}")
    modules = {f"torchmetrics{match[2]}" for match in _FROM.finditer(source)}
    return _FROM.sub(rf"\1from {PACKAGE}\2 import", source), modules


def copy_tests(checkout: Path, folder: Path) -> set[str]:
    """Fills an empty folder with the tests of a checkout and what they import; returns the modules that are replaced.

    Args:
        checkout: of torchmetrics; nothing is written into it.
        folder: which is emptied first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    found: set[str] = set()
    for path in sorted((checkout / "tests" / "unittests").rglob("*.py")):
        place = folder / path.relative_to(checkout / "tests")
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            source, modules = rewritten(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        place.write_text(source, encoding="utf-8")
        found |= modules
    _unpack_data(folder / "_data" / "detection")
    (folder / "pytest.ini").write_text(_INI, encoding="utf-8")
    (folder / "cachier.py").write_text(_CACHIER, encoding="utf-8")
    _write_modules(folder, found)
    return found


def _unpack_data(folder: Path) -> None:
    """Puts the files of the COCO API where the tests look for them."""
    folder.mkdir(parents=True)
    for name, source in _DATA.items():
        content = (_EXAMPLES / source).read_bytes()
        (folder / name).write_bytes(gzip.decompress(content) if source.endswith(".gz") else content)


def _write_modules(folder: Path, modules: set[str]) -> None:
    """Writes a package for each module and for those above it."""
    whole = {
        ".".join(parts[:n]) for parts in (module.split(".") for module in modules) for n in range(1, len(parts) + 1)
    }
    for module in sorted(whole):
        place = folder.joinpath(PACKAGE, *module.split(".")[1:])
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").write_text(_MODULE.format(module=module, path=[str(place)]), encoding="utf-8")
