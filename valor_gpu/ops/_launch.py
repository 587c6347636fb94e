"""What native kernel calls share: who serves a dispatch key, and the stream on which a kernel runs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

import torch

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops._library import Implementation, Kernel, by_reference

_TRITON = (3, 6)


def cpp(kernel: Kernel) -> Implementation:
    """``kernel`` serves CPU tensors if the C++ library is there, else the reference."""
    return _native("valor_cpu", "C++", kernel)


def cuda(kernel: Kernel) -> Implementation:
    """``kernel`` serves CUDA tensors if the CUDA library is there, else the reference."""
    return _native("valor_cuda", "CUDA", kernel)


def _native(library: str, kind: str, kernel: Kernel) -> Implementation:
    reason = native.reason(library)
    if native.available(library):
        return Implementation(kind, kernel, reason)
    return by_reference(reason, native.slow(library))


def on_host(library: str) -> bool:
    """Whether tensors have memory of their own, so that a library can be called with their addresses."""
    return native.available(library) and not torch.compiler.is_compiling() and torch._C._len_torch_dispatch_stack() == 0


def has_triton() -> bool:
    """Returns whether Triton 3.6 or newer is installed. Does not import it.

    The kernels are tested with no older Triton, such as torch before 2.10 brings.
    """
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        found = re.match(r"(\d+)\.(\d+)", importlib.metadata.version("triton"))
    except importlib.metadata.PackageNotFoundError:  # a nightly build under another name
        return True
    return found is not None and (int(found[1]), int(found[2])) >= _TRITON


def cuda_or_triton(kernel: Kernel, by_triton: Kernel) -> Implementation:
    """Chooses ``kernel`` for CUDA tensors if the CUDA library is there, else ``by_triton`` if Triton is installed.

    Without both, the reference serves. Does not import Triton.
    """
    if native.available("valor_cuda") or not has_triton():
        return cuda(kernel)
    return Implementation("Triton", by_triton, f"{native.reason('valor_cuda')}; triton is installed")


class _Launching:
    """The context of :func:`launching`.

    It calls the functions below ``torch.cuda.device`` and ``torch.cuda.current_stream``, which together take the host
    19 us on an H100.
    """

    __slots__ = ("_before", "_device")

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = -1

    def __enter__(self) -> int:
        if self._device.type == "cpu":
            return 0
        current = torch.cuda.current_device()
        index = current if self._device.index is None else self._device.index
        if index != current:
            torch.cuda.set_device(index)
            self._before = current
        stream: int = torch._C._cuda_getCurrentRawStream(index)
        return stream

    def __exit__(self, *_: object) -> None:
        if self._before >= 0:
            torch.cuda.set_device(self._before)


def launching(device: torch.device) -> _Launching:
    """Makes ``device`` current and gives the handle of its stream; 0 for the CPU, where csrc/sim runs kernels."""
    return _Launching(device)


def capturing() -> bool:
    """Whether the current stream records a CUDA graph; never before torch has used a device."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def check_not_capturing(action: str) -> None:
    """Raises :class:`InputError` where a CUDA graph is captured: CUDA would abandon the graph, with no word on why.

    Args:
        action: what cannot be done then, as the beginning of a sentence.
    """
    if capturing():
        raise InputError(f"{action} inside the capture of a CUDA graph: do it before, or after a replay")
