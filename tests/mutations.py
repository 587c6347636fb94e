"""Damaged copies of documents, files and states that keep their outer form, so that readers get to what is deep inside.

Checksums and lengths are made right again where a reader would look no further otherwise.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.inputs.mutations import mutated

EXTREMES: tuple[Any, ...] = (
    0, 1, -1, 2, 0.5, -0.0, 255, 256, 65_536, 2**24, 2**31 - 1, 2**31, -(2**31) - 1, 2**32 - 1, 2**32, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 1e-320, 1e16, 1e308, -1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, "", "0", "1", "abc", "\x00", "\ud800", "\U0001f600" * 9, "x" * 5000, [], {}, [[]], [{}], [None],
    [0, 0], [[1, 2]], {"size": [2, 2], "counts": [4]}, {"id": 1},
)  # fmt: skip
"""Values of other kinds than numbers."""

Rng = random.Random
Child = tuple[Any, Any]


def _children(node: Any) -> list[Child]:
    if isinstance(node, dict):
        return [(node, key) for key in node]
    return [(node, place) for place in range(len(node))] if isinstance(node, list) else []


def _place(rng: Rng, whole: Any) -> Child | None:
    """A random place in a tree, deep ones as likely as shallow ones: the container, and the key or index in it."""
    found: Child | None = None
    node = whole
    while children := _children(node):
        found = children[rng.randrange(len(children))]
        node = found[0][found[1]]
        if rng.random() < 0.12:
            break
    return found


def _extreme(rng: Rng, value: Any) -> Any:
    return rng.choice(EXTREMES)


def _odd(rng: Rng, value: Any) -> Any:
    return copy.deepcopy(rng.choice(ODD))


def _near(rng: Rng, value: Any) -> Any:
    """A number that is off by little, a text or list that is off by one."""
    if isinstance(value, (int, float)):
        return value + rng.choice((1, -1, 0.5, -0.25, 1e-9))
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        return (
            value[:at]
            + rng.choice(("", "0", "\\", "é", "P", "~", "/", "..", chr(rng.randrange(32, 127))))
            + value[at + rng.randrange(2) :]
        )
    if isinstance(value, list):
        return value[:-1] if value and rng.random() < 0.5 else [*value, *(value[:1] or [0])]
    return value


def _nested(rng: Rng, value: Any) -> Any:
    for _ in range(rng.choice((1, 1, 2, 7, 99, 101, 300))):
        value = [value] if rng.random() < 0.8 else {"id": value}
    return value


def _other_kind(rng: Rng, value: Any) -> Any:
    """The same in another kind: a number as text, a list as an object, an object as the list of its values."""
    if isinstance(value, list):
        return {str(place): item for place, item in enumerate(value)}
    if isinstance(value, dict):
        return list(value.values())
    return str(value) if rng.random() < 0.5 else [value]


_VALUES: tuple[Callable[[Rng, Any], Any], ...] = (_extreme, _extreme, _extreme, _odd, _odd, _near, _near, _nested)


def _change(rng: Rng, whole: Any, other: Any) -> None:
    """Changes one place of a tree."""
    if (place := _place(rng, whole)) is None:
        return
    node, key = place
    kind = rng.randrange(16)
    if kind < 9:
        node[key] = rng.choice((*_VALUES, _other_kind))(rng, node[key])
    elif kind == 9:
        del node[key]
    elif kind == 10 and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif kind == 10:
        node[rng.choice((f"{key}2", str(key).upper(), "", "id", "size"))] = node.pop(key)
    elif kind == 11 and (elsewhere := _place(rng, whole)) is not None:
        node[key] = copy.deepcopy(elsewhere[0][elsewhere[1]])
    elif kind == 12 and isinstance(node, list):
        rng.shuffle(node)
    elif kind == 13 and isinstance(node, list):
        del node[key:]
    elif (elsewhere := _place(rng, other)) is not None:
        node[key] = copy.deepcopy(elsewhere[0][elsewhere[1]])


def changed(rng: Rng, document: Any, other: Any = None) -> Any:
    """A copy of a document of JSON with one to four places changed.

    Args:
        rng: says what is changed.
        document: of objects and lists.
        other: one from which values are taken over; default: the same.
    """
    whole = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(rng, whole, document if other is None else other)
    return whole


def changed_json(rng: Rng, document: Any, other: Any = None) -> bytes:
    """The text of a changed document, or a text with damaged bytes, or one that was cut and goes on as another."""
    if rng.random() < 0.7:
        document = changed(rng, document, other)
    ascii_only, gaps = rng.random() < 0.5, rng.choice((None, 1)) if rng.random() < 0.2 else None
    text = json.dumps(document, ensure_ascii=ascii_only, indent=gaps).encode("utf-8", "surrogatepass")
    kind = rng.random()
    if kind < 0.25:
        return mutated(text, rng.randrange(2**32))
    if kind < 0.3 and other is not None:
        return spliced(rng, text, json.dumps(other).encode())
    if kind < 0.33:
        return rng.choice((b"\xef\xbb\xbf" + text, text + text, b" " * 99 + text, text.replace(b'"', b"'")))
    return text


def spliced(rng: Rng, data: bytes, other: bytes) -> bytes:
    """The beginning of one and the end of the other."""
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def numbers_changed(rng: Rng, data: bytes) -> bytes:
    """Bytes with one to three integers of 1, 2, 4 or 8 bytes replaced by extremes, or damaged as any bytes."""
    if rng.random() < 0.3 or not data:
        return mutated(data, rng.randrange(2**32))
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        size = rng.choice((1, 2, 4, 8))
        value = rng.choice([each for each in EXTREMES if isinstance(each, int)]) % 2 ** (8 * size)
        at = rng.randrange(len(found))
        if rng.random() < 0.3:
            found[at] = (found[at] + rng.choice((1, -1))) % 256
        else:
            at -= at % size if rng.random() < 0.7 else 0
            part = value.to_bytes(size, rng.choice(("little", "big")))
            found[at : at + size] = part[: len(found) - at]
    return bytes(found)


# ------------------------------------------------------------------------------------------------------------ RLE


def changed_runs(rng: Rng, runs: list[int]) -> list[int]:
    """Run lengths of the same sum: pixels moved from run to run, runs of nothing, pairs far too long and too short."""
    found = list(runs)
    for _ in range(rng.randrange(4)):
        one, other = rng.randrange(len(found)), rng.randrange(len(found))
        moved = rng.choice(
            (1, found[one], found[one] + 1, 2**15, 2**31, 2**32, 2**63 - 1) if rng.random() < 0.1 else (1,)
        )
        moved = moved if rng.random() < 0.3 else rng.randrange(max(found[one], 0) + 1)
        found[one], found[other] = found[one] - moved, found[other] + moved
        if rng.random() < 0.4:
            found[one:one] = [0] * rng.choice((1, 2, 2, 3, 64))
    return found


def packed_runs(rng: Rng, runs: list[int]) -> bytes:
    """Compressed run lengths, some of them with more letters than they need."""
    found = bytearray()
    for place, run in enumerate(runs):
        left = run - (runs[place - 2] if place > 2 else 0)
        more = True
        while more:
            letter, left = left & 31, left >> 5
            more = left != (-1 if letter & 16 else 0) or rng.random() < 0.01
            found.append(48 + letter + 32 * more)
    return bytes(found)


def changed_counts(rng: Rng, counts: bytes) -> bytes:
    """Compressed run lengths with letters changed, most of them to others that may stand there."""
    found = bytearray(counts)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at = rng.randrange(len(found) + 1)
        letter = rng.randrange(48, 112) if rng.random() < 0.85 else rng.randrange(256)
        kind = rng.randrange(5)
        if kind == 0:
            found.insert(at, letter)
        elif kind == 1:
            del found[at : at + rng.randrange(1, 4)]
        elif kind == 2:
            found[at:at] = bytes([rng.choice((80, 111, 127))]) * rng.choice((1, 6, 7, 13, 40))
        elif at < len(found):
            found[at] = letter
    return bytes(found)


# ------------------------------------------------------------------------------------------------------------ PNG


def png_chunk(kind: bytes, content: bytes) -> bytes:
    """A part of a PNG with its checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 8
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        found.append((kind, data[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def _repacked(rng: Rng, content: bytes) -> bytes:
    """Compressed bytes of changed content; sometimes of a little more or less of it."""
    try:
        raw = numbers_changed(rng, zlib.decompress(content))
    except zlib.error:  # of a part that was changed before
        return content
    raw = rng.choice((raw,) * 9 + (raw[: -rng.randrange(1, 9)], raw + bytes(rng.randrange(1, 9))))
    return zlib.compress(raw, rng.choice((0, 1, 9)))


def changed_png(rng: Rng, data: bytes) -> bytes:
    """A PNG with a changed header, pixels or order of parts; most of them with right checksums."""
    if rng.random() < 0.15:
        return mutated(data, rng.randrange(2**32))
    parts = _png_chunks(data)
    for _ in range(rng.choice((1, 1, 2))):
        pixels = [place for place, part in enumerate(parts) if part[0] == b"IDAT"]
        at = rng.choice(pixels) if pixels and rng.random() < 0.5 else rng.randrange(len(parts))
        kind, content = parts[at]
        how = rng.randrange(8)
        if how < 3 and kind == b"IHDR" and len(content) == 13:
            field = bytearray(content)
            place = rng.randrange(13)
            field[place] = rng.choice((0, 1, 2, 3, 4, 6, 7, 8, 16, 17, 128, 255, (field[place] + 1) % 256))
            content = bytes(field)
        elif how < 3 and kind == b"IDAT":
            content = _repacked(rng, content)
        elif how == 3:
            content = numbers_changed(rng, content)
        elif how == 4:
            kind = rng.choice((b"IDAT", b"IHDR", b"IEND", b"PLTE", b"tEXt", b"acTL", b"ABCD", b"\x00\xff\x00a"))
        parts[at : at + 1] = [(kind, content)] * (how != 5) + [(kind, content)] * (how == 6)
        if how == 7:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(parts or [(b"IDAT", b"")]))
        if not parts:
            break
    whole = data[:8] + b"".join(png_chunk(*part) for part in parts)
    return numbers_changed(rng, whole) if rng.random() < 0.1 else whole


# ---------------------------------------------------------------------------------------------------- npy and npz

_DTYPES = ("|u1", "<i2", ">i4", "<i8", "<u8", "<f8", "<f2", "|b1", "|O", "<c16", "<U9", "<M8[s]", "|V4", "<f16", "x")


def changed_npy(rng: Rng, array: Any) -> bytes:
    """An npy file with a header of other values, or of other text, or with damaged bytes."""
    out = io.BytesIO()
    np.save(out, array)
    whole = out.getvalue()
    if rng.random() < 0.25:
        return numbers_changed(rng, whole)
    start = 10 + int.from_bytes(whole[8:10], "little")
    head = {"descr": array.dtype.str, "fortran_order": False, "shape": tuple(array.shape)}
    shape = list(array.shape)
    how = rng.randrange(10)
    if how == 0:
        head["descr"] = rng.choice(_DTYPES)
    elif how == 1 and shape:
        shape[rng.randrange(len(shape))] = rng.choice((*EXTREMES, "3", None, [2], True))
        head["shape"] = tuple(shape)
    elif how == 2:
        head["shape"] = rng.choice(((), (1,), shape[::-1], (*shape, 1), (0, *shape), (2**40, 2**40), (-1,), None, {}))
    elif how == 3:
        head["fortran_order"] = rng.choice((True, 1, None, "no"))
    elif how == 4:
        head = changed(rng, head) if rng.random() < 0.5 else {**head, "more": 1}
    text = (repr(head).encode("utf-8", "surrogatepass") + b" " * 40).ljust(start - 11) + b"\n"
    text = mutated(text, rng.randrange(2**32)) if how == 5 else text
    version = rng.choice((1, 1, 1, 1, 2, 2, 3, 0, 255))
    size = len(text) + rng.choice((0,) * 8 + (1, -1))
    length = max(size, 0).to_bytes(2 if version == 1 else 4, "little")
    content = whole[start:]
    content = rng.choice((content, content, content[:-1], content + b"0"))
    return whole[:6] + bytes((version, 0)) + length + text + content


def zipped(rng: Rng, members: dict[str, bytes]) -> bytes:
    """A zip file of the members, some of it changed: a name, an entry, the whole."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            name = rng.choice(("", "../a.npy", "a" * 300, "b", "a/b.npy")) if rng.random() < 0.05 else name
            archive.writestr(name or "x", content)
    whole = out.getvalue()
    return numbers_changed(rng, whole) if rng.random() < 0.4 else whole


# --------------------------------------------------------------------------------------------------------- states


def changed_checked(rng: Rng, data: bytes) -> bytes:
    """A file of magic (8 bytes), version and size of a JSON head (32 bits each), head, content and CRC-32, made right
    again.
    """
    if rng.random() < 0.1:
        return numbers_changed(rng, data)
    size = struct.unpack_from("<I", data, 12)[0]
    head, content = json.loads(data[16 : 16 + size]), data[16 + size : -4]
    if rng.random() < 0.5:
        head = changed(rng, head)
    else:
        content = numbers_changed(rng, content)
        if isinstance(head.get("bytes"), int):
            head["bytes"] = len(content)
    text = json.dumps(head).encode("utf-8", "surrogatepass")
    text = mutated(text, rng.randrange(2**32)) if rng.random() < 0.05 else text
    whole = data[:12] + struct.pack("<I", len(text) + rng.choice((0, 0, 0, 0, 0, 0, 1, -1))) + text + content
    return whole + struct.pack("<I", zlib.crc32(whole))


def digest(whole: bytes) -> bytes:
    """The last bytes of a file of ``save_state`` whose other bytes are these."""
    return hashlib.sha256(whole).digest()


def changed_state(rng: Rng, data: bytes) -> bytes:
    """A file of ``save_state`` with changed choices, document, forms or arrays, and the digest of its content."""
    if rng.random() < 0.1:
        return numbers_changed(rng, data)
    size = struct.unpack_from("<Q", data, 12)[0]
    head, content = json.loads(data[20 : 20 + size]), data[20 + size : -32]
    parts: dict[str, bytes] = {}
    for name, about in head["arrays"].items():
        parts[name], content = content[: about["bytes"]], content[about["bytes"] :]
    kind = rng.random()
    if kind < 0.5 and parts:
        name = rng.choice(sorted(parts))
        about, part = head["arrays"][name], parts[name]
        plain = zlib.decompress(part) if about["zlib"] else part
        if rng.random() < 0.5 and plain[:8] == b"VALORST\n":
            plain = changed_checked(rng, plain)
        else:
            plain = numbers_changed(rng, plain)
        parts[name] = zlib.compress(plain) if about["zlib"] else plain
        about["bytes"] = len(parts[name])
        if len(about["shape"]) == 1:
            about["shape"] = [len(plain) // np.dtype(about["dtype"]).itemsize]
    elif kind < 0.8:
        key = rng.choice(("choices", "arrays"))
        head[key] = changed(rng, head[key])
    else:
        head = changed(rng, head)
    text = json.dumps(head).encode("utf-8", "surrogatepass")
    text = mutated(text, rng.randrange(2**32)) if rng.random() < 0.05 else text
    whole = data[:12] + struct.pack("<Q", len(text)) + text + b"".join(parts.values())
    return whole + digest(whole)
