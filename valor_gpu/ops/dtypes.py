"""Dtypes of tensors that kernels read, with the codes by which C++ knows them."""

from __future__ import annotations

import torch

FLOAT_TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}
"""FloatType in csrc/core/load.h."""

INT_TYPES = {torch.int8: 0, torch.uint8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.bool: 5}
"""IntType in csrc/core/load.h."""
