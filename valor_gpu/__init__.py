"""Evaluation metrics where the tensors already are. Importing this loads neither torch nor numpy.

``valor_gpu.detection``, ``valor_gpu.classification``, ``valor_gpu.segmentation`` and ``valor_gpu.text`` have the
metrics of their tasks, ``valor_gpu.judge`` asks language models, ``valor_gpu.coco`` has the classes of pycocotools,
``valor_gpu.valor`` those of valor_core, ``valor_gpu.inputs`` masks in every form, ``valor_gpu.ops`` the kernels.
``valor_gpu.stats`` has intervals and paired tests. ``valor_gpu.evaluate`` scores data sets, ``valor_gpu.offline`` data
in many files. ``valor-gpu doctor`` says which kernels serve here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names
from valor_gpu._missing import MissingPackages
from valor_gpu._version import __version__

if TYPE_CHECKING:
    from valor_gpu import (
        classification,
        coco,
        detection,
        functional,
        inputs,
        judge,
        offline,
        ops,
        segmentation,
        stats,
        text,
        valor,
    )
    from valor_gpu.errors import (
        InputError,
        InputTypeError,
        MissingExtraError,
        MissingPackageError,
        NativeError,
        SyncError,
        ValorError,
    )
    from valor_gpu.evaluation.result import EvaluationResult
    from valor_gpu.evaluation.run import evaluate
    from valor_gpu.metric import Metric
    from valor_gpu.ragged import Ragged
    from valor_gpu.result import Result, Signature
    from valor_gpu.saved_metric import load_metric
    from valor_gpu.state import State

__all__ = [
    "EvaluationResult",
    "InputError",
    "InputTypeError",
    "Metric",
    "MissingExtraError",
    "MissingPackageError",
    "NativeError",
    "Ragged",
    "Result",
    "Signature",
    "State",
    "SyncError",
    "ValorError",
    "__version__",
    "classification",
    "coco",
    "detection",
    "evaluate",
    "functional",
    "inputs",
    "judge",
    "load_metric",
    "offline",
    "ops",
    "segmentation",
    "stats",
    "text",
    "valor",
]

_PACKAGES = (
    "classification",
    "coco",
    "detection",
    "functional",
    "inputs",
    "judge",
    "offline",
    "ops",
    "segmentation",
    "stats",
    "text",
    "valor",
)
_HOMES = {
    **dict.fromkeys(
        (
            "InputError",
            "InputTypeError",
            "MissingExtraError",
            "MissingPackageError",
            "NativeError",
            "SyncError",
            "ValorError",
        ),
        "valor_gpu.errors",
    ),
    **dict.fromkeys(("Result", "Signature"), "valor_gpu.result"),
    "EvaluationResult": "valor_gpu.evaluation.result",
    "Metric": "valor_gpu.metric",
    "Ragged": "valor_gpu.ragged",
    "State": "valor_gpu.state",
    "evaluate": "valor_gpu.evaluation.run",
    "load_metric": "valor_gpu.saved_metric",
    **{package: f"valor_gpu.{package}" for package in _PACKAGES},
}

_TASKS = ("classification", "detection", "segmentation", "text")
"""Packages of metrics, whose names are looked for where one is asked of valor_gpu itself."""

MissingPackages.install()
__getattr__, __dir__ = lazy_names(__name__, _HOMES, _TASKS)
