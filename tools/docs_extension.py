"""Docstrings as Markdown for mkdocstrings: an extension of griffe, which mkdocs.yml names."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import griffe

from tools.docstrings import plain

MODULES = Path(__file__).resolve().parent.parent / "build/pages/modules.json"
"""Modules as they are at run time, which ``make docs`` writes (tools/api_docstrings.py)."""

_LOG = logging.getLogger("mkdocs.plugins.docstrings")  # its warnings end a strict build


class Plain(griffe.Extension):  # type: ignore[misc]  # griffe is not installed where types are checked
    """All public names; docstrings with all arguments, as Markdown, with the heading of examples that griffe knows."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """Called by griffe with a package when it has read all its sources, before it looks at the objects."""
        modules = json.loads(MODULES.read_text())
        for name, names in modules["names"].items():
            pkg[name.partition(".")[2]].exports = names
        for path, text in modules["docstrings"].items():
            try:
                found = pkg[path.partition(".")[2]]
                found = found.final_target if found.is_alias else found
            except (KeyError, griffe.AliasResolutionError) as error:
                _LOG.warning("%s has a docstring at run time but is not found in the sources: %r", path, error)
                continue
            if found.docstring is None:
                found.docstring = griffe.Docstring(text, parent=found)
            else:
                found.docstring.value = text

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe with every object of a package."""
        if obj.docstring is not None:
            text = re.sub(r"^Made by tools/.*\n\n", "", plain(obj.docstring.value), flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^(\s*)Example:$", r"\1Examples:", text, flags=re.MULTILINE)
