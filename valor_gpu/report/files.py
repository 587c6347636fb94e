"""Output files: checked before the work; a regular file is complete or untouched afterwards, a device or pipe is fed.

``-``, or any path that leads to what standard output already is, means standard output.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from valor_gpu.errors import InputError
from valor_gpu.result import Result, require_matplotlib


def is_standard_output(path: Path) -> bool:
    """Whether ``path`` is ``-`` or leads to what standard output already is, as ``/dev/stdout`` does."""
    if str(path) == "-":
        return True
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or no standard output, or one without a descriptor
        return False


def check_output(option: str, path: Path) -> None:
    """Raises :class:`InputError` unless ``path`` can be written, as far as that can be known before.

    Args:
        option: what the message calls it.
        path: the file to come. An existing file will be replaced, a device, pipe or descriptor written through.
    """
    from valor_gpu.exports.written import is_fed

    target = Path(os.path.realpath(path))
    if path.is_dir():
        raise InputError(f"{option} must be a file but {path} is a folder")
    if target.is_symlink():
        raise InputError(f"{option} must be a file but {path} is a link that leads back to itself")
    if is_fed(path):
        if not os.access(path, os.W_OK):
            raise InputError(f"{option} must be writable but {path} is not")
        return
    if not target.parent.is_dir():
        raise InputError(f"{option} must lie in a folder that exists but {target.parent} does not")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{option} must lie in a writable folder but {target.parent} is not writable")


def check_picture(option: str, path: Path) -> None:
    """Raises unless matplotlib is there and knows the format that the name of ``path`` ends in."""
    require_matplotlib(option)
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in known:
        raise InputError(f"{option} must end in one of .{', .'.join(known)} but got {path}")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes ``value`` indented, with lists of numbers on one line; to standard output if ``path`` is that."""
    import json

    text = json.dumps(value, indent=2, allow_nan=False)
    # Inside JSON strings a newline is escaped, so these brackets are lists.
    text = re.sub(r"\[\n([^\[\]{}]*)\]", _on_one_line, text) + "\n"
    if is_standard_output(path):
        if sys.stdout is None:
            raise InputError("standard output must be open but is closed")
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    write_file(path, text.encode())


def _on_one_line(match: re.Match[str]) -> str:
    return f"[{' '.join(line.strip() for line in match[1].splitlines()).strip()}]"


def draw_picture(path: Path, result: Result, **options: Any) -> None:
    """Draws ``result`` into a picture file as large as it needs, without a display and without touching pyplot.

    Args:
        path: of the file; its suffix is the format.
        result: one that has a picture.
        options: of its ``plot``.
    """
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    result.plot(ax=figure.subplots(), resize=True, **options)
    content = io.BytesIO()  # some formats seek, which a pipe cannot
    with _silent_fonts():
        figure.savefig(content, dpi=150, format=path.suffix[1:].lower(), bbox_inches="tight", pad_inches=0.12)
    write_file(path, content.getvalue())


@contextlib.contextmanager
def _silent_fonts() -> Iterator[None]:
    """Without the notes of matplotlib on fonts that have only other weights than asked for."""
    import logging

    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def part_of_name(value: object) -> str:
    """The text of a value as a part of the name of a file: other than letters, digits, ``.``, ``_`` and ``-`` is ``_``.

    At most 64 characters of it, so that the name stays short enough for every file system.

    Example:
        >>> part_of_name("day 1/é.jpg"), part_of_name(-42)
        ('day_1__.jpg', '-42')
    """
    return re.sub(r"[^A-Za-z0-9._-]", "_", str(value))[:64]


def write_file(path: Path, content: bytes) -> None:
    """Writes ``content`` through a device, pipe or descriptor; replaces any other file at once, following links.

    A regular file keeps its permissions, and its old content if writing fails.
    """
    try:
        _write(path, content)
    except OSError as error:
        error.filename = str(path)  # a full disk, for example, does not say which file it was
        raise


def _write(path: Path, content: bytes) -> None:
    from valor_gpu.exports.written import is_fed, write_all

    if is_fed(path):
        with open(path, "wb", buffering=0) as stream:
            write_all(stream, content)
        return
    with _replaced(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def text_output(path: Path) -> Iterator[TextIO]:
    """A stream of UTF-8 into the file; a regular file is replaced when the body is done, and stays if that raises."""
    from valor_gpu.exports.written import is_fed

    try:
        with contextlib.ExitStack() as stack:
            part = path if is_fed(path) else stack.enter_context(_replaced(path))
            yield stack.enter_context(open(part, "w", encoding="utf-8", errors="surrogateescape", newline=""))
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextlib.contextmanager
def file_for(path: Path) -> Iterator[Path]:
    """A regular file to write in the body, for writers that replace what they write.

    It is ``path`` itself, behind its links; for a device, a pipe, a descriptor or standard output it is a temporary
    one, whose content goes there when the body is done.
    """
    from valor_gpu.exports.written import is_fed, write_all

    if not (is_standard_output(path) or is_fed(path)):
        yield Path(os.path.realpath(path))
        return
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "output"
        yield part
        with part.open("rb") as content:
            if is_standard_output(path):
                shutil.copyfileobj(content, sys.stdout.buffer)
                sys.stdout.buffer.flush()
                return
            with open(path, "wb", buffering=0) as stream:
                while chunk := content.read(1 << 20):
                    write_all(stream, chunk)


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A file beside the target of ``path`` that takes its place, and its permissions, when the body is done."""
    from valor_gpu.exports.written import take_permissions

    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        take_permissions(part, target)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
