"""Metrics of one batch, by the names and arguments of torchmetrics.

``valor_gpu.functional`` has every function; ``valor_gpu.functional.classification``, ``.detection``, ``.nominal``,
``.regression``, ``.retrieval``, ``.segmentation`` and ``.text`` have those of one task, as in torchmetrics.

Positions are those of torchmetrics: ``(preds, target)``, then the arguments of its function. To give
``(y_true, y_pred)``, name both. Tensors, numpy arrays and lists of Python numbers are taken; the value is that of
``compute`` of the class, which computes it.
"""

# Type checkers read __init__.pyi, which tools/make_names.py writes.

from __future__ import annotations

import sys

from valor_gpu._lazy import lazy_names
from valor_gpu.compat.torchmetrics.functional.names import MODULES

_MODULES = {module: f"{__name__}.{module}" for module in MODULES}
_HOMES = {name: _MODULES[module] for module, names in MODULES.items() for name in names}

__all__ = sorted(_HOMES)

__getattr__, _listed = lazy_names(__name__, _HOMES | _MODULES)


# Pickles of 0.2.0, as of functools.partial(functional.binary_recall), name these modules.
for _old in ("binary", "boxes", "multiclass", "multilabel", "tasks", "texts", "tokens"):
    sys.modules.setdefault(f"{__name__}.{_old}", sys.modules[__name__])


def __dir__() -> list[str]:
    return [*_listed(), *MODULES]
