"""Pictures of a run's images: files that the run names, and boxes drawn over them."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from valor_gpu.pages.texts import Html, escape, visible
from valor_gpu.web.routes import missing

MOST_BYTES = 64 << 20
"""Of a picture that is shown."""

WIDTH = 240.0
"""Of a picture in px: texts of 12 px are read at this width."""
_MOST_SHAPES = 200
_LARGEST = 100_000  # px: a side that is longer is no picture
_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def picture_file(folder: str, name: object) -> tuple[Path, str]:
    """The file of a picture and its media type, which its first bytes say.

    Args:
        folder: that the run was saved with.
        name: of the file in it, as the run has it.

    Raises:
        HTTPException: 404: it leads out of the folder, does not exist, is no PNG, JPEG, GIF or WebP,
            or is too large.
    """
    if not isinstance(name, str) or not name or "\x00" in name:
        raise missing("This image has no file.")
    shown = visible(name)[:200]
    root = Path(os.path.realpath(folder))
    path = Path(os.path.realpath(root / name))
    if not path.is_relative_to(root):
        raise missing(f"The picture {shown} is not in the folder that the run was saved with.")
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise missing(f"The picture {shown} is no file.")
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise missing(f"The picture {shown} cannot be read: {error.strerror}.") from error
    if found.st_size > MOST_BYTES:
        raise missing(f"The picture {shown} has {found.st_size >> 20:,} MB; at most {MOST_BYTES >> 20} are shown.")
    media = next((kind for start, kind in _TYPES.items() if head.startswith(start)), None)
    if media is None and head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        media = "image/webp"
    if media is None:
        raise missing(f"The picture {shown} is no PNG, JPEG, GIF or WebP file.")
    return path, media


def scene(
    inputs: Mapping[str, Any], shapes: Sequence[Mapping[str, Any]], address: str, label: str, shown: float = WIDTH
) -> Html:
    """An image with its boxes: truth solid white, predictions dashed yellow, wrong ones with their names.

    Args:
        inputs: of the row: ``width`` and ``height`` in pixels; without them the picture has no boxes.
        shapes: as in :class:`valor_gpu.store.saved.SavedImage`.
        address: of the picture; empty draws a plain canvas.
        label: what is seen, in words.
        shown: its width in px.
    """
    drawn = [each for each in shapes[:_MOST_SHAPES] if _is_box(each.get("box"))]
    size = _size(inputs)
    if size is None:
        inside = f'<img src="{escape(address)}" alt="{escape(visible(label))}" loading="lazy">' if address else ""
        return Html(inside)
    scale = shown / size[0]
    width, height = shown, size[1] * scale
    parts = [f'<rect width="{width:g}" height="{height:.1f}" class="canvas"/>']
    if address:
        parts.append(f'<image href="{escape(address)}" width="{width:g}" height="{height:.1f}"/>')
    for kind in ("truth", "prediction"):
        parts += [_box(each, scale, width) for each in drawn if each.get("of") == kind]
    return Html(
        f'<svg class="scene" viewBox="0 0 {width:g} {height:.1f}" role="img" aria-label="{escape(visible(label))}">'
        f"{''.join(parts)}</svg>"
    )


def _is_box(box: object) -> bool:
    plain = isinstance(box, list) and len(box) == 4 and all(isinstance(side, (int, float)) for side in box)
    return plain and all(math.isfinite(side) and abs(side) <= _LARGEST for side in box)  # type: ignore[attr-defined]


def _size(inputs: Mapping[str, Any]) -> tuple[float, float] | None:
    width, height = inputs.get("width"), inputs.get("height")
    if all(isinstance(side, (int, float)) and 1 <= side <= _LARGEST for side in (width, height)):
        return float(width or 0), float(height or 0)
    return None


def _box(shape: Mapping[str, Any], scale: float, width: float) -> str:
    x, y, w, h = (float(side) * scale for side in shape["box"])
    sides = f'x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{max(h, 0):.1f}"'
    if shape.get("of") == "truth":
        return f'<rect {sides} class="truth"/>'
    box = f'<rect {sides} class="guess"/>'
    if shape.get("right"):
        return box
    score = shape.get("score")
    words = visible(str(shape.get("name", "")))[:24] + (f" {score:.2f}" if isinstance(score, float) else "")
    wide, high = len(words) * 6.4 + 6, 15
    left, top = max(min(x, width - wide), 0.0), max(y - high, 0.0)
    place = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high}"'
    text = f'<text x="{left + 3:.1f}" y="{top + 11.5:.1f}" class="tag">{escape(words)}</text>'
    return f'{box}<rect {place} class="tag-back"/>{text}'
