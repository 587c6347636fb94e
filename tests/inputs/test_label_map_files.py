"""Label maps in files: every form gives what it stores, and what cannot be read is an error that names the file."""

from __future__ import annotations

import importlib.util
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.png_files import SIGNATURE, chunk, made, png_of, raw_of
from tests.fuzz import seeds
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.inputs import label_map_files
from valor_gpu.inputs.label_map_files import LabelMapReader

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

READER = LabelMapReader()
PALETTE = chunk(b"PLTE", bytes(255 - i // 3 for i in range(768)))


def saved(folder: Path, content: bytes, name: str = "a.png") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(("depth", "color"), [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (1, 3), (2, 3), (4, 3), (8, 3)])
def test_png_gives_the_indices_that_it_stores(depth: int, color: int, tmp_path: Path) -> None:
    for seed in seeds(9):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2**depth, rng.integers(1, 40, 2))
        labels.flat[-1] = 2**depth - 1
        filters, extra = rng.permutation(5), [PALETTE] if color == 3 else []
        found = READER.read(saved(tmp_path, png_of(labels, depth, color, *extra, filters=filters.tolist())))
        assert found.dtype.kind in "iub" and np.array_equal(found, labels)
        assert found.dtype.itemsize == 1 or depth == 16


@pytest.mark.smoke
@pytest.mark.parametrize("depth", [1, 8, 16])
def test_every_filter_on_the_smallest_pictures(depth: int, tmp_path: Path) -> None:
    for seed in range(25):
        labels = np.random.default_rng(seed).integers(0, 2**depth, (seed % 5 + 1, seed // 5 + 1))
        path = saved(tmp_path, png_of(labels, depth, filters=(seed % 5, 4, 1)))
        assert np.array_equal(READER.read(path), labels)


@pytest.mark.parametrize("mode", ["L", "P", "1", "I;16"])
def test_png_of_pillow(mode: str, tmp_path: Path) -> None:
    labels = np.random.default_rng(1).integers(0, {"1": 2, "I;16": 65536}.get(mode, 256), (33, 65))
    stored = labels.astype({"1": np.bool_, "I;16": np.uint16}.get(mode, np.uint8))
    picture = Image.fromarray(stored)
    if mode == "P":
        picture = Image.frombytes("P", (65, 33), stored.tobytes())
        picture.putpalette([7, 200, 31] * 256)  # all colours are the same, indices are not
        picture.info["transparency"] = 3
    assert picture.mode == mode
    picture.save(tmp_path / "a.PNG")
    found = READER.read(str(tmp_path / "a.PNG"))
    assert np.array_equal(found, labels)


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (5, 4), (8, 8), (9, 17)])
@pytest.mark.parametrize("depth", [1, 2, 8, 16])
def test_interlaced_png(size: tuple[int, int], depth: int, tmp_path: Path) -> None:
    """Passes of ISO/IEC 15948, 8.2, each a picture of its own."""
    width, height = size
    labels = np.random.default_rng(depth).integers(0, 2**depth, (height, width))
    raw = b""
    for x, y, across, down in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        part = labels[y::down, x::across]
        raw += raw_of(part, depth, (0,)) if part.size else b""
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 1)
    found = READER.read(saved(tmp_path, made(header, chunk(b"IDAT", zlib.compress(raw)))))
    assert np.array_equal(found, labels)
    for lost in (1, part.shape[1] * depth // 8 + 1):  # of part of a row, or of rows, Pillow finds the first
        with pytest.raises(InputError, match=r"a.png must be a whole PNG but is damaged: "):
            READER.read(saved(tmp_path, made(header, chunk(b"IDAT", zlib.compress(raw[:-lost])))))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "<i2", ">i2", "u2", "i4", ">u4", "i8", ">i8", "u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_and_npz_of_every_integer_type(dtype: str, order: str, tmp_path: Path) -> None:
    labels = np.array(np.random.default_rng(2).integers(0, 2, (5, 7)), dtype, order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", labels)
    np.savez(tmp_path / "b.npz", labels)
    np.savez_compressed(tmp_path / "c.npz", pixels=labels)
    for name in ("a.npy", "b.npz", "c.npz"):
        found = READER.read(str(tmp_path / name))
        assert np.array_equal(found, labels) and found.dtype.isnative


@pytest.mark.parametrize("dtype", ["f2", "<f4", ">f4", "f8"])
def test_logits_are_for_predictions(dtype: str, tmp_path: Path) -> None:
    logits = np.random.default_rng(3).normal(size=(3, 4, 5)).astype(dtype)
    np.save(tmp_path / "a.npy", logits)
    found = LabelMapReader(logits=True).read(str(tmp_path / "a.npy"))
    assert np.array_equal(found, logits) and found.dtype.isnative
    with pytest.raises(InputError, match=r"a.npy must hold integers \[height, width\] but has .* \[3, 4, 5\]$"):
        READER.read(str(tmp_path / "a.npy"))


def test_the_key_chooses_an_array(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    np.savez(path, pred=np.eye(2, dtype=int), score=np.ones((2, 2)))
    assert LabelMapReader("pred").read(path).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(InputError, match=r"--gt-key must be given for .*a.npz, which has the arrays pred, score$"):
        LabelMapReader(key_option="--gt-key").read(path)
    with pytest.raises(InputError, match=r"a.npz must have an array found but has the arrays pred, score$"):
        LabelMapReader("found").read(path)
    np.savez(path)
    with pytest.raises(InputError, match=r"a.npz, which has no arrays"):
        READER.read(path)


HEADER = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
GOOD = png_of(np.eye(2, dtype=int), 8)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must be a PNG but begins with b''"),
        (b"\xff\xd8\xff\xe0 jpeg", r"must be a PNG but begins with b'.xff.xd8"),
        (SIGNATURE, "must be a whole PNG but is truncated after 8 bytes"),
        (GOOD[:-12], "must be a whole PNG but is truncated"),
        (GOOD[:-20], "must be a whole PNG but is truncated"),
        (GOOD[:45] + bytes([GOOD[45] ^ 1]) + GOOD[46:], "checksum of its part at byte 33 is wrong"),
        (SIGNATURE + chunk(b"IEND", b""), "must be a PNG with one header at its beginning but has IEND"),
        (made(HEADER, chunk(b"IHDR", HEADER)), "must be a PNG with one header at its beginning but has IHDR"),
        (made(HEADER[:-1]), "its header has 12 bytes"),
        (made(HEADER, chunk(b"acTL", bytes(8))), "must be one picture but is an animation"),
        (made(HEADER, chunk(b"ABCD", b"")), "has an unknown part b'ABCD'"),
        (made(HEADER), "must be a whole PNG but is damaged"),
        (made(HEADER, chunk(b"IDAT", b"not deflate")), "must be a whole PNG but is damaged"),
        (made(HEADER, chunk(b"IDAT", zlib.compress(b"\0\1\1"))), "2 x 2 pixels are 6 bytes but it has 3$"),
        (made(HEADER, chunk(b"IDAT", zlib.compress(b"\0\1\1\0"))), "must be a whole PNG but is damaged: "),
        (made(HEADER, chunk(b"IDAT", zlib.compress(b"\0\1\1\5\1\1"))), "must be a whole PNG but is damaged: "),
        (made(struct.pack(">IIBBBBB", 0, 2, 8, 0, 0, 0, 0)), "must be a PNG but is damaged: its header is 00000000"),
        (made(struct.pack(">IIBBBBB", 2, 2, 3, 0, 0, 0, 0)), "must be a PNG but is damaged: its header is"),
        (made(struct.pack(">IIBBBBB", 2, 2, 16, 3, 0, 0, 0)), "must be a PNG but is damaged: its header is"),
        (made(struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 2)), "must be a PNG but is damaged: its header is"),
        (made(struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)), "has RGB: save the indices of the classes"),
        (made(struct.pack(">IIBBBBB", 2, 2, 8, 4, 0, 0, 0)), "has grey with transparency: save the indices"),
        (made(struct.pack(">IIBBBBB", 2, 2, 8, 6, 0, 0, 0)), "has RGB with transparency: save the"),
        (made(struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 0, 0, 0, 0), chunk(b"IDAT", bytes(99))),
         "must expand at most 256 times but 99 bytes stand for 4,611,686,014,132,420,609 values: if that is"),
    ],
)  # fmt: skip
def test_damaged_png(content: bytes, said: str, tmp_path: Path) -> None:
    path = saved(tmp_path, content)
    with pytest.raises(InputError, match=said) as caught:
        READER.read(path)
    assert str(caught.value).startswith(path)


