"""Constant tables on a device: how many are kept, and for how long."""

from __future__ import annotations

from collections import OrderedDict
from weakref import ref

import numpy as np
import pytest
import torch

from valor_gpu.ops import _device_tables
from valor_gpu.ops._device_tables import constant


def test_tables_stay_where_a_graph_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    capturing = False
    for name, value in (("ROOM", 2), ("_tables", OrderedDict()), ("_in_graphs", {}), ("capturing", lambda: capturing)):
        monkeypatch.setattr(_device_tables, name, value)
    device = torch.device("meta")
    tables = [np.arange(5.0) + i for i in range(4)]
    eager, captured = (ref(constant(table, device)) for table in tables[:2])
    capturing = True
    assert constant(tables[1], device) is captured()
    capturing = False
    for table in tables[2:]:
        constant(table, device)
    assert eager() is None
    assert captured() is not None
