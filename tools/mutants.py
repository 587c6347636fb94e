"""``python -m tools.mutants``: the power of the tests, as ``make mutants`` runs it.

Puts each fault of tools/mutants.txt alone into a copy of the checkout and runs the tests of its room there, at most 60
CPU seconds: a test that fails has killed the mutant. First these tests must pass without it. A mutant that reaches the
limit lives, since no test has failed. The exit code is 1 if a mutant could not be tried, not if one lives.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from tools import mutant_page
from tools.bounded_run import Ended, run_bounded
from tools.mutant_copy import Copy
from tools.mutant_table import TABLE, Mutant, read_table

ROOT = Path(__file__).parent.parent
CPU_SECONDS, CLOCK_SECONDS = 60.0, 240.0
"""Limits of a run of tests; without a mutant they may take twice as many CPU seconds, since machines differ."""
BUILD_SECONDS = 1200.0
# The order is fixed, so that two runs of one mutant meet the same first failure.
PYTEST = ("-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:randomly", "--tb=no", "-rfE")
KILLED, ALIVE, AT_LIMIT, NOT_RUN = "killed", "alive", "alive at the limit", "not run"
TAIL = 20
"""So many lines are shown of a run that must not fail."""


@dataclass(frozen=True)
class Fate:
    """What became of a mutant.

    Attributes:
        name: of the mutant.
        room: the part of the code that it is in.
        outcome: one of the words above.
        cpu: seconds of the tests.
        told: the test that failed, which limit was reached, or why the mutant was not run.
    """

    name: str
    room: str
    outcome: str
    cpu: float
    told: str


def fate_of(mutant: Mutant, ended: Ended) -> Fate:
    """Reads what pytest's exit code and its summary say."""
    if ended.limit:
        return Fate(mutant.name, mutant.room, AT_LIMIT, ended.cpu, f"at the limit of the {ended.limit}")
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ended.output, re.MULTILINE)
    if ended.status < 0:
        return Fate(mutant.name, mutant.room, KILLED, ended.cpu, f"the process, by signal {-ended.status}")
    if ended.status in (1, 2) and failed:
        return Fate(mutant.name, mutant.room, KILLED, ended.cpu, failed[1])
    if ended.status == 0:
        return Fate(mutant.name, mutant.room, ALIVE, ended.cpu, "")
    return Fate(mutant.name, mutant.room, NOT_RUN, ended.cpu, f"pytest ended with {ended.status}:\n{_tail(ended)}")


def _tail(ended: Ended) -> str:
    return "\n".join(ended.output.rstrip().splitlines()[-TAIL:])


class Trial:
    """Runs tests in a copy of the checkout.

    Args:
        copy: the copy.
        stop: ends what runs when it is set.
        cpu_seconds: limit of the tests of a mutant.
    """

    def __init__(self, copy: Copy, stop: threading.Event, cpu_seconds: float) -> None:
        self._copy, self._stop, self._limit = copy, stop, cpu_seconds
        chosen = {"VALOR_GPU_CPU": "1", "VALOR_GPU_CUDA": "0", "CUDA_VISIBLE_DEVICES": ""}  # the CPU alone, everywhere
        self._variables = {**os.environ, **chosen, "PYTHONPATH": str(copy.folder)}

    def _run(self, arguments: Sequence[str], cpu_seconds: float, clock_seconds: float) -> Ended:
        command = [sys.executable, *arguments]
        return run_bounded(command, self._copy.folder, self._variables, cpu_seconds, clock_seconds, self._stop)

    def fates(self, mutants: Sequence[Mutant]) -> Iterator[Fate]:
        """Tries mutants that share their tests."""
        if missing := self._copy.missing(mutants[0].tests):
            print(f"not in these tests, and left out: {' '.join(missing)}", flush=True)
        tests = [part for part in mutants[0].tests if part not in missing]
        if not any(self._copy.is_path(part) for part in tests):
            yield from (Fate(each.name, each.room, ALIVE, 0.0, "there are no tests") for each in mutants)
            return
        whole = self._run([*PYTEST, *tests], 2 * self._limit, 2 * CLOCK_SECONDS)
        if whole.status or whole.limit:
            why = f"without a mutant these tests must pass, {' '.join(tests)}, but ended with"
            why = f"{why} {f'the limit of the {whole.limit}' if whole.limit else whole.status}:\n{_tail(whole)}"
            yield from (Fate(each.name, each.room, NOT_RUN, whole.cpu, why) for each in mutants)
            return
        for each in mutants:
            if not self._stop.is_set():
                yield self._fate(each, tests)

    def _fate(self, mutant: Mutant, tests: Sequence[str]) -> Fate:
        with self._copy.holding(mutant):
            if mutant.is_native and (trouble := self._build()):
                return Fate(mutant.name, mutant.room, NOT_RUN, 0.0, trouble)
            return fate_of(mutant, self._run([*PYTEST, *tests], self._limit, CLOCK_SECONDS))

    def _build(self) -> str:
        """Builds the C++ library; returns why the mutant cannot be tried, or nothing."""
        built = self._run(["setup.py", "-q", "build_ext", "--inplace"], BUILD_SECONDS, BUILD_SECONDS)
        if built.status or built.limit:
            return f"the C++ library was not built:\n{_tail(built)}"
        return "" if self._copy.has_another_library() else "the C++ library is the same with it as without"


