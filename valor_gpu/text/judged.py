"""Metrics of generated text that a judge decides, question by question. No torch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.judge.metrics.answers import AnswerCorrectness, AnswerRelevance
    from valor_gpu.judge.metrics.coherence import Coherence, SummaryCoherence
    from valor_gpu.judge.metrics.contexts import ContextPrecision, ContextRecall, ContextRelevance
    from valor_gpu.judge.metrics.evaluate import METRICS, JudgedTexts, evaluate_texts, evaluate_texts_async
    from valor_gpu.judge.metrics.grounding import Faithfulness, Hallucination
    from valor_gpu.judge.metrics.opinions import Bias, Toxicity
    from valor_gpu.judge.metrics.prompts import Prompt, load_prompt, load_prompts, prompt_names
    from valor_gpu.judge.metrics.rules import TextRow
    from valor_gpu.judge.metrics.text_metric import PromptedMetric

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
    "answers": ("AnswerCorrectness", "AnswerRelevance"),
    "coherence": ("Coherence", "SummaryCoherence"),
    "contexts": ("ContextPrecision", "ContextRecall", "ContextRelevance"),
    "evaluate": ("METRICS", "JudgedTexts", "evaluate_texts", "evaluate_texts_async"),
    "grounding": ("Faithfulness", "Hallucination"),
    "opinions": ("Bias", "Toxicity"),
    "prompts": ("Prompt", "load_prompt", "load_prompts", "prompt_names"),
    "rules": ("TextRow", "TextRules"),
    "text_metric": ("PromptedMetric",),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"valor_gpu.judge.metrics.{module}" for module, names in _HOMES.items() for name in names}
)

# Pickles of 0.2.0 name these modules.
for _old in (*_HOMES, "metric"):
    sys.modules.setdefault(f"{__name__}.{_old}", sys.modules[__name__])
