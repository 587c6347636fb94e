"""Output files: refused before the work where they cannot be written, complete or absent afterwards."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.result import Result, require_matplotlib


def check_output(option: str, path: Path) -> None:
    """Raise :class:`InputError` unless a file can be written at ``path``, as far as that can be known before.

    Args:
        option: what the message calls it.
        path: the file to come; an existing file will be replaced.
    """
    folder = path.parent
    if path.is_dir():
        raise InputError(f"{option} must be a file but {path} is a folder")
    if not folder.is_dir():
        raise InputError(f"{option} must lie in a folder that exists but {folder} does not")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} must lie in a folder that can be written to but {folder} cannot")


def check_picture(option: str, path: Path) -> None:
    """Raise unless matplotlib is there and knows the format that the name of ``path`` ends in."""
    require_matplotlib(option)
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in known:
        raise InputError(f"{option} must end in one of .{', .'.join(known)} but got {path}")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write ``value`` indented, with lists of numbers on one line."""
    text = json.dumps(value, indent=2, allow_nan=False)
    # Inside JSON strings a newline is escaped, so these brackets are lists.
    text = re.sub(r"\[\n([^\[\]{}]*)\]", _on_one_line, text)
    _write(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))


def _on_one_line(match: re.Match[str]) -> str:
    return f"[{' '.join(line.strip() for line in match[1].splitlines()).strip()}]"


def write_plot(path: Path, result: Result) -> None:
    """Draw ``result`` into a picture file, see :func:`draw_picture`."""
    draw_picture(path, lambda ax: result.plot(ax=ax))


def draw_picture(path: Path, draw: Callable[[Any], object]) -> None:
    """Let ``draw`` fill matplotlib axes, and write a picture file, without a display and without touching pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    draw(figure.subplots())
    _write(path, lambda part: figure.savefig(part, dpi=150, format=path.suffix[1:].lower()))


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside ``path``, then rename, so that a reader never sees half a file."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
