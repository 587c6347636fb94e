"""Words about failures of a finished run: how many can be tried again, and why others cannot."""

from __future__ import annotations

from typing import Any

from valor_gpu.evaluation.engine.tries import Tries, tries_of
from valor_gpu.evaluation.report.bounds import short, words
from valor_gpu.pages.numbers import count
from valor_gpu.store import Run
from valor_gpu.store.tries import last_try

_SAME, _TEXTS = "the same judge would say the same", "the same texts would be held back again"
_ROW, _CODE = "the row would have to change", "the same code would fail again"
_HOPELESS = {
    "parse_error": ("reply could not be read", "replies could not be read", _SAME),
    "truncated": ("reply ended at its largest length", "replies ended at their largest length", _SAME),
    "content_filter": ("reply was held back by a filter", "replies were held back by a filter", _TEXTS),
    "refused": ("reply was a refusal", "replies were refusals", "the same judge would refuse again"),
    "invalid_row": ("row cannot be read", "rows cannot be read", "the data would have to change"),
    "missing_field": ("score lacks a field of its row", "scores lack a field of their row", _ROW),
    "not_applicable": ("score does not apply to its row", "scores do not apply to their row", _ROW),
    "undefined": ("score is not defined for its row", "scores are not defined for their row", _ROW),
    "evaluator_error": ("score failed in the evaluator's code", "scores failed in the evaluator's code", _CODE),
    "metric_error": ("score failed in the metric's code", "scores failed in the metric's code", _CODE),
    "judge_error": ("score failed in the judge's code", "scores failed in the judge's code", _CODE),
}
"""Status to what one and several failures are, and why asking again does not help."""


def try_parts(run: Run, state: str) -> dict[str, Any]:
    """What the template of a run's page needs to offer another try; of a run that is not finished nothing."""
    if state != "finished":
        return {"tries": None, "hopeless": [], "last_try": ""}
    tries = tries_of(run)
    ended = last_try(run)
    return {
        "tries": tries if tries.n else None,
        "hopeless": hopeless_words(tries) if tries.n or tries.hopeless else [],
        "last_try": short(ended.reason, 2000) if ended is not None else "",
    }


def hopeless_words(tries: Tries) -> list[str]:
    """Why some failures are not tried again, the most frequent first.

    Example:
        >>> hopeless_words(Tries(0, 2, {"parse_error": 3, "refused": 1}))  # doctest: +NORMALIZE_WHITESPACE
        ['3 replies could not be read: the same judge would say the same',
         '1 reply was a refusal: the same judge would refuse again']
    """
    found = []
    for status, n in sorted(tries.hopeless.items(), key=lambda each: -each[1]):
        named = f"“{words(status)}”"
        other = (f"has the status {named}", f"have the status {named}", "it is not tried again")
        one, many, why = _HOPELESS.get(status, other)
        found.append(f"{count(n)} {one if n == 1 else many}: {why}")
    return found
