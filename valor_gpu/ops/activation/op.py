"""Probabilities of logits, and whether scores are logits, for tensors of any device."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._library import disabled
from valor_gpu.ops.activation.cpu import activated as activated_array
from valor_gpu.ops.activation.cuda import activated as activated_on_device
from valor_gpu.ops.dtypes import FLOAT_TYPES

ACTIVATIONS = ("auto", "none", "sigmoid", "softmax")
_VECTOR = 64  # elements: a multiple of those that a loop of torch takes at once, two vectors of up to 512 bits
_GRAIN = 32768  # elements from which on torch splits a loop over threads, GRAIN_SIZE in ATen/TensorIterator.h


def activated(scores: Tensor, how: str) -> Tensor:
    """Softmax over dimension 1, or the sigmoid of each score.

    A score has the same bits wherever it stands, so that equal scores stay equal and a threshold that a curve gave
    reaches its own score. On CUDA, those of scores of up to 32 bits are what kernels count. Those of float64 scores on
    the CPU have the same bits on every processor, and where there is no torch, see
    :mod:`valor_gpu.ops.activation.cpu`.
    """
    if scores.dtype == torch.float64 and scores.is_cpu and has_memory(scores):
        array = scores.detach().numpy()
        found = activated_array(array.reshape(-1, 1) if how == "sigmoid" else array, how)
        return torch.from_numpy(found).reshape(scores.shape)
    if scores.is_cuda and _on_device(scores):
        return activated_on_device(scores, how)
    if how == "softmax":
        return scores.softmax(1)
    return _sigmoid_in_vectors(scores) if scores.is_cpu and _is_plain(scores) else scores.sigmoid()


def _on_device(scores: Tensor) -> bool:
    """Whether the kernel makes the probabilities, as those do that count them: of scores of up to 32 bits."""
    served = native.available("valor_cuda") and not disabled("score_histogram")
    return served and scores.dtype in FLOAT_TYPES and scores.dtype != torch.float64 and _is_plain(scores)


def _sigmoid_in_vectors(scores: Tensor) -> Tensor:
    """Sigmoids all of which torch computes with vector instructions.

    Of every thread's part, torch computes the elements that fill no vector one by one, with other last bits. So the
    parts get whole vectors, and the elements left over become part of one.
    """
    scores = scores.detach().contiguous()
    if scores.numel() <= _GRAIN:  # in few calls, which take longer than the sigmoids
        rest = -scores.numel() % _VECTOR
        if not rest:
            return scores.sigmoid()
        return torch.constant_pad_nd(scores.view(-1), (0, rest)).sigmoid_()[:-rest].view(scores.shape)
    flat = scores.view(-1)
    whole = _whole_vectors(len(flat), torch.get_num_threads())
    found = torch.empty_like(flat)
    torch.sigmoid(flat[:whole], out=found[:whole])
    if rest := len(flat) - whole:
        padded = torch.nn.functional.pad(flat[whole:], (0, -rest % _VECTOR))
        found[whole:] = padded.sigmoid()[:rest]
    return found.view(scores.shape)


def _whole_vectors(count: int, threads: int) -> int:
    """How many of so many elements torch splits into whole vectors only.

    Example:
        >>> _whole_vectors(100, 2), _whole_vectors(100_000, 2), _whole_vectors(32_769, 2)
        (64, 99968, 32768)
    """
    parts = max(1, min(threads, -(-count // _GRAIN)))
    whole = count // (_VECTOR * parts) * _VECTOR * parts
    return (parts - 1) * _GRAIN if parts > 1 and -(-whole // _GRAIN) < parts else whole


def has_memory(scores: Tensor) -> bool:
    """Whether the C++ library can read the scores."""
    return native.available("valor_cpu") and _is_plain(scores)


def _is_plain(scores: Tensor) -> bool:
    """Whether the scores are numbers in memory: not in a compiled program, nor those of torch.func."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return False
    try:
        return scores.data_ptr() != 0
    except RuntimeError:
        return False


def meant(activation: str, target: Tensor) -> str:
    """What ``auto`` makes of logits: the softmax if the target has class indices ``[N]``, else the sigmoid."""
    return activation if activation != "auto" else "softmax" if target.ndim == 1 else "sigmoid"


def probabilities(
    scores: Tensor, target: Tensor, ignore_index: int | None, activation: str, *, part: Tensor | None = None
) -> Tensor:
    """The scores ``[N, C]`` after an activation, in their own dtype; nothing waits on CUDA.

    Args:
        scores: floating ``[N, C]``; as in :func:`has_outside`.
        target: class indices ``[N]``, or ``[N, C]`` of 0 and 1.
        ignore_index: scores with this target do not count where ``auto`` looks.
        activation: one of ``ACTIVATIONS``; with ``auto``, scores are logits if one that counts lies outside [0, 1].
        part: ``[M, C]``, what becomes probabilities instead of ``scores``, of which it is a part.

    Example:
        >>> probabilities(torch.tensor([[0.5], [0.0]]), torch.tensor([[1], [0]]), None, "auto").tolist()
        [[0.5], [0.0]]
        >>> probabilities(torch.tensor([[2.0], [0.0]]), torch.tensor([[1], [0]]), None, "auto")[1].tolist()
        [0.5]
    """
    wanted = scores if part is None else part
    if activation == "none" or wanted.numel() == 0:
        return wanted
    return decided(wanted, target, activation, decision(scores, target, ignore_index, activation))


def decision(scores: Tensor, target: Tensor, ignore_index: int | None, activation: str) -> Tensor:
    """What ``auto`` decides: bool ``[1]``, whether scores are logits; ``[0]`` with another activation.

    Arguments are those of :func:`probabilities`; nothing waits on CUDA.
    """
    if activation != "auto":
        return scores.new_empty(0, dtype=torch.bool)
    if scores.numel() == 0:
        return scores.new_zeros(1, dtype=torch.bool)
    outside = has_outside(scores, target, ignore_index)
    return outside.reshape(1) if isinstance(outside, Tensor) else torch.tensor([outside])


def decided(wanted: Tensor, target: Tensor, activation: str, outside: Tensor) -> Tensor:
    """``wanted [M, C]`` after an activation, of which ``auto`` has made a :func:`decision`."""
    if activation == "none" or wanted.numel() == 0:
        return wanted
    how = meant(activation, target)
    if activation != "auto":
        return activated(wanted, how)
    if outside.is_cpu and not torch.compiler.is_compiling():
        return activated(wanted, how) if outside.item() else wanted
    return torch.where(outside, activated(wanted, how), wanted)


def has_outside(scores: Tensor, target: Tensor, ignore_index: int | None) -> Tensor | bool:
    """Whether a score that counts lies outside [0, 1], on CUDA bool ``[]``. Not if one is NaN: ops reject it.

    Args:
        scores: ``[N, C]``, or with class indices maps ``[B, C, S]`` of N = B * S pixels, which stay as they lie.
        target: class indices ``[N]``, or ``[N, C]``.
        ignore_index: target value of scores that do not count.
    """
    if ignore_index is None:
        lowest, highest = torch.aminmax(scores)
    elif target.ndim == 1:
        rows = target != ignore_index
        lows, highs = (torch.where(rows, ends.reshape(-1), 0) for ends in torch.aminmax(scores, dim=1))
        lowest, highest = lows.amin(), highs.amax()
    else:
        lowest, highest = torch.aminmax(torch.where(target != ignore_index, scores, 0))
    if scores.is_cpu and not torch.compiler.is_compiling():
        return float(lowest) < 0 or float(highest) > 1
    return (lowest < 0) | (highest > 1)
