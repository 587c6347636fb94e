"""Samples to show for each cell of a confusion matrix: the first k in order of arrival, whatever the batches.

They are int64 rows ``[cell, name, running]``. Where ``running`` is 1 the name is an index in its batch, else an id that
the user gave. After the rows of a batch stands ``[END, size of the batch, 0]``: with it, indices become positions in
all that was seen once the rows of all batches and ranks are together, and rows may be joined in any grouping.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.ops.labels.op import first_in_cells

END, NOTHING = -1, -2


def example_rows(cells: Tensor, num_cells: int, max_examples: int, samples: int, ids: Tensor | None) -> Tensor:
    """The rows of one batch, without synchronising with the device.

    Args:
        cells: integers ``[E]`` of E elements, an equal number of each sample, in order; outside ``[0, num_cells)``:
            not shown.
        num_cells: how many cells there are.
        max_examples: k, how many samples of each cell are shown.
        samples: size of the batch.
        ids: int64 ``[samples]`` names, or None.

    Returns:
        int64 ``[M, 3]`` with M at most E + 1 and ``num_cells * most + 1``.
    """
    each = max(cells.shape[0] // max(samples, 1), 1)
    element = torch.arange(cells.shape[0], device=cells.device)
    names = element.div(each, rounding_mode="floor")
    names = names if ids is None else ids.long()[names]
    rows = torch.stack((cells.long(), names, torch.full_like(names, ids is None)), 1)
    return torch.cat((_first(rows, num_cells, max_examples), _end(rows, samples)))


def thinned(rows: Tensor, num_cells: int, max_examples: int) -> Tensor:
    """The rows of several batches as rows of one, without those that will not be shown; does not synchronise."""
    end = _end(rows, 0)
    end[0, 1] = torch.where(rows[:, 0] == END, rows[:, 1], 0).sum()
    return torch.cat((_first(_positions(rows), num_cells, max_examples), end))


def shown(rows: Tensor, max_examples: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ascending cells ``[M]`` and the names of their samples ``[M]``, at most ``max_examples`` of a cell, in order."""
    table = _positions(rows).cpu().numpy()
    table = table[table[:, 0] >= 0]
    table = table[np.argsort(table[:, 0], kind="stable")]
    begins = np.searchsorted(table[:, 0], table[:, 0])
    table = table[np.arange(len(table)) - begins < max_examples]
    return table[:, 0], table[:, 1]


def _positions(rows: Tensor) -> Tensor:
    """The rows, indices in a batch turned into positions in all batches."""
    before = torch.where(rows[:, 0] == END, rows[:, 1], 0).cumsum(0)
    return torch.stack((rows[:, 0], rows[:, 1] + before * rows[:, 2], rows[:, 2]), 1)


def _first(rows: Tensor, num_cells: int, max_examples: int) -> Tensor:
    """The first rows of each cell, in order within it; on CUDA and in graphs others may stay, as ``NOTHING``."""
    good = (rows[:, 0] >= 0) & (rows[:, 0] < num_cells)
    if len(rows) > num_cells * max_examples:
        positions = first_in_cells(rows[:, 0].contiguous(), num_cells, max_examples).reshape(-1)
        rows, good = rows[positions.clamp(min=0)], positions >= 0
    marked = torch.cat((torch.where(good, rows[:, 0], NOTHING)[:, None], rows[:, 1:]), 1)
    return marked if rows.is_cuda or torch.compiler.is_compiling() else marked[good]


def _end(rows: Tensor, samples: int) -> Tensor:
    """What stands after the rows of a batch."""
    end = rows.new_zeros((1, 3))
    end[:, 0], end[:, 1] = END, samples
    return end
