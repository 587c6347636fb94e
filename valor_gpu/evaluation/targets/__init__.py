"""Targets: functions, endpoints and models whose answers are evaluated. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.evaluation.targets.base import Target, TargetAnswer
    from valor_gpu.evaluation.targets.functions import FunctionTarget
    from valor_gpu.evaluation.targets.http import HttpTarget
    from valor_gpu.evaluation.targets.models import ModelTarget
    from valor_gpu.evaluation.targets.open import open_target, target_from_config

__all__ = ["FunctionTarget", "HttpTarget", "ModelTarget", "Target", "TargetAnswer", "open_target", "target_from_config"]

_HOMES = {
    "base": ("Target", "TargetAnswer"),
    "functions": ("FunctionTarget",),
    "http": ("HttpTarget",),
    "models": ("ModelTarget",),
    "open": ("open_target", "target_from_config"),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
