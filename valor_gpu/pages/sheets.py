"""Style sheets: ``tokens`` (colours, sizes), ``base`` (text, frame, tables, print), ``charts`` (SVG, marks)."""

from __future__ import annotations

from importlib import resources

from valor_gpu.checks import check_choice

SHEETS = ("tokens", "base", "charts")
"""Names in the order in which a page needs them: later ones use what earlier ones set."""


def stylesheet(*names: str) -> str:
    """The sheets of these names, one after the other; all without names.

    They hold no address and no import, and no page needs a style attribute beside them.

    Raises:
        InputError: there is no such sheet.

    Example:
        >>> "--accent:" in stylesheet("tokens")
        True
    """
    for name in names:
        check_choice("name", name, SHEETS)
    folder = resources.files("valor_gpu.pages")
    return "".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in names or SHEETS)
