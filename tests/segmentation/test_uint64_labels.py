"""Labels of uint64, which kernels read as int64: the largest are neither -1 nor a failure of their own message."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from valor_gpu.errors import InputError
from valor_gpu.ops.pixel_counts.cpu import count_pixels as count_arrays
from valor_gpu.segmentation import IOU, PanopticQuality, PixelConfusionMatrix, SurfaceDistance


def test_the_largest_label_of_uint64_is_not_minus_one() -> None:
    preds = torch.tensor([[[0, 1, 1]]])
    target = torch.from_numpy(np.array([[[0, 1, 2**64 - 1]]], np.uint64))
    message = r"target\[0, 0, 2\] must be a class index from 0 to 1 but is 18446744073709551615"
    for metric in (IOU(2), IOU(2, ignore_index=-1), PixelConfusionMatrix(2, ignore_index=-1)):
        metric.update(preds[..., :2], target[..., :2])
        with pytest.raises(InputError, match=message):
            metric.update(preds, target)
        assert metric.result().counts["ignored"] == 0
    channels = torch.nn.functional.one_hot(preds, 2).movedim(-1, 1)
    with pytest.raises(InputError, match=message):
        IOU(2, ignore_index=-1, input_format="mixed").update(channels, target)
    with pytest.raises(InputError, match=message):
        SurfaceDistance(2, ignore_index=-1).update(preds, target)
    with pytest.raises(InputError, match=message):
        count_arrays(preds.numpy(), target.numpy(), 2, ignore_index=-1)
    hot = torch.from_numpy(channels.numpy().astype(np.uint64) * np.uint64(2**64 - 1))
    with pytest.raises(InputError, match=r"target\[0, 0, 0, 0\] must be 0 or 1 but is 18446744073709551615"):
        IOU(2, input_format="one-hot").update(channels, hot)


def test_an_unknown_category_may_be_any_of_uint64() -> None:
    maps = torch.from_numpy(np.array([[[2**64 - 1, 0], [1, 0]]], np.uint64))
    with pytest.raises(InputError, match=r"preds\[0, 0\] must have a category of 1, 2 but has 18446744073709551615"):
        PanopticQuality([1], [2]).update(maps, maps)
