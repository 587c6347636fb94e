"""Modules of NLTK without its ``__init__``, which imports scikit-learn, scipy and pandas where they are installed.

That takes a second and 170 MB, a hundred times as much as the tokenizers themselves.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from valor_gpu.errors import MissingExtraError

_TOKENIZE = "nltk.tokenize"


def tokenizer_module(name: str, purpose: str) -> ModuleType:
    """A module of ``nltk.tokenize``.

    Where NLTK is not loaded, its packages are stood for by empty ones while the module is imported. Both go again
    afterwards, so that a later ``import nltk`` finds everything as ever.

    Args:
        name: of the module in ``nltk.tokenize``.
        purpose: what needs it.

    Raises:
        MissingExtraError: NLTK is not installed.
    """
    spec = find_spec("nltk") if "nltk" not in sys.modules else None
    try:
        if spec is None or not spec.submodule_search_locations:
            return import_module(f"{_TOKENIZE}.{name}")
        folder = spec.submodule_search_locations[0]
        before = set(sys.modules)
        try:
            for package, path in (("nltk", folder), (_TOKENIZE, str(Path(folder, "tokenize")))):
                sys.modules[package] = ModuleType(package)
                sys.modules[package].__path__ = [path]
            return import_module(f"{_TOKENIZE}.{name}")
        finally:
            for each in {each for each in sys.modules if each.partition(".")[0] == "nltk"} - before:
                del sys.modules[each]
    except ImportError:
        raise MissingExtraError("nltk", "text", purpose) from None
