"""``lvis`` by the path that programs import; see :mod:`valor_gpu.compat.lvis`."""

from valor_gpu.compat.lvis.lvis import LVIS, LVISResults, _dataset_of

__all__ = ["LVIS", "LVISResults", "_dataset_of"]
