"""Keypoints: object keypoint similarity, and the pairs of a batch for matching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_same_device, check_shape, check_type
from valor_gpu.ops._device_tables import constant, to_device
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.assign.cuda import check_one_device
from valor_gpu.ops.assign.match_batch import AGNOSTIC, MatchBatch, MatchRule
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.keypoints import cpu as _keypoints_cpu
from valor_gpu.ops.keypoints import reference as _keypoints_reference
from valor_gpu.ops.keypoints.cpu import (
    COCO_SIGMAS,
    FoundKeypoints,
    Keypoints,
    check_shapes,
    check_sigmas,
    prepare_side,
    similarity_words,
    variances_of,
)
from valor_gpu.ops.pairs.cpu import Columns, Found, Search, columns, first_rows, stored
from valor_gpu.ops.pairs.cuda import access_on, fake, find


def keypoint_similarity(
    keypoints: Tensor, gt_keypoints: Tensor, gt_areas: Tensor, *, sigmas: Sequence[float] = COCO_SIGMAS,
    gt_boxes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Object keypoint similarity of every detection with every ground truth, from 0 to 1.

    The mean over the visible keypoints of a ground truth of ``exp(-d ** 2 / (2 * area * (2 * sigma) ** 2))``, d being
    the distance of the detection's keypoint from it: ``computeOks`` of pycocotools, in float64 and in the order of
    numpy's operations. The exponential is correctly rounded on every device; that of numpy depends on the processor and
    differs by one unit in the last place in about one value of twenty with AVX-512, one of a thousand without. Values
    below 1e-307 are 0. A ground truth without visible keypoints is as similar to a detection as the keypoints of that
    lie near its box, each side made three times as long.

    Args:
        keypoints: float16, bfloat16, float32 or float64 ``[D, K, 3]``: x, y in pixels, and a number that is not used.
        gt_keypoints: likewise ``[G, K, 3]``; the third number is above 0 where a keypoint is visible.
        gt_areas: ``[G]`` floating, square pixels, at least 0.
        sigmas: K numbers, each above 0; default COCO's 17.
        gt_boxes: ``[G, 4]`` floating, x, y, width and height; default the extent of the keypoints.

    Returns:
        float64 ``[D, G]``.

    Raises:
        InputError: on other shapes, dtypes or devices, or naming the first row that is not finite. On CUDA this check
            synchronises with the device.

    Example:
        >>> person = torch.tensor([[[10.0, 10.0, 2.0], [20.0, 10.0, 2.0]]])
        >>> keypoint_similarity(person + 1, person, torch.tensor([400.0]), sigmas=[0.05, 0.1])
        tensor([[0.8591]], dtype=torch.float64)
    """
    number = len(given_sigmas := check_sigmas(sigmas))
    tensors = {"keypoints": keypoints, "gt_keypoints": gt_keypoints, "gt_areas": gt_areas}
    if gt_boxes is not None:
        tensors["gt_boxes"] = gt_boxes
    for name, tensor in tensors.items():
        check_type(name, tensor, Tensor)
        check_dtype(name, tensor, tuple(FLOAT_TYPES))
    rows = gt_keypoints.shape[0] if gt_keypoints.ndim else 0
    shapes: tuple[tuple[int | None, ...], ...] = ((None, number, 3), (None, number, 3), (rows,), (rows, 4))
    for (name, tensor), shape in zip(tensors.items(), shapes):
        check_shape(name, tensor, shape)
    check_same_device(tuple(tensors), tuple(tensors.values()))
    wide = None if gt_boxes is None else gt_boxes.detach().double()
    out, error = _SIMILARITY(keypoints.detach(), gt_keypoints.detach(), wide, gt_areas.detach().double(), given_sigmas)
    raise_error(error, _describe_row)
    return out  # type: ignore[no-any-return]


def _describe_row(code: int) -> str:
    """The message of a code whose image is 0: the argument and the row."""
    message = describe_box(code).replace("preds[0]['keypoints']", "keypoints")
    for key, name in (("keypoints", "gt_keypoints"), ("boxes", "gt_boxes"), ("area", "gt_areas")):
        message = message.replace(f"target[0][{key!r}]", name)
    return message


def _similarity_by_reference(*arguments: Any) -> tuple[Tensor, Tensor]:
    return _keypoints_reference.similarity(Keypoints(*arguments))


