"""Codes by which C++ knows box formats and dtypes of numpy arrays; those of tensors: dtypes.py. No torch."""

from __future__ import annotations

import numpy as np

BOX_FORMATS = ("xyxy", "xywh", "cxcywh")
"""A format's position is its code, BoxFormat in csrc/core/boxes.h."""

NUMPY_FLOAT_TYPES = {np.dtype(np.float16): 0, np.dtype(np.float32): 2, np.dtype(np.float64): 3}
"""FloatType in csrc/core/load.h; 1, bfloat16, is no type of numpy."""

NUMPY_INT_TYPES = {
    np.dtype(np.int8): 0,
    np.dtype(np.uint8): 1,
    np.dtype(np.int16): 2,
    np.dtype(np.int32): 3,
    np.dtype(np.int64): 4,
    np.dtype(np.bool_): 5,
}
"""IntType in csrc/core/load.h."""
