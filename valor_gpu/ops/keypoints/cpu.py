"""Keypoints on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.cpu import NUMPY, Access, check_dtype
from valor_gpu.ops.assign.match_batch import FLOATS, MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.keypoints.coco_sigmas import COCO_SIGMAS as COCO_SIGMAS
from valor_gpu.ops.pairs.cpu import Columns, Found, Search, columns, find, first_rows, stored, threads_for, words

RowWords = words(
    "RowWords",
    (
        "rows", "firsts", "counts", "images", "type", "keypoints", "points", "areas", "hashes", "target", "boxes",
        "own_areas", "given_flags", "flag_type", "flags", "user",
    ),
)  # fmt: skip
"""KeypointRows of csrc/core/keypoints.h: the rows of one side."""


SimilarityWords = words("SimilarityWords", ("points", "gt_points", "gt_boxes", "gt_areas", "keypoints", "variances"))
"""KeypointSimilarity of csrc/core/keypoints.h: what the similarity of a batch is made of."""


class Keypoints(NamedTuple):
    """Keypoints of a batch, one array each for all images.

    Attributes:
        points: floating ``[D, K, 3]``; x, y and a third value that is not used, as a detector gives it.
        gt_points: floating ``[G, K, 3]``: x, y and visibility, above 0 where a keypoint counts.
        gt_boxes: float64 ``[G, 4]`` xywh, or None: the extent of the keypoints. They serve ground truths without
            visible keypoints.
        gt_areas: float64 ``[G]``, at least 0.
        sigmas: K numbers above 0.
    """

    points: Any
    gt_points: Any
    gt_boxes: Any
    gt_areas: Any
    sigmas: Sequence[float]


class FoundKeypoints(NamedTuple):
    """What the op returns.

    Attributes:
        found: pairs, areas and hashes, and an error code.
        gt_flags: uint8 ``[G]``, flags of ground truths.
    """

    found: Found
    gt_flags: Any


class Side(NamedTuple):
    """The loaded rows of one side: float64 ``[N, K, 3]``, and of each row an area float64 and a hash int64."""

    points: Any
    areas: Any
    hashes: Any


def check_sigmas(sigmas: Sequence[float], name: str = "sigmas") -> tuple[float, ...]:
    """Returns the sigmas of K keypoints as floats; raises :class:`InputError` unless they are positive numbers.

    Args:
        sigmas: one or more numbers, each above 0 and finite.
        name: how a message calls them.
    """
    values = tuple(float(sigma) for sigma in sigmas)
    if not values:
        raise InputError(f"{name} must be one number for each keypoint, at least one, but got none")
    for index, sigma in enumerate(values):
        if not 0 < sigma < np.inf:
            raise InputError(f"{name} must be above 0 and finite but got {sigma} at index {index}")
    return values


def variances_of(sigmas: Sequence[float]) -> NDArray[np.float64]:
    """float64 ``[K]``, the squares of the doubled sigmas."""
    variances: NDArray[np.float64] = (np.asarray(sigmas, np.float64) * 2) ** 2
    return variances


def keypoint_pairs(
    batch: MatchBatch, keypoints: Any, gt_keypoints: Any, gt_boxes: Any, gt_areas: Any, sigmas: Sequence[float],
    lowest: float, agnostic: bool = False, hashed: bool = True,
) -> MatchBatch:  # fmt: skip
    """Returns a batch of stored pairs by object keypoint similarity.

    The similarity is that of :func:`keypoint_similarity`, which is the same against a crowd. Areas of detections are
    those of the extent of all their keypoints, as ``loadRes`` has them. A ground truth that is to be ignored, such as
    one with a ``num_keypoints`` of 0, has the flag ``IGNORED``.

    Args:
        batch: numpy arrays; labels, flags, lengths and counts are read.
        keypoints: floating ``[D, K, 3]``, of all images.
        gt_keypoints: floating ``[G, K, 3]``: x, y, visibility.
        gt_boxes: float64 ``[G, 4]`` xywh, or None: the extent of the keypoints.
        gt_areas: float64 ``[G]``, at least 0.
        sigmas: K numbers.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.
        hashed: whether the batch gets hashes, which name images without ids.

    Raises:
        InputError: for other shapes or dtypes, or the first row with coordinates or an area that are not usable.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> nose = np.array([[[5.0, 5.0, 2.0]]])
        >>> batch = MatchBatch(np.array([[1], [1]]), [], [np.ones(1)], [np.zeros(1, int)], gt_labels=[np.zeros(1, int)])
        >>> keypoint_pairs(batch, nose, nose, None, np.array([100.0]), [0.026], 0.5).pairs.similarities.tolist()
        [1.0]
    """
    given = Keypoints(keypoints, gt_keypoints, gt_boxes, gt_areas, check_sigmas(sigmas))
    found = run(batch, given, lowest, agnostic, False, NUMPY, hashed).found
    raise_error(found.error, describe_box)
    made = stored(batch, found)
    return made if hashed else replace(made, hashes=[], gt_hashes=[])


def keypoint_similarity(
    keypoints: NDArray[Any], gt_keypoints: NDArray[Any], gt_boxes: NDArray[np.float64] | None,
    gt_areas: NDArray[np.float64], sigmas: Sequence[float],
) -> NDArray[np.float64]:  # fmt: skip
    """Object keypoint similarity of all detections with all ground truths, float64 ``[D, G]``.

    As ``computeOks`` of pycocotools has it, in the order of numpy's operations, with an exponential that is correctly
    rounded; see :func:`valor_gpu.ops.keypoint_similarity`.

    Args:
        keypoints: floating ``[D, K, 3]``.
        gt_keypoints: floating ``[G, K, 3]``: x, y, visibility.
        gt_boxes: float64 ``[G, 4]`` xywh, or None: the extent of the keypoints.
        gt_areas: float64 ``[G]``, at least 0.
        sigmas: K numbers.

    Raises:
        InputError: as :func:`keypoint_pairs`, naming the row of ``preds[0]`` or ``target[0]``.
    """
    given = Keypoints(keypoints, gt_keypoints, gt_boxes, gt_areas, check_sigmas(sigmas))
    similarities, error = similarity(given, NUMPY)
    raise_error(error, describe_box)
    return similarities  # type: ignore[no-any-return]


def check_shapes(given: Keypoints, rows: Sequence[int], access: Access) -> Keypoints:
    """Returns contiguous arrays; raises :class:`InputError` for shapes and dtypes that C++ does not read."""
    number = len(given.sigmas)
    shapes = {
        "keypoints": (given.points, (rows[0], number, 3), FLOATS),
        "gt_keypoints": (given.gt_points, (rows[1], number, 3), FLOATS),
        "gt_boxes": (given.gt_boxes, (rows[1], 4), "float64"),
        "gt_areas": (given.gt_areas, (rows[1],), "float64"),
    }
    made = []
    for name, (array, shape, dtype) in shapes.items():
        if array is not None:
            check_dtype(name, array.dtype, dtype)
            if tuple(array.shape) != shape:
                raise InputError(f"{name} must have shape {list(shape)} but has {list(array.shape)}")
        made.append(None if array is None else access.contiguous(array))
    return Keypoints(made[0], made[1], made[2], made[3], given.sigmas)


def prepare_side(
    given: Keypoints, target: bool, columns: Columns, firsts: tuple[int, int], user: bool, flags: Any, access: Access,
    hashed: bool = True,
) -> tuple[Side, bytes]:  # fmt: skip
    """Room for the rows of one side, and the words by which C++ loads them.

    Args:
        given: contiguous arrays.
        target: whether these are ground truths.
        columns: counts and flags of the batch.
        firsts: address of int64 ``[I + 1]``, where images begin, and I.
        user: whether flags are a user's, and become ``flags``.
        flags: uint8 ``[G]``.
        access: how arrays are read.
        hashed: whether hashes are made.
    """
    rows, number = (given.gt_points, given.points)[not target], len(given.sigmas)
    count, address = rows.shape[0], access.address
    wide = access.codes[rows.dtype] == 3
    points = rows if wide else access.empty((count, number, 3), "float64")
    side = Side(points, access.empty((count,), "float64"), access.empty((count if hashed else 0,), "int64"))
    head = (
        address(rows), firsts[0], columns.addresses["gt_counts" if target else "counts"], firsts[1],
        access.codes[rows.dtype], number, address(points), address(side.areas), address(side.hashes) if hashed else 0,
    )  # fmt: skip
    if not target:
        return side, bytes(RowWords(*head))
    boxes = 0 if given.gt_boxes is None else address(given.gt_boxes)
    at, codes = columns.addresses["gt_flags"], columns.codes["gt_flags"]
    return side, bytes(RowWords(*head, 1, boxes, address(given.gt_areas), at, codes, address(flags), user))


def similarity_words(given: Keypoints, sides: Sequence[Side], variances: int, access: Access) -> ctypes.Structure:
    """The geometry of a search for pairs; what it points to must live as long.

    Args:
        given: contiguous arrays.
        sides: their loaded rows.
        variances: address of :func:`variances_of`, where the kernel can read it.
        access: how arrays are read.
    """
    boxes = 0 if given.gt_boxes is None else access.address(given.gt_boxes)
    rows = (access.address(side.points) for side in sides)
    return SimilarityWords(*rows, boxes, access.address(given.gt_areas), len(given.sigmas), variances)


def run(
    batch: MatchBatch, given: Keypoints, lowest: float, agnostic: bool, user: bool, access: Access, hashed: bool = True
) -> FoundKeypoints:
    """Finds the pairs, and leaves the error code in the result, an int.

    Args:
        batch: labels, flags, lengths and counts are read.
        given: keypoints of both sides.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.
        user: flags are crowd flags of 0 or 1, areas are positive, and ground truths without visible keypoints ignored.
        access: how arrays are read.
        hashed: whether hashes are made.
    """
    firsts, images = first_rows(batch.lengths), int(batch.lengths.shape[1])
    rows = [int(n) for n in firsts[:2, -1]]
    # Two keypoints take about as long as a box: 8 boxes for the 17 of a person.
    threads = threads_for(max(len(given.sigmas) // 2, 1) * sum(rows), access)
    given, whole = check_shapes(given, rows, access), columns(batch, rows, access)
    error, flags = np.array(NO_ERROR, np.int64), access.empty((rows[1],), "uint8")
    sides = []
    for target in (False, True):
        table = (firsts[int(target)].ctypes.data, images)
        side, task = prepare_side(given, target, whole, table, user, flags, access, hashed)
        native.function("valor_cpu", "valor_load_keypoints_cpu", "ppq")(task, error.ctypes.data, threads)
        sides.append(side)
    list_pairs = native.function("valor_cpu", "valor_keypoint_pairs_cpu", "ppq")
    variances = variances_of(given.sigmas)
    search = Search(whole, similarity_words(given, sides, variances.ctypes.data, access), lowest, agnostic)
    pairs = find(search, firsts, access, list_pairs, threads)
    (_, areas, hashes), (_, gt_areas, gt_hashes) = sides
    found = Found._make([*vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, int(error)])
    return FoundKeypoints(found, flags)


def similarity(given: Keypoints, access: Access) -> tuple[Any, int]:
    """The similarities of all pairs, float64 ``[D, G]``, and an error code."""
    rows = [int(given.points.shape[0]), int(given.gt_points.shape[0])]
    given, error, threads = check_shapes(given, rows, access), np.array(NO_ERROR, np.int64), access.threads()
    whole = Columns({}, dict.fromkeys(("counts", "gt_counts", "gt_flags"), 0), {"gt_flags": 0})
    flags, sides = access.empty((rows[1],), "uint8"), []
    for target in (False, True):
        firsts = np.array([0, rows[target]])
        side, task = prepare_side(given, target, whole, (firsts.ctypes.data, 1), False, flags, access)
        native.function("valor_cpu", "valor_load_keypoints_cpu", "ppq")(task, error.ctypes.data, threads)
        sides.append(side)
    out, variances = access.empty((rows[0], rows[1]), "float64"), variances_of(given.sigmas)
    geometry = similarity_words(given, sides, variances.ctypes.data, access)
    native.function("valor_cpu", "valor_keypoint_similarity_cpu", "pqqpq")(
        ctypes.addressof(geometry), *rows, access.address(out), threads
    )
    return out, int(error)
