"""Evaluation of data sets: rows in, scored rows and a summary out. Imports neither torch nor pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.evaluation.config import RunConfig, load_config
    from valor_gpu.evaluation.engine.execute import EvaluationInterrupted
    from valor_gpu.evaluation.engine.stages import RowFailed
    from valor_gpu.evaluation.evaluators.base import Outcome, evaluator
    from valor_gpu.evaluation.evaluators.custom import custom_evaluator
    from valor_gpu.evaluation.evaluators.saved import save_evaluator, saved_evaluator
    from valor_gpu.evaluation.prompts.prompt_files import prompt_evaluator
    from valor_gpu.evaluation.result import EvaluationResult
    from valor_gpu.evaluation.results.comparison import Comparison, compare_group, compare_runs
    from valor_gpu.evaluation.results.exports import export_csv, export_jsonl
    from valor_gpu.evaluation.results.summary import run_summary
    from valor_gpu.evaluation.resume import rescore_run, resume_run
    from valor_gpu.evaluation.run import evaluate

__all__ = [
    "Comparison",
    "EvaluationInterrupted",
    "EvaluationResult",
    "Outcome",
    "RowFailed",
    "RunConfig",
    "compare_group",
    "compare_runs",
    "custom_evaluator",
    "evaluate",
    "evaluator",
    "export_csv",
    "export_jsonl",
    "load_config",
    "prompt_evaluator",
    "rescore_run",
    "resume_run",
    "run_summary",
    "save_evaluator",
    "saved_evaluator",
]

_HOMES = {
    "config": ("RunConfig", "load_config"),
    "engine.execute": ("EvaluationInterrupted",),
    "engine.stages": ("RowFailed",),
    "evaluators.base": ("Outcome", "evaluator"),
    "evaluators.custom": ("custom_evaluator",),
    "evaluators.saved": ("save_evaluator", "saved_evaluator"),
    "prompts.prompt_files": ("prompt_evaluator",),
    "result": ("EvaluationResult",),
    "results.comparison": ("Comparison", "compare_group", "compare_runs"),
    "results.exports": ("export_csv", "export_jsonl"),
    "results.summary": ("run_summary",),
    "resume": ("rescore_run", "resume_run"),
    "run": ("evaluate",),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