def jobs_of(mutants: Sequence[Mutant]) -> list[list[list[Mutant]]]:
    """Groups that share their tests, in jobs: those of the C++ library in one, so that one copy is built, and first."""
    groups: dict[tuple[bool, tuple[str, ...]], list[Mutant]] = {}
    for each in mutants:
        groups.setdefault((each.is_native, each.tests), []).append(each)
    native = [group for (is_native, _), group in groups.items() if is_native]
    others = sorted((group for (is_native, _), group in groups.items() if not is_native), key=len, reverse=True)
    return [*([native] if native else []), *([group] for group in others)]


def try_all(
    mutants: Sequence[Mutant], root: Path, tests_from: str | None, processes: int, cpu_seconds: float
) -> list[Fate]:
    """Tries mutants, several at once, each process in a copy of its own; returns their fates in order of the table."""
    queue: SimpleQueue[list[list[Mutant]]] = SimpleQueue()
    jobs = jobs_of(mutants)
    for job in jobs:
        queue.put(job)
    stop = threading.Event()
    fates: dict[str, Fate] = {}

    def work(folder: Path) -> None:
        trial = Trial(Copy.of(root, folder, tests_from), stop, cpu_seconds)
        while not stop.is_set():
            try:
                job = queue.get_nowait()
            except Empty:
                return
            for fate in (fate for group in job for fate in trial.fates(group)):
                fates[fate.name] = fate
                print(f"{fate.outcome:18}  {fate.name}  {fate.told}", flush=True)
                if stop.is_set():
                    return

    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folders = [Path(scratch, str(number)) for number in range(max(1, min(processes, len(jobs))))]
        _all_at_once(work, folders, stop)
    return [fates[each.name] for each in mutants if each.name in fates]


def _all_at_once(work: Callable[[Path], None], folders: Sequence[Path], stop: threading.Event) -> None:
    """Calls ``work`` with each folder in a thread of its own; an interrupt or an error ends all of them."""
    with ThreadPoolExecutor(len(folders)) as pool:
        try:
            begun = [pool.submit(work, folder) for folder in folders]
            for done in wait(begun, return_when=FIRST_EXCEPTION).done:
                done.result()
        finally:
            stop.set()


def summary(fates: Sequence[Fate]) -> str:
    """A line per mutant and how many there are of each outcome."""
    width = max((len(fate.name) for fate in fates), default=0)
    lines = [
        f"{fate.name:{width}}  {fate.outcome:18}  {fate.cpu:5.1f} s  {fate.told.splitlines()[0] if fate.told else ''}"
        for fate in fates
    ]
    counts = {word: sum(fate.outcome == word for fate in fates) for word in (KILLED, ALIVE, AT_LIMIT, NOT_RUN)}
    return "\n".join([*lines, ", ".join(f"{count} {word}" for word, count in counts.items())])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser("python -m tools.mutants", allow_abbrev=False)
    parser.add_argument("--only", metavar="NAME", nargs="+", help="mutants to try; default: all")
    parser.add_argument(
        "--tests-from", metavar="COMMIT", help="take tests/ and testing/ from there, and all else from here"
    )
    parser.add_argument(
        "--processes", type=int, default=2, metavar="N", help="so many at once (default: %(default)s; 0 is 1)"
    )
    parser.add_argument("--cpu-seconds", type=float, default=CPU_SECONDS, metavar="S", help="default: %(default)g")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the outcomes there")
    parser.add_argument(
        "--fill",
        nargs=2,
        metavar=("COLUMN", "FILE"),
        help="write the outcomes of a JSON file into the table of the design note, as before or after",
    )
    options = parser.parse_args(argv)
    mutants = read_table(TABLE.read_text())
    if options.fill:
        return mutant_page.fill(ROOT / mutant_page.PAGE, options.fill[0], Path(options.fill[1]), mutants)
    if unknown := set(options.only or ()) - {each.name for each in mutants}:
        parser.error(f"--only must name mutants of {TABLE.name} but got {' '.join(sorted(unknown))}")
    for each in mutants:
        each.mutated((ROOT / each.path).read_text())
    chosen = [each for each in mutants if not options.only or each.name in options.only]
    begin = time.monotonic()
    fates = try_all(chosen, ROOT, options.tests_from, options.processes, options.cpu_seconds)
    print(f"\n{summary(fates)}\n{time.monotonic() - begin:.0f} seconds")
    if options.json:
        options.json.write_text(
            json.dumps({"tests": options.tests_from, "mutants": list(map(asdict, fates))}, indent=1) + "\n"
        )
    return int(len(fates) < len(chosen) or any(fate.outcome == NOT_RUN for fate in fates))


if __name__ == "__main__":
    # What a script starts in the background ignores interrupts, and so would tests that send themselves some.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main())
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
