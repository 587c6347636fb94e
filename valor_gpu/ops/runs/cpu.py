"""Run lengths of masks on the CPU, over numpy arrays: strings, measures, merging, IoU, dense masks. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.runs.op import MAX_PIXELS, Runs, check_sizes

RunWords = type(
    "RunWords",
    (ctypes.Structure,),
    {"_fields_": [(name, ctypes.c_int64) for name in ("counts", "offsets", "sizes", "masks")]},
)
"""Runs of csrc/core/runs.h."""

Strings = tuple[NDArray[np.uint8], NDArray[np.int64]]
Place = Callable[[int], str]


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _counts_of(mask: int) -> str:
    return f"counts of mask {mask}"


def run_words(runs: Runs, check: bool = True) -> tuple[bytes, Runs]:
    """The words by which C++ reads ``runs``, and the arrays that must live as long.

    Args:
        runs: numpy arrays.
        check: whether the runs of every mask are looked at. Without it C++ may write where nothing is for runs that
            are none.

    Raises:
        InputError: on other dtypes, offsets that do not ascend inside ``counts``, or naming the first mask whose runs
            are negative or do not add up to its height x width.
    """
    for name, dtype in (("counts", "int32"), ("offsets", "int64"), ("sizes", "int32")):
        if getattr(runs, name).dtype != dtype:
            raise InputError(f"{name} of runs must have dtype {dtype} but got {getattr(runs, name).dtype}")
    kept = Runs(*map(np.ascontiguousarray, (runs.counts, runs.offsets, check_sizes(runs.sizes))))
    check_offsets("offsets of runs", kept.offsets, len(kept), kept.counts.size)
    words = bytes(RunWords(*map(_address, (kept.counts, kept.offsets, kept.sizes)), len(kept)))
    if check:
        bad = np.empty(1, np.int64)
        native.function("valor_cpu", "valor_check_runs_cpu", "ppq")(words, _address(bad), native.threads())
        if bad[0] >= 0:
            _raise_for_runs(kept, int(bad[0]))
    return words, kept


def check_offsets(name: str, offsets: NDArray[np.int64], rows: int, values: int) -> None:
    """Raises :class:`InputError` unless ``rows + 1`` offsets ascend from at least 0 to at most ``values``."""
    if offsets.shape != (rows + 1,):
        raise InputError(f"{name} must have shape [{rows + 1}] but got {list(offsets.shape)}")
    if offsets[0] < 0 or offsets[-1] > values or (offsets[1:] < offsets[:-1]).any():
        raise InputError(f"{name} must ascend from 0 to {values} but got {offsets[:8].tolist()}")


def _raise_for_runs(runs: Runs, mask: int) -> None:
    counts, (height, width) = runs.counts[runs.offsets[mask] : runs.offsets[mask + 1]], runs.sizes[mask].tolist()
    negative = np.flatnonzero(counts < 0)
    if len(negative):
        raise InputError(f"runs of mask {mask} must be at least 0 but run {negative[0]} is {counts[negative[0]]}")
    raise InputError(
        f"runs of mask {mask} must add up to its {height} x {width} pixels, {height * width}, but add up to"
        f" {counts.sum(dtype=np.int64)}"
    )


# ------------------------------------------------------------------------------------------------------------ strings


def decode_strings(text: Any, offsets: Any, sizes: Any, places: Place | None = None) -> Runs:
    """Decodes COCO's compressed strings.

    Args:
        text: uint8 ``[B]`` or bytes, the strings of all masks.
        offsets: int64 ``[N + 1]``: string i is ``text[offsets[i]:offsets[i + 1]]``. An empty one is a mask without
            runs.
        sizes: integers ``[N, 2]``: heights and widths.
        places: what a message calls the string of mask i.

    Raises:
        InputError: naming the first string that holds other characters, ends inside a number, has negative runs, or
            runs that do not add up to height x width.

    Example:
        >>> decode_strings(b"0120", np.array([0, 4]), [[2, 2]]).counts.tolist()
        [0, 1, 2, 1]
    """
    characters = np.ascontiguousarray(np.frombuffer(text, np.uint8) if isinstance(text, bytes) else text)
    if characters.dtype != np.uint8 or characters.ndim != 1:
        raise InputError(f"text must be bytes or uint8 [B] but got {characters.dtype} {list(characters.shape)}")
    checked, starts = check_sizes(sizes), np.ascontiguousarray(offsets, np.int64)
    masks, threads = len(checked), native.threads()
    check_offsets("offsets", starts, masks, characters.size)
    run_offsets, problem = np.empty(masks + 1, np.int64), np.empty(4, np.int64)
    given = _address(characters), _address(starts)
    native.function("valor_cpu", "valor_count_runs_cpu", "ppqpq")(*given, masks, _address(run_offsets), threads)
    counts = np.empty(run_offsets[-1], np.int32)
    native.function("valor_cpu", "valor_decode_runs_cpu", "pppqpppq")(
        *given, _address(checked), masks, _address(run_offsets), _address(counts), _address(problem), threads
    )
    if problem[0] >= 0:
        mask, *what = problem.tolist()
        raise InputError(f"{(places or _counts_of)(mask)} {describe_problem(what, checked[mask].tolist())}")
    return Runs(counts, run_offsets, checked)


def explain_string(text: bytes, height: int, width: int) -> str:
    """What is wrong with a string that ``decode_runs`` of csrc/core/runs.h rejects, to follow its name in a message."""
    problem = np.zeros(3, np.int64)
    explain = native.function("valor_cpu", "valor_explain_runs_cpu", "pqqp")
    explain(text, len(text), height * width, _address(problem))
    return describe_problem(problem.tolist(), [height, width])


def describe_problem(problem: list[int], size: list[int]) -> str:
    """What a RunProblem of csrc/core/runs.h says, to follow the name of a string."""
    error, position, value = problem
    return {
        -1: f"must hold characters from '0' to 'o' but has {bytes([value & 255])!r} at position {position}",
        -2: f"must end with a complete number but breaks off after {position} characters",
        -3: f"must be numbers of at most 12 characters but run {position} has more",
        -4: f"must be runs of at least 0 but run {position} is {value}",
        -5: f"must be runs of at most {MAX_PIXELS} but run {position} is {value}",
        -6: f"must add up to {size[0]} x {size[1]} pixels, {size[0] * size[1]}, but add up to {value}",
    }.get(error, "is a mask")


def encode_strings(runs: Runs) -> Strings:
    """Encodes masks as COCO's compressed strings, byte for byte those of pycocotools.

    Args:
        runs: numpy arrays.

    Returns:
        uint8 ``[B]`` and int64 ``[N + 1]``, as :func:`decode_strings` takes them.

    Example:
        >>> text, _ = encode_strings(Runs(np.array([0, 1, 2, 1], np.int32), np.array([0, 4]), np.array([[2, 2]], "i4")))
        >>> text.tobytes()
        b'0120'
    """
    words, kept = run_words(runs)
    offsets, threads = np.empty(len(kept) + 1, np.int64), native.threads()
    native.function("valor_cpu", "valor_run_characters_cpu", "ppq")(words, _address(offsets), threads)
    text = np.empty(offsets[-1], np.uint8)
    encode = native.function("valor_cpu", "valor_encode_runs_cpu", "pppq")
    encode(words, _address(offsets), _address(text), threads)
    return text, offsets


# ------------------------------------------------------------------------------------------------------------- dense


def from_masks(masks: Any) -> Runs:
    """Returns the runs of dense masks of one size. Rows or columns side by side are read at the speed of memory.

    Args:
        masks: bool or uint8 ``[N, H, W]`` with any strides; every value but 0 is set.

    Raises:
        InputError: on another shape or dtype, or more than ``MAX_PIXELS`` pixels in a mask.

    Example:
        >>> from_masks(np.array([[[0, 1], [1, 1]]], np.uint8)).counts.tolist()
        [1, 3]
    """
    if masks.ndim != 3 or masks.dtype not in (np.bool_, np.uint8):
        raise InputError(f"masks must be bool or uint8 [N, H, W] but got {masks.dtype} {list(masks.shape)}")
    number, height, width = masks.shape
    sizes = np.empty((number, 2), np.int32)
    sizes[:] = check_sizes(np.array([[height, width]]))
    function = native.function("valor_cpu", "valor_masks_to_runs_cpu", "pqqqqqqppq")
    return collected(
        sizes, lambda offsets, made: function(_address(masks), *masks.shape, *masks.strides, offsets, made,
                                              native.threads()))  # fmt: skip


def collected(sizes: NDArray[np.int32], make: Callable[[int, int], object]) -> Runs:
    """Runs of which nobody knows how many there are before ``make`` has made them."""
    offsets, made = np.empty(len(sizes) + 1, np.int64), np.empty(1, np.int64)
    make(_address(offsets), _address(made))
    collect = native.function("valor_cpu", "valor_collect_runs_cpu", "qp")
    try:
        counts = np.empty(offsets[-1], np.int32)
    except MemoryError:
        collect(int(made[0]), 0)
        raise
    collect(int(made[0]), _address(counts))
    return Runs(counts, offsets, sizes)


def to_masks(runs: Runs) -> NDArray[np.uint8]:
    """Returns dense masks, uint8 ``[N, H, W]``, 0 and 1. The pixels of a column lie side by side.

    Args:
        runs: masks of one size.

    Raises:
        InputError: naming the first mask that has another size than the one before.

    Example:
        >>> to_masks(Runs(np.array([1, 3], np.int32), np.array([0, 2]), np.array([[2, 2]], np.int32))).tolist()
        [[[0, 1], [1, 1]]]
    """
    words, kept = run_words(runs)
    other = np.flatnonzero((kept.sizes[1:] != kept.sizes[:-1]).any(1))
    if len(other):
        first, second = kept.sizes[other[0] : other[0] + 2].tolist()
        raise InputError(
            f"masks must have one size but mask {other[0]} is {first[0]} x {first[1]} and mask {other[0] + 1} is"
            f" {second[0]} x {second[1]}"
        )
    height, width = kept.sizes[0].tolist() if len(kept) else (0, 0)
    columns = np.empty((len(kept), width, height), np.uint8)
    native.function("valor_cpu", "valor_runs_to_masks_cpu", "ppq")(words, _address(columns), native.threads())
    return columns.transpose(0, 2, 1)


# ---------------------------------------------------------------------------------------------------------- measures


def areas(runs: Runs) -> NDArray[np.int64]:
    """Returns the number of set pixels of each mask, int64 ``[N]``."""
    words, kept = run_words(runs)
    found = np.empty(len(kept), np.int64)
    native.function("valor_cpu", "valor_measure_runs_cpu", "pppq")(words, _address(found), 0, native.threads())
    return found


def boxes(runs: Runs) -> NDArray[np.float64]:
    """Returns the bounding box of each mask, float64 ``[N, 4]``: left, top, width, height.

    A run of ones that goes on in the next column spans all rows, as in pycocotools. A mask without pixels has a box
    of zeros.
    """
    words, kept = run_words(runs)
    found, out = np.empty(len(kept), np.int64), np.empty((len(kept), 4))
    measure = native.function("valor_cpu", "valor_measure_runs_cpu", "pppq")
    measure(words, _address(found), _address(out), native.threads())
    return out


def iou(runs: Runs, gt_runs: Runs, crowd: Any = None) -> NDArray[np.float64]:
    """IoU of every mask with every ground truth, float64 ``[D, G]``.

    Args:
        runs: D masks.
        gt_runs: G masks.
        crowd: bool ``[G]``: intersection over the area of the mask of ``runs``.

    Returns:
        From 0 to 1; -1 where heights or widths differ and boxes meet, as in pycocotools.

    Example:
        >>> runs = from_masks(np.array([[[0, 1], [1, 1]], [[0, 0], [1, 1]]], np.uint8))
        >>> iou(runs, runs).tolist()
        [[1.0, 0.6666666666666666], [0.6666666666666666, 1.0]]
    """
    (words, kept), (gt_words, gt_kept) = run_words(runs), run_words(gt_runs)
    flags = None if crowd is None else np.ascontiguousarray(crowd, np.bool_)
    if flags is not None and flags.shape != (len(gt_kept),):
        raise InputError(f"crowd must have shape [{len(gt_kept)}] but got {list(flags.shape)}")
    out = np.empty((len(kept), len(gt_kept)))
    native.function("valor_cpu", "valor_run_iou_cpu", "ppppq")(
        words, gt_words, 0 if flags is None else _address(flags), _address(out), native.threads()
    )
    return out


def merge(runs: Runs, groups: Any, intersect: bool = False) -> Runs:
    """Returns the union, or the intersection, of the masks of each group.

    Args:
        runs: numpy arrays; the masks of a group have one size.
        groups: int64 ``[M + 1]``: group k holds masks ``groups[k]`` to ``groups[k + 1] - 1``, at least one.
        intersect: intersections in place of unions.

    Raises:
        InputError: naming the first group that is empty or has masks of different sizes.

    Example:
        >>> runs = from_masks(np.array([[[0, 1]], [[1, 0]]], np.uint8))
        >>> merge(runs, [0, 2]).counts.tolist(), merge(runs, [0, 2], intersect=True).counts.tolist()
        ([0, 2], [2])
    """
    words, kept = run_words(runs)
    starts = np.ascontiguousarray(groups, np.int64)
    check_offsets("groups", starts, max(starts.size - 1, 0), len(kept))
    lengths = np.diff(starts)
    if not lengths.all():
        raise InputError(f"groups must hold at least one mask but group {lengths.argmin()} is empty")
    firsts = np.repeat(starts[:-1], lengths)
    other = np.flatnonzero((kept.sizes[starts[0] : starts[-1]] != kept.sizes[firsts]).any(1))
    if len(other):
        mask, first = int(starts[0] + other[0]), int(firsts[other[0]])
        raise InputError(
            f"masks of a group must have one size but mask {first} is {kept.sizes[first].tolist()} and mask {mask} is"
            f" {kept.sizes[mask].tolist()}"
        )
    function = native.function("valor_cpu", "valor_merge_runs_cpu", "ppqqppq")
    return collected(
        np.ascontiguousarray(kept.sizes[starts[:-1]]),
        lambda offsets, made: function(
            words, _address(starts), len(lengths), intersect, offsets, made, native.threads()
        ),
    )
