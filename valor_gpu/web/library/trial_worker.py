"""The process of trials: ``python -m valor_gpu.web.library.trial_worker``.

Each line of its input is a trial, and each of its output what came of it, as JSON. It ends when its input does, at once
and whatever it is doing.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from valor_gpu.evaluation.evaluators.base import Outcome
from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.stats.paired import PairedDifference
from valor_gpu.store import Store
from valor_gpu.web.library.trials import Trial, make_evaluator, problem_of, try_on
from valor_gpu.web.library.version_trials import Pair, VersionTrial, try_versions
from valor_gpu.web.processes.trial_pool import AHEAD, MOST_MEMORY, MOST_SECONDS, OUT_OF_MEMORY
from valor_gpu.web.registry import Registry


def main() -> int:
    """Answers trials until the input ends."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as answers:
        os.dup2(2, 1)  # what else is printed is no answer
        if AHEAD in sys.argv:
            _import_ahead()
        _limit_memory()
        jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(jobs,), name="jobs", daemon=True).start()
        while True:
            line = jobs.get()
            _limit_time()
            answers.write(answer(json.loads(line)) + "\n")
            answers.flush()


def _read(jobs: queue.SimpleQueue[bytes]) -> None:
    with open(0, "rb", closefd=False) as lines:
        for line in lines:
            jobs.put(line)
    os._exit(0)  # the server is gone, and nobody waits for what goes on here


def _import_ahead() -> None:
    for name in ("jinja2", "openai"):
        with contextlib.suppress(ImportError):  # which the trial says, if it needs it
            importlib.import_module(name)


def _limit_memory() -> None:
    """Keeps this process to so much more memory than it has now, where the system tells that."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MOST_MEMORY
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + MOST_SECONDS, hard))


def answer(job: Mapping[str, Any]) -> str:
    """Returns what came of a trial as JSON: ``found``, or the ``problem`` in words."""
    try:
        return json.dumps({"found": asdict(_TRIALS[job["kind"]](job))})
    except MemoryError:
        return json.dumps({"problem": OUT_OF_MEMORY})
    except Exception as error:  # whatever a judge or a template raises belongs on the page
        return json.dumps({"problem": _in_words(problem_of(error))})


def _one_row(job: Mapping[str, Any]) -> Trial:
    name = job["name"]
    with Store(job["store"]) as store:
        made = make_evaluator(store, name, EVALUATORS[name] if job["number"] is None else None, job["number"])
    return try_on(made, job["texts"], Registry(judges=job["judges"]), job["judge"])


def _versions(job: Mapping[str, Any]) -> VersionTrial:
    with Store(job["store"]) as store:
        old, new = job["numbers"]
        run = store.run(job["run"])
        return try_versions(store, job["name"], (old, new), run, Registry(judges=job["judges"]), job["judge"])


_TRIALS: dict[str, Callable[[Mapping[str, Any]], Trial | VersionTrial]] = {"row": _one_row, "versions": _versions}


def _in_words(text: str) -> str:
    return OUT_OF_MEMORY if "MemoryError" in text else text


def trial_of(found: Mapping[str, Any]) -> Trial:
    """Returns the trial of a row that :func:`answer` found."""
    tokens = found["tokens"]
    return Trial(
        **{**found, "outcome": _outcome(found["outcome"]), "tokens": None if tokens is None else tuple(tokens)}
    )


def version_trial_of(found: Mapping[str, Any]) -> VersionTrial:
    """Returns the trial of two versions that :func:`answer` found."""
    pairs = [Pair(**{**each, "old": _outcome(each["old"]), "new": _outcome(each["new"])}) for each in found["pairs"]]
    compared = PairedDifference(**found["compared"])
    return VersionTrial(pairs, compared, (found["tokens"][0], found["tokens"][1]), found["high"])


def _outcome(found: list[Any]) -> Outcome:
    value, status, reason, level, details, parts = found
    inner = None if parts is None else {name: _outcome(each) for name, each in parts.items()}
    return Outcome(value, status, _in_words(reason), level, details, inner)


if __name__ == "__main__":
    sys.exit(main())