def _similarity_fake(
    keypoints: Tensor, gt_keypoints: Tensor, gt_boxes: Tensor | None, gt_areas: Tensor, sigmas: Sequence[float]
) -> tuple[Tensor, Tensor]:
    out = keypoints.new_empty((keypoints.shape[0], gt_keypoints.shape[0]), dtype=torch.float64)
    return out, keypoints.new_empty((), dtype=torch.int64)


def _similarity_on_cpu(*arguments: Any) -> tuple[Tensor, Tensor]:
    out, error = _keypoints_cpu.similarity(Keypoints(*arguments), access_on(torch.device("cpu")))
    return out, torch.tensor(error)


def _similarity_on_cuda(*arguments: Any) -> tuple[Tensor, Tensor]:
    given = Keypoints(*arguments)
    device, rows = given.points.device, (given.points.shape[0], given.gt_points.shape[0])
    access, given = access_on(device), check_shapes(given, rows, access_on(device))
    whole = Columns({}, dict.fromkeys(("counts", "gt_counts", "gt_flags"), 0), {"gt_flags": 0})
    with launching(device) as stream:
        error, flags = torch.full((), NO_ERROR, device=device), access.empty((rows[1],), "uint8")
        sides, load = [], native.function("valor_cuda", "valor_load_keypoints_cuda", "pqpp")
        for target in (False, True):
            table = to_device(torch.tensor([0, rows[target]]), device)
            side, words = prepare_side(given, target, whole, (table.data_ptr(), 1), False, flags, access)
            load(words, rows[target], error.data_ptr(), stream)
            sides.append(side)
        out, variances = access.empty(rows, "float64"), constant(variances_of(given.sigmas), device)
        geometry = similarity_words(given, sides, variances.data_ptr(), access)
        native.function("valor_cuda", "valor_keypoint_similarity_cuda", "pqqpp")(
            bytes(geometry), *rows, out.data_ptr(), stream
        )
    return out, error


_SIMILARITY = register(
    "keypoint_similarity(Tensor keypoints, Tensor gt_keypoints, Tensor? gt_boxes, Tensor gt_areas, float[] sigmas)"
    " -> (Tensor, Tensor)",
    reference=_similarity_by_reference,
    fake=_similarity_fake,
    cpu=cpp(_similarity_on_cpu),
    cuda=cuda(_similarity_on_cuda),
)


# --------------------------------------------------------------------------------------------------- keypoint_pairs


def keypoint_pairs(batch: MatchBatch, given: Keypoints, rule: MatchRule) -> tuple[MatchBatch, Tensor]:
    """Returns a batch of stored pairs for :func:`valor_gpu.ops.assign.op.assign`, and an error code.

    Pairs have a detection and a ground truth of its class (of any class with ``AGNOSTIC``) whose
    :func:`keypoint_similarity` reaches the lowest threshold, every pair of the class if that is at most 0; it is the
    same against a crowd. Areas of detections are those of the extent of all their keypoints. Flags of ground truths
    that a user gives (0 or 1) become flags of matching: one without visible keypoints is ignored. So the rule that
    assigns the batch has no ``USER_INPUT``. On CUDA every detection has room for all ground truths of its image, 12
    bytes each, so that the host waits for nothing.

    Args:
        batch: tensors; labels, flags, lengths and counts are read.
        given: tensors of all images; areas are above 0.
        rule: of which thresholds and options are looked at.

    Returns:
        The batch with pairs, areas, flags and hashes, and int64 ``[]``, an error code.

    Raises:
        InputError: on CPU tensors, for the first row that cannot be used. On CUDA the error code is returned instead,
            since reading it would wait for the device.
    """
    columns = (getattr(batch, name) for name in _BATCH_FIELDS)
    lowest, agnostic = float(rule.thresholds.min()), bool(rule.options & AGNOSTIC)
    *pairs, gt_flags = _PAIRS(*given, *columns, lowest, agnostic, True)
    found = Found(*pairs)
    if not found.error.is_cuda:
        raise_error(found.error, describe_box)
    kept = stored(batch, found)
    areas = [found.gt_own_areas]
    return MatchBatch(**{**vars(kept), "gt_flags": [gt_flags], "gt_areas": areas}), found.error


