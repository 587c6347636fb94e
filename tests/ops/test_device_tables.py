"""Tables of the host on a device whose CUDA library is missing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from valor_gpu import native
from valor_gpu.ops._device_tables import upload


@pytest.mark.parametrize("count", [0, 1, 501])
def test_without_the_cuda_library_words_are_copied(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda name: name != "valor_cuda")
    words = np.arange(count) * (1 << 40)
    table = upload(words, torch.device("cpu"))
    words += 1
    assert table.tolist() == [value * (1 << 40) for value in range(count)] and table.dtype == torch.int64
