"""The APIs of pycocotools and lvis-api, over the ops of valor_gpu. Importing it loads neither torch nor numpy.

Their names are in :mod:`valor_gpu.compat.pycocotools` and :mod:`valor_gpu.compat.lvis`. The modules here compute the
numbers, in this order (``tools/first_difference.py`` tells which of them a fault is in):

- definition: ``protocols`` and ``params``; ``one_cell`` matches one image and category in plain Python;
- rows: ``layout``, ``match_layout`` (flags such as crowd) and, of LVIS, ``federated``;
- similarities: ``geometry``, ``mask_geometry``, ``keypoints``, ``rotated`` and ``crowdpose``;
- driver: ``evaluation`` and ``lvis_records``, which call :mod:`valor_gpu.ops` through ``engine`` or ``torch_engine``;
- arrays of precision and recall: ``selection`` and ``accumulation``;
- summary: ``summarize``; ``evaluation_result`` and ``lvis_result`` give the numbers their names.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names, open_front_door

if TYPE_CHECKING:
    from valor_gpu.coco import mask
    from valor_gpu.coco.params import Params
    from valor_gpu.compat.lvis.eval import LVISEval, LVISParams
    from valor_gpu.compat.lvis.lvis import LVIS, LVISResults
    from valor_gpu.compat.pycocotools.coco import COCO
    from valor_gpu.compat.pycocotools.cocoeval import COCOeval

__all__ = [
    "COCO",
    "LVIS",
    "COCOeval",
    "LVISEval",
    "LVISParams",
    "LVISResults",
    "Params",
    "init_as_pycocotools",
    "mask",
]

_HOMES = {
    "COCO": "valor_gpu.compat.pycocotools.coco",
    "COCOeval": "valor_gpu.compat.pycocotools.cocoeval",
    "LVIS": "valor_gpu.compat.lvis.lvis",
    "LVISEval": "valor_gpu.compat.lvis.eval",
    "LVISParams": "valor_gpu.compat.lvis.eval",
    "LVISResults": "valor_gpu.compat.lvis.lvis",
    "Params": "valor_gpu.coco.params",
    "mask": "valor_gpu.coco.mask",
}

# Module of pycocotools -> ours.
_STAND_INS = {
    "coco": "valor_gpu.compat.pycocotools.coco",
    "cocoeval": "valor_gpu.compat.pycocotools.cocoeval",
    "mask": "valor_gpu.coco.mask",
}


def init_as_pycocotools() -> None:
    """Makes ``import pycocotools`` give this package, for code that cannot be changed; call it before that import.

    Example:
        >>> import sys
        >>> before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "pycocotools"}
        >>> init_as_pycocotools()
        >>> from pycocotools.cocoeval import COCOeval
        >>> COCOeval.__module__
        'valor_gpu.compat.pycocotools.cocoeval'
        >>> for name in ("pycocotools", *(f"pycocotools.{part}" for part in _STAND_INS)):
        ...     del sys.modules[name]
        >>> sys.modules.update(before)
    """
    package = ModuleType("pycocotools", init_as_pycocotools.__doc__)
    package.__spec__ = ModuleSpec("pycocotools", None, is_package=True)
    package.__path__ = []
    sys.modules["pycocotools"] = package
    for name, home in _STAND_INS.items():
        module = importlib.import_module(home)
        setattr(package, name, module)
        sys.modules[f"pycocotools.{name}"] = module


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
# Pickles name classes by these modules.
open_front_door(f"{__name__}.dataset", "valor_gpu.compat.pycocotools.coco")
open_front_door(f"{__name__}.evaluator", "valor_gpu.compat.pycocotools.cocoeval")
open_front_door(f"{__name__}.lvis_eval", "valor_gpu.compat.lvis.eval")
