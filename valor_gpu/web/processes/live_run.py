"""The page of a run that goes on: made of what its process says of it once a second, so that nothing is counted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from valor_gpu.evaluation.report.distributions import Link
from valor_gpu.evaluation.report.facts import run_facts
from valor_gpu.evaluation.report.so_far import families_so_far
from valor_gpu.evaluation.results.thresholds import Threshold
from valor_gpu.store import Run, Store
from valor_gpu.store.progress import RunProgress, progress_of
from valor_gpu.web.processes.jobs import JOB
from valor_gpu.web.processes.progress_words import progress_words

POLL = 2
"""Seconds after which a page with scripts asks again how far a run is."""
REFRESH = 5
"""Seconds after which a page without scripts reads itself again."""

_FACTS = ("Data", "Target", "Judge", "Made")  # the others change, and stand with the progress


def progress_now(store: Store, run: Run) -> RunProgress | None:
    """How far a run is that goes on; None where an older version works on it.

    A process that has only begun has said nothing yet: what was kept is of an earlier part of the run.
    """
    found, job = progress_of(run), store.views.get(JOB, run.id)
    begun = 0.0 if job is None else float(job["at"])
    if found is None:
        if job is None or store.owner(run) is not None:
            return None
        return RunProgress(at=begun, total_rows=rows_of(run.config))
    if found.at < begun <= time.time():  # a process that began in the future began before the clock was set back
        found = replace(found, at=begun, phase="starting", in_flight=0, waiting=0, rate=None, eta=None)
    return found


def rows_of(config: Mapping[str, Any]) -> int | None:
    """Rows of the data set of a run, as far as its configuration knows."""
    found = (config.get("data") or {}).get("rows")
    return found if isinstance(found, int) else None


def asked_of(config: Mapping[str, Any]) -> str:
    """Who answers requests of a run, in words.

    Example:
        >>> asked_of({"judge": {"model": "m"}, "target": None}), asked_of({"judge": {}, "target": {"name": "bot"}})
        ('the judge', 'the target')
    """
    return " and ".join(f"the {name}" for name in ("target", "judge") if config.get(name))


def live_parts(
    run: Run,
    progress: RunProgress,
    infos: Sequence[Mapping[str, Any]],
    limits: Mapping[str, Threshold],
    data_name: str,
    link: Link,
) -> dict[str, Any]:
    """What the template of a run shows of one that goes on.

    Args:
        run: of the store.
        progress: of the run.
        infos: of its evaluators that have a card.
        limits: thresholds of those that have any.
        data_name: what people call its data.
        link: address of the rows behind a bar.
    """
    cards, _ = families_so_far(infos, progress, limits, len(infos), link)
    nothing = {"rows": {"n": progress.done_rows, "failed": {}}, "usage": {}, "cost": None, "seconds": None,
               "stopped": None}  # fmt: skip
    return {
        "progress": progress_words(progress, asked=asked_of(run.config)),
        "facts": [each for each in run_facts(run, nothing, data_name) if each[0] in _FACTS],
        "families": cards,
    }
