"""What must happen before other imports, in the pytest process and in the processes that it starts."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

# OpenMP's threads spin for milliseconds when a loop is done; where test processes share the cores, that is most of what
# they do. Read when torch loads OpenMP, and inherited by the processes of xdist.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

_ORACLE = Path(sys.prefix) / "oracle"  # where the Makefile puts a torchvision that has no CPU build
if torch.version.cuda is None and _ORACLE.is_dir():
    sys.path.append(str(_ORACLE))

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel module is imported

if torch.version.cuda is None and importlib.util.find_spec("torchvision") is not None:
    # torchvision's wheel of the registry is a CUDA build, which fails to register its fakes for these two ops.
    _TORCHVISION = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _TORCHVISION.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
