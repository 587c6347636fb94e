"""Rows of a ragged batch under a class hierarchy: expansion to ancestors, selection, and errors, on any device.

Nothing here reads a value of a tensor on a GPU: what does not count there is moved behind what counts, image by image,
and on the CPU it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.inputs.hierarchy import ClassHierarchy
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import capturing
from valor_gpu.ops.error_codes import NO_ERROR, pack_box


class HierarchyTables(NamedTuple):
    """A hierarchy on a device.

    Attributes:
        labels: int64 ``[C]`` ascending labels of classes with ancestors.
        ancestors: int64 ``[C, S]``, the ancestors of each, padded.
        counts: int64 ``[C]``, how many ancestors each has.
        known: int64 ``[N]`` ascending labels that may occur, None for any.
    """

    labels: Tensor
    ancestors: Tensor
    counts: Tensor
    known: Tensor | None

    @classmethod
    def of(cls, hierarchy: ClassHierarchy, device: torch.device) -> HierarchyTables:
        """The tables of a hierarchy; they are made once for each device.

        Those that are made during the capture of a CUDA graph are part of it, and hold nothing before a replay.
        """
        key = hierarchy, device
        known = _tables.get(key)
        found = known or cls._made(hierarchy, device)
        if not capturing():
            _tables[key] = found
            while len(_tables) > _ROOM:
                _tables.pop(next(iter(_tables)), None)
        elif known:
            _in_graphs[key] = known
        return found

    @classmethod
    def _made(cls, hierarchy: ClassHierarchy, device: torch.device) -> HierarchyTables:
        labels, depth = sorted(hierarchy.ancestors), hierarchy.depth
        above = [hierarchy.ancestors[label] for label in labels]
        padded = torch.tensor([[*row, *[0] * (depth - len(row))] for row in above], dtype=torch.int64)
        known = None if hierarchy.known is None else torch.tensor(sorted(hierarchy.known), dtype=torch.int64)
        return cls(
            to_device(torch.tensor(labels, dtype=torch.int64), device),
            to_device(padded.reshape(len(labels), depth), device),
            to_device(torch.tensor([len(row) for row in above], dtype=torch.int64), device),
            None if known is None else to_device(known, device),
        )

    @property
    def width(self) -> int:
        """Labels that a row may stand for: its own and all ancestors."""
        return 1 + self.ancestors.shape[1]

    def with_ancestors(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """``labels [N]`` and their ancestors, int64 ``[N, width]``, and which of them there are, bool of that shape."""
        if self.width == 1:
            return labels[:, None], torch.ones_like(labels, dtype=torch.bool)[:, None]
        index = torch.searchsorted(self.labels, labels).clamp(max=len(self.labels) - 1)
        counts = torch.where(self.labels[index] == labels, self.counts[index], 0)
        places = torch.arange(self.width, device=labels.device)
        return torch.cat((labels[:, None], self.ancestors[index]), 1), places <= counts[:, None]

    def unknown(self, labels: Tensor) -> Tensor:
        """Which labels may not occur, bool ``[N]``."""
        return torch.zeros_like(labels, dtype=torch.bool) if self.known is None else ~contains(self.known, labels)


_ROOM = 16  # tables that are kept, unless a graph reads them: those that were made first go first
_Key = tuple[ClassHierarchy, torch.device]
_tables: dict[_Key, HierarchyTables] = {}
_in_graphs: dict[_Key, HierarchyTables] = {}  # whose addresses CUDA graphs hold: kept as long as the process


def contains(ascending: Tensor, values: Tensor) -> Tensor:
    """Which ``values`` (any shape) occur in ``ascending [N]``."""
    if len(ascending) == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    return ascending[torch.searchsorted(ascending, values).clamp(max=len(ascending) - 1)] == values


def wide(labels: Tensor) -> Tensor:
    """Which labels do not fit in int32."""
    limits = torch.iinfo(torch.int32)
    return (labels < limits.min) | (labels > limits.max)


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels of all images after one another.

    Attributes:
        labels: int64 ``[N]``.
        image: int64 ``[N]``, ascending, position of the image in the batch.
        source: int64 ``[N]``, which row of the user's it comes from.
        real: bool ``[N]``, which rows count; others are padding.
        lengths: int64 ``[I]`` on the CPU, rows of every image.
    """

    labels: Tensor
    image: Tensor
    source: Tensor
    real: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, labels: Sequence[Tensor], lengths: Tensor, counts: Tensor | None, device: torch.device) -> Rows:
        """The user's rows.

        Args:
            labels: integer tensors, one for each image or one for all.
            lengths: int64 ``[I]`` on the CPU.
            counts: int64 ``[I]`` valid rows of padded images.
            device: where the labels are.
        """
        total = int(lengths.sum())
        filled = [part.reshape(-1) for part in labels if part.numel()]  # an empty one may be of any dtype
        joined = torch.cat(filled).long() if filled else torch.zeros(0, dtype=torch.int64, device=device)
        image = to_device(torch.repeat_interleave(lengths), device)
        source = torch.arange(total, device=device)
        rows = cls(joined, image, source, torch.ones_like(source, dtype=torch.bool), lengths)
        return rows if counts is None else rows.only(rows.row() < counts[image])

    def only(self, real: Tensor) -> Rows:
        """The same rows, of which only those of ``real``, bool ``[N]``, count."""
        return replace(self, real=self.real & real)

    def row(self) -> Tensor:
        """int64 ``[N]`` positions in the image."""
        starts = to_device(self.lengths.cumsum(0) - self.lengths, self.image.device)
        return torch.arange(len(self.image), device=self.image.device) - starts[self.image]

    def keys(self, labels: Tensor) -> Tensor:
        """int64, one number for every (image, label): of ``labels`` ``[N, ...]`` of these rows."""
        image = self.image.reshape(-1, *[1] * (labels.ndim - 1))
        return image << 32 | labels & 0xFFFFFFFF

    def expanded(self, tables: HierarchyTables) -> Rows:
        """Each row followed by one for each ancestor of its class."""
        labels, there = tables.with_ancestors(self.labels)
        return Rows(
            labels.reshape(-1),
            self.image.repeat_interleave(tables.width),
            self.source.repeat_interleave(tables.width),
            (there & self.real[:, None]).reshape(-1),
            self.lengths * tables.width,
        )

    def count(self, flags: Tensor) -> Tensor:
        """int64 ``[I]``, how many rows of every image have a flag."""
        return torch.zeros(len(self.lengths), dtype=torch.int64, device=flags.device).index_add_(
            0, self.image, flags.long()
        )

    def compact(self) -> tuple[Rows, Tensor | None]:
        """The rows that count, and int64 ``[I]`` how many of every image are valid if others lie behind them."""
        if self.labels.is_cuda:
            return self.sorted(), self.count(self.real)
        return self._take(self.real.nonzero()[:, 0], self.count(self.real)), None

    def sorted(self) -> Rows:
        """The rows of every image with those that count first, in their order."""
        return self._take(torch.sort(self.image * 2 + ~self.real, stable=True).indices, self.lengths)

    def _take(self, index: Tensor, lengths: Tensor) -> Rows:
        return Rows(self.labels[index], self.image[index], self.source[index], self.real[index], lengths)

    def first_error(self, masks: Mapping[int, Tensor]) -> Tensor:
        """int64 ``[]``, the smallest code of bad rows by kind; places are worked out only where one may be bad."""
        none = torch.full((1,), NO_ERROR, device=self.labels.device)
        if not self.labels.is_cuda and not any(bool(bad.any()) for bad in masks.values()):
            return none[0]
        place = pack_box(self.image, self.row(), 0)
        codes = [torch.where(bad & self.real, place | kind, NO_ERROR) for kind, bad in masks.items()]
        return torch.cat([none, *codes]).min()
