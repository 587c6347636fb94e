"""Metrics of generated text that a judge decides, question by question. No torch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.judge.metrics.evaluate import JudgedTexts, evaluate_texts, evaluate_texts_async
    from valor_gpu.judge.metrics.prompts import Prompt, load_prompt, load_prompts, prompt_names
    from valor_gpu.judge.metrics.rules import TextRow
    from valor_gpu.judge.metrics.text_base import PromptedMetric
    from valor_gpu.judge.metrics.text_metrics import (
        METRICS,
        AnswerCorrectness,
        AnswerRelevance,
        Bias,
        Coherence,
        ContextPrecision,
        ContextRecall,
        ContextRelevance,
        Faithfulness,
        Hallucination,
        SummaryCoherence,
        Toxicity,
    )

__all__ = [
    "METRICS",
    "AnswerCorrectness",
    "AnswerRelevance",
    "Bias",
    "Coherence",
    "ContextPrecision",
    "ContextRecall",
    "ContextRelevance",
    "Faithfulness",
    "Hallucination",
    "JudgedTexts",
    "Prompt",
    "PromptedMetric",
    "SummaryCoherence",
    "TextRow",
    "Toxicity",
    "evaluate_texts",
    "evaluate_texts_async",
    "load_prompt",
    "load_prompts",
    "prompt_names",
]

_HOMES = {
    "evaluate": ("JudgedTexts", "evaluate_texts", "evaluate_texts_async"),
    "prompts": ("Prompt", "load_prompt", "load_prompts", "prompt_names"),
    "rules": ("TextRow", "TextRules"),
    "text_base": ("PromptedMetric",),
    "text_metrics": (
        "METRICS",
        "AnswerCorrectness",
        "AnswerRelevance",
        "Bias",
        "Coherence",
        "ContextPrecision",
        "ContextRecall",
        "ContextRelevance",
        "Faithfulness",
        "Hallucination",
        "SummaryCoherence",
        "Toxicity",
    ),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"valor_gpu.judge.metrics.{module}" for module, names in _HOMES.items() for name in names}
)

# Pickles of 0.2.0 name these modules.
for _old in ("answers", "coherence", "contexts", "evaluate", "grounding", "metric", "opinions", "prompts", "rules"):
    sys.modules.setdefault(f"{__name__}.{_old}", sys.modules[__name__])
