"""Evaluation of data sets: rows in, scored rows and a summary out. Imports neither torch nor pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.evaluation.config import RunConfig, load_config
    from valor_gpu.evaluation.execute import EvaluationInterrupted
    from valor_gpu.evaluation.result import EvaluationResult
    from valor_gpu.evaluation.resume import rescore_run, resume_run
    from valor_gpu.evaluation.run import evaluate
    from valor_gpu.evaluation.stages import RowFailed

__all__ = [
    "EvaluationInterrupted",
    "EvaluationResult",
    "RowFailed",
    "RunConfig",
    "evaluate",
    "load_config",
    "rescore_run",
    "resume_run",
]

_HOMES = {
    "config": ("RunConfig", "load_config"),
    "execute": ("EvaluationInterrupted",),
    "result": ("EvaluationResult",),
    "resume": ("rescore_run", "resume_run"),
    "run": ("evaluate",),
    "stages": ("RowFailed",),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
