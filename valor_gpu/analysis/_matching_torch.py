"""Matching by plain torch, where the C++ library is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.ops.assign.match_batch import COLUMNS, MatchBatch, MatchRule, Pairs
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.error_codes import describe_box, raise_error


def assigned(batch: MatchBatch, rule: MatchRule) -> NDArray[np.int64]:
    """Returns int64 ``[D]``: the ground truth of each detection by its place in the image, -1 for none."""
    columns: dict[str, Any] = {name: [torch.from_numpy(part) for part in getattr(batch, name)] for name in COLUMNS}
    assert batch.pairs is not None
    pairs = Pairs(*(torch.from_numpy(part) for part in vars(batch.pairs).values()))
    matched = assign(replace(batch, lengths=torch.from_numpy(batch.lengths), pairs=pairs, **columns), rule)
    raise_error(matched.error, describe_box)
    return matched.matches[:, 0].long().numpy()  # type: ignore[no-any-return]
