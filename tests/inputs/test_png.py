"""PNG of numbers: what Pillow would take for a whole picture is an error, and what is not of the pixels changes none.

What is stored, and headers that are wrong: test_label_map_files.py.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from testing.png_files import chunk, filtered, made
from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs.png import GREY, PALETTE, RGB, parse_png

ImageFile = pytest.importorskip("PIL.ImageFile", reason="Pillow is not installed")

CHANNELS = {GREY: 1, PALETTE: 1, RGB: 3}


@pytest.fixture(autouse=True, params=["library", "Pillow"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "Pillow":
        monkeypatch.setattr(native, "usable", lambda name: False)
    elif not native.usable("valor_cpu"):
        pytest.skip(native.explanation("valor_cpu"))
    return str(request.param)


def png_of_rows(values: NDArray[np.uint8], color: int, raw: bytes, *extra: bytes, interlaced: int = 0) -> bytes:
    """A picture of the size of ``values`` with 8 bits, whatever ``raw`` holds."""
    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 8, color, 0, 0, interlaced)
    return made(header, *extra, chunk(b"IDAT", zlib.compress(raw)))


def rows_of(values: NDArray[np.uint8], filters: Sequence[int] = (0, 1, 2, 3, 4)) -> bytes:
    step = values.shape[2] if values.ndim == 3 else 1
    kinds = [filters[row % len(filters)] for row in range(len(values))]
    return filtered(values.reshape(len(values), -1), kinds, step)


def picture(seed: int, color: int, shape: tuple[int, int]) -> NDArray[np.uint8]:
    channels = (3,) if color == RGB else ()
    return np.random.default_rng(seed).integers(0, 256, shape + channels).astype(np.uint8)


def read(content: bytes) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = parse_png("a.png", content).unpack()
    return found


@pytest.mark.parametrize("color", CHANNELS)
@pytest.mark.parametrize("zeros", [0, 1, 5])
def test_rows_that_are_zeros_and_rows_that_are_not_there(color: int, zeros: int) -> None:
    """Pillow takes each of these streams for all rows; only those with all rows are."""
    for seed in seeds(5):
        values = picture(seed, color, (9, 1 + seed * 7 % 31))
        values[9 - zeros :] = 0
        raw = rows_of(values)
        found = read(png_of_rows(values, color, raw))
        assert np.array_equal(found, values) and found.dtype == np.uint8
        size = len(raw) // 9
        for rows in range(9):
            with pytest.raises(InputError, match=r"a.png must be a whole PNG but is damaged: "):
                read(png_of_rows(values, color, raw[: rows * size]))
    with pytest.raises(InputError, match=rf"31 x 9 pixels are {9 * (31 * CHANNELS[color] + 1)} bytes but it has \d+$"):
        read(png_of_rows(picture(0, color, (9, 31)), color, bytes(8 * (31 * CHANNELS[color] + 1))))


@pytest.mark.smoke
@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 10, 31, 90])
def test_filters_of_regions_and_of_noise(width: int) -> None:
    """What stretches of equal numbers let the library skip, in all filters, beside what they do not."""
    rng = np.random.default_rng(width)
    for color, dtype in itertools.product(CHANNELS, (np.uint8, np.uint16)):
        if color != GREY and dtype == np.uint16:
            continue
        for cells, share, top in ((1, 0.02, 65536), (3, 0.02, 65536), (3, 0.6, 5)):  # the last: many ties
            shape = (10, width, 3) if color == RGB else (10, width)
            values = rng.integers(0, 3, shape) * 0x5A7F % 65536
            lines = [np.sort(rng.integers(0, cells, length)) for length in shape[:2]]
            values = values[lines[0] % 10][:, lines[1] % width]
            noisy = rng.random(shape[:2]) < share
            values[noisy] = rng.integers(0, top, values[noisy].shape)
            values = values.astype(dtype)
            wide = np.ascontiguousarray(values, values.dtype.newbyteorder(">")).view(np.uint8).reshape(10, -1)
            for filters in [[kind] for kind in range(5)] + [rng.integers(0, 5, 10).tolist()]:
                raw = filtered(wide, [filters[row % len(filters)] for row in range(10)], wide.shape[1] // width)
                header = struct.pack(">IIBBBBB", width, 10, 8 * values.itemsize, color, 0, 0, 0)
                found = read(made(header, chunk(b"IDAT", zlib.compress(raw))))
                assert found.dtype == dtype and np.array_equal(found, values) and not found.flags.writeable


@pytest.mark.parametrize("color", CHANNELS)
def test_bytes_after_the_rows_are_no_pixels(color: int) -> None:
    for last in (0, 1):
        values = picture(1, color, (9, 31))
        values[-1] = last
        for more in (1, 31, 10_000):
            assert np.array_equal(read(png_of_rows(values, color, rows_of(values) + bytes(more))), values)


@pytest.mark.parametrize("color", CHANNELS)
@pytest.mark.parametrize("interlaced", [0, 1])
def test_programs_that_have_pillow_load_truncated_images(
    color: int, interlaced: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow then leaves zeros from the first row that it cannot restore."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    values = picture(2, color, (2, 1) if interlaced else (9, 31))  # two passes of one row, or one of nine
    raw = rows_of(values, (0, 0))
    size = len(raw) // len(values)
    assert np.array_equal(read(png_of_rows(values, color, raw, interlaced=interlaced)), values)
    for row in range(len(values)):
        bad = raw[: row * size] + b"\5" + raw[row * size + 1 :]
        for damaged in (bad, raw[: row * size], raw[: row * size + 1]):
            with pytest.raises(InputError, match=r"a.png must be a whole PNG but is damaged: "):
                read(png_of_rows(values, color, damaged, interlaced=interlaced))


@pytest.mark.parametrize("color", CHANNELS)
@pytest.mark.filterwarnings("error")
def test_parts_that_are_not_of_the_pixels_change_none(color: int) -> None:
    values = picture(3, color, (9, 31))
    raw = rows_of(values)
    frame = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 3, 3, 1, 1, 1, 1, 0, 0))
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**7)))
    for part in (frame, text, chunk(b"iCCP", b"damaged"), chunk(b"tRNS", b"\1"), chunk(b"eXIf", b"")):
        assert np.array_equal(read(png_of_rows(values, color, raw, part)), values)


@pytest.mark.parametrize("color", CHANNELS)
def test_flipped_and_lost_bytes_never_give_other_numbers(color: int) -> None:
    """Small pictures in one block of zlib, where Pillow alone gives others for one change in ten."""
    values = picture(4, color, (3, 5)) % 3
    content = png_of_rows(values, color, rows_of(values))
    for at in range(len(content)):
        for bit in range(8):
            changed = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
            with pytest.raises(InputError, match=r"^a.png must be "):
                read(changed)
        with pytest.raises(InputError, match=r"^a.png must be "):
            read(content[:at])
