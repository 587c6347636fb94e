"""Box IoU of numpy arrays equals that of tensors bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.fuzz import seeds
from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.boxes import op as boxes
from valor_gpu.ops.boxes.cpu import box_iou
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ragged import Ragged

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason="the C++ library was not built")
DTYPES = (np.float16, np.float32, np.float64)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("box_format", BOX_FORMATS)
def test_equals_that_of_tensors(box_format: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40, (2, 5))
    first, second = (
        np.round(rng.random((int(n.sum()), 4)) * 30).astype(dtype) for n, dtype in zip(lengths, rng.choice(DTYPES, 2))
    )
    crowd = rng.random(len(second)) < 0.3 if seed % 2 else None
    flags = None if crowd is None else torch.from_numpy(crowd)
    tensors = [torch.from_numpy(side) for side in (first, second)]
    whole = boxes.box_iou(*tensors, box_format=box_format, crowd=flags)
    got = box_iou(first, second, box_format=box_format, crowd=crowd)
    assert (got.shape, got.tobytes()) == (tuple(whole.shape), whole.numpy().tobytes())
    sides = [Ragged(side, torch.from_numpy(n)) for side, n in zip(tensors, lengths)]
    parts = boxes.box_iou(*sides, box_format=box_format, crowd=flags)
    got = box_iou(first, second, lengths=lengths, box_format=box_format, crowd=crowd)
    assert (got.shape, got.tobytes()) == (tuple(parts.values.shape), parts.values.numpy().tobytes())


def test_rows_with_gaps_are_read_as_they_are() -> None:
    rows = np.arange(48.0).reshape(6, 8)[::2, ::2]
    assert box_iou(rows, rows).tolist() == box_iou(rows.copy(), rows.copy()).tolist()


A = np.zeros((2, 4))


@pytest.mark.parametrize(
    ("args", "options", "said"),
    [
        ((A[:, :3], A), {}, r"boxes1 must be .*float64 \[N, 4\] but got float64 \[2, 3\]"),
        ((A, A.astype(int)), {}, r"boxes2 must be float16 or float32 or float64 \[N, 4\] but got int64 \[2, 4\]"),
        ((A, A), {"box_format": "yxyx"}, "box_format must be one of 'xyxy', 'xywh', 'cxcywh' but got 'yxyx'"),
        ((A, A), {"crowd": np.zeros(3, bool)}, r"crowd must have shape \[2\] but got \[3\]"),
        ((A, A), {"lengths": np.array([[2], [1]])}, r"lengths must be .* sum to \[2, 2\] but got \[\[2\], \[1\]\]"),
        ((A, A), {"lengths": np.array([[3, -1], [2, 0]])}, r"lengths must be \[2, S\], at least 0, and"),
        ((A, A), {"lengths": np.array([2, 2])}, r"lengths must be \[2, S\]"),
    ],
)
def test_errors_name_the_argument(args: tuple[Any, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        box_iou(*args, **options)
