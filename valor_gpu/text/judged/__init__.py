"""Metrics of generated text that a judge decides, question by question. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.text.judged.answers import AnswerCorrectness, AnswerRelevance
    from valor_gpu.text.judged.coherence import Coherence, SummaryCoherence
    from valor_gpu.text.judged.contexts import ContextPrecision, ContextRecall, ContextRelevance
    from valor_gpu.text.judged.evaluate import METRICS, JudgedTexts, evaluate_texts, evaluate_texts_async
    from valor_gpu.text.judged.grounding import Faithfulness, Hallucination
    from valor_gpu.text.judged.metric import PromptedMetric
    from valor_gpu.text.judged.opinions import Bias, Toxicity
    from valor_gpu.text.judged.prompts import Prompt, load_prompt, load_prompts, prompt_names
    from valor_gpu.text.judged.rules import TextRow

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
    "metric": ("PromptedMetric",),
    "opinions": ("Bias", "Toxicity"),
    "prompts": ("Prompt", "load_prompt", "load_prompts", "prompt_names"),
    "rules": ("TextRow",),
}
__getattr__, __dir__ = lazy_names(
    __name__, {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}
)
