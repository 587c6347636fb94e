"""How many seeds a fuzz test takes."""

from __future__ import annotations

import os


def seeds(n: int) -> range:
    """``n`` seeds, times the environment variable VALOR_GPU_FUZZ."""
    return range(n * int(os.environ.get("VALOR_GPU_FUZZ", "1")))
