"""Tests of saved results against a baseline, which go on in the background: drawing images anew takes seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError
from valor_gpu.pages.texts import Html
from valor_gpu.store import Run
from valor_gpu.web.errands import Errand
from valor_gpu.web.studio import Studio

if TYPE_CHECKING:
    from valor_gpu.comparison.comparison_result import ComparisonResult

_KEPT = 24
_LOCK = threading.Lock()

Mark = tuple[Any, ...]


def vision_tests(
    studio: Studio, runs: Sequence[Run], letters: Mapping[str, str], marks: Mapping[str, Mark]
) -> list[dict[str, Any]]:
    """What pages show of the tests of results: for each run beside the baseline a table, that it waits, or why not.

    Args:
        studio: which keeps the last ones.
        runs: the baseline first.
        letters: by id of a run.
        marks: by id of a run, what changes when the run does.

    Returns:
        ``letter``, ``waits``, ``why`` (empty: there are tables), ``answer``, ``numbers``, ``families`` and ``notes``.
    """
    baseline, *others = runs
    errands = [_errand(studio, baseline, run, marks) for run in others]
    all(errand is not None and errand.wait() for errand in errands)
    return [_shown(errand, letters[baseline.id], letters[run.id]) for errand, run in zip(errands, others)]


def _errand(studio: Studio, baseline: Run, run: Run, marks: Mapping[str, Mark]) -> Errand | None:
    """The work of a comparison, begun when it is first asked for; None while too much else is under way."""
    key = (baseline.id, marks[baseline.id], run.id, marks[run.id])
    with _LOCK:
        memory: dict[Any, Errand] = studio.memory.setdefault("vision tests", {})
        if key not in memory:
            try:
                name = studio.errands.start(_work(baseline, run), {"name": "comparison"})
            except InputError:
                return None
            started = studio.errands.get(name)
            assert started is not None
            memory[key] = started
            while len(memory) > _KEPT:
                memory.pop(next(iter(memory)))
        return memory[key]


def _work(baseline: Run, run: Run) -> Callable[[], Any]:
    def work() -> Any:
        from valor_gpu.comparison.comparing import compare

        return compare(baseline, run)

    return work


def _shown(errand: Errand | None, base: str, letter: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "letter": letter,
        "waits": errand is None or not errand.is_done,
        "why": "",
        "numbers": None,
    }
    if errand is None or not errand.is_done:
        return found
    if isinstance(errand.error, InputError):
        return {**found, "why": str(errand.error)}
    if errand.error is not None:
        raise errand.error
    return {**found, **_tables(errand.found, (base, letter))}


def _tables(result: ComparisonResult, names: tuple[str, str]) -> dict[str, Any]:
    from valor_gpu.comparison.compared_numbers import compared, notes_of
    from valor_gpu.comparison.comparison_markup import family_table, hypothesis_paragraphs, number_table
    from valor_gpu.comparison.comparison_text import answer
    from valor_gpu.report.titles import title, words_of

    found = compared(result)
    families: list[tuple[str, str, Html]] = [
        (words_of(title(family.name)[0]), family.summary, family_table(family, result, names))
        for family in found.families
        if family.tested
    ]
    return {
        "answer": answer(result),
        "numbers": number_table(found, result, names),
        "families": families,
        "tests": list(hypothesis_paragraphs(result, found)),
        "notes": notes_of(result),
    }
