"""Photos that lie under pictures of an image, and the files of pictures without one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError

Pixels = NDArray[Any]
_FADE = 0.35  # how far a photo goes towards white, so that colours stand out


def read_photo(photo: Path | Pixels | None, size: tuple[int, int]) -> Pixels | None:
    """The photo as float ``[H, W, 3]`` from 0 to 1, lightened.

    Args:
        photo: a file or an array, see :func:`valor_gpu.report.overlay.draw_overlay`; None gives None.
        size: height and width that it must have.

    Raises:
        InputError: it has another size.
    """
    if photo is None:
        return None
    if isinstance(photo, Path):
        from matplotlib.image import imread

        pixels, name = np.asarray(imread(photo)), str(photo)
    else:
        pixels, name = np.asarray(photo), "photo"
    if pixels.shape[:2] != size or pixels.ndim not in (2, 3):
        raise InputError(f"{name} must be {size[0]} pixels high and {size[1]} wide but has shape {list(pixels.shape)}")
    bright = pixels / (255.0 if pixels.dtype.kind in "iu" else 1.0)
    color = np.repeat(bright[..., None], 3, 2) if bright.ndim == 2 else bright[..., :3]
    return np.asarray(color + (1 - color) * _FADE)


def photo_problem(photo: Path | None, size: tuple[int, ...]) -> str:
    """Why the photo cannot be drawn on; empty where it can: a bad photo must not cost the numbers of all images.

    Args:
        photo: a file; None is no problem.
        size: height and width that it must have.
    """
    try:
        read_photo(photo, size)  # type: ignore[arg-type]
    except InputError as error:
        return str(error)
    except Exception as error:  # Pillow raises many kinds for what is damaged
        return f"{photo} cannot be read: {error or type(error).__name__}"
    return ""


def of_few_colors(content: io.BytesIO) -> bytes:
    """Returns the same PNG at a third of its size: 256 colours are enough without a photo."""
    from PIL import Image  # which matplotlib needs anyway

    smaller = io.BytesIO()
    Image.open(content).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(smaller, "PNG", optimize=True)
    return smaller.getvalue()
