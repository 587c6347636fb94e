"""The option of ``pytest benchmarks/bench_ops.py``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--images``: the size of the dataset."""
    parser.addoption("--images", type=int, default=5_000, help="images of the val2017 dataset")
