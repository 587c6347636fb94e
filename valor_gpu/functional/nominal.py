"""Agreement about the categories of one batch. See the class of each for its definition."""

from __future__ import annotations

from valor_gpu._lazy import names_of_package
from valor_gpu.compat.torchmetrics.functional.nominal import *  # noqa: F403
from valor_gpu.compat.torchmetrics.functional.nominal import __all__ as __all__

__path__: list[str] = []  # modules below have no file: valor_gpu.compat.torchmetrics.paths makes them
__getattr__ = names_of_package(__name__)
