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
