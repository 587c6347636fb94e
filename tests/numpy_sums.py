"""The order in which NumPy adds."""

from __future__ import annotations

import numpy as np
import pytest

AS_RECORDED = np.lib.NumpyVersion(np.__version__) >= "2.3.0"
"""Before NumPy 2.3 the sum of a large array may differ in its last bit, here and in the libraries compared with."""

needs_recorded_order = pytest.mark.skipif(not AS_RECORDED, reason="NumPy before 2.3 adds large arrays in another order")