def test_text_and_dates_of_a_png_are_not_read(tmp_path: Path) -> None:
    bomb = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**8)))
    content = png_of(np.eye(3, dtype=int), 2, 0, bomb, chunk(b"iCCP", b"damaged"), chunk(b"tRNS", b"\0\1"))
    assert READER.read(saved(tmp_path, content)).tolist() == np.eye(3).tolist()


def npy(shape: str, descr: str = "'<i4'", data: bytes = bytes(16), version: bytes = b"\1\0") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(header))
    return b"\x93NUMPY" + version + size + header + data


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must be npy but is damaged"),
        (b"\x93NUMPY\1\0\xff\xff", "must be npy but is damaged"),
        (npy("(2, 2)")[:-1], "must have 16 bytes of values but is truncated to 15"),
        (npy("(2, 10000000000000)"), "must have 80000000000000 bytes of values but is truncated to 16"),
        (npy("(-2, -2)"), r"must have a shape but is damaged: \[-2, -2\]"),
        (npy("(2, 2"), "must be npy but is damaged"),
        (npy("(2, 2)", "'|O'"), "must hold numbers but has object"),
        (npy("(2, 2)", "'<U1'"), "must hold numbers but has <U1"),
        (npy("(2, 2)", "[('a', '<i4')]"), "must hold numbers but has "),
        (npy("(2, 2)", "'<i4'", version=b"\3\0"), "must hold plain numbers but is npy of version 3.0"),
        (npy("(4,)"), r"must hold integers \[height, width\] but has int32 \[4\]$"),
        (npy("(1, 2, 2)"), r"but has int32 \[1, 2, 2\]: save one map of class indices per file$"),
        (npy("(2, 2)", "'<f4'"), r"but has float32 \[2, 2\]: save class indices as integers, for a bin"),
        (npy("(1, 2)", "'<c8'"), r"but has complex64 \[1, 2\]$"),
        (npy("(" * 3000 + ")" * 3000), "must be npy but is damaged"),
    ],
)  # fmt: skip
def test_damaged_arrays(content: bytes, said: str, tmp_path: Path) -> None:
    path = saved(tmp_path, content, "a.npy")
    with pytest.raises(InputError, match=said) as caught:
        READER.read(path)
    assert str(caught.value).startswith(path)
    packed = str(tmp_path / "a.npz")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(InputError, match=said.replace("be npy", "be npz").replace("is truncated to", "has")):
        READER.read(packed)


