"""The fields that evaluators read, and every other name that users have for them. No torch.

The names are those of Azure's guides: ``questions``, ``contexts``, ``y_pred``, ``y_test`` of the SDK, ``question``,
``answer``, ``context``, ``ground_truth`` of Studio, and ``query``, ``response`` of later releases.

Example:
    >>> field_of("y_pred"), field_of("Ground truth"), field_of("price")
    ('answer', 'ground_truth', None)
"""

from __future__ import annotations

from collections.abc import Iterable

QUESTION, ANSWER, CONTEXT, GROUND_TRUTH, MESSAGES = "question", "answer", "context", "ground_truth", "messages"

FIELDS = {
    QUESTION: ("questions", "query", "queries"),
    ANSWER: ("answers", "y_pred", "response", "responses", "prediction", "predictions"),
    CONTEXT: ("contexts",),
    GROUND_TRUTH: ("ground_truths", "y_test", "groundtruth", "reference", "references"),
    MESSAGES: ("conversation", "conversations"),
}
"""Canonical name of each field to its aliases, in the order in which they are looked for."""

FORGIVEN = {"groundtruth": "ground_truth"}
"""A column that the sample of the SDK guide names to the column that its data has; accepted with a warning."""

_FIELD_OF = {name: field for field, aliases in FIELDS.items() for name in (field, *aliases)}


def field_of(name: str) -> str | None:
    """The canonical field that a name means, whatever its case, with spaces or hyphens for underscores; else None."""
    return _FIELD_OF.get(name.strip().casefold().replace(" ", "_").replace("-", "_"))


def names_of(field: str, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that mean a field.

    Returns:
        One name where it is the canonical one; otherwise every name that means the field.

    Example:
        >>> names_of("answer", ["response", "prediction", "id"]), names_of("answer", ["response", "answer"])
        (['response', 'prediction'], ['answer'])
    """
    found = [name for name in names if field_of(name) == field]
    return [field] if field in found else found
