"""Parts of pages for browsers: style sheets, charts as inline SVG, numbers and texts. Standard library alone.

Every page of this project is put together from these parts, so that a report and a server show one look. Nothing here
knows runs, rows or metrics.
"""

from __future__ import annotations

from valor_gpu.pages.sheets import SHEETS, stylesheet
from valor_gpu.pages.texts import Html, cut, escape, visible

__all__ = ["SHEETS", "Html", "cut", "escape", "stylesheet", "visible"]
