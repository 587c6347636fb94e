"""Evaluation metrics where the tensors already are. Importing this loads neither torch nor numpy.

Every metric is here, and in the package of its task (``valor_gpu.detection``, ``classification``, ``nominal``,
``regression``, ``retrieval``, ``segmentation``, ``text``); ``MetricCollection``, aggregations and wrappers are those of
torchmetrics. A program written for torchmetrics runs after ``import valor_gpu as torchmetrics``.

``valor_gpu.judge`` asks language models, ``valor_gpu.coco`` has the classes of pycocotools,
``valor_gpu.valor`` those of valor_core, ``valor_gpu.inputs`` masks in every form, ``valor_gpu.ops`` the kernels.
``valor_gpu.stats`` has intervals and paired tests. ``valor_gpu.evaluate`` scores data sets, ``valor_gpu.offline`` data
in many files. ``valor-gpu doctor`` says which kernels serve here.
"""

from __future__ import annotations

import importlib
from functools import cache

from valor_gpu._lazy import lazy_names
from valor_gpu._missing import MissingPackages
from valor_gpu._version import __version__ as __version__
from valor_gpu.compat.torchmetrics import sources as _torchmetrics
from valor_gpu.compat.torchmetrics.paths import TorchmetricsPaths

_PACKAGES = (
    "classification",
    "coco",
    "detection",
    "functional",
    "inputs",
    "judge",
    "nominal",
    "offline",
    "ops",
    "regression",
    "retrieval",
    "segmentation",
    "stats",
    "text",
    "valor",
)
_ERRORS = (
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "MissingPackageError",
    "NativeError",
    "SyncError",
    "ValorError",
)
_HOMES = {
    **dict.fromkeys(_ERRORS, "valor_gpu.errors"),
    **dict.fromkeys(("Result", "Signature"), "valor_gpu.result"),
    "EvaluationResult": "valor_gpu.evaluation.result",
    "Metric": "valor_gpu.metric",
    "Ragged": "valor_gpu.ragged",
    "State": "valor_gpu.state",
    "evaluate": "valor_gpu.evaluation.run",
    "load_metric": "valor_gpu.saved_metric",
    **{package: f"valor_gpu.{package}" for package in _PACKAGES},
}


@cache
def _classes() -> dict[str, str]:
    """Class to the module it is taken from: those of torchmetrics that hold metrics, then every public class of a task.

    Where two tasks have a name, it is that of the task which comes first, as in torchmetrics.
    """
    found = _torchmetrics.passed_through()
    for task in reversed(_torchmetrics.TASKS):
        package = importlib.import_module(f"valor_gpu.{task}")
        found |= {name: package.__name__ for name in package.__all__ if name != name.lower()}
    return found


MissingPackages.install()
TorchmetricsPaths.install()
__getattr__, __dir__ = lazy_names(__name__, _HOMES, _PACKAGES, _classes)