def find_keypoint_pairs(batch: MatchBatch, given: Keypoints, lowest: float) -> MatchBatch:
    """As :func:`keypoint_pairs`, of annotations: flags are those of matching, and areas may be 0.

    Args:
        batch: tensors; labels, flags and lengths are read.
        given: tensors of all images.
        lowest: the lowest threshold.

    Raises:
        InputError: for the first row that cannot be used; on CUDA this waits for the device.
    """
    columns = (getattr(batch, name) for name in _BATCH_FIELDS)
    *pairs, _ = _PAIRS(*given, *columns, lowest, False, False)
    found = Found(*pairs)
    raise_error(found.error, describe_box)
    return stored(batch, found)


_BATCH_FIELDS = ("labels", "gt_labels", "gt_flags", "lengths", "counts", "gt_counts")


def _batch(*arguments: Any) -> tuple[Keypoints, MatchBatch, float, bool, bool]:
    given, (*rest, lowest, agnostic, user) = Keypoints(*arguments[:5]), arguments[5:]
    return given, MatchBatch(**dict(zip(_BATCH_FIELDS, rest))), lowest, agnostic, user


def _flat(found: FoundKeypoints) -> tuple[Tensor, ...]:
    return *found.found, found.gt_flags


def _pairs_on_cpu(*arguments: Any) -> tuple[Tensor, ...]:
    given, batch, lowest, agnostic, user = _batch(*arguments)
    made = _keypoints_cpu.run(batch, given, lowest, agnostic, user, access_on(torch.device("cpu")))
    return _flat(made._replace(found=made.found._replace(error=torch.tensor(made.found.error))))


def _pairs_on_cuda(*arguments: Any) -> tuple[Tensor, ...]:
    given, batch, lowest, agnostic, user = _batch(*arguments)
    device = check_one_device({
        "keypoints": [given.points], "gt_keypoints": [given.gt_points], "gt_areas": [given.gt_areas],
        "gt_boxes": [] if given.gt_boxes is None else [given.gt_boxes], "labels": batch.labels,
        "gt_labels": batch.gt_labels, "gt_flags": batch.gt_flags,
        "counts": [c for c in (batch.counts, batch.gt_counts) if c is not None],
    })  # fmt: skip
    access, firsts, images = access_on(device), first_rows(batch.lengths), batch.lengths.shape[1]
    rows = tuple(int(n) for n in firsts[:2, -1])
    given = check_shapes(given, rows, access)
    with launching(device) as stream:
        whole, table = columns(batch, rows, access), to_device(torch.from_numpy(firsts), device)
        error, flags = torch.full((), NO_ERROR, device=device), access.empty((rows[1],), "uint8")
        sides, load = [], native.function("valor_cuda", "valor_load_keypoints_cuda", "pqpp")
        for target in (False, True):
            place = (table[int(target)].data_ptr(), images)
            side, words = prepare_side(given, target, whole, place, user, flags, access)
            load(words, rows[target], error.data_ptr(), stream)
            sides.append(side)
        variances = constant(variances_of(given.sigmas), device)
        search = Search(whole, similarity_words(given, sides, variances.data_ptr(), access), lowest, agnostic)
        launch = native.function("valor_cuda", "valor_keypoint_pairs_cuda", "pqp")
        pairs = find(search, firsts, table, access, launch, stream)
    (_, areas, hashes), (_, gt_areas, gt_hashes) = sides
    return *vars(pairs).values(), areas, gt_areas, hashes, gt_hashes, error, flags


def _pairs_by_reference(*arguments: Any) -> tuple[Tensor, ...]:
    given, batch, lowest, agnostic, user = _batch(*arguments)
    return _flat(_keypoints_reference.run(batch, given, lowest, agnostic, user))


def _pairs_fake(*arguments: Any) -> tuple[Tensor, ...]:
    like = arguments[1]
    return *fake(like), like.new_empty((like.shape[0],), dtype=torch.uint8)


_PAIRS = register(
    "keypoint_pairs(Tensor keypoints, Tensor gt_keypoints, Tensor? gt_boxes, Tensor gt_areas, float[] sigmas,"
    " Tensor[] labels, Tensor[] gt_labels, Tensor[] gt_flags, Tensor lengths, Tensor? counts, Tensor? gt_counts,"
    " float lowest, bool agnostic, bool user) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,"
    " Tensor, Tensor)",
    reference=_pairs_by_reference,
    fake=_pairs_fake,
    cpu=cpp(_pairs_on_cpu),
    cuda=cuda(_pairs_on_cuda),
    launches=("keypoint_similarity",),
)
