"""Masks as COCO's dicts of run lengths. No torch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops.runs import cpu as codec
from valor_gpu.ops.runs.op import MAX_PIXELS, Runs

Rle = dict[str, Any]
_TEXTS = (str, bytes, bytearray, memoryview)


def to_dicts(runs: Runs) -> list[Rle]:
    """Returns masks as dicts whose counts are compressed strings, bytes."""
    text, offsets = codec.encode_strings(runs)
    whole, ends = text.tobytes(), offsets.tolist()
    return [{"size": size, "counts": whole[first:end]} for size, first, end in zip(runs.sizes.tolist(), ends, ends[1:])]


def from_dicts(objects: Any, name: str = "rleObjs", positions: Sequence[int] | None = None) -> tuple[Runs, bool]:
    """Returns the runs of a dict or of a list of dicts, and whether it is a list.

    Args:
        objects: ``{"size": [height, width], "counts": ...}`` with str, bytes or a list of integers.
        name: what messages call it.
        positions: what they call the masks of a list; None: 0, 1, ...

    Raises:
        InputError: naming the first that is no mask.

    Example:
        >>> from_dicts({"size": [2, 2], "counts": [1, 3]})[0].counts.tolist()
        [1, 3]
    """
    is_list = isinstance(objects, (list, tuple))
    dicts = list(objects) if is_list else [objects]
    shown = range(len(dicts)) if positions is None else positions
    place: Callable[[int], str] = (lambda i: f"{name}[{shown[i]}]") if is_list else (lambda i: name)
    sizes = [_size(place(i), rle) for i, rle in enumerate(dicts)]
    checked = np.array(sizes, np.int32).reshape(-1, 2)
    if dicts and not any(isinstance(rle["counts"], _TEXTS) for rle in dicts):
        counts = [_listed(place(i), rle, *sizes[i]) for i, rle in enumerate(dicts)]
        return Runs(np.concatenate(counts), np.cumsum([0, *map(len, counts)], dtype=np.int64), checked), is_list
    texts = [_text(place(i), rle, *sizes[i]) for i, rle in enumerate(dicts)]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return codec.decode_strings(b"".join(texts), offsets, checked, lambda i: f"{place(i)}['counts']"), is_list


def _size(place: str, rle: Any) -> tuple[int, int]:
    if not isinstance(rle, dict) or "size" not in rle or "counts" not in rle:
        shown = f"a dict with {', '.join(map(repr, rle)) or 'no keys'}" if isinstance(rle, dict) else type(rle).__name__
        raise InputTypeError(f"{place} must be a dict with 'size' and 'counts' but got {shown}")
    try:
        height, width = map(operator.index, rle["size"])
    except (TypeError, ValueError):
        raise InputError(f"{place}['size'] must be [height, width], two integers, but got {rle['size']!r}") from None
    if height < 0 or width < 0 or height > MAX_PIXELS or width > MAX_PIXELS or height * width > MAX_PIXELS:
        raise InputError(
            f"{place}['size'] must be at least 0 x 0 and have at most {MAX_PIXELS} pixels but is {height} x {width}"
        )
    return height, width


def _text(place: str, rle: Rle, height: int, width: int) -> bytes:
    """The string of a mask; runs that are a list become one."""
    counts = rle["counts"]
    if isinstance(counts, str):
        return counts.encode("utf-8", "surrogatepass")
    if isinstance(counts, (bytes, bytearray, memoryview)):
        return bytes(counts)
    listed = _listed(place, rle, height, width)
    runs = Runs(listed, np.array([0, listed.size]), np.array([[height, width]], np.int32))
    return codec.encode_strings(runs)[0].tobytes()


def _listed(place: str, rle: Rle, height: int, width: int) -> NDArray[np.int32]:
    """The runs of a mask, which are a list."""
    counts = rle["counts"]
    try:
        whole = np.asarray(counts)
        if whole.ndim != 1 or (whole.dtype.kind not in "iu" and whole.size):
            raise ValueError
    except (TypeError, ValueError):
        raise InputTypeError(
            f"{place}['counts'] must be str, bytes or a list of integers but got {counts!r:.40}"
        ) from None
    bad = np.flatnonzero((whole < 0) | (whole > MAX_PIXELS))
    if len(bad):
        raise InputError(f"{place}['counts'] must be runs from 0 to {MAX_PIXELS} but run {bad[0]} is {whole[bad[0]]}")
    total = int(whole.sum(dtype=np.int64))
    if whole.size and total != height * width:
        raise InputError(
            f"{place}['counts'] must add up to {height} x {width} pixels, {height * width}, but add up to {total}"
        )
    return whole.astype(np.int32)
