"""The table of metrics that rate: what each sends to the judge, and its scale. Data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_QA = frozenset({"question", "answer"})


@dataclass(frozen=True)
class Rating:
    """What a rating metric sends to the judge.

    Attributes:
        prompts: task to the name of its prompt file.
        fields: task to the fields that the prompt shows.
        needed: those that must be there, where it is not all of them but the history.
        low, high: the scale.
        summary: one line.
    """

    prompts: Mapping[str, str]
    fields: Mapping[str, frozenset[str]]
    needed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    low: int = 1
    high: int = 5
    summary: str = ""

    @property
    def is_safety(self) -> bool:
        """Whether the rating is a severity."""
        return self.low == 0

    def need(self, task: str) -> frozenset[str]:
        """Fields that a row or a turn must have."""
        return self.needed.get(task, self.fields[task] - {"history"})


def _answered(prompt: str, summary: str) -> Rating:
    """A metric of question and answer, the same in both tasks."""
    return Rating({"qa": prompt, "chat": prompt}, {"qa": _QA, "chat": _QA}, summary=summary)


def _severity(prompt: str, summary: str) -> Rating:
    # An assistant that speaks first has no question; that must not hide what it says.
    return Rating(
        {"qa": prompt, "chat": prompt}, {"qa": _QA, "chat": _QA}, {"chat": frozenset({"answer"})}, 0, 7, summary
    )


_TURN = _QA | {"context", "history"}
RATINGS: Mapping[str, Rating] = {
    "gpt_groundedness": Rating(
        {"qa": "groundedness", "chat": "chat_groundedness"},
        {"qa": frozenset({"answer", "context"}), "chat": _TURN},
        summary="whether the context bears out what the answer states",
    ),
    "gpt_relevance": Rating(
        {"qa": "relevance", "chat": "chat_relevance"},
        {"qa": _QA | {"context"}, "chat": _TURN},
        summary="how completely the answer deals with the question, and with how little else",
    ),
    "gpt_coherence": _answered("coherence", "how well the sentences of the answer hang together"),
    "gpt_fluency": _answered("fluency", "quality of the answer's language"),
    "gpt_similarity": Rating(
        {"qa": "similarity"},
        {"qa": _QA | {"ground_truth"}},
        summary="how far the answer gives the information of the ground truth",
    ),
    "gpt_retrieval_score": Rating(
        {"qa": "retrieval", "chat": "retrieval"},
        {"qa": frozenset({"question", "context"}), "chat": frozenset({"question", "context", "history"})},
        summary="whether the retrieved documents hold what the question needs, the useful ones first",
    ),
    "violence": _severity("violence", "how severe the violent content of the answer is"),
    "sexual": _severity("sexual", "how severe the sexual content of the answer is"),
    "self_harm": _severity("self_harm", "how severe the content about self-harm in the answer is"),
    "hate_unfairness": _severity("hate_unfairness", "how severe the hateful or unfair content of the answer is"),
}
"""Every metric that rates, by name."""
QUALITY = tuple(name for name, rating in RATINGS.items() if not rating.is_safety)
SAFETY = tuple(name for name, rating in RATINGS.items() if rating.is_safety)


@dataclass(frozen=True)
class ValorRating:
    """A judged metric of Valor over the fields of a row.

    Attributes:
        metric: its class in :mod:`valor_gpu.text.judged`.
        fields: that a row must have.
        summary: one line.
        low, high: the scale.
        higher_is_better: whether a higher value is a better row.
    """

    metric: str
    fields: frozenset[str]
    summary: str
    low: float = 0.0
    high: float = 1.0
    higher_is_better: bool = True


_ANSWER, _GROUNDED = frozenset({"answer"}), frozenset({"answer", "context"})
VALOR: Mapping[str, ValorRating] = {
    "valor_answer_correctness": ValorRating(
        "AnswerCorrectness", _QA | {"ground_truth"}, "F1 of the statements of answer and ground truth, Valor's"
    ),
    "valor_answer_relevance": ValorRating(
        "AnswerRelevance", _QA, "fraction of the answer's statements that deal with the question, Valor's"
    ),
    "valor_bias": ValorRating(
        "Bias", _ANSWER, "fraction of the answer's opinions that are biased, Valor's", higher_is_better=False
    ),
    "valor_coherence": ValorRating("Coherence", _ANSWER, "how well the answer hangs together, Valor's", 1.0, 5.0),
    "valor_context_precision": ValorRating(
        "ContextPrecision",
        frozenset({"question", "context", "ground_truth"}),
        "whether useful contexts stand before useless ones, Valor's",
    ),
    "valor_context_recall": ValorRating(
        "ContextRecall",
        frozenset({"context", "ground_truth"}),
        "fraction of the ground truth's statements that the contexts bear out, Valor's",
    ),
    "valor_context_relevance": ValorRating(
        "ContextRelevance",
        frozenset({"question", "context"}),
        "fraction of the contexts that deal with the question, Valor's",
    ),
    "valor_faithfulness": ValorRating(
        "Faithfulness", _GROUNDED, "fraction of the answer's claims that the contexts bear out, Valor's"
    ),
    "valor_hallucination": ValorRating(
        "Hallucination",
        _GROUNDED,
        "fraction of the contexts that the answer contradicts, Valor's",
        higher_is_better=False,
    ),
    "valor_summary_coherence": ValorRating(
        "SummaryCoherence", _QA, "how well the answer sums up the question's text, Valor's", 1.0, 5.0
    ),
    "valor_toxicity": ValorRating(
        "Toxicity", _ANSWER, "fraction of the answer's opinions that are toxic, Valor's", higher_is_better=False
    ),
}
"""Every judged metric of Valor, by its name here."""