def test_version_2_of_npy(tmp_path: Path) -> None:
    assert READER.read(saved(tmp_path, npy("(2, 2)", version=b"\2\0"), "a.npy")).tolist() == [[0, 0], [0, 0]]


def test_npz_that_are_none_or_changed(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, labels=np.arange(12).reshape(3, 4))
    content = buffer.getvalue()
    at = content.index(np.arange(12).tobytes()) + 8
    changed = content[:at] + b"\x05" + content[at + 1 :]
    for damaged in (b"", b"PK\3\4", content[:-30], changed):
        with pytest.raises(InputError, match=r"a.npz must be npz but is damaged: "):
            READER.read(saved(tmp_path, damaged, "a.npz"))


def test_next_to_nothing_does_not_become_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_map_files, "FREE_PIXELS", 10_000)
    small, large = np.zeros((100, 100), np.uint8), np.zeros((1000, 1000), np.uint8)
    noise = np.random.default_rng(0).integers(0, 2, (1000, 1000)).astype(np.uint8)
    for labels in (small, large, noise):
        np.savez_compressed(tmp_path / "a.npz", labels)
        Image.fromarray(labels).save(tmp_path / "a.png")
        for name in ("a.npz", "a.png"):
            if labels is not large:
                assert np.array_equal(READER.read(str(tmp_path / name)), labels)
                continue
            with pytest.raises(
                InputError, match=rf"{name} must expand at most 256 times but [\d]+ bytes stand for 1,0"
            ):
                READER.read(str(tmp_path / name))


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    for name in ("pipe.png", "folder.png"):
        with pytest.raises(InputError, match=f"{name} must be a regular file but is not"):
            READER.read(str(tmp_path / name))
    with pytest.raises(InputError, match=r"a.jpg must be a file whose name ends in .png, .npy, .npz"):
        READER.read(saved(tmp_path, b"", "a.jpg"))
    with pytest.raises(FileNotFoundError, match=r"none.png"):
        READER.read(str(tmp_path / "none.png"))


@pytest.mark.parametrize("form", ["png", "npy", "npz"])
def test_flipped_and_lost_bytes_never_give_other_labels(form: str, tmp_path: Path) -> None:
    """A changed byte gives the same labels (where it is not of them) or an error; in npy, which has no checksum,
    labels may change but not crash."""
    labels = np.random.default_rng(4).integers(0, 3, (9, 11)).astype(np.uint8)
    path = tmp_path / f"a.{form}"
    write: dict[str, Callable[[], Any]] = {
        "png": lambda: path.write_bytes(png_of(labels, 4, 3, PALETTE)),
        "npy": lambda: np.save(path, labels),
        "npz": lambda: np.savez_compressed(path, labels),
    }
    write[form]()
    content = path.read_bytes()
    for seed in seeds(300):
        rng = np.random.default_rng(seed)
        at = int(rng.integers(len(content)))
        changed = bytearray(content[:at] if seed % 3 == 0 else content)
        if seed % 3:
            changed[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(changed))
        try:
            found = READER.read(str(path))
        except InputError as error:
            assert str(path) in str(error)
        else:
            assert form == "npy" or np.array_equal(found, labels), (seed, at)


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 1)
    path = saved(tmp_path, made(header, chunk(b"IDAT", zlib.compress(bytes(2)))))
    assert READER.read(path).tolist() == [[0]]
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "PIL" else find(name, *a))
    with pytest.raises(MissingExtraError, match=r"needs Pillow: pip install 'valor_gpu\[images\]'"):
        READER.read(path)
    np.save(tmp_path / "a.npy", np.eye(2, dtype=int))
    assert READER.read(str(tmp_path / "a.npy")).tolist() == [[1, 0], [0, 1]]
