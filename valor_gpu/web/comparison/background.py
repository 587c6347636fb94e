"""Comparisons of runs, made in the background: 10,000 samples of 100,000 rows take a quarter of a minute a metric."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.best_runs import best_runs
from valor_gpu.evaluation.results.changed_rows import ChangedRows
from valor_gpu.evaluation.results.compared_runs import Comparison
from valor_gpu.evaluation.results.comparison import compared_group
from valor_gpu.evaluation.results.metric_summary import CONFIDENCE
from valor_gpu.evaluation.results.row_values import Ints
from valor_gpu.evaluation.results.run_pairs import PairOptions, RunPair, joined_pair, with_tests
from valor_gpu.store import Run
from valor_gpu.web.comparison.inputs import asked_otherwise
from valor_gpu.web.errands import Errand
from valor_gpu.web.studio import Studio

RESAMPLES, SEED = 10_000, 0
"""Those of :func:`~valor_gpu.evaluation.compare_runs`, so that the page has its numbers."""
_BYTES = 256 << 20
"""Numbers of rows that are kept for later pages; the last comparison is kept whatever its size."""
_KEPT = 24
_CHOICES = 16
_CHEAP = 2.0
"""Seconds; a comparison that takes no longer is made anew for each page while its runs go on."""
_LOCK = threading.Lock()

Mark = tuple[Any, ...]


class ComparedRuns:
    """Runs beside a baseline: first their shared rows and means, then intervals and tests.

    Attributes:
        found: comparisons in the order of the runs, without tests at first; empty before that.
        is_tested: whether they have their tests.
        best: name of a metric to its best run, 0 for the baseline, where the data show it; of three and more runs.
        rows: of the comparisons; None before.
        asked: how many joined rows ask something else in each run, in words; empty for none, and before it is known.
        size: bytes of the numbers of rows.

    Args:
        baseline: of a store.
        runs: one or more others.
        column: of the data, whose rows of one value are drawn as a whole; None: each row stands alone.
    """

    def __init__(self, baseline: Run, runs: Sequence[Run], column: str | None) -> None:
        self.found: list[Comparison] = []
        self.is_tested = False
        self.best: dict[str, int] = {}
        self.rows: ChangedRows | None = None
        self.asked: list[str] = []
        self.size = 0
        self._baseline, self._runs = baseline, runs
        self._options = PairOptions(CONFIDENCE, RESAMPLES, SEED, column)
        self._choices: dict[Any, tuple[Ints, str]] = {}
        self._begun = time.monotonic()
        self._seconds = 0.0

    def is_fresh(self) -> bool:
        """Whether it is recent enough to be shown again although its runs go on: it must have been dear."""
        return self._seconds > _CHEAP and time.monotonic() - self._begun < 3 * self._seconds

    def work(self) -> None:
        """Computes everything.

        Raises:
            InputError: as of :func:`~valor_gpu.evaluation.compare_group`.
        """
        joined = [joined_pair(run, self._baseline, None, self._options) for run in self._runs]
        self.size = sum(pair.run.nbytes + pair.baseline.nbytes for each in joined for pair in each.pairs)
        self._keep([each.comparison() for each in joined])
        self.asked = [asked_otherwise(each) for each in joined]
        tested: list[RunPair] = [with_tests(each) for each in joined]
        self.best = best_runs(tested) if len(tested) > 1 else {}
        self._keep(compared_group(tested))
        self.is_tested = True
        self._seconds = time.monotonic() - self._begun

    def rename(self, runs: Sequence[Run]) -> None:
        """Takes the names of runs as they are now, which people edit; nothing else of a run that has ended changes.

        Args:
            runs: the baseline first, as this comparison has them.
        """
        for kept, run in zip((self._baseline, *self._runs), runs):
            kept.name = run.name

    def _keep(self, found: list[Comparison]) -> None:
        self.rows, self.found = ChangedRows(found), found

    def choose(
        self, metric: str | None, kind: str, sort: str, comparisons: Sequence[int], text: str
    ) -> tuple[Ints, str]:
        """Returns places of the chosen rows; see :meth:`ChangedRows.choose`. The last choices are kept."""
        assert self.rows is not None  # of a page that shows rows
        key = (metric, kind, sort, tuple(comparisons), text)
        if key not in self._choices:
            self._choices[key] = self.rows.choose(metric, kind, sort, comparisons, text)
            while len(self._choices) > _CHOICES:
                self._choices.pop(next(iter(self._choices)), None)
        return self._choices[key]


class _Kept(NamedTuple):
    """A comparison with the errand that makes it, and whether its runs have ended."""

    compared: ComparedRuns
    errand: Errand
    has_ended: bool

    def holds(self) -> bool:
        """Whether pages show it: runs that go on are compared anew, but not while a comparison is being made."""
        return self.has_ended or not self.errand.is_done or self.compared.is_fresh()


def compared_runs(
    studio: Studio, runs: Sequence[Run], marks: Mapping[str, Mark], column: str | None
) -> tuple[ComparedRuns, bool]:
    """Returns the comparison of runs with a baseline, as far as it is made, and whether more is to come.

    Args:
        studio: which keeps the last ones.
        runs: the baseline first.
        marks: by id of a run: its state, and when it ended, None before.
        column: of the data, whose rows of one value are drawn as a whole, or None.

    Raises:
        InputError: as of :func:`~valor_gpu.evaluation.compare_group`.
    """
    kept, is_new = _kept(studio, runs, marks, column)
    if kept is None:
        return ComparedRuns(runs[0], runs[1:], column), True
    waits = not (kept.errand.wait() if is_new or not kept.compared.found else kept.errand.is_done)
    if kept.errand.error is not None:
        if not isinstance(kept.errand.error, InputError):
            _forget(studio, kept)
        raise kept.errand.error
    kept.compared.rename(runs)
    return kept.compared, waits


def _kept(
    studio: Studio, runs: Sequence[Run], marks: Mapping[str, Mark], column: str | None
) -> tuple[_Kept | None, bool]:
    """The work of a comparison, and whether it begins now; None while too much else is under way."""
    key = (column, *((run.id, marks[run.id]) for run in runs))
    with _LOCK:
        memory: dict[Any, _Kept] = studio.memory.setdefault("comparisons", {})
        if key in memory and memory[key].holds():
            memory[key] = memory.pop(key)  # the last one that was asked for stays longest
            return memory[key], False
        compared = ComparedRuns(runs[0], runs[1:], column)
        try:
            errand = studio.errands.get(studio.errands.start(compared.work, {"name": "comparison"}))
        except InputError:
            return None, True
        assert errand is not None
        memory[key] = _Kept(compared, errand, all(marks[run.id][1] is not None for run in runs))
        _make_room(memory)
        return memory[key], True


def _make_room(memory: dict[Any, _Kept]) -> None:
    """Takes out the oldest comparisons, but none that is being made, nor the last one."""
    for key in [key for key, each in list(memory.items())[:-1] if each.errand.is_done]:
        if len(memory) <= _KEPT and sum(each.compared.size for each in memory.values()) <= _BYTES:
            return
        del memory[key]


def _forget(studio: Studio, kept: _Kept) -> None:
    with _LOCK:
        memory: dict[Any, _Kept] = studio.memory["comparisons"]
        for key in [key for key, each in memory.items() if each is kept]:
            del memory[key]
