"""How long pages of Studio take: of 1,000 runs, of a run of 100,000 rows, and of one that goes on.

Time is that of a whole request over loopback to a server process, the page read to its end. A page gets a number only
if it shows the rows that it must.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine, studio_running
from benchmarks.baselines import OURS
from benchmarks.interleave import spread
from benchmarks.studio_server import server, timed

CASES = {"runs": 1_000, "rows": 100_000, "running": 100_000}
"""Runs of the list; rows of the one run, and of the one that goes on."""

PACKAGES = ("valor_gpu", "starlette", "jinja2", "uvicorn")
LIMIT = 0.1
"""Seconds that a page may take."""
FIRST = 0.25
"""Seconds that the first page after a new question may take; the charts of a page that nobody has read yet 0.5."""
_QUICK = 0.01
_RARE = 997
"""Every so many rows have the word that is looked for, and the lowest score."""
PAGE = 25
_SAID = tuple(
    re.findall(r"\w+", "the ferry leaves at nine from the north quay and the fare is two crowns for each way")
)


class Shown(NamedTuple):
    """A page: its name in the table, its address, and the numbers of its first rows, or the count of runs."""

    name: str
    path: str
    first: list[int]


def fill_runs(path: Path, n: int) -> list[Shown]:
    """A store of ``n`` runs with three metrics each."""
    from valor_gpu.store import Store

    infos = [{"name": name, "summary_name": f"mean_{name}", "low": 0, "high": 1} for name in ("f1", "bleu", "rouge")]
    with Store(path) as store:
        for k in range(n):
            run = store.create_run(f"run {k}", {"version": 1, "evaluators": infos, "data": {"source": "d.csv"}})
            with run.lease():
                run.finish("finished", {"metrics": {info["summary_name"]: k / n for info in infos}})
    newest = min(n, 100)
    return [Shown("list, newest first", "/runs", [newest]), Shown("list, by a metric", "/runs?sort=-mean_f1", [newest])]


def fill_rows(path: Path, n: int) -> list[Shown]:
    """A store with one finished run of ``n`` rows of 60 words and three scores each."""
    from valor_gpu.evaluation.results.summary import run_summary
    from valor_gpu.store import Store, StoredRow, StoredScore

    infos = [{"name": name, "kind": "text", "low": 0, "high": 1} for name in ("f1", "bleu", "rouge")]
    with Store(path) as store:
        run = store.create_run("large", {"version": 1, "evaluators": infos, "data": {"source": "d.csv", "rows": n}})
        with run.lease():
            for start in range(1, n + 1, 1_000):
                numbers = range(start, min(start + 1_000, n + 1))
                run.add_rows([StoredRow(k, f"k{k}", _texts(k)) for k in numbers])
                for info in infos:
                    run.add_scores([StoredScore(k, str(info["name"]), 0, _score(k)) for k in numbers])
            run.finish("finished", run_summary(run))
        page, deep = f"/runs/{run.id}", n - 20 * PAGE
    return _pages_of_rows(page, deep, n)


def _pages_of_rows(page: str, deep: int, n: int) -> list[Shown]:
    rare = list(range(_RARE, n + 1, _RARE))
    lowest = sorted(range(1, n + 1), key=_score)
    middle = [k for k in range(1, n + 1) if 0.25 <= _score(k) < 0.5]
    last = (n - 1) // PAGE * PAGE
    two = "if=f1:at_least:0.25&if=bleu:between:0.1..0.5"
    return [
        Shown("first page, with charts", page, [1, 2, 3]),
        Shown("deep page", f"{page}?at={deep}", [deep + 1, deep + 2, deep + 3]),
        Shown("last page", f"{page}?at={last}", list(range(last + 1, n + 1))[:3]),
        Shown("by score, lowest first", f"{page}?sort=f1", lowest[:3]),
        Shown("by score, last page", f"{page}?sort=f1&at={last}", lowest[last : last + 3]),
        Shown("two conditions", f"{page}?{two}", middle[:3]),
        Shown("two conditions, by score", f"{page}?{two}&sort=-rouge", sorted(middle, key=_by_score)[:3]),
        Shown("search of a rare word", f"{page}?q=lighthouse", rare[:3]),
        Shown("search of a common word", f"{page}?q=ferry", [1, 2, 3]),
        Shown("search of a common word, by score", f"{page}?q=ferry&sort=f1", lowest[:3]),
        Shown("search without a hit", f"{page}?q=submarine", []),
    ]


def _by_score(k: int) -> tuple[float, int]:
    """The highest score first, and equal ones from the last row."""
    return -_score(k), -k


def _texts(k: int) -> dict[str, str]:
    words = _SAID[k % len(_SAID) :] + _SAID[: k % len(_SAID)]
    answer = " ".join((words * 4)[:60])
    return {"question": f"What about {k}?", "answer": f"{answer} lighthouse" if k % _RARE == 0 else answer}


def _score(k: int) -> float:
    return 0.0 if k % _RARE == 0 else (1 + k * 7919 % 1_000) / 1_001


def shown_numbers(page: str, path: str) -> list[int]:
    """Numbers of the first rows of a page, or of a list how many runs it has."""
    if path.startswith("/runs?") or path == "/runs":
        return [len(re.findall(r'name="runs"', page))]
    return [int(number) for number in re.findall(r'<tr id="r(\d+)"', page)[:3]]


def measure(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of all pages of a case, the pages in turn."""
    size = int(CASES[name] * _QUICK) if arguments.quick else CASES[name]
    if name == "running":
        return studio_running.measure(max(size, 5_000), arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.sqlite"
        pages = (fill_runs if name == "runs" else fill_rows)(store, max(size, 1_000 if name == "rows" else 10))
        with server(store) as (connection, headers):
            runs: dict[str, list[tuple[float, int, str]]] = {page.name: [] for page in pages}
            for _ in range(arguments.repeats + 1):
                for page in pages:
                    runs[page.name].append(timed(connection, headers, page.path))
    return [_row(name, size, page, runs[page.name]) for page in pages]


def _row(case: str, size: int, page: Shown, runs: list[tuple[float, int, str]]) -> dict[str, Any]:
    row = {"case": case, "size": size, "path": page.name, "tool": OURS, "package": "valor_gpu"}
    for _, status, text in runs:
        found = shown_numbers(text, page.path)
        if status != 200 or found != page.first:
            return {**row, "status": "mismatch", "reason": f"status {status}, shows {found} and not {page.first}"}
    seconds = [each for each, _, _ in runs[1:]]
    return {**row, "status": "ok", "seconds": spread(seconds), "first_seconds": runs[0][0], "bytes": len(runs[0][2])}


def benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases asked for, as the JSON that is stored."""
    names = list(CASES) if arguments.case == "all" else [arguments.case]
    found = [row for name in names for row in measure(name, arguments)]
    choices = {"quick": arguments.quick, "repeats": arguments.repeats}
    return {"kind": "studio", **machine.describe(PACKAGES), **choices, "rows": found}


def report(results: list[dict[str, Any]]) -> str:
    """A Markdown table of the newest result, and how it was measured."""
    result = results[-1]
    lines = ["| page of Studio | milliseconds, median | slowest | the first time |", "| --- | --- | --- | --- |"]
    for row in result["rows"]:
        what = f"{row['size']:,} {row['case']}: {row['path']}"
        cells = [row["seconds"]["median"], row["seconds"]["max"], row["first_seconds"]] if row["status"] == "ok" else []
        shown = [f"{1_000 * each:.0f}" for each in cells] or [str(row["status"]), "", ""]
        lines.append(f"| {what} | {' | '.join(shown)} |")
    about, versions = result["machine"], result["versions"]
    return "\n".join(lines) + (
        f"\n\nWhole requests over loopback to a server process, {result['repeats']} of each page in turn after a first"
        f" one; each page showed the rows that it must. {about['cpus']} CPUs, {about['processor']}, Python"
        f" {about['python']}, starlette {versions['starlette']}, uvicorn {versions['uvicorn']}. Commit"
        f" {result['commit'][:10]}, {result['date'][:10]}."
    )
