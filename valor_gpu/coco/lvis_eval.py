"""Path of ``LVISEval`` in pickles of older releases; see :mod:`valor_gpu.compat.lvis.eval`."""

from valor_gpu.compat.lvis.eval import LVISEval, LVISParams, _Pointers

__all__ = ["LVISEval", "LVISParams", "_Pointers"]
