"""Tables of the host on a CUDA device: constants are kept there, others travel in kernel parameters.

Only :func:`to_device` pins memory, and not during the capture of a CUDA graph.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import capturing, launching

ROOM = 64
"""So many constant tables are kept; the one that was not used for longest goes first, unless a graph reads it."""

MOST_IN_GRAPH = 1 << 20
"""Bytes of a table that a CUDA graph may hold: some 260 kernels."""

MOST_BY_KERNELS = 10_000
"""Most words that kernels write: their 20 launches take the host as long as a copy from newly pinned memory."""

_tables: OrderedDict[tuple[Any, ...], Tensor] = OrderedDict()
_in_graphs: dict[tuple[Any, ...], Tensor] = {}  # whose addresses CUDA graphs hold: kept as long as the process
_lock = threading.Lock()


def to_device(table: Tensor, device: torch.device) -> Tensor:
    """Copies a CPU tensor to a CUDA device through pinned memory, so that the host does not wait.

    During the capture of a CUDA graph the values become part of the graph: pinned memory would be used again by others.
    A tensor that lies on a CUDA device already stays there if it is this one, and else is copied by the devices.
    """
    if device.type == "cpu":  # a kernel under csrc/sim
        return table
    if not table.is_cpu:
        return table.to(device, non_blocking=True)
    if capturing():
        return in_graph(table, device)
    return table.pin_memory().to(device, non_blocking=True)


def constant(values: NDArray[Any], device: torch.device) -> Tensor:
    """Returns a copy of constant values on the device: thresholds, recall grids and the like.

    The first use of a table on a device waits for the copy; later ones find it there. During the capture of a CUDA
    graph a table that is not there yet becomes part of the graph.

    Args:
        values: contiguous, of a dtype of 8 bytes; they must not change afterwards.
        device: where kernels read them; for the CPU (kernels under csrc/sim) the values themselves.
    """
    if device.type == "cpu":
        return torch.from_numpy(values)
    key = (device, values.dtype.str, values.shape, values.tobytes())
    with _lock:
        if (found := _tables.get(key)) is not None:
            _tables.move_to_end(key)
            if capturing():
                _in_graphs[key] = found
            return found
    if capturing():
        return in_graph(torch.from_numpy(values), device)
    table = torch.from_numpy(values).to(device)
    with _lock:
        _tables[key] = table
        while len(_tables) > ROOM:
            _tables.popitem(last=False)
    return table


def upload(words: NDArray[np.int64], device: torch.device) -> Tensor:
    """Returns int64 ``[N]`` on the device with the given words, which kernels of the current stream may read.

    They travel in the parameters of kernels, 500 words each: the host does not wait, and a CUDA graph can capture it.
    More than ``MOST_BY_KERNELS`` words are copied from pinned memory, except while a graph is captured. Without the
    CUDA library all words are copied, and the host waits.

    Args:
        words: int64 ``[N]``, contiguous.
        device: a CUDA device, or the CPU (kernels under csrc/sim).
    """
    if not native.available("valor_cuda"):
        return torch.tensor(words, device=device)
    if len(words) > MOST_BY_KERNELS and not capturing():
        return to_device(torch.from_numpy(words), device)
    table = torch.empty(len(words), dtype=torch.int64, device=device)
    with launching(device) as stream:
        native.function("valor_cuda", "valor_upload_cuda", "pqpp")(
            words.ctypes.data, len(words), table.data_ptr(), stream
        )
    return table


def in_graph(table: Tensor, device: torch.device) -> Tensor:
    """Returns a copy of a CPU tensor on the device whose values are part of the CUDA graph under capture.

    Raises:
        InputError: it takes more than ``MOST_IN_GRAPH`` bytes: so many kernels would have to write it.
    """
    if table.numel() == 0:
        return torch.empty(table.shape, dtype=table.dtype, device=device)
    bytes_ = table.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy()
    if len(bytes_) > MOST_IN_GRAPH:
        raise InputError(
            f"tables of the host must take at most {MOST_IN_GRAPH} bytes inside the capture of a CUDA graph but one"
            f" takes {len(bytes_)}: put what it comes from on the device"
        )
    words = np.zeros(-(-len(bytes_) // 8), np.int64)
    words.view(np.uint8)[: len(bytes_)] = bytes_
    return upload(words, device).view(torch.uint8)[: len(bytes_)].view(table.dtype).reshape(table.shape)
