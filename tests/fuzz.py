"""How many seeds a fuzz test takes."""

from __future__ import annotations

import os
from typing import Any

import pytest


def seeds(n: int) -> range:
    """``n`` seeds, times the environment variable VALOR_GPU_FUZZ."""
    return range(n * int(os.environ.get("VALOR_GPU_FUZZ", "1")))


def seeds_with_smoke(n: int, marked: int = 1) -> list[Any]:
    """:func:`seeds`, the first ``marked`` of them marked smoke: sanitizers make a test ten times as slow."""
    return [pytest.param(seed, marks=pytest.mark.smoke) if seed < marked else seed for seed in seeds(n)]
