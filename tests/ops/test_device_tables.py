"""Tables of the host on a device whose CUDA library is missing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from valor_gpu import native
from valor_gpu.ops import _device_tables
from valor_gpu.ops._device_tables import upload


@pytest.mark.parametrize("count", [0, 1, 501])
def test_without_the_cuda_library_words_are_copied(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda name: name != "valor_cuda")
    words = np.arange(count) * (1 << 40)
    table = upload(words, torch.device("cpu"))
    words += 1
    assert table.tolist() == [value * (1 << 40) for value in range(count)] and table.dtype == torch.int64


@pytest.mark.parametrize(("count", "capturing", "pinned"), [(10_000, False, 0), (10_001, False, 1), (10_001, True, 0)])
def test_large_tables_are_copied_from_pinned_memory(
    count: int, capturing: bool, pinned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, launches = [], []

    def copy(table: torch.Tensor, device: torch.device) -> torch.Tensor:
        copies.append(table)
        return table.clone()

    monkeypatch.setattr(native, "available", lambda name: True)
    monkeypatch.setattr(native, "function", lambda *_: lambda *given: launches.append(given[1]))
    monkeypatch.setattr(_device_tables, "to_device", copy)
    monkeypatch.setattr(_device_tables, "capturing", lambda: capturing)
    table = upload(np.arange(count), torch.device("cpu"))
    assert (len(copies), launches, len(table)) == (pinned, [] if pinned else [count], count)
