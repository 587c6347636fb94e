"""Docstrings as Markdown for mkdocstrings: an extension of griffe, which mkdocs.yml names."""

from __future__ import annotations

import re
from typing import Any

import griffe

from tools.make_docs import plain


class Plain(griffe.Extension):  # type: ignore[misc]  # griffe is not installed where types are checked
    """Marks of docstrings (reStructuredText) as Markdown, and the heading of examples that griffe knows."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe with every object of a package."""
        if obj.docstring is not None:
            text = re.sub(r"^Made by tools/.*\n\n", "", plain(obj.docstring.value), flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^(\s*)Example:$", r"\1Examples:", text, flags=re.MULTILINE)
