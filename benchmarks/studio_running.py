"""How long pages of a run take while it goes on, what an open page takes from the run, and the page once it has ended.

The run computes two metrics of texts in a process of its own, as Studio starts it. Its page and the list are asked for
one after the other, as a browser that has them open does; each page must show a number of rows that the run had between
the begin and the end of the request.
"""

from __future__ import annotations

import argparse
import http.client
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.baselines import OURS
from benchmarks.interleave import spread
from benchmarks.studio_server import server, timed

if TYPE_CHECKING:
    from valor_gpu.store import Run, Store

RUN, LIST, ENDED = "page of a run that goes on", "list with a run that goes on", "page of that run when it has ended"
LIMITS = {RUN: 0.3, LIST: 0.3, ENDED: 0.5}
"""Seconds that a page may take."""
ALONE, WATCHED = "the run itself, no page open", "the run itself, both pages read again and again"
PAUSE, QUICK_PAUSE = 2.0, 0.1
"""Seconds between two readings, as pages do it, and of a small run."""
METRICS = ("f1_score", "rougeL")
_ORDER = (False, True, True, False)
"""Whether pages are open in each of the runs: forwards and backwards."""
_TICK = 0.05
_LONGEST = 1800.0  # seconds of a run


class Seen(NamedTuple):
    """One page: its name, seconds, and what is wrong with it."""

    name: str
    seconds: float
    wrong: str


def write_data(path: Path, n: int) -> None:
    """Writes ``n`` rows whose answers share some words with their ground truths."""
    said = re.findall(r"\w+", "the ferry leaves at nine from the north quay and the fare is two crowns for each way")
    with path.open("w") as file:
        file.write("question,answer,ground_truth\n")
        for k in range(1, n + 1):
            turned = said[k % len(said) :] + said[: k % len(said)]
            file.write(f"What about {k}?,{' '.join(turned)},{' '.join(said[: 3 + k % 14])}\n")


def add_run(store: Store, data: Path) -> Run:
    """A run that nobody works on yet."""
    from valor_gpu.evaluation.engine.plan import make_plan
    from valor_gpu.evaluation.engine.settings import Settings

    settings = Settings(evaluation_name="large", data=str(data), metrics_list=list(METRICS))
    config = make_plan(settings, store).config
    return store.create_run("large", config.to_dict(), None, config.data["hash"])


def shown_rows(text: str, n: int) -> int | None:
    """The number of rows that a page says are done of ``n``."""
    bare = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    found = re.search(rf"([\d,]+) of {n:,} rows", bare)
    return None if found is None else int(found[1].replace(",", ""))


def problem(status: int, shown: int | None, before: int, after: int) -> str:
    """What is wrong with a page of a run that had ``before`` rows when it was asked for and ``after`` at its end."""
    if status == 200 and shown is not None and before <= shown <= after:
        return ""
    return f"status {status}, shows {shown} rows and not {before} to {after}"


class Watch:
    """Pages of a run, read while it goes on.

    Args:
        store: of the run.
        run: to read about.
        n: rows that it will have.
        connection: to the server.
        headers: that open it.
    """

    def __init__(
        self, store: Store, run: Run, n: int, connection: http.client.HTTPConnection, headers: dict[str, str]
    ) -> None:
        self.store, self.run, self.n, self._connection, self._headers = store, run, n, connection, headers
        self.seen: list[Seen] = []

    def read(self) -> None:
        """Reads both pages once; nothing counts unless the run went on before and afterwards."""
        for name, path in ((RUN, f"/runs/{self.run.id}"), (LIST, "/runs")):
            before = self._done()
            seconds, status, text = timed(self._connection, self._headers, path)
            after = self._done()
            if before is not None and after is not None:
                self.seen.append(Seen(name, seconds, problem(status, shown_rows(text, self.n), before, after)))

    def _done(self) -> int | None:
        from valor_gpu.store.progress import progress_of

        found = progress_of(self.run)
        is_going_on = found is not None and found.total_rows is not None and found.phase != "ending"
        return found.done_rows if found is not None and is_going_on and not self.has_ended() else None

    def has_ended(self) -> bool:
        """Whether the run has ended."""
        return self.store.finished_at(self.run) is not None

    def work(self, pause: float | None) -> float:
        """Lets a process do the run, reads pages every ``pause`` seconds unless None; returns its seconds."""
        from valor_gpu.web.processes import jobs

        begin = time.perf_counter()
        jobs.start(self.store, self.run.id)
        due = begin + (pause or 0.0)
        while not self.has_ended():
            if pause is not None and time.perf_counter() >= due:
                self.read()
                due = time.perf_counter() + pause
            time.sleep(_TICK)
            if time.perf_counter() - begin > _LONGEST:
                raise RuntimeError(f"the run has not ended after {_LONGEST:.0f} seconds")
        return time.perf_counter() - begin

    def read_ended(self, repeats: int) -> list[Seen]:
        """Reads the page of the run that has ended; the first reading does not count."""
        found = []
        for _ in range(repeats + 1):
            seconds, status, text = timed(self._connection, self._headers, f"/runs/{self.run.id}")
            first = [int(number) for number in re.findall(r'<tr id="r(\d+)"', text)[:3]]
            is_right = status == 200 and first == [1, 2, 3] and f"{self.n:,}" in text
            found.append(Seen(ENDED, seconds, "" if is_right else f"status {status}, shows rows {first}"))
        return found[1:]


def measure(size: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of the pages, and of the run with and without them."""
    from valor_gpu.store import Store

    seen: list[Seen] = []
    times: dict[str, list[float]] = {ALONE: [], WATCHED: []}
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder) / "rows.csv", size)
        for number, is_watched in enumerate(_ORDER):
            path = Path(folder) / f"store{number}.sqlite"
            with Store(path) as store, server(path) as (connection, headers):
                watch = Watch(store, add_run(store, Path(folder) / "rows.csv"), size, connection, headers)
                pause = QUICK_PAUSE if arguments.quick else PAUSE
                times[WATCHED if is_watched else ALONE].append(watch.work(pause if is_watched else None))
                seen += watch.seen
                seen += watch.read_ended(arguments.repeats) if is_watched else []
    return [*(_page(size, name, seen) for name in LIMITS), *(_times(size, name, times[name]) for name in times)]


def _row(size: int, name: str) -> dict[str, Any]:
    return {"case": "running", "size": size, "path": name, "tool": OURS, "package": "valor_gpu"}


def _page(size: int, name: str, seen: list[Seen]) -> dict[str, Any]:
    pages = [each for each in seen if each.name == name]
    wrong = [each.wrong for each in pages if each.wrong]
    if wrong or not pages:
        return {**_row(size, name), "status": "mismatch", "reason": wrong[0] if wrong else "no page was read in time"}
    seconds = [each.seconds for each in pages]
    return {
        **_row(size, name),
        "status": "ok",
        "seconds": spread(seconds),
        "first_seconds": seconds[0],
        "limit_seconds": LIMITS[name],
    }


def _times(size: int, name: str, seconds: list[float]) -> dict[str, Any]:
    return {**_row(size, name), "status": "ok", "seconds": spread(seconds), "first_seconds": seconds[0]}
