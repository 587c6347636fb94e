"""Images with their correct, wrong and missed objects as inline SVG, on photos or a plain canvas. Imports no torch."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from valor_gpu.errors import InputError
from valor_gpu.exports.frames import imported
from valor_gpu.pages.texts import Html, escape, visible

OUTCOMES = {"TP": "correct", "FP": "wrong", "FN": "missed"}
"""What an object can be, and the word for it."""
STYLE = """
svg.scene { display: block; width: 100%; height: auto; max-height: 32rem; border-radius: 4px; }
.scene .canvas { fill: var(--sunken); }
.scene path { fill: none; stroke-linejoin: round; }
.scene .case { stroke: #fff; stroke-width: 4; stroke-opacity: 0.75; }
.scene .TP { stroke: #009e73; stroke-width: 2; }
.scene .FP { stroke: #d55e00; stroke-width: 2; stroke-dasharray: 7 3; }
.scene .FN { stroke: #0072b2; stroke-width: 2; stroke-dasharray: 2 3; }
.scene .back { stroke: none; }
.scene .back.FP { fill: #b04e00; }
.scene .back.FN { fill: #0068a3; }
.scene text { fill: #fff; font-size: 11px; }
svg.key { display: inline-block; width: 30px; height: 8px; margin-right: 4px; vertical-align: 1px; }
"""
"""Okabe and Ito's colours for colour-blind readers; lines differ by dashes as well."""
MOST_SHAPES = 150
"""Objects of an image that are drawn: missed and wrong ones first."""
_WIDTH, _HEIGHT = 480.0, 512.0  # px at most: texts have 11
_PHOTO, _QUALITY = 960, 80  # px of the longer side, and quality of JPEG
_LETTER, _HIGH = 6.8, 14.0  # px of a label


class Drawn(NamedTuple):
    """An object to draw.

    Attributes:
        outcome: of :data:`OUTCOMES`.
        name: of its class.
        score: of a detection; None of a ground truth.
        lines: closed lines, each a list of x and y in pixels of the image.
        dots: keypoints, x and y.
    """

    outcome: str
    name: str
    score: float | None
    lines: Sequence[Sequence[tuple[float, float]]]
    dots: Sequence[tuple[float, float]] = ()

    @property
    def label(self) -> str:
        """Its name, and the score of a detection."""
        return self.name if self.score is None else f"{self.name} {self.score:.2f}"


def scene(size: tuple[float, float], objects: Iterable[Drawn], photo: str, label: str) -> Html:
    """An image with its objects, missed ones dotted, wrong ones dashed; those that are correct have no label.

    Args:
        size: width and height in pixels, above 0.
        objects: in any order.
        photo: address of the picture; empty draws a plain canvas.
        label: what is seen, in words.
    """
    scale = min(_WIDTH / size[0], _HEIGHT / size[1])
    width, height = size[0] * scale, size[1] * scale
    order = {"FN": 0, "FP": 1, "TP": 2}
    kept = sorted(objects, key=lambda each: (order[each.outcome], -(each.score or 0.0)))[:MOST_SHAPES]
    parts = [f'<rect width="{width:.0f}" height="{height:.0f}" class="canvas"/>']
    if photo:
        parts.append(f'<image href="{escape(photo)}" width="{width:.0f}" height="{height:.0f}"/>')
    parts += [_shape(each, scale) for each in reversed(kept)]
    parts += _labels([each for each in kept if each.outcome != "TP"], scale, width, height)
    box = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    return Html(f'<svg class="scene" {box} role="img" aria-label="{escape(visible(label))}">{"".join(parts)}</svg>')


def key() -> Html:
    """The meaning of the lines."""
    line = '<svg class="scene key" viewBox="0 0 30 8" aria-hidden="true"><path class="{0}" d="M0 4H30"/></svg>{1} ({0})'
    return Html(", ".join(line.format(*each) for each in OUTCOMES.items()))


def _shape(drawn: Drawn, scale: float) -> str:
    path = "".join(f"M{'L'.join(f'{x * scale:.1f} {y * scale:.1f}' for x, y in line)}z" for line in drawn.lines if line)
    path += "".join(f"M{x * scale - 1.5:.1f} {y * scale:.1f}h3" for x, y in drawn.dots)
    title = f"<title>{escape(visible(f'{drawn.label}, {OUTCOMES[drawn.outcome]}'))}</title>"
    return f'<g>{title}<path class="case" d="{path}"/><path class="{drawn.outcome}" d="{path}"/></g>'


def _labels(objects: Sequence[Drawn], scale: float, width: float, height: float) -> Iterable[str]:
    """Names of objects above them or inside, where they hide no other name; each object has its name as a title too."""
    taken: list[tuple[float, float, float]] = []
    for each in objects:
        corners = [point for line in each.lines for point in line]
        if not corners:
            continue
        words = visible(each.label)
        words = words if len(words) <= 28 else f"{words[:27]}…"
        wide = _LETTER * len(words) + 6
        left = min(max(min(x for x, _ in corners) * scale, 0.0), max(width - wide, 0.0))
        top = min(y for _, y in corners) * scale
        for place in (top - _HIGH, top, max(y for _, y in corners) * scale):
            y = min(max(place, 0.0), height - _HIGH)
            if all(abs(y - b) >= _HIGH or left >= a + w or a >= left + wide for a, b, w in taken):
                taken.append((left, y, wide))
                yield (
                    f'<rect x="{left:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{_HIGH:g}"'
                    f' class="back {each.outcome}"/><text x="{left + 3:.1f}" y="{y + 10.5:.1f}">{escape(words)}</text>'
                )
                break


def photo_address(folder: Path, name: str, size: tuple[int, int]) -> str:
    """A photo as part of a page: a JPEG of at most 960 pixels, in base64.

    Args:
        folder: of the photos.
        name: of the file in it.
        size: width and height that it must have.

    Raises:
        InputError: the photo leads out of the folder, is not there, is damaged or has another size.
        MissingExtraError: Pillow is not installed.
    """
    image: Any = imported("PIL.Image", "images", "photos of a report")
    path = os.path.normpath(folder / name)
    if not name or not Path(path).is_relative_to(os.path.normpath(folder)):
        raise InputError(f"photo {name!r} must lie in {folder}")
    if not os.path.isfile(path):
        raise InputError(f"photo {path} is not there")
    try:
        with image.open(path) as opened:
            photo = opened.convert("RGB")
    except Exception as error:  # Pillow raises many kinds for what is damaged
        raise InputError(f"photo {path} cannot be read: {error or type(error).__name__}") from None
    if photo.size != size:
        raise InputError(f"photo {path} must have {size[0]} x {size[1]} pixels but has {photo.width} x {photo.height}")
    photo.thumbnail((_PHOTO, _PHOTO))
    content = io.BytesIO()
    photo.save(content, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
