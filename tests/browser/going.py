"""``python -m tests.browser.going STORE``: a process that works on a run of 500 rows, as far as its input says.

A line ``new`` begins a run and is answered by its id, when no other one goes on. ``rows 5`` scores five rows more,
``wait 3`` lets three requests wait for a retry, ``end finished`` and ``end stopped REASON`` end the run, and
``leave`` leaves it as it is; each of them is answered when the store has it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Run, Store, StoredRow, StoredScore
from valor_gpu.store.progress import RunProgress, keep

ROWS = 500
INFOS: list[dict[str, Any]] = [
    {"name": "gpt_fluency", "kind": "quality", "low": 1, "high": 5, "higher_is_better": True},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7, "higher_is_better": False},
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
]
VALUES = {"gpt_fluency": (1.0, 5.0, 4.0), "violence": (0.0, 4.0, 0.0), "f1_score": (0.25, 0.5, 1.0)}
PROBLEM = "http://127.0.0.1:9/v1 answered HTTP 500: the model is overloaded"


def sums(name: str, done: int) -> dict[str, Any]:
    """What the process of a run says of an evaluator after so many rows."""
    values = [VALUES[name][n % 3] for n in range(done)]
    bins: dict[str, Any] | None = None
    if name == "gpt_fluency":
        bins = {"edges": [1, 1.5, 2.5, 3.5, 4.5, 5], "counts": [values.count(float(n)) for n in range(1, 6)]}
    elif name == "f1_score":
        edges = [n / 20 for n in range(21)]
        bins = {"edges": edges, "counts": [sum(int(min(v * 20, 19)) == n for v in values) for n in range(20)]}
        bins |= {"zeros": 0, "ones": values.count(1.0)}
    levels = None
    if name == "violence":
        levels = {"Very low": values.count(0.0), "Low": 0, "Medium": values.count(4.0), "High": 0}
    return {
        "n": done,
        "sum": sum(values),
        "n_scores": done,
        "least": min(values, default=None),
        "most": max(values, default=None),
        "failed": {"parse_error": 2} if name == "gpt_fluency" and done > 10 else {},
        "bins": bins,
        "levels": levels,
        "n_passed": values.count(0.0) if name == "violence" else None,
    }


def progress(done: int, waiting: int = 0, phase: str = "asking") -> RunProgress:
    """How far the run is after so many rows."""
    return RunProgress(
        at=time.time(), phase=phase, total_rows=ROWS, done_rows=done, total_scores=3 * ROWS, done_scores=3 * done,
        failed_scores={"parse_error": 2} if done > 10 else {}, seconds=38.0, rate=3.14, eta=(ROWS - done) / 3.14,
        in_flight=8 - waiting, concurrency=8, waiting=waiting,
        retries={"server_error": 20, "rate_limited": 9} if waiting else {},
        problem=PROBLEM if waiting else "", problem_at=time.time() - 12 if waiting else None, attempts=2 * done,
        tokens={"prompt": 900 * done, "completion": 80 * done, "cached": 0}, cost=0.0011 * done, currency="USD",
        evaluators={each["name"]: sums(str(each["name"]), done) for each in INFOS},
    )  # fmt: skip


def score(run: Run, first: int, last: int) -> None:
    """Keeps rows with their scores."""
    numbers = range(first, last + 1)
    run.add_rows(StoredRow(n, f"k{n}", {"question": f"What is {n}?"}, {"answer": f"It is {n}."}) for n in numbers)
    run.add_scores(
        StoredScore(n, name, 0, values[(n - 1) % 3], reason="It is so.")
        for n in numbers
        for name, values in VALUES.items()
    )


def work_on(run: Run, lines: Iterator[str]) -> None:
    """Works on a run as lines say, until it is ended or left."""
    done = 0
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "rows":
            score(run, done + 1, done + int(rest))
            done += int(rest)
            keep(run, progress(done))
        elif word == "wait":
            keep(run, progress(done, int(rest), "waiting"))
        elif word == "end":
            state, _, reason = rest.partition(" ")
            run.finish(state, run_summary(run, seconds=40.0, stopped=reason or None))
        print("done", flush=True)
        if word in ("end", "leave"):
            return


def main(path: str) -> None:
    """Works on runs as its input says."""
    with Store(path) as store:
        for line in sys.stdin:
            if line != "new\n":
                print("done", flush=True)
                continue
            run = store.create_run("goes on", {"version": 1, "evaluators": INFOS, "data": {"source": "x.csv"}})
            with run.lease():
                print(run.id, flush=True)
                work_on(run, sys.stdin)


@dataclass
class Going:
    """A run that goes on.

    Attributes:
        process: that works on it.
        id: of the run.
    """

    process: Popen[str]
    id: str

    def tell(self, line: str) -> None:
        """Lets the process do what a line says, and waits until the store has it."""
        assert self._said(line) == "done"

    def begin(self) -> None:
        """Leaves the run, if it goes on, for another one."""
        self.tell("leave")
        self.id = self._said("new")

    def _said(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def going(store: Path) -> Iterator[Going]:
    """A run of a store that goes on as it is told, in a process of its own."""
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-m", "tests.browser.going", str(store)]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=root) as process:
        found = Going(process, "")
        try:
            found.begin()
            yield found
        finally:
            process.kill()


if __name__ == "__main__":
    main(sys.argv[1])
