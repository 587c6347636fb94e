"""The judge of ``llm_api_params={"client": "mock"}``: fixed replies, no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu.judge.metrics.prompts import OwnPrompts, load_prompts
from valor_gpu.judge.protocol import Messages, Reply, Schema


def _texts(key: str, count: int) -> str:
    return json.dumps({key: [f"{key[:-1].capitalize()} number {number}." for number in range(1, count + 1)]})


def _verdicts(pattern: str) -> str:
    answers: Sequence[str] = [{"y": "yes", "n": "no"}[letter] for letter in pattern]
    return json.dumps({"verdicts": [{"analysis": "mock", "verdict": answer} for answer in answers]})


# The counts and verdicts are those of valor_core's MockLLMClient, so that metrics of its examples have its values.
_REPLIES = {
    "statements": _texts("statements", 2),
    "answer_statements": _texts("statements", 2),
    "opinions": _texts("opinions", 2),
    "claims": _texts("claims", 3),
    "correctness": json.dumps({"TP": ["Right."], "FP": ["Wrong."], "FN": ["Missing."]}),
    "relevance": _verdicts("yn"),
    "bias": _verdicts("ny"),
    "toxicity": _verdicts("nn"),
    "coherence": "4",
    "summary_coherence": "4",
    "context_precision": _verdicts("ynny"),
    "context_recall": _verdicts("yy"),
    "context_relevance": _verdicts("yyny"),
    "faithfulness": _verdicts("ynn"),
    "hallucination": _verdicts("nnyn"),
}


class MockJudge:
    """Answers every question with a fixed reply, as valor_core's MockLLMClient does.

    Verdicts on contexts are those of four contexts; with another number of contexts the reply does not fit, and the
    metric has the status ``error``.

    Args:
        prompts: the user's own, as :func:`~valor_gpu.valor.text_generation.evaluate_text_generation` takes them.

    Example:
        >>> from valor_gpu.valor import Annotation, Datum, Prediction, evaluate_text_generation
        >>> answer = Prediction(Datum("q1", text="Why?"), [Annotation(text="It rained.")])
        >>> evaluate_text_generation([answer], ["Bias"], llm_api_params={"client": "mock"}).metrics[0]["value"]
        0.5
    """

    identity: Mapping[str, Any] | None = None

    def __init__(self, prompts: OwnPrompts = None) -> None:
        # A question is known by the text of its prompt before the first input.
        self._beginnings = {prompt.task.split("{{")[0]: name for name, prompt in load_prompts(prompts).items()}

    def __repr__(self) -> str:
        return "MockJudge()"

    async def __call__(self, messages: Messages, schema: Schema | None) -> Reply:
        """The fixed reply of the step that the last message asks for; empty for any other question."""
        content = str(messages[-1]["content"])
        steps = [name for beginning, name in self._beginnings.items() if beginning and content.startswith(beginning)]
        return Reply(_REPLIES.get(steps[0], "") if steps else "")
