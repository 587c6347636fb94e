"""The devices that tests run on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

CUDA: list[Any] = [pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else []
"""Parameters for fixtures. Without a device, thousands of cases are not made only to be skipped."""
