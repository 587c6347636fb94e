"""The face of pycocotools over the ops of valor_gpu. Importing it loads neither torch nor numpy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from valor_gpu.coco import mask
    from valor_gpu.coco.dataset import COCO

__all__ = ["COCO", "mask"]

# Public name -> the module that defines it; a name that is itself a module stands for that module.
_HOMES = {"COCO": "valor_gpu.coco.dataset", "mask": "valor_gpu.coco.mask"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    return module if _HOMES[name] == f"{__name__}.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
