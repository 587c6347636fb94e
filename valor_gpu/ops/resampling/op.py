"""Weights of resampled units on any device; :mod:`valor_gpu.stats.draws` defines them."""

from __future__ import annotations

from array import array

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.stats.draws import KINDS, Draws

_MOST_KEYS = 1 << 24  # sorted at once


def weights(draws: Draws, device: torch.device | str = "cpu") -> Tensor:
    """Draws the weights of units on a device.

    Waits for a CUDA device once: a unit may have been drawn too often.

    Args:
        draws: which replicates.
        device: where the weights are wanted.

    Returns:
        uint8 ``[U, L]``, contiguous: the bits of ``draws.array()``.

    Raises:
        InputError: a unit is drawn more than 255 times.

    Example:
        >>> weights(Draws(4, 3, seed=1)).sum(0)
        tensor([4, 4, 4])
    """
    codes = torch.empty(0, dtype=torch.int64) if draws.clusters is None else torch.from_numpy(draws.clusters)
    found, error = _OP(codes.to(device), *_numbers(draws))
    if error.item():
        draws.array()  # says how often
    return found  # type: ignore[no-any-return]


def _numbers(draws: Draws) -> tuple[int, ...]:
    """Arguments of the op behind the clusters."""
    seed = int(np.array(draws.seed & 2**64 - 1, np.uint64).view(np.int64))
    return draws.drawn, draws.count, draws.first, seed, KINDS.index(draws.kind), draws.groups


def _weights_reference(
    clusters: Tensor, drawn: int, count: int, first: int, seed: int, kind: int, groups: int
) -> tuple[Tensor, Tensor]:
    codes = clusters.cpu().numpy() if len(clusters) else None
    weights = Draws(drawn, count, first, seed, KINDS[kind], groups).defined()
    found = torch.from_numpy(weights if codes is None else weights[codes])
    return found.to(clusters.device), clusters.new_zeros(())


def _weights_cpu(
    clusters: Tensor, drawn: int, count: int, first: int, seed: int, kind: int, groups: int
) -> tuple[Tensor, Tensor]:
    codes = clusters.numpy() if len(clusters) else None
    units = drawn if codes is None else len(codes)
    found = Draws(units, count, first, seed, KINDS[kind], groups, codes).array()
    return torch.from_numpy(found), clusters.new_zeros(())


def _weights_cuda(
    clusters: Tensor, drawn: int, count: int, first: int, seed: int, kind: int, groups: int
) -> tuple[Tensor, Tensor]:
    with launching(clusters.device) as stream:
        error = clusters.new_zeros(())
        words = clusters.new_zeros(-(-drawn * count // 8))  # bytes are added to in words
        found = words.view(torch.uint8)[: drawn * count].view(drawn, count)
        if KINDS[kind] == "multinomial":
            task = _task(drawn, count, first, seed, kind, words.data_ptr(), error.data_ptr(), 0)
            native.function("valor_cuda", "valor_draw_weights_cuda", "pp")(task.buffer_info()[0], stream)
        else:
            _draw_without(found, first, seed, kind, groups, stream)
        return (found.index_select(0, clusters) if len(clusters) else found), error


def _draw_without(found: Tensor, first: int, seed: int, kind: int, groups: int, stream: int) -> None:
    """Fills weights of draws without replacement."""
    drawn, count = found.shape
    if KINDS[kind] == "swap":
        found.copy_(torch.from_numpy(Draws(drawn, count, first, seed, KINDS[kind]).defined()))
        return
    if KINDS[kind] == "delete":
        order = _orders(found, 1, 0, seed, kind, stream)[0]
        shares = torch.empty_like(order)
        shares[order] = torch.arange(drawn, device=found.device) % groups
        found.copy_(shares[:, None] != first + torch.arange(count, device=found.device))
        return
    portion = max(1, _MOST_KEYS // max(drawn, 1))
    for start in range(0, count, portion):
        columns = found[:, start : start + portion]
        orders = _orders(found, columns.shape[1], first + start, seed, kind, stream)
        columns.scatter_(0, orders[:, : drawn // 2].T, 1)


def _orders(like: Tensor, count: int, first: int, seed: int, kind: int, stream: int) -> Tensor:
    """Units in a random order of each replicate, int64 ``[count, units]``: by their keys, equal ones by unit."""
    keys = like.new_empty((count, like.shape[0]), dtype=torch.int64)
    task = _task(like.shape[0], count, first, seed, kind, 0, 0, keys.data_ptr())
    native.function("valor_cuda", "valor_draw_keys_cuda", "pp")(task.buffer_info()[0], stream)
    return torch.sort(keys, dim=1, stable=True).indices


def _task(*fields: int) -> array[int]:
    """The DrawTask of csrc/cuda/draws.cu."""
    return array("q", fields)


def _weights_fake(
    clusters: Tensor, drawn: int, count: int, first: int, seed: int, kind: int, groups: int
) -> tuple[Tensor, Tensor]:
    units = clusters.shape[0] or drawn
    return clusters.new_empty((units, count), dtype=torch.uint8), clusters.new_empty(())


_OP = register(
    "draw_weights(Tensor clusters, int drawn, int count, int first, int seed, int kind, int groups)"
    " -> (Tensor, Tensor)",
    reference=_weights_reference,
    fake=_weights_fake,
    cpu=cpp(_weights_cpu),
    cuda=cuda(_weights_cuda),
)
