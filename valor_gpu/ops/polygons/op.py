"""Polygons to run lengths: COCO's rule, equal to pycocotools to the pixel, and pixel centres with holes."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_shape, check_type
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.polygons import cpu as _polygons_cpu
from valor_gpu.ops.polygons import reference as definition
from valor_gpu.ops.polygons.cpu import RULES, Polygons, check_polygons, ends_of, rooms_of
from valor_gpu.ops.runs.op import Runs

MAX_CROSSINGS = 1 << 22
"""Most crossings of edges and columns that a mask on a CUDA device may have."""

_SHARED_KEYS = 1024  # kSharedKeys in csrc/cuda/polygons.cu


def rasterise(
    vertices: Tensor,
    rings: Tensor,
    masks: Tensor,
    sizes: Tensor,
    rule: str = "coco",
    *,
    device: torch.device | str | None = None,
) -> Runs:
    """Returns the pixels inside polygons as run lengths, tensors.

    With rule ``coco`` these are the runs of pycocotools, ``merge(frPyObjects(...))``, to the pixel: rings are filled
    even-odd one by one and united. With rule ``centre`` a pixel is set when its centre, (column + 0.5, row + 0.5), is
    inside, even-odd over all rings of the mask, so that rings inside others are holes. A centre exactly on an edge
    counts as if it were moved down by an infinitely small step and to the right by an infinitely smaller one: polygons
    that tile the plane and share whole edges have every pixel once. A mask without rings has no pixel set.

    Polygons come from the host: arguments are checked there. CPU tensors go to a CUDA ``device`` without waiting for
    it; reading tensors that lie on a CUDA device synchronises with it.

    Args:
        vertices: float64 ``[V, 2]``, x and y in pixels, from -2e8 to 2e8; pixel (row, column) is the square from
            (column, row) to (column + 1, row + 1).
        rings: int64 ``[R + 1]``: ring r has the vertices from ``rings[r]`` to before ``rings[r + 1]``, at least 3, and
            is closed by an edge from its last to its first.
        masks: int64 ``[N + 1]``: mask i has the rings from ``masks[i]`` to before ``masks[i + 1]``.
        sizes: int32 or int64 ``[N, 2]``: height and width, whose product is below 2**31.
        rule: ``coco`` or ``centre``.
        device: where the runs are made and stay, that of ``vertices`` by default.

    Returns:
        The runs. On CUDA ``counts`` is longer than ``offsets[-1]``: what follows is undefined.

    Raises:
        InputError: on other shapes or dtypes, on offsets that do not ascend from 0 to the number of rows, or naming the
            first ring with fewer than 3 vertices or a vertex that is not finite or too far away, the first mask whose
            size is negative or too large, or the first one whose edges cross columns more than 2**24 times, on CUDA
            2**22 times.

    Example:
        >>> vertices = torch.tensor([[1.0, 1], [3, 1], [3, 3], [1, 3]], dtype=torch.float64)
        >>> square = vertices, torch.tensor([0, 4]), torch.tensor([0, 1]), torch.tensor([[4, 4]])
        >>> rasterise(*square).counts.tolist()
        [5, 2, 2, 2, 5]
    """
    for name, tensor in (("vertices", vertices), ("rings", rings), ("masks", masks), ("sizes", sizes)):
        check_type(name, tensor, Tensor)
    check_shape("vertices", vertices, (None, 2))
    check_dtype("vertices", vertices, (torch.float64,))
    place = vertices.device if device is None else torch.device(device)
    points, ring_rows, mask_rows, rows = (tensor.detach().cpu().numpy() for tensor in (vertices, rings, masks, sizes))
    checked = check_polygons(points, ring_rows, mask_rows, rows, rule)
    tables = [torch.from_numpy(part) for part in checked]
    number = RULES.index(rule)
    if place.type == "cpu":
        counts, offsets = _OP(*tables, None, 0, number)
        return Runs(counts, offsets, tables[3])
    rooms = rooms_of(checked, number, torch.get_num_threads())
    if (many := rooms > MAX_CROSSINGS).any():
        mask = int(many.argmax())
        raise InputError(
            f"mask {mask} must have at most {MAX_CROSSINGS} crossings of edges with columns for CUDA but has"
            f" {rooms[mask]}: rasterise it on the CPU"
        )
    firsts = ends_of(rooms)
    placed = [to_device(table, place) for table in [*tables, torch.from_numpy(firsts)]]
    counts, offsets = _OP(*placed, int(firsts[-1]), number)
    return Runs(counts, offsets, placed[3])


def _by_reference(
    vertices: Tensor, rings: Tensor, masks: Tensor, sizes: Tensor, rooms: Tensor | None, crossings: int, rule: int
) -> tuple[Tensor, Tensor]:
    """The definition: valor_gpu/ops/polygons/reference.py."""
    points, ends = [(x, y) for x, y in vertices.tolist()], rings.tolist()
    loops = [points[first:end] for first, end in pairwise(ends)]
    ends = masks.tolist()
    polygons = [loops[first:end] for first, end in pairwise(ends)]
    runs = definition.rasterise(polygons, [(h, w) for h, w in sizes.tolist()], rule)
    counts = torch.tensor([n for mask in runs for n in mask], dtype=torch.int32, device=vertices.device)
    offsets = torch.tensor([0, *np.cumsum([len(mask) for mask in runs]).tolist()], device=vertices.device)
    return counts, offsets


def _fake(
    vertices: Tensor, rings: Tensor, masks: Tensor, sizes: Tensor, rooms: Tensor | None, crossings: int, rule: int
) -> tuple[Tensor, Tensor]:
    size = torch.library.get_ctx().new_dynamic_size()
    return vertices.new_empty(size, dtype=torch.int32), torch.empty_like(masks)


def _on_cpu(
    vertices: Tensor, rings: Tensor, masks: Tensor, sizes: Tensor, rooms: Tensor | None, crossings: int, rule: int
) -> tuple[Tensor, Tensor]:
    polygons = Polygons(*(tensor.contiguous().numpy() for tensor in (vertices, rings, masks, sizes)))
    counts, offsets = _polygons_cpu.run(polygons, rule, torch.get_num_threads())
    return torch.from_numpy(counts), torch.from_numpy(offsets)


class _Task(ctypes.Structure):
    """PolygonTask of csrc/cuda/polygons.cu."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("vertices", "rings", "masks", "sizes", "rooms", "keys", "ends", "used", "num_masks")
    ]


