"""Rows of different lengths in one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from valor_gpu.checks import check_dtype
from valor_gpu.errors import InputError


@dataclass(frozen=True)
class Ragged:
    """Segments of different lengths, one after another in ``values``.

    Attributes:
        values: ``[N, ...]``, any dtype and device.
        lengths: int64 ``[S]`` on the CPU, whatever the device of ``values``, because lengths shape allocations.

    Example:
        >>> r = Ragged.from_list([torch.ones(2), torch.ones(0), torch.ones(1)])
        >>> r.lengths.tolist(), r.offsets().tolist()
        ([2, 0, 1], [0, 2, 2, 3])
    """

    values: Tensor
    lengths: Tensor

    def __post_init__(self) -> None:
        check_dtype("lengths", self.lengths, (torch.int64,))
        if self.lengths.device.type != "cpu" or self.lengths.ndim != 1:
            raise InputError(
                f"lengths must be int64 [S] on the CPU but got {list(self.lengths.shape)} on {self.lengths.device}"
            )
        total = int(self.lengths.sum())
        if total != self.values.shape[0] or bool((self.lengths < 0).any()):
            raise InputError(
                f"lengths must be at least 0 and sum to the {self.values.shape[0]} rows of values but sum to {total}"
            )

    @classmethod
    def from_list(cls, segments: Sequence[Tensor]) -> Ragged:
        """Joins tensors of shape ``[n_i, ...]``; an empty list raises InputError, since it has no dtype."""
        if not segments:
            raise InputError("segments must hold at least one tensor but is empty")
        return cls(torch.cat(list(segments)), torch.tensor([len(s) for s in segments]))

    @classmethod
    def cat(cls, parts: Sequence[Ragged]) -> Ragged:
        """Joins the segments of all ``parts``, in order."""
        return cls(torch.cat([p.values for p in parts]), torch.cat([p.lengths for p in parts]))

    def offsets(self) -> Tensor:
        """int64 ``[S + 1]`` on the CPU: segment s is ``values[offsets[s]:offsets[s + 1]]``."""
        return torch.cat((self.lengths.new_zeros(1), self.lengths.cumsum(0)))

    def to(self, device: torch.device | str) -> Ragged:
        """Returns the same segments with values on ``device``."""
        return Ragged(self.values.to(device), self.lengths)

    def __len__(self) -> int:
        return int(self.lengths.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.values.split(self.lengths.tolist()))
