"""Reads damaged inputs of every reader with the sanitized library.

    python -m tests.native.damaged 10000                      each reader with the seeds 0 to 9,999
    python -m tests.native.damaged 500 --first 10000 --readers polygons panoptic
    python -m tests.native.damaged 500 --plain                with the library that is installed

Each line tells of a reader how many inputs were read with the values of another reader, how many were refused with a
message, and how many were wrong: another value, another error, a report of a sanitizer, too much memory, a hang. Of
the wrong ones the seeds are printed, by which ``--first`` repeats them.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

LONGEST = 120
"""Seconds after which an input counts as one that hangs; the slowest take two."""
MOST_MEMORY = 1 << 30
"""Bytes that an input may add to the largest resident memory: a small PNG may stand for 2**28 numbers of 16 bits."""
_MOST_DEATHS = 20


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read_range(name: str, first: int, stop: int, progress: Path) -> None:
    """Reads the inputs of a range of seeds, and prints what came of them, a line each and the counts as JSON."""
    from tests.damaged_files import outcome

    warnings.simplefilter("ignore")
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, stop):
            progress.write_text(f"{seed} {json.dumps(found)}")
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            peak = _peak()
            try:
                kind = outcome(name, seed, Path(folder))
            except AssertionError as error:
                kind, more = "wrong", str(error)
                print(f"{name} {seed}: {more:.500}".replace("\n", " "), flush=True)
            if _peak() - peak > MOST_MEMORY:
                kind = "wrong"
                print(f"{name} {seed}: {(_peak() - peak) >> 20} MiB more than before", flush=True)
            found[kind] += 1
    faulthandler.cancel_dump_traceback_later()
    progress.write_text(f"{stop} {json.dumps(found)}")


def _run(arguments: list[str], plain: bool, report: Path) -> subprocess.CompletedProcess[str]:
    from tests.native.test_sanitized import run_with_sanitizers

    if not plain:
        return run_with_sanitizers(report, *arguments)
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def check(name: str, first: int, stop: int, plain: bool) -> int:
    """Reads a range of seeds in processes of their own; returns how many inputs are wrong."""
    from tests.native.test_sanitized import reports

    total: collections.Counter[str] = collections.Counter()
    begin = first
    with tempfile.TemporaryDirectory() as folder:
        for death in range(_MOST_DEATHS):
            progress, report = Path(folder) / "progress", Path(folder) / f"report{death}"
            inside = [str(stop - first), "--inside", str(progress), "--first", str(first), "--readers", name]
            plainly = ["--plain"] if plain else []
            run = _run(["-m", "tests.native.damaged", *inside, *plainly], plain, report)
            if not progress.exists():
                raise SystemExit(f"{name}: {run.stderr[-3000:]}")
            at, counts = progress.read_text().split(" ", 1)
            total.update(json.loads(counts))
            print(run.stdout, end="")
            if run.returncode == 0:
                break
            print(f"{name} {at}: ended with {run.returncode}\n{run.stderr[-3000:]}{reports(report)}", flush=True)
            total["wrong"] += 1
            first = int(at) + 1
    print(f"{name}: seeds {begin} to {stop - 1}: {dict(sorted(total.items()))}", flush=True)
    return total["wrong"]


def main() -> int:
    """Returns 1 if an input is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.damaged", description=__doc__)
    parser.add_argument("count", type=int, help="inputs of each reader")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--readers", nargs="+", help="names; default: all")
    parser.add_argument("--plain", action="store_true", help="without sanitizers")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    stop = options.first + options.count
    if options.inside:
        if not options.plain:
            from tests.native.sanitized import serve_sanitized
            from tests.native.sim import sanitized_cpu

            serve_sanitized()
            sanitized_cpu()  # built here, which takes longer than an input may
        read_range(options.readers[0], options.first, stop, Path(options.inside))
        return 0
    from tests.damaged_files import READERS

    os.environ["OMP_NUM_THREADS"] = "1"
    wrong = [check(name, options.first, stop, options.plain) for name in options.readers or READERS]
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