def _on_cuda(
    vertices: Tensor, rings: Tensor, masks: Tensor, sizes: Tensor, rooms: Tensor | None, crossings: int, rule: int
) -> tuple[Tensor, Tensor]:
    assert rooms is not None, "counted on the host"
    device, num_masks = vertices.device, sizes.shape[0]
    given = [tensor.contiguous() for tensor in (vertices, rings, masks, sizes, rooms)]
    with launching(device) as stream:
        keys = torch.empty(crossings if crossings > _SHARED_KEYS else 0, dtype=torch.int64, device=device)
        ends, counts = (torch.empty(crossings + num_masks, dtype=torch.int32, device=device) for _ in range(2))
        used = torch.empty(num_masks, dtype=torch.int64, device=device)
        task = bytes(_Task(*(tensor.data_ptr() for tensor in (*given, keys, ends, used)), num_masks))
        native.function("valor_cuda", "valor_rasterise_cuda", "pqp")(task, rule, stream)
        offsets = torch.zeros(num_masks + 1, dtype=torch.int64, device=device)
        torch.cumsum(used, 0, out=offsets[1:])
        native.function("valor_cuda", "valor_join_runs_cuda", "pppp")(
            task, offsets.data_ptr(), counts.data_ptr(), stream
        )
    return counts, offsets


_OP = register(
    "rasterise(Tensor vertices, Tensor rings, Tensor masks, Tensor sizes, Tensor? rooms, int crossings, int rule)"
    " -> (Tensor, Tensor)",
    reference=_by_reference,
    fake=_fake,
    cpu=cpp(_on_cpu),
    cuda=cuda(_on_cuda),
)
